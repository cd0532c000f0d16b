"""AlterConfigs: request and response, every version.

Api key 33. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class AlterConfigsResponse(Message, key=33, versions=(0, 2), flexible=2):
    """Answers AlterConfigs."""

    class AlterConfigsResourceResponse(Struct):
        error_code: int = at(0, "int16")
        error_message: str | None = at(0, "string", null=0)
        resource_type: int = at(0, "int8")
        resource_name: str = at(0, "string")

    throttle_time_ms: int = at(0, "int32")
    responses: list[AlterConfigsResponse.AlterConfigsResourceResponse] = at(0, ["AlterConfigsResourceResponse"])


class AlterConfigsRequest(Request[AlterConfigsResponse], key=33, versions=(0, 2), flexible=2):
    """Asks AlterConfigs."""

    class AlterConfigsResource(Struct):
        resource_type: int = at(0, "int8")
        resource_name: str = at(0, "string")
        configs: list[AlterConfigsRequest.AlterableConfig] = at(0, ["AlterableConfig"])

    class AlterableConfig(Struct):
        name: str = at(0, "string")
        value: str | None = at(0, "string", null=0)

    resources: list[AlterConfigsRequest.AlterConfigsResource] = at(0, ["AlterConfigsResource"])
    validate_only: bool = at(0, "bool")
