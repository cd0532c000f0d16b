"""Runs a pipeline at the times of a schedule: one run at a time; times that came meanwhile are told, not made up for.

What is read is not lost by that: the next run takes all that is there. Read next: schedule.py, running.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from moldau.model.counted import counted
from moldau.model.protocol import Protocol
from moldau.pipeline.reading import PipelineError
from moldau.pipeline.running import Ended
from moldau.pipeline.schedule import RunTimes

_LONGEST_WAIT_S = 60.0
"""A wait is cut into such pieces, so that a clock that was set, or a machine that slept, is noticed."""
_SET_BACK = timedelta(hours=1)
"""A clock that was set back by more counts anew, as cron has it; by less, times that were are not run again."""


class OneRun(Protocol):
    """One run that ends when all is written that was there (``Runner`` with ``once``)."""

    def run(self) -> Ended: ...

    def stop(self) -> None: ...


class Ticks:
    """Runs at each time of the schedule, until it is stopped. ``begin`` makes the run; where it raises PipelineError or
    OSError, the file is wrong now, and that time is left out. ``say`` hears in words."""

    def __init__(
        self,
        schedule: RunTimes,
        begin: Callable[[], OneRun],
        *,
        say: Callable[[str], None],
        now: Callable[[], datetime] = lambda: datetime.now(UTC).replace(tzinfo=None),
        wait: Callable[[float], object] | None = None,
    ) -> None:
        self._schedule, self._begin, self._say, self._now = schedule, begin, say, now
        self._stop = threading.Event()
        self._wait = self._stop.wait if wait is None else wait
        self._running: OneRun | None = None

    def stop(self) -> None:
        """End after the step that is under way; for a signal handler or another thread."""
        self._stop.set()
        if self._running is not None:
            self._running.stop()

    def run(self) -> Ended:
        """Run at each time; STOPPED when it was asked to. What a run raises ends this one too."""
        newest = self._now()
        due = self._schedule.after(newest)
        while not self._stop.is_set():
            now = self._now()
            if now < newest - _SET_BACK:
                self._say(f"the clock was set back from {newest:%Y-%m-%d %H:%M} to {now:%Y-%m-%d %H:%M}")
                newest, due = now, self._schedule.after(now)
            newest = max(newest, now)
            left = (due - now).total_seconds()
            if left > 0:
                self._wait(min(left, _LONGEST_WAIT_S))
                continue
            begun = self._now()
            try:
                self._running = self._begin()
            except (PipelineError, OSError) as error:  # it may be half edited
                self._say(f"the file cannot be taken, and is read again at the next time:\n{error}")
                due = self._schedule.after(self._now())
                continue
            try:
                if not self._stop.is_set() and self._running.run() is Ended.PAUSED:
                    self._say("paused: a record cannot be taken; it is tried again at the next time")
            finally:
                self._running = None
            ended = self._now()
            missed = self._schedule.missed(due, ended)
            due = self._schedule.after(ended)
            if missed:
                were = "was" if missed == 1 else "were"
                times = f"{counted(missed, 'time')} of {self._schedule.text!r} {were} missed"
                self._say(f"the run took {ended - begun}: {times}")
        return Ended.STOPPED
