"""LeaveGroup, 0-5: a member goes and does not wait for its session to end; several at once from 3 on (KIP-345).

An administrator removes static members by their instance ids with empty member ids. Each has a code of its own from 3
on; before, the one member's code stands at the top. Reasons (5, KIP-800) are for the log only.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence

from moldau.broker.groups.coordinator import Answering
from moldau.broker.loop import yield_to_loop
from moldau.broker.network.context import Context
from moldau.broker.services import BrokerServices
from moldau.groups.facts import Leave, Leaver, LeaveReply
from moldau.model import Code
from moldau.wire.messages.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse

log = logging.getLogger(__name__)

KEY = 13


def handle(
    node: BrokerServices,
    request: LeaveGroupRequest,
    context: Context,
) -> Answering | Awaitable[LeaveGroupResponse]:
    """The group's reply as a response; so many members leave at a time that others have their turn in between."""
    _say(request)
    if context.api_version < 3:
        return node.coordinator.submit([Leave(request.group_id, (Leaver(request.member_id),))], _of_one)
    if len(request.members) > node.world.step:
        return _by_parts(node, request)
    return node.coordinator.submit([_leave(request, 0, len(request.members))], _of_many)


def _say(request: LeaveGroupRequest) -> None:
    """Log why members leave: one line, however many there are."""
    told = [member for member in request.members if member.reason]
    if told:
        first, others = told[0], f" (and {len(told) - 1} others)" if len(told) > 1 else ""
        log.info("%s%s leaves group %s: %s", first.member_id, others, request.group_id, first.reason)


def _leave(request: LeaveGroupRequest, first: int, end: int) -> Leave:
    leavers = (Leaver(member.member_id, member.group_instance_id) for member in request.members[first:end])
    return Leave(request.group_id, tuple(leavers))


def _of_one(replies: Sequence[LeaveReply]) -> LeaveGroupResponse:
    code, codes = replies[0]
    return LeaveGroupResponse(error_code=codes[0][1] if code is Code.NONE else code)


def _of_many(replies: Sequence[LeaveReply]) -> LeaveGroupResponse:
    code, codes = replies[0]
    return LeaveGroupResponse(
        error_code=code,
        members=[
            LeaveGroupResponse.MemberResponse(
                member_id=leaver.member_id, group_instance_id=leaver.instance_id, error_code=one
            )
            for leaver, one in codes
        ],
    )


async def _by_parts(
    node: BrokerServices,
    request: LeaveGroupRequest,
) -> LeaveGroupResponse:
    """The answers of all parts; one that the group refuses as a whole is the answer to all of them."""
    whole, step = LeaveGroupResponse(), node.world.step
    for first in range(0, len(request.members), step):
        found = node.coordinator.submit([_leave(request, first, first + step)], _of_many)
        part: LeaveGroupResponse = await found if isinstance(found, Awaitable) else found
        if part.error_code != Code.NONE:
            return part
        whole.members += part.members
        await yield_to_loop(node.world.tasks)
    return whole
