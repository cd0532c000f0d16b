"""Offsets that groups committed: read, written, deleted, from outside the group.

Membership is consumer.py's. Answers are values with codes, as the coordinator gave them.
Sources: protocol guide; KIP-447 (stable offsets), KIP-709 (many groups in one request). Read next: admin.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from moldau.client.client import Client, Coordinator, CoordinatorKind
from moldau.client.view import code_of
from moldau.terms import Code, TopicPartition
from moldau.wire.messages.k08_offset_commit import OffsetCommitRequest
from moldau.wire.messages.k09_offset_fetch import OffsetFetchRequest

_BY_NAME = 9  # of OffsetCommit and OffsetFetch: later versions name topics by id


class Committed(NamedTuple):
    """A committed position: the offset of the next record to read (-1 when nothing is committed)."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    code: Code = Code.NONE


class Membership(NamedTuple):
    """On whose behalf offsets are committed; the default stands outside the group, which must be empty then."""

    member_id: str = ""
    generation: int = -1
    instance_id: str | None = None


OUTSIDE = Membership()


def coordinator(group_id: str) -> Coordinator:
    return Coordinator(CoordinatorKind.GROUP, group_id)


async def committed(
    client: Client, group_id: str, partitions: Collection[TopicPartition] | None = None, *, stable: bool = False
) -> tuple[Code, dict[TopicPartition, Committed]]:
    """What a group committed for the given partitions, or for all it ever did; without those that have nothing.

    ``stable`` waits for open transactions' offsets (KIP-447). The code is the group's.
    """
    topics = None if partitions is None else _by_topic(partitions)
    kind = OffsetFetchRequest
    old = (
        None
        if topics is None
        else [kind.OffsetFetchRequestTopic(name=n, partition_indexes=i) for n, i in topics.items()]
    )
    new = (
        None
        if topics is None
        else [kind.OffsetFetchRequestTopics(name=n, partition_indexes=i) for n, i in topics.items()]
    )
    request = OffsetFetchRequest(
        group_id=group_id,
        topics=old,
        groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group_id, topics=new)],
        require_stable=stable,
    )
    response = await client.ask(request, coordinator(group_id), codes=_offset_fetch_codes, highest=_BY_NAME)
    group = response.groups[0] if response.groups else response
    found = {
        TopicPartition(topic.name, p.partition_index): Committed(
            p.committed_offset, p.committed_leader_epoch, p.metadata or "", code_of(p.error_code)
        )
        for topic in group.topics
        for p in topic.partitions
        if p.committed_offset >= 0 or p.error_code
    }
    return code_of(group.error_code), found


async def commit(
    client: Client, group_id: str, offsets: Mapping[TopicPartition, Committed], member: Membership = OUTSIDE
) -> dict[TopicPartition, Code]:
    """Write positions; one code per partition."""
    kind = OffsetCommitRequest
    topics: dict[str, list[OffsetCommitRequest.OffsetCommitRequestPartition]] = {}
    for p, position in offsets.items():
        part = kind.OffsetCommitRequestPartition(
            partition_index=p.partition, committed_offset=position.offset,
            committed_leader_epoch=position.leader_epoch, committed_metadata=position.metadata,
        )  # fmt: skip
        topics.setdefault(p.topic, []).append(part)
    request = kind(
        group_id=group_id,
        generation_id_or_member_epoch=member.generation,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        topics=[kind.OffsetCommitRequestTopic(name=name, partitions=parts) for name, parts in topics.items()],
    )
    response = await client.ask(request, coordinator(group_id), codes=partition_codes, highest=_BY_NAME)
    return {
        TopicPartition(topic.name, p.partition_index): code_of(p.error_code)
        for topic in response.topics
        for p in topic.partitions
    }


def partition_codes(response: Any) -> Iterator[int]:
    """The codes of a response that has them per partition only."""
    for topic in response.topics:
        for partition in topic.partitions:
            yield partition.error_code


def _offset_fetch_codes(response: Any) -> Iterator[int]:
    group = response.groups[0] if response.groups else response
    yield group.error_code
    yield from partition_codes(group)


def _by_topic(partitions: Collection[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for p in sorted(partitions):
        topics.setdefault(p.topic, []).append(p.partition)
    return topics
