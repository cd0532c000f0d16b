"""A pipeline of flights, through a kill -9 of everything that it stands on: its books balance to the record.

Flights as of the demo, with late ones, garbage, wrong values and a field that comes in the middle, go to a Delta table,
an Iceberg table and a topic, and dead letters to a table, while a broker that leads, the active controller, the Python
processes of Spark's tasks, Spark's executors where they are processes of their own, and the command that supervises
the query (which is Spark's driver) are killed, one after the other and together. Where the table ends at last a second
pipeline begins that takes it back to a topic, and is killed, too.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer
from kafka_peer import wait_until
from processes import children, descendants, is_there
from tests import spark_classes

from moldau import Cluster
from moldau.admin.demo.data import flights
from moldau.client.sync import Cluster as Client
from moldau.model import TopicPartition
from moldau.pipeline import audit
from moldau.pipeline.books import Books, balances, outcomes
from moldau.pipeline.folder import PipelineFolder
from moldau.pipeline.positions import verified
from moldau.pipeline.reading import load
from moldau.spark.produce import MARK
from moldau.spark.start import EARLIEST, LATEST
from moldau.spark.tables import Table
from moldau.wire.batch import headers, records

pytestmark = pytest.mark.skipif(
    not os.environ.get("MOLDAU_SPARK_KILLS"), reason="minutes on a busy machine: make kills-spark"
)

PATIENCE_S = 600
PARTITIONS = 3
COMMAND = [sys.executable, "-c", "from moldau.admin.main import main; main()", "pipeline"]
EXECUTORS = (
    "spark.executor.memory=700m", "spark.driver.memory=700m",
    f"spark.executor.extraJavaOptions={spark_classes.options()}",  # as the driver's: they live for seconds, too
)  # fmt: skip
FIELDS = ("id", "carrier", "origin", "dest", "distance", "air_time")
FILE = """\
pipeline: flights
cluster: {bootstrap}
folder: state
source: {{topics: flights, max_records: 2000}}
decode:
  format: json
  fields: {{id: long, carrier: string, origin: string, dest: string, distance: long, air_time: double, at: timestamp}}
  on_error: dlq
check:
  - {{name: known, rule: id IS NOT NULL, on_error: skip}}
  - {{name: sound, rule: distance > 0, on_error: dlq}}
transform:
  - sql: SELECT id, carrier, origin, dest, distance, at FROM records
sinks:
  - {{table: tables/flights}}
  - table: tables/iceberg
    format: iceberg
    options: {{catalog: local, type: sql, uri: "sqlite:///{folder}/c.db", warehouse: "file://{folder}/w"}}
  - {{topic: flights-clean, key: CAST(id AS STRING)}}
dlq: {{table: tables/dead}}
late: {{column: at, after: 1h}}
every: 200ms
"""
BACK = """\
pipeline: back
cluster: {bootstrap}
folder: back-state
source: {{table: tables/flights, start: earliest, max_records: 3000}}
transform:
  - sql: SELECT id, carrier, distance FROM records
sinks:
  - {{topic: flights-back, key: CAST(id AS STRING)}}
every: 200ms
"""


class Given:
    """What was produced, by what has to become of it."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20})
        self._flights = iter(flights(60_000))
        self.ok: list[int] = []
        self.dead = self.skipped = self.late = self.drifted = 0
        self._failed: list[object] = []

    def write(self, count: int) -> None:
        """Flights, of which some are late, wrong, garbage or none; the second half of all has a field more."""
        for number in range(count):
            whole = json.loads(next(self._flights).value)
            flight = {name: whole[name] for name in FIELDS}
            flight["at"] = "2013-01-02T12:00:00Z"
            value: bytes | None = None
            if number % 50 == 1:
                value, self.dead = b"no flight", self.dead + 1
            elif number % 50 == 2:
                flight["distance"], self.dead = -1, self.dead + 1
            elif number % 50 == 3:
                flight["id"], self.skipped = None, self.skipped + 1
            elif number % 50 == 4:
                flight["at"] = "2013-01-02T09:00:00Z"
                self.ok.append(flight["id"])
                self.late += 1
            else:
                self.ok.append(flight["id"])
            if len(self.ok) > 5_000:
                flight["gate"] = "B22"
            while True:
                try:
                    self._producer.produce(
                        "flights", value or json.dumps(flight).encode(), partition=number % PARTITIONS,
                        on_delivery=lambda error, _: self._failed.append(error) if error else None,
                    )  # fmt: skip
                    break
                except BufferError:
                    self._producer.poll(1)
        assert self._producer.flush(PATIENCE_S) == 0
        assert not self._failed

    @property
    def read(self) -> int:
        return len(self.ok) + self.dead + self.skipped


class Run:
    """`moldau pipeline run` in a process of its own, which is Spark's driver and what supervises its query."""

    def __init__(self, file: Path, *conf: str) -> None:
        self.file, self._conf = file, [word for one in conf for word in ("--conf", one)]
        self._log = file.with_suffix(".log")

    def begin(self) -> None:
        with self._log.open("ab") as log:
            words = [*COMMAND, "run", str(self.file), *self._conf]
            self.process = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)

    def end(self) -> None:
        below = descendants(self.process.pid)[1:]
        jvms = children(self.process.pid)
        self.process.kill()
        self.process.wait(PATIENCE_S)
        wait_until(lambda: not any(map(is_there, jvms)), "the JVM is gone", PATIENCE_S)
        for pid in below:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)

    def workers(self) -> list[int]:
        """The Python processes of tasks and of the source, below whatever JVM."""
        return [pid for pid in descendants(self.process.pid)[1:] if "pyspark." in _command_line(pid).split("java")[0]]

    def java(self) -> list[int]:
        return children(self.process.pid)

    def executors(self) -> list[int]:
        return [
            pid for pid in descendants(self.process.pid)[1:] if "CoarseGrainedExecutorBackend" in _command_line(pid)
        ]

    def kill(self, found: list[int]) -> None:
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def reads(self, count: int, what: str) -> None:
        """Wait until so many records are in the books."""
        books = PipelineFolder(load(self.file, {})).books

        def all_read() -> bool:
            if self.process.poll() is not None:  # as a service would
                self.begin()
            last = books.last()
            return last is not None and last.totals.read >= count

        wait_until(all_read, f"{what}: {count} records are in the books\n{self._log.read_text()[-3000:]}", PATIENCE_S)


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:  # it has ended meanwhile
        return ""


def ids_of(bootstrap: str, topic: str) -> list[int]:
    """The ids in a topic; records of batches that ran twice, which carry one mark, count once."""
    found: dict[object, int] = {}
    with Client(bootstrap) as client:
        there = [TopicPartition(topic, number) for number in client.topics([topic])[topic].partitions]
        starts, ends = (client.offsets(dict.fromkeys(there, which)) for which in (EARLIEST, LATEST))
        for one in there:
            for fetched in client.fetch_range(one, starts[one].offset, ends[one].offset):
                for at, header in headers(fetched.records):
                    for record in () if header.is_control else records(fetched.records, at):
                        marks = [bytes(value or b"") for key, value in record.headers if key in (MARK, MARK.encode())]
                        assert len(marks) == 1, record.headers
                        found[marks[0]] = json.loads(bytes(record.value or b""))["id"]
    return sorted(found.values())


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """A standalone master with two workers."""
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ, "SPARK_HOME": str(home), "SPARK_NO_DAEMONIZE": "1", "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder / "work"), "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_JAVA_OPTS": spark_classes.options(), "SPARK_DAEMON_MEMORY": "256m",
    }  # fmt: skip
    begun: list[subprocess.Popen[bytes]] = []

    def begin(kind: str, *words: str) -> Path:
        log = folder / f"{kind}-{len(begun)}.log"
        with log.open("wb") as file:
            command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *words]
            begun.append(subprocess.Popen(command, stdout=file, stderr=file, env=environment, start_new_session=True))
        return log

    try:
        log = begin("master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        wait_until(lambda: "New state: ALIVE" in log.read_text(), "the master is alive", PATIENCE_S)
        place = re.search(r"Starting Spark master at (spark://\S+)", log.read_text())
        assert place is not None, log.read_text()
        for _ in range(2):
            words = ("--host", "127.0.0.1", "-c", "1", "-m", "900m", "--webui-port", "0", place[1])
            one = begin("worker.Worker", *words)
            wait_until(lambda one=one: "Successfully registered" in one.read_text(), "a worker is there", PATIENCE_S)  # type: ignore[misc]
        yield place[1]
    finally:
        for process in begun:
            for pid in descendants(process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait(PATIENCE_S)


@pytest.fixture(params=["local[2]", "local-cluster[2,1,900]", "standalone"])
def master(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param != "standalone":
        yield request.param
        return
    with standalone(tmp_path) as found:
        yield found


@pytest.mark.timeout(3_600)
def test_the_books_balance_whatever_is_killed(master: str, tmp_path: Path) -> None:
    with Cluster(brokers=3) as cluster:
        for name in ("flights", "flights-clean", "flights-back"):
            cluster.create_topic(name, partitions=PARTITIONS, replication_factor=3, config={"min.insync.replicas": "2"})
        own = () if master.startswith("local[") else EXECUTORS
        file, conf = tmp_path / "flights.yaml", (f"spark.master={master}", *own)
        file.write_text(FILE.format(bootstrap=cluster.bootstrap_servers, folder=tmp_path))
        given = killed(cluster, file, conf)
        balanced_to_the_record(cluster, file, given)
        taken_back(cluster, tmp_path / "back.yaml", conf, given)


def killed(cluster: Cluster, file: Path, conf: tuple[str, ...]) -> Given:
    """Run the pipeline while everything is killed; what was produced meanwhile, all of which is in the books."""
    given, run = Given(cluster.bootstrap_servers), Run(file, *conf)
    run.begin()
    try:
        steps: dict[str, Callable[[], list[int]]] = {"it has begun": list}
        steps["a leader was killed"] = lambda: [cluster.leader("flights", 0)]
        steps["the active controller was killed"] = lambda: [cluster.controller()]
        steps["a leader of what is written was killed"] = lambda: [cluster.leader("flights-clean", 1)]
        for what, whom in steps.items():
            dead = whom()
            for node in dead:
                cluster.kill(node)
            given.write(2_000)
            run.reads(given.read, what)
            for node in dead:
                cluster.restart(node)
            cluster.wait_until_in_sync(PATIENCE_S)
        for what, pids in (
            ("Python's processes were killed", run.workers),
            ("an executor was killed", lambda: run.executors()[:1]),
            ("Spark's own JVM was killed", run.java),
            ("all executors and Python's processes were killed", lambda: run.executors() + run.workers()),
        ):
            given.write(1_000)
            run.kill(pids())
            given.write(1_000)
            run.reads(given.read, what)
        for what in ("the command was killed", "it was killed again"):
            given.write(1_500)
            run.end()
            run.begin()
            given.write(500)
            run.reads(given.read, what)
        together = cluster.leader("flights", 1)
        given.write(1_000)
        cluster.kill(together)
        run.kill(run.executors() + run.workers())
        run.end()
        run.begin()
        given.write(1_000)
        run.reads(given.read, "a leader, executors, Python's processes and the command were killed at once")
        cluster.restart(together)
        assert run.stop() == 0
    finally:
        run.end()
    return given


def balanced_to_the_record(cluster: Cluster, file: Path, given: Given) -> None:
    """Every flight is once in each table and, but for marked doubles, in the topic; every bad record is dead."""
    books = balanced(file, given.read)
    last = books.last()
    assert last is not None
    totals = last.totals
    assert (outcomes(totals, "dlq"), outcomes(totals, "skip")) == (given.dead, given.skipped)
    assert totals.sinks == dict.fromkeys(totals.sinks, len(given.ok))
    assert len(totals.sinks) == 3
    assert 0 < totals.late <= given.late
    assert [one.what for one in totals.drift or ()] == ["fields that are no columns: gate"]
    table = Table(file.parent / "tables" / "flights", pipeline="flights").read()
    assert Counter(table["id"].to_pylist()) == Counter(given.ok)
    assert ids_of(cluster.bootstrap_servers, "flights-clean") == sorted(given.ok)
    assert Table(file.parent / "tables" / "dead", pipeline="flights").read().num_rows == given.dead


def taken_back(cluster: Cluster, file: Path, conf: tuple[str, ...], given: Given) -> None:
    """The table goes to a topic by another pipeline, whose command is killed on the way."""
    file.write_text(BACK.format(bootstrap=cluster.bootstrap_servers))
    run = Run(file, *conf)
    run.begin()
    try:
        run.reads(3_000, "it has begun")
        dead = cluster.leader("flights-back", 0)
        cluster.kill(dead)
        run.end()
        run.begin()
        run.reads(len(given.ok), "a leader and the command were killed")
        cluster.restart(dead)
        assert run.stop() == 0
    finally:
        run.end()
    balanced(file, len(given.ok))
    assert ids_of(cluster.bootstrap_servers, "flights-back") == sorted(given.ok)


def balanced(file: Path, read: int) -> Books:
    """The books, which balance, of themselves and with the files of all tables."""
    pipeline = load(file, {})
    folder = PipelineFolder(pipeline)
    assert audit.problems(folder, whole=True) == []
    last = folder.books.last()
    assert last is not None
    assert last.totals.read == read
    assert balances(last.totals)
    found = verified(pipeline, last.totals)
    assert all(one["there"] in (None, one["rows"]) for one in found), found
    return folder.books
