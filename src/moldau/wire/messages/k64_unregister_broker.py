"""UnregisterBroker: request and response, every version.

Api key 64. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, at


class UnregisterBrokerResponse(Message, key=64, versions=(0, 0)):
    """Answers UnregisterBroker."""

    throttle_time_ms: int = at(0, "int32")
    error_code: int = at(0, "int16")
    error_message: str | None = at(0, "string", null=0)


class UnregisterBrokerRequest(Request[UnregisterBrokerResponse], key=64, versions=(0, 0)):
    """Asks UnregisterBroker."""

    broker_id: int = at(0, "int32")
