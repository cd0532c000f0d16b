"""ListGroups, 0-5: the groups that this broker coordinates; by state from 4 (KIP-518), by type from 5 (KIP-848)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from moldau.broker.groups.coordinator import Answering
from moldau.broker.network.context import Context
from moldau.broker.services import BrokerServices
from moldau.groups import STATES, TYPES
from moldau.groups.facts import ListGroups, ListReply
from moldau.model import Code
from moldau.wire.messages.k16_list_groups import ListGroupsRequest, ListGroupsResponse

KEY = 16


def handle(node: BrokerServices, request: ListGroupsRequest, context: Context) -> Answering:
    """Ask every shard."""
    group_request = ListGroups(_possible(request.states_filter, STATES), _possible(request.types_filter, TYPES))
    return node.coordinator.submit_all(group_request, _finish)


def _possible(wanted: Sequence[str], names: Collection[str]) -> frozenset[str]:
    """The part of a filter that can be true of a group, for every shard looks at all of it; or one word that cannot."""
    return frozenset([one for one in wanted if one.lower() in names] or wanted[:1])


def _finish(replies: Sequence[ListReply]) -> ListGroupsResponse:
    for reply in replies:
        if reply.code is not Code.NONE:
            return ListGroupsResponse(error_code=reply.code)  # a list with gaps would be taken for the whole
    return ListGroupsResponse(
        groups=[
            ListGroupsResponse.ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.type,
            )
            for reply in replies
            for group in reply.groups
        ]
    )
