"""Passing requests on to the active controller (KIP-590), and small translations that several request files share."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from moldau.broker.api.refusing import refused_as_a_whole
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
        return await node.asking.patiently(request, _patience(request), context.connection)
    except OSError as error:
        name = APIS[request.api_key].name
        if (more := node.asking.unheard.more()) is not None:
            log.warning("no active controller answered %s of %s in time: %s%s", name, context.peer_host, error, more)
        message = f"No active controller answered in time: {error}"
        return await refused_as_a_whole(node, request, context, Refused(Code.REQUEST_TIMED_OUT, message))


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
