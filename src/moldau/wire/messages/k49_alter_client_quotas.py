"""AlterClientQuotas: request and response, every version.

Api key 49. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class AlterClientQuotasResponse(Message, key=49, versions=(0, 1), flexible=1):
    """Answers AlterClientQuotas."""

    class EntryData(Struct):
        error_code: int = at(0, "int16")
        error_message: str | None = at(0, "string", null=0)
        entity: list[AlterClientQuotasResponse.EntityData] = at(0, ["EntityData"])

    class EntityData(Struct):
        entity_type: str = at(0, "string")
        entity_name: str | None = at(0, "string", null=0)

    throttle_time_ms: int = at(0, "int32")
    entries: list[AlterClientQuotasResponse.EntryData] = at(0, ["EntryData"])


class AlterClientQuotasRequest(Request[AlterClientQuotasResponse], key=49, versions=(0, 1), flexible=1):
    """Asks AlterClientQuotas."""

    class EntryData(Struct):
        entity: list[AlterClientQuotasRequest.EntityData] = at(0, ["EntityData"])
        ops: list[AlterClientQuotasRequest.OpData] = at(0, ["OpData"])

    class EntityData(Struct):
        entity_type: str = at(0, "string")
        entity_name: str | None = at(0, "string", null=0)

    class OpData(Struct):
        key: str = at(0, "string")
        value: float = at(0, "float64")
        remove: bool = at(0, "bool")

    entries: list[AlterClientQuotasRequest.EntryData] = at(0, ["EntryData"])
    validate_only: bool = at(0, "bool")
