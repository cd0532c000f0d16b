"""How long large requests may take in one turn of the event loop, of all connections of a listener together.

A client on the same machine, or on a fast network, has its next megabyte there when the last one is read, and the loop
reads on for as long as there is something, 32 times at most. Without a bound a turn would be all of these. Smaller
requests come many in one read: ``connection.py`` counts their time there.
"""

from __future__ import annotations

from moldau.ports import World

LARGE_MS = 4
"""After so long other large requests wait for the next turn."""


class LoopTurn:
    """The turn of the loop that is on."""

    __slots__ = ("_spent_ms", "_world")

    def __init__(self, world: World) -> None:
        self._world = world
        self._spent_ms = 0

    @property
    def is_over(self) -> bool:
        """Whether large requests are to wait for the next turn."""
        return self._spent_ms >= LARGE_MS

    def spent(self, since_ms: int) -> None:
        """Count the time since then, on the monotonic clock: a large request took it."""
        spent_ms = self._world.clock.monotonic_ms() - since_ms
        if spent_ms > 0:
            if not self._spent_ms:
                self._world.tasks.call_soon(self._turned)
            self._spent_ms += spent_ms

    def _turned(self) -> None:
        self._spent_ms = 0
