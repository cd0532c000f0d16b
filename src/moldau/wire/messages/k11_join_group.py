"""JoinGroup: request and response, every version.

Api key 11. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class JoinGroupResponse(Message, key=11, versions=(0, 9), flexible=6):
    """Answers JoinGroup."""

    class JoinGroupResponseMember(Struct):
        member_id: str = at(0, "string")
        group_instance_id: str | None = at(5, "string", null=5, default=None)
        metadata: bytes = at(0, "bytes")

    throttle_time_ms: int = at(2, "int32")
    error_code: int = at(0, "int16")
    generation_id: int = at(0, "int32", default=-1)
    protocol_type: str | None = at(7, "string", null=7, default=None)
    protocol_name: str | None = at(0, "string", null=7)
    leader: str = at(0, "string")
    skip_assignment: bool = at(9, "bool")
    member_id: str = at(0, "string")
    members: list[JoinGroupResponse.JoinGroupResponseMember] = at(0, ["JoinGroupResponseMember"])


class JoinGroupRequest(Request[JoinGroupResponse], key=11, versions=(0, 9), flexible=6):
    """Asks JoinGroup."""

    class JoinGroupRequestProtocol(Struct):
        name: str = at(0, "string")
        metadata: bytes = at(0, "bytes")

    group_id: str = at(0, "string")
    session_timeout_ms: int = at(0, "int32")
    rebalance_timeout_ms: int = at(1, "int32", default=-1)
    member_id: str = at(0, "string")
    group_instance_id: str | None = at(5, "string", null=5, default=None)
    protocol_type: str = at(0, "string")
    protocols: list[JoinGroupRequest.JoinGroupRequestProtocol] = at(0, ["JoinGroupRequestProtocol"])
    reason: str | None = at(8, "string", null=8, default=None)
