"""The thread that writes log lines to files, and the files: bounded in size and age, numbered when they are full.

The event loop only puts lines into a bounded queue; a slow or full disk costs lines, which are counted and named in the
next one, and never time of the loop. What other log rotators do is noticed: a file that was moved away is made anew.
Which lines go to which file: ``logs.py``.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable

from moldau.model.protocol import Protocol

PENDING_BYTES_MAX = 4 * 2**20
"""Text that may wait for the disk; a line above it is dropped."""
CHUNK_BYTES = 256 * 1024
"""What one write holds at most, so that a file exceeds its size by no more than a line."""


class Sink(Protocol):
    """Where lines go; only the writer's thread uses it."""

    def write(self, data: bytes) -> None:
        """Append whole lines; OSError when they are not taken."""

    def room(self) -> int:
        """How many bytes the next write should hold at most."""

    def reopen(self) -> None: ...

    def close(self) -> None: ...


class Stdout:
    """Standard output, or another descriptor that is open: never closed, renamed or bounded here."""

    def __init__(self, descriptor: int = 1) -> None:
        self._descriptor = descriptor

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def room(self) -> int:
        return CHUNK_BYTES

    def reopen(self) -> None:
        """Nothing: it has no name."""

    def close(self) -> None:
        """Nothing: it is not ours."""


class LogFile:
    """One log file and its older parts, ``name.1`` (the newest) to ``name.N``; only the writer's thread uses it."""

    def __init__(
        self,
        path: str,
        *,
        max_bytes: int,
        max_files: int,
        max_age_s: float | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._max_age_s = max_age_s
        self._now = now
        self._began = 0.0
        self._file: int | None = None
        self._open()

    def write(self, data: bytes) -> None:
        """Append whole lines; OSError when the disk does not take them."""
        if self._is_moved():
            self.reopen()
        if self._file is None:
            self._open()
        assert self._file is not None
        size = os.fstat(self._file).st_size
        if not size:
            self._began = self._now()
        elif size + len(data) > self._max_bytes or self._is_old():
            self._rotate()
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]

    def room(self) -> int:
        """How many bytes the present file still takes; a whole file's when it is full and the next write begins one."""
        size = os.fstat(self._file).st_size if self._file is not None else 0
        return self._max_bytes - size if size < self._max_bytes else self._max_bytes

    def reopen(self) -> None:
        """Close the file and open the one that has its name now."""
        self.close()
        self._open()

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._file = os.open(self.path, flags, 0o644)
        if self._max_age_s is not None:
            self._began = first_line_s(self.path) or self._now()

    def _is_old(self) -> bool:
        return self._max_age_s is not None and self._now() - self._began >= self._max_age_s

    def _is_moved(self) -> bool:
        if self._file is None:
            return False
        try:
            here = os.stat(self.path)
        except FileNotFoundError:
            return True
        mine = os.fstat(self._file)
        return (here.st_dev, here.st_ino) != (mine.st_dev, mine.st_ino)

    def _rotate(self) -> None:
        """``name`` becomes ``name.1``, ``name.1`` becomes ``name.2`` and so on; the oldest is removed."""
        last = self._max_files - 1
        self._began = self._now()
        if last < 1:
            assert self._file is not None
            os.ftruncate(self._file, 0)
            return
        for number in range(last - 1, 0, -1):
            with contextlib.suppress(FileNotFoundError):
                os.replace(f"{self.path}.{number}", f"{self.path}.{number + 1}")
        os.replace(self.path, f"{self.path}.1")
        self.reopen()


def first_line_s(path: str) -> float | None:
    """When the first line of a log was written, in seconds since 1970, as it says itself; None when it says nothing. A
    file's age outlives the process that began it, and no file system tells when a file was made to everybody."""
    with open(path, "rb") as file:
        begin = file.read(32).decode("ascii", "replace")
    if found := re.match(r'\{"time_ms":(\d+)', begin):
        return int(found[1]) / 1000
    if found := re.match(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),", begin):
        with contextlib.suppress(ValueError, OverflowError):
            return time.mktime(time.strptime(found[1], "%Y-%m-%d %H:%M:%S"))
    return None


class LogWriter:
    """A queue of lines and the thread that writes them. All methods may be called from any thread."""

    def __init__(self, *, dropped: Callable[[int], str], pending_bytes_max: int = PENDING_BYTES_MAX) -> None:
        """``dropped``: the line that says how many lines were dropped before it."""
        self._dropped_line = dropped
        self._pending_bytes_max = pending_bytes_max
        self._files: list[Sink] = []
        self._lines: deque[tuple[Sink, bytes]] = deque()
        self._pending_bytes = 0
        self._dropped: dict[int, int] = {}
        self._later: list[tuple[float, Callable[[], object]]] = []
        self._reopen = False
        self._stopped = False
        self._busy = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
        self._thread.start()

    def open(self, path: str, *, max_bytes: int, max_files: int, max_age_s: float | None = None) -> LogFile:
        """Open a file for ``put``; OSError when it cannot be."""
        file = LogFile(path, max_bytes=max_bytes, max_files=max_files, max_age_s=max_age_s)
        self._files.append(file)
        return file

    def put(self, file: Sink, line: str, *, must: bool = False) -> None:
        """Have a line (or several, already joined) written; dropped and counted when too much waits, unless it must."""
        data = line.encode("utf-8", "backslashreplace") + b"\n"
        with self._changed:
            if self._stopped:
                return
            if self._pending_bytes + len(data) > self._pending_bytes_max and not must:
                self._count_dropped(file, line.count("\n") + 1)
                return
            self._pending_bytes += len(data)
            self._lines.append((file, data))
            self._changed.notify_all()

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> None:
        """Call back on the writer's thread, after so many seconds."""
        with self._changed:
            self._later.append((time.monotonic() + delay_s, callback))
            self._changed.notify_all()

    def reopen(self) -> None:
        """Have every file closed and opened again by its name, after the lines that wait."""
        with self._changed:
            self._reopen = True
            self._changed.notify_all()

    def drain(self, timeout_s: float) -> bool:
        """Wait until what was put is written; whether it was in time."""
        if threading.current_thread() is self._thread:
            return False
        with self._changed:
            return self._changed.wait_for(lambda: not self._lines and not self._busy and not self._reopen, timeout_s)

    def stop(self, timeout_s: float) -> None:
        """Write what waits, within the time; what is put afterwards is dropped."""
        self.drain(timeout_s)
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._thread.join(timeout_s)

    # ---- the thread

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._has_work():
                    self._changed.wait(self._until_next())  # looked at anew: what comes may be due earlier
                lines, self._lines = self._lines, deque()
                reopen = self._reopen
                now = time.monotonic()
                due = [call for at, call in self._later if at <= now]
                self._later = [one for one in self._later if one[0] > now]
                self._busy = bool(lines) or reopen
                self._pending_bytes = 0
                if self._stopped and not lines:
                    break
            self._write(lines)
            if reopen:
                self._reopen_all()
            for callback in due:
                callback()
            with self._changed:
                self._busy = False
                self._reopen = self._reopen and not reopen
                self._changed.notify_all()
        for file in self._files:
            file.close()

    def _has_work(self) -> bool:
        return bool(self._lines) or self._stopped or self._reopen or self._until_next() == 0

    def _until_next(self) -> float | None:
        return max(min(at for at, _ in self._later) - time.monotonic(), 0) if self._later else None

    def _write(self, lines: deque[tuple[Sink, bytes]]) -> None:
        """Join neighbours of one file, up to what one write should hold and the file takes."""
        while lines:
            file, data = lines.popleft()
            parts, size, missed = [data], len(data), 0
            try:
                room = min(CHUNK_BYTES, file.room())
                while lines and lines[0][0] is file and size + len(lines[0][1]) <= room:
                    parts.append(lines.popleft()[1])
                    size += len(parts[-1])
                with self._changed:  # a line dropped meanwhile counts once: for this notice, or for the next one
                    missed = self._dropped.pop(id(file), 0)
                notice = f"{self._dropped_line(missed)}\n".encode() if missed else b""
                file.write(notice + b"".join(parts))
            except OSError:
                with self._changed:
                    self._count_dropped(file, missed + sum(part.count(b"\n") for part in parts))

    def _reopen_all(self) -> None:
        for file in self._files:
            with contextlib.suppress(OSError):
                file.reopen()

    def _count_dropped(self, file: Sink, lines: int) -> None:
        self._dropped[id(file)] = self._dropped.get(id(file), 0) + lines
