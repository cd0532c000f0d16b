"""Passing requests on to the active controller (KIP-590), and small translations that several request files share."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable
from typing import Any, Protocol, TypeVar, TypeVarTuple

from moldau.broker.api.refusing import refused_as_a_whole
from moldau.broker.loop import Pace, run_in_slices, sleep
from moldau.broker.peers import PassedOn
from moldau.broker.quotas.nodes import is_node, passed_on_as
from moldau.controller.replies import Refused
from moldau.ports import World
from moldau.terms import Code
from moldau.wire.apis import APIS

log = logging.getLogger("moldau.forwarding")

K = TypeVar("K")
T = TypeVar("T")
U = TypeVar("U")
Rest = TypeVarTuple("Rest")


class InWorld(Protocol):
    """Whose loop it is that turns."""

    @property
    def world(self) -> World: ...


MUTATING = frozenset({19, 20, 37})
"""What the controller counts by client: topics created and deleted, partitions created (KIP-599)."""
PATIENCE_MS = 30_000
TELL_MS = 200
"""How long an answer waits for brokers that stand still: they know nothing new whatever their clients ask."""
SETTLE_MS = 2_000
"""How long an answer waits for this broker's own image to show what was done, so that a client reads its writes."""


async def forward(node: Any, request: Any, context: Any) -> Any:
    """The controller's answer, as it is; REQUEST_TIMED_OUT, as Kafka's brokers say, when none answered in time.

    What a node has passed on is passed on no further: on the ZooKeeper plane, where controllers are brokers, it would
    go round among those who had just left the office, outlive who asked, and multiply.
    """
    if is_node(context.client_id) and node.config.on_zookeeper and node.plane.leader[0] != node.config.node_id:
        return await refused_as_a_whole(node, request, context, Refused(Code.NOT_CONTROLLER))
    try:
        client = passed_on(node, context.client_id, context.api_version) if request.api_key in MUTATING else None
        return await node.asking.patiently(request, _patience(request), context.connection, client)
    except OSError as error:
        name = APIS[request.api_key].name
        if (more := node.asking.unheard.more()) is not None:
            log.warning("no active controller answered %s of %s in time: %s%s", name, context.peer_host, error, more)
        message = f"No active controller answered in time: {error}"
        return await refused_as_a_whole(node, request, context, Refused(Code.REQUEST_TIMED_OUT, message))


def passed_on(
    node: Any,  # Any: the module of Node imports this one
    client_id: str | None,
    version: int,
) -> PassedOn:
    """For whom a request is passed on."""
    hidden = node.config.on_zookeeper or is_node(client_id)  # Kafka's own controllers count by the plain name
    return PassedOn(passed_on_as(node.config.node_id, client_id) if hidden else client_id or "", version)


async def seen(node: Any, shows: Callable[[Any], bool]) -> None:
    """Wait until ``shows(image)`` of this broker's own image, for a moment at most."""
    deadline_ms = node.world.clock.monotonic_ms() + SETTLE_MS
    while not shows(node.metadata.image) and node.world.clock.monotonic_ms() < deadline_ms:
        await sleep(node.world.tasks, 2)


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
        await sleep(node.world.tasks, 1)


def _patience(request: Any) -> int:
    return max(getattr(request, "timeout_ms", 0), 0) or PATIENCE_MS


def whole(reply: Any) -> tuple[Code, str | None] | None:
    """Code and words when the ask as a whole was refused; None when items have their own."""
    return (reply.code, reply.message) if isinstance(reply, Refused) else None


async def each(node: InWorld, items: Iterable[T], make: Callable[[T], U]) -> list[U]:
    """What ``make`` makes of each item; the loop turns after every few of them."""
    return await run_in_slices(node.world.tasks, each_in_slices(node, items, make))


def each_in_slices(node: InWorld, items: Iterable[T], make: Callable[[T], U]) -> Generator[None, None, list[U]]:
    """As ``each``, with pauses."""
    made: list[U] = []
    pace = Pace(node.world.step)
    for item in items:
        made.append(make(item))
        if pace.spent(1):
            yield
    return made


async def by_topic(node: InWorld, items: Iterable[tuple[K, *Rest]], make: Callable[[*Rest], U]) -> dict[K, list[U]]:
    """What ``make`` makes of all but the first member of each item, grouped by that one; order kept, in turns."""
    return await run_in_slices(node.world.tasks, by_topic_in_slices(node, items, make))


def by_topic_in_slices(
    node: InWorld, items: Iterable[tuple[K, *Rest]], make: Callable[[*Rest], U]
) -> Generator[None, None, dict[K, list[U]]]:
    """As ``by_topic``, with pauses."""
    groups: dict[K, list[U]] = {}
    yield from each_in_slices(node, items, lambda item: groups.setdefault(item[0], []).append(make(*item[1:])))
    return groups
