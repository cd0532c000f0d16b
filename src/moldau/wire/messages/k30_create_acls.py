"""CreateAcls: request and response, every version.

Api key 30. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class CreateAclsResponse(Message, key=30, versions=(0, 3), flexible=2):
    """Answers CreateAcls."""

    class AclCreationResult(Struct):
        error_code: int = at(0, "int16")
        error_message: str | None = at(0, "string", null=0)

    throttle_time_ms: int = at(0, "int32")
    results: list[CreateAclsResponse.AclCreationResult] = at(0, ["AclCreationResult"])


class CreateAclsRequest(Request[CreateAclsResponse], key=30, versions=(0, 3), flexible=2):
    """Asks CreateAcls."""

    class AclCreation(Struct):
        resource_type: int = at(0, "int8")
        resource_name: str = at(0, "string")
        resource_pattern_type: int = at(1, "int8", default=3)
        principal: str = at(0, "string")
        host: str = at(0, "string")
        operation: int = at(0, "int8")
        permission_type: int = at(0, "int8")

    creations: list[CreateAclsRequest.AclCreation] = at(0, ["AclCreation"])
