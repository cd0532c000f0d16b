"""What happens in the demo, in order: a cluster, a topic, a stream, producing, a kill half-way, a restart, the sums.

The cluster is anything with the few verbs of ``DemoCluster``: three nodes of Moldau, or another system's for
comparison. Tells its progress to a ``ProgressReporter`` and returns a ``DemoOutcome``; prints nothing itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from moldau.admin.demo.checking import FlightCounts, check, records_in
from moldau.admin.demo.data import Flight, flights
from moldau.admin.demo.pipeline import DemoPipeline
from moldau.admin.demo.producing import Acks, produce
from moldau.admin.demo.watching import Happening, LeaderChange, Watch, back_in_sync, explained

TOPIC, PARTITIONS, REPLICAS, MIN_ISR = "flights", 6, 3, 2
BACK_AFTER_S = 10.0


class DemoCluster(Protocol):
    """What the story needs of a cluster; ``moldau.Cluster`` has it."""

    @property
    def bootstrap_servers(self) -> str: ...

    def create_topic(
        self, name: str, *, partitions: int = 1, replication_factor: int = 1, config: Mapping[str, str] | None = None
    ) -> None: ...

    def kill(self, id: int) -> None: ...

    def restart(self, id: int, *, wait: bool = True) -> None: ...

    def wait_until_in_sync(self, timeout_s: float = 60.0) -> None: ...


class ProgressReporter(Protocol):
    """Who is told how it goes."""

    def say(self, what: str) -> None:
        """A step of the story."""

    def progress(self, sent: int, acked: int, in_table: int) -> None:
        """How far the flights have come."""


class Script(NamedTuple):
    """How the story is played: seconds of producing, how many flights (None: all), whether a broker is killed."""

    seconds: float = 26.0
    flights: int | None = None
    kill: bool = True


class DemoOutcome(NamedTuple):
    """What came of it. Times are seconds since the epoch; ``happenings`` and ``changes`` are in order."""

    books: FlightCounts
    acks: Acks
    changes: Sequence[LeaderChange]
    happenings: Sequence[Happening]
    batches: Sequence[tuple[float, int]]
    began: float
    acked: float
    in_table: float
    in_sync: float


class _FaultMaker:
    """Kills the broker that leads most when half is sent, and starts it again ten seconds later."""

    def __init__(self, stage: DemoCluster, watch: Watch, reporter: ProgressReporter, script: Script) -> None:
        self.stage, self.watch, self.reporter, self.script = stage, watch, reporter, script
        self.happenings: list[Happening] = []

    def poll(self, sent: int, count: int) -> None:
        """Called many times a second while flights are sent."""
        if not self.script.kill:
            return
        if not self.happenings and sent * 2 >= count:
            self._kill()
        elif len(self.happenings) == 1 and time.time() - self.happenings[0].at >= BACK_AFTER_S:
            self._restart()

    def finish(self) -> None:
        """Start the broker again if sending was over before its time came."""
        while len(self.happenings) == 1:
            time.sleep(0.05)
            self.poll(1, 1)

    def _kill(self) -> None:
        broker = self.watch.leads_most()
        led = self.watch.led_by(broker)
        self.stage.kill(broker)
        self.happenings.append(Happening(time.time(), "killed", broker))
        self.reporter.say(f"kill -9 broker {broker}, which led partitions {', '.join(map(str, led))}")

    def _restart(self) -> None:
        broker = self.happenings[0].broker
        self.stage.restart(broker, wait=False)
        self.happenings.append(Happening(time.time(), "restarted", broker))
        self.reporter.say(f"broker {broker} is started again and catches up")


def play(
    stage: DemoCluster, folder: Path, logs: Sequence[Path], reporter: ProgressReporter, script: Script
) -> DemoOutcome:
    """Play the whole story on a running cluster. ``logs``: folders whose state-change logs explain the changes."""
    config = {"min.insync.replicas": str(MIN_ISR)}
    stage.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=REPLICAS, config=config)
    reporter.say(
        f"topic {TOPIC}: {PARTITIONS} partitions, replication factor {REPLICAS}, min.insync.replicas {MIN_ISR}"
    )
    pipeline = DemoPipeline(stage.bootstrap_servers, TOPIC, folder)
    try:
        messages = flights(script.flights)
        pipeline.wait_ready()
        reporter.say(f"moldau pipeline run {pipeline.file} (Spark, no jar): into a Delta table, one commit per batch")
        return _produce_and_check(stage, pipeline, messages, logs, _ProgressReporter(reporter, script))
    finally:
        pipeline.kill()


class _ProgressReporter(NamedTuple):
    reporter: ProgressReporter
    script: Script


def _produce_and_check(
    stage: DemoCluster, pipeline: DemoPipeline, messages: Sequence[Flight], logs: Sequence[Path], how: _ProgressReporter
) -> DemoOutcome:
    reporter, script = how
    with Watch(stage.bootstrap_servers, TOPIC) as watch:
        hand = _FaultMaker(stage, watch, reporter, script)
        began = time.time()

        def each_tick(sent: int, acks: Acks) -> None:
            hand.poll(sent, len(messages))
            reporter.progress(sent, acks.count, pipeline.rows)

        acks = produce(messages, TOPIC, stage.bootstrap_servers, script.seconds, each_tick)
        acked = time.time()
        hand.finish()
        synced = _InSync(stage)
        pipeline.finish(records_in(stage.bootstrap_servers, TOPIC))
        in_table = time.time()
        reporter.progress(len(messages), acks.count, pipeline.rows)
        in_sync = synced.when()
    if len(hand.happenings) == 2:
        restarted = hand.happenings[1]
        in_sync = back_in_sync(watch.changes, restarted.broker, restarted.at) or in_sync
    reporter.say("everything is in sync again; now the books are compared, flight by flight")
    books = check(messages, acks, stage.bootstrap_servers, TOPIC, pipeline.table)
    said = [path for folder in logs for path in sorted(folder.glob("**/state-change.jsonl"))]
    changes = explained(watch.changes, hand.happenings, said, TOPIC)
    batches = [((line.at_ms + line.took_ms) / 1000, line.rows_out) for line in pipeline.batches]
    return DemoOutcome(books, acks, changes, hand.happenings, batches, began, acked, in_table, in_sync)


class _InSync:
    """Waits in the background until every replica is in sync, and remembers when."""

    def __init__(self, stage: DemoCluster) -> None:
        self._stage = stage
        self._at = 0.0
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._wait, daemon=True)
        self._thread.start()

    def when(self) -> float:
        """Seconds since the epoch; raises what the cluster raised when it did not come about."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._at

    def _wait(self) -> None:
        try:
            self._stage.wait_until_in_sync()
        except Exception as error:  # given to the thread that asks
            self._error = error
        self._at = time.time()
