"""Positions are published batch by batch, and trouble with that never reaches the query."""

from __future__ import annotations

import uuid
from contextlib import closing

import pytest
from pyspark.sql.streaming.listener import QueryTerminatedEvent

from moldau.model import Code, TopicPartition
from moldau.spark import publish
from moldau.spark.publish import PublishPositions, positions_of
from tests.packages.spark.progress import progress_event


class Cluster:
    def __init__(self, code: Code = Code.NONE, error: Exception | None = None) -> None:
        self.code, self.error = code, error
        self.committed: dict[str, dict[TopicPartition, int]] = {}
        self.closed = 0

    def close(self) -> None:
        self.closed += 1

    def commit(self, group: str, offsets: dict[TopicPartition, int]) -> dict[TopicPartition, Code]:
        if self.error is not None:
            raise self.error
        self.committed[group] = offsets
        return dict.fromkeys(offsets, self.code)


def listener(cluster: Cluster, query: str | None = None) -> PublishPositions:
    return PublishPositions("h:1", "billing", query, lambda bootstrap: cluster)


def test_a_batchs_end_is_committed_and_other_sources_are_left_alone():
    cluster = Cluster()
    listener(cluster).onQueryProgress(
        progress_event('{"a":{"0":5,"1":7},"#topicIds":{}}', "17", None, '{"logOffset":3}')
    )
    assert cluster.committed == {"billing": {TopicPartition("a", 0): 5, TopicPartition("a", 1): 7}}
    assert positions_of('{"b": "x"}') == {}


def test_only_the_named_query_is_published():
    cluster = Cluster()
    listener(cluster, "other").onQueryProgress(progress_event('{"a":{"0":5}}'))
    assert cluster.committed == {}


@pytest.mark.parametrize("cluster", [Cluster(error=ConnectionRefusedError("nobody")), Cluster(Code.UNKNOWN_MEMBER_ID)])
def test_trouble_is_a_warning(cluster):
    with pytest.warns(UserWarning, match="group billing"):
        listener(cluster).onQueryProgress(progress_event('{"a":{"0":5}}'))


def test_a_cluster_that_does_not_answer_holds_up_the_listeners_of_a_session_for_no_more_than_five_seconds():
    with closing(publish._open("h:1")) as cluster:
        assert cluster.client.options.api_timeout_ms <= 5000


def test_one_connection_serves_all_batches_and_is_opened_again_after_trouble():
    clusters = [Cluster(), Cluster()]
    opened = iter(clusters)
    publisher = PublishPositions("h:1", "billing", None, lambda bootstrap: next(opened))
    for end in range(5):
        publisher.onQueryProgress(progress_event(f'{{"a":{{"0":{end}}}}}'))
    assert clusters[0].committed == {"billing": {TopicPartition("a", 0): 4}}
    clusters[0].error = ConnectionResetError("gone")
    with pytest.warns(UserWarning, match="were not published"):
        publisher.onQueryProgress(progress_event('{"a":{"0":8}}'))
    publisher.onQueryProgress(progress_event('{"a":{"0":9}}'))
    assert clusters[1].committed == {"billing": {TopicPartition("a", 0): 9}}
    publisher.onQueryTerminated(QueryTerminatedEvent(uuid.UUID(int=1), uuid.UUID(int=2), None, None))
    assert [cluster.closed for cluster in clusters] == [1, 1]
