"""Answers that refuse a request as a whole, whatever its shape; and controllers whose handler breaks.

Brokers share their connections to the controller: what one client's request breaks there must cost that request, not
the connection with everybody's heartbeats on it. A broken assertion is our own mistake, and goes on to stop the node.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Hashable
from typing import cast

from moldau.broker.api.functions import Unbound, control_of
from moldau.broker.network.requests import Outcome, RequestContext
from moldau.broker.services import ControllerServices, NodeServices
from moldau.controller.replies import Refused
from moldau.model import Code
from moldau.wire.apis import APIS
from moldau.wire.schema import Message, Request, ResponseT

log = logging.getLogger(__name__)


async def refused_as_a_whole(
    node: NodeServices, request: Request[ResponseT], context: RequestContext, refused: Refused
) -> ResponseT:
    """What a controller answers that refuses the request as a whole."""
    response = APIS[request.api_key].response
    fields = {field.name for field in response.fields}
    if "error_code" in fields:
        said = {"error_message": refused.message} if "error_message" in fields else {}
        return cast("ResponseT", response(error_code=int(refused.code), **said))
    refusing = ControllerServices(  # without quotas: what is refused as a whole costs nobody anything
        config=node.config,
        world=node.world,
        cluster_id=node.cluster_id,
        metadata=node.metadata,
        plane=node.plane,
        controller=_Refusing(refused),
    )
    answer = control_of(request.api_key)(refusing, request, context)
    return cast("ResponseT", await answer if inspect.isawaitable(answer) else answer)


class _Refusing:
    """A controller that refuses every request."""

    def __init__(self, refused: Refused) -> None:
        self._refused = refused

    @property
    def active(self) -> bool:
        """It decides nothing."""
        return False

    async def submit(self, request: object) -> Refused:
        return self._refused

    def connection_is_of(self, connection: Hashable | None, broker_id: int) -> None:
        """A broker that is refused is not registered over this connection."""

    async def predecessor_is_gone(self, broker_id: int) -> bool:
        return False


def guarded(control: Unbound) -> Unbound:
    """A controller's handler that answers UNKNOWN_SERVER_ERROR where it breaks."""

    def handle(node: ControllerServices, request: Message, context: RequestContext) -> Outcome:
        try:
            answer = control(node, request, context)
        except AssertionError:
            raise
        except Exception as error:
            return _broken(node, request, context, error)
        return _watched(node, request, context, answer) if inspect.iscoroutine(answer) else answer

    return handle


async def _watched(
    node: ControllerServices, request: Message, context: RequestContext, answer: Awaitable[Message | None]
) -> Message | None:
    try:
        return await answer
    except AssertionError:
        raise
    except Exception as error:
        return await _broken(node, request, context, error)


async def _broken(
    node: ControllerServices, request: Message, context: RequestContext, error: Exception
) -> Message | None:
    name = APIS[request.api_key].name
    log.error("%s of %s failed: %r", name, context.peer_host, error, exc_info=error)
    message = "The controller could not answer: its log says why."
    refused = Refused(Code.UNKNOWN_SERVER_ERROR, message)
    return await refused_as_a_whole(node, cast("Request[Message]", request), context, refused)
