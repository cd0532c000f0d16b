"""Reads of a segment that look at every header and checksum, for bytes that nobody has looked at, or no longer trusts.

What this process wrote or recovered was checked, and is sent unread from then on. It may rot all the same: a reader met
the same broken batch for ever, while other replicas had it whole. Who cannot use what it was sent asks for it anew, so
what is read twice in a row is checked again. Who asks: ``segment.py``.
"""

from __future__ import annotations

from moldau.model import Code
from moldau.ports.disk import File, FileSlice
from moldau.storage.errors import CorruptLog
from moldau.storage.segment_file import SegmentFile
from moldau.wire.batch import HEADER_SIZE, LENGTH_OVERHEAD, check, read_header

COLD_BYTES = 1 << 20
"""The most that one read returns of bytes whose checksums have to be looked at."""
NAMED_FROM = 64 << 10
"""Less is given as it was read."""
REPEATED_MAX = 16
"""So often is a batch read again that was written a moment ago, and that many read, before it is checked."""


def is_doubted(segment: SegmentFile, position: int) -> bool:
    """Whether a read that begins where the one before it did is to be checked."""
    if position >= segment.size:
        return False
    segment.lent_times += 1
    file = segment.file
    is_tail = segment.is_last and file is not None and file.is_recent(position)
    if is_tail and segment.lent_times < REPEATED_MAX:
        return False
    segment.lent_times = 0
    return True


def read(
    segment: SegmentFile, position: int, cap: int, up_to: int | None, *, at_least_one: bool, again: bool
) -> bytes | FileSlice:
    """As ``Segment.slice``, with every header looked at, and every checksum once (or ``again``), no index trusted.

    Much is given by its name all the same: a client that reads nothing would hold it in memory, and a thousand such
    clients a gigabyte."""
    file = segment.open()
    end = min(cap, segment.size, position + COLD_BYTES)
    data = file.pread(max(end - position, HEADER_SIZE), position)
    at, next_offset = 0, -1
    while (not at or position + at < end) and at + HEADER_SIZE <= len(data):
        header = read_header(data, at)
        reason = segment.unsound(header, position + at, segment.size, next_offset)
        if reason:
            raise CorruptLog(segment.path(), position + at, reason)
        if up_to is not None and header.base_offset >= up_to:
            break
        after = at + header.length + LENGTH_OVERHEAD
        if position + after > end:
            if at or not at_least_one:
                break
            end = position + after
            data = file.pread(after, position)
        known = not again and segment.cold_start <= position + at and position + after <= segment.cold_end
        if not known and check(data, at, header) is not Code.NONE:
            raise CorruptLog(segment.path(), position + at, "the checksum of the batch is wrong")
        at, next_offset = after, header.next_offset
    if not at:
        if at_least_one and up_to is None:
            raise CorruptLog(segment.path(), position, "the file is shorter than it was")
        return b""
    if position < segment.checked_from:
        _checked(segment, position, position + at)
    segment.remember(next_offset, position + at)
    if at >= NAMED_FROM:
        return _named(segment, file, at, position)
    return data if at == len(data) else data[:at]


def _named(segment: SegmentFile, file: File, size: int, position: int) -> bytes | FileSlice:
    """Bytes that were looked at, for a transport to send unread."""
    found = file.slice(size, position)
    if len(found) != size:
        raise CorruptLog(segment.path(), position, "the file is shorter than it was")
    if not isinstance(found, bytes):
        found.was_read = True
    return found


def _checked(segment: SegmentFile, start: int, end: int) -> None:
    """The checksums between these positions are good: grow the known range if it touches, else begin another."""
    if start > segment.cold_end or end < segment.cold_start:
        segment.cold_start, segment.cold_end = start, end
    else:
        segment.cold_start, segment.cold_end = min(segment.cold_start, start), max(segment.cold_end, end)
