"""DeleteGroups: request and response, every version.

Api key 42. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class DeleteGroupsResponse(Message, key=42, versions=(0, 2), flexible=2):
    """Answers DeleteGroups."""

    class DeletableGroupResult(Struct):
        group_id: str = at(0, "string")
        error_code: int = at(0, "int16")

    throttle_time_ms: int = at(0, "int32")
    results: list[DeleteGroupsResponse.DeletableGroupResult] = at(0, ["DeletableGroupResult"])


class DeleteGroupsRequest(Request[DeleteGroupsResponse], key=42, versions=(0, 2), flexible=2):
    """Asks DeleteGroups."""

    groups_names: list[str] = at(0, ["string"])
