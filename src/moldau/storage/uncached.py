"""Which bytes of a log a read would wait for the disk for, and bringing them into the page cache on another thread.

A reader at the log's end reads what has just been written. One that lags may find its bytes on the disk only, and the
event loop must not wait for them: they are read beside it first, a megabyte at a time, and then sent from the cache.
Decides nothing about who reads: ``broker/replicas/fetch/cold_reads.py``.
"""

from __future__ import annotations

from moldau.ports import File
from moldau.storage.log import Log
from moldau.storage.segment import Segment

LOAD_BYTES = 1 << 20
"""The most that is brought in for one read, which then reads no more than that."""
_PIECE_BYTES = 1 << 18


class Load:
    """Bytes of a segment to be brought into the cache: made on the loop, run anywhere, released on the loop."""

    __slots__ = ("_file", "_position", "_segment", "_size", "error")

    def __init__(self, segment: Segment, position: int, size: int) -> None:
        self._segment = segment
        self._position, self._size = position, size
        self.error: OSError | None = None
        segment.pinned += 1
        self._file: File = segment.open()

    @property
    def directory(self) -> str:
        """The log directory that is read."""
        return self._segment.folder.dir.path

    def run(self) -> None:
        """Read the bytes, for nobody. What is wrong is found again by whoever reads them next."""
        try:
            for at in range(self._position, self._position + self._size, _PIECE_BYTES):
                self._file.pread(min(_PIECE_BYTES, self._position + self._size - at), at)
        except OSError as error:
            self.error = error

    def release(self) -> None:
        """The run is over: the file may be closed again."""
        segment = self._segment
        segment.pinned -= 1
        if not segment.pinned and segment.file is not self._file:
            self._file.close()  # the segment was dropped meanwhile
        segment.folder.dir.files.trim()


def uncached(log: Log, offset: int, max_bytes: int) -> Load | None:
    """What a read from ``offset`` on would wait for the disk for; None when it is in memory, or nothing is there."""
    active = log.active
    if offset >= active.base_offset:
        segment = active
        position = segment.positions.get(offset)
        if position is not None and segment.file is not None and segment.file.is_recent(position):
            return None
    if not log.log_start_offset <= offset < log.log_end_offset or log.dir.offline:
        return None
    with log.dir.offline_on_error:
        segment = log.segments[log.segment_at(offset)]
        position = segment.locate(offset)
        size = min(max_bytes, LOAD_BYTES, segment.size - position)
        if size <= 0 or segment.open().is_cached(size, position):
            return None
        segment.remember(offset, position)
        return Load(segment, position, size)
