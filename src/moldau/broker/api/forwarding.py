"""Passing requests on to the active controller (KIP-590), and small translations that several request files share."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable
from typing import Any

from moldau.broker.api import CONTROLLER, handler
from moldau.broker.asking import pause
from moldau.controller.replies import Refused
from moldau.terms import Code
from moldau.wire.apis import APIS

log = logging.getLogger("moldau.forwarding")

PATIENCE_MS = 30_000
TELL_MS = 200
"""How long an answer waits for brokers that stand still: they know nothing new whatever their clients ask."""
SETTLE_MS = 2_000
"""How long an answer waits for this broker's own image to show what was done, so that a client reads its writes."""


async def forward(node: Any, request: Any, context: Any) -> Any:
    """The controller's answer, as it is; REQUEST_TIMED_OUT, as Kafka's brokers say, when none answered in time."""
    try:
        return await node.asking.patiently(request, _patience(request))
    except OSError as error:
        api = APIS[request.api_key]
        log.warning("no active controller answered %s of %s in time: %s", api.name, context.peer_host, error)
        return await _timed_out(node, request, context, f"No active controller answered in time: {error}")


async def _timed_out(node: Any, request: Any, context: Any, message: str) -> Any:
    """What a controller answers that refuses the request as a whole."""
    fields = {field.name for field in APIS[request.api_key].response.fields}
    if "error_code" in fields:
        said = {"error_message": message} if "error_message" in fields else {}
        return APIS[request.api_key].response(error_code=int(Code.REQUEST_TIMED_OUT), **said)

    answer = handler(request.api_key, CONTROLLER)(_Refusing(node, message), request, context)
    return await answer if inspect.isawaitable(answer) else answer


class _Refusing:
    """A node as its own controller would be if it refused every ask."""

    def __init__(self, node: Any, message: str) -> None:
        self._node = node
        self._refused = Refused(Code.REQUEST_TIMED_OUT, message)
        self.office = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)

    async def ask(self, one: object) -> Refused:
        return self._refused


async def seen(node: Any, shows: Callable[[Any], bool]) -> None:
    """Wait until ``shows(image)`` of this broker's own image, for a moment at most."""
    deadline_ms = node.world.clock.monotonic_ms() + SETTLE_MS
    while not shows(node.metadata.image) and node.world.clock.monotonic_ms() < deadline_ms:
        await pause(node.world.tasks, 2)


async def told(node: Any) -> None:
    """At a controller: wait until every live broker has been told what is decided, for a moment.

    Clients ask any broker: kafka-python, which found no such topic at one of them, looks again after five minutes.
    """
    decided = node.plane.next_offset - 1

    def lagging() -> bool:
        readers = node.plane.readers()
        return any(readers.get(broker.id, decided) < decided for broker in node.metadata.image.live_brokers())

    deadline_ms = node.world.clock.monotonic_ms() + TELL_MS
    while lagging() and node.world.clock.monotonic_ms() < deadline_ms:
        await pause(node.world.tasks, 1)


def _patience(request: Any) -> int:
    return max(getattr(request, "timeout_ms", 0), 0) or PATIENCE_MS


def whole(reply: Any) -> tuple[Code, str | None] | None:
    """Code and words when the ask as a whole was refused; None when items have their own."""
    return (reply.code, reply.message) if isinstance(reply, Refused) else None


def by_topic(items: Iterable[tuple[Any, ...]]) -> dict[Any, list[tuple[Any, ...]]]:
    """Items grouped by their first member, which is left out; order kept."""
    groups: dict[Any, list[tuple[Any, ...]]] = {}
    for first, *rest in items:
        groups.setdefault(first, []).append(tuple(rest))
    return groups
