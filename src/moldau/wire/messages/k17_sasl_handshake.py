"""SaslHandshake: request and response, every version.

Api key 17. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, at


class SaslHandshakeResponse(Message, key=17, versions=(0, 1), flexible=None):
    """Answers SaslHandshake."""

    error_code: int = at(0, "int16")
    mechanisms: list[str] = at(0, ["string"])


class SaslHandshakeRequest(Request[SaslHandshakeResponse], key=17, versions=(0, 1), flexible=None):
    """Asks SaslHandshake."""

    mechanism: str = at(0, "string")
