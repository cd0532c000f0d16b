"""What came of a process, by what Linux tells of each."""

from __future__ import annotations

import contextlib
from pathlib import Path


def children(pid: int) -> list[int]:
    """The processes that any thread of a process has started and that are there, the JVM among them."""
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended meanwhile
            found += map(int, file.read_text().split())
    return found


def descendants(pid: int) -> list[int]:
    """A process and all that came of it."""
    return [pid, *(one for child in children(pid) for one in descendants(child))]


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()
