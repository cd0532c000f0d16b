"""Clock, random numbers and tasks: the ports through which a node waits, draws and moves slow work off its loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from moldau.model.protocol import Protocol
from moldau.ports.pools import Pool

T = TypeVar("T")


class Clock(Protocol):
    """Two clocks, and what a thread used. Deadlines use the monotonic clock only; the wall stamps records and logs."""

    def monotonic_ms(self) -> int: ...

    def monotonic_ns(self) -> int:
        """The monotonic clock, to tell how long a short piece of work took."""

    def processor_ns(self) -> int:
        """How long the calling thread has had a processor, to tell how much work something was. Takes ten times as
        long as the others to tell."""

    def wall_ms(self) -> int: ...


class Random(Protocol):
    """Chance, seeded in the simulator."""

    def below(self, n: int) -> int:
        """A whole number in [0, n)."""

    def uuid(self) -> bytes:
        """A fresh 16-byte random id, never zero."""


class Handle(Protocol):
    """A timer that can be called off."""

    def cancel(self) -> None: ...


class Tasks(Protocol):
    """Work for later. A task that raises stops the node (law X7): failures never vanish in the background."""

    def call_soon(self, call: Callable[[], object]) -> Handle: ...

    def call_later(self, delay_ms: float, call: Callable[[], object]) -> Handle: ...

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> Handle:
        """Run a coroutine on the loop; cancel by the handle."""

    def off_loop(self, call: Callable[[], T], pool: Pool) -> Awaitable[T]:
        """Run slow, thread-safe work (fsync, compression, big reads) on a worker thread of ``pool``; its result."""
