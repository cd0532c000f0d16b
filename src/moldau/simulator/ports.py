"""Clock, random numbers and tasks of one simulated process.

Work off the loop happens in two steps: the call after a drawn delay, its answer after another, so that a crash may fall
between. Read next: net.py and disk.py.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple, TypeVar

from moldau.ports import Handle, Pool
from moldau.simulator.disk import SimDisk
from moldau.simulator.loop import SimLoop

T = TypeVar("T")
Failed = Callable[[str, BaseException], None]
HUNG_LOOK_S = 0.02
EPOCH_MS = 1_790_000_000_000


class SimClock:
    """Virtual time as one machine has it: ``rate`` faster or slower, its wall off by a skew that may jump."""

    def __init__(self, loop: SimLoop, skew_ms: int = 0, rate: float = 1.0) -> None:
        self._loop = loop
        self._skews = [(0.0, skew_ms)]
        """Since when, in virtual seconds, and how many ms, the newest last."""
        self.rate = rate

    def jump(self, by_ms: int) -> None:
        """Set the wall ahead, or back if negative."""
        self._skews.append((self._loop.time(), self._skews[-1][1] + by_ms))

    def earliest_wall_ms(self, since_s: float) -> int:
        """Return the earliest time that the wall has shown since then (virtual seconds)."""
        earliest = self.wall_ms()
        for began_s, skew_ms in reversed(self._skews):
            earliest = min(earliest, self._wall_ms(max(began_s, since_s), skew_ms))
            if began_s < since_s:
                break
        return earliest

    def monotonic_ms(self) -> int:
        return int(self._loop.time() * self.rate * 1000) + 1_000

    def monotonic_ns(self) -> int:
        return self.monotonic_ms() * 1_000_000

    def processor_ns(self) -> int:
        return self.monotonic_ns()  # one that nobody else uses

    def wall_ms(self) -> int:
        return self._wall_ms(self._loop.time(), self._skews[-1][1])

    def _wall_ms(self, now_s: float, skew_ms: int) -> int:
        return EPOCH_MS + skew_ms + int(now_s * self.rate * 1000)


class SimRandom:
    """Chance from a seed."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def below(self, n: int) -> int:
        return self._rng.randrange(n)

    def uuid(self) -> bytes:
        id = bytearray(self._rng.randbytes(16))
        id[0] &= 0x7F  # never a text that starts with a dash
        id[6] = (id[6] & 0x0F) | 0x40
        id[8] = (id[8] & 0x3F) | 0x80
        return bytes(id)


class Machine(NamedTuple):
    """What of a machine is slow, or wrong about time."""

    disk: SimDisk
    clock: SimClock


class SimTasks:
    """Later, on the simulated loop; ``on_failure`` gets tasks that raised (law X7). Work off the loop is work on
    the ``machine``'s disk: as slow as that, and hanging with it. Calls of one pool are not kept in order: whoever needs
    an order awaits the first call before it makes the second.
    """

    def __init__(self, loop: SimLoop, rng: random.Random, machine: Machine, on_failure: Failed) -> None:
        self._loop = loop
        self._rng = rng
        self._disk, self._clock = machine
        self._on_failure = on_failure
        self._running: dict[asyncio.Task[None], None] = {}

    def call_soon(self, call: Callable[[], object]) -> Handle:
        return self._loop.call_soon(call)

    def call_later(self, delay_ms: float, call: Callable[[], object]) -> Handle:
        return self._loop.call_later(max(delay_ms, 0) / 1000 / self._clock.rate, call)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> Handle:
        task = self._loop.create_task(work, name=name)
        self._running[task] = None
        task.add_done_callback(self._finished)
        return task  # type: ignore[return-value]

    def off_loop(self, call: Callable[[], T], pool: Pool) -> Awaitable[T]:
        answer: asyncio.Future[T] = self._loop.create_future()

        def settle(error: BaseException | None, value: Any) -> None:
            if answer.done():
                return
            if error is None:
                answer.set_result(value)
            else:
                answer.set_exception(error)

        def act() -> None:
            error, value = None, None
            if self._disk.hung:
                self._loop.call_later(HUNG_LOOK_S, act)
                return
            self._disk.beside = True
            try:
                value = call()
            except Exception as raised:
                error = raised
            self._disk.beside = False
            self._loop.call_later(self._rng.uniform(0, 0.002), settle, error, value)

        self._loop.call_later(self._rng.uniform(0, 0.004) * self._disk.slowness, act)
        return answer

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(task.get_name(), error)
