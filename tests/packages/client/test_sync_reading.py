"""A range of one partition, read by the blocking client: what ends it, what does not, and whom it asks."""

from __future__ import annotations

import select
import time

import pytest

from moldau.client.client import ClientOptions
from moldau.client.lines import ConnectionOptions
from moldau.client.reading import Fetched, FetchOptions, read_partition, visible
from moldau.client.sockets import SocketLine, SocketLines, drive
from moldau.client.sync import Cluster
from moldau.model import Code, TopicPartition
from moldau.wire import batch
from moldau.wire.compression import BatchError
from moldau.wire.messages.k01_fetch import FetchRequest, FetchResponse
from moldau.wire.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.packages.client.mini_cluster import MiniCluster, in_thread

QUICK = ClientOptions(api_timeout_ms=60_000, retry_backoff_ms=5, retry_backoff_max_ms=20, unknown_topic_grace_ms=30)
T0 = TopicPartition("t", 0)


@pytest.fixture
def mini():
    with in_thread(MiniCluster(2, {"t": 1})) as cluster:
        for i in range(20):
            cluster.logs[T0].append(batch.build([(1_000, None, b"%d" % i, [])]))
        yield cluster


@pytest.fixture
def cluster(mini):
    with Cluster(mini.bootstrap, options=QUICK) as cluster:
        yield cluster


def values(cluster, start, stop, **how) -> list[int]:
    options = FetchOptions(max_bytes=200, max_wait_ms=5, **how)
    return [
        int(r.value or b"") for got in cluster.fetch_range(T0, start, stop, options) for r in visible(got, start, stop)
    ]  # fmt: skip


def test_a_follower_that_lacks_an_offset_is_not_believed_and_the_leader_is_asked(cluster, mini):
    """The leader recommends the nearest replica (KIP-392), whose disk was emptied; the records are all there."""

    def near_but_empty(node, message, serve):
        if not isinstance(message, FetchRequest):
            return None
        topic = message.topics[0]
        part = FetchResponse.PartitionData(partition_index=0, records=b"", high_watermark=20, log_start_offset=0)
        if node == 1:
            part.error_code = Code.OFFSET_OUT_OF_RANGE
        elif message.rack_id:
            part.preferred_read_replica = 1
        else:
            return None
        whole = FetchResponse.FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=[part])
        return FetchResponse(responses=[whole])

    mini.mischief = near_but_empty
    assert values(cluster, 3, 17, rack="near") == list(range(3, 17))


def test_an_offset_that_the_leader_lacks_is_out_of_range(cluster, mini):
    mini.logs[T0].start = 10
    (got,) = cluster.fetch_range(T0, 3, 17, FetchOptions(rack="near"))
    assert got.code is Code.OFFSET_OUT_OF_RANGE


def test_an_answer_without_partitions_is_a_throttled_one_and_asked_for_again(cluster, mini):
    throttled = iter(range(3))

    def over_quota(node, message, serve):
        if isinstance(message, FetchRequest) and next(throttled, None) is not None:
            return FetchResponse(responses=[], throttle_time_ms=5)
        return None

    mini.mischief = over_quota
    assert values(cluster, 0, 20) == list(range(20))


def test_a_tail_without_a_batch_is_told_and_does_not_hold_the_caller(cluster, mini):
    """Compaction may leave nothing between a position and the high watermark."""
    mini.logs[T0].batches = mini.logs[T0].batches[:15]
    answers = cluster.fetch_range(T0, 10, 20, FetchOptions(max_bytes=1 << 20, max_wait_ms=5))
    first, second, third = (next(answers) for _ in range(3))
    assert [int(r.value or b"") for r in visible(first, 10, 20)] == [10, 11, 12, 13, 14]
    assert [(bytes(each.records), each.next_offset, each.high_watermark) for each in (second, third)] == [
        (b"", 15, 20)
    ] * 2


def test_a_range_ends_where_the_log_ends(cluster):
    assert values(cluster, 15, 30) == [15, 16, 17, 18, 19]


def test_an_answer_that_lies_in_the_socket_is_taken_however_late():
    """Whoever asks ahead and is busy with the last answer for longer than a request may take."""

    with in_thread(HeartbeatCluster()) as mini:
        host, _, port = mini.bootstrap.partition(":")
        options = ConnectionOptions(request_timeout_ms=1000)
        line = drive(SocketLines(options).connect(host, int(port)))
        assert isinstance(line, SocketLine)
        ask = line.ask(HeartbeatRequest(), timeout_ms=1)
        sent = time.monotonic()
        poll = select.poll()
        poll.register(line.fileno(), select.POLLIN)
        assert poll.poll(60_000), "the answer is there"
        while time.monotonic() < sent + 0.002:
            pass
        assert ask.take().throttle_time_ms == 7
        line.close()


class HeartbeatCluster(MiniCluster):
    """One broker that answers heartbeats."""

    def __init__(self) -> None:
        super().__init__(1, {})

    def _Heartbeat(self, node: int, message: HeartbeatRequest) -> HeartbeatResponse:
        return HeartbeatResponse(throttle_time_ms=7)


@pytest.mark.parametrize("length", [-13, 0, 48])
def test_a_length_that_no_batch_can_have_is_refused_and_not_asked_for_again_and_again(length):
    sound = batch.build([(1_000, None, b"a", [])])
    broken = sound[:8] + length.to_bytes(4, "big", signed=True) + sound[12:]
    part = FetchResponse.PartitionData(partition_index=0, records=broken, high_watermark=20, log_start_offset=0)
    with pytest.raises(BatchError, match=f"after offset 7 claims a size of {length + 12} bytes"):
        read_partition(part, 7)
    part.records = sound + broken
    found = read_partition(part, 0)
    assert isinstance(found, Fetched)
    assert (bytes(found.records), found.next_offset, found.batches) == (sound, 1, [0])
