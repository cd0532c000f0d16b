"""Reads many records at once, where they have the form that most producers write.

The common form: no headers, offset deltas that count up, timestamp deltas that are not negative and fit into two bytes,
values below 8 KB, no keys or all of one length below 64 bytes. Records of one size are read by column: a slice of every
n-th byte tells of all of them at C's speed. Others are read one after another with one ``Struct``: its size tells
what its value's length has to be. Decides nothing about records in any other form, nor what is wrong with them:
``read_common`` stops before them, and ``scan.py`` reads them one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from operator import length_hint
from struct import Struct
from struct import error as StructError

from moldau.model.named import NamedTuple
from moldau.wire.compression import BatchError
from moldau.wire.varints import varint, varint_at

Bytes = bytes | bytearray

_ONE_BYTE, _TWO_BYTES, _THREE_BYTES = 1 << 6, 1 << 13, 1 << 20
"""Numbers that are not negative and below these take one byte, or two, or three."""
_COLUMNS_MIN = 6
"""So many records of one size are worth a look by column."""
_RUN_MIN, _SHORT_RUNS_MAX = 8, 3
"""After so many runs in a row of fewer records than that, the rest is left to others: each run costs a start."""
_COLUMNS_GAIN = 10
"""By column so many times fewer work is done for a record."""
_SIZES_MAX = 1024
"""So many sizes of records in one form are kept."""

_EIGHT_BYTES = Struct("<Q").unpack_from
_SHORT_HEAD, _LONG_HEAD, _ROOM = (1 << 40) - 1, (1 << 48) - 1, 8
_ONE = bytes(range(0, 128, 2))
_LOW = bytes(range(128, 256, 2)) * 128
_HIGH = b"".join(bytes((byte,)) * 64 for byte in range(128))
_MIDDLE = b"".join(bytes((byte | 128,)) * 64 for byte in range(128))
"""The bytes of offset deltas from 0 on: the first of two or three; the second if it is the last; if it is not."""
_BYTE = tuple(bytes((byte,)) for byte in range(256))
_UP_TO = tuple(bytes(range(byte & 128, byte + 1, 2)) for byte in range(256))
"""For the last byte of a column of timestamp deltas: which bytes are not larger, and of an even zigzag number."""


class _Sizes(dict[int, tuple[int, int, int]]):
    """What the first bytes of a record in one form, as a number, say of it.

    They are the header count of the record before, the length and, behind two bytes of length, the attributes. They
    tell the record's size, its value's length as it is written, and which bits of two bytes that are. Beside both
    lengths and the value there are ``around`` bytes. KeyError when they are not those of a record in this form.
    """

    def __init__(self, around: int) -> None:
        super().__init__()
        self._around = around

    def __missing__(self, head: int) -> tuple[int, int, int]:
        written = head >> 8
        width = 1 if written < 128 else 2
        size = written >> 1 if width == 1 else (written & 127) >> 1 | (written >> 2 & 0x1FC0)
        rest = size - self._around
        is_short, is_long = 1 <= rest <= _ONE_BYTE, _ONE_BYTE + 2 <= rest < _TWO_BYTES
        if head & 255 or written & 1 or not (written < 128 or (written & 128 and written < 1 << 15)):
            raise KeyError(head)
        if not (is_short or is_long):
            raise KeyError(head)
        if len(self) >= _SIZES_MAX:
            self.clear()
        found = (width + size, 2 * (rest - 1), 0xFF) if is_short else (width + size, _two_bytes()[rest - 2], 0xFFFF)
        self[head] = found
        return found


class _Form:
    """How the fields of a record lie behind its length, with this byte as its key's length, and of so many bytes its
    timestamp delta and its offset delta.
    """

    __slots__ = ("delta_width", "key", "key_at", "sizes", "stamp_width", "unpack", "unpack_long", "value_at")

    def __init__(self, stamp: int, delta: int, key: int) -> None:
        self.key, self.stamp_width, self.delta_width = key, stamp, delta
        self.key_at = 1 + stamp + delta
        self.value_at = self.key_at + 1 + (key >> 1)
        self.sizes = _Sizes(self.value_at + 1)
        fields = f"{'BH'[stamp - 1]}{('BB', 'HB', 'HH')[delta - 1]}{key >> 1}xH"
        self.unpack = Struct("<Hx" + fields).unpack_from
        """From the byte before a record with one byte of length: what ``sizes`` takes, timestamp delta, offset delta,
        key's length, value's length. Of three bytes of offset delta the last is the lower byte of the key's length."""
        self.unpack_long = Struct("<I" + fields).unpack_from
        """What ``unpack`` takes, of a record with two bytes of length."""


_form = lru_cache(64)(_Form)


class _Alike(NamedTuple):
    """Records that begin as one does: their size with their length, bytes that are the same in all of them and where,
    where their timestamp deltas are, and whether they have keys. The size is 0 where no record begins so.
    """

    size: int
    same: tuple[tuple[int, bytes], ...]
    stamp_at: int
    keyed: bool


class _Beginnings(dict[int, _Alike]):
    """What the first bytes of a batch, up to its first record's key length, say of its records if all are alike."""

    def __missing__(self, head: int) -> _Alike:
        if len(self) >= _SIZES_MAX:
            self.clear()
        found = self[head] = _begun(head)
        return found


def _begun(head: int) -> _Alike:
    first = head.to_bytes(6, "little")
    width = 2 if head & 128 else 1
    _, stamp, delta, key = first[width : width + 4]
    none = _Alike(0, (), 0, False)
    if stamp & 129 or delta or key > 127 or (key & 1 and key != 1):
        return none
    form = _form(1, 1, key)
    try:
        size, value, mask = form.sizes[int.from_bytes(first[: 2 * width - 1], "little") << 8]
    except KeyError:
        return none
    begin = [(at, _BYTE[first[at]]) for at in (*range(width), width + form.key_at)]
    value_at = width + form.value_at
    lengths = [(value_at + at, _BYTE[value >> 8 * at & 255]) for at in range(1 if mask == 255 else 2)]
    return _Alike(size, (*begin, *lengths, (size - 1, _BYTE[0])), width + 1, key != 1)


_beginnings = _Beginnings()


def _read_few(data: Bytes, pos: int, end: int, count: int, *, keyed: bool) -> int:
    """Read all ``count`` records of a batch, 64 at most, between ``pos`` and ``end``: most batches of clients are that
    short, and their records of one size. Returns the largest timestamp delta (ms), below 64; -1 tells nothing.
    """
    (head,) = _EIGHT_BYTES(data, pos)
    size, same, stamp_at, has_keys = _beginnings[head & (_LONG_HEAD if head & 128 else _SHORT_HEAD)]
    if size * count != end - pos or (keyed and not has_keys):
        return -1
    for at, byte in same:
        if data[pos + at : end : size] != byte * count:
            return -1
    at = pos + stamp_at
    stamps = data[at:end:size]
    if data[at + 1 : end : size] != _ONE[:count] or stamps.translate(None, _ONE):
        return -1
    return max(stamps) >> 1


def _guess(data: Bytes, at: int, index: int) -> _Form | None:
    """The form of the record whose attributes are at ``at``, if it is sound; None where that is not the common one."""
    stamp = 1 if data[at + 1] < 128 else 2
    delta = 1 if index < _ONE_BYTE else 2 if index < _TWO_BYTES else 3
    key = data[at + 1 + stamp + delta]
    if key > 127 or (key & 1 and key != 1) or index >= _THREE_BYTES:
        return None
    return _form(stamp, delta, key)


def is_one_record(data: Bytes, pos: int, end: int, keyed: bool) -> bool:
    """Whether one sound record and nothing else lies from ``pos`` to ``end``, with both deltas 0, no headers, and a key
    where ``keyed``. False does not tell that something is wrong.
    """
    if not keyed:
        begin = _beginning(end - pos)
        if data[pos : pos + len(begin)] == begin:
            return not data[end - 1]
    try:
        size, pos = varint_at(data, pos)
        last = pos + size - 1
        if last != end - 1 or size < 6 or data[pos + 1] or data[pos + 2] or data[last]:
            return False
        size, pos = varint_at(data, pos + 3)
        if size > 0:
            pos += size
        elif size < 0 and keyed:
            return False
        size, pos = varint_at(data, pos)
    except (BatchError, IndexError):
        return False
    return pos + max(size, 0) == last


@lru_cache(1024)
def _beginning(size: int) -> bytes:
    """How a record of ``size`` bytes begins that has nothing but a value, up to that; impossible bytes if none has
    that size.
    """
    for width in range(1, 6):
        length = varint(size - width)
        for value_width in range(1, 6):
            value = varint(size - width - 5 - value_width)
            if len(length) == width and len(value) == value_width and not value[0] & 1:
                return length + b"\0\0\0\x01" + value
    return b"\xff" * 11


def read_common(
    data: Bytes, pos: int, end: int, index: int, stop: int, *, keyed: bool, work: int
) -> tuple[int, int, int]:
    """Read records ``index`` to ``stop`` of a batch, as far as they have the common form (with a key where ``keyed``).

    The first begins at ``pos`` (not at 0), the batch ends at ``end``. Returns the index and the position of the first
    record that was not read, and the largest timestamp delta of those that were (ms), -1 if there was none. At most
    ``work`` records of many sizes are read, or about ten times as many of one size.
    """
    largest, short = -1, 0
    if not index and _COLUMNS_MIN <= stop <= _ONE_BYTE and end - pos >= _ROOM:
        largest = _read_few(data, pos, end, stop, keyed=keyed)
        if largest >= 0:
            return stop, end, largest
    while index < stop and short < _SHORT_RUNS_MAX and work > 0:
        try:
            length = 1 if data[pos] < 128 else 2
            form = _guess(data, pos + length, index)
            if form is None or (keyed and form.key == 1):
                break
            limit = min(stop, _ONE_BYTE if index < _ONE_BYTE else index + _TWO_BYTES - index % _TWO_BYTES)
            first = (form.unpack if length == 1 else form.unpack_long)(data, pos - 1)
            size = form.sizes[first[0] & -256][0]
            found = min(limit - index, (end - pos) // size)
            read = 0
            if found >= _COLUMNS_MIN and data[pos : pos + length] == data[pos + size : pos + size + length]:
                read, after, stamp = _read_alike(data, pos, form, index, (length, size, found))
                work -= read // _COLUMNS_GAIN
            if not read:
                read, after, stamp = _read_varied(data, pos, form, index, min(limit, index + work))
                work -= read
        except (KeyError, IndexError, StructError):
            break
        if not read or after > end or data[after - 1]:
            break
        largest = max(largest, stamp)
        index += read
        pos = after
        short = short + 1 if read < _RUN_MIN else 0
    return index, pos, largest


def _read_alike(data: Bytes, pos: int, form: _Form, index: int, lengths: tuple[int, int, int]) -> tuple[int, int, int]:
    """Read records that have the size of the first by column: how many, where they end, the largest timestamp delta.

    ``lengths`` are of the first's length, of the whole record, and how many of them lie in the data. None are read
    where it is not worth it.
    """
    length, size, found = lengths
    at, width, block = pos + length, form.delta_width, index % _TWO_BYTES
    head, stamp, _, key, value = (form.unpack if length == 1 else form.unpack_long)(data, pos - 1)
    _, wanted, mask = form.sizes[head & -256]
    if (
        value & mask != wanted
        or (width == 3 and key & 255 != index >> 13)
        or (form.stamp_width == 2 and stamp > 0x7FFF)
    ):
        return 0, pos, -1
    delta_at = at + 1 + form.stamp_width
    places = [pos, at + form.key_at, at + form.value_at, pos + size - 1]
    if length == 2:
        places.append(pos + 1)
    if mask > 255:
        places.append(at + form.value_at + 1)
    if width == 3:
        places.append(delta_at + 2)
    if form.stamp_width == 2:
        places.append(at + 2)
    stop = pos + found * size
    for place in places:
        column = data[place:stop:size]
        same = _BYTE[data[place]]
        if column != same * found:
            found -= len(column.lstrip(same))
            if found < _COLUMNS_MIN:
                return 0, pos, -1
            stop = pos + found * size
    deltas = data[delta_at:stop:size]
    if width == 1:
        in_order = deltas == _ONE[index : index + found]
    else:
        high = (_HIGH if width == 2 else _MIDDLE)[block : block + found]
        in_order = deltas == _LOW[block : block + found] and data[delta_at + 1 : stop : size] == high
    stamps = data[at + 1 : stop : size]
    last = stamps[-1]
    if last & 1 or stamps.translate(None, _UP_TO[last]):
        last = max(stamps)
        if last & 1 or stamps.translate(None, _UP_TO[last]):  # one is negative
            return 0, pos, -1
    if not in_order or (last > 127) != (form.stamp_width == 2):
        return 0, pos, -1
    return found, stop, last >> 1 if last < 128 else stamp >> 8 << 6 | (last & 127) >> 1


def _read_varied(data: Bytes, pos: int, form: _Form, index: int, limit: int) -> tuple[int, int, int]:
    """Read records that differ in nothing but their sizes, as ``_read_alike`` does.

    They may end behind the data, and the last may have headers: whoever calls looks at that.
    """
    one, two, sizes, key = form.unpack, form.unpack_long, form.sizes, form.key
    if form.delta_width == 3:
        key = key << 8 | index >> 13
    deltas = iter(_deltas(index, limit, form.delta_width))
    head, stamp, delta, key_found, value = (one if data[pos] < 128 else two)(data, pos - 1)
    size, wanted, mask = sizes[head & -256]
    if value & mask != wanted or delta != next(deltas) or key_found != key:
        return 0, pos, -1
    at, left = pos - 1 + size, -1
    last = most = bits = ones = stamp
    try:
        for due in deltas:
            head, stamp, delta, key_found, value = (one if data[at + 1] < 128 else two)(data, at)
            size, wanted, mask = sizes[head]
            if value & mask != wanted or delta != due or key_found != key:
                left = length_hint(deltas)
                break
            if stamp != last:
                last = stamp
                bits |= stamp
                ones &= stamp
                if stamp > most:
                    most = stamp
            at += size
    except (KeyError, IndexError, StructError):  # the next is in another form, or there is none
        left = length_hint(deltas)
    read = limit - index - left - 1
    if form.stamp_width == 1:
        return (read, at + 1, most >> 1) if not bits & 0x81 else (0, pos, -1)
    return (read, at + 1, most >> 8 << 6 | (most & 127) >> 1) if not bits & 0x8001 and ones & 128 else (0, pos, -1)


@cache
def _two_bytes() -> tuple[int, ...]:
    return tuple(low | high << 8 for low, high in zip(_LOW, _HIGH, strict=True))


def _deltas(index: int, limit: int, width: int) -> Sequence[int]:
    """Offset deltas from ``index`` on as the first two bytes of ``width``, or the only one."""
    if width == 1:
        return range(2 * index, 2 * limit, 2)
    at = index % _TWO_BYTES
    deltas = _two_bytes()[at : at + limit - index]
    return deltas if width == 2 else [delta | 0x8000 for delta in deltas]
