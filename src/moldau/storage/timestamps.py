"""Offsets by time: the first record at or after a moment, and the newest record (ListOffsets, KIP-79, KIP-734).

Decides with the time index which batch to look into; that one batch is scanned. Both look-ups pause where the loop may
turn, and the log may change meanwhile: nothing of it is held over a pause but an offset. Read next: ``lookups.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.model.named import NamedTuple
from moldau.model.protocol import Protocol
from moldau.storage.folder import LogDir
from moldau.storage.segment import Segment
from moldau.storage.slow import Pauses, unpacked
from moldau.wire.batch import HEADER_SIZE, BatchHeader, records_of
from moldau.wire.compression import MAX_OUTPUT_BYTES

SEGMENTS_AT_ONCE = 20
"""Segments whose largest timestamp is looked up between two pauses: each may read the ends of its indexes."""
HEADERS_AT_ONCE = 200
RECORDS_AT_ONCE = 500


class TimedOffset(NamedTuple):
    """A record by its time (ms), its offset, and the leader epoch of its batch."""

    timestamp: int
    offset: int
    leader_epoch: int


class Segments(Protocol):
    """What of a log is looked at."""

    dir: LogDir

    @property
    def segments(self) -> Sequence[Segment]: ...

    @property
    def log_start_offset(self) -> int: ...

    def segment_at(self, offset: int) -> int:
        """The number (in ``segments``) of the segment that holds ``offset``."""


def first_since(log: Segments, timestamp: int, *, offset: int | None = None) -> Pauses[TimedOffset | None]:
    """The first record from ``offset`` (default: the log's start) on that is not older than ``timestamp``, or None.

    BatchError when a batch that lies in the log cannot be read; CorruptLog, DirOffline.
    """
    at = log.log_start_offset if offset is None else offset
    looked = 0
    while True:
        at = max(at, log.log_start_offset)
        with log.dir.offline_on_error:
            number = log.segment_at(at)
            segment = log.segments[number]
            found = _candidate(segment, timestamp, at) if segment.largest_timestamp() >= timestamp else None
        looked += 1
        if isinstance(found, int):
            at = found
            yield None
        elif found is None:
            if number + 1 >= len(log.segments):
                return None
            at = log.segments[number + 1].base_offset
            if looked % SEGMENTS_AT_ONCE == 0:
                yield None
        else:
            header, batch = found
            timed = yield from _in_batch(header, batch, timestamp, at)
            if timed is not None:
                return timed
            at = header.next_offset  # its largest timestamp was not told as it is
            yield None


def newest(log: Segments) -> Pauses[TimedOffset | None]:
    """The first of the records with the largest timestamp; None when no record has one."""
    at, best, where = log.log_start_offset, -1, 0
    looked = 0
    while True:
        with log.dir.offline_on_error:
            number = log.segment_at(max(at, log.log_start_offset))
            segment = log.segments[number]
            largest = segment.largest_timestamp()
        if largest > best:
            best, where = largest, segment.base_offset
        if number + 1 >= len(log.segments):
            break
        at = log.segments[number + 1].base_offset
        looked += 1
        if looked % SEGMENTS_AT_ONCE == 0:
            yield None
    return (yield from first_since(log, best, offset=where)) if best >= 0 else None


def _candidate(segment: Segment, timestamp: int, at: int) -> tuple[BatchHeader, bytes] | int | None:
    """The first batch from offset ``at`` on that says it reaches ``timestamp``; None when none of the segment does.

    An offset when so many batches did not that somebody else should have a turn.
    """
    near = segment.offset_before(timestamp)
    for passed, (position, header) in enumerate(segment.walk(segment.locate(max(near, at)))):
        if header.max_timestamp >= timestamp and header.last_offset >= at:
            return header, segment.batch(position, header)
        if passed == HEADERS_AT_ONCE:
            return header.next_offset
    return None


def _in_batch(header: BatchHeader, batch: bytes, timestamp: int, at: int) -> Pauses[TimedOffset | None]:
    packed = memoryview(batch)[HEADER_SIZE:]
    data = yield from unpacked(header.codec, packed, MAX_OUTPUT_BYTES)
    for number, record in enumerate(records_of(header, data)):
        if record.timestamp >= timestamp and record.offset >= at:
            return TimedOffset(record.timestamp, record.offset, header.leader_epoch)
        if number % RECORDS_AT_ONCE == RECORDS_AT_ONCE - 1:
            yield None
    return None
