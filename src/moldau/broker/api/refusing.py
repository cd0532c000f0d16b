"""Answers that refuse a request as a whole, whatever its shape; and controllers whose handler breaks.

Brokers share their connections to the controller: what one client's request breaks there must cost that request, not
the connection with everybody's heartbeats on it. A broken assertion is our own mistake, and goes on to stop the node.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable
from typing import Any

from moldau.broker.api import Handler, Slices, control_of
from moldau.controller.replies import Refused
from moldau.terms import Code
from moldau.wire.apis import APIS
from moldau.wire.schema import Message

log = logging.getLogger("moldau.forwarding")


async def refused_as_a_whole(node: Any, request: Any, context: Any, refused: Refused) -> Any:
    """What a controller answers that refuses the request as a whole."""
    response = APIS[request.api_key].response
    fields = {field.name for field in response.fields}
    if "error_code" in fields:
        said = {"error_message": refused.message} if "error_message" in fields else {}
        return response(error_code=int(refused.code), **said)
    answer = control_of(request.api_key)(_Refusing(node, refused), request, context)
    return await answer if inspect.isawaitable(answer) else answer


class _Refusing:
    """A node as its own controller would be if it refused every ask."""

    def __init__(self, node: Any, refused: Refused) -> None:
        self._node = node
        self._refused = refused
        self.office = self
        self.quotas = None  # what is refused as a whole costs nobody anything

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)

    async def ask(self, one: object) -> Refused:
        return self._refused


def guarded(control: Handler) -> Handler:
    """A controller's handler that answers UNKNOWN_SERVER_ERROR where it breaks."""

    def handle(node: Any, request: Any, context: Any) -> Message | None | Awaitable[Message | None] | Slices:
        try:
            answer = control(node, request, context)
        except AssertionError:
            raise
        except Exception as error:
            return _broken(node, request, context, error)
        return _watched(node, request, context, answer) if inspect.iscoroutine(answer) else answer

    return handle


async def _watched(node: Any, request: Any, context: Any, answer: Awaitable[Message | None]) -> Message | None:
    try:
        return await answer
    except AssertionError:
        raise
    except Exception as error:
        return await _broken(node, request, context, error)


async def _broken(node: Any, request: Any, context: Any, error: Exception) -> Message | None:
    name = APIS[request.api_key].name
    log.error("%s of %s failed: %r", name, context.peer_host, error, exc_info=error)
    message = "The controller could not answer: its log says why."
    answer: Message | None = await refused_as_a_whole(
        node, request, context, Refused(Code.UNKNOWN_SERVER_ERROR, message)
    )
    return answer
