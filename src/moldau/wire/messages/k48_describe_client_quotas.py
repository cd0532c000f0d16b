"""DescribeClientQuotas: request and response, every version.

Api key 48. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class DescribeClientQuotasResponse(Message, key=48, versions=(0, 1), flexible=1):
    """Answers DescribeClientQuotas."""

    class EntryData(Struct):
        entity: list[DescribeClientQuotasResponse.EntityData] = at(0, ["EntityData"])
        values: list[DescribeClientQuotasResponse.ValueData] = at(0, ["ValueData"])

    class EntityData(Struct):
        entity_type: str = at(0, "string")
        entity_name: str | None = at(0, "string", null=0)

    class ValueData(Struct):
        key: str = at(0, "string")
        value: float = at(0, "float64")

    throttle_time_ms: int = at(0, "int32")
    error_code: int = at(0, "int16")
    error_message: str | None = at(0, "string", null=0)
    entries: list[DescribeClientQuotasResponse.EntryData] | None = at(0, ["EntryData"], null=0)


class DescribeClientQuotasRequest(Request[DescribeClientQuotasResponse], key=48, versions=(0, 1), flexible=1):
    """Asks DescribeClientQuotas."""

    class ComponentData(Struct):
        entity_type: str = at(0, "string")
        match_type: int = at(0, "int8")
        match: str | None = at(0, "string", null=0)

    components: list[DescribeClientQuotasRequest.ComponentData] = at(0, ["ComponentData"])
    strict: bool = at(0, "bool")
