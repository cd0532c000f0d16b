"""Records that are written from a stream, where a batch is refused: what fits alone is written, and what follows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from moldau.client.client import Client, ClientOptions
from moldau.client.feeding import BATCH_BYTES, FeedOptions, NotWritten, TopicFeed
from moldau.client.world_lines import WorldLines
from moldau.model import Code, TopicPartition
from moldau.ports import World
from moldau.wire import batch
from moldau.wire.compression import Codec
from moldau.wire.messages.k00_produce import ProduceRequest, ProduceResponse
from tests.packages.client.fake_broker import run
from tests.packages.client.mini_cluster import MiniCluster

QUICK = ClientOptions(api_timeout_ms=60_000, retry_backoff_ms=5, retry_backoff_max_ms=20)
MOST = 1_048_588
"""message.max.bytes of Apache Kafka."""


def strict(partitions: int, most: int = MOST) -> MiniCluster:
    """A cluster with topic ``t`` that takes no larger batches than ``most``."""

    def refuse(node: int, message: Any, serve: Any) -> ProduceResponse | None:
        if not isinstance(message, ProduceRequest):
            return None
        (topic,) = message.topic_data
        (part,) = topic.partition_data
        if len(part.records or b"") <= most:
            return None
        code = Code.MESSAGE_TOO_LARGE
        told = ProduceResponse.PartitionProduceResponse(index=part.index, error_code=code, base_offset=-1)
        one = ProduceResponse.TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=[told])
        return ProduceResponse(responses=[one])

    cluster = MiniCluster(1, {"t": partitions})
    cluster.mischief = refuse
    return cluster


def values_in(cluster: MiniCluster, partition: int) -> list[bytes | None]:
    return cluster.logs[TopicPartition("t", partition)].values


def feeding(cluster: MiniCluster, play: Callable[[TopicFeed], Awaitable[None]], **options: Any) -> None:
    async def scene(world: World) -> None:
        await cluster.start()
        client = Client(WorldLines(world), cluster.bootstrap, QUICK)
        await client.know(["t"])
        await play(TopicFeed(client, "t", FeedOptions(**options)))
        client.close()
        await cluster.stop()

    run(scene)


@pytest.mark.parametrize("acks", [-1, 1])
def test_a_large_record_is_written_whatever_has_gathered_before_it(acks: int) -> None:
    """Both went into one batch, larger than a broker takes, though each record alone is not."""
    cluster = strict(1)
    values = [bytes(100_000)] * (BATCH_BYTES // 100_000) + [bytes(900_000), b"small"]

    async def play(feed: TopicFeed) -> None:
        for value in values:
            feed.add(None, value)
        await feed.flush()
        assert (feed.written, feed.waiting, feed.sending) == (len(values), 0, 0)

    feeding(cluster, play, acks=acks)
    assert values_in(cluster, 0) == values


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_records_that_a_topic_takes_one_by_one_are_written_though_it_takes_no_large_batches(codec: Codec) -> None:
    cluster = strict(1, most=300)
    values = [b"%d" % number * 40 for number in range(10, 90)]

    async def play(feed: TopicFeed) -> None:
        for value in values:
            feed.add(b"k", value, [("h", value[:2])], timestamp_ms=int(value[:2]))
        await feed.flush()
        assert (feed.written, feed.sending) == (len(values), 0)

    feeding(cluster, play, codec=codec)
    assert values_in(cluster, 0) == values
    found = [one for data in cluster.logs[TopicPartition("t", 0)].batches for one in batch.records(data)]
    assert [(one.timestamp, one.key, one.headers[0][1]) for one in found] == [
        (int(value[:2]), b"k", value[:2]) for value in values
    ]


def test_after_a_record_that_is_refused_others_of_its_partition_are_written() -> None:
    """Its sequence numbers were gone with it, so that whatever came after it was out of order."""
    cluster = strict(1, most=300)

    async def play(feed: TopicFeed) -> None:
        feed.add(None, b"first")
        feed.add(None, bytes(1_000))
        feed.add(None, b"third")
        with pytest.raises(NotWritten) as refused:
            await feed.flush()
        assert (refused.value.code, refused.value.count, refused.value.place) == (Code.MESSAGE_TOO_LARGE, 1, 1)
        assert (refused.value.written, feed.waiting) == (1, 1)
        feed.add(None, b"fourth", partition=0)
        await feed.flush()

    feeding(cluster, play)
    assert values_in(cluster, 0) == [b"first", b"third", b"fourth"]


def test_what_is_for_other_partitions_than_a_refused_batch_waits_for_the_next_flush() -> None:
    """It was dropped, and nobody was told."""
    cluster = strict(3, most=300)

    async def play(feed: TopicFeed) -> None:
        feed.add(None, bytes(1_000), partition=0)
        feed.add(None, b"one", partition=1)
        feed.add(None, b"two", partition=2)
        with pytest.raises(NotWritten):
            await feed.flush()
        assert feed.waiting == 2
        await feed.flush()
        assert (feed.written, feed.waiting) == (2, 0)

    feeding(cluster, play)
    assert [values_in(cluster, number) for number in range(3)] == [[], [b"one"], [b"two"]]
