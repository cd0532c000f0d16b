"""Positions are published batch by batch, and trouble with that never reaches the query."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from moldau.spark.publish import PublishPositions, positions_of
from moldau.terms import Code, TopicPartition


class Cluster:
    def __init__(self, code: Code = Code.NONE, error: Exception | None = None) -> None:
        self.code, self.error = code, error
        self.committed: dict[str, dict[TopicPartition, int]] = {}

    def __enter__(self) -> Cluster:
        if self.error is not None:
            raise self.error
        return self

    def __exit__(self, *_: object) -> None: ...

    def commit(self, group: str, offsets: dict[TopicPartition, int]) -> dict[TopicPartition, Code]:
        self.committed[group] = offsets
        return dict.fromkeys(offsets, self.code)


def progress(*offsets: str | None, name: str = "q") -> SimpleNamespace:
    sources = [SimpleNamespace(endOffset=each) for each in offsets]
    return SimpleNamespace(progress=SimpleNamespace(name=name, sources=sources))


def listener(cluster: Cluster, query: str | None = None) -> PublishPositions:
    return PublishPositions("h:1", "billing", query, lambda bootstrap: cluster)


def test_a_batchs_end_is_committed_and_other_sources_are_left_alone():
    cluster = Cluster()
    listener(cluster).onQueryProgress(progress('{"a":{"0":5,"1":7},"#topicIds":{}}', "17", None, '{"logOffset":3}'))
    assert cluster.committed == {"billing": {TopicPartition("a", 0): 5, TopicPartition("a", 1): 7}}
    assert positions_of('{"b": "x"}') == {}


def test_only_the_named_query_is_published():
    cluster = Cluster()
    listener(cluster, "other").onQueryProgress(progress('{"a":{"0":5}}'))
    assert cluster.committed == {}


@pytest.mark.parametrize("cluster", [Cluster(error=ConnectionRefusedError("nobody")), Cluster(Code.UNKNOWN_MEMBER_ID)])
def test_trouble_is_a_warning(cluster):
    with pytest.warns(UserWarning, match="group billing"):
        listener(cluster).onQueryProgress(progress('{"a":{"0":5}}'))
