"""Doubles of the ports, for code that is given a clock and tasks by a test; mypy holds them to their Protocols.

``ManualTasks`` does nothing until the test says so, ``LoopTasks`` uses the running loop. ``manual_world`` is the real
value with these in it; a port that a test does not give fails it when it is used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from moldau.ports import Clock, Disk, Handle, Net, Pool, Random, Tasks, World
from moldau.ports.buggify import Buggify
from tests.packages.manual_clock import ManualClock

T = TypeVar("T")


class Unused:
    """What the code under test has no use for: whatever is asked of it fails the test."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} is asked of what the test has not given")


UNUSED: Any = Unused()


class Timer:
    """A call for a later turn of the loop, in the list that it was put into; to call it takes it out."""

    def __init__(self, held_in: list[Timer], call: Callable[[], object], delay_ms: float = 0, now_ms: int = 0) -> None:
        self.delay_ms = delay_ms
        self.due_ms = now_ms + delay_ms
        self._call = call
        self._held_in = held_in
        held_in.append(self)

    def cancel(self) -> None:
        if self in self._held_in:
            self._held_in.remove(self)

    def __call__(self) -> object:
        self.cancel()
        return self._call()


class ManualTasks:
    """Tasks that the test carries out: ``soon`` is for the next turn, ``timers`` for when ``clock`` has come so far.

    Coroutines are not run: ``spawned`` are their names.
    """

    def __init__(self, clock: ManualClock | None = None) -> None:
        self.clock = ManualClock() if clock is None else clock
        self.soon: list[Timer] = []
        self.timers: list[Timer] = []
        self.spawned: list[str] = []

    def call_soon(self, call: Callable[[], object]) -> Handle:
        return Timer(self.soon, call)

    def call_later(self, delay_ms: float, call: Callable[[], object]) -> Handle:
        return Timer(self.timers, call, delay_ms, self.clock.now_ms)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> Handle:
        self.spawned.append(name)
        work.close()
        return Timer([], lambda: None)

    def off_loop(self, call: Callable[[], T], pool: Pool) -> Awaitable[T]:
        raise AssertionError(f"nothing is to be done by {pool.name}")

    def turn(self) -> bool:
        """Make the oldest call of ``soon``; whether there was one."""
        if self.soon:
            self.soon[0]()
            return True
        return False

    def advance(self, ms: int) -> None:
        """Let time go by: timers that are due are called, each at its time."""
        end_ms = self.clock.now_ms + ms
        while (first := self.first) is not None and first.due_ms <= end_ms:
            self.clock.now_ms = max(self.clock.now_ms, int(first.due_ms))
            first()
        self.clock.now_ms = end_ms

    @property
    def first(self) -> Timer | None:
        """The timer that is due first."""
        return min(self.timers, key=lambda timer: timer.due_ms, default=None)


class LoopTask:
    """A coroutine that runs on the loop."""

    def __init__(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self.task = asyncio.get_running_loop().create_task(work, name=name)

    def cancel(self) -> None:
        self.task.cancel()


class LoopTasks:
    """Tasks on the running loop; ``turns`` counts calls for its next turn."""

    def __init__(self) -> None:
        self.turns = 0
        self.spawned: list[LoopTask] = []

    def call_soon(self, call: Callable[[], object]) -> Handle:
        self.turns += 1
        return asyncio.get_running_loop().call_soon(call)

    def call_later(self, delay_ms: float, call: Callable[[], object]) -> Handle:
        return asyncio.get_running_loop().call_later(delay_ms / 1000, call)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> Handle:
        self.spawned.append(LoopTask(work, name))
        return self.spawned[-1]

    def off_loop(self, call: Callable[[], T], pool: Pool) -> Awaitable[T]:
        return asyncio.to_thread(call)


def manual_world(
    *,
    clock: Clock | None = None,
    tasks: Tasks | None = None,
    random: Random = UNUSED,
    disk: Disk = UNUSED,
    net: Net = UNUSED,
    buggify: Buggify | None = None,
    step: int = 100,
) -> World:
    """A world of these ports; without a clock or tasks those that the test moves, at 0 ms."""
    if clock is None:
        clock = ManualClock()
    if tasks is None:
        tasks = ManualTasks(clock if isinstance(clock, ManualClock) else None)
    return World(clock=clock, random=random, disk=disk, net=net, tasks=tasks, buggify=buggify, step=step)


@dataclass
class TimeModule:
    """The module ``time`` of one module of ours, in whose place it is put, so that threads of others keep theirs.

    Its time goes by with its own ``sleep`` only, and with what a test does to ``now_s``.
    """

    now_s: float = 0.0
    slept: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds
