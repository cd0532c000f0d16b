"""How large records are, judged by one request per leader from whatever comes back."""

from __future__ import annotations

import pytest

from moldau.client.client import ClientOptions
from moldau.client.sampling import bytes_per_offset
from moldau.client.sync import Cluster
from moldau.model import NO_UUID, Code, TopicPartition
from moldau.wire import batch
from moldau.wire.messages.k01_fetch import FetchRequest, FetchResponse
from tests.packages.client.mini_cluster import MiniCluster, in_thread

# A judgement is waited for as long as the longest pause between two attempts.
QUICK = ClientOptions(api_timeout_ms=60_000, retry_backoff_ms=5, retry_backoff_max_ms=60_000, unknown_topic_grace_ms=30)
SOURCES = [TopicPartition("t", number) for number in range(4)]


@pytest.fixture
def mini():
    with in_thread(MiniCluster(2, {"t": 4})) as cluster:
        yield cluster


@pytest.fixture
def cluster(mini):
    with Cluster(mini.bootstrap, options=QUICK) as cluster:
        yield cluster


def test_all_partitions_are_judged_by_one_request_to_each_leader(cluster, mini):
    for source, size in zip(SOURCES, (10, 1000, 100_000, 0), strict=True):
        for _ in range(3 * bool(size)):
            mini.logs[source].append(batch.build([(1, None, bytes(size), [])] * 2))
    mini.asked.clear()
    found = cluster.run(bytes_per_offset(cluster.client, dict.fromkeys(SOURCES, (mini.ids["t"], 1))))
    assert {each.partition: round(size / 1000) for each, size in found.items()} == {0: 0, 1: 1, 2: 100}
    assert sorted(node for node, name in mini.asked if name == "Fetch") == [0, 1]


def test_a_batch_that_is_cut_short_is_judged_by_its_header(cluster, mini):
    whole = batch.build([(1, None, bytes(50_000), [])] * 4)
    mini.logs[SOURCES[0]].append(whole)

    def cut(node, message, serve):
        if not isinstance(message, FetchRequest):
            return None
        answer = serve()
        for part in answer.responses[0].partitions:
            part.records = part.records[:100]
        return answer

    mini.mischief = cut
    found = cluster.run(bytes_per_offset(cluster.client, {SOURCES[0]: (NO_UUID, 0)}))
    assert found == {SOURCES[0]: len(whole) / 4}


@pytest.mark.parametrize("records", [b"", b"x" * 60, b"\x00" * 61, b"\xff" * 200])
def test_nothing_is_judged_by_what_is_no_batch(cluster, mini, records):
    def garble(node, message, serve):
        if not isinstance(message, FetchRequest):
            return None
        part = FetchResponse.PartitionData(partition_index=0, records=records, error_code=Code.NONE)
        topic = message.topics[0]
        whole = FetchResponse.FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=[part])
        return FetchResponse(responses=[whole])

    mini.mischief = garble
    assert cluster.run(bytes_per_offset(cluster.client, {SOURCES[0]: (mini.ids["t"], 0)})) == {}
