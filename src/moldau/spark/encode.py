"""Arrow columns to record batches: every field of every record as one array operation, no Python object per record.

Sizes and varints are numpy; keys, values and headers are joined by Arrow's own kernels straight from the columns'
buffers. Also here: murmur2 of a whole column of keys. Does not choose partitions or send (produce.py).
Format: KIP-98, "Record". Read next: wire/batch.py for one record at a time.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from moldau.spark.frames import Bytes, Ints

Words = npt.NDArray[np.uint32]

_M = np.uint32(0x5BD1E995)
_SEED = np.uint32(0x9747B28C)


class Encoded:
    """Records of one column run, in order: ``payload(a, b)`` is rows a to before b as they lie in a batch."""

    __slots__ = ("_data", "_ends")

    def __init__(self, data: memoryview, ends: Ints) -> None:
        self._data, self._ends = data, ends

    def payload(self, first: int, end: int) -> memoryview:
        return self._data[self._ends[first] : self._ends[end]]


def as_bytes(column: pa.Array) -> pa.Array:
    """Text or bytes as large_binary, whose offsets cannot overflow when columns are joined."""
    return column.cast(pa.large_binary())


def lengths(column: pa.Array) -> Ints:
    """Bytes of each value of a large_binary column, -1 for null: as a record's field says it."""
    found: Ints = pc.fill_null(pc.binary_length(column), -1).to_numpy(zero_copy_only=False)
    return found.astype(np.int64)


def varint_sizes(numbers: Ints) -> Ints:
    """How many bytes each number takes as a zigzag varint; lengths, offsets, differences of timestamps (62 bits)."""
    zigzag = _zigzag(numbers)
    sizes = np.ones(len(numbers), np.int64)
    for bits in (7, 14, 21, 28):
        sizes += zigzag >= (1 << bits)
    for bits in (35, 42, 49, 56):
        if len(zigzag) and int(zigzag.max()) >> bits:  # differences of timestamps may be that far apart
            sizes += zigzag >= (1 << bits)
    return sizes


def varints(*columns: Ints) -> pa.Array:
    """A large_binary column of the numbers of each row as zigzag varints, one after the other."""
    zigzags = [_zigzag(each) for each in columns]
    rows = len(zigzags[0])
    sizes = [varint_sizes(each) for each in columns]
    offsets = np.zeros(rows + 1, np.int64)
    np.cumsum(sum(sizes), out=offsets[1:])
    data = np.empty(int(offsets[-1]), np.uint8)
    at = offsets[:-1].copy()
    for zigzag, size in zip(zigzags, sizes, strict=True):
        longest = int(size.max()) if rows else 0
        for place in range(longest):
            more = size > place
            bits = (zigzag >> (7 * place)) & 0x7F | np.where(size > place + 1, 0x80, 0)
            if more.all():
                data[at + place] = bits
            else:
                data[at[more] + place] = bits[more]
        at += size
    return pa.Array.from_buffers(pa.large_binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def encode(
    key: pa.Array | None, value: pa.Array, headers: pa.Array | None, deltas: Ints, times: Ints | None = None
) -> Encoded:
    """The rows as records; ``deltas`` are their offsets within their batches, ``times`` how far their timestamps are
    from that of their batch (None: they are the same).

    ``key`` and ``value`` are large_binary; ``headers`` is a column of encoded headers (``encode_headers``), None for
    records without.
    """
    rows = len(value)
    value_sizes = lengths(value)
    key_sizes = np.full(rows, -1, np.int64) if key is None else lengths(key)
    header_sizes = 1 if headers is None else lengths(headers)
    body = 2 + varint_sizes(deltas) + varint_sizes(key_sizes) + np.maximum(key_sizes, 0)
    body += varint_sizes(value_sizes) + np.maximum(value_sizes, 0) + header_sizes
    no_headers = pa.scalar(b"\x00", pa.large_binary())
    # attributes are one byte 0, and so is the varint of timestamp delta 0: two bytes that are always there
    if times is not None:
        body += varint_sizes(times) - 1
    zeros = np.zeros(rows, np.int64)
    parts: list[pa.Array | pa.Scalar] = [varints(body, zeros, zeros if times is None else times, deltas, key_sizes)]
    if key is not None:
        parts.append(key)
    parts += [varints(value_sizes), value, no_headers if headers is None else headers]
    joined = _join(*parts)
    ends = np.frombuffer(joined.buffers()[1], np.int64)[joined.offset : joined.offset + rows + 1]
    data = joined.buffers()[2]
    return Encoded(memoryview(data) if data is not None else memoryview(b""), ends)


def encode_headers(column: pa.Array | None, marks: pa.Array | None, mark_name: str, rows: int) -> pa.Array | None:
    """Each row's headers as a record carries them, the mark (a large_binary column) last; None when no row has one.

    ValueError when a header has no key.
    """
    if column is None and marks is None:
        return None
    counts = np.zeros(rows, np.int64)
    text = pa.array([b""] * rows, pa.large_binary()) if column is None else _encode_lists(column, counts)
    if marks is None:
        return _join(varints(counts), text)
    counts += 1
    name = mark_name.encode()
    title = varints(np.array([len(name)], np.int64))[0].as_py() + name
    return _join(varints(counts), text, pa.scalar(title, pa.large_binary()), varints(lengths(marks)), marks)


def _encode_lists(column: pa.Array, counts: Ints) -> pa.Array:
    """The headers of each row without their count, which is written into ``counts``."""
    counts += pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    flat = column.flatten()
    if not len(flat):
        return pa.array([b""] * len(column), pa.large_binary())
    names, values = as_bytes(flat.field("key")), as_bytes(flat.field("value"))
    if names.null_count:
        raise ValueError("a header has no key")
    pieces = _join(varints(lengths(names)), names, varints(lengths(values)), values)
    ends = np.zeros(len(column) + 1, np.int64)
    np.cumsum(counts, out=ends[1:])
    starts = np.frombuffer(pieces.buffers()[1], np.int64)[pieces.offset : pieces.offset + len(pieces) + 1]
    bounds = np.ascontiguousarray(starts[ends])
    return pa.Array.from_buffers(pa.large_binary(), len(column), [None, pa.py_buffer(bounds), pieces.buffers()[2]])


def _join(*parts: pa.Array | pa.Scalar) -> pa.Array:
    """The parts of each row one after the other; null is nothing."""
    nothing = pa.scalar(b"", pa.large_binary())
    return pc.binary_join_element_wise(*parts, nothing, null_handling="replace", null_replacement="")


def _zigzag(numbers: Ints) -> Ints:
    return (numbers << 1) ^ (numbers >> 63)


def murmur2(keys: pa.Array) -> Words:
    """32-bit murmur2 of each value of a large_binary column (of null: as of nothing), as Kafka's partitioner has it."""
    rows = len(keys)
    ends = np.frombuffer(keys.buffers()[1], np.int64)[keys.offset : keys.offset + rows + 1]
    raw = keys.buffers()[2]
    data = np.frombuffer(raw, np.uint8) if raw is not None and raw.size else np.zeros(0, np.uint8)
    data = np.concatenate((data[ends[0] : ends[-1]], np.zeros(4, np.uint8)))  # reading a last word stays inside
    starts = ends[:-1] - ends[0]
    sizes = ends[1:] - ends[:-1]
    with np.errstate(over="ignore"):
        found: Words = _SEED ^ sizes.astype(np.uint32)
        words = sizes >> 2
        for turn in range(int(words.max()) if rows else 0):
            some = np.flatnonzero(words > turn)
            k = _word(data, starts[some] + 4 * turn) * _M
            k = (k ^ (k >> np.uint32(24))) * _M
            found[some] = (found[some] * _M) ^ k
        left = sizes & 3
        some = np.flatnonzero(left)
        rest = _word(data, (starts + 4 * words)[some])
        rest &= (np.uint32(1) << (left[some].astype(np.uint32) * np.uint32(8))) - np.uint32(1)
        found[some] = (found[some] ^ rest) * _M
        found = (found ^ (found >> np.uint32(13))) * _M
        mixed: Words = found ^ (found >> np.uint32(15))
    return mixed


def _word(data: Bytes, at: Ints) -> Words:
    """The little-endian words that begin at these places."""
    found: Words = data[at].astype(np.uint32)
    for place in (1, 2, 3):
        found |= data[at + place].astype(np.uint32) << np.uint32(8 * place)
    return found
