"""FindCoordinator: request and response, every version.

Api key 10. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class FindCoordinatorResponse(Message, key=10, versions=(0, 6), flexible=3):
    """Answers FindCoordinator."""

    class Coordinator(Struct):
        key: str = at(4, "string")
        node_id: int = at(4, "int32")
        host: str = at(4, "string")
        port: int = at(4, "int32")
        error_code: int = at(4, "int16")
        error_message: str | None = at(4, "string", null=4)

    throttle_time_ms: int = at(1, "int32")
    error_code: int = at(0, "int16", until=3)
    error_message: str | None = at(1, "string", until=3, null=1)
    node_id: int = at(0, "int32", until=3)
    host: str = at(0, "string", until=3)
    port: int = at(0, "int32", until=3)
    coordinators: list[FindCoordinatorResponse.Coordinator] = at(4, ["Coordinator"])


class FindCoordinatorRequest(Request[FindCoordinatorResponse], key=10, versions=(0, 6), flexible=3):
    """Asks FindCoordinator."""

    key: str = at(0, "string", until=3)
    key_type: int = at(1, "int8")
    coordinator_keys: list[str] = at(4, ["string"])
