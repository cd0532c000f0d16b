"""A run waits for a broker to be there, and says so."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from moldau.model import TopicPartition
from moldau.pipeline import running
from moldau.pipeline.batches import ForeachBatch, RefusedBatch
from moldau.pipeline.books import Count
from moldau.pipeline.reading import load, read_text
from moldau.pipeline.running import Ended, NoCluster, Runner
from moldau.pipeline.said import PartFailed
from moldau.pipeline.spec import OnError, Pipeline
from tests.packages.client.mini_cluster import MiniCluster, in_thread


class HasBegun(Exception):
    """Spark would be started now."""


def runner(tmp_path: Path, port: int, said: list[str], *, once: bool) -> Runner:
    head = f"pipeline: a\ncluster: 127.0.0.1:{port}\nfolder: {tmp_path / 'a'}\n"
    pipeline = read_text(head + "source: {topics: b}\nsinks: [{table: /t}]\n", {}).pipeline
    assert pipeline is not None

    def begin(pipeline: Pipeline) -> object:
        raise HasBegun

    return Runner(pipeline, once=once, say=said.append, session=begin)  # type: ignore[arg-type]  # it returns nothing


@contextmanager
def silent() -> Iterator[socket.socket]:
    """A socket whose port is nobody else's, and takes no connections until it listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound


def port_of(bound: socket.socket) -> int:
    return int(bound.getsockname()[1])


def test_one_round_ends_when_nobody_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "REACH_S", 0.1)
    said: list[str] = []
    with silent() as bound:
        port = port_of(bound)
        one = runner(tmp_path, port, said, once=True)
        with pytest.raises(NoCluster, match=f"no broker takes connections at 127.0.0.1:{port}"):
            one.run()
    assert said == [f"no broker takes connections at 127.0.0.1:{port}; it is waited for"]
    state = one.folder.state()
    assert state is not None
    assert state.state == "failed"


def test_one_round_ends_when_a_partition_of_its_source_stays_without_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It tried for 25 minutes, and said nothing."""
    monkeypatch.setattr(running, "REACH_S", 0.1)
    said: list[str] = []
    with in_thread(MiniCluster(1, {"b": 3, "other": 1})) as cluster:
        one = runner(tmp_path, int(cluster.bootstrap.rpartition(":")[2]), said, once=True)
        with pytest.raises(HasBegun):
            one.run()
        cluster.move(TopicPartition("b", 1), -1)
        cluster.move(TopicPartition("other", 0), -1)
        with pytest.raises(NoCluster, match="pipeline a: b-1: no leader, so no batch can be planned"):
            one.run()
    assert [text.endswith("it is waited for") for text in said] == [True]


def test_a_run_without_end_waits_until_somebody_is_there(tmp_path: Path) -> None:
    said: list[str] = []
    with silent() as bound:
        one = runner(tmp_path, port_of(bound), said, once=False)

        def hear(text: str) -> None:
            said.append(text)
            bound.listen()

        one._say = hear
        with pytest.raises(HasBegun):
            one.run()
    assert len(said) == 1


def test_a_run_that_waits_can_be_stopped(tmp_path: Path) -> None:
    with silent() as bound:
        one = runner(tmp_path, port_of(bound), [], once=False)
        one._say = lambda text: one.stop()
        assert one.run() is Ended.STOPPED


class Tried(ForeachBatch):
    """Batches of which the last was refused, failed, or neither."""

    def __init__(self, *, refused: RefusedBatch | None = None, failed: Exception | None = None) -> None:
        self.refused, self.failed = refused, failed


class Refusing(Runner):
    """A run whose records are refused until the file says ``skip``."""

    def _await_cluster(self, cluster: str) -> None:
        """Somebody is there."""

    def _await_leaders(self) -> None:
        """All lead."""

    def _batches(self) -> ForeachBatch:
        refused = RefusedBatch(Count("b", "pause", "decode", 1, "b-0@7", "no JSON"))
        return Tried(refused=refused)

    def _round(self, spark: SparkSession, batches: ForeachBatch) -> Ended | None:
        return Ended.DONE if self._pipeline.decode.on_error is OnError.SKIP else None


def test_a_file_that_is_half_edited_while_a_run_pauses_is_told_once_and_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "PAUSE_S", 0.01)
    whole = "pipeline: a\ncluster: c:1\nsource: {topics: b}\ndecode: {format: text}\nsinks: [{table: t}]\n"
    file, said = tmp_path / "a.yaml", list[str]()
    file.write_text(whole)
    edits: list[Callable[[], object]] = [
        lambda: file.write_text(whole.replace("sinks", "sin")),
        lambda: file.write_text(whole[: whole.index("sinks")]),  # it can be read, and would write nothing anywhere
        lambda: file.write_text(whole.replace("source", "folder: elsewhere\nsource")),
        file.unlink,
        lambda: file.write_text(whole.replace("text", "text, on_error: skip")),
    ]

    def hear(text: str) -> None:
        said.append(text)
        if edits and "read again" not in text:
            edits.pop(0)()

    one = Refusing(load(file), file=file, say=hear, session=lambda pipeline: None)  # type: ignore[arg-type,return-value]
    assert one.run() is Ended.DONE
    assert [text.splitlines()[0].partition(" has ")[2] or text[:6] for text in said] == [
        "paused",
        "changed and cannot be taken; it is waited for:",
        "changed and cannot be taken; it is waited for:",
        "changed and cannot be taken; it is waited for:",
        "changed and cannot be taken; it is waited for:",
        "changed and is read again",
    ]
    told = ("sinks: there is none", f"its folder is now {tmp_path / 'elsewhere'}", "No such file")
    assert [text in one for text, one in zip(told, said[2:], strict=False)] == [True] * 3


def test_an_edit_of_the_same_time_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system counts times in steps of some milliseconds, in which a run may pause and its file be edited."""
    monkeypatch.setattr(running, "PAUSE_S", 0.01)
    whole = "pipeline: a\ncluster: c:1\nsource: {topics: b}\ndecode: {format: text}\nsinks: [{table: t}]\n"
    file, said = tmp_path / "a.yaml", list[str]()
    file.write_text(whole)
    time_ns = file.stat().st_mtime_ns

    def hear(text: str) -> None:
        said.append(text)
        assert len(said) < 3, said
        file.write_text(whole.replace("text", "text, on_error: skip"))
        os.utime(file, ns=(time_ns, time_ns))

    one = Refusing(load(file), file=file, say=hear, session=lambda pipeline: None)  # type: ignore[arg-type,return-value]
    assert one.run() is Ended.DONE
    assert [text[:6] for text in said] == ["paused", str(file)[:6]]


def test_an_edit_made_while_spark_is_started_is_seen_when_the_run_pauses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was taken for the file that had been read before, and the mended file was waited for without end."""
    monkeypatch.setattr(running, "PAUSE_S", 0.01)
    whole = "pipeline: a\ncluster: c:1\nsource: {topics: b}\ndecode: {format: text}\nsinks: [{table: t}]\n"
    file, said = tmp_path / "a.yaml", list[str]()
    file.write_text(whole)

    def start(pipeline: Pipeline) -> object:
        file.write_text(whole.replace("text", "text, on_error: skip"))
        return None

    def hear(text: str) -> None:
        said.append(text)
        assert len(said) < 3, said

    one = Refusing(load(file), file=file, say=hear, session=start)  # type: ignore[arg-type]  # no session
    assert one.run() is Ended.DONE
    assert [text[:6] for text in said] == ["paused", str(file)[:6]]


class Full(Refusing):
    """A run whose checkpoint cannot be written."""

    _round = Runner._round

    def _begin(self, spark: SparkSession, batches: ForeachBatch) -> StreamingQuery:
        raise OSError("java.io.IOException: No space left on device")

    def _batches(self) -> ForeachBatch:
        return Tried()


def test_a_checkpoint_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("pipeline: a\ncluster: c:1\nsource: {topics: b}\ndecode: {format: text}\nsinks: [{table: t}]\n")
    one = Full(load(file), file=file, session=lambda pipeline: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(PartFailed, match=r"^checkpoint .*/a/checkpoint: No space left on device$"):
        one.run()


class Carried(Full):
    """A run whose batch fails, as Spark tells of it."""

    failing: Exception = KeyError("no such key")

    def _begin(self, spark: SparkSession, batches: ForeachBatch) -> StreamingQuery:
        told = f"{type(self.failing).__name__}: {self.failing}"
        traceback = f'Traceback (most recent call last):\n  File "x.py", line 1, in y\n{told}'
        raise RuntimeError(f"An exception was raised by the Python Proxy. Return Message: {traceback}")

    def _batches(self) -> ForeachBatch:
        return Tried(failed=self.failing)


def test_a_batch_that_fails_is_told_by_what_it_raised_and_not_by_what_carried_it(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("pipeline: a\ncluster: c:1\nsource: {topics: b}\ndecode: {format: text}\nsinks: [{table: t}]\n")
    one = Carried(load(file), file=file, session=lambda pipeline: None)  # type: ignore[arg-type,return-value]
    for failing in (KeyError("no such key"), PartFailed("books: full")):
        one.failing = failing
        with pytest.raises(type(failing)):
            one.run()
        state = one.folder.state()
        assert state is not None
        assert state.message == str(failing)
    one.failing = ValueError("no number")  # nothing of a batch that is not told by its part or as a fault
    with pytest.raises(RuntimeError):
        one.run()
    state = one.folder.state()
    assert state is not None
    assert state.message == "ValueError: no number"
