"""Finds the batches in a fetched buffer and the records in them: positions only, no field of a record is read here.

Batch headers are gathered into columns by numpy; which batches are wanted is decided on those columns. Records are
chained by their lengths, so someone must walk: all batches at once, the first record of each, then the second, and on,
when there are many batches; batch by batch in a plain loop when they are few and long. Compressed payloads are unpacked
and joined to one buffer first. Control batches and aborted transactions are left out here (KIP-98).
Read next: decode.py (the fields of the records).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from moldau.wire.batch import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MIN_LENGTH,
    MIN_RECORD_SIZE,
    ControlType,
    Record,
    control_type,
    records,
)
from moldau.wire.compression import BatchError, Buffer, decompress
from moldau.wire.crc import crc32c

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_HEADER = np.dtype(
    [("base_offset", ">i8"), ("length", ">i4"), ("leader_epoch", ">i4"), ("magic", "i1"), ("crc", ">u4"),
     ("attributes", ">i2"), ("last_offset_delta", ">i4"), ("base_timestamp", ">i8"), ("max_timestamp", ">i8"),
     ("producer_id", ">i8"), ("producer_epoch", ">i2"), ("base_sequence", ">i4"), ("count", ">i4")]
)  # fmt: skip
assert _HEADER.itemsize == HEADER_SIZE
_LENGTH = Struct(">i")
_CODEC, _LOG_APPEND, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
_LOOP_COST = 90  # one numpy step over all batches costs about as much as this many turns of the plain loop


class Aborted(NamedTuple):
    """An aborted transaction as a fetch answer names it: the producer, and where its transaction began."""

    producer_id: int
    first_offset: int


class Batches(NamedTuple):
    """Whole batches of a buffer, one row each; ``start`` and ``end`` bound their payload within ``data``."""

    data: Buffer
    start: Ints
    end: Ints
    header: npt.NDArray[np.void]

    @property
    def first_offset(self) -> Ints:
        return self._column("base_offset")

    @property
    def last_offset(self) -> Ints:
        return self._column("base_offset") + self._column("last_offset_delta")

    @property
    def log_append_time(self) -> Ints:
        """1 where every record's timestamp is the batch's newest, else 0."""
        return ((self._column("attributes") & _LOG_APPEND) > 0).astype(np.int64)

    @property
    def base_timestamp(self) -> Ints:
        return self._column("base_timestamp")

    @property
    def max_timestamp(self) -> Ints:
        return self._column("max_timestamp")

    @property
    def counts(self) -> Ints:
        return self._column("count")

    def take(self, rows: npt.NDArray[np.bool_]) -> Batches:
        return Batches(self.data, self.start[rows], self.end[rows], self.header[rows])

    def _column(self, name: str) -> Ints:
        return self.header[name].astype(np.int64)


class Frames(NamedTuple):
    """Where records lie in ``data``: one body (from the attributes byte on) and end per record, in order."""

    data: Buffer
    body: Ints
    end: Ints
    batches: Batches


def find_batches(buffer: Buffer, *, check_crcs: bool) -> Batches:
    """The whole batches of a buffer, a partial last one left alone; BatchError when one is corrupt or not format 2."""
    starts: list[int] = []
    pos, size, unpack = 0, len(buffer), _LENGTH.unpack_from
    while pos + HEADER_SIZE <= size:
        (length,) = unpack(buffer, pos + 8)
        after = pos + LENGTH_OVERHEAD + length
        if length < MIN_LENGTH:
            raise BatchError(f"a batch claims a length of {length} bytes")
        if after > size:
            break
        starts.append(pos)
        pos = after
    at = np.array(starts, np.int64)
    data = np.frombuffer(buffer, np.uint8)
    header = data[at[:, None] + np.arange(HEADER_SIZE)].reshape(-1).view(_HEADER) if starts else np.empty(0, _HEADER)
    ends = at + LENGTH_OVERHEAD + header["length"]
    bad = np.flatnonzero(header["magic"] != 2)
    if bad.size:
        first = header[bad[0]]
        raise BatchError(f"the batch at offset {first['base_offset']} has format {first['magic']}: only 2 is read")
    if check_crcs:
        _check(memoryview(buffer), starts, ends.tolist(), header)
    return Batches(buffer, at + HEADER_SIZE, ends, header)


def _check(view: memoryview, starts: list[int], ends: list[int], header: npt.NDArray[np.void]) -> None:
    for index, (start, end, crc) in enumerate(zip(starts, ends, header["crc"].tolist(), strict=True)):
        if crc32c(view[start + 21 : end]) != crc:
            raise BatchError(f"the batch at offset {header['base_offset'][index]} is corrupt: its checksum is wrong")


def wanted(batches: Batches, start: int, end: int, aborted: Sequence[Aborted]) -> Batches:
    """The batches with records of offsets in [start, end) that a reader is to see."""
    attributes = batches.header["attributes"]
    keep = ((attributes & _CONTROL) == 0) & (batches.last_offset >= start) & (batches.first_offset < end)
    if aborted:
        keep &= ~_aborted(batches, aborted)
    return batches.take(keep)


def _aborted(batches: Batches, aborted: Iterable[Aborted]) -> npt.NDArray[np.bool_]:
    """Which batches belong to aborted transactions, told by walking the log in order (KIP-98)."""
    found = np.zeros(batches.start.size, np.bool_)
    coming = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
    opened: set[int] = set()
    producers, attributes = batches.header["producer_id"].tolist(), batches.header["attributes"].tolist()
    for index, last in enumerate(batches.last_offset.tolist()):
        while coming and coming[-1].first_offset <= last:
            opened.add(coming.pop().producer_id)
        if producers[index] not in opened or not attributes[index] & _TRANSACTIONAL:
            continue
        if not attributes[index] & _CONTROL:
            found[index] = True
        elif any(control_type(each.key) == ControlType.ABORT for each in _control(batches, index)):
            opened.discard(producers[index])
    return found


def _control(batches: Batches, index: int) -> Iterator[Record]:
    return records(batches.data, int(batches.start[index]) - HEADER_SIZE)


def groups(batches: Batches, target_bytes: int) -> Iterator[Batches]:
    """Neighbouring batches, about ``target_bytes`` of unpacked payload at a time; packed ones are unpacked here."""
    codecs = (batches.header["attributes"] & _CODEC).tolist()
    if not any(codecs):
        total = np.cumsum(batches.end - batches.start)
        for slot in np.unique(total // max(1, target_bytes)):
            yield batches.take(total // max(1, target_bytes) == slot)
        return
    parts: list[bytes | memoryview] = []
    sizes: list[int] = []
    view, size, first = memoryview(batches.data), 0, 0
    for index, codec in enumerate(codecs):
        payload = view[int(batches.start[index]) : int(batches.end[index])]
        parts.append(decompress(codec, payload) if codec else payload)
        sizes.append(len(parts[-1]))
        size += sizes[-1]
        if size >= target_bytes or index == len(codecs) - 1:
            yield _joined(parts, sizes, batches.header[first : index + 1])
            parts, sizes, size, first = [], [], 0, index + 1


def _joined(parts: list[bytes | memoryview], sizes: list[int], header: npt.NDArray[np.void]) -> Batches:
    end = np.cumsum(np.array(sizes, np.int64))
    return Batches(b"".join(parts), end - np.array(sizes, np.int64), end, header)


def find_records(batches: Batches) -> Frames:
    """Where the records of these batches lie; BatchError when they do not fill their batch exactly."""
    count = batches.counts
    if bool(((count < 0) | (count * MIN_RECORD_SIZE > batches.end - batches.start)).any()):
        raise BatchError("a batch claims more records than it has bytes")
    body, end = _walk_all(batches) if _many_short(count) else _walk_each(batches)
    return Frames(batches.data, body, end, batches)


def _many_short(count: Ints) -> bool:
    return bool(count.size) and int(count.max()) * _LOOP_COST < int(count.sum())


def _walk_all(batches: Batches) -> tuple[Ints, Ints]:
    """Record by record, all batches at once."""
    data = np.frombuffer(batches.data, np.uint8)
    count = batches.counts
    total = int(count.sum())
    body, end = np.empty(total, np.int64), np.empty(total, np.int64)
    slot = np.cumsum(count) - count
    pos, left = batches.start.copy(), np.flatnonzero(count > 0)
    turn = 0
    while left.size:
        size, at = varints(data, pos[left])
        after = at + size
        if bool(((size < 0) | (after > batches.end[left])).any()):
            raise BatchError("a record reaches beyond its batch")
        here = slot[left] + turn
        body[here], end[here], pos[left] = at, after, after
        turn += 1
        left = left[count[left] > turn]
    if bool((pos != batches.end).any()):
        raise BatchError("the records of a batch do not fill it")
    return body, end


def _walk_each(batches: Batches) -> tuple[Ints, Ints]:
    """Batch by batch, a record at a time: the quicker way through few long batches."""
    data = batches.data if isinstance(batches.data, bytes) else memoryview(batches.data)
    edges: list[int] = []
    put = edges.append
    try:
        bounds = zip(batches.start.tolist(), batches.end.tolist(), batches.counts.tolist(), strict=True)
        for pos, end, count in bounds:
            put(pos)
            for _ in range(count):
                size = data[pos]
                if size < 128:
                    pos += (size >> 1) + 1
                elif (more := data[pos + 1]) < 128:
                    pos += ((size & 127 | more << 7) >> 1) + 2
                else:
                    pos = _after_long(data, pos)
                put(pos)
            if pos != end:
                raise BatchError("the records of a batch do not fill it")
    except IndexError:
        raise BatchError("a batch's records are cut short") from None
    at = np.array(edges, np.int64)
    first = np.cumsum(batches.counts + 1) - batches.counts - 1
    begins, ends = np.ones(at.size, np.bool_), np.ones(at.size, np.bool_)
    begins[first + batches.counts] = False
    ends[first] = False
    _, body = varints(np.frombuffer(data, np.uint8), at[begins])
    return body, at[ends]


def _after_long(data: bytes | memoryview, pos: int) -> int:
    """The end of a record whose length takes three bytes or more."""
    size, shift = 0, 0
    while True:
        byte = data[pos]
        pos += 1
        size |= (byte & 127) << shift
        if byte < 128:
            return pos + (size >> 1)
        shift += 7


def varints(data: Bytes, at: Ints) -> tuple[Ints, Ints]:
    """The zigzag varints at these positions, and the positions after them."""
    try:
        first = data[at]
        after = at + 1
        raw = (first & 127).astype(np.uint64)
        more = np.flatnonzero(first > 127)
        shift = 7
        while more.size:
            if shift > 63:
                raise BatchError("a varint is too long")
            byte = data[after[more]]
            raw[more] |= (byte & 127).astype(np.uint64) << np.uint64(shift)
            after[more] += 1
            more = more[byte > 127]
            shift += 7
    except IndexError:
        raise BatchError("a record's fields are cut short") from None
    one = np.uint64(1)
    return ((raw >> one) ^ (~(raw & one) + one)).view(np.int64), after
