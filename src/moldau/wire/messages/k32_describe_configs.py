"""DescribeConfigs: request and response, every version.

Api key 32. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class DescribeConfigsResponse(Message, key=32, versions=(0, 4), flexible=4):
    """Answers DescribeConfigs."""

    class DescribeConfigsResult(Struct):
        error_code: int = at(0, "int16")
        error_message: str | None = at(0, "string", null=0)
        resource_type: int = at(0, "int8")
        resource_name: str = at(0, "string")
        configs: list[DescribeConfigsResponse.DescribeConfigsResourceResult] = at(0, ["DescribeConfigsResourceResult"])

    class DescribeConfigsResourceResult(Struct):
        name: str = at(0, "string")
        value: str | None = at(0, "string", null=0)
        read_only: bool = at(0, "bool")
        is_default: bool = at(0, "bool", until=0)
        config_source: int = at(1, "int8", default=-1)
        is_sensitive: bool = at(0, "bool")
        synonyms: list[DescribeConfigsResponse.DescribeConfigsSynonym] = at(1, ["DescribeConfigsSynonym"])
        config_type: int = at(3, "int8")
        documentation: str | None = at(3, "string", null=0)

    class DescribeConfigsSynonym(Struct):
        name: str = at(1, "string")
        value: str | None = at(1, "string", null=0)
        source: int = at(1, "int8")

    throttle_time_ms: int = at(0, "int32")
    results: list[DescribeConfigsResponse.DescribeConfigsResult] = at(0, ["DescribeConfigsResult"])


class DescribeConfigsRequest(Request[DescribeConfigsResponse], key=32, versions=(0, 4), flexible=4):
    """Asks DescribeConfigs."""

    class DescribeConfigsResource(Struct):
        resource_type: int = at(0, "int8")
        resource_name: str = at(0, "string")
        configuration_keys: list[str] | None = at(0, ["string"], null=0)

    resources: list[DescribeConfigsRequest.DescribeConfigsResource] = at(0, ["DescribeConfigsResource"])
    include_synonyms: bool = at(1, "bool")
    include_documentation: bool = at(3, "bool")
