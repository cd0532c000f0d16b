"""Records of an unpacked batch as compaction looks at them: where each stands, its key, whether it is a tombstone.

Nothing is decoded that compaction does not ask for, and nothing is kept: a batch may unpack to millions of records.
Read next: ``compaction.py``.
"""

from __future__ import annotations

from collections.abc import Iterator

from moldau.model.named import NamedTuple
from moldau.wire.compression import BatchError

Scanned = tuple[int, int, int, int, int, "bytes | None", bool]
"""The fields of a ``RawRecord`` as a plain tuple: made for every record of a log, it has to be cheap."""


class RawRecord(NamedTuple):
    """Where a record stands in its batch's payload, and as much of it as compaction asks for."""

    start: int
    delta_end: int
    end: int
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    tombstone: bool


def raw_records(data: bytes, count: int) -> Iterator[RawRecord]:
    """The records of an unpacked payload; BatchError where they do not parse."""
    return map(RawRecord._make, scan(data, count))


def scan(data: bytes, count: int) -> Iterator[Scanned]:
    """The same as plain tuples, in the order of ``RawRecord``'s fields; BatchError where they do not parse."""
    pos, size = 0, len(data)
    try:
        for _ in range(count):
            start = pos
            # Most numbers here fit into one byte: reading it in place costs a fifth of a call.
            byte = data[pos]
            if byte < 128:
                length, pos = (byte >> 1) ^ -(byte & 1), pos + 1
            else:
                length, pos = read_varint(data, pos)
            end = pos + length
            timestamp_delta, delta_end = read_varint(data, pos + 1)
            byte = data[delta_end]
            if byte < 128:
                offset_delta, pos = (byte >> 1) ^ -(byte & 1), delta_end + 1
            else:
                offset_delta, pos = read_varint(data, delta_end)
            byte = data[pos]
            if byte < 128:
                key_length, pos = (byte >> 1) ^ -(byte & 1), pos + 1
            else:
                key_length, pos = read_varint(data, pos)
            key = None
            if key_length >= 0:
                key = data[pos : pos + key_length]
                pos += key_length
            # The value's length is negative just where the lowest bit of its first byte is set.
            tombstone = bool(data[pos] & 1)
            if end > size or pos >= end:
                raise IndexError
            yield start, delta_end, end, timestamp_delta, offset_delta, key, tombstone
            pos = end
    except IndexError:
        raise BatchError(f"the record at byte {pos} of a batch does not parse") from None


def read_varint(data: bytes, pos: int) -> tuple[int, int]:
    """A zigzag number at ``pos`` and where it ends; IndexError when it does not parse."""
    raw = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        raw |= (byte & 127) << shift
        if byte < 128:
            return (raw >> 1) ^ -(raw & 1), pos
        shift += 7
        if shift > 63:
            raise IndexError
