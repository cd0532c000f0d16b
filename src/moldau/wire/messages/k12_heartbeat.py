"""Heartbeat: request and response, every version.

Api key 12. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, at


class HeartbeatResponse(Message, key=12, versions=(0, 4), flexible=4):
    """Answers Heartbeat."""

    throttle_time_ms: int = at(1, "int32")
    error_code: int = at(0, "int16")


class HeartbeatRequest(Request[HeartbeatResponse], key=12, versions=(0, 4), flexible=4):
    """Asks Heartbeat."""

    group_id: str = at(0, "string")
    generation_id: int = at(0, "int32")
    member_id: str = at(0, "string")
    group_instance_id: str | None = at(3, "string", null=3, default=None)
