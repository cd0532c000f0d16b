"""Envelope: request and response, every version.

Api key 58. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, at


class EnvelopeResponse(Message, key=58, versions=(0, 0)):
    """Answers Envelope."""

    response_data: bytes | None = at(0, "bytes", null=0, default=None)
    error_code: int = at(0, "int16")


class EnvelopeRequest(Request[EnvelopeResponse], key=58, versions=(0, 0)):
    """Asks Envelope."""

    request_data: bytes = at(0, "bytes")
    request_principal: bytes | None = at(0, "bytes", null=0)
    client_host_address: bytes = at(0, "bytes")
