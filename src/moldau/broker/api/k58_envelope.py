"""Envelope, 0, on controller listeners: a broker of Apache Kafka passes a client's request on, whole (KIP-590).

What is inside is answered as if it had come here, with the client's address and the versions of this listener; the
answer goes back with its own header. Only requests that Kafka forwards are opened. The principal is not looked at:
nobody is refused anything where there is no authorizer, and who reaches a controller's listener may ask it as well.
Moldau's brokers pass requests on as they are and send no envelope.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Generator

from moldau.broker.api import ON_CONTROLLER, handler
from moldau.broker.loop import run_in_slices
from moldau.broker.network.requests import CONTROLLER, RequestContext
from moldau.broker.services import ControllerServices
from moldau.model import Code
from moldau.wire.codec import Malformed
from moldau.wire.frames import RequestHeader, read_request_header, read_request_in_slices, response_frame
from moldau.wire.messages.k58_envelope import EnvelopeRequest, EnvelopeResponse
from moldau.wire.schema import Struct

FORWARDED = frozenset({19, 20, 29, 30, 31, 32, 33, 37, 43, 44, 45, 46, 49, 55, 57, 60, 64, 80, 81})
"""Requests of clients that brokers pass on, as far as controllers answer them here."""
KAFKAS_ALONE = frozenset({38, 39, 40, 51})
"""Requests that it passes on, too, and that only its own controllers answer: delegation tokens, SCRAM users. Its broker
tells the client UNSUPPORTED_VERSION, and on any other code that the server has met something unexpected."""
ITEMS_MAX = 1_000_000
"""Items of arrays in a request inside: what a controller's listener takes from anybody else."""
SIZE_BYTES = 4


class Inner:
    """The context of a request that came inside another."""

    __slots__ = ("_outer", "api_version", "client_id", "correlation_id", "peer_host")

    def __init__(self, outer: RequestContext, header: RequestHeader, peer_host: str) -> None:
        self._outer = outer
        self.api_version = header.api_version
        self.client_id = header.client_id
        self.correlation_id = header.correlation_id
        self.peer_host = peer_host

    @property
    def kind(self) -> str:
        return CONTROLLER

    @property
    def listener(self) -> str:
        return self._outer.listener

    @property
    def connection(self) -> None:
        """None: the broker's connection does not stand for its client."""


async def control(node: ControllerServices, request: EnvelopeRequest, context: RequestContext) -> EnvelopeResponse:
    """The answer of the request inside, with its header; an error code where that cannot be read or is not served."""
    frame = memoryview(request.request_data)
    try:
        host = str(ipaddress.ip_address(bytes(request.client_host_address)))
    except ValueError:
        return EnvelopeResponse(error_code=Code.INVALID_REQUEST)
    try:
        header = read_request_header(frame)
        if header.api_key in KAFKAS_ALONE:
            return EnvelopeResponse(error_code=Code.UNSUPPORTED_VERSION)
        if header.api_key not in FORWARDED:
            return EnvelopeResponse(error_code=Code.INVALID_REQUEST)
        served = ON_CONTROLLER[header.api_key]
        if not served.low <= header.api_version <= served.high:
            return EnvelopeResponse(error_code=Code.UNSUPPORTED_VERSION)
        inner = await run_in_slices(node.world.tasks, read_request_in_slices(frame, header, ITEMS_MAX))
    except Malformed:
        return EnvelopeResponse(error_code=Code.INVALID_REQUEST)
    if node.plane.leader[0] != node.config.node_id:
        # The broker asks the next one with its client's request.
        return EnvelopeResponse(error_code=Code.NOT_CONTROLLER)
    answer = handler(header.api_key, CONTROLLER)(node, inner, Inner(context, header, host))
    if isinstance(answer, Generator):
        answer = await run_in_slices(node.world.tasks, answer)
    response = await answer if isinstance(answer, Awaitable) else answer
    assert response is not None, f"{type(inner).__name__} has an answer"
    if _tells(response, Code.NOT_CONTROLLER):  # elected, and not active yet or any more: as Kafka's controllers
        return EnvelopeResponse(error_code=Code.NOT_CONTROLLER)
    parts = response_frame(response, header.api_version, header.correlation_id)
    return EnvelopeResponse(response_data=b"".join(parts)[SIZE_BYTES:])


def _tells(part: Struct, code: Code) -> bool:
    """Whether an answer has this code anywhere."""
    if getattr(part, "error_code", Code.NONE) == code:
        return True
    values = (getattr(part, field.name, None) for field in part.fields)
    return any(
        isinstance(one, Struct) and _tells(one, code) for value in values if isinstance(value, list) for one in value
    )
