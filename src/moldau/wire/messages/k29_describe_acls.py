"""DescribeAcls: request and response, every version.

Api key 29. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class DescribeAclsResponse(Message, key=29, versions=(0, 3), flexible=2):
    """Answers DescribeAcls."""

    class DescribeAclsResource(Struct):
        resource_type: int = at(0, "int8")
        resource_name: str = at(0, "string")
        pattern_type: int = at(1, "int8", default=3)
        acls: list[DescribeAclsResponse.AclDescription] = at(0, ["AclDescription"])

    class AclDescription(Struct):
        principal: str = at(0, "string")
        host: str = at(0, "string")
        operation: int = at(0, "int8")
        permission_type: int = at(0, "int8")

    throttle_time_ms: int = at(0, "int32")
    error_code: int = at(0, "int16")
    error_message: str | None = at(0, "string", null=0)
    resources: list[DescribeAclsResponse.DescribeAclsResource] = at(0, ["DescribeAclsResource"])


class DescribeAclsRequest(Request[DescribeAclsResponse], key=29, versions=(0, 3), flexible=2):
    """Asks DescribeAcls."""

    resource_type_filter: int = at(0, "int8")
    resource_name_filter: str | None = at(0, "string", null=0)
    pattern_type_filter: int = at(1, "int8", default=3)
    principal_filter: str | None = at(0, "string", null=0)
    host_filter: str | None = at(0, "string", null=0)
    operation: int = at(0, "int8")
    permission_type: int = at(0, "int8")
