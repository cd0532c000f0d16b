"""Waiting for what other processes do: looks at it with growing pauses, until time is up.

No request of Kafka's tells that a broker has gone, that a replica has caught up or that a move has ended, so commands
look again and again; this is the one place where they pause. Used by all commands that wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

FIRST_S, LONGEST_S, GROWTH = 0.05, 1.0, 1.5


class Looks:
    """An iterator that pauses between its turns, and ends when time is up; there is one turn at least.

    The first look is at once, and the last one when time is up, so that what came about meanwhile is seen.

    Args:
        timeout_s: how long to look; without end when None.
        first_s, longest_s: the first pause, which grows up to the longest.
        clock, sleep: seconds as they pass; tests have their own.
    """

    def __init__(
        self,
        timeout_s: float | None,
        *,
        first_s: float = FIRST_S,
        longest_s: float = LONGEST_S,
        clock: Callable[[], float] | None = None,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        self._clock, self._sleep = clock or time.monotonic, sleep or time.sleep
        self._deadline = None if timeout_s is None else self._clock() + timeout_s
        self._first_s, self._longest_s = first_s, longest_s
        self._pause_s = 0.0

    def __iter__(self) -> Iterator[None]:
        return self

    def __next__(self) -> None:
        if not self._pause_s:
            self._pause_s = self._first_s
            return
        left = self._longest_s if self._deadline is None else self._deadline - self._clock()
        if left <= 0:
            raise StopIteration
        self._sleep(min(self._pause_s, left))
        self._pause_s = min(self._pause_s * GROWTH, self._longest_s)

    @property
    def left_s(self) -> float | None:
        """How much time is left, 0 at least; None when there is no end."""
        return None if self._deadline is None else max(self._deadline - self._clock(), 0.0)

    def soon(self) -> None:
        """Something has changed, and more may: the next pause is a short one again."""
        self._pause_s = self._first_s


def came_about(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Whether a condition holds in time."""
    return any(condition() for _ in Looks(timeout_s))
