"""ListConfigResources: request and response, every version.

Api key 74. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class ListConfigResourcesResponse(Message, key=74, versions=(0, 1)):
    """Answers ListConfigResources."""

    class ConfigResource(Struct):
        resource_name: str = at(0, "string")
        resource_type: int = at(1, "int8", default=16)

    throttle_time_ms: int = at(0, "int32")
    error_code: int = at(0, "int16")
    config_resources: list[ListConfigResourcesResponse.ConfigResource] = at(0, ["ConfigResource"])


class ListConfigResourcesRequest(Request[ListConfigResourcesResponse], key=74, versions=(0, 1)):
    """Asks ListConfigResources."""

    resource_types: list[int] = at(1, ["int8"])
