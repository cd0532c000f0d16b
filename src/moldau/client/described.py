"""Topics described with their eligible leaders (KIP-966), page by page; from older brokers, as their metadata has them.

Read next: admin.py.
"""

from __future__ import annotations

from collections.abc import Collection

from moldau.client.client import ANYONE, Client
from moldau.client.lines import UnsupportedApi
from moldau.model import NO_UUID, Code
from moldau.model.named import NamedTuple
from moldau.wire.messages.k75_describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
)


class DescribedPartition(NamedTuple):
    """A partition; ``eligible`` and ``last_known`` are None from brokers that do not say them."""

    number: int
    leader: int
    replicas: list[int]
    isr: list[int]
    eligible: list[int] | None = None
    last_known: list[int] | None = None


class DescribedTopic(NamedTuple):
    """A topic, or why there is nothing to say of it."""

    name: str
    code: Code
    topic_id: bytes
    internal: bool
    partitions: list[DescribedPartition]


async def describe_topics(
    client: Client, names: Collection[str], *, partitions_per_response: int = 2000
) -> dict[str, DescribedTopic]:
    """The named topics, in the order of their names; also those that are refused, with the code."""
    try:
        return await _by_pages(client, sorted(names), partitions_per_response)
    except UnsupportedApi:
        return await describe_by_metadata(client, sorted(names))


async def _by_pages(client: Client, names: list[str], limit: int) -> dict[str, DescribedTopic]:
    kind = DescribeTopicPartitionsRequest
    found: dict[str, DescribedTopic] = {}
    cursor: DescribeTopicPartitionsRequest.Cursor | None = None
    while names:
        asked = [kind.TopicRequest(name=name) for name in names]
        request = kind(topics=asked, response_partition_limit=limit, cursor=cursor)
        response = await client.ask(request, ANYONE, codes=lambda r: ())
        for topic in response.topics:
            parts = [
                DescribedPartition(
                    p.partition_index, p.leader_id, p.replica_nodes, p.isr_nodes, p.eligible_leader_replicas,
                    p.last_known_elr,
                )
                for p in topic.partitions
            ]  # fmt: skip
            name = topic.name or ""
            before = found[name].partitions if name in found else []
            code = Code(topic.error_code)
            found[name] = DescribedTopic(name, code, topic.topic_id, topic.is_internal, [*before, *parts])
        if response.next_cursor is None:
            break
        at = response.next_cursor
        cursor = kind.Cursor(topic_name=at.topic_name, partition_index=at.partition_index)
        names = [name for name in names if name >= at.topic_name]
    return found


async def describe_by_metadata(client: Client, names: Collection[str]) -> dict[str, DescribedTopic]:
    """The named topics as the metadata has them: without eligible leaders, from any broker."""
    troubles = await client.know(names) if names else {}
    found = {}
    for name in names:
        topic = client.view.topics.get(name)
        if topic is None:
            code = troubles.get(name, Code.UNKNOWN_TOPIC_OR_PARTITION)
            found[name] = DescribedTopic(name, code, NO_UUID, False, [])
            continue
        parts = [DescribedPartition(p.index, p.leader, p.replicas, p.isr) for p in topic.partitions.values()]
        found[name] = DescribedTopic(name, Code.NONE, topic.topic_id, topic.internal, parts)
    return found
