"""Goes through the records of a batch without making objects of them: what a leader must know before it takes them.

Decides whether the records' structure is sound, as Apache Kafka's DefaultRecord reads it, whether offset deltas count
up from 0, and which timestamps and absent keys there are. Does not decide what of it is refused: see
``storage/admission.py``. Records of one size, as most producers send them, are checked by column: a slice of every n-th
byte tells of all of them at C's speed. All others are read one by one, in steps as long as the caller wants.
"""

from __future__ import annotations

from moldau.terms.named import NamedTuple
from moldau.wire.batch import HEADER_SIZE, LONG_MAX, LONG_MIN, BatchHeader
from moldau.wire.compression import BatchError

ALIKE_MIN = 24
"""Fewer records than these are read one by one: columns would cost more."""
FOUND_MAX = 1000
"""So many records that need a second look are kept; more are only counted."""
_MISSES_MAX = 3
"""After so many attempts that found no run of records alike, no more are made."""
_COLUMNS_COST, _COLUMNS_GAIN = 12, 30
"""A look by column costs as much as so many records one by one, and each of its records so many times less."""
_ONE_BYTE, _TWO_BYTES, _THREE_BYTES = 1 << 6, 1 << 13, 1 << 20
"""Offset deltas below these take one byte, or two, or three."""

_ONE = bytes(2 * delta for delta in range(_ONE_BYTE))
_LOW = bytes((2 * delta & 127) | 128 for delta in range(_TWO_BYTES))
_HIGH = bytes(2 * delta >> 7 for delta in range(_TWO_BYTES))
_MIDDLE = bytes(byte | 128 for byte in _HIGH)
_SMALL = tuple((byte >> 1) ^ -(byte & 1) if byte < 128 else None for byte in range(256))
"""The numbers that take one byte."""
_UP_TO = tuple(bytes(range(byte & 128, byte + 1, 2)) for byte in range(256))
"""For the last byte of a column of timestamp deltas: which bytes are not larger, and of an even zigzag number."""


def long(value: int) -> int:
    """``value`` as an int64 that has wrapped around, as sums of timestamps do in Apache Kafka."""
    if LONG_MIN <= value <= LONG_MAX:
        return value
    value &= 0xFFFFFFFFFFFFFFFF
    return value - 0x10000000000000000 if value >> 63 else value


class Found(NamedTuple):
    """A record that the caller has to look at: place in the batch, timestamp (ms), and sizes, -1 for null."""

    batch_index: int
    timestamp: int
    offset_delta: int
    key_size: int
    value_size: int


class Wanted(NamedTuple):
    """What a record must be: its timestamp (ms) in ``oldest`` to ``newest`` or -1, and with a key where ``keyed``."""

    keyed: bool = False
    oldest: int = LONG_MIN
    newest: int = LONG_MAX
    none_at_all: bool = False
    """Every record is kept in ``found``."""


def is_one_record(batch: memoryview, keyed: bool) -> bool:
    """Whether a batch that is not compressed holds one sound record and nothing else, in the form that most have: both
    deltas 0, no headers, and a key where ``keyed``. False does not tell that something is wrong."""
    try:
        size, pos = _varint(batch, HEADER_SIZE)
        last = pos + size - 1
        if last != len(batch) - 1 or size < 6 or batch[pos + 1] or batch[pos + 2] or batch[last]:
            return False
        size, pos = _varint(batch, pos + 3)
        if size > 0:
            pos += size
        elif size < 0 and keyed:
            return False
        size, pos = _varint(batch, pos)
    except (BatchError, IndexError):
        return False
    return pos + max(size, 0) == last


class Scan:
    """One walk over the unpacked records of a batch: ``run`` until ``done``. Fewer than ALIKE_MIN may come as a view.

    ``found`` holds the records that are not as ``wanted``, up to FOUND_MAX of them; ``bad`` is how many there are.
    ``largest`` and ``smallest`` are timestamps in ms; the smallest may be told as less than it is. ``in_order`` tells
    whether offset deltas are 0, 1, 2 and so on.
    """

    __slots__ = (
        "_base", "_data", "_fixed", "_high", "_low", "_misses", "_pos", "_wanted", "bad", "count", "done", "found",
        "in_order", "index", "largest", "smallest",
    )  # fmt: skip

    def __init__(self, header: BatchHeader, data: bytes | memoryview, wanted: Wanted) -> None:
        self._base = header.base_timestamp
        self._fixed = header.max_timestamp if header.is_log_append_time else None
        self._data = data
        self._wanted = wanted
        self._pos = 0
        self._low = max(wanted.oldest, LONG_MIN) - self._base
        self._high = min(wanted.newest, LONG_MAX) - self._base
        if self._fixed is not None or wanted.none_at_all:
            self._low, self._high = 1, 0
        self._misses = 0 if self._base >= 0 and self._low <= 0 else _MISSES_MAX
        self.count = header.count
        self.index = 0
        self.done = False
        self.in_order = True
        self.largest = LONG_MIN
        self.smallest = LONG_MAX
        self.found: list[Found] = []
        self.bad = 0

    def run(self, work: int = LONG_MAX) -> None:
        """Read on: at most about ``work`` records one by one, or some thirty times as many by column (default: all).

        BatchError when the records are not sound.
        """
        count = self.count
        try:
            while self.index < count and work > 0:
                before = self.index
                if self._misses >= _MISSES_MAX or count - before < ALIKE_MIN:
                    self._read_each(min(count, before + work))
                    work -= self.index - before
                else:
                    self._read_alike()
                    work -= _COLUMNS_COST + (self.index - before) // _COLUMNS_GAIN
        except IndexError:
            raise BatchError("Found invalid record structure: the records are cut short") from None
        if self.index >= count:
            self.done = True
            if self._pos != len(self._data):
                raise BatchError("Incorrect declared batch size, records still remaining in file")

    # ---- records of one size

    def _read_alike(self) -> None:
        """Read one record by itself, and by column those behind it that have all its lengths."""
        data, start = self._data, self._pos
        assert isinstance(data, bytes), "columns are for many records, which are copied"
        self._read_each(self.index + 1)
        index = self.index
        width = 1 if index < _ONE_BYTE else 2 if index < _TWO_BYTES else 3
        most = (_ONE_BYTE if width == 1 else _TWO_BYTES) - index % _TWO_BYTES
        size = self._pos - start
        most = min(most, self.count - index, (len(data) - self._pos) // size)
        stamp = _after(data, start) + 1
        delta = _after(data, stamp)
        key = _after(data, delta)
        # As a rule no headers (the last byte), and a timestamp delta that is not negative and less than 8.2 s.
        if (
            (self._wanted.keyed and data[key] & 1)
            or data[self._pos - 1]
            or data[stamp] & 1
            or delta - stamp > 2
            or index > _THREE_BYTES
        ):
            self._misses += 1
            return
        if most < 2 or key - delta != width:  # here offset deltas begin to take a byte more
            return
        shift, end = self._pos - start, self._pos + most * size
        found = most
        value = _after(data, key) + max(_number(data, key), 0)
        lengths = (*range(start, stamp - 1), *range(key, _after(data, key)), *range(value, _after(data, value)))
        for place in (*lengths, self._pos - 1, *range(stamp + 1, delta), *range(delta + 2, key)):
            column = data[place + shift : end : size]
            same = data[place : place + 1]
            if column != same * found:
                found -= len(column.lstrip(same))
                end = self._pos + found * size
                if found < 2:
                    self._misses += 1
                    return
        if not self._in_order(width, data[delta + shift : end : size], data[delta + shift + 1 : end : size]):
            self._misses = _MISSES_MAX
            return
        high = data[stamp + 1] << 6 if delta - stamp == 2 else 0
        self._take(data[stamp + shift : end : size], self._base + high, size)

    def _in_order(self, width: int, low: bytes, middle: bytes) -> bool:
        """Whether the offset deltas are those due; ``low`` and ``middle`` are their first and second bytes."""
        at, found = self.index % _TWO_BYTES, len(low)
        if width == 1:
            return low == _ONE[at : at + found]
        return low == _LOW[at : at + found] and middle == (_HIGH if width == 2 else _MIDDLE)[at : at + found]

    def _take(self, stamps: bytes, base: int, size: int) -> None:
        """Count records of ``size`` bytes whose timestamp deltas differ in one byte only, those in ``stamps``."""
        last = stamps[-1]
        if last & 1 or stamps.translate(None, _UP_TO[last]):
            last = max(stamps)
            if last & 1 or stamps.translate(None, _UP_TO[last]):  # one is negative
                self._misses = _MISSES_MAX
                return
        largest = base + ((last & 127) >> 1)
        if largest > self._wanted.newest:
            self._misses = _MISSES_MAX
            return
        if largest > self.largest:
            self.largest = largest
        self.smallest = min(self.smallest, self._base)
        self._misses = 0
        self.index += len(stamps)
        self._pos += len(stamps) * size

    # ---- any records

    def _read_each(self, stop: int) -> None:
        """Read up to record ``stop`` one by one."""
        data, pos, first, number, small = self._data, self._pos, self.index, _varint, _SMALL
        keyed, low, high = self._wanted.keyed, self._low, self._high
        least, most, moved = LONG_MAX, LONG_MIN, 0
        for index in range(first, stop):
            byte = data[pos]
            if byte < 128:
                length = (byte >> 1) ^ -(byte & 1)
                pos += 1
            elif not byte & 1 and data[pos + 1] < 128:  # two bytes and positive, as most lengths are
                length = data[pos + 1] << 6 | (byte & 127) >> 1
                pos += 2
            else:
                length, pos = number(data, pos)
            end = pos + length
            since = small[data[pos + 1]]
            if since is not None:
                pos += 2
            else:
                since, pos = number(data, pos + 1, 70)
            byte = data[pos]
            if byte < 128:
                delta = (byte >> 1) ^ -(byte & 1)
                pos += 1
            elif not byte & 1 and data[pos + 1] < 128:
                delta = data[pos + 1] << 6 | (byte & 127) >> 1
                pos += 2
            else:
                delta, pos = number(data, pos)
            key_size = small[data[pos]]
            if key_size is not None:
                pos += 1
            else:
                key_size, pos = number(data, pos)
            if key_size > 0:
                pos += key_size
            byte = data[pos]
            if byte < 128:
                value_size = (byte >> 1) ^ -(byte & 1)
                pos += 1
            elif not byte & 1 and data[pos + 1] < 128:
                value_size = data[pos + 1] << 6 | (byte & 127) >> 1
                pos += 2
            else:
                value_size, pos = number(data, pos)
            if value_size > 0:
                pos += value_size
            pos = pos + 1 if not data[pos] else _skip_headers(data, pos, end)
            if pos != end:
                raise BatchError(f"Invalid record size: a record's fields end {end - pos} bytes before the record")
            moved |= delta ^ index
            if not low <= since <= high or (keyed and key_size < 0):
                self._look_at(Found(index, since, delta, key_size, value_size))
            else:
                if since < least:
                    least = since
                if since > most:
                    most = since
        self._passed(pos, stop, (least, most), moved == 0)

    def _passed(self, pos: int, index: int, deltas: tuple[int, int], in_order: bool) -> None:
        """Count records up to ``index``, with timestamps between these ``deltas`` if there were any as wanted."""
        self._pos, self.index = pos, index
        self.in_order = self.in_order and in_order
        least, most = deltas
        if least <= most:
            self.smallest, self.largest = min(self.smallest, self._base + least), max(self.largest, self._base + most)

    def _look_at(self, record: Found) -> None:
        """Judge a record (which comes with its timestamp's delta) that may not be as wanted."""
        wanted = self._wanted
        stamp = long(self._base + record.timestamp) if self._fixed is None else self._fixed
        self.largest, self.smallest = max(self.largest, stamp), min(self.smallest, stamp)
        in_range = wanted.oldest <= stamp <= wanted.newest or stamp == -1
        if wanted.none_at_all or not in_range or (wanted.keyed and record.key_size < 0):
            self.bad += 1
            if self.bad <= FOUND_MAX:
                sizes = max(record.key_size, -1), max(record.value_size, -1)
                self.found.append(Found(record.batch_index, stamp, record.offset_delta, *sizes))


def _varint(data: bytes | memoryview, pos: int, bits: int = 35) -> tuple[int, int]:
    """A zigzag varint of up to 5 bytes (10 for ``bits`` = 70) and the position after it."""
    raw = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        raw |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift == bits:
            raise BatchError("Found invalid record structure: a varint is too long")
    raw &= 0xFFFFFFFF if bits == 35 else 0xFFFFFFFFFFFFFFFF
    return (raw >> 1) ^ -(raw & 1), pos


def _number(data: bytes | memoryview, pos: int) -> int:
    return _varint(data, pos)[0]


def _after(data: bytes | memoryview, pos: int) -> int:
    """The position behind the varint at ``pos``."""
    while data[pos] > 127:
        pos += 1
    return pos + 1


def _skip_headers(data: bytes | memoryview, pos: int, end: int) -> int:
    count, pos = _varint(data, pos)
    if count < 0 or count > end - pos:
        raise BatchError(f"Found invalid number of record headers {count}")
    for _ in range(count):
        size, pos = _varint(data, pos)
        if size < 0:
            raise BatchError(f"Invalid negative header key size {size}")
        size, pos = _varint(data, pos + size)
        pos += max(size, 0)
        if pos > end:
            raise BatchError("Found invalid record structure: headers end behind the record")
    return pos
