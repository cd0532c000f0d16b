"""An event loop on virtual time: when nothing is ready it jumps to the next timer. No selector, no threads.

Every callback belongs to an ``Owner`` (one life of one node), found through its context. Between owners the order is
drawn; within one it stays first in, first out, which asyncio promises and a process may count on. The callbacks of a
dead owner never run, those of a paused one wait. Read next: ports.py.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import random
from collections import deque
from collections.abc import Callable
from typing import Any


class Deadlock(Exception):
    """A task waits, and nothing will ever happen again."""


class Escaped(Exception):
    """A call needs a real thread or socket, which the simulator does not have."""


class Owner:
    """One life of a process: callbacks that run in its ``context`` are its own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.paused = False
        self.held: list[asyncio.Handle] = []
        self.context = contextvars.copy_context()
        self.context.run(OWNER.set, self)


OWNER: contextvars.ContextVar[Owner | None] = contextvars.ContextVar("owner", default=None)


class SimLoop(asyncio.BaseEventLoop):
    """``failures`` collects unhandled exceptions of tasks and callbacks, in living owners.

    ``after_turn`` is called between turns: there laws look at what has just happened.
    """

    def __init__(self, rng: random.Random) -> None:
        self._now_s = 0.0
        super().__init__()
        self._rng = rng
        self._ready: deque[asyncio.Handle] = deque()
        self._scheduled: list[asyncio.TimerHandle] = []
        self.steps = 0
        self.failures: list[str] = []
        self.after_turn: Callable[[], object] | None = None
        self.set_exception_handler(self._note_failure)

    def time(self) -> float:
        return self._now_s

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        raise Escaped(f"a thread for {func!r}")

    async def create_connection(self, *_: Any, **__: Any) -> Any:
        raise Escaped("a real connection")

    async def create_server(self, *_: Any, **__: Any) -> Any:
        raise Escaped("a real server socket")

    def _write_to_self(self) -> None:
        raise Escaped("a call from another thread")

    def resume(self, owner: Owner) -> None:
        """Let a paused owner go on with what has waited."""
        owner.paused = False
        held, owner.held = owner.held, []
        self._ready.extend(held)

    def _check_closed(self) -> None:
        """Objects collected after the end of a run may still schedule a callback: it never runs."""

    def _note_failure(self, _: Any, context: dict[str, Any]) -> None:
        owner = OWNER.get()
        message = context.get("message", "")
        if (owner is None or owner.alive) and "was destroyed but it is pending" not in message:
            self.failures.append(f"{message}: {context.get('exception')!r}")

    def _run_once(self) -> None:
        timers = self._scheduled
        while timers and timers[0]._cancelled:
            self._drop_timer()
        if not self._ready:
            if not timers:
                if self._stopping:  # type: ignore[attr-defined]
                    return
                raise Deadlock(f"nothing is left to happen at {self._now_s:.3f} s")
            self._now_s = max(self._now_s, timers[0].when())
        while timers and timers[0].when() <= self._now_s:
            self._ready.append(self._drop_timer())
        for handle in self._drawn_order():
            self._run(handle)
        if self.after_turn is not None:
            self.after_turn()

    def _drop_timer(self) -> asyncio.TimerHandle:
        handle = heapq.heappop(self._scheduled)
        if handle._cancelled:
            self._timer_cancelled_count: int = max(self._timer_cancelled_count - 1, 0)
        handle._scheduled = False  # type: ignore[attr-defined]
        return handle

    def _drawn_order(self) -> list[asyncio.Handle]:
        """What is ready, the owners' queues merged in an order that the rng draws."""
        if len(self._ready) == 1:  # nine times in ten
            return [self._ready.popleft()]
        queues: dict[Owner | None, deque[asyncio.Handle]] = {}
        for handle in self._ready:
            queues.setdefault(handle._context.get(OWNER), deque()).append(handle)  # type: ignore[attr-defined]
        self._ready.clear()
        if len(queues) == 1:
            return list(next(iter(queues.values())))
        order = []
        waiting = list(queues.values())
        while waiting:
            at = self._rng.randrange(len(waiting))
            order.append(waiting[at].popleft())
            if not waiting[at]:
                del waiting[at]
        return order

    def _run(self, handle: asyncio.Handle) -> None:
        if handle._cancelled:
            return
        owner = handle._context.get(OWNER)  # type: ignore[attr-defined]
        if owner is not None:
            if not owner.alive:
                return
            if owner.paused:
                owner.held.append(handle)
                return
        self.steps += 1
        handle._run()
