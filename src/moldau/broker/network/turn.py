"""How long requests may take in one turn of the event loop, of all connections of a listener together.

A client on the same machine, or on a fast network, has its next megabyte there when the last one is read, and the loop
reads on for as long as there is something, 32 times at most; and hundreds of clients may have a request there at once
that takes milliseconds each. Without a bound a turn would be all of these, and who asks for little, or connects, would
wait for them. So large requests, and connections whose last requests took long, wait for a later turn when this one has
had its time. Read next: ``connection.py``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from moldau.ports import World

OVER_NS = 4_000_000
"""After so long those who take long wait for a later turn."""
HEAVY_NS = 500_000
"""What a connection's last requests took together, when it is one of them."""
NOTED_NS = 100_000
"""Less is not counted: it is not worth a call."""
A_TURN = 2
"""So many of those that wait go on in each turn."""


class LoopTurn:
    """The turn of the loop that is on, and who waits for a later one, in order."""

    __slots__ = ("_is_due", "_spent_ns", "_waiting", "_world")

    def __init__(self, world: World) -> None:
        self._world = world
        self._spent_ns = 0
        self._is_due = False
        self._waiting: deque[Callable[[], object]] = deque()

    @property
    def is_over(self) -> bool:
        """Whether who takes long is to wait: this turn has had its time, or others wait already."""
        return self._spent_ns >= OVER_NS or bool(self._waiting)

    def spent(self, took_ns: int) -> None:
        """Count what requests took."""
        self._spent_ns += took_ns
        self._look_later()

    def wait(self, go_on: Callable[[], object]) -> None:
        """Have ``go_on`` called when its turn has come."""
        self._waiting.append(go_on)
        self._look_later()

    def _look_later(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._world.tasks.call_soon(self._turned)

    def _turned(self) -> None:
        self._is_due, self._spent_ns = False, 0
        try:
            for _ in range(min(A_TURN, len(self._waiting))):
                self._waiting.popleft()()
        finally:  # whatever became of one of them, the others have their turn
            if self._waiting:
                self._look_later()
