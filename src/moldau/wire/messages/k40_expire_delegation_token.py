"""ExpireDelegationToken: request and response, every version.

Api key 40. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, at


class ExpireDelegationTokenResponse(Message, key=40, versions=(0, 2), flexible=2):
    """Answers ExpireDelegationToken."""

    error_code: int = at(0, "int16")
    expiry_timestamp_ms: int = at(0, "int64")
    throttle_time_ms: int = at(0, "int32")


class ExpireDelegationTokenRequest(Request[ExpireDelegationTokenResponse], key=40, versions=(0, 2), flexible=2):
    """Asks ExpireDelegationToken."""

    hmac: bytes = at(0, "bytes")
    expiry_time_period_ms: int = at(0, "int64")
