"""Where answers wait: fetches for data or watermark, acks=all produces and deletions for followers; all for time.

Decides when a waiting answer is looked at again and when its time is up. Does not know what it waits for: a waiter
judges itself. One heap and one timer serve everybody; what happens to a partition several times in one turn of the loop
is looked at once, after it. Many whose time is up at once, or for whom the same thing happened, are answered some in
each turn. Read next: ``replicas/fetch/reader.py`` (fetches), ``replicas/manager.py`` (who wakes whom).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Protocol

from moldau.model import Code
from moldau.ports import Handle, World
from moldau.wire.schema import Message

STALE_MAX = 1000
"""Answered waiters that the heap may hold beside as many unanswered ones before it is swept."""
A_TURN_NS = 4_000_000
"""After so long in one turn of the loop those who are left are looked at in the next one."""


class DelayedOperation(Protocol):
    """Somebody who waits. ``done`` once answered."""

    done: bool

    @property
    def kind(self) -> str:
        """What it waits with: Fetch, Produce, ..."""

    def try_complete(self) -> None:
        """Something changed: answer if that suffices."""

    def expire(self) -> None:
        """Time is up: answer with what there is."""

    def abandon(self) -> None:
        """Its client is gone: wait no longer, and answer nothing."""

    def fail(self, error: Exception) -> None:
        """Looking at it failed: there is no answer but the end of its connection."""


class DelayedOperationPurgatory:
    """Every waiting answer of a broker."""

    def __init__(self, world: World) -> None:
        self._tasks = world.tasks
        self._clock = world.clock
        self._heap: list[tuple[int, int, DelayedOperation]] = []
        self._count = 0
        self._waiting = 0
        self._timer: Handle | None = None
        self._timer_at = 0
        self._called: dict[int, DelayedOperation] = {}
        self._is_due = False
        """Whether the operations that were called are looked at in the next turn."""

    def __len__(self) -> int:
        """How many wait."""
        return self._waiting

    def kinds(self) -> Counter[str]:
        """How many wait, by what they wait with."""
        return Counter(waiter.kind for _, _, waiter in self._heap if not waiter.done)

    def park(self, waiter: DelayedOperation, wait_ms: int) -> None:
        """Let it wait for at most ``wait_ms``; whoever answers it says so by ``left``."""
        deadline_ms = self._clock.monotonic_ms() + wait_ms
        self._count += 1
        self._waiting += 1
        if len(self._heap) > 2 * self._waiting + STALE_MAX:
            self._heap = [entry for entry in self._heap if not entry[2].done]
            heapify(self._heap)
        heappush(self._heap, (deadline_ms, self._count, waiter))
        if self._timer is None or deadline_ms < self._timer_at:
            self._arm(deadline_ms, wait_ms)

    def left(self) -> None:
        """A parked waiter was answered."""
        self._waiting -= 1

    def notify(self, waiter: DelayedOperation) -> None:
        """Have it look again once this turn of the loop is over: by then more may have come."""
        self._called[id(waiter)] = waiter
        self._look_later()

    def _look_later(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._tasks.call_soon(self._complete_called)

    def _complete_called(self) -> None:
        self._is_due = False
        called, self._called = self._called, {}
        began_ns = self._clock.monotonic_ns()
        while called:
            waiter = called.pop(next(iter(called)))
            if not waiter.done:
                safely(waiter, waiter.try_complete)
                if called and self._clock.monotonic_ns() - began_ns >= A_TURN_NS:
                    self._called = called | self._called  # who was called first is looked at first
                    self._look_later()
                    return

    def _arm(self, deadline_ms: int, wait_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline_ms
        self._timer = self._tasks.call_later(max(wait_ms, 0), self._time)

    def _time(self) -> None:
        self._timer = None
        now_ms, began_ns = self._clock.monotonic_ms(), self._clock.monotonic_ns()
        heap = self._heap
        while heap and (heap[0][2].done or heap[0][0] <= now_ms):
            waiter = heappop(heap)[2]
            if not waiter.done:
                safely(waiter, waiter.expire)
                if self._clock.monotonic_ns() - began_ns >= A_TURN_NS:
                    break
        if heap:
            self._arm(heap[0][0], heap[0][0] - now_ms)

    def close(self) -> None:
        """The broker stops: everybody is answered with what there is."""
        if self._timer is not None:
            self._timer.cancel()
        for _, _, waiter in self._heap:
            if not waiter.done:
                safely(waiter, waiter.expire)
        self._heap.clear()


def safely(waiter: DelayedOperation, act: Callable[[], None]) -> None:
    """What goes wrong with one waiter is that one's: the others must not wait for their time because of it."""
    try:
        act()
    except Exception as error:
        if waiter.done:
            raise
        waiter.fail(error)


class PartitionAnswer(Protocol):
    """One partition's part of a response."""

    error_code: int


class DelayedResponse:
    """A response that is complete once each of its partitions is; a ``slot`` is a partition's part of the response."""

    __slots__ = ("_open", "_purgatory", "_response", "answer", "done")

    def __init__(self, purgatory: DelayedOperationPurgatory, response: Message) -> None:
        self._purgatory = purgatory
        self._response = response
        self._open: dict[int, PartitionAnswer] = {}
        self.done = False
        self.answer: asyncio.Future[Message | None] = asyncio.get_running_loop().create_future()

    @property
    def kind(self) -> str:
        """The request that is answered."""
        return type(self._response).__name__.removesuffix("Response")

    def expect(self, slot: PartitionAnswer) -> None:
        """The response waits for this partition too."""
        self._open[id(slot)] = slot

    def complete(self, slot: PartitionAnswer, code: Code) -> None:
        """This partition's outcome is known."""
        if self._open.pop(id(slot), None) is None:
            return
        slot.error_code = code
        if not self._open:
            self._finish()

    def try_complete(self) -> None:
        """Nothing to look at: outcomes are brought to it."""

    def expire(self) -> None:
        """What has not come in time has timed out; it may still come about."""
        for slot in self._open.values():
            slot.error_code = Code.REQUEST_TIMED_OUT
        self._finish()

    def abandon(self) -> None:
        """What comes about is told to nobody."""
        self._end()
        self.answer.cancel()

    def fail(self, error: Exception) -> None:
        """What should have been answered is not known."""
        self._end()
        if not self.answer.done():
            self.answer.set_exception(error)

    def _finish(self) -> None:
        self._end()
        if not self.answer.done():
            self.answer.set_result(self._response)

    def _end(self) -> None:
        self.done = True
        self._open.clear()  # what comes about later changes nothing in a response that is on its way
        self._purgatory.left()
