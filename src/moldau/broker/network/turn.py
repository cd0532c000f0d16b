"""How long requests may take in one turn of the event loop, of all connections of a listener together.

A client on the same machine, or on a fast network, has its next megabyte there when the last one is read, and the loop
reads on for as long as there is something, 32 times at most; hundreds of clients may have a request there at once that
takes milliseconds each, or one that is worked on in slices. Without a bound a turn would be all of these, and who asks
for little, or connects, would wait for them. So works in slices go on in order, in each turn as many as it has time
for, and each kind of request in its turn, so that a follower's fetch does not stand behind all producers. Large
requests, and connections whose last requests took long, wait for a later turn when this one has had its time; so do
requests larger than any that is known to take little on their connection, in a line of their own. Read next:
``connection.py``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from moldau.ports import World

OVER_NS = 4_000_000
"""After so long those who take long wait for a later turn, and so do works in slices."""
HEAVY_NS = 500_000
"""What a connection's last requests took together, when it is one of them."""
NOTED_NS = 100_000
"""Less is not counted: it is not worth a call."""
A_TURN = 2
"""So many of the connections that wait go on in each turn: of those that take long one less while others wait..."""
NEW_A_TURN = 2
"""...and of those of which nobody knows yet."""
LITTLE_BYTES = 512
"""A request that is no longer is taken to be a short one until its connection's requests have taken long."""


class LoopTurn:
    """The turn of the loop that is on, and who waits for a later one, in order."""

    __slots__ = ("_is_due", "_new", "_now_ns", "_processor_ns", "_spent_ns", "_tasks", "_waiting", "_works")

    def __init__(self, world: World) -> None:
        self._tasks, self._now_ns, self._processor_ns = world.tasks, world.clock.monotonic_ns, world.clock.processor_ns
        self._spent_ns = 0
        self._is_due = False
        self._waiting: deque[Callable[[], object]] = deque()
        self._new: deque[Callable[[], object]] = deque()
        """Who may take long, but nobody knows."""
        self._works: dict[int, deque[Callable[[], object]]] = {}
        """The next steps of works in slices by kind, in order; the kind whose turn it is first. None is empty."""

    @property
    def is_over(self) -> bool:
        """Whether who takes long is to wait: this turn has had its time, or others wait already."""
        return self._spent_ns >= OVER_NS or bool(self._waiting or self._new)

    def processor_ns(self) -> int:
        """How long the loop has had a processor, when it matters who takes long: this turn has had its time, or
        somebody waits for a later one. Else -1: it is not worth asking."""
        return self._processor_ns() if self.is_over or self._works else -1

    def spent(self, took_ns: int) -> None:
        """Count what requests took."""
        self._spent_ns += took_ns
        self._look_later()

    def wait(self, go_on: Callable[[], object], *, is_new: bool) -> None:
        """Have ``go_on`` called when its turn has come; ``is_new``: nobody knows yet whether that takes long."""
        (self._new if is_new else self._waiting).append(go_on)
        self._look_later()

    def go_on(self, kind: int, step: Callable[[], object]) -> None:
        """Have the next ``step`` of a work in slices made in a later turn, behind those of its ``kind``, which is its
        request's api key, that wait already."""
        self._works.setdefault(kind, deque()).append(step)
        self._look_later()

    def _look_later(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._tasks.call_soon(self._turned)

    def _turned(self) -> None:
        self._is_due, self._spent_ns = False, 0
        if not (self._waiting or self._new or self._works):
            return
        try:
            known, new = A_TURN - bool(self._new), NEW_A_TURN
            for line, many in ((self._waiting, known), (self._new, new)):
                for _ in range(min(many, len(line))):
                    line.popleft()()
            self._work()
        finally:  # whatever became of one of them, the others have their turn
            if self._waiting or self._new or self._works:
                self._look_later()

    def _work(self) -> None:
        """Have works go on until the turn has had its time: one of them at least, if there are any, and only so many
        steps as were there."""
        began_ns = self._now_ns()
        for _ in range(sum(map(len, self._works.values()))):
            kind = next(iter(self._works))
            steps = self._works.pop(kind)
            step = steps.popleft()
            if steps:
                self._works[kind] = steps
            step()
            self._spent_ns = self._now_ns() - began_ns
            if self._spent_ns >= OVER_NS:
                break
