"""DescribeGroups: request and response, every version.

Api key 15. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class DescribeGroupsResponse(Message, key=15, versions=(0, 6), flexible=5):
    """Answers DescribeGroups."""

    class DescribedGroup(Struct):
        error_code: int = at(0, "int16")
        error_message: str | None = at(6, "string", null=6, default=None)
        group_id: str = at(0, "string")
        group_state: str = at(0, "string")
        protocol_type: str = at(0, "string")
        protocol_data: str = at(0, "string")
        members: list[DescribeGroupsResponse.DescribedGroupMember] = at(0, ["DescribedGroupMember"])
        authorized_operations: int = at(3, "int32", default=-2147483648)

    class DescribedGroupMember(Struct):
        member_id: str = at(0, "string")
        group_instance_id: str | None = at(4, "string", null=4, default=None)
        client_id: str = at(0, "string")
        client_host: str = at(0, "string")
        member_metadata: bytes = at(0, "bytes")
        member_assignment: bytes = at(0, "bytes")

    throttle_time_ms: int = at(1, "int32")
    groups: list[DescribeGroupsResponse.DescribedGroup] = at(0, ["DescribedGroup"])


class DescribeGroupsRequest(Request[DescribeGroupsResponse], key=15, versions=(0, 6), flexible=5):
    """Asks DescribeGroups."""

    groups: list[str] = at(0, ["string"])
    include_authorized_operations: bool = at(3, "bool")
