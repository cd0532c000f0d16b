"""Consumer groups described, whichever protocol their members speak: that of KIP-848 or the classic one.

A broker is asked in the new way first, where it can; a group that it does not know so is asked about in the old way.
Offsets, lists and deletion are groups.py's.
Sources: KIP-848, KIP-1099 (member types), KIP-1043 (messages of refusals).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeVar

from moldau.client.client import Client, try_ms_of
from moldau.client.groups import coordinator
from moldau.client.lines import UnsupportedApi
from moldau.client.membership import PROTOCOL_TYPE, read_assignment
from moldau.client.view import Broker, Outcome
from moldau.model import Code, TopicPartition
from moldau.model.named import NamedTuple
from moldau.wire.messages.k15_describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from moldau.wire.messages.k69_consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from moldau.wire.schema import Request

DescribedT = TypeVar("DescribedT", DescribeGroupsResponse, ConsumerGroupDescribeResponse)

_ASK_CLASSIC = frozenset({Code.GROUP_ID_NOT_FOUND, Code.UNSUPPORTED_VERSION})
_MEMBER_OF_CONSUMER_PROTOCOL, _MEMBER_OF_CLASSIC_PROTOCOL = 1, 0


class GroupMember(NamedTuple):
    """A member and what it reads; ``target``, ``epoch`` and ``upgraded`` are None in classic groups.

    ``upgraded`` says whether the member of a new group speaks the new protocol itself.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    target: tuple[TopicPartition, ...] | None = None
    epoch: int | None = None
    upgraded: bool | None = None


class ConsumerGroup(NamedTuple):
    """A group as its coordinator has it, or why there is nothing to say of it (``outcome``).

    ``protocol_type`` is that of a classic group; a group with another than "consumer" or "" has no members here. Epochs
    are None in classic groups.
    """

    group_id: str
    outcome: Outcome
    coordinator: Broker | None = None
    state: str = ""
    protocol_type: str = ""
    assignor: str = ""
    members: tuple[GroupMember, ...] = ()
    epoch: int | None = None
    target_epoch: int | None = None


async def describe_consumer_groups(
    client: Client, group_ids: Iterable[str], *, timeout_ms: int | None = None
) -> dict[str, ConsumerGroup]:
    """Each group, in the order of the ids; ``timeout_ms`` is how long its coordinator is waited for."""
    found = {}
    for group_id in group_ids:
        group = await _described_anew(client, group_id, timeout_ms)
        found[group_id] = group if group is not None else await _described_classic(client, group_id, timeout_ms)
    return found


async def _described_anew(client: Client, group_id: str, timeout_ms: int | None) -> ConsumerGroup | None:
    """None when the coordinator says that it is no group of the new protocol, or does not know that protocol."""
    request = ConsumerGroupDescribeRequest(group_ids=[group_id])
    try:
        response = await _asked(client, request, group_id, timeout_ms)
    except UnsupportedApi:
        return None
    group: ConsumerGroupDescribeResponse.DescribedGroup = response.groups[0]
    code = Code(group.error_code)
    if code in _ASK_CLASSIC:
        return None
    return ConsumerGroup(
        group_id,
        Outcome(code, group.error_message),
        client.coordinator(coordinator(group_id)),
        group.group_state,
        PROTOCOL_TYPE,
        group.assignor_name,
        tuple(map(_member, group.members)),
        group.group_epoch,
        group.assignment_epoch,
    )


def _member(member: ConsumerGroupDescribeResponse.Member) -> GroupMember:
    known = member.member_type in (_MEMBER_OF_CLASSIC_PROTOCOL, _MEMBER_OF_CONSUMER_PROTOCOL)
    return GroupMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        tuple(_partitions(member.assignment.topic_partitions)),
        tuple(_partitions(member.target_assignment.topic_partitions)),
        member.member_epoch,
        member.member_type == _MEMBER_OF_CONSUMER_PROTOCOL if known else None,
    )


def _partitions(topics: Collection[ConsumerGroupDescribeResponse.TopicPartitions]) -> list[TopicPartition]:
    return [TopicPartition(topic.topic_name, index) for topic in topics for index in topic.partitions]


async def _described_classic(client: Client, group_id: str, timeout_ms: int | None) -> ConsumerGroup:
    request = DescribeGroupsRequest(groups=[group_id], include_authorized_operations=False)
    response = await _asked(client, request, group_id, timeout_ms)
    group = response.groups[0]
    of_consumers = group.protocol_type in (PROTOCOL_TYPE, "")
    members = tuple(
        GroupMember(
            m.member_id,
            m.group_instance_id,
            m.client_id,
            m.client_host,
            tuple(sorted(read_assignment(m.member_assignment))),
        )
        for m in (group.members if of_consumers else ())
    )
    return ConsumerGroup(
        group_id,
        Outcome(Code(group.error_code), group.error_message),
        client.coordinator(coordinator(group_id)),
        group.group_state,
        group.protocol_type,
        group.protocol_data,
        members,
    )


async def _asked(client: Client, request: Request[DescribedT], group_id: str, timeout_ms: int | None) -> DescribedT:
    """The answer of the group's coordinator, which is waited for so long."""
    one_try_ms = client.try_ms if timeout_ms is None else try_ms_of(timeout_ms, client.lines.options)
    return await client.ask(
        request, coordinator(group_id), codes=_group_codes, timeout_ms=timeout_ms, request_timeout_ms=one_try_ms
    )


def _group_codes(response: DescribeGroupsResponse | ConsumerGroupDescribeResponse) -> list[int]:
    return [group.error_code for group in response.groups]
