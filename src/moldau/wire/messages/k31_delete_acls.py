"""DeleteAcls: request and response, every version.

Api key 31. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class DeleteAclsResponse(Message, key=31, versions=(0, 3), flexible=2):
    """Answers DeleteAcls."""

    class DeleteAclsFilterResult(Struct):
        error_code: int = at(0, "int16")
        error_message: str | None = at(0, "string", null=0)
        matching_acls: list[DeleteAclsResponse.DeleteAclsMatchingAcl] = at(0, ["DeleteAclsMatchingAcl"])

    class DeleteAclsMatchingAcl(Struct):
        error_code: int = at(0, "int16")
        error_message: str | None = at(0, "string", null=0)
        resource_type: int = at(0, "int8")
        resource_name: str = at(0, "string")
        pattern_type: int = at(1, "int8", default=3)
        principal: str = at(0, "string")
        host: str = at(0, "string")
        operation: int = at(0, "int8")
        permission_type: int = at(0, "int8")

    throttle_time_ms: int = at(0, "int32")
    filter_results: list[DeleteAclsResponse.DeleteAclsFilterResult] = at(0, ["DeleteAclsFilterResult"])


class DeleteAclsRequest(Request[DeleteAclsResponse], key=31, versions=(0, 3), flexible=2):
    """Asks DeleteAcls."""

    class DeleteAclsFilter(Struct):
        resource_type_filter: int = at(0, "int8")
        resource_name_filter: str | None = at(0, "string", null=0)
        pattern_type_filter: int = at(1, "int8", default=3)
        principal_filter: str | None = at(0, "string", null=0)
        host_filter: str | None = at(0, "string", null=0)
        operation: int = at(0, "int8")
        permission_type: int = at(0, "int8")

    filters: list[DeleteAclsRequest.DeleteAclsFilter] = at(0, ["DeleteAclsFilter"])
