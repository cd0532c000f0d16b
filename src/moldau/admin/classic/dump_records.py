"""Records of a batch as Kafka 4.3.1's reader reads them, damaged ones too: as many as it reads, and its words then."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from moldau.admin.classic.dump_streams import (
    END_OF_FILE,
    HEAP_BYTES,
    KAFKA_EXCEPTION,
    UNDERFLOW,
    StreamError,
    Unpacked,
    out_of_memory,
    unpacked,
)
from moldau.admin.classic.java import ILLEGAL_ARGUMENT, JavaError, illegal_argument
from moldau.admin.classic.java_values import java_text
from moldau.wire.batch import HEADER_SIZE, BatchHeader, Record, records
from moldau.wire.compression import BatchError
from moldau.wire.varints import long

INVALID_RECORD = "org.apache.kafka.common.InvalidRecordException"
OUT_OF_BOUNDS = "java.lang.IndexOutOfBoundsException"
_OBJECT_BYTES = 128
"""About what a record takes in a JVM beside its own bytes."""
_TOO_FEW = "Incorrect declared batch size, premature EOF reached"
_TOO_MANY = "Incorrect declared batch size, records still remaining in file"


def batch_records(header: BatchHeader, data: bytes) -> Iterator[Record]:
    """The records of a batch; JavaError before the first one where a packed batch is not sound, and else where it is
    met."""
    try:
        found = list(records(data))
    except BatchError:
        return _as_read(header, data)
    return iter(found)


def _as_read(header: BatchHeader, data: bytes) -> Iterator[Record]:
    if len(data) < HEADER_SIZE:
        raise JavaError(OUT_OF_BOUNDS, None)
    if not header.count:
        return iter(())
    if header.codec:
        return iter(_packed_records(header, data[HEADER_SIZE:]))
    _check_count(header)
    return _plain_records(header, data)


def _check_count(header: BatchHeader) -> None:
    if header.count < 0:
        text = f"Found invalid record count {header.count} in magic v{header.magic} batch"
        raise JavaError(INVALID_RECORD, text)


def _plain_records(header: BatchHeader, data: bytes) -> Iterator[Record]:
    buffer = _Buffer(data, HEADER_SIZE)
    for number in range(1, header.count + 1):
        try:
            size = buffer.varint()
        except JavaError as error:
            if error.kind == UNDERFLOW:
                raise JavaError(INVALID_RECORD, _TOO_FEW) from None
            raise
        if buffer.left < size:
            how = f"in record payload, but instead the buffer has only {buffer.left} remaining bytes."
            raise JavaError(INVALID_RECORD, f"Invalid record size: expected {size} bytes {how}")
        record = _record(header, buffer, size)
        if number == header.count and buffer.left:
            raise JavaError(INVALID_RECORD, _TOO_MANY)
        yield record


def _packed_records(header: BatchHeader, payload: bytes) -> list[Record]:
    stream = unpacked(header.codec, payload, HEADER_SIZE)
    _check_count(header)
    if header.count * 4 > HEAP_BYTES:
        raise out_of_memory(header.count)
    found: list[Record] = []
    held = 0
    while len(found) < header.count:
        try:
            size, record = _packed_record(header, stream, HEAP_BYTES - held)
            found.append(record)
            held += size + _OBJECT_BYTES
        except StreamError as error:
            if error.kind == END_OF_FILE:
                raise JavaError(INVALID_RECORD, _TOO_FEW, error) from None
            raise JavaError(KAFKA_EXCEPTION, "Failed to decompress record stream", error) from None
        except JavaError as error:
            if error.kind == ILLEGAL_ARGUMENT:
                raise JavaError(INVALID_RECORD, _TOO_FEW, error) from None
            raise
    try:
        more = stream.byte() >= 0
    except StreamError as error:
        text = "Error checking for remaining bytes after reading batch"
        raise JavaError(KAFKA_EXCEPTION, text, error) from None
    if more:
        raise JavaError(INVALID_RECORD, _TOO_MANY)
    return found


def _packed_record(header: BatchHeader, stream: Unpacked, left: int) -> tuple[int, Record]:
    """A record and its bytes, of which the tool's JVM has so many ``left``."""
    size = _signed(_unsigned(lambda: stream.byte() & 0xFF))
    if size < 0:
        raise illegal_argument(f"capacity < 0: ({size} < 0)")
    if size > left:
        raise out_of_memory(size)
    body = stream.take(size)
    if len(body) < size:
        how = "in record payload, but the record payload reached EOF."
        raise JavaError(INVALID_RECORD, f"Invalid record size: expected {size} bytes {how}")
    return size, _record(header, _Buffer(body, 0), size)


def _record(header: BatchHeader, buffer: _Buffer, size: int) -> Record:
    start = buffer.at
    try:
        buffer.byte()  # attributes, of which none is in use
        timestamp = long(header.base_timestamp + buffer.varlong())
        offset = long(header.base_offset + buffer.varint())
        key = buffer.sized()
        value = buffer.sized()
        count = buffer.varint()
        if count < 0:
            raise JavaError(INVALID_RECORD, f"Found invalid number of record headers {count}")
        if count > buffer.left:
            how = f"{count} is larger than the remaining size of the buffer"
            raise JavaError(INVALID_RECORD, f"Found invalid number of record headers. {how}")
        headers = [buffer.header() for _ in range(count)]
        if (taken := buffer.at - start) != size:
            text = f"Invalid record size: expected to read {size} bytes in record payload, but instead read {taken}"
            raise JavaError(INVALID_RECORD, text)
    except JavaError as error:
        if error.kind in (UNDERFLOW, ILLEGAL_ARGUMENT):
            raise JavaError(INVALID_RECORD, "Found invalid record structure", error) from None
        raise
    if header.is_log_append_time:
        timestamp = header.max_timestamp
    return Record(offset, timestamp, key, value, headers)


class _Buffer:
    """Bytes that are read one after the other, as from a ByteBuffer of Java's."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self.at = at

    @property
    def left(self) -> int:
        return len(self._data) - self.at

    def byte(self) -> int:
        if self.at >= len(self._data):
            raise JavaError(UNDERFLOW, None)
        self.at += 1
        return self._data[self.at - 1]

    def varint(self) -> int:
        return _signed(_unsigned(self.byte))

    def varlong(self) -> int:
        raw = 0
        for shift in range(0, 70, 7):
            byte = self.byte()
            raw |= (byte & 127) << shift
            if byte < 128:
                raw &= 0xFFFFFFFFFFFFFFFF
                return (raw >> 1) ^ -(raw & 1)
        text = "Varlong is too long, most significant bit in the 10th byte is set, converted value: "
        raise illegal_argument(f"{text}{raw & 0xFFFFFFFFFFFFFFFF:x}")

    def sized(self) -> bytes | None:
        size = self.varint()
        return None if size < 0 else self.take(size)

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise illegal_argument(f"newLimit > capacity: ({size} > {self.left})")
        self.at += size
        return self._data[self.at - size : self.at]

    def header(self) -> tuple[str, bytes | None]:
        size = self.varint()
        if size < 0:
            raise JavaError(INVALID_RECORD, f"Invalid negative header key size {size}")
        return java_text(self.take(size)), self.sized()


def _unsigned(byte: Callable[[], int]) -> int:
    """A varint's bits; JavaError when it has more than 32, and when ``byte`` raises one."""
    raw = 0
    for shift in range(0, 35, 7):
        one = byte()
        raw |= (one & 127) << shift
        if one < 128:
            return raw & 0xFFFFFFFF
    text = "Varint is too long, the most significant bit in the 5th byte is set, converted value: "
    raise illegal_argument(f"{text}{(raw | one << 28) & 0xFFFFFFFF:x}")


def _signed(raw: int) -> int:
    return (raw >> 1) ^ -(raw & 1)
