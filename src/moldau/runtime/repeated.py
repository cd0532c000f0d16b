"""Warnings that come again and again: after so many from one line of code within a while, the others are counted.

A client that sends a thousand bad requests a second is to cost a line that says so, not the log. Only WARN and ERROR
are counted; what ends a node (FATAL) and what is told once (INFO) always passes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

BURST = 200
WINDOW_S = 10.0
UNLIMITED = {"unlimited": True}
"""``extra`` of a warning of which every single one counts, such as what was found in a log at its recovery."""

Site = tuple[str, int]


class Repeated:
    """What one log file has had of each line of code in the present window. Windows are ended by another thread than
    the one that logs: each call is whole."""

    def __init__(self, now: Callable[[], float] = time.monotonic, *, burst: int = BURST) -> None:
        self._now = now
        self._burst = burst
        self._lock = threading.Lock()
        self._seen: dict[Site, tuple[float, int]] = {}

    def passes(self, record: logging.LogRecord) -> bool:
        """Whether the record is to be written; otherwise it is counted."""
        if not logging.WARNING <= record.levelno < logging.CRITICAL or getattr(record, "unlimited", False):
            return True
        site = (record.pathname, record.lineno)
        now = self._now()
        with self._lock:
            began, count = self._seen.get(site, (now, 0))
            if now - began > WINDOW_S and count <= self._burst:
                began, count = now, 0
            self._seen[site] = (began, count + 1)
        return count < self._burst

    def begins_to_count(self, record: logging.LogRecord) -> bool:
        """Whether the record, which did not pass, is the first of its window that did not."""
        with self._lock:  # its window may have ended since it did not pass
            _, count = self._seen.get((record.pathname, record.lineno), (0.0, 0))
        return count == self._burst + 1

    def end(self, record: logging.LogRecord) -> int:
        """End the window of the record's line of code; how many did not pass in it."""
        with self._lock:
            _, count = self._seen.pop((record.pathname, record.lineno), (0.0, 0))
        return max(count - self._burst, 0)
