"""Finds the batches in a fetched buffer and the records in them: positions only, no field of a record is read here.

Batch headers are gathered into columns by numpy; which batches are wanted is decided on those columns. Records are
chained by their lengths, so someone must walk: all batches at once, the first record of each, then the second, and on,
when there are many batches; batch by batch in a plain loop when they are few and long. Compressed payloads are unpacked
and joined to one buffer first. Control batches and aborted transactions are left out here (KIP-98).
Read next: decode.py (the fields of the records).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from moldau.spark.feed import Aborted
from moldau.wire.batch import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MIN_LENGTH,
    MIN_RECORD_SIZE,
    ControlType,
    Record,
    control_type,
    positions,
    read_header,
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
_CODEC, _LOG_APPEND, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
_BY_BYTE = np.array([(n >> 1) ^ -(n & 1) for n in range(128)], np.int64)
"""The numbers that a varint of one byte says."""
_LOOP_COST = 40  # one numpy step over all batches costs about as much as this many turns of the plain loop


def _sizes_by_pair() -> npt.NDArray[np.int16]:
    """How many bytes a record takes, its length's own included, by the first two of them; 0 where these do not say."""
    first, second = np.arange(1 << 16) & 0xFF, np.arange(1 << 16) >> 8
    one = (first >> 1) + 1
    two = ((first & 127 | second << 7) >> 1) + 2
    size = np.where(first < 128, one, np.where(second < 128, two, 0))
    return np.where(first & 1, 0, size).astype(np.int16)


_SIZE_BY_PAIR = _sizes_by_pair()
_SIZES: list[list[int]] = _SIZE_BY_PAIR.reshape(256, 256).T.tolist()
"""The same by the first byte, and then by the second."""


class BatchColumns(NamedTuple):
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

    def take(self, rows: npt.NDArray[np.bool_]) -> BatchColumns:
        return BatchColumns(self.data, self.start[rows], self.end[rows], self.header[rows])

    def _column(self, name: str) -> Ints:
        return self.header[name].astype(np.int64)


class Frames(NamedTuple):
    """Where records lie in ``data``: one body (from the attributes byte on) and end per record, in order."""

    data: Buffer
    body: Ints
    end: Ints
    batches: BatchColumns


def find_batches(buffer: Buffer, *, check_crcs: bool, end: int, starts: Sequence[int] | None = None) -> BatchColumns:
    """The whole batches of a buffer that begin before offset ``end``; BatchError when one is corrupt or not format 2.

    A partial last one is left alone, and what is wrong behind the end is for whoever reads there. ``starts`` is where
    all begin, for a buffer that was walked before.
    """
    if starts is None:
        *starts, last = positions(buffer)
        if last + HEADER_SIZE <= len(buffer) and (length := read_header(buffer, last).length) < MIN_LENGTH:
            raise BatchError(f"a batch claims a length of {length} bytes")
    at = np.fromiter(starts, np.int64, len(starts))
    data = np.frombuffer(buffer, np.uint8)
    header = data[at[:, None] + np.arange(HEADER_SIZE)].reshape(-1).view(_HEADER) if starts else np.empty(0, _HEADER)
    before = header["base_offset"] < end
    if not before.all():
        at, header, starts = at[before], header[before], at[before].tolist()
    ends = at + LENGTH_OVERHEAD + header["length"]
    bad = np.flatnonzero(header["magic"] != 2)
    if bad.size:
        first = header[bad[0]]
        raise BatchError(f"the batch at offset {first['base_offset']} has format {first['magic']}: only 2 is read")
    if check_crcs:
        _check(memoryview(buffer), starts, ends.tolist(), header)
    return BatchColumns(buffer, at + HEADER_SIZE, ends, header)


def _check(view: memoryview, starts: Sequence[int], ends: list[int], header: npt.NDArray[np.void]) -> None:
    for index, (start, end, crc) in enumerate(zip(starts, ends, header["crc"].tolist(), strict=True)):
        if crc32c(view[start + 21 : end]) != crc:
            raise BatchError(f"the batch at offset {header['base_offset'][index]} is corrupt: its checksum is wrong")


def wanted(batches: BatchColumns, start: int, end: int, aborted: Sequence[Aborted]) -> BatchColumns:
    """The batches with records of offsets in [start, end) that a reader is to see."""
    attributes = batches.header["attributes"]
    keep = ((attributes & _CONTROL) == 0) & (batches.last_offset >= start) & (batches.first_offset < end)
    if aborted:
        keep &= ~_aborted(batches, aborted)
    return batches.take(keep)


def _aborted(batches: BatchColumns, aborted: Iterable[Aborted]) -> npt.NDArray[np.bool_]:
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


def _control(batches: BatchColumns, index: int) -> Iterator[Record]:
    return records(batches.data, int(batches.start[index]) - HEADER_SIZE)


def groups(batches: BatchColumns, target_bytes: int) -> Iterator[BatchColumns]:
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


def _joined(parts: list[bytes | memoryview], sizes: list[int], header: npt.NDArray[np.void]) -> BatchColumns:
    end = np.cumsum(np.array(sizes, np.int64))
    return BatchColumns(b"".join(parts), end - np.array(sizes, np.int64), end, header)


def find_records(batches: BatchColumns) -> Frames:
    """Where the records of these batches lie; BatchError when they do not fill their batch exactly."""
    count = batches.counts
    if bool(((count < 0) | (count * MIN_RECORD_SIZE > batches.end - batches.start)).any()):
        raise BatchError("a batch claims more records than it has bytes")
    body, end = _walk_all(batches) if _many_short(count) else _walk_each(batches)
    return Frames(batches.data, body, end, batches)


def _many_short(count: Ints) -> bool:
    return bool(count.size) and int(count.max()) * _LOOP_COST < int(count.sum())


def _walk_all(batches: BatchColumns) -> tuple[Ints, Ints]:
    """Record by record, all batches at once; the longest first, so that those that go on are always the first ones."""
    data = np.frombuffer(batches.data, np.uint8)
    pairs = np.ndarray((max(data.size - 1, 0),), "<u2", data.data, strides=(1,))
    order = np.argsort(-batches.counts, kind="stable")
    count = batches.counts[order]
    slot = (np.cumsum(batches.counts) - batches.counts)[order]
    pos = batches.start[order]
    going = np.searchsorted(-count, -np.arange(int(count.max(initial=0))))
    end = np.empty(int(count.sum()), np.int64)
    try:
        for turn, lanes in enumerate(going.tolist()):
            at = pos[:lanes]
            step = _SIZE_BY_PAIR[pairs[at]].astype(np.int64)
            if np.count_nonzero(step) < lanes:
                long = np.flatnonzero(step == 0)
                size, after = varints(data, at[long])
                if bool(((size < 0) | (size > data.size)).any()):
                    raise BatchError("a record reaches beyond its batch")
                step[long] = after - at[long] + size
            at += step  # in pos itself
            end[slot[:lanes] + turn] = at
    except IndexError:
        raise BatchError("a batch's records are cut short") from None
    if bool((pos != batches.end[order]).any()):
        raise BatchError("the records of a batch do not fill it")
    return _bodies(data, batches, end), end


def _walk_each(batches: BatchColumns) -> tuple[Ints, Ints]:
    """Batch by batch, a record at a time: the quicker way through few long batches."""
    data = batches.data if isinstance(batches.data, bytes) else memoryview(batches.data)
    sizes = _SIZES
    ends: list[int] = []
    try:
        bounds = zip(batches.start.tolist(), batches.end.tolist(), batches.counts.tolist(), strict=True)
        for start, end, count in bounds:
            pos = start
            # A size that two bytes do not say counts as 0: the walk stands still, and does not come to the end.
            found = [pos := pos + sizes[data[pos]][data[pos + 1]] for _ in range(count)]
            ends += found if pos == end else _walk_one(data, start, end, count)
    except IndexError:
        raise BatchError("a batch's records are cut short") from None
    found_ends = np.fromiter(ends, np.int64, len(ends))
    return _bodies(np.frombuffer(data, np.uint8), batches, found_ends), found_ends


def _walk_one(data: bytes | memoryview, pos: int, end: int, count: int) -> list[int]:
    """Where the records of one batch end, of any size."""
    found = []
    for _ in range(count):
        size = _SIZES[data[pos]][data[pos + 1]]
        pos = pos + size if size else _after_long(data, pos)
        found.append(pos)
    if pos != end:
        raise BatchError("the records of a batch do not fill it")
    return found


def _bodies(data: Bytes, batches: BatchColumns, end: Ints) -> Ints:
    """Where each record's body begins, from the ends of all records of the batches."""
    begin = np.empty_like(end)
    begin[1:] = end[:-1]
    some = batches.counts > 0
    begin[(np.cumsum(batches.counts) - batches.counts)[some]] = batches.start[some]
    body = begin + 1
    more = np.flatnonzero(data[begin] > 127)
    while more.size:
        body[more] += 1
        more = more[data[body[more] - 1] > 127]
    return body


def _after_long(data: bytes | memoryview, pos: int) -> int:
    """The end of a record whose length takes three bytes or more, or is none."""
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
        if int(first.max(initial=0)) < 128:
            return _BY_BYTE[first], after
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
