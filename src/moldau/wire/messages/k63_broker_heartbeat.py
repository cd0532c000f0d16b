"""BrokerHeartbeat: request and response, every version.

Api key 63. Source: protocol guide; KIP-631.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, at


class BrokerHeartbeatResponse(Message, key=63, versions=(0, 2)):
    """Answers BrokerHeartbeat."""

    throttle_time_ms: int = at(0, "int32")
    error_code: int = at(0, "int16")
    is_caught_up: bool = at(0, "bool")
    is_fenced: bool = at(0, "bool", default=True)
    should_shut_down: bool = at(0, "bool")


class BrokerHeartbeatRequest(Request[BrokerHeartbeatResponse], key=63, versions=(0, 2)):
    """Asks BrokerHeartbeat."""

    broker_id: int = at(0, "int32")
    broker_epoch: int = at(0, "int64", default=-1)
    current_metadata_offset: int = at(0, "int64")
    want_fence: bool = at(0, "bool")
    want_shut_down: bool = at(0, "bool")
    offline_log_dirs: list[bytes] = at(1, ["uuid"], tag=0)
    cordoned_log_dirs: list[bytes] | None = at(2, ["uuid"], null=2, default=None, tag=1)
