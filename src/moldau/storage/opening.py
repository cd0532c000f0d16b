"""The file of a new segment: made by a worker, while the log is appended to, and keeps the new records in memory.

A log that rolls has its new segment at once, and a new one takes its first batch at once. Until the segment's file is
there nobody is told that the records in it are kept (``LogState.settled_end``), as nobody is of records that wait for a
flush; a follower does not fetch on. So a crash before, or a file that cannot be made, costs nothing that was
acknowledged, and is found as a log that has not rolled, or has taken nothing. Where there is no worker (tools, the
metadata log) the log makes the file itself. Read next: ``log.py`` (who rolls),
``moldau.broker.replicas.awaited_flushes`` (who has the file made).
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import TYPE_CHECKING

from moldau.storage.errors import DiskFull, LogError
from moldau.storage.folder import TOO_MANY_OPEN
from moldau.storage.segment_file import UNBOUNDED

if TYPE_CHECKING:
    from moldau.ports import File
    from moldau.storage.folder import LogDir
    from moldau.storage.log_state import LogState
    from moldau.storage.segment import Segment

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
UNWRITTEN_MAX = 32 << 20
"""So many bytes of one directory's logs may wait in memory for their files, first batches of new ones too. Beyond that
leaders take nothing for them from clients, who ask again."""


class MemoryFile:
    """What stands for a segment's file until it is there: a ``moldau.ports.File`` in memory."""

    __slots__ = ("_dir", "data", "kept")

    def __init__(self, dir: LogDir) -> None:
        self._dir = dir
        self.data = bytearray()
        self.kept = 0
        """So much of it has not changed since it was taken."""

    def taken(self) -> bytes:
        """All of it, on any thread."""
        self.kept = UNBOUNDED  # first: what the loop cuts from here on is noticed
        return bytes(self.data)

    def pread(self, size: int, offset: int) -> bytes:
        return bytes(self.data[offset : offset + size])

    def slice(self, size: int, offset: int) -> bytes:
        return self.pread(size, offset)

    def is_recent(self, offset: int) -> bool:
        return True

    def is_cached(self, size: int, offset: int) -> bool:
        return True

    def pwrite(self, buffers: Sequence[bytes | bytearray | memoryview], offset: int) -> int:
        self.truncate(offset)
        before = len(self.data)
        for one in buffers:
            self.data += one
        self._dir.unwritten += len(self.data) - before
        return len(self.data) - before

    def size(self) -> int:
        return len(self.data)

    def truncate(self, size: int) -> None:
        if size < len(self.data):
            self._dir.unwritten -= len(self.data) - size
            del self.data[size:]
            self.kept = min(self.kept, size)  # after that: what is taken in between has nothing of what was cut

    def keep_slices(self, size: int) -> None:
        """Nothing of it is ever lent. What is cut must not be written to the file, which may be made after its cut."""
        self.truncate(size)

    def sync(self) -> None:
        raise AssertionError("a flush reaches no further than the files that are there")

    def close(self) -> None:
        self.truncate(0)


class Opening:
    """The file of the ``segment`` that a roll or a first batch has begun, in a form that a worker thread can run; an
    error is kept.
    """

    __slots__ = ("_file", "_has_room", "_log", "_memory", "_written", "error", "segment")

    def __init__(self, log: LogState, segment: Segment) -> None:
        self._log, self.segment = log, segment
        self._memory = segment.file = MemoryFile(log.dir)
        self._file: File | None = None
        self._written = 0
        self.error: OSError | None = None
        self._has_room = False
        """Other files were closed for it, before it is run once more."""

    def run(self) -> None:
        """Make the file, and write what came so far; again, if that failed before.

        Under the folder's lock: a truncation that takes the segment away finds its file, or none is made after it.
        """
        folder = self.segment.folder
        with folder.lock:
            if self._file is not None or self.segment.gone:
                return
            try:
                folder.demand_own()
                file = folder.disk.open(self.segment.path(), create=True)
                try:
                    if data := self._memory.taken():
                        file.pwrite((data,), 0)
                except OSError:
                    file.close()
                    raise
                self._file, self._written, self.error = file, len(data), None
            except OSError as error:
                self.error = error

    def end(self) -> None:
        """It has run, on the loop: the segment is in its file, with what came meanwhile. LogError when it cannot be.

        Where this process may open no more files, others are closed, and it is to be run once more.
        """
        log, segment, memory, file = self._log, self.segment, self._memory, self._file
        if log.opening is not self or segment.gone or log.dir.offline:  # cut away, or in use no more
            if file is not None:
                file.close()
                self._file = None
            if log.opening is self and segment.gone:
                log.opening = None  # nobody waits for what cannot come any more
            return
        if self.error is None:
            assert file is not None, "an opening is ended before it was run"
            try:
                if (at := min(self._written, memory.kept)) < len(memory.data):
                    file.pwrite((memory.data[at:],), at)
            except OSError as failed:
                file.close()
                self._file, self.error = None, failed
        if self.error is not None and self.error.errno in TOO_MANY_OPEN and not self._has_room:
            self._has_room = log.dir.files.make_room()
            if self._has_room:
                self.error = None
                return
        self._has_room = False
        if self.error is not None:
            raise self._failed(self.error) from self.error
        segment.file, log.opening, self._file = file, None, None
        memory.close()
        log.dir.files.opened(segment)
        segment.folder.names.touch()

    def _failed(self, error: OSError) -> LogError:
        log = self._log
        if error.errno in NO_SPACE:
            return DiskFull(f"no space for {log.partition} in {log.dir.path}: {error}")
        return log.dir.judge(error, self.segment.path())


def finish(log: LogState) -> None:
    """Make the file here and now, or wait for whoever is making it. LogError."""
    for _ in range(2):
        if (opening := log.opening) is not None:
            opening.run()
            opening.end()
