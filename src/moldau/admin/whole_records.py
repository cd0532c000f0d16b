"""Writes records to standard output so that it is known of each whether it has left the process whole.

Read next: classic/console_consumer.py, consume.py.
"""

from __future__ import annotations

import os
import select
import stat
import time
from bisect import bisect_right
from collections.abc import Callable
from typing import Generic, TextIO, TypeVar

from moldau.admin.signals import Raised, Signals

ENOUGH = 32 << 10
"""How large a portion is to be, in bytes: a record that makes it larger is the last in it."""
MOST = 4 << 10
"""How many records a portion is to have, if that comes first: they may be shown as nothing."""
WAIT_MS = 1_000
"""How often a group hears of a command whose output takes nothing."""

PlaceT = TypeVar("PlaceT")


class Portion(Generic[PlaceT]):
    """Records to be written, each with where it comes from; it is written once its last byte was taken."""

    def __init__(self) -> None:
        self.data = bytearray()
        self._places: list[PlaceT] = []
        self._ends: list[int] = []
        """Where in the data each record ends."""
        self._at = 0
        self._told_at = 0.0
        """When ``meanwhile`` was called."""

    def add(self, place: PlaceT, shown: bytes) -> bool:
        """Add a record, which may be shown as nothing; whether the portion is large enough to be written."""
        self.data += shown
        size = len(self.data)
        self._places.append(place)
        self._ends.append(size)
        return size >= ENOUGH or len(self._places) >= MOST

    @property
    def written(self) -> list[PlaceT]:
        """Where the records come from that were written, up to the first that was not."""
        return self._places[: bisect_right(self._ends, self._at)]

    def write(self, stream: TextIO, signals: Signals, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Write it all, calling ``meanwhile`` now and then.

        KeyboardInterrupt when a signal comes, once the record that was begun is at its end; and in the middle of one
        when a signal comes again, as somebody may have stopped reading for ever. OSError when nobody reads any more.
        """
        stream.flush()
        try:
            out = stream.fileno()
        except (OSError, ValueError):  # a stream in memory was put in its place
            _write_at_once(stream, bytes(self.data))
            self._at = len(self.data)
            return
        room = select.poll()
        room.register(out, select.POLLOUT)
        with signals.raised(Raised.AT_ONCE):
            self._tell(meanwhile)
        with signals.raised(Raised.NOT), memoryview(self.data) as data:
            step = select.PIPE_BUF if _may_block(out) else max(len(data), 1)
            while self._at < len(data):
                if signals.asked or self._is_to_tell() or not room.poll(0):
                    self._wait(room, signals, meanwhile)
                until = self._ends[bisect_right(self._ends, self._at)] if signals.asked else len(data)
                # Where there is room, so few bytes are taken without waiting: waiting is in _wait alone, where a signal
                # may end it, and what has left is known.
                try:
                    self._at += os.write(out, data[self._at : min(until, self._at + step)])
                except BlockingIOError:  # whoever shares the pipe has switched waiting off, and was faster
                    continue

    def _wait(self, room: select.poll, signals: Signals, meanwhile: Callable[[], object]) -> None:
        """Return when some bytes would be taken."""
        done = bisect_right(self._ends, self._at)
        is_between_records = self._at == (self._ends[done - 1] if done else 0)
        with signals.raised(Raised.AT_ONCE if is_between_records else Raised.WHEN_REPEATED):
            while True:
                if self._is_to_tell():  # also where there is room again and again: a slow reader takes a page at a time
                    self._tell(meanwhile)
                if room.poll(WAIT_MS):
                    return

    def _is_to_tell(self) -> bool:
        return time.monotonic() - self._told_at >= WAIT_MS / 1000

    def _tell(self, meanwhile: Callable[[], object]) -> None:
        self._told_at = time.monotonic()
        meanwhile()


def _may_block(out: int) -> bool:
    mode = os.fstat(out).st_mode
    return not (stat.S_ISREG(mode) or (stat.S_ISCHR(mode) and not os.isatty(out)))


def _write_at_once(stream: TextIO, data: bytes) -> None:
    binary = getattr(stream, "buffer", None)
    if binary is None:
        stream.write(data.decode("utf-8", "replace"))
        return
    binary.write(data)
    binary.flush()
