"""Messages of the formats v0 and v1, which Kafka wrote before 0.11, as Kafka 4.3.1's reader reads them.

A batch of which the byte for the format has rotted is taken for one, too. A message stands for itself, or is a wrapper
whose value holds packed messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from zlib import crc32

from moldau.admin.classic.dump_records import INVALID_RECORD, OUT_OF_BOUNDS
from moldau.admin.classic.dump_streams import HEAP_BYTES, KAFKA_EXCEPTION, StreamError, out_of_memory, unpacked
from moldau.admin.classic.java import JavaError, illegal_argument
from moldau.admin.classic.kafka_errors import PACKAGE
from moldau.model.named import NamedTuple
from moldau.wire.varints import long

LEAST_SIZE = 14
"""Checksum, format, attributes and two lengths: the least of any message."""
_OFFSET_AND_SIZE, _INT, _LONG, _CRC = Struct(">qi"), Struct(">i"), Struct(">q"), Struct(">I")
_CODEC_MASK, _LOG_APPEND, _ZSTD = 7, 8, 4


class DumpedMessage(NamedTuple):
    """A message at its offset; ``data`` begins with its checksum."""

    last_offset: int
    data: bytes

    @property
    def size(self) -> int:
        return _OFFSET_AND_SIZE.size + len(self.data)

    @property
    def magic(self) -> int:
        """The format: 0 or 1, or what cannot be."""
        return int.from_bytes(self.data[4:5], signed=True)

    @property
    def codec(self) -> int:
        return self.data[5] & _CODEC_MASK

    @property
    def crc(self) -> int:
        return int(_CRC.unpack_from(self.data)[0])

    @property
    def is_valid(self) -> bool:
        return crc32(self.data[4:]) == self.crc

    @property
    def stamped(self) -> str:
        """What kind of time it bears."""
        if self.magic == 0:
            return "NoTimestampType"
        return "LogAppendTime" if self.data[5] & _LOG_APPEND else "CreateTime"

    @property
    def timestamp(self) -> int:
        return -1 if self.magic == 0 else self._number(_LONG, 6)

    @property
    def key_size(self) -> int:
        return self._number(_INT, self._key_at)

    @property
    def value_size(self) -> int:
        return self._number(_INT, self._value_at)

    @property
    def key(self) -> bytes | None:
        return self._field(self._key_at)

    @property
    def value(self) -> bytes | None:
        return self._field(self._value_at)

    @property
    def _key_at(self) -> int:
        return 6 if self.magic == 0 else 14

    @property
    def _value_at(self) -> int:
        return self._key_at + _INT.size + max(self.key_size, 0)

    def _number(self, kind: Struct, at: int) -> int:
        if at >= 1 << 31 or at + kind.size > len(self.data):
            raise JavaError(OUT_OF_BOUNDS, None)
        return int(kind.unpack_from(self.data, at)[0])

    def _field(self, at: int) -> bytes | None:
        size = self._number(_INT, at)
        if size < 0:
            return None
        at += _INT.size
        if size > len(self.data) - at:
            raise illegal_argument(f"newLimit > capacity: ({size} > {len(self.data) - at})")
        return self.data[at : at + size]


class ShownMessage(NamedTuple):
    """A message as it is told: the time of one in a wrapper may be the wrapper's."""

    offset: int
    timestamp: int
    message: DumpedMessage


def messages_of(outer: DumpedMessage) -> Iterator[ShownMessage]:
    """The message itself, or those it wraps; JavaError when it cannot be unpacked, or at one that is packed again."""
    if not outer.codec:
        yield ShownMessage(outer.last_offset, outer.timestamp, outer)
        return
    if outer.codec == _ZSTD:
        text = f"Invalid wrapper compressionType found in legacy deep record iterator {outer.magic}"
        raise JavaError(INVALID_RECORD, text)
    if (value := outer.value) is None:
        text = f"Found invalid compressed record set with null value (magic = {outer.magic})"
        raise JavaError(INVALID_RECORD, text)
    try:
        inner = _inner(outer, value)
    except StreamError as error:
        raise JavaError(KAFKA_EXCEPTION, str(error), error) from None
    if not inner:
        raise JavaError(INVALID_RECORD, "Found invalid compressed record set with no inner records")
    first = 0  # offsets of v1 count from the wrapper's first message, if the wrapper has an offset
    if outer.magic == 1 and outer.last_offset:
        first = outer.last_offset - inner[-1].last_offset
        if first < 0:
            offsets = f"wrapper offset '{outer.last_offset}' is less than the last inner message offset"
            text = f"{offsets} '{inner[-1].last_offset}' and it is not zero."
            raise JavaError(INVALID_RECORD, f"Found invalid wrapper offset in compressed v1 message set, {text}")
    for one in inner:
        yield _told(outer, one, first)


def _inner(outer: DumpedMessage, value: bytes) -> list[DumpedMessage]:
    stream, found = unpacked(outer.codec, value, outer.size - len(value)), []
    while len(head := stream.take(_OFFSET_AND_SIZE.size)) == _OFFSET_AND_SIZE.size:
        offset, size = _OFFSET_AND_SIZE.unpack(head)
        if size < LEAST_SIZE:
            text = f"Record size is less than the minimum record overhead ({LEAST_SIZE})"
            raise JavaError(f"{PACKAGE}CorruptRecordException", text)
        if size > HEAP_BYTES:
            raise out_of_memory(size)
        if len(body := stream.take(size)) < size:
            break
        found.append(DumpedMessage(offset, body))
    return found


def _told(outer: DumpedMessage, inner: DumpedMessage, first: int) -> ShownMessage:
    if inner.codec:
        raise JavaError(INVALID_RECORD, "Inner messages must not be compressed")
    timestamp = inner.timestamp
    if inner.magic == 1 and outer.stamped == "LogAppendTime":
        timestamp = outer.timestamp
    return ShownMessage(long(first + inner.last_offset), timestamp, inner)
