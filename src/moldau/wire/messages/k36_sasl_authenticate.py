"""SaslAuthenticate: request and response, every version.

Api key 36. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, at


class SaslAuthenticateResponse(Message, key=36, versions=(0, 2), flexible=2):
    """Answers SaslAuthenticate."""

    error_code: int = at(0, "int16")
    error_message: str | None = at(0, "string", null=0)
    auth_bytes: bytes = at(0, "bytes")
    session_lifetime_ms: int = at(1, "int64")


class SaslAuthenticateRequest(Request[SaslAuthenticateResponse], key=36, versions=(0, 2), flexible=2):
    """Asks SaslAuthenticate."""

    auth_bytes: bytes = at(0, "bytes")
