"""What SIGINT, SIGTERM and SIGHUP do to a command that has something to finish: they end it where it waits, not in
between.

A signal that comes right after another (``timeout`` sends each twice, Ctrl-C is pressed twice) adds nothing to it; one
that comes later is of somebody who has waited for the end, and ends what is being finished, too.
Read next: whole_records.py.
"""

from __future__ import annotations

import atexit
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto

AGAIN_S = 3.0
"""How long after a signal another one is taken for the same."""


class Terminated(KeyboardInterrupt):
    """The process was told to end (SIGTERM): a command that goes on until then ends as after Ctrl-C."""


class HungUp(Terminated):
    """The terminal or the session of the process was closed (SIGHUP)."""


RAISED_FOR: dict[int, type[KeyboardInterrupt]] = {
    signal.SIGINT: KeyboardInterrupt,
    signal.SIGTERM: Terminated,
    signal.SIGHUP: HungUp,
}
"""What each signal is raised as."""


class Raised(Enum):
    """When a signal is raised."""

    AT_ONCE = auto()
    WHEN_REPEATED = auto()
    NOT = auto()


class Signals:
    """What signals do. ``asked`` is what the first that came is raised as."""

    def __init__(self, raised: Raised = Raised.AT_ONCE) -> None:
        self.asked: type[KeyboardInterrupt] | None = None
        self._came_again = False
        self._raised = raised
        self._came_at = 0.0

    @contextmanager
    def raised(self, when: Raised) -> Iterator[None]:
        """Within, signals are raised then: also one that came before and was not raised, at the beginning or the end
        of that."""
        before, self._raised = self._raised, when
        try:
            self._raise()
            yield
        finally:
            self._raised = before
        self._raise()

    def came(self, number: int, _: object = None) -> None:
        """A signal has come."""
        if self.asked is None:
            self._came_at = time.monotonic()
            self.asked = RAISED_FOR[number]
        elif time.monotonic() - self._came_at < AGAIN_S:
            return
        else:
            self._came_at = time.monotonic()
            self._came_again = True
        self._raise()

    def _raise(self) -> None:
        if self.asked is None or self._raised is Raised.NOT:
            return
        if self._raised is Raised.AT_ONCE or self._came_again:
            self._came_again = False  # what is still to be finished may be
            raise self.asked


@contextmanager
def caught_signals(raised: Raised = Raised.AT_ONCE) -> Iterator[Signals]:
    """Within, signals do what the Signals say, which raise them then. Only the main thread of a process can have it so.
    One that the process ignores since it was started (SIGINT in the background, SIGHUP under nohup) stays ignored.

    Where one has come it stays so after that: the command is at its end, and the same signal sent twice, the second
    time a moment late, would end the process by a signal although all was done and said."""
    signals = Signals(raised)
    numbers = [number for number in RAISED_FOR if signal.getsignal(number) is not signal.SIG_IGN]
    before = {}
    try:
        for number in numbers:
            before[number] = signal.signal(number, signals.came)
        yield signals
    finally:
        if signals.asked is None:
            for number, handler in before.items():
                signal.signal(number, handler)
        else:
            atexit.register(_ignore, numbers)


def _ignore(numbers: list[int]) -> None:
    """Python gives signals back their default while it ends, and one of them would end the process then."""
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)
