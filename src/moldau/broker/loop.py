"""Sleep on a node's clock, and work in slices between which the event loop turns.

Everything here takes ``Tasks``, the port of the loop, so that simulated time passes for it as real time does. Long work
is a generator that yields where the loop should turn. Imports nothing of the broker.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable
from functools import partial
from typing import TypeVar, TypeVarTuple
from weakref import WeakKeyDictionary

from moldau.model.protocol import Protocol
from moldau.ports import Clock, Tasks, World

K = TypeVar("K")
T = TypeVar("T")
U = TypeVar("U")
Rest = TypeVarTuple("Rest")

WORKS_AT_ONCE = 8
"""So many clients' read-only requests of a kind are begun: each holds what it has made so far. One goes on in each turn
of the loop, of each kind in its turn."""
TURN_MS = 5
"""Work that has gone on for so long in one turn of the loop goes on in the next one."""


async def sleep(tasks: Tasks, wait_ms: float) -> None:
    """Wait on the node's own clock."""
    waited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    timer = tasks.call_later(wait_ms, lambda: None if waited.done() else waited.set_result(None))
    try:
        await waited
    finally:
        timer.cancel()


async def yield_to_loop(tasks: Tasks) -> None:
    """Let the loop turn once, for everybody else."""
    turned: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    tasks.call_soon(lambda: None if turned.done() else turned.set_result(None))
    await turned


class Turns:
    """Lets one work go on in each turn of the loop, one after the other: thousands that each do a little in a turn
    would hold up everybody else for as long as if they did all of it. Kinds take turns, so that none waits for all of
    another."""

    __slots__ = ("_begun", "_is_due", "_waiting")

    def __init__(self) -> None:
        self._begun: dict[int, asyncio.Semaphore] = {}
        self._waiting: dict[int, deque[asyncio.Future[None]]] = {}
        """Who waits for a turn, by kind; the kind whose turn it is first. None is empty."""
        self._is_due = False

    def begun(self, kind: int) -> asyncio.Semaphore:
        """What each work of the kind holds that is not through."""
        found = self._begun.get(kind)
        if found is None:
            found = self._begun[kind] = asyncio.Semaphore(WORKS_AT_ONCE)
        return found

    def next(self, tasks: Tasks, kind: int = 0) -> asyncio.Future[None]:
        """Done when it is the caller's turn; the kind is of no matter where all are of one."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(kind, deque()).append(turn)
        if not self._is_due:
            self._is_due = True
            tasks.call_soon(lambda: self._give(tasks))
        return turn

    def _give(self, tasks: Tasks) -> None:
        while self._waiting:
            kind = next(iter(self._waiting))
            turns = self._waiting.pop(kind)
            turn = turns.popleft()
            if turns:
                self._waiting[kind] = turns
            if not turn.done():  # else its caller was cancelled
                turn.set_result(None)
                break
        self._is_due = bool(self._waiting)
        if self._is_due:
            tasks.call_soon(lambda: self._give(tasks))


_TURNS: WeakKeyDictionary[Tasks, Turns] = WeakKeyDictionary()  # of each node: many live in one process of a simulation


async def run_in_slices(
    tasks: Tasks, work: Generator[None, None, T], pause: Callable[[], Awaitable[None]] | None = None
) -> T:
    """What ``work`` returns; where it pauses the loop turns, or what ``pause`` gives is waited for."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: T = end.value
            return found
        await (yield_to_loop(tasks) if pause is None else pause())


async def answer_in_slices(tasks: Tasks, kind: int, work: Generator[None, None, T]) -> T:
    """As ``run_in_slices``, for a client's read-only request: of these there may be thousands, and each has
    its turns behind the others of its ``kind``, which is its request's api key. What the node does for itself, and what
    changes something, stands behind none of them.
    """
    turns = _TURNS.get(tasks)
    if turns is None:
        turns = _TURNS[tasks] = Turns()
    async with turns.begun(kind):
        return await run_in_slices(tasks, work, partial(turns.next, tasks, kind))


class Pace:
    """Counts work, and says when the loop should turn. With a clock, time counts too: what a call to the file system
    takes is not known beforehand."""

    __slots__ = ("_began_ms", "_clock", "_done", "step")

    def __init__(self, step: int, clock: Clock | None = None) -> None:
        self.step = step
        self._clock = clock
        self._began_ms = -1
        self._done = 0

    def spent(self, count: int) -> bool:
        """``count`` more is done; whether that is enough for one turn."""
        self._done += count
        if self._done < self.step and not (self._clock is not None and self._took_long(self._clock.monotonic_ms())):
            return False
        self._done, self._began_ms = 0, -1
        return True

    def _took_long(self, now_ms: int) -> bool:
        """Whether this turn's work goes on for so long already; its first piece, which began it, is not counted."""
        if self._began_ms < 0:
            self._began_ms = now_ms
        return now_ms - self._began_ms >= TURN_MS


def at_once_or_in_slices(
    tasks: Tasks, work: Generator[None, None, T], *, read_kind: int | None = None
) -> T | Awaitable[T]:
    """What ``work`` returns, when it never pauses; else an awaitable of it. ``read_kind``: of a read-only request, its
    ``kind`` in ``answer_in_slices``."""
    try:
        next(work)
    except StopIteration as end:
        found: T = end.value
        return found
    return _in_later_slices(tasks, work, read_kind)


async def _in_later_slices(tasks: Tasks, work: Generator[None, None, T], read_kind: int | None) -> T:
    await yield_to_loop(tasks)
    return await (run_in_slices(tasks, work) if read_kind is None else answer_in_slices(tasks, read_kind, work))


def run_to_end_if_short(work: Generator[None, None, T], is_short: bool) -> T | Generator[None, None, T]:
    """What the work returns, without pauses, if it is short; else the work itself, for whoever lets the loop turn."""
    return run_to_end(work) if is_short else work


def run_to_end(work: Generator[None, None, T]) -> T:
    """What the work returns, without pauses."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: T = end.value
            return found


class InWorld(Protocol):
    """Whose loop it is that turns."""

    @property
    def world(self) -> World: ...


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
