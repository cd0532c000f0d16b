"""Turns fetched record batches (format v2) into Arrow record batches, a column at a time.

Fields are read by numpy over the whole buffer, and keys and values are gathered by one Arrow kernel: long ones as views
of the very same bytes, which are cast, short ones by an array over them whose offsets alternate (field, gap, field,
gap...), of which the even slots are taken. No Python object is made per record. What comes out is bounded in bytes,
because Spark's JVM holds a whole Arrow batch at once.
Does not fetch and does not know Spark. Read next: frames.py (where records lie), tasks.py (who asks).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from moldau.model import TopicPartition
from moldau.spark.feed import Aborted
from moldau.spark.frames import Bytes, Frames, Ints, find_batches, find_records, groups, varints, wanted
from moldau.spark.rows import ALL_COLUMNS
from moldau.wire.batch import headers
from moldau.wire.compression import BatchError, Buffer

TARGET_BYTES = 8 << 20
"""An Arrow batch holds about this much, and at most twice as much unless a single record is larger."""
MAX_ROWS = 1 << 16

MAX_MS = ((1 << 63) - 1) // 1000  # nanoseconds taken for ms stay far in the future and do not wrap around


_HEADER_TYPE = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
_TYPES: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": _HEADER_TYPE,
}


_INLINE = 12
"""A view of so many bytes or fewer has them in itself."""
_VIEW = np.dtype([("length", "<i4"), ("prefix", "<i4"), ("buffer", "<i4"), ("offset", "<i4")])


class _Rows(NamedTuple):
    """Where the fields of a run of records lie in ``data``; a length of -1 is null. ``header_count`` may be 0."""

    data: Buffer
    offset: Ints
    timestamp: Ints
    timestamp_type: Ints
    key: tuple[Ints, Ints]
    value: tuple[Ints, Ints]
    header_at: Ints
    header_count: Ints
    end: Ints

    def take(self, rows: npt.NDArray[np.bool_]) -> _Rows:
        """The rows where the mask holds."""
        return _Rows(
            self.data,
            self.offset[rows],
            self.timestamp[rows],
            self.timestamp_type[rows],
            (self.key[0][rows], self.key[1][rows]),
            (self.value[0][rows], self.value[1][rows]),
            self.header_at[rows],
            self.header_count[rows],
            self.end[rows],
        )


class Decoder(NamedTuple):
    """Decodes one partition's bytes into record batches with these columns (of ``ALL_COLUMNS``, in that order)."""

    partition: TopicPartition
    columns: tuple[str, ...] = ALL_COLUMNS[:-1]
    check_crcs: bool = True
    target_bytes: int = TARGET_BYTES

    @property
    def schema(self) -> pa.Schema:
        return arrow_schema(self.columns)

    def decode(
        self,
        buffer: Buffer,
        start: int,
        end: int,
        aborted: Sequence[Aborted] = (),
        starts: Sequence[int] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Record batches of the offsets in [start, end) that the whole batches of ``buffer`` hold, in order.

        A partial last batch is left alone. ``aborted``: transactions to leave out, from the fetch answer's list; empty
        reads uncommitted. ``starts``: where the whole batches begin, when the buffer was walked before. BatchError
        names what is corrupt, with topic, partition and offset.
        """
        try:
            found = find_batches(buffer, check_crcs=self.check_crcs, end=end, starts=starts)
            batches = wanted(found, start, end, aborted)
            for group in groups(batches, self.target_bytes):
                rows = _parse(find_records(group), "headers" in self.columns)
                if rows.offset.size and (rows.offset[0] < start or rows.offset[-1] >= end):
                    rows = rows.take((rows.offset >= start) & (rows.offset < end))
                if rows.offset.size:
                    yield from self._bounded(rows)
        except BatchError as error:
            raise BatchError(f"{self.partition}, read from offset {start}: {error}") from error

    def _bounded(self, rows: _Rows) -> Iterator[pa.RecordBatch]:
        """One Arrow batch per ``target_bytes`` of keys, values and headers (more when a single record is larger)."""
        weight = rows.end - rows.key[0] + 64
        total = np.cumsum(weight)
        if total[-1] <= self.target_bytes * 2 and rows.offset.size <= MAX_ROWS:
            yield self._batch(rows)
            return
        batch = self._batch(rows)
        first, count = 0, rows.offset.size
        while first < count:
            before = total[first - 1] if first else 0
            last = int(np.searchsorted(total, before + self.target_bytes, side="right"))
            last = min(max(last, first + 1), first + MAX_ROWS, count)
            yield batch.slice(first, last - first)
            first = last

    def _batch(self, rows: _Rows) -> pa.RecordBatch:
        buffer = pa.py_buffer(rows.data)
        count = rows.offset.size
        columns: list[pa.Array] = []
        for name in self.columns:
            match name:
                case "key":
                    columns.append(_gather(buffer, *rows.key))
                case "value":
                    columns.append(_gather(buffer, *rows.value))
                case "topic":
                    columns.append(pa.repeat(pa.scalar(self.partition.topic, pa.string()), count))
                case "partition":
                    columns.append(pa.array(np.full(count, self.partition.partition, np.int32)))
                case "offset":
                    columns.append(pa.array(rows.offset))
                case "timestamp":
                    columns.append(pa.array(np.clip(rows.timestamp, -MAX_MS, MAX_MS) * 1000).view(_TYPES["timestamp"]))
                case "timestampType":
                    columns.append(pa.array(rows.timestamp_type.astype(np.int32)))
                case "headers":
                    columns.append(_headers(buffer, rows))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """The Arrow schema of these columns, exactly as Spark derives it from the source's schema."""
    return pa.schema([pa.field(name, _TYPES[name]) for name in columns])


def next_offset(buffer: Buffer, default: int) -> int:
    """The offset after the last whole batch in ``buffer``; ``default`` when there is none."""
    for _, header in headers(buffer):
        default = header.next_offset
    return default


def _parse(frames: Frames, with_headers: bool) -> _Rows:
    """The fields of every record."""
    data, batches, count = np.frombuffer(frames.data, np.uint8), frames.batches, frames.batches.counts
    since, at_delta = varints(data, frames.body + 1)
    delta, at_key = varints(data, at_delta)
    key, at_value = _field(data, at_key, frames.end)
    value, at_headers = _field(data, at_value, frames.end)
    header_count, after = varints(data, at_headers)
    if bool(((header_count < 0) | ((header_count == 0) & (after != frames.end))).any()):
        raise BatchError("a record's fields do not end where the record ends")
    timestamp = np.repeat(batches.base_timestamp, count) + since
    appended = batches.log_append_time
    if appended.any():
        timestamp = np.where(np.repeat(appended, count) == 1, np.repeat(batches.max_timestamp, count), timestamp)
    return _Rows(
        frames.data,
        np.repeat(batches.first_offset, count) + delta,
        timestamp,
        np.repeat(appended, count),
        key,
        value,
        after,
        header_count if with_headers else np.zeros_like(header_count),
        frames.end,
    )


def _field(data: Bytes, at: Ints, ends: Ints) -> tuple[tuple[Ints, Ints], Ints]:
    """((start, length) of keys or values, position after them); -1 is null, and nothing may reach beyond its record."""
    length, start = varints(data, at)
    size = np.maximum(length, 0)
    if bool(((length < -1) | (size > ends - start)).any()):
        raise BatchError("a field reaches beyond its record")
    return (start, length), start + size


def _gather(buffer: pa.Buffer, start: Ints, length: Ints) -> pa.Array:
    """A binary array of these spans of ``buffer``, which must come in ascending order."""
    null = length < 0
    has_null = bool(null.any())
    if start.size and int(length[~null].min(initial=0) if has_null else length.min()) > _INLINE:
        return _gather_long(buffer, start, length, null if has_null else None)
    return _gather_any(buffer, start, length, null if has_null else None)


def _gather_long(buffer: pa.Buffer, start: Ints, length: Ints, null: npt.NDArray[np.bool_] | None) -> pa.Array:
    """Spans of more than 12 bytes each: views of the buffer, copied at once by a kernel that knows their sum before."""
    views = np.zeros(start.size, _VIEW)
    views["length"], views["offset"] = length, start
    valid = None
    if null is not None:
        views["length"][null] = 0
        valid = pa.py_buffer(np.packbits(~null, bitorder="little"))
    parts = [valid, pa.py_buffer(views), buffer]
    return pa.Array.from_buffers(pa.binary_view(), start.size, parts).cast(pa.binary())


def _gather_any(buffer: pa.Buffer, start: Ints, length: Ints, null: npt.NDArray[np.bool_] | None) -> pa.Array:
    """Spans of any size."""
    count = start.size
    if not count:
        return pa.array([], pa.binary())
    edges = np.empty(2 * count, np.int32)
    edges[0::2] = start
    edges[1::2] = start + np.maximum(length, 0)
    spans = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(edges), buffer])
    slots = np.arange(0, 2 * count, 2, dtype=np.int64)
    return spans.take(pa.array(slots) if null is None else pa.array(slots, mask=null))


def _headers(buffer: pa.Buffer, rows: _Rows) -> pa.Array:
    """array<struct<key, value>>, null for a record without headers, as Spark's own connector has it.

    The first header of every record is read at once, then the second of those that have one, and so on.
    """
    data = np.frombuffer(rows.data, np.uint8)
    count = rows.offset.size
    total = int(rows.header_count.sum())
    room = rows.end - rows.header_at
    if bool((rows.header_count > room // 2).any()):
        raise BatchError("a record claims more headers than it has bytes")
    edges = np.zeros(count + 1, np.int64)
    np.cumsum(rows.header_count, out=edges[1:])
    key_at, key_size, value_at, value_size = (np.zeros(total, np.int64) for _ in range(4))
    at = rows.header_at.copy()
    left = np.flatnonzero(rows.header_count > 0)
    turn = 0
    while left.size:
        slot = edges[left] + turn
        (key_at[slot], key_size[slot]), at_value = _field(data, at[left], rows.end[left])
        if bool((key_size[slot] < 0).any()):
            raise BatchError("a record header without a key")
        (value_at[slot], value_size[slot]), at[left] = _field(data, at_value, rows.end[left])
        turn += 1
        left = left[rows.header_count[left] > turn]
    if bool(((at != rows.end) & (rows.header_count > 0)).any()):
        raise BatchError("a record's headers do not end where the record ends")
    pairs = pa.StructArray.from_arrays(
        [_text(_gather(buffer, key_at, key_size)), _gather(buffer, value_at, value_size)],
        fields=list(_HEADER_TYPE.value_type),
    )
    return pa.ListArray.from_arrays(
        pa.array(edges.astype(np.int32)), pairs, type=_HEADER_TYPE, mask=pa.array(rows.header_count == 0)
    )


def _text(array: pa.Array) -> pa.Array:
    """Binary as text; what is not UTF-8 is replaced, as Java's client does, since nobody checked it before."""
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([each.decode("utf-8", "replace") for each in array.to_pylist()], pa.string())
