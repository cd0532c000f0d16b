"""Groups seen from outside: which there are, who is in them, the offsets they committed; and deleting all that.

Membership is consumer.py's. Answers are values with codes, as the coordinator gave them.
Sources: protocol guide; KIP-447 (stable offsets), KIP-496 (delete offsets), KIP-518 (states), KIP-709.
Read next: admin.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Protocol

from moldau.client.client import MOVED, Client, CoordinatorKind, ForCoordinator, ForNode
from moldau.client.view import Outcome, by_topic
from moldau.model import Code, TopicPartition
from moldau.model.named import NamedTuple
from moldau.wire.messages.k08_offset_commit import OffsetCommitRequest
from moldau.wire.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from moldau.wire.messages.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from moldau.wire.messages.k15_describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from moldau.wire.messages.k16_list_groups import ListGroupsRequest
from moldau.wire.messages.k42_delete_groups import DeleteGroupsRequest
from moldau.wire.messages.k47_offset_delete import OffsetDeleteRequest

DescribedGroup = DescribeGroupsResponse.DescribedGroup

_UNSTABLE = MOVED | {Code.UNSTABLE_OFFSET_COMMIT}
_BY_NAME = 9  # of OffsetCommit and OffsetFetch: later versions name topics by id


class Committed(NamedTuple):
    """A committed position: the offset of the next record to read (-1 when nothing is committed)."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    code: Code = Code.NONE


class Listed(NamedTuple):
    """A group in a list; state and type are empty from brokers that do not say them."""

    group_id: str
    protocol_type: str
    state: str
    type: str
    coordinator: int


class MemberIdentity(NamedTuple):
    """On whose behalf offsets are committed; the default stands outside the group, which must be empty then."""

    member_id: str = ""
    generation: int = -1
    instance_id: str | None = None


OUTSIDE = MemberIdentity()


def coordinator(group_id: str) -> ForCoordinator:
    return ForCoordinator(CoordinatorKind.GROUP, group_id)


async def committed(
    client: Client, group_id: str, partitions: Collection[TopicPartition] | None = None, *, stable: bool = False
) -> tuple[Code, dict[TopicPartition, Committed]]:
    """What a group committed for the given partitions, or for all it ever did; without those that have nothing.

    ``stable`` waits for open transactions' offsets (KIP-447). The code is the group's.
    """
    topics = None if partitions is None else by_topic(partitions)
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
    response = await client.ask(
        request, coordinator(group_id), codes=_offset_fetch_codes, again=_UNSTABLE, highest=_BY_NAME,
        request_timeout_ms=client.try_ms,
    )  # fmt: skip
    group = response.groups[0] if response.groups else response
    found = {
        TopicPartition(topic.name, p.partition_index): Committed(
            p.committed_offset, p.committed_leader_epoch, p.metadata or "", Code(p.error_code)
        )
        for topic in group.topics
        for p in topic.partitions
        if p.committed_offset >= 0 or p.error_code
    }
    return Code(group.error_code), found


async def commit(
    client: Client, group_id: str, offsets: Mapping[TopicPartition, Committed], member: MemberIdentity = OUTSIDE
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
    response = await client.ask(
        request, coordinator(group_id), codes=partition_codes, highest=_BY_NAME, request_timeout_ms=client.try_ms
    )
    return {
        TopicPartition(topic.name, p.partition_index): Code(p.error_code)
        for topic in response.topics
        for p in topic.partitions
    }


async def list_groups(
    client: Client, states: Collection[str] = (), types: Collection[str] = (), *, but: Collection[int] = ()
) -> list[Listed]:
    """All groups of all live brokers, sorted by id; filtered where the broker can (KIP-518, KIP-848). Brokers ``but``
    those are asked.
    """
    await client.know([])
    found: dict[str, Listed] = {}
    for node_id in sorted(client.view.brokers.keys() - set(but)):
        found |= {one.group_id: one for one in await groups_of(client, node_id, states, types)}
    return [found[group_id] for group_id in sorted(found)]


async def groups_of(
    client: Client, node_id: int, states: Collection[str] = (), types: Collection[str] = ()
) -> list[Listed]:
    """The groups that one broker coordinates, filtered where it can."""
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    response = await client.ask(request, ForNode(node_id))
    return [Listed(g.group_id, g.protocol_type, g.group_state, g.group_type, node_id) for g in response.groups]


async def coordinators(client: Client, group_ids: Collection[str]) -> tuple[dict[str, int], dict[str, Code]]:
    """The broker that coordinates each group, which need not be there yet; or why nobody is named."""
    found: dict[str, int] = {}
    refused: dict[str, Code] = {}
    left = list(group_ids)
    while left:  # all with one request since version 4; before, the first is answered for
        request = FindCoordinatorRequest(key=left[0], key_type=CoordinatorKind.GROUP, coordinator_keys=left)
        response = await client.ask(request, codes=_find_codes)
        answers = {one.key: (Code(one.error_code), one.node_id) for one in response.coordinators}
        if not answers:
            answers[left[0]] = Code(response.error_code), response.node_id
        answers.setdefault(left[0], (Code.UNKNOWN_SERVER_ERROR, -1))  # a broker that leaves a group out
        for group_id in left:
            code, node_id = answers.get(group_id, (Code.NONE, -1))
            if code is not Code.NONE:
                refused[group_id] = code
            elif group_id in answers:
                found[group_id] = node_id
        left = [group_id for group_id in left if group_id not in answers]
    return found, refused


async def describe_groups(client: Client, group_ids: Collection[str]) -> dict[str, DescribedGroup]:
    """State and members of each group, as its coordinator answered; a group that is not there is in state Dead."""
    out = {}
    for group_id in group_ids:
        request = DescribeGroupsRequest(groups=[group_id], include_authorized_operations=False)
        response = await client.ask(request, coordinator(group_id), codes=lambda r: [g.error_code for g in r.groups])
        out[group_id] = response.groups[0]
    return out


async def delete_groups(client: Client, group_ids: Collection[str]) -> dict[str, Outcome]:
    """Delete groups with all they committed; a group must be empty."""
    out = {}
    for group_id in group_ids:
        request = DeleteGroupsRequest(groups_names=[group_id])
        response = await client.ask(request, coordinator(group_id), codes=lambda r: [g.error_code for g in r.results])
        out[group_id] = Outcome(Code(response.results[0].error_code))
    return out


async def delete_offsets(
    client: Client, group_id: str, partitions: Collection[TopicPartition]
) -> tuple[Code, dict[TopicPartition, Code]]:
    """Forget what a group committed for partitions that it does not read now. The code is the group's."""
    kind = OffsetDeleteRequest
    topics = [
        kind.OffsetDeleteRequestTopic(
            name=name, partitions=[kind.OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
        )
        for name, indexes in by_topic(partitions).items()
    ]
    response = await client.ask(kind(group_id=group_id, topics=topics), coordinator(group_id))
    return Code(response.error_code), {
        TopicPartition(topic.name, p.partition_index): Code(p.error_code)
        for topic in response.topics
        for p in topic.partitions
    }


class _HasCode(Protocol):
    error_code: int


class _HasPartitions(Protocol):
    @property
    def partitions(self) -> Iterable[_HasCode]: ...


class HasPartitionCodes(Protocol):
    """A response whose topics hold partitions with a code each."""

    @property
    def topics(self) -> Iterable[_HasPartitions]: ...


def partition_codes(response: HasPartitionCodes) -> Iterator[int]:
    """The codes of a response that has them per partition only."""
    for topic in response.topics:
        for partition in topic.partitions:
            yield partition.error_code


def _find_codes(response: FindCoordinatorResponse) -> list[int]:
    return [one.error_code for one in response.coordinators] or [response.error_code]


def _offset_fetch_codes(response: OffsetFetchResponse) -> Iterator[int]:
    group = response.groups[0] if response.groups else response
    yield group.error_code
    yield from partition_codes(group)
