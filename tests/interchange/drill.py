"""What is done to a mixed cluster under load, and what must hold at the end.

Load and rules are the kill suite's: idempotent producers with acks=all, every acknowledged record read once more at the
end, replicas and metadata logs compared byte for byte on disk; and Kafka's DumpLogSegments reads what was written.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from kafka_peer import wait_until

from moldau.client import sync
from moldau.client.admin import METADATA_LOG, NewTopic, create_topics
from moldau.cluster.kills.cluster_poller import ClusterPoller
from moldau.cluster.kills.load import LoadPlan, ProducerLoad, high_watermarks, read_all
from moldau.cluster.kills.replicas import check_folders, compare, read_replica
from moldau.history.checks import check
from moldau.history.rows import History
from tests.interchange.asked import administer
from tests.interchange.mixes import MixedCluster, dumped

PLAN = LoadPlan("interchange", 4, producers=2, rate_per_s=100, more={"socket.timeout.ms": 5_000})
PATIENCE_S = 120.0
_USER = ("--entity-type", "users", "--entity-name", "alice")


class Seen:
    """Counts of one drill and everything that was wrong."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.sent = self.acked = 0
        self.longest_wait_s = 0.0


class Drill:
    """A load on a running cluster, from ``with`` on; ``judge`` ends it and stops the cluster."""

    def __init__(self, cluster: MixedCluster) -> None:
        self.cluster = cluster
        self.seen = Seen()
        self._poller = ClusterPoller(cluster, PLAN.topic)
        self._load = ProducerLoad(cluster.bootstrap_servers, PLAN)

    def begin(self) -> None:
        """Make the topic and write to it until every partition acknowledges."""
        client = sync.Cluster(self.cluster.bootstrap_servers)
        try:
            new = NewTopic(
                name=PLAN.topic,
                partitions=PLAN.partitions,
                replication_factor=3,
                configs={"min.insync.replicas": "2"},
            )
            outcome = client.run(create_topics(client.client, [new]))[PLAN.topic]
            assert outcome.ok, outcome
        finally:
            client.close()
        self.in_sync("the new topic")
        self._load.start()
        self.flows("the load begins")

    def in_sync(self, what: str) -> None:
        """Wait until every broker says that every replica is in sync."""
        wait_until(lambda: self._poller.in_sync(self.cluster.brokers), f"all in sync: {what}", PATIENCE_S)

    def flows(self, what: str) -> None:
        """Wait until every partition has acknowledged something that was sent after this call."""
        now_ns = time.monotonic_ns()
        wait_until(lambda: self._load.acked_since(now_ns), f"writes go on: {what}", PATIENCE_S)
        self.seen.longest_wait_s = max(self.seen.longest_wait_s, (time.monotonic_ns() - now_ns) / 1e9)

    def kill_each(self, say: Callable[[str], None]) -> None:
        """kill -9 of one node after the other; the next dies when all replicas are in sync again."""
        for id in self.cluster.mix.nodes:
            self.cluster.kill(id)
            self.flows(f"node {id} was killed")
            self.cluster.restart(id)
            self.in_sync(f"node {id} came back")
            self.flows(f"node {id} came back")
            say(f"node {id} ({self.cluster.programs[id]}) was killed and came back")

    def roll(self, program: str, say: Callable[[str], None]) -> None:
        """Run one node after the other by another program."""
        for id in self.cluster.mix.nodes:
            self.cluster.change(id, program)
            self.in_sync(f"node {id} is run by {program}")
            self.flows(f"node {id} is run by {program}")
            say(f"node {id} is run by {program}")

    def add_user(self) -> None:
        """Keep a SCRAM user and a quota in the metadata log, which Moldau only stores and passes on, or enforces."""
        self.cluster.tool("kafka-configs", *_USER, "--alter", "--add-config", "SCRAM-SHA-256=[password=secret]")
        self.cluster.tool("kafka-configs", *_USER, "--alter", "--add-config", "producer_byte_rate=1000000000")

    def user_is_there(self) -> None:
        """Note it when the user or the quota of ``add_user`` is not described any more."""
        said = self.cluster.tool("kafka-configs", *_USER, "--describe").stdout
        for wanted in ("SCRAM-SHA-256=iterations", "producer_byte_rate=1.0E9"):
            if wanted not in said:
                self.seen.problems.append(f"{wanted} is not described: {said}")

    def snapshots(self) -> set[Path]:
        """The snapshots of the metadata log that the nodes have now."""
        name = f"{METADATA_LOG.topic}-{METADATA_LOG.partition}"
        return {path for id in self.cluster.ports for path in (self.cluster.data_dir(id) / name).glob("*.checkpoint")}

    def ask_each(self, say: Callable[[str], None]) -> None:
        """The same administration through every broker."""
        brokers = sorted(self.cluster.brokers)
        for id, place in self.cluster.brokers.items():
            name = f"through-{id}-{self.cluster.programs[id]}"
            problem = next(administer(place, name, brokers), None)
            self.seen.problems += [] if problem is None else [f"through node {id}: {problem}"]
            say(f"administration through node {id} ({self.cluster.programs[id]}): {problem or 'all of it'}")

    def judge(self) -> Seen:
        """Stop load and cluster, read everything again, compare what lies on disk."""
        cluster, seen = self.cluster, self.seen
        self._load.stop()
        self.in_sync("the end of the load")
        ends = high_watermarks(cluster.bootstrap_servers, PLAN)
        final = read_all(cluster.bootstrap_servers, PLAN, ends)
        active_controller = self._poller.active_controller(cluster.controllers)
        self._poller.close()
        history = History(self._load.sends(), self._load.follower.reads, final, ends, [])
        seen.sent, seen.acked = len(history.sends), history.acked
        seen.problems += self._load.broken()
        seen.problems += [f"{one.kind}: {one.text}" for one in check(history)]
        seen.problems += [] if active_controller is not None else ["nobody is the active controller at the end"]
        cluster.leave()
        seen.problems += self._on_disk(ends, active_controller.high_watermark if active_controller is not None else 0)
        return seen

    def _on_disk(self, ends: dict[int, int], metadata_end: int) -> list[str]:
        cluster, found = self.cluster, []
        for partition, end in sorted(ends.items()):
            name = f"{PLAN.topic}-{partition}"
            folders = {id: cluster.data_dir(id) / name for id in cluster.brokers}
            found += [f"{one.kind}: {one.text}" for one in check_folders(name, folders, end)]
            found += _faults(folders[min(folders)], "--deep-iteration")
        name = f"{METADATA_LOG.topic}-{METADATA_LOG.partition}"
        logs = [read_replica(id, cluster.data_dir(id) / name) for id in sorted(cluster.controllers)]
        found += [f"{one.kind}: {one.text}" for one in compare(name, logs, metadata_end)]
        return found + _faults(cluster.data_dir(min(cluster.controllers)) / name, "--cluster-metadata-decoder")


def _faults(folder: Path, *options: str) -> list[str]:
    """What Kafka's DumpLogSegments finds wrong in a folder's segments."""
    found = []
    for path in sorted(folder.glob("*.log")):
        said = dumped(path, *options)
        bad = ("isvalid: false", "Found", "exception", "Exception", "Could not", "exit ")
        found += [f"{path}: {line}" for line in said.splitlines() if any(one in line for one in bad)]
    return found
