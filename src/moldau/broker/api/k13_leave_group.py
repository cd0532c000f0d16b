"""LeaveGroup, 0-5: a member goes and does not wait for its session to end; several at once from 3 on (KIP-345).

An administrator removes static members by their instance ids with empty member ids. Each has a code of its own from 3
on; before, the one member's code stands at the top. Reasons (5, KIP-800) are for the log only.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from moldau.broker.coordinator import Answering
from moldau.groups.facts import Leave, Leaver, LeaveReply
from moldau.terms import Code
from moldau.wire.messages.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse

log = logging.getLogger("moldau.groups")

KEY = 13


def handle(node: Any, request: LeaveGroupRequest, context: Any) -> Answering:
    """Put it to the group."""
    batch = context.api_version >= 3
    for member in request.members:
        if member.reason:
            log.info("%s leaves group %s: %s", member.member_id, request.group_id, member.reason)
    leavers = tuple(Leaver(member.member_id, member.group_instance_id) for member in request.members)

    def finish(replies: Sequence[LeaveReply]) -> LeaveGroupResponse:
        code, codes = replies[0]
        if not batch:
            return LeaveGroupResponse(error_code=codes[0][1] if code is Code.NONE else code)
        return LeaveGroupResponse(
            error_code=code,
            members=[
                LeaveGroupResponse.MemberResponse(
                    member_id=leaver.member_id, group_instance_id=leaver.instance_id, error_code=one
                )
                for leaver, one in codes
            ],
        )

    ask = Leave(request.group_id, leavers if batch else (Leaver(request.member_id),))
    return node.coordinator.ask([ask], finish)  # type: ignore[no-any-return]
