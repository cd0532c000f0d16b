"""The drill: from ZooKeeper to the quorum and back and there again under load, and what must not be lost on the way.

A seed says in which order brokers restart. A controller is killed (-9) while it takes over, a broker while the quorum
leads it in ZooKeeper mode. At every stage: each topic, setting and committed offset that was made so far is there, and
writes go on; at the end every acknowledged record is read once more and judged by the rules of ``moldau.history``.
Prints PASS or FAIL; see docs/migration.md.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from typing import Any

from moldau.client.admin import AlterOp, Resource, ResourceType, alter_configs, describe_configs
from moldau.cluster.cluster import Cluster, ClusterError
from moldau.cluster.kills.load import LoadPlan, ProducerLoad, high_watermarks, read_all
from moldau.cluster.migration.steps import Migration, MigrationPhase, Mode
from moldau.cluster.nodes import is_alive
from moldau.history import checks
from moldau.history.rows import History

LOADED = "carried"
PARTITIONS = 4
GROUP = "travellers"
SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "default.replication.factor": "3",
}
IMPATIENT = {"socket.timeout.ms": 5_000, "request.timeout.ms": 5_000}
TAKES_OVER = "all controllers and brokers take part; the quorum takes over"
FLOW_S = 60.0
TAKING_S = 0.2
"""A controller needs about so long to claim, copy and compare; where in it the kill strikes is chance."""


Say = Callable[[str], object]


class Lost(Exception):
    """Something that was there is not there any more."""


class Drill:
    """One run on one cluster, which is on ZooKeeper. ``say`` hears what happens."""

    def __init__(
        self, cluster: Cluster, seed: int, *, controllers: int = 3, brief: bool = False, say: Say = print
    ) -> None:
        """``brief``: brokers keep the setting on the way back, which saves six restarts."""
        self._cluster = cluster
        self._brief = brief
        self._rng = random.Random(seed)
        self._count = controllers
        self._say = say
        self._migration = Migration(cluster, lambda text: say(f"  {text}"))
        self._plan = LoadPlan(LOADED, PARTITIONS, producers=2, rate_per_s=100, more=IMPATIENT)
        self._load = ProducerLoad(cluster.bootstrap_servers, self._plan)
        self._topics: dict[str, dict[str, str]] = {}
        self._offsets: dict[str, int] = {}

    def run(self) -> None:
        """All the ways. Lost and ClusterError say what went wrong."""
        self._make("before-it-began")
        self._cluster.create_topic(
            LOADED, partitions=PARTITIONS, replication_factor=3, config={"min.insync.replicas": "2"}
        )
        self._load.start()
        self._stage("on ZooKeeper")
        self._go_there()
        self._lose_a_broker()
        first = self._shuffled()[0]
        self._migration.cross(first)
        self._stage(f"broker {first.id} is in KRaft mode, the others are not")
        if self._brief:
            self._migration.hand_back()
        else:
            self._migration.rollback()
        self._stage("back on ZooKeeper")
        self._go_there()
        self.cross_all()
        self._stage("all brokers are in KRaft mode")
        self.finalise()
        self._stage("finished")
        self._load.stop()
        self._judge()

    # ---- steps, which may be taken by other means

    def begin(self) -> None:
        """Controllers start, and every broker takes part."""
        self._migration.start_controllers(self._count)
        for broker in self._shuffled():
            self._migration.take_part(broker)

    def wait_until_both(self) -> None:
        """The quorum leads, and ZooKeeper holds what it knows."""
        self._migration.wait_until_both()

    def cross_all(self) -> None:
        """Every broker restarts in KRaft mode."""
        for broker in self._shuffled():
            self._migration.cross(broker)

    def finalise(self) -> None:
        """The controllers let go of ZooKeeper."""
        self._migration.finalise()

    # ---- the ways

    def _shuffled(self) -> list[Any]:
        brokers = list(self._migration.brokers)
        self._rng.shuffle(brokers)
        return brokers

    def _go_there(self) -> None:
        """Controllers start, brokers take part; the controller that begins to copy is killed and comes back."""
        self.begin()
        victim = self._who_takes_over()
        time.sleep(self._rng.uniform(0, TAKING_S))
        self._cluster.kill(victim)
        self._say(f"  controller {victim} was killed while it took over")
        self._cluster.restart(victim, wait=False)
        self.wait_until_both()
        self._stage("the quorum leads brokers on ZooKeeper")

    def _lose_a_broker(self) -> None:
        """kill -9 of a broker in ZooKeeper mode, which the quorum's controller must notice without any heartbeat."""
        victim = self._shuffled()[0]
        self._cluster.kill(victim.id)
        self._say(f"  broker {victim.id} was killed")
        self._flows("others lead in its place")
        self._cluster.restart(victim.id)
        self._cluster.wait_until_in_sync()

    def _flows(self, what: str) -> None:
        now_ns = time.monotonic_ns()
        self._cluster.wait_until(lambda: self._load.acked_since(now_ns), f"writes go on: {what}", FLOW_S)

    def _who_takes_over(self) -> int:
        deadline = time.monotonic() + FLOW_S
        while time.monotonic() < deadline:
            for node in self._migration.controllers:
                log = node.logs / "server.log"
                if is_alive(node.pid) and log.exists() and TAKES_OVER in log.read_text(errors="replace"):
                    return node.id
            time.sleep(0.001)
        raise ClusterError("no controller took over")

    # ---- what must not be lost

    def _stage(self, name: str) -> None:
        """Look at everything made so far, and make something new, which the next stage must find."""
        self._say(f"{name}: {len(self._topics)} topics and their settings and offsets are looked for")
        self._flows(name)
        self._look(name)
        self._make("-".join(name.lower().replace("'", "").replace(",", "").split())[:60] + f"-{len(self._topics)}")

    def _make(self, name: str) -> None:
        """A topic with a setting of its own, records, and a group's offset in it."""
        setting = str(60_000 + len(self._topics))
        self._cluster.create_topic(name, partitions=2, replication_factor=3, config={"retention.ms": "1"})
        client = self._cluster.client()
        change = {Resource(ResourceType.TOPIC, name): [("retention.ms", AlterOp.SET, setting)]}
        for outcome in client.run(alter_configs(client.client, change)).values():
            if outcome.code:
                raise ClusterError(f"the setting of {name} was not made: {outcome}")
        self._topics[name] = {"retention.ms": setting}
        self._offsets[name] = 7 + len(self._offsets)
        self._commit(name, self._offsets[name])

    def _commit(self, topic: str, offset: int) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        def committed() -> bool:
            consumer = self._consumer()
            try:
                done = consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=True)
                assert done is None
                consumer.poll(0.2)
                found = consumer.committed([TopicPartition(topic, 0)], timeout=5)
            except KafkaException:
                return False
            finally:
                consumer.close()
            return bool(found[0].offset == offset)

        self._cluster.wait_until(committed, f"the offset of {topic} is committed", FLOW_S)

    def _consumer(self) -> Any:
        from confluent_kafka import Consumer

        return Consumer(
            {
                "bootstrap.servers": self._cluster.bootstrap_servers,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "log_level": 0,
                **IMPATIENT,
            }
        )

    def _look(self, name: str) -> None:
        client = self._cluster.client()
        there = client.topics()
        lost = sorted(topic for topic in self._topics if topic not in there)
        if lost:
            raise Lost(f"{name}: topics {lost}")
        asked = [Resource(ResourceType.TOPIC, topic) for topic in self._topics]
        for resource, (_, found) in client.run(describe_configs(client.client, asked)).items():
            for key, value in self._topics[resource.name].items():
                told = found[key].value if key in found else None
                if told != value:
                    raise Lost(f"{name}: {key} of {resource.name} is {told}, and was {value}")
        self._look_at_offsets(name)

    def _look_at_offsets(self, name: str) -> None:
        from confluent_kafka import TopicPartition

        consumer = self._consumer()
        try:
            found = consumer.committed([TopicPartition(topic, 0) for topic in self._offsets], timeout=30)
        finally:
            consumer.close()
        told = {one.topic: one.offset for one in found}
        if told != self._offsets:
            raise Lost(f"{name}: committed offsets are {told}, and were {self._offsets}")

    def _judge(self) -> None:
        servers = self._cluster.bootstrap_servers
        ends = high_watermarks(servers, self._plan)
        history = History(self._load.sends(), self._load.follower.reads, read_all(servers, self._plan, ends), ends, [])
        found = [f"{one.kind}: {one.text}" for one in checks.check(history)] + self._load.broken()
        if found:
            raise Lost("; ".join(found[:20]))
        if not history.acked == len(history.sends) > 0:
            raise Lost(f"{len(history.sends) - history.acked} of {len(history.sends)} writes were never acknowledged")
        self._say(f"{history.acked} records were acknowledged, and all of them are there, once and in order")


def assert_done(cluster: Cluster) -> None:
    """What is left of ZooKeeper when all is over: nothing."""
    migration = Migration(cluster)
    assert migration.progress() is MigrationPhase.FINISHED
    assert all(migration.mode(broker) is Mode.QUORUM for broker in migration.brokers)


def main(arguments: list[str]) -> int:
    """The exit code: 0 when nothing was lost."""
    parser = argparse.ArgumentParser(
        prog="python -m moldau.cluster.migration_drill", description="The migration drill."
    )
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--controllers", type=int, default=3)
    parser.add_argument("--brief", action="store_true", help="brokers keep the setting on the way back")
    parser.add_argument("--data", help="folder of the cluster; a temporary one if not given")
    given = parser.parse_args(arguments)
    print(f"seed {given.seed}")
    try:
        with Cluster(3, mode="zookeeper", data=given.data, config=SETTINGS) as cluster:
            Drill(cluster, given.seed, controllers=given.controllers, brief=given.brief).run()
            assert_done(cluster)
    except (Lost, ClusterError) as error:
        print(f"FAIL (seed {given.seed}): {error}", file=sys.stderr)
        return 1
    print(f"PASS (seed {given.seed})")
    return 0
