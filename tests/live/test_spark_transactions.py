"""Transactions that a broker of Apache Kafka coordinates, read by ``format("moldau")`` from whichever program leads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka_peer import wait_until
from mixed import KAFKA, MOLDAU, MixedPeer, bootstrap_of
from pyspark.sql import SparkSession
from test_spark_source import numbers, run

from moldau.client.reading import LATEST, READ_COMMITTED
from moldau.client.sync import Cluster
from moldau.model import TopicPartition
from moldau.spark import session

TOPIC, STATE = "transfers", "__transaction_state"
PLACE = TopicPartition(TOPIC, 0)
ONE = {
    "transaction.state.log.num.partitions": 1, "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1, "broker.session.timeout.ms": 30_000,
}  # fmt: skip
COMMITTED, OPEN, LAST = [*range(10), *range(20, 30)], range(100, 110), range(200, 210)

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    found = session("transactions", folder=str(tmp_path_factory.mktemp("spark")))
    yield found
    found.stop()


class Transfers:
    """A topic with two transactions that were committed, two that were aborted, and one that is open."""

    def __init__(self, peer: MixedPeer, leader: int) -> None:
        self.where = peer.bootstrap_servers
        topics = [NewTopic(STATE, 1, replica_assignment=[[1]], config={"cleanup.policy": "compact"})]
        topics += [NewTopic(TOPIC, 1, replica_assignment=[[leader]])]
        admin = AdminClient({"bootstrap.servers": self.where})
        for done in admin.create_topics(topics).values():
            done.result(60)
        producer = self.producer()
        for turn in range(4):
            self.write(producer, range(turn * 10, turn * 10 + 10))
            if turn % 2:
                producer.abort_transaction(60)
            else:
                producer.commit_transaction(60)
        self.write(producer, OPEN)

    def producer(self) -> Producer:
        """A producer, which aborts what the one before has left open. None lives while Moldau runs the only node: it
        would be told that there is no coordinator."""
        long = {"transactional.id": TOPIC, "transaction.timeout.ms": 600_000}  # one is open while streams run
        producer = Producer({"bootstrap.servers": self.where} | long)
        producer.init_transactions(120)
        return producer

    def write(self, producer: Producer, values: range) -> None:
        producer.begin_transaction()
        for number in values:
            producer.produce(TOPIC, b"%d" % number, partition=0)
        producer.flush(60)  # or an abort would drop what never left

    def end(self) -> None:
        """Abort what is open, and commit another."""
        producer = self.producer()
        self.write(producer, LAST)
        producer.commit_transaction(120)


class Reader:
    """Reads from one broker, as a batch and as a stream of seven offsets at a time, some with aborted records alone."""

    def __init__(self, spark: SparkSession, bootstrap: str, folder: Path) -> None:
        self.spark, self.bootstrap, self.folder = spark, bootstrap, folder
        self.seen: dict[str, list[int]] = {"read_committed": [], "read_uncommitted": []}

    def read(self, isolation: str) -> list[list[int]]:
        """What a batch gives, and what a stream has given by now."""
        options = {"kafka.bootstrap.servers": self.bootstrap, "kafka.isolation.level": isolation, "subscribe": TOPIC}
        batch = self.spark.read.format("moldau").options(**options).load()
        stream = self.spark.readStream.format("moldau").options(
            **options, startingOffsets="earliest", maxOffsetsPerTrigger="7"
        )
        run(stream.load(), self.folder / isolation, lambda rows, _: self.seen[isolation].extend(numbers(rows)))
        return [numbers(batch), sorted(self.seen[isolation])]

    def check(self, *, ended: bool) -> None:
        """What was aborted, or is open, is seen by who reads everything, and by nobody else."""
        last = LAST if ended else ()
        assert self.read("read_committed") == [[*COMMITTED, *last]] * 2
        assert self.read("read_uncommitted") == [[*range(40), *OPEN, *last]] * 2

    def ends_at(self, offset: int) -> bool:
        with Cluster(self.bootstrap) as cluster:
            return cluster.offsets({PLACE: LATEST}, isolation=READ_COMMITTED)[PLACE].offset == offset


ALL = 6 * 11
"""Each transaction has ten records and a marker, which Kafka writes after its answer."""


@pytest.mark.parametrize("program", [KAFKA, MOLDAU])
def test_aborted_and_open_transactions_are_not_seen_on_the_folders_that_kafka_wrote(
    spark: SparkSession, tmp_path: Path, program: str
) -> None:
    with MixedPeer({1: KAFKA}, ONE, tmp_path / "cluster") as peer:
        transfers, reader = Transfers(peer, 1), Reader(spark, peer.bootstrap_servers, tmp_path)
        wait_until(lambda: reader.ends_at(4 * 11), "Kafka has written the last marker, after its answer")

        def led_by(program: str) -> None:
            if peer.programs[1] != program:
                peer.change(1, program)
                peer.wait_ready()

        led_by(program)
        reader.check(ended=False)
        led_by(KAFKA)
        transfers.end()
        wait_until(lambda: reader.ends_at(ALL), "it is committed")
        led_by(program)
        reader.check(ended=True)


def test_aborted_and_open_transactions_are_not_seen_where_moldau_leads_what_kafka_coordinates(
    spark: SparkSession, tmp_path: Path
) -> None:
    with MixedPeer({1: KAFKA, 2: MOLDAU}, ONE, tmp_path / "cluster") as peer:
        transfers, reader = Transfers(peer, 2), Reader(spark, bootstrap_of(peer, [2]), tmp_path)
        with Cluster(peer.bootstrap_servers) as cluster:
            assert cluster.topics([TOPIC])[TOPIC].partitions[0].leader == 2
        wait_until(lambda: reader.ends_at(4 * 11), "the last marker is written")
        reader.check(ended=False)
        transfers.end()
        wait_until(lambda: reader.ends_at(ALL), "it is committed")
        reader.check(ended=True)
