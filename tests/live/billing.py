"""Orders that are billed in transactions: what is read, written and committed for a group in one, exactly once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka_peer import KafkaPeer
from tests.interchange.asked import Asked

from moldau.cluster.kills.cluster_poller import Address
from moldau.wire.messages.k43_elect_leaders import ElectLeadersRequest
from moldau.wire.messages.k45_alter_partition_reassignments import AlterPartitionReassignmentsRequest

SOURCE, SINK, GROUP, STATE = "orders", "bills", "billing", "__transaction_state"
COMPACT = {"cleanup.policy": "compact"}


def prepare(peer: KafkaPeer, others: list[int], coordinator: int = 1) -> None:
    """The coordinator of transactions is on one broker; everything else is led, or can be, by the other brokers."""
    admin = AdminClient({"bootstrap.servers": peer.bootstrap_servers})
    nodes = [*others, coordinator]
    topics = [
        NewTopic(STATE, 1, replica_assignment=[[coordinator]], config=COMPACT),
        NewTopic("__consumer_offsets", 1, replica_assignment=[nodes], config=COMPACT),
        NewTopic(SOURCE, 2, replica_assignment=[nodes, nodes[::-1]]),
        NewTopic(SINK, 2, replica_assignment=[nodes, nodes[::-1]]),
    ]
    for topic, done in admin.create_topics(topics).items():
        done.result(60)
        assert topic


def lead(controller: Address, order: list[int]) -> None:
    """Have the first of these brokers lead the orders, the bills and the group, in one step each: all are in sync."""
    numbers = {SOURCE: [0, 1], SINK: [0, 1], "__consumer_offsets": [0]}
    moves = AlterPartitionReassignmentsRequest
    elections = ElectLeadersRequest
    with Asked(controller) as node:
        topics = [
            moves.ReassignableTopic(
                name=name, partitions=[moves.ReassignablePartition(partition_index=n, replicas=order) for n in those]
            )
            for name, those in numbers.items()
        ]
        node.ask(moves(timeout_ms=30_000, topics=topics))
        parts = [elections.TopicPartitions(topic=name, partitions=those) for name, those in numbers.items()]
        node.ask(elections(election_type=0, topic_partitions=parts, timeout_ms=30_000))


RESTLESS = {"connections.max.idle.ms": 2_000, "metadata.max.age.ms": 2_000}
"""librdkafka 2.16 waits for ever in send_offsets_to_transaction for a coordinator that Metadata names no more, until
one of its connections changes (its issues 5456 and 5511): each does, all the time."""


def is_stuck(error: KafkaError | None) -> bool:
    """Whether a consumer's partitions wait for ever: librdkafka 2.16 asks for committed offsets once, and when the one
    it asks coordinates the group no more, which may be so whenever the lead moves, it does not ask the next (its issue
    5586). It tells its application, which has to assign them again."""
    return error is not None and error.code() == KafkaError.NOT_COORDINATOR


class Billing:
    """Reads orders and writes one bill for each, in transactions; some of those it aborts, and begins anew."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.committed = self.aborted = self.renewed = self.empty = self.begun_again = 0
        """``empty``: how often no order came, since one did last. ``begun_again``: how often the consumer was told to
        ask for its offsets once more."""
        self.doing = "begins"
        self.errors: list[str] = []
        self.over = threading.Event()

    def run(self) -> None:
        """Until ``over`` is set."""
        while not self.over.is_set():
            try:
                self._life()
            except KafkaException as error:
                self.renewed += 1  # a fatal error, or one that only a new producer gets over
                self.errors.append(f"{self.doing}: {error}")

    def _life(self) -> None:
        where = {"bootstrap.servers": self._bootstrap}
        producer = Producer(where | RESTLESS | {"transactional.id": "billing", "transaction.timeout.ms": 60_000})
        consumer = Consumer(
            where
            | {"group.id": GROUP, "enable.auto.commit": False, "isolation.level": "read_committed"}
            | {"auto.offset.reset": "earliest", "session.timeout.ms": 20_000}
        )
        try:
            consumer.subscribe([SOURCE])
            self.doing = "init_transactions"
            producer.init_transactions(60)
            while not self.over.is_set():
                self._transaction(producer, consumer)
        finally:
            consumer.close()

    def _transaction(self, producer: Producer, consumer: Consumer) -> None:
        self.doing = "consume"
        found = consumer.consume(20, 0.3)
        self.errors += [f"consume: {one.error()}" for one in found if one.error() is not None]
        if any(is_stuck(one.error()) for one in found):
            self.begun_again += 1
            consumer.assign(consumer.assignment())  # from what is committed on: no transaction is under way here
        orders = [one for one in found if one.error() is None]
        self.empty += 1
        if not orders:
            return
        self.empty = 0
        producer.begin_transaction()
        try:
            for order in orders:
                producer.produce(SINK, order.value(), partition=order.partition() or 0)
            # Not the consumer's positions: after a change of leader, or a seek, they are others (see decision 44).
            ends = {order.partition() or 0: (order.offset() or 0) + 1 for order in orders}
            billed = [TopicPartition(SOURCE, number, end) for number, end in ends.items()]
            self.doing = "send_offsets_to_transaction"
            producer.send_offsets_to_transaction(billed, consumer.consumer_group_metadata(), 30)
            if self.committed % 3 == 2 and self.aborted <= self.committed:
                raise KafkaException
            self.doing = "commit_transaction"
            producer.commit_transaction(30)
            self.committed += 1
        except KafkaException as error:
            self.errors += [f"{self.doing}: {error}"] if error.args else []  # else it is our own, which aborts
            self.doing = "abort_transaction"
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


@contextmanager
def billing_runs(bootstrap: str) -> Iterator[Billing]:
    """Billing beside what a test does; it has ended afterwards."""
    billing = Billing(bootstrap)
    thread = threading.Thread(target=billing.run)
    thread.start()
    try:
        yield billing
    except BaseException:
        print(
            f"{billing.committed} committed, {billing.aborted} aborted, {billing.renewed} renewed,"
            f" {billing.begun_again} begun again; no order came {billing.empty} times; it does {billing.doing};"
            f" {len(billing.errors)} errors: {billing.errors[-10:]}"
        )
        raise
    finally:
        billing.over.set()
        thread.join()
