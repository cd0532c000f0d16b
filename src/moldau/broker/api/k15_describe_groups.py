"""DescribeGroups, 0-6: state and members of groups that this broker coordinates.

A group that is not there is "Dead", and from 6 on GROUP_ID_NOT_FOUND as well (KIP-1043). Instance ids from 4 (KIP-345),
what the client may do from 3 (KIP-430: everything, since there is no authorizer). A group that is named twice is
described once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from operator import itemgetter

from moldau.broker.api.operations import GROUP_OPERATIONS
from moldau.broker.groups.coordinator import Answering
from moldau.broker.loop import Pace, at_once_or_in_slices
from moldau.broker.network.context import Context
from moldau.broker.services import BrokerServices
from moldau.groups import weight
from moldau.groups.facts import Describe, DescribeReply
from moldau.model import Code
from moldau.wire.messages.k15_describe_groups import DescribeGroupsRequest, DescribeGroupsResponse

KEY = 15
Group = DescribeGroupsResponse.DescribedGroup


def handle(node: BrokerServices, request: DescribeGroupsRequest, context: Context) -> Answering:
    """One request a group, some in each turn of the loop."""
    return at_once_or_in_slices(
        node.world.tasks, _describe(node, request, context.api_version), read_kind=DescribeGroupsRequest.api_key
    )


def _describe(
    node: BrokerServices, request: DescribeGroupsRequest, version: int
) -> Generator[None, None, DescribeGroupsResponse]:
    answer, pace = DescribeGroupsResponse(), Pace(node.world.step)
    for group_id in dict.fromkeys(request.groups):
        reply: DescribeReply | Awaitable[DescribeReply] = node.coordinator.submit([Describe(group_id)], itemgetter(0))
        assert not isinstance(reply, Awaitable), "what is in memory is looked up at once"
        shown = _group(group_id, reply)
        if request.include_authorized_operations and reply.found:
            shown.authorized_operations = GROUP_OPERATIONS
        if version >= 6 and reply.code is Code.NONE and not reply.found:
            shown.error_code, shown.error_message = Code.GROUP_ID_NOT_FOUND, f"Group {group_id} not found."
        answer.groups.append(shown)
        if pace.spent(weight(group_id) + len(reply.members)):
            yield
    return answer


def _group(group_id: str, reply: DescribeReply) -> Group:
    return Group(
        error_code=reply.code,
        group_id=group_id,
        group_state=reply.state,
        protocol_type=reply.protocol_type,
        protocol_data=reply.protocol_name,
        members=[
            DescribeGroupsResponse.DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in reply.members
        ],
    )
