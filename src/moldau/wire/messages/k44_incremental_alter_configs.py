"""IncrementalAlterConfigs: request and response, every version.

Api key 44. Source: protocol guide; KIP-339.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class IncrementalAlterConfigsResponse(Message, key=44, versions=(0, 1), flexible=1):
    """Answers IncrementalAlterConfigs."""

    class AlterConfigsResourceResponse(Struct):
        error_code: int = at(0, "int16")
        error_message: str | None = at(0, "string", null=0)
        resource_type: int = at(0, "int8")
        resource_name: str = at(0, "string")

    throttle_time_ms: int = at(0, "int32")
    responses: list[IncrementalAlterConfigsResponse.AlterConfigsResourceResponse] = at(
        0, ["AlterConfigsResourceResponse"]
    )


class IncrementalAlterConfigsRequest(Request[IncrementalAlterConfigsResponse], key=44, versions=(0, 1), flexible=1):
    """Asks IncrementalAlterConfigs."""

    class AlterConfigsResource(Struct):
        resource_type: int = at(0, "int8")
        resource_name: str = at(0, "string")
        configs: list[IncrementalAlterConfigsRequest.AlterableConfig] = at(0, ["AlterableConfig"])

    class AlterableConfig(Struct):
        name: str = at(0, "string")
        config_operation: int = at(0, "int8")
        value: str | None = at(0, "string", null=0)

    resources: list[IncrementalAlterConfigsRequest.AlterConfigsResource] = at(0, ["AlterConfigsResource"])
    validate_only: bool = at(0, "bool")
