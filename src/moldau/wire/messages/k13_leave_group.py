"""LeaveGroup: request and response, every version.

Api key 13. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class LeaveGroupResponse(Message, key=13, versions=(0, 5), flexible=4):
    """Answers LeaveGroup."""

    class MemberResponse(Struct):
        member_id: str = at(3, "string")
        group_instance_id: str | None = at(3, "string", null=3)
        error_code: int = at(3, "int16")

    throttle_time_ms: int = at(1, "int32")
    error_code: int = at(0, "int16")
    members: list[LeaveGroupResponse.MemberResponse] = at(3, ["MemberResponse"])


class LeaveGroupRequest(Request[LeaveGroupResponse], key=13, versions=(0, 5), flexible=4):
    """Asks LeaveGroup."""

    class MemberIdentity(Struct):
        member_id: str = at(3, "string")
        group_instance_id: str | None = at(3, "string", null=3, default=None)
        reason: str | None = at(5, "string", null=5, default=None)

    group_id: str = at(0, "string")
    member_id: str = at(0, "string", until=2)
    members: list[LeaveGroupRequest.MemberIdentity] = at(3, ["MemberIdentity"])
