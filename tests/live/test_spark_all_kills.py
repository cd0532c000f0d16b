"""One stream from a topic into a table, through a kill -9 of everything that it stands on, one after the other.

Killed are a broker that leads, the active controller, the Python processes that Spark's tasks and its source run in,
and the driver, which is started again from its checkpoint; meanwhile idempotent producers write with acks=all. At the
end the table is held to the rules of the kill suite as a reader is: every acknowledged record, each once, in order.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka_peer import wait_until
from processes import children, descendants, is_there

from moldau import Cluster
from moldau.cluster.kills.load import LoadPlan, ProducerLoad, high_watermarks
from moldau.history import checks
from moldau.history.rows import History, Read
from moldau.spark.tables import Table

pytestmark = pytest.mark.skipif(
    not os.environ.get("MOLDAU_SPARK_KILLS"), reason="minutes on a busy machine: make kills-spark"
)

PATIENCE_S = 240
PARTITIONS = 3
OUTAGE_S = 90
DRIVER = """\
import sys
import moldau.spark
from moldau.spark.tables import Table

bootstrap, topic, folder = sys.argv[1:]
spark = moldau.spark.session("kills", bootstrap_servers=bootstrap, folder=f"{folder}/spark")
options = {"subscribe": topic, "startingOffsets": "earliest", "kafkaConsumer.pollTimeoutMs": "30000"}
rows = spark.readStream.format("moldau").options(**options).load()
rows = rows.selectExpr("partition", "offset", "CAST(value AS STRING) AS value")
writer = rows.writeStream.option("checkpointLocation", f"{folder}/checkpoint")
writer = writer.trigger(processingTime="200 milliseconds")
moldau.spark.run(lambda: writer.foreachBatch(Table(f"{folder}/table")).start(), restarts=30, pause_s=0.2)
"""


class Stream:
    """The program that has the stream, in a process of its own, and the table that it fills."""

    def __init__(self, bootstrap: str, topic: str, folder: Path) -> None:
        self.folder = folder
        (folder / "driver.py").write_text(DRIVER)
        self._command = [sys.executable, str(folder / "driver.py"), bootstrap, topic, str(folder)]
        self.table = Table(folder / "table")

    def begin(self) -> None:
        with (self.folder / "driver.log").open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)

    def end(self) -> None:
        """kill -9 of the driver; its JVM goes with it."""
        jvms = children(self.process.pid)
        self.process.kill()
        self.process.wait(PATIENCE_S)
        wait_until(lambda: not any(map(is_there, jvms)), "the JVM is gone", PATIENCE_S)

    def said(self) -> str:
        return (self.folder / "driver.log").read_text()[-4000:]

    def workers(self) -> list[int]:
        """The Python processes below the JVM: those of the tasks, what forks them, and the source's own."""
        below = [pid for jvm in children(self.process.pid) for pid in descendants(jvm)[1:]]
        return [pid for pid in below if "pyspark" in _command_line(pid)]

    def goes_on(self, what: str) -> None:
        """Wait until two batches are in the table that begin after this call."""
        before = self._sequence()

        def grown() -> bool:
            assert self.process.poll() is None, self.said()
            return self._sequence() >= before + 2

        wait_until(grown, f"the table grows: {what}", PATIENCE_S)

    def _sequence(self) -> int:
        last = self.table.last()
        return -1 if last is None else last.sequence

    def reads(self) -> list[Read]:
        rows = self.table.read().sort_by([("partition", "ascending"), ("offset", "ascending")]).to_pylist()
        return [Read("table", row["partition"], row["offset"], row["value"].partition(" ")[0]) for row in rows]


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:  # it has ended meanwhile
        return ""


@pytest.fixture(params=["quorum", "zookeeper"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster(brokers=3, mode=request.param) as found:
        found.create_topic("ledger", partitions=PARTITIONS, replication_factor=3, config={"min.insync.replicas": "2"})
        yield found


@pytest.mark.timeout(900)
def test_a_stream_into_a_table_survives_the_kill_of_everything_that_it_stands_on(
    cluster: Cluster, tmp_path: Path
) -> None:
    plan = LoadPlan("ledger", PARTITIONS, producers=2, rate_per_s=150)
    load = ProducerLoad(cluster.bootstrap_servers, plan)
    stream = Stream(cluster.bootstrap_servers, "ledger", tmp_path)

    def broken(node: int, what: str) -> None:
        cluster.kill(node)
        stream.goes_on(f"{what} was killed")
        cluster.restart(node)
        cluster.wait_until_in_sync(PATIENCE_S)

    def killed_workers() -> None:
        found = stream.workers()
        assert len(found) >= 2, "the source's process, and one that tasks run in"
        for pid in found:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not any(map(is_there, found)), "they are gone", PATIENCE_S)

    load.start()
    stream.begin()
    try:
        stream.goes_on("it has begun")
        broken(cluster.leader("ledger", 0), "a leader")
        broken(cluster.controller(), "the active controller")
        killed_workers()
        stream.goes_on("Spark's Python processes were killed")
        stream.end()
        stream.begin()
        stream.goes_on("the driver was killed and started again")
        together = cluster.leader("ledger", 1)
        cluster.kill(together)
        killed_workers()
        stream.end()
        stream.begin()
        stream.goes_on("a leader, the Python processes and the driver were killed at once")
        cluster.restart(together)
        ends = _ended(cluster, load, plan, stream)
    finally:
        stream.end()
    rows = stream.reads()
    history = History(load.sends(), load.follower.reads, rows, ends, [])
    _demand_each_record_once(load, history)
    assert history.acked == len(history.sends) == len(rows)
    assert Counter(row.value for row in rows) == Counter(send.value for send in history.sends)


@pytest.mark.timeout(900)
def test_a_stream_into_a_table_goes_on_after_ninety_seconds_without_any_broker(
    cluster: Cluster, tmp_path: Path
) -> None:
    plan = LoadPlan("ledger", PARTITIONS, producers=2, rate_per_s=150)
    load = ProducerLoad(cluster.bootstrap_servers, plan)
    stream = Stream(cluster.bootstrap_servers, "ledger", tmp_path)
    load.start()
    stream.begin()
    try:
        stream.goes_on("it has begun")
        for node in cluster.alive():
            cluster.kill(node)
        over = time.monotonic() + OUTAGE_S
        wait_until(lambda: time.monotonic() > over, "the outage is over", 2 * OUTAGE_S, 1)
        assert stream.process.poll() is None, stream.said()
        for node in (each.id for each in cluster.spec.nodes):
            cluster.restart(node, wait=False)
        cluster.wait_until_in_sync(PATIENCE_S)
        stream.goes_on("brokers are there again")
        ends = _ended(cluster, load, plan, stream)
    finally:
        stream.end()
    rows = stream.reads()
    history = History(load.sends(), load.follower.reads, rows, ends, [])
    _demand_each_record_once(load, history)


def _ended(cluster: Cluster, load: ProducerLoad, plan: LoadPlan, stream: Stream) -> dict[int, int]:
    """The ends of the partitions, when the load has stopped and the table has all that is before them."""
    load.stop()
    ends = high_watermarks(cluster.bootstrap_servers, plan)
    wait_until(lambda: _positions(stream) == ends, "the table has all of the topic", PATIENCE_S)
    return ends


def _demand_each_record_once(load: ProducerLoad, history: History) -> None:
    assert not load.broken()
    assert [f"{one.kind}: {one.text}" for one in checks.check(history)] == []
    assert max(Counter((row.partition, row.offset) for row in history.final).values()) == 1


def _positions(stream: Stream) -> dict[int, int]:
    found = json.loads(stream.table.positions())["ledger"]
    return {int(number): at for number, at in found.items()}
