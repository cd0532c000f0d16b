"""Offsets by time: the first record at or after a moment, and the newest record (ListOffsets, KIP-79, KIP-734).

Decides with the time index which batch to look into; that one batch is decoded. Read next: ``index.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.storage.segment import Segment
from moldau.terms.named import NamedTuple
from moldau.wire.batch import records


class TimedOffset(NamedTuple):
    """A record by its time (ms), its offset, and the leader epoch of its batch."""

    timestamp: int
    offset: int
    leader_epoch: int


def first_since(segments: Sequence[Segment], timestamp: int, log_start: int) -> TimedOffset | None:
    """The first record at or above ``log_start`` that is not older than ``timestamp``; None when all are older."""
    for segment in segments:
        if segment.largest_timestamp() < timestamp:
            continue
        near = segment.offset_before(timestamp)
        for position, header in segment.walk(segment.locate(max(near, log_start))):
            if header.max_timestamp < timestamp or header.last_offset < log_start:
                continue
            for record in records(segment.batch(position, header)):
                if record.timestamp >= timestamp and record.offset >= log_start:
                    return TimedOffset(record.timestamp, record.offset, header.leader_epoch)
    return None


def newest(segments: Sequence[Segment], log_start: int) -> TimedOffset | None:
    """The first of the records with the largest timestamp; None when no record has one."""
    best = max(segments, key=Segment.largest_timestamp)  # the first of equals
    timestamp = best.largest_timestamp()
    return first_since((best,), timestamp, log_start) if timestamp >= 0 else None
