"""What clients are told of a topic that they have deleted, when looking for it may create it anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from kafka_peer import wait_until

from moldau.client import admin
from moldau.client.client import ForNode
from moldau.client.sync import Cluster
from moldau.model import Code
from moldau.wire.messages.k03_metadata import MetadataRequest, MetadataResponse


@pytest.fixture
def cluster(bootstrap_servers: str) -> Iterator[Cluster]:
    with Cluster(bootstrap_servers) as client:
        yield client


def look(cluster: Cluster, topic: str, *, creating: bool) -> MetadataResponse.MetadataResponseTopic:
    """What one broker, always the same, says of a topic."""
    named = [MetadataRequest.MetadataRequestTopic(name=topic)]
    request = MetadataRequest(topics=named, allow_auto_topic_creation=creating)
    broker = ForNode(min(cluster.brokers()))
    return cluster.run(cluster.client.ask(request, broker, codes=lambda response: ())).topics[0]


def is_gone(cluster: Cluster, topic: str) -> bool:
    return look(cluster, topic, creating=False).error_code == Code.UNKNOWN_TOPIC_OR_PARTITION


def test_who_looks_for_a_topic_just_after_its_deletion_is_told_that_it_is_gone_and_it_is_created_then(
    cluster: Cluster, fresh: Callable[[str], str]
) -> None:
    topic = fresh("deleted")
    new = admin.NewTopic(name=topic, partitions=1, replication_factor=1)
    assert cluster.run(admin.create_topics(cluster.client, [new]))[topic].code == Code.NONE
    wait_until(lambda: not is_gone(cluster, topic), "the topic is there")
    cluster.run(admin.delete_topics(cluster.client, [topic]))
    wait_until(lambda: is_gone(cluster, topic), "the topic is gone")

    told = look(cluster, topic, creating=True)

    assert (told.error_code, told.partitions) == (Code.UNKNOWN_TOPIC_OR_PARTITION, [])
    wait_until(lambda: not is_gone(cluster, topic), "looking for it has created it")
