"""What this node's subsystems are told in ZooKeeper mode: batch after batch, each in as many turns as it takes.

A request may delete two thousand replicas; carried out at once they would hold up everybody whom this broker serves.
The image changes at once, and whoever looks meanwhile finds replicas that have not yet heard (epochs tell). The
next batch begins when the one before is through. Decides nothing. In KRaft mode this is ``kraft/delivery.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from moldau.broker.loop import yield_to_loop
from moldau.ports import PlaneEvents, Tasks
from moldau.wire.schema import Message


class MetadataPublisher:
    """Tells one plane's ``listeners``, in this order."""

    def __init__(self, listeners: Sequence[PlaneEvents], tasks: Tasks) -> None:
        self._listeners = tuple(listeners)
        self._tasks = tasks
        self._rest: Iterator[None] | None = None

    async def free(self) -> None:
        """Wait until nothing is under way: what the caller works out next holds until it tells it."""
        while self._rest is not None:
            await yield_to_loop(self._tasks)

    async def committed(self, records: Sequence[Message], offset: int, epoch: int) -> None:
        """Tell of a batch; returns when all of it is carried out. Begins at once, so be ``free``."""
        self.finish()
        rest = self._rest = self._carry_out(records, offset, epoch)
        try:
            for _ in rest:
                await yield_to_loop(self._tasks)
                if self._rest is not rest:
                    return
            self._rest = None
        finally:
            if self._rest is rest:
                self.finish()  # the caller was cancelled, and what is begun must not be left half done

    def event(self, tell: Callable[[PlaneEvents], None]) -> None:
        """Tell all of something else, at once; what is under way is carried out first."""
        self.finish()
        for listener in self._listeners:
            tell(listener)

    def finish(self) -> None:
        """Carry out what is under way, at once."""
        rest, self._rest = self._rest, None
        for _ in rest or ():
            pass

    def _carry_out(self, records: Sequence[Message], offset: int, epoch: int) -> Iterator[None]:
        for listener in self._listeners:
            rest = listener.committed(records, offset, epoch)
            if rest is not None:
                yield  # the first part took its time, and so does the last
                yield from rest
                yield
