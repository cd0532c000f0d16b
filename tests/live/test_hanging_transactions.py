"""Hanging transactions of an Apache Kafka broker: the job finds, from its files, what Kafka's own tool finds by asking.

They are made as they came about before KIP-890: records of a transaction that its coordinator was not told of, which a
broker takes that does not ask the coordinator (``transaction.partition.verification.enable``).
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka_peer import KafkaPeer
from transaction_writer import newest, producer_of, transact

from moldau.client.client import Client
from moldau.client.sync import Cluster
from moldau.client.writing import produce_request
from moldau.model import TopicPartition
from moldau.wire.batch import build
from moldau.wire.messages.k00_produce import ProduceRequest

BEFORE_KIP_890 = 11
"""The last version of a Produce request that does not add its partitions to the transaction."""
LONG_AGO_S = 1_800
HEAD = ["Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset", "LastTimestamp",
        "Duration(min)"]  # fmt: skip

pytestmark = pytest.mark.timeout(900)


class Hanging(NamedTuple):
    """What Kafka's tool and the job both tell of a transaction."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_ms: int


class Stage:
    """A broker with transactions of every kind."""

    def __init__(self, peer: KafkaPeer) -> None:
        self.peer = peer
        admin = AdminClient({"bootstrap.servers": peer.bootstrap_servers})
        for made in admin.create_topics([NewTopic("orders", 2, 1), NewTopic("bills", 1, 1)]).values():
            made.result(120)
        self.old_ms = time.time_ns() // 1_000_000 - LONG_AGO_S * 1_000

    def write(self, topic: str, partition: int, id: str, times: list[int], producer: tuple[int, int]) -> None:
        """A batch of a transaction without a word to its coordinator."""
        number, epoch = producer
        data = build(
            [(at, None, b"x", ()) for at in times], producer_id=number, producer_epoch=epoch, base_sequence=0,
            transactional=True,
        )  # fmt: skip
        with Cluster(self.peer.bootstrap_servers) as cluster:
            cluster.run(written(cluster.client, TopicPartition(topic, partition), data, id))

    def new_id(self, id: str | None) -> tuple[int, int]:
        with Cluster(self.peer.bootstrap_servers) as cluster:
            return cluster.producer_id(id)

    def known(self, name: str) -> Producer:
        """A transaction that its coordinator has, whose records say that they are old."""
        producer = producer_of(self.peer, name)
        producer.begin_transaction()
        producer.produce("orders", b"x", partition=0, timestamp=self.old_ms)
        assert producer.flush(120) == 0
        return producer

    def told_by_kafka(self, minutes: int) -> list[Hanging]:
        words = ("find-hanging", "--broker-id", 1, "--max-transaction-timeout", minutes)
        said = self.peer.tool("kafka-transactions", *words).stdout.splitlines()
        rows = [line.split() for line in said if line.strip()]
        if not rows:
            return []
        head, *found = rows
        assert head == HEAD, said
        return sorted(Hanging(topic, *map(int, numbers[:6])) for topic, *numbers in found)

    def told_by_the_job(self, minutes: int) -> list[Hanging]:
        words = [sys.executable, "-m", "moldau", "job", "hanging-transactions", str(self.peer.data_dir(1))]
        words += ["--max-transaction-timeout", f"{minutes}m", "-o", "json"]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=240)
        found = json.loads(done.stdout)
        assert done.returncode == (4 if found else 0), done.stderr
        assert [one["reason"] for one in found] == [None] * len(found)
        return sorted(Hanging(**{name: one[name] for name in Hanging._fields}) for one in found)


async def written(client: Client, target: TopicPartition, data: bytes, id: str) -> None:
    await client.know_leaders([target])
    leader = client.view.leader(target)
    assert leader is not None
    line = await client.line(leader)
    request, _ = produce_request(client, [(target, data)], -1, 30_000)
    request.transactional_id = id
    answer = await line.ask(request, version=line.version_for(ProduceRequest, BEFORE_KIP_890), timeout_ms=60_000)
    assert [one.error_code for topic in answer.responses for one in topic.partition_responses] == [0]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    settings = {"transaction.state.log.num.partitions": 2, "transaction.partition.verification.enable": "false"}
    with KafkaPeer(1, settings, tmp_path_factory.mktemp("kafka")) as peer:
        yield Stage(peer)


def test_the_job_finds_what_kafkas_own_tool_finds(stage: Stage) -> None:
    open_ = stage.known("open")
    transact(producer_of(stage.peer, "committed"), "commit")
    hangs = stage.new_id("hangs")
    stage.write("orders", 0, "hangs", [stage.old_ms, stage.old_ms + 1], hangs)
    stage.write("orders", 1, "hangs", [stage.old_ms], hangs)
    stage.write("bills", 0, "nobody's", [stage.old_ms], stage.new_id(None))
    stage.write("bills", 0, "young", [time.time_ns() // 1_000_000], stage.new_id("young"))
    theirs = stage.told_by_kafka(15)
    assert [(one.topic, one.partition) for one in theirs] == [("bills", 0), ("orders", 0), ("orders", 1)]
    assert stage.told_by_the_job(15) == theirs
    all_of_them = stage.told_by_kafka(0)
    assert len(all_of_them) == 4
    assert stage.told_by_the_job(0) == all_of_them
    place = theirs[1]
    words = ("--topic", place.topic, "--partition", place.partition, "--start-offset", place.start_offset)
    stage.peer.tool("kafka-transactions", "abort", *words)
    assert stage.told_by_the_job(15) == stage.told_by_kafka(15) == [theirs[0], theirs[2]]
    open_.commit_transaction(120)
    assert newest(stage.peer)["open"] is not None
    stage.peer.stop_node(1)  # it writes snapshots of its producers
    assert list((stage.peer.data_dir(1) / "orders-0").glob("*.snapshot"))
    assert stage.told_by_the_job(15) == [theirs[0], theirs[2]]
