"""What is done to a mixed cluster under load, and what must hold at the end.

Load and rules are the kill suite's: idempotent producers with acks=all, every acknowledged record read once more at the
end, replicas and metadata logs compared byte for byte on disk; and Kafka's DumpLogSegments reads what was written.

There are two such loads, each on a topic of its own. One has five requests under way, as clients have by default: a
record that is twice in its log is counted as sent again, and is no problem, where the producer says that it did so for
a broker of Apache Kafka (``kills/resent.py``). The other one has a single request under way, so that no batch is ever
refused for the one ahead of it: a record twice in its log is the brokers' doing, always. A problem names its topic.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path

from kafka_peer import wait_until
from mixed import KAFKA

from moldau.client import sync
from moldau.client.admin import METADATA_LOG, NewTopic, create_topics
from moldau.cluster.kills.cluster_poller import ClusterPoller
from moldau.cluster.kills.load import LoadPlan, ProducerLoad, high_watermarks, read_all
from moldau.cluster.kills.replicas import check_folders, compare, read_replica, sessions_of
from moldau.cluster.kills.resent import NextEpochs
from moldau.history.checks import check
from moldau.history.rows import History
from moldau.history.sessions import Session, told_apart
from moldau.model import TopicPartition
from tests.interchange.asked import administer, administer_groups, coordinators_of, refusals
from tests.interchange.mixes import MixedCluster, dumped
from tests.interchange.transfers import TRANSFERS, Transfers

PLAN = LoadPlan("interchange", 4, producers=2, rate_per_s=100, more={"socket.timeout.ms": 5_000})
STRICT = LoadPlan("one-in-flight", 4, producers=1, rate_per_s=50, more={"socket.timeout.ms": 5_000, "max.in.flight": 1})
PLANS = (PLAN, STRICT)
READ = TopicPartition(PLAN.topic, 0)
NAMED = 50
"""Groups whose coordinators every node is asked for."""
PATIENCE_S = 120.0
_USER = ("--entity-type", "users", "--entity-name", "alice")


class Seen:
    """Counts of one drill and everything that was wrong. ``again``: records that a client itself wrote once
    more, and ``refusals`` why; ``of_strict``: of the producer with one request under way."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.sent = self.acked = 0
        self.again = 0
        self.refusals: list[str] = []
        self.of_strict = ""
        self.longest_wait_s = 0.0
        self.transactions = ""


class Drill:
    """A load on a running cluster, from ``with`` on; ``judge`` ends it and stops the cluster."""

    def __init__(self, cluster: MixedCluster) -> None:
        self.cluster = cluster
        self.seen = Seen()
        self._pollers = [ClusterPoller(cluster, plan.topic) for plan in PLANS]
        self.epochs = NextEpochs(cluster.ran_by, {KAFKA})
        pipelined = PLAN._replace(more={**PLAN.more, **self.epochs.settings()})
        self._loads = [ProducerLoad(cluster.bootstrap_servers, plan) for plan in (pipelined, STRICT)]
        self._transfers: Transfers | None = None

    def begin(self, *, transactions: bool) -> None:
        """Make the topics and write to them until every partition acknowledges. With transactions, which brokers of
        Apache Kafka coordinate, if there are such."""
        client = sync.Cluster(self.cluster.bootstrap_servers)
        try:
            safe = {"min.insync.replicas": "2"}
            new = [
                NewTopic(name=plan.topic, partitions=plan.partitions, replication_factor=3, configs=safe)
                for plan in PLANS
            ]
            outcomes = client.run(create_topics(client.client, new))
            assert all(one.ok for one in outcomes.values()), outcomes
        finally:
            client.close()
        self.in_sync("the new topics")
        for plan in PLANS:
            # Each leader serves by now. One of Kafka's that had not yet begun to refuses a producer's first batch and
            # takes the second, upon which librdkafka counts both as stored (decision 52, and docs/interchange.md).
            high_watermarks(self.cluster.bootstrap_servers, plan)
        for load in self._loads:
            load.start()
        self.flows("the load begins")
        if transactions:
            brokers = sorted(self.cluster.brokers)
            kafkas = [id for id in brokers if self.cluster.programs[id] == KAFKA]
            self._transfers = Transfers(self.cluster.bootstrap_servers, kafkas, brokers)
            self._transfers.start()
            self._pollers.append(ClusterPoller(self.cluster, TRANSFERS.topic))
            self.transactions_flow("they begin")

    def in_sync(self, what: str) -> None:
        """Wait until every broker says that every replica is in sync."""
        brokers = self.cluster.brokers
        wait_until(lambda: all(one.in_sync(brokers) for one in self._pollers), f"all in sync: {what}", PATIENCE_S)

    def controlled(self, what: str) -> None:
        """Wait until a controller is active: brokers lead and follow on while there is none."""
        place = self.cluster.controllers
        wait_until(lambda: self._pollers[0].active_controller(place) is not None, f"one rules: {what}", PATIENCE_S)

    def flows(self, what: str) -> None:
        """Wait until every partition has acknowledged something that was sent after this call."""
        now_ns = time.monotonic_ns()
        wait_until(lambda: all(load.acked_since(now_ns) for load in self._loads), f"writes go on: {what}", PATIENCE_S)
        self.seen.longest_wait_s = max(self.seen.longest_wait_s, (time.monotonic_ns() - now_ns) / 1e9)

    def transactions_flow(self, what: str) -> None:
        """Wait until one more transaction is committed."""
        load = self._transfers
        if load is not None:
            before = len(load.committed)
            wait_until(lambda: len(load.committed) > before + 1, f"transactions go on: {what}", PATIENCE_S)

    def kill_each(self, say: Callable[[str], None]) -> None:
        """kill -9 of one node after the other; the next dies when all replicas are in sync again."""
        for id in self.cluster.mix.nodes:
            self.cluster.kill(id)
            self.flows(f"node {id} was killed")
            self.cluster.restart(id)
            self.in_sync(f"node {id} came back")
            self.controlled(f"node {id} came back")
            self.flows(f"node {id} came back")
            self.transactions_flow(f"node {id} came back")
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
        """The same administration through every broker; all refuse the same, and name the same coordinators."""
        brokers, named = sorted(self.cluster.brokers), list[dict[str, int]]()
        refused: dict[int, dict[str, list[str]]] = {}
        for id, place in self.cluster.brokers.items():
            name = f"through-{id}-{self.cluster.programs[id]}"
            asked = chain(administer(place, name, brokers), administer_groups(place, name, READ))
            problem = next(asked, None)
            self.seen.problems += [] if problem is None else [f"through node {id}: {problem}"]
            say(f"administration through node {id} ({self.cluster.programs[id]}): {problem or 'all of it'}")
            named.append(coordinators_of(place, [f"group-{n}" for n in range(NAMED)]))
            refused[id] = refusals(place, PLAN.topic)
        self.seen.problems += [
            f"{request} is answered with {codes} through node {id}, and with {refused[brokers[0]][request]} elsewhere"
            for id, of_node in refused.items()
            for request, codes in of_node.items()
            if codes != refused[brokers[0]][request]
        ]
        if named.count(named[0]) < len(named) or not set(named[0].values()) <= set(brokers):
            self.seen.problems.append(f"coordinators are {named}")
        say(f"coordinators of groups: {', '.join(sorted({self.cluster.programs[id] for id in named[0].values()}))}")

    def judge(self) -> Seen:
        """Stop load and cluster, read everything again, compare what lies on disk."""
        cluster, seen = self.cluster, self.seen
        for load in self._loads:
            load.stop()
        transfers = self._transfers
        if transfers is not None:
            transfers.stop()
        self.in_sync("the end of the load")
        of_topics = {plan.topic: high_watermarks(cluster.bootstrap_servers, plan) for plan in PLANS}
        if transfers is not None:
            seen.problems += transfers.wrong()
            seen.transactions = f"{len(transfers.committed)} transactions committed, {len(transfers.aborted)} aborted, "
            of_topics[TRANSFERS.topic] = high_watermarks(cluster.bootstrap_servers, TRANSFERS)
        histories = [self._read_again(load, of_topics[load.plan.topic]) for load in self._loads]
        active_controller = self._pollers[0].active_controller(cluster.controllers)
        for poller in self._pollers:
            poller.close()
        seen.problems += [] if active_controller is not None else ["nobody is the active controller at the end"]
        cluster.leave()
        for load, history in zip(self._loads, histories, strict=True):
            self._judge(load, history)
        seen.problems += self._on_disk(
            of_topics, active_controller.high_watermark if active_controller is not None else 0
        )
        return seen

    def _read_again(self, load: ProducerLoad, ends: dict[int, int]) -> History:
        """What one load was answered, and what its topic holds."""
        final = read_all(self.cluster.bootstrap_servers, load.plan, ends)
        return History(load.sends(), load.follower.reads, final, ends, [])

    def _judge(self, load: ProducerLoad, history: History) -> None:
        """Compare the two; the nodes are stopped."""
        seen, topic = self.seen, load.plan.topic
        if load.plan is STRICT:
            seen.of_strict = f"{history.acked} of {len(history.sends)} with one request under way, "
        else:
            seen.sent, seen.acked = len(history.sends), history.acked
            folder = self.cluster.data_dir(min(self.cluster.brokers))
            sessions = dict[tuple[int, int], Session]()
            for number in range(load.plan.partitions):
                sessions |= sessions_of(read_replica(0, folder / f"{topic}-{number}"), number)
            history, seen.again = told_apart(history, sessions, self.epochs.own_doing)
            seen.refusals = self.epochs.refusals
        seen.problems += [f"{topic}: {one}" for one in load.broken()]
        seen.problems += [f"{topic}: {one.kind}: {one.text}" for one in check(history)]

    def _on_disk(self, ends: dict[str, dict[int, int]], metadata_end: int) -> list[str]:
        cluster, found = self.cluster, []
        for name, end in ((f"{topic}-{n}", end) for topic, parts in ends.items() for n, end in sorted(parts.items())):
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
