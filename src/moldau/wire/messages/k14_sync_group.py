"""SyncGroup: request and response, every version.

Api key 14. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class SyncGroupResponse(Message, key=14, versions=(0, 5), flexible=4):
    """Answers SyncGroup."""

    throttle_time_ms: int = at(1, "int32")
    error_code: int = at(0, "int16")
    protocol_type: str | None = at(5, "string", null=5, default=None)
    protocol_name: str | None = at(5, "string", null=5, default=None)
    assignment: bytes = at(0, "bytes")


class SyncGroupRequest(Request[SyncGroupResponse], key=14, versions=(0, 5), flexible=4):
    """Asks SyncGroup."""

    class SyncGroupRequestAssignment(Struct):
        member_id: str = at(0, "string")
        assignment: bytes = at(0, "bytes")

    group_id: str = at(0, "string")
    generation_id: int = at(0, "int32")
    member_id: str = at(0, "string")
    group_instance_id: str | None = at(3, "string", null=3, default=None)
    protocol_type: str | None = at(5, "string", null=5, default=None)
    protocol_name: str | None = at(5, "string", null=5, default=None)
    assignments: list[SyncGroupRequest.SyncGroupRequestAssignment] = at(0, ["SyncGroupRequestAssignment"])
