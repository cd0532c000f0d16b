"""Folders of Apache Kafka 3.9 in KRaft mode, at the metadata.version 3.9-IV0 (21) of its tool: there and back."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType
from kafka_peer import ALL_JARS, java_command, java_tool, wait_until
from mixed import KAFKA, MOLDAU, SMALL_HEAP, MixedPeer, bootstrap_of, ends_of, values_of

JARS = ALL_JARS / "kafka-3.9.2"
GROUP = "readers"
FEW = {"offsets.topic.num.partitions": 1, "default.replication.factor": 3, "min.insync.replicas": 1}


class Peer39(MixedPeer):
    """Nodes of Kafka 3.9.2 and of Moldau, formatted by Kafka 3.9.2's tool."""

    def format_command(self, node_id: int) -> list[str]:
        wish = ["format", "--ignore-formatted", "-t", self.cluster_id, "-c", self.config_file(node_id)]
        return java_command("kafka-storage", wish, jars=JARS)

    def node_command(self, node_id: int) -> list[str]:
        if self.programs[node_id] == MOLDAU:
            return super().node_command(node_id)
        return java_command("kafka.Kafka", [self.config_file(node_id)], SMALL_HEAP, jars=JARS)


def make(admin: AdminClient, name: str, factor: int) -> None:
    wanted = NewTopic(name, 2, factor, config={"retention.ms": "86400000"})
    admin.create_topics([wanted], operation_timeout=60)[name].result(60)


def write(bootstrap: str, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in numbers:
        producer.produce(topic, b"%d" % number, partition=number % 2)
    assert producer.flush(60) == 0


def commit(bootstrap: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
    consumer.close()


def committed(bootstrap: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
    (found,) = consumer.committed([TopicPartition("orders", 0)], timeout=60)
    consumer.close()
    return int(found.offset)


def setting(admin: AdminClient, key: str) -> str | None:
    asked = ConfigResource(ResourceType.TOPIC, "orders")
    value = admin.describe_configs([asked])[asked].result(60)[key].value
    return None if value is None else str(value)


def change(admin: AdminClient, key: str, value: str) -> None:
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "orders", incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(60)


def level(bootstrap: str) -> int:
    said = java_tool("kafka-features", "--bootstrap-server", bootstrap, "describe", jars=JARS).stdout
    line = next(one for one in said.splitlines() if one.startswith("Feature: metadata.version"))
    shown = line.split("FinalizedVersionLevel: ")[1].split("\t")[0]
    assert shown == "3.9-IV0", said
    return 21


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kill", [False, True], ids=["clean", "killed"])
def test_a_node_of_kafka_3_9_becomes_one_of_moldau_and_one_of_kafka_again(tmp_path: Path, kill: bool) -> None:
    with Peer39({1: KAFKA}, FEW | {"default.replication.factor": 1}, tmp_path) as peer:
        where = peer.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": where})
        make(admin, "orders", 1)
        write(where, "orders", range(100))
        commit(where, 17)
        assert level(where) == 21
        for turn, program in enumerate((MOLDAU, KAFKA), 1):
            peer.change(1, program, kill=kill)
            peer.wait_ready()
            assert sorted(map(int, values_of(where, "orders", 2))) == list(range(100 * turn))
            assert committed(where) == 16 + turn
            # A new client: that of before asked nothing of a node of Kafka's that took 13 s to come back, for a minute.
            admin = AdminClient({"bootstrap.servers": where})
            assert setting(admin, "retention.ms") == str(86_400_000 + turn - 1)
            assert level(where) == 21
            change(admin, "retention.ms", str(86_400_000 + turn))
            write(where, "orders", range(100 * turn, 100 * (turn + 1)))
            commit(where, 17 + turn)
            make(admin, f"made-in-turn-{turn}", 1)
            write(where, f"made-in-turn-{turn}", range(10))
        assert sorted(map(int, values_of(where, "made-in-turn-1", 2))) == list(range(10))
        peer.stop_node(1)
    said = java_tool(
        "kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files",
        tmp_path / "node-1" / "data" / "__cluster_metadata-0" / "00000000000000000000.log", jars=JARS,
    ).stdout  # fmt: skip
    assert "isvalid: true" in said
    assert "isvalid: false" not in said
    assert "could not be decoded" not in said.lower()


@pytest.mark.timeout(900)
def test_nodes_of_kafka_3_9_and_of_moldau_lead_each_other(tmp_path: Path) -> None:
    """Brokers register, a broker that is killed leaves the ISRs, and comes back, under a controller of either kind."""
    with Peer39({1: KAFKA, 2: MOLDAU, 3: MOLDAU}, FEW | {"broker.session.timeout.ms": 6000}, tmp_path) as peer:
        where = peer.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": where})
        make(admin, "orders", 3)
        seen = set()
        for turn in range(3):
            leader = peer.active_controller()
            seen.add(peer.programs[leader])
            write(where, "orders", range(50 * turn, 50 * (turn + 1)))
            peer.kill(leader)
            rest = bootstrap_of(peer, [id for id in peer.ports if id != leader])
            wait_until(partial(has_left, rest, leader), "the killed one leaves the ISR")
            wait_until(partial(has, rest, 50 * (turn + 1)), "new leaders know what is committed")
            assert sorted(map(int, values_of(rest, "orders", 2))) == list(range(50 * (turn + 1)))
            peer.restart(leader)
            wait_until(lambda: isr(where) == {1, 2, 3}, "all are in sync again")
        assert level(where) == 21


def isr(bootstrap: str) -> set[int]:
    """The brokers that are in sync in every partition of the topic."""
    topic = AdminClient({"bootstrap.servers": bootstrap}).list_topics("orders", timeout=60).topics["orders"]
    return set.intersection(*(set(one.isrs) for one in topic.partitions.values()))


def has_left(bootstrap: str, broker_id: int) -> bool:
    """Whether a broker is in sync in none of the topic's partitions."""
    topic = AdminClient({"bootstrap.servers": bootstrap}).list_topics("orders", timeout=60).topics["orders"]
    return all(broker_id not in one.isrs for one in topic.partitions.values())


def has(bootstrap: str, records: int) -> bool:
    return ends(bootstrap) == records


def ends(bootstrap: str) -> int:
    """How many records readers may have."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "ends"})
    try:
        return sum(ends_of(consumer, "orders", 2).values())
    finally:
        consumer.close()
