"""How a pipeline's process ends: stopped as from a terminal or by a service, killed, or at a topic that is another."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from foreign import create_topic, wait_led
from kafka_peer import wait_until
from processes import children, descendants, is_there
from pyspark.sql import SparkSession

from moldau.admin.pipeline import pipeline as commands
from moldau.pipeline.folder import PipelineFolder
from moldau.pipeline.reading import load
from moldau.spark import session

PATIENCE_S = 400
COMMAND = [sys.executable, "-c", "from moldau.admin.main import main; main()", "pipeline"]


class Plain:
    """A pipeline without stages over a topic of one partition."""

    def __init__(self, bootstrap: str, folder: Path, topic: str) -> None:
        self.bootstrap, self.topic, self.file = bootstrap, topic, folder / "plain.yaml"
        self.begun: list[subprocess.Popen[str]] = []
        self.make()
        self.file.write_text(
            f"pipeline: {topic}\ncluster: {bootstrap}\nfolder: state\nsource: {{topics: {topic}}}\n"
            "decode: {format: raw}\nsinks: [{table: plain}]\nevery: 500ms\n"
        )

    def make(self) -> None:
        create_topic(self.bootstrap, self.topic, 1, 3)

    def write(self, count: int) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for number in range(count):
            producer.produce(self.topic, str(number).encode())
        assert producer.flush(120) == 0

    def begin(self) -> subprocess.Popen[str]:
        """The command in a process group of its own, as a shell starts it; killed at the latest with the test."""
        words = [*COMMAND, "run", str(self.file)]
        self.begun.append(subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True))
        return self.begun[-1]

    def end(self) -> None:
        for one in self.begun:
            one.kill()
            one.wait(PATIENCE_S)
            assert one.stderr is not None
            one.stderr.close()

    def folder(self) -> PipelineFolder:
        return PipelineFolder(load(self.file, {}))

    def said(self, *words: str) -> tuple[int, str]:
        found = CliRunner().invoke(commands, [words[0], str(self.file), *words[1:]])
        return found.exit_code, found.output


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[SparkSession]:
    """The session that commands find when they run in this process."""
    found = session("stops", folder=str(tmp_path / "spark"), conf={"spark.sql.shuffle.partitions": "1"})
    yield found
    found.stop()


@pytest.fixture
def plain(bootstrap_servers: str, tmp_path: Path, fresh: Callable[[str], str]) -> Iterator[Plain]:
    found = Plain(bootstrap_servers, tmp_path, fresh("plain"))
    yield found
    found.end()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_to_the_whole_group_stops_a_run_in_order_and_a_kill_ends_its_jvm(
    plain: Plain, which: signal.Signals
) -> None:
    plain.write(20)
    run, folder = plain.begin(), plain.folder()
    wait_until(lambda: folder.books.last() is not None, "the batch is in the books", PATIENCE_S, pause_s=0.5)
    jvms = children(run.pid)
    assert jvms
    if which is signal.SIGKILL:
        run.kill()
        run.wait(PATIENCE_S)
    else:
        os.killpg(run.pid, which)
        assert run.wait(PATIENCE_S) == 0
        state = folder.state()
        assert state is not None
        assert (state.state, state.message) == ("stopped", "")
        assert run.stderr is not None
        told = [line for line in run.stderr.read().splitlines() if not line.startswith("moldau.spark: ")]
        assert len(told) == 1, told
    wait_until(lambda: not any(map(is_there, jvms)), "the JVM is gone", PATIENCE_S, pause_s=0.5)


@pytest.mark.timeout(900)
def test_a_run_whose_java_process_is_killed_says_so_and_the_next_one_goes_on(plain: Plain) -> None:
    """It said "Connection refused", of nobody."""
    plain.write(3)
    process = plain.begin()
    wait_until(lambda: plain.folder().books.last() is not None, "a batch is written", PATIENCE_S)
    for pid in children(process.pid):
        os.kill(pid, signal.SIGKILL)
    assert process.wait(PATIENCE_S) == 1
    assert process.stderr is not None
    last = process.stderr.read().splitlines()[-1]
    assert last.startswith("moldau: Spark's Java process has ended: it was killed, or had no memory left"), last
    assert "has ended" in plain.said("status")[1]
    plain.write(2)
    plain.begin()

    def all_read() -> bool:
        newest = plain.folder().books.last()
        return newest is not None and newest.totals.read == 5

    wait_until(all_read, "the next run has gone on", PATIENCE_S)


@pytest.mark.timeout(900)
def test_a_service_that_is_stopped_process_by_process_has_stopped(plain: Plain) -> None:
    """As systemd does it: Spark's own processes are told too, in whatever order."""
    plain.write(20)
    run, folder = plain.begin(), plain.folder()
    wait_until(lambda: folder.books.last() is not None, "the batch is in the books", PATIENCE_S, pause_s=0.5)
    for pid in reversed(descendants(run.pid)):
        with contextlib.suppress(ProcessLookupError):  # a worker that Spark has ended meanwhile
            os.kill(pid, signal.SIGTERM)
    assert run.wait(PATIENCE_S) == 0
    state = folder.state()
    assert state is not None
    assert state.state == "stopped"
    assert run.stderr is not None
    assert "Traceback" not in run.stderr.read()


@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("spark")
def test_a_topic_that_is_made_anew_is_told_by_lag_and_run_whole_with_what_mends_it(plain: Plain) -> None:
    plain.write(20)
    assert plain.said("run", "--once")[0] == 0
    admin = AdminClient({"bootstrap.servers": plain.bootstrap})
    for done in admin.delete_topics([plain.topic]).values():
        done.result(PATIENCE_S)
    wait_led(plain.bootstrap, plain.topic, 0)  # it is gone, whichever broker is asked
    plain.make()
    plain.write(30)
    gone = f"{plain.topic}-0: the topic was deleted and made anew (position 20, found 0)"
    code, text = plain.said("lag", "-o", "json")
    assert code == 4, text
    assert f"{gone}: 30 offsets are unread" in text
    code, text = plain.said("run", "--once")
    assert code == 1, text
    for word in (gone, "`moldau pipeline reset FILE --to POSITION`", "onDataLoss"):
        assert word in text
    code, text = plain.said("status", "-o", "json")
    assert json.loads(text)["state"] == "failed"
    assert gone in json.loads(text)["message"]
    assert plain.said("reset", "--to", "earliest", "--yes")[0] == 0
    assert plain.said("run", "--once")[0] == 0
    code, text = plain.said("status", "--verify")
    assert (code, "50 read" in text) == (0, True), text
    (file, *_) = sorted((plain.file.parent / "plain").glob("batch-*/*.parquet"))
    file.unlink()
    code, text = plain.said("status", "--verify")
    assert (code, f"{file}: gone" in text) == (4, True), text
