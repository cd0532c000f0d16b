"""The two sparse indexes of a segment: offset to position, timestamp to offset. Arrays in memory, Kafka's bytes on
disk.

``.index`` entries are 8 bytes (relative offset, position), ``.timeindex`` entries 12 (timestamp, relative offset),
big-endian. An offset entry names the *last* offset of the batch at its position. Entries are appended without system
calls and saved when the segment is flushed, rolled or closed; whatever was not saved can be rebuilt from the log, so
an index is never a truth.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from operator import lt

from moldau.storage.errors import BrokenFile

ENTRY_BYTES = 8
TIME_ENTRY_BYTES = 12
NO_TIMESTAMP = -1
FOLLOWING_MAX = 4096
"""So many batches may follow an index entry; more of them, and entries are missing in the file."""

_SWAP = sys.byteorder == "little"
_HIGH = 1 if _SWAP else 0  # which half of an int64 in memory is the high one
_CHECKED = 4096


class Index:
    """Both indexes of one segment; offsets are relative to its base. ``saved``/``times_saved`` entries are on disk."""

    __slots__ = (
        "offsets", "positions", "saved", "shrunk", "taken", "time_offsets", "times", "times_saved", "written",
    )  # fmt: skip

    def __init__(self) -> None:
        self.offsets: array[int] = array("i")
        self.positions: array[int] = array("i")
        self.times: array[int] = array("q")
        self.time_offsets: array[int] = array("i")
        self.saved = 0
        self.times_saved = 0
        self.shrunk = False
        """The files on disk may hold more (or other) entries than were saved: they must be cut before appending."""
        self.taken = self.written = 0
        """How often it was taken to be written (``index_saves.py``), and the last of those that was."""

    @property
    def is_dirty(self) -> bool:
        """Whether the files lack something, or have too much."""
        return self.shrunk or self.saved < len(self.offsets) or self.times_saved < len(self.times)

    def append(self, offset: int, position: int) -> None:
        """The batch at ``position`` ends with relative ``offset``."""
        self.offsets.append(offset)
        self.positions.append(position)

    def append_time(self, timestamp: int, offset: int) -> None:
        """No record up to relative ``offset`` is newer than ``timestamp``; kept only if it says something new."""
        times = self.times
        if timestamp >= 0 and (not times or timestamp > times[-1]):
            times.append(timestamp)
            self.time_offsets.append(offset)

    def position_before(self, offset: int) -> int:
        """A batch start at or before the batch that holds relative ``offset``."""
        at = bisect_right(self.offsets, offset)
        return self.positions[at - 1] if at else 0

    def offset_before(self, timestamp: int) -> int:
        """A relative offset before which every record is older than ``timestamp`` (or 0)."""
        at = bisect_right(self.times, timestamp)
        return self.time_offsets[at - 1] if at else 0

    def entry_under(self, position: int, offset: int) -> int:
        """The largest indexed batch start <= ``position`` whose batch ends before relative ``offset``; -1 for none."""
        at = min(bisect_right(self.positions, position), bisect_left(self.offsets, offset))
        return self.positions[at - 1] if at else -1

    def truncate(self, offset: int) -> None:
        """Forget entries at or above relative ``offset``."""
        keep = bisect_left(self.offsets, offset)
        del self.offsets[keep:], self.positions[keep:]
        keep_times = bisect_left(self.time_offsets, offset)
        del self.times[keep_times:], self.time_offsets[keep_times:]
        if keep < self.saved or keep_times < self.times_saved:
            self.saved = min(self.saved, keep)
            self.times_saved = min(self.times_saved, keep_times)
            self.shrunk = True

    def clear(self) -> None:
        """Forget everything, to be rebuilt from the log."""
        for column in (self.offsets, self.positions, self.times, self.time_offsets):
            del column[:]
        self.saved = self.times_saved = 0
        self.shrunk = True

    def offset_bytes(self, start: int = 0) -> bytes:
        """``.index`` bytes of the entries from ``start`` on."""
        mixed = array("i", bytes(ENTRY_BYTES * (len(self.offsets) - start)))
        mixed[0::2] = self.offsets[start:]
        mixed[1::2] = self.positions[start:]
        if _SWAP:
            mixed.byteswap()
        return mixed.tobytes()

    def time_bytes(self, start: int = 0) -> bytes:
        """``.timeindex`` bytes of the entries from ``start`` on."""
        count = len(self.times) - start
        halves = array("i", self.times[start:].tobytes())
        mixed = array("i", bytes(TIME_ENTRY_BYTES * count))
        mixed[0::3], mixed[1::3], mixed[2::3] = halves[_HIGH::2], halves[1 - _HIGH :: 2], self.time_offsets[start:]
        if _SWAP:
            mixed.byteswap()
        return mixed.tobytes()

    @classmethod
    def parse(cls, offset_data: bytes, time_data: bytes, what: str) -> Index:
        """From the bytes of both files; BrokenFile when they cannot be an index.

        Kafka reserves a whole index file and cuts it at roll: zeros at the end are no entries.
        """
        index = cls()
        if len(offset_data) % ENTRY_BYTES or len(time_data) % TIME_ENTRY_BYTES:
            raise BrokenFile(f"{what}: an index is a whole number of entries")
        mixed = _ints(offset_data, 2)
        index.offsets, index.positions = mixed[0::2], mixed[1::2]
        triples = _ints(time_data, 3)
        halves = array("i", bytes(8 * (len(triples) // 3)))
        halves[_HIGH::2], halves[1 - _HIGH :: 2] = triples[0::3], triples[1::3]
        index.times = array("q", halves.tobytes())
        index.time_offsets = triples[2::3]
        for column, word in ((index.offsets, "offset"), (index.positions, "position"), (index.times, "timestamp")):
            if column and (column[0] < 0 or not _rises(column)):
                raise BrokenFile(f"{what}: a {word} is not larger than the one before it")
        index.saved, index.times_saved = len(index.offsets), len(index.times)
        index.shrunk = len(mixed) * 4 < len(offset_data) or len(triples) * 4 < len(time_data)
        return index


def _ints(data: bytes, width: int) -> array[int]:
    """Big-endian int32 values without the entries of zeros at the end; an entry is ``width`` values."""
    values = array("i", data.rstrip(b"\0") + bytes(-len(data.rstrip(b"\0")) % (4 * width)))
    if _SWAP:
        values.byteswap()
    return values


def _rises(column: array[int]) -> bool:
    """Whether each value is larger than the one before. Of a long column all of the tail (where a crash tears) and a
    sample of the rest: whatever the index says is held against the log when it is used."""
    if len(column) > 2 * _CHECKED:
        step = len(column) // _CHECKED
        return _rises(column[:: step + 1]) and _rises(column[-_CHECKED:])
    return all(map(lt, column, column[1:]))
