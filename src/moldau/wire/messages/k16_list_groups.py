"""ListGroups: request and response, every version.

Api key 16. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class ListGroupsResponse(Message, key=16, versions=(0, 5), flexible=3):
    """Answers ListGroups."""

    class ListedGroup(Struct):
        group_id: str = at(0, "string")
        protocol_type: str = at(0, "string")
        group_state: str = at(4, "string")
        group_type: str = at(5, "string")

    throttle_time_ms: int = at(1, "int32")
    error_code: int = at(0, "int16")
    groups: list[ListGroupsResponse.ListedGroup] = at(0, ["ListedGroup"])


class ListGroupsRequest(Request[ListGroupsResponse], key=16, versions=(0, 5), flexible=3):
    """Asks ListGroups."""

    states_filter: list[str] = at(4, ["string"])
    types_filter: list[str] = at(5, ["string"])
