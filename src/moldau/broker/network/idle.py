"""Connections on which nothing is said: connections.max.idle.ms, for all connections of one listener by one timer.

Decides which connection has been idle for too long; its listener closes it. Nothing is noted per request: a connection
says whether it heard something since it was last looked at, and it is looked at ten times in the allowed while. So it
goes after that while or up to two tenths later, never before. Who waits for an answer is not idle. Asked by
``network/``.
"""

from __future__ import annotations

from collections.abc import Iterable

from moldau.model.protocol import Protocol
from moldau.ports import Handle, World

LOOKS = 10
"""Looks at every connection in the allowed while."""
PAUSE_MIN_MS = 10


class Quiet(Protocol):
    """A connection as this file needs it."""

    heard: bool
    """Something came since this was last set to False."""

    @property
    def waits(self) -> bool:
        """Whether it is not for its client to speak: an answer is due, or it is not read from."""

    def expire(self, idle_ms: int) -> None:
        """Close it: nothing was said for that long."""


class IdleSweep:
    """One listener's. ``max_idle_ms`` below 0 means that nobody is ever idle for too long."""

    def __init__(self, world: World, connections: Iterable[Quiet], max_idle_ms: int) -> None:
        self._world = world
        self._connections = connections
        self._max_idle_ms = max_idle_ms
        self._since_ms: dict[Quiet, int] = {}
        self._next: Handle | None = None
        if max_idle_ms >= 0:
            self._later()

    def stop(self) -> None:
        """Look no more."""
        if self._next is not None:
            self._next.cancel()

    def _later(self) -> None:
        pause_ms = max(self._max_idle_ms / LOOKS, PAUSE_MIN_MS)
        self._next = self._world.tasks.call_later(pause_ms, self._look)

    def _look(self) -> None:
        now_ms, before = self._world.clock.monotonic_ms(), self._since_ms
        self._since_ms = since = {}
        for connection in list(self._connections):
            if connection.heard or connection.waits:
                connection.heard = False
                since[connection] = now_ms
                continue
            since_ms = since[connection] = before.get(connection, now_ms)
            if now_ms - since_ms > self._max_idle_ms:
                connection.expire(now_ms - since_ms)
        self._later()
