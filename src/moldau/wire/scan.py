"""Goes through the records of a batch without making objects of them: what a leader must know before it takes them.

Decides whether the records' structure is sound, as Apache Kafka's DefaultRecord reads it, whether offset deltas count
up from 0, and which timestamps and absent keys there are. Does not decide what of it is refused: see
``storage/log_validator.py``. Many records in the common form are read at once (``common_form.py``), all others one by
one, in steps as long as the caller wants.
"""

from __future__ import annotations

from moldau.model.named import NamedTuple
from moldau.wire.batch import BatchHeader
from moldau.wire.common_form import read_common
from moldau.wire.compression import BatchError
from moldau.wire.varints import LONG_MAX, LONG_MIN, long, varint_at

FOUND_MAX = 1000
"""So many records that need a second look are kept; more are only counted."""
_COMMON_MIN, _MISSES_MAX = 4, 3
"""After so many attempts in a row that found fewer records than that in the common form, no more are made."""
_COMMON_GAIN = 3
"""By one of them at least so many times fewer work is done than by any record."""
_SMALL = tuple((byte >> 1) ^ -(byte & 1) if byte < 128 else None for byte in range(256))
"""The numbers that take one byte."""


class ScannedRecord(NamedTuple):
    """A record that the caller has to look at: place in the batch, timestamp (ms), and sizes, -1 for null."""

    batch_index: int
    timestamp: int
    offset_delta: int
    key_size: int
    value_size: int


class RecordBounds(NamedTuple):
    """What a record must be: its timestamp (ms) in ``oldest`` to ``newest`` or -1, and with a key where ``keyed``."""

    keyed: bool = False
    oldest: int = LONG_MIN
    newest: int = LONG_MAX
    none_at_all: bool = False
    """Every record is kept in ``found``."""


class Scan:
    """One walk over the unpacked records of a batch: ``run`` until ``done``.

    ``found`` holds the records that are not as ``wanted``, up to FOUND_MAX of them; ``bad`` is how many there are.
    ``largest`` and ``smallest`` are timestamps in ms; the smallest may be told as less than it is. ``in_order`` tells
    whether offset deltas are 0, 1, 2 and so on.
    """

    __slots__ = (
        "_base", "_data", "_fixed", "_high", "_low", "_misses", "_pos", "_wanted", "bad", "count", "done", "found",
        "in_order", "index", "largest", "smallest",
    )  # fmt: skip

    def __init__(self, header: BatchHeader, data: bytes, wanted: RecordBounds) -> None:
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
        self.found: list[ScannedRecord] = []
        self.bad = 0

    def run(self, work: int = LONG_MAX) -> None:
        """Read on: at most about ``work`` records one by one, or some more in the common form (default: all).

        BatchError when the records are not sound.
        """
        count = self.count
        try:
            while self.index < count and work > 0:
                before = self.index
                if self._misses < _MISSES_MAX and self._pos:  # ``read_common`` wants to see the byte before
                    work -= self._read_common(work)
                    if self.index > before:
                        continue
                stop = before + work if self._misses >= _MISSES_MAX else before + 1
                self._read_each(min(count, stop))
                work -= self.index - before
        except IndexError:
            raise BatchError("Found invalid record structure: the records are cut short") from None
        if self.index >= count:
            self.done = True
            if self._pos != len(self._data):
                raise BatchError("Incorrect declared batch size, records still remaining in file")

    # ---- records in the common form

    def _read_common(self, work: int) -> int:
        """Read records in the common form, if there are any; how much work it was."""
        data, before = self._data, self.index
        most = min(work * _COMMON_GAIN, LONG_MAX)
        index, pos, largest = read_common(
            data, self._pos, len(data), before, self.count, keyed=self._wanted.keyed, work=most
        )
        if largest > self._high:  # the one that is too new is found one by one
            self._misses = _MISSES_MAX
            return 1
        self._misses = 0 if index - before >= _COMMON_MIN else self._misses + 1
        if index > before:
            self._passed(pos, index, (0, largest), True)
        return 1 + (index - before) // _COMMON_GAIN

    # ---- any records

    def _read_each(self, stop: int) -> None:
        """Read up to record ``stop`` one by one."""
        data, pos, first, number, small = self._data, self._pos, self.index, varint_at, _SMALL
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
                self._look_at(ScannedRecord(index, since, delta, key_size, value_size))
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

    def _look_at(self, record: ScannedRecord) -> None:
        """Judge a record (which comes with its timestamp's delta) that may not be as wanted."""
        wanted = self._wanted
        stamp = long(self._base + record.timestamp) if self._fixed is None else self._fixed
        self.largest, self.smallest = max(self.largest, stamp), min(self.smallest, stamp)
        in_range = wanted.oldest <= stamp <= wanted.newest or stamp == -1
        if wanted.none_at_all or not in_range or (wanted.keyed and record.key_size < 0):
            self.bad += 1
            if self.bad <= FOUND_MAX:
                sizes = max(record.key_size, -1), max(record.value_size, -1)
                self.found.append(ScannedRecord(record.batch_index, stamp, record.offset_delta, *sizes))


def _skip_headers(data: bytes, pos: int, end: int) -> int:
    count, pos = varint_at(data, pos)
    if count < 0 or count > end - pos:
        raise BatchError(f"Found invalid number of record headers {count}")
    for _ in range(count):
        size, pos = varint_at(data, pos)
        if size < 0:
            raise BatchError(f"Invalid negative header key size {size}")
        size, pos = varint_at(data, pos + size)
        pos += max(size, 0)
        if pos > end:
            raise BatchError("Found invalid record structure: headers end behind the record")
    return pos
