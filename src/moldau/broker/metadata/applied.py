"""Waiting, for a moment at most, until what the controller decided is known here, or at every live broker.

So that a client reads its own writes, at whichever broker it asks. Read next: ``api/forwarding.py``,
``controller/topic_creation.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from moldau.broker.loop import Pace, sleep, yield_to_loop
from moldau.broker.metadata.cache import MetadataCache
from moldau.image import Image
from moldau.model.protocol import Protocol
from moldau.ports import World

T = TypeVar("T")

TELL_MS = 200
"""How long an answer waits for brokers that stand still: they know nothing new whatever their clients ask."""
SETTLE_MS = 2_000
"""How long an answer waits for this broker's own image to show what was done, so that a client reads its writes."""


class WithMetadata(Protocol):
    """A node that holds a committed image."""

    @property
    def world(self) -> World: ...

    @property
    def metadata(self) -> MetadataCache: ...


class Offsets(Protocol):
    """How far the active controller has told its brokers."""

    @property
    def next_offset(self) -> int: ...

    def readers(self) -> Mapping[int, int]: ...


class AtController(WithMetadata, Protocol):
    """A node that may be the active controller."""

    @property
    def plane(self) -> Offsets: ...


async def wait_until_applied(node: WithMetadata, shows: Callable[[Image], bool]) -> None:
    """Return when ``shows(image)`` is true of this broker's own image, or after ``SETTLE_MS``."""
    deadline_ms = node.world.clock.monotonic_ms() + SETTLE_MS
    while not shows(node.metadata.image) and node.world.clock.monotonic_ms() < deadline_ms:
        await sleep(node.world.tasks, 2)


async def wait_until_each_applied(node: WithMetadata, items: Iterable[T], shows: Callable[[Image, T], bool]) -> None:
    """Return when this broker's own image has shown each of the items in turn, or after ``SETTLE_MS``. Those that it
    shows are looked at once, and the loop turns after every few."""
    deadline_ms, pace = node.world.clock.monotonic_ms() + SETTLE_MS, Pace(node.world.step)
    for item in items:
        while not shows(node.metadata.image, item):
            if node.world.clock.monotonic_ms() >= deadline_ms:
                return
            await sleep(node.world.tasks, 2)
        if pace.spent(1):
            await yield_to_loop(node.world.tasks)


async def wait_until_propagated(node: AtController) -> None:
    """Return when every live broker has been told what is decided, or after ``TELL_MS``.

    Clients ask any broker: kafka-python, which found no such topic at one of them, looks again after five minutes.
    """
    decided = node.plane.next_offset - 1

    def lagging() -> bool:
        readers = node.plane.readers()
        return any(readers.get(broker.id, decided) < decided for broker in node.metadata.image.live_brokers())

    deadline_ms = node.world.clock.monotonic_ms() + TELL_MS
    while lagging() and node.world.clock.monotonic_ms() < deadline_ms:
        await sleep(node.world.tasks, 1)
