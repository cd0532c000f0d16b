"""RenewDelegationToken: request and response, every version.

Api key 39. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, at


class RenewDelegationTokenResponse(Message, key=39, versions=(0, 2), flexible=2):
    """Answers RenewDelegationToken."""

    error_code: int = at(0, "int16")
    expiry_timestamp_ms: int = at(0, "int64")
    throttle_time_ms: int = at(0, "int32")


class RenewDelegationTokenRequest(Request[RenewDelegationTokenResponse], key=39, versions=(0, 2), flexible=2):
    """Asks RenewDelegationToken."""

    hmac: bytes = at(0, "bytes")
    renew_period_ms: int = at(0, "int64")
