"""One segment of a log: appends, cuts and reads of its batches.

Decides what one read returns (whole batches, never a torn or unchecked one). Does not decide offsets, rolling or
retention: ``log.py``. Read next: ``segment_file.py`` for its files, ``recovery.py`` for what a restart does to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from moldau.ports import File
from moldau.ports.disk import FileSlice
from moldau.storage import checked_reads, lookups
from moldau.storage.batch_extent import BatchExtent
from moldau.storage.errors import CorruptLog
from moldau.storage.index import FOLLOWING_MAX
from moldau.storage.names import INDEX
from moldau.storage.segment_file import NO_BOUND, REMEMBERED, SegmentFile
from moldau.wire.batch import LENGTH_OVERHEAD


class Segment(SegmentFile):
    """A segment that is appended to, cut and read."""

    __slots__ = ()

    def largest_timestamp(self) -> int:
        """The largest timestamp of any record, -1 when there is none. CorruptLog when that cannot be told."""
        if self.unread:
            lookups.read_largest_timestamp(self)
        return self.max_timestamp

    def offset_before(self, timestamp: int) -> int:
        """An offset of this segment before which every record in it is older than ``timestamp``."""
        return lookups.offset_before(self, timestamp)

    def append(self, data: bytes | bytearray | memoryview, extents: Sequence[BatchExtent], interval: int) -> None:
        """Write whole batches at the end in one vectored write and account for them. OSError: nothing of it is
        visible.
        """
        position = self.size
        file = self.file
        if file is None:
            file = self.open() if position else self._make()
        self.recent = True
        file.pwrite((data,), position)
        self.size = position + len(data)
        if self.first_timestamp is None and position == 0:
            self.first_timestamp = extents[0].max_timestamp
        base, positions, since = self.base_offset, self.positions, self.bytes_since_entry
        if self.unread:  # older records of this file may be newer than these
            with suppress(CorruptLog):
                self.largest_timestamp()
        for size, base_offset, last_offset, timestamp in extents:
            positions[base_offset] = position
            if timestamp > self.max_timestamp:
                self.max_timestamp, self.max_timestamp_offset = timestamp, last_offset
            if since > interval:
                index = self.index
                index.append(last_offset - base, position)
                index.append_time(self.max_timestamp, self.max_timestamp_offset - base)
                self.entries = len(index.offsets)
                since = 0
            since += size
            position += size
        self.bytes_since_entry = since
        if len(positions) > REMEMBERED:
            self._forget()

    def _make(self) -> File:
        """The open file of an empty segment, made if it was not there; the index files follow with the next save."""
        file = self.open(create=True)
        self.index.shrunk = True
        self.folder.names.touch()
        return file

    def truncate(self, offset: int) -> int:
        """Cut the batch that holds ``offset`` and all after it; the offset where what is left ends. The file itself is
        cut later (``cuts.py``): nothing beyond ``size`` is ever read."""
        position = self.locate(offset)
        self.index.truncate(offset - self.base_offset)
        self.entries = len(self.index.offsets)
        self.index_synced = min(self.index_synced, self.entries)
        if self.file is not None:
            self.file.keep_slices(position)
        self.size = position
        self.positions.clear()
        self.checked_from = min(self.checked_from, position)
        self.cold_end = min(self.cold_end, position)
        self.bytes_since_entry = 0
        if not position:
            self.first_timestamp = None
        self.max_timestamp = self.max_timestamp_offset = -1
        index = self.index
        start = index.positions[-1] if index.positions else 0
        if index.times:
            self.max_timestamp = index.times[-1]
            self.max_timestamp_offset = self.base_offset + index.time_offsets[-1]
        end = self.base_offset
        for _, header in self.walk(start):
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.max_timestamp_offset = header.max_timestamp, header.last_offset
            end = header.next_offset
        return end

    def locate(self, offset: int) -> int:
        """The position of the first batch that ends at or after ``offset``; ``size`` when there is none."""
        position = self.positions.get(offset)
        if position is not None:
            return position
        start = lookups.position_before(self, offset)
        many = FOLLOWING_MAX if self.kept_index is None and not self.damage else self.size
        try:
            return self._search(start, offset, many)
        except CorruptLog:
            if self.damage:
                raise
        self.rebuild_index()  # the index lied, or the log is broken: then this raises
        return self._search(self.index.position_before(offset - self.base_offset), offset, self.size)

    def _search(self, start: int, offset: int, many: int) -> int:
        for number, (position, header) in enumerate(self.walk(start)):
            if header.last_offset >= offset:
                if position == start and start and header.base_offset > offset:
                    raise CorruptLog(self.path(INDEX), 0, f"an entry points beyond offset {offset}")
                return position
            if number > many:
                raise CorruptLog(self.path(INDEX), 0, "entries are missing")
        return self.size

    def slice(self, position: int, max_bytes: int, up_to: int | None, at_least_one: bool) -> bytes | FileSlice:
        """Whole batches from the batch start ``position``: those below ``up_to`` (None: all) that ``max_bytes`` holds.

        With ``at_least_one`` a first batch larger than ``max_bytes`` is returned alone. One read from disk in the
        common cases: the reader is at the tail, or many batches fit.
        """
        cap = position + max_bytes
        again = position == self.lent_from and checked_reads.is_doubted(self, position)
        self.lent_from = position
        if again or position < self.checked_from:
            return checked_reads.read(self, position, cap, up_to, at_least_one=at_least_one, again=again)
        end = self.size if up_to is None else self.positions.get(up_to, -1)
        if end < 0 or end > cap:
            end = lookups.entry_under(self, cap, NO_BOUND if up_to is None else up_to - self.base_offset)
            if end <= position:
                end = self._walk_end(position, cap, up_to, at_least_one)
        if end <= position:
            return b""
        file = self.file
        if file is None:
            file = self.open()
        self.recent = True
        data = file.slice(end - position, position)
        if len(data) != end - position:
            raise CorruptLog(self.path(), position, f"{end - position} bytes are expected and {len(data)} are there")
        return data

    def _walk_end(self, position: int, cap: int, up_to: int | None, at_least_one: bool) -> int:
        """Where the last batch ends that fits; also remembers it, since that is where the reader comes back to."""
        end, next_offset = position, -1
        for at, header in self.walk(position):
            after = at + header.length + LENGTH_OVERHEAD
            if up_to is not None and header.base_offset >= up_to:
                break
            if after > cap and not (at_least_one and at == position):
                break
            end, next_offset = after, header.next_offset
        if next_offset >= 0:
            self.remember(next_offset, end)
        return end
