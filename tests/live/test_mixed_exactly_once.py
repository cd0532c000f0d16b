"""Transactions that a broker of Apache Kafka coordinates, in partitions and groups that brokers of Moldau lead."""

from __future__ import annotations

import os
import threading
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka_peer import java_tool, wait_until
from mixed import KAFKA, MOLDAU, MixedPeer, bootstrap_of, segments

ONE = {"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1}
PEER = {f"transaction.state.log.{key}": 1 for key in ("replication.factor", "min.isr")} | ONE
QUIET = {"broker.session.timeout.ms": 30_000}
"""Nobody stops leading because a machine is slow."""
SOURCE, SINK, GROUP = "orders", "bills", "billing"
COMPACT = {"cleanup.policy": "compact"}
LONG = "MOLDAU_INTERCHANGE" in os.environ


def prepare(peer: MixedPeer, others: list[int]) -> None:
    """The coordinator of transactions is on broker 1; everything else is led, or can be, by the other brokers."""
    admin = AdminClient({"bootstrap.servers": peer.bootstrap_servers})
    nodes = [*others, 1]
    topics = [
        NewTopic("__transaction_state", 1, replica_assignment=[[1]], config=COMPACT),
        NewTopic("__consumer_offsets", 1, replica_assignment=[nodes], config=COMPACT),
        NewTopic(SOURCE, 2, replica_assignment=[nodes, nodes[::-1]]),
        NewTopic(SINK, 2, replica_assignment=[nodes, nodes[::-1]]),
    ]
    for topic, done in admin.create_topics(topics).items():
        done.result(60)
        assert topic


class Billing:
    """Reads orders and writes one bill for each, in transactions; some of those it aborts, and begins anew."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.committed = self.aborted = self.renewed = 0
        self.over = threading.Event()

    def run(self) -> None:
        """Until ``over`` is set."""
        while not self.over.is_set():
            try:
                self._life()
            except KafkaException:
                self.renewed += 1  # a fatal error, or one that only a new producer gets over

    def _life(self) -> None:
        where = {"bootstrap.servers": self._bootstrap}
        producer = Producer(where | {"transactional.id": "billing", "transaction.timeout.ms": 60_000})
        consumer = Consumer(
            where
            | {"group.id": GROUP, "enable.auto.commit": False, "isolation.level": "read_committed"}
            | {"auto.offset.reset": "earliest", "session.timeout.ms": 20_000}
        )
        try:
            consumer.subscribe([SOURCE])
            producer.init_transactions(60)
            while not self.over.is_set():
                self._transaction(producer, consumer)
        finally:
            consumer.close()

    def _transaction(self, producer: Producer, consumer: Consumer) -> None:
        orders = [one for one in consumer.consume(20, 0.3) if one.error() is None]
        if not orders:
            return
        producer.begin_transaction()
        try:
            for order in orders:
                producer.produce(SINK, order.value(), partition=order.partition() or 0)
            positions = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), 30)
            if self.committed % 3 == 2 and self.aborted <= self.committed:
                raise KafkaException
            producer.commit_transaction(30)
            self.committed += 1
        except KafkaException:
            producer.abort_transaction(60)
            self.aborted += 1
            for back in consumer.committed(consumer.assignment(), 30):
                back.offset = max(back.offset, 0)
                consumer.seek(back)


def read(bootstrap: str) -> list[bytes]:
    """All committed bills, to the end of what is decided."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": "read_committed",
                         "enable.partition.eof": True})  # fmt: skip
    try:
        consumer.assign([TopicPartition(SINK, number, 0) for number in (0, 1)])
        found: list[bytes] = []
        ends = 0
        while ends < 2:
            message = consumer.poll(120)
            assert message is not None, "neither a bill nor an end came"
            error, value = message.error(), message.value()
            if error is not None:  # others are news of brokers, or of a topic that one has not heard of
                ends += error.code() == KafkaError._PARTITION_EOF
            elif value is not None:
                found.append(value)
        return found
    finally:
        consumer.close()


def order(bootstrap: str, numbers: range) -> list[bytes]:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "message.timeout.ms": 120_000})
    values = [b"%d" % number for number in numbers]
    for number, value in zip(numbers, values, strict=True):
        producer.produce(SOURCE, value, partition=number % 2)
    assert producer.flush(120) == 0
    return values


def _is_replicated(peer: MixedPeer, folder: str) -> bool:
    return len(set(segments(peer, folder).values())) == 1


def test_each_order_is_billed_once_though_transactions_abort(tmp_path: Path) -> None:
    with MixedPeer({1: KAFKA, 2: MOLDAU}, PEER | QUIET, tmp_path) as peer:
        prepare(peer, [2])
        where = peer.bootstrap_servers
        orders = order(where, range(400))
        billing = Billing(bootstrap_of(peer, [2]))
        thread = threading.Thread(target=billing.run)
        thread.start()
        try:
            wait_until(lambda: len(read(where)) >= len(orders), "all orders are billed")
        finally:
            billing.over.set()
            thread.join()
        assert billing.aborted > 2
        assert billing.renewed == 0
        assert sorted(read(where), key=int) == orders
        for folder in (f"{SINK}-0", f"{SINK}-1", "__consumer_offsets-0"):
            wait_until(partial(_is_replicated, peer, folder), f"{folder} is replicated")


@pytest.mark.skipif(not LONG, reason="takes a minute: make interchange runs it")
def test_each_order_is_billed_once_though_the_leaders_of_everything_are_killed(tmp_path: Path) -> None:
    with MixedPeer({1: KAFKA, 2: MOLDAU, 3: MOLDAU}, PEER, tmp_path) as peer:
        prepare(peer, [2, 3])
        where = peer.bootstrap_servers
        billing = Billing(where)
        thread = threading.Thread(target=billing.run)
        thread.start()
        orders: list[bytes] = []
        try:
            for round in range(4):
                orders += order(where, range(len(orders), len(orders) + 300))
                victim = 2 + round % 2
                peer.kill(victim)
                orders += order(where, range(len(orders), len(orders) + 300))
                peer.restart(victim)
            wait_until(lambda: len(read(where)) >= len(orders), "all orders are billed", 240)
        finally:
            billing.over.set()
            thread.join()
        assert sorted(read(where), key=int) == orders


@pytest.mark.skipif(not LONG, reason="starts the Java client: make interchange runs it")
@pytest.mark.parametrize("level", [0, 2], ids=["partitions added by the client", "partitions added by the leader"])
def test_the_java_client_s_transactions_are_all_committed(tmp_path: Path, level: int) -> None:
    with MixedPeer({1: KAFKA, 2: MOLDAU}, PEER, tmp_path) as peer:
        where = peer.bootstrap_servers
        if not level:  # the format tool begins with 2
            java_tool("kafka-features", "--bootstrap-server", where, "downgrade", "--feature", "transaction.version=0")
        prepare(peer, [2])
        java_tool(
            "kafka-producer-perf-test", "--bootstrap-server", where, "--topic", SINK, "--num-records", "3000",
            "--record-size", "100", "--throughput", "2000", "--transactional-id", "x",
            "--transaction-duration-ms", "100",
        )  # fmt: skip
        assert len(read(where)) == 3000
        for number in (0, 1):
            open_ = java_tool(
                "kafka-transactions", "--bootstrap-server", where, "describe-producers", "--topic", SINK,
                "--partition", number,
            ).stdout.splitlines()[1:]  # fmt: skip
            assert all("None" in line for line in open_ if line.strip()), open_
