"""Record batches, format v2: reads headers, checks integrity, patches what a leader assigns, builds and reads records.

Decides whether bytes are a sound batch. Does not decide what a batch means to a log: sequence checks, timestamps policy
and size limits belong to the caller. A broker touches only headers (61 bytes, one Struct); records are read by clients,
by replays of Moldau's own logs and by compaction. Every length is checked against the bytes at hand before it is used.
Format: KIP-98 and the protocol guide, "Record Batch"; control records: KIP-98, KIP-630, KIP-853.
Read next: compression.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, TypedDict, Unpack

from moldau.model import Code
from moldau.model.named import NamedTuple
from moldau.wire.compression import BatchError, Buffer, Codec, compress, decompress
from moldau.wire.crc import crc32c
from moldau.wire.varints import LONG_MAX, LONG_MIN, long, varint, varint_at

HEADER_SIZE = 61
LENGTH_OVERHEAD = 12  # base offset and length itself are not counted in the length
MIN_LENGTH = HEADER_SIZE - LENGTH_OVERHEAD
MIN_RECORD_SIZE = 7  # length, attributes, two deltas, two absent fields, no headers: one byte each
MAX_LENGTH = 0x7FFFFFFF

_HEADER = Struct(">qiibIhiqqqhii")
_OFFSET_EPOCH = (Struct(">q"), Struct(">i"))
_CRC = Struct(">I")
_LENGTH, _LENGTH_AT = Struct(">i"), 8
CRC_FROM = 21  # the CRC covers attributes to the end, so a leader may assign offset and epoch without touching it
_CONTROL_KEY = Struct(">hh")

_CODEC_MASK, _LOG_APPEND, _TRANSACTIONAL, _CONTROL, _DELETE_HORIZON = 0x07, 0x08, 0x10, 0x20, 0x40

Header = tuple[str, bytes | None]
Entry = tuple[int, bytes | None, bytes | None, Sequence[Header]]


class ControlType(IntEnum):
    """What a control record says (second field of its key)."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class BatchHeader(NamedTuple):
    """The fixed 61 bytes of a batch; ``length`` counts from after itself, timestamps are ms since the epoch."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # Kafka's noun wins over tuple.count

    @property
    def size(self) -> int:
        """Bytes from the base offset to the end of the last record."""
        return self.length + LENGTH_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """The compression type's number; not every number is a Codec in a batch that was not checked."""
        return self.attributes & _CODEC_MASK

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & _CONTROL)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_log_append_time(self) -> bool:
        """Every record's timestamp is ``max_timestamp``."""
        return bool(self.attributes & _LOG_APPEND)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones of a compacted batch may go (KIP-534); it stands in place of the base timestamp."""
        return self.base_timestamp if self.attributes & _DELETE_HORIZON else None

    @property
    def last_sequence(self) -> int:
        """The last record's sequence number, which wraps from 2^31-1 to 0; -1 without a producer."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


class Record(NamedTuple):
    """One record of a batch; the timestamp in ms since the epoch."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[Header]


def read_header(buffer: Buffer, pos: int = 0) -> BatchHeader:
    """The header at ``pos``; the caller made sure that 61 bytes are there."""
    return BatchHeader._make(_HEADER.unpack_from(buffer, pos))


def headers(buffer: Buffer, start: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each whole batch from ``start`` on.

    Stops quietly at a partial last batch and at a length no batch can have; whoever must tell the difference compares
    the last position plus size with the end of the buffer. Nothing but lengths is looked at: see ``check``.
    """
    unpack, make = _HEADER.unpack_from, BatchHeader._make
    pos, end = start, len(buffer)
    while pos + HEADER_SIZE <= end:
        header = make(unpack(buffer, pos))
        after = pos + LENGTH_OVERHEAD + header.length
        if header.length < MIN_LENGTH or after > end:
            return
        yield pos, header
        pos = after


def positions(buffer: Buffer) -> list[int]:
    """Where each whole batch begins, and at last where the last one ends: by lengths alone, as far as ``headers`` goes.

    [0] when there is no whole batch. No header is made.
    """
    unpack, found = _LENGTH.unpack_from, [0]
    put, pos, end = found.append, 0, len(buffer)
    while pos + HEADER_SIZE <= end:
        (length,) = unpack(buffer, pos + _LENGTH_AT)
        pos += LENGTH_OVERHEAD + length
        if length < MIN_LENGTH or pos > end:
            break
        put(pos)
    return found


def check(buffer: Buffer, pos: int, header: BatchHeader) -> Code:
    """NONE, or CORRUPT_MESSAGE when length, magic or checksum of the batch at ``pos`` is wrong. Unpacks nothing."""
    end = pos + LENGTH_OVERHEAD + header.length
    if header.length < MIN_LENGTH or end > len(buffer) or header.magic != 2:
        return Code.CORRUPT_MESSAGE
    if crc32c(memoryview(buffer)[pos + CRC_FROM : end]) != header.crc:
        return Code.CORRUPT_MESSAGE
    return Code.NONE


def patch(buffer: bytearray | memoryview, pos: int, base_offset: int, leader_epoch: int) -> None:
    """Write what a leader assigns into the batch at ``pos``; both fields stand outside the checksum."""
    offset_at, epoch_at = _OFFSET_EPOCH
    offset_at.pack_into(buffer, pos, base_offset)
    epoch_at.pack_into(buffer, pos + LENGTH_OVERHEAD, leader_epoch)


if TYPE_CHECKING:  # typing compiles each field of such a class when it is made

    class Fields(TypedDict, total=False):
        """What a new batch's header says of its records; ``sealed`` has what is said of those that are left out."""

        codec: int
        base_offset: int
        leader_epoch: int
        producer_id: int
        producer_epoch: int
        base_sequence: int
        control: bool
        transactional: bool
        log_append_time: bool


class Builder:
    """Collects records into one batch, so that a producer can fill it while it waits.

    Records are encoded as they come; ``size`` is the batch's size if it were closed now without compression.
    """

    __slots__ = ("_base", "_max", "_parts", "count", "size")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._base = self._max = -1
        self.count = 0
        self.size = HEADER_SIZE

    def append(self, timestamp: int, key: bytes | None, value: bytes | None, headers: Iterable[Header] = ()) -> int:
        """Add a record (timestamp in ms); its offset within the batch."""
        delta = self.count
        if not delta:
            self._base = self._max = timestamp
        elif timestamp > self._max:
            self._max = timestamp
        since = timestamp - self._base
        body = [
            b"\x00",
            _POSITIVE[since] if 0 <= since < _TABLE else varint(since),
            _POSITIVE[delta] if delta < _TABLE else varint(delta),
        ]
        _put(body, key)
        _put(body, value)
        if headers:
            _put_headers(body, headers)
        else:
            body.append(b"\x00")
        size = sum(map(len, body))
        prefix = _POSITIVE[size] if size < _TABLE else varint(size)
        self._parts.append(prefix)
        self._parts += body
        self.size += size + len(prefix)
        self.count = delta + 1
        return delta

    def stamp(self, timestamp: int) -> None:
        """Give all records, which were added with the same time, another one."""
        assert self._base == self._max, "records of several times cannot get one"
        self._base = self._max = timestamp

    def finish(self, **fields: Unpack[Fields]) -> bytes:
        """The batch's bytes; ValueError when it has no record. The builder stays, so it can be re-stamped."""
        if not self.count:
            raise ValueError("a batch needs at least one record")
        return sealed(b"".join(self._parts), self.count, (self._base, self._max), **fields)


def sealed(
    payload: Buffer,
    count: int,
    timestamps: tuple[int, int],
    *,
    codec: int = Codec.NONE,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    control: bool = False,
    transactional: bool = False,
    log_append_time: bool = False,
) -> bytes:
    """A batch of ``count`` records that are encoded in ``payload``, with their first and their largest timestamp.

    ValueError when it would be longer than a batch can be.
    """
    if codec:
        payload = compress(codec, payload)
    attributes = codec | (_TRANSACTIONAL if transactional else 0) | (_CONTROL if control else 0)
    if log_append_time:
        attributes |= _LOG_APPEND
    length = MIN_LENGTH + len(payload)
    if length > MAX_LENGTH:
        raise ValueError(f"a batch of {length} bytes cannot be written: its length is an int32")
    head = bytearray(HEADER_SIZE)
    _HEADER.pack_into(
        head, 0, base_offset, length, leader_epoch, 2, 0, attributes, count - 1, *timestamps,
        producer_id, producer_epoch, base_sequence, count,
    )  # fmt: skip
    _CRC.pack_into(head, 17, crc32c(payload, crc32c(memoryview(head)[CRC_FROM:])))
    return b"".join((head, payload))


def build(records: Iterable[Entry], **fields: Unpack[Fields]) -> bytes:
    """One batch of (timestamp, key, value, headers); ValueError when there is no record."""
    builder = Builder()
    append = builder.append
    for timestamp, key, value, headers in records:
        append(timestamp, key, value, headers)
    return builder.finish(**fields)


def control_key(type: int, version: int = 0) -> bytes:
    """The key of a control record."""
    return _CONTROL_KEY.pack(version, type)


def control_type(key: bytes | None) -> int:
    """The type in a control record's key (not every number is a ControlType); BatchError when there is none."""
    if key is None or len(key) < 4:
        raise BatchError("a control record without a type in its key")
    version, type = _CONTROL_KEY.unpack_from(key)
    if version < 0:
        raise BatchError(f"a control record with key version {version}")
    return int(type)


def payload(buffer: Buffer, pos: int = 0) -> tuple[BatchHeader, bytes]:
    """Header and unpacked records of the batch at ``pos``; BatchError when it is cut short, not v2 or does not unpack.

    The checksum is not looked at (see ``check``).
    """
    header, packed = packed_payload(buffer, pos)
    data = decompress(header.codec, packed)
    check_count(header, data)
    return header, data


def packed_payload(buffer: Buffer, pos: int = 0) -> tuple[BatchHeader, memoryview]:
    """Header and records, packed as they are, of the batch at ``pos``; BatchError when it is cut short or not v2."""
    if pos + HEADER_SIZE > len(buffer):
        raise BatchError("a batch is cut short in its header")
    header = read_header(buffer, pos)
    end = pos + LENGTH_OVERHEAD + header.length
    if header.magic != 2:
        raise BatchError(f"a batch of format {header.magic}: only format 2 is read")
    if header.length < MIN_LENGTH or end > len(buffer):
        raise BatchError(f"a batch of {header.length} bytes is cut short or malformed")
    return header, memoryview(buffer)[pos + HEADER_SIZE : end]


def check_count(header: BatchHeader, data: bytes) -> None:
    """BatchError when the unpacked ``data`` cannot be as many records as the header claims."""
    if header.count < 0 or header.count * MIN_RECORD_SIZE > len(data):
        raise BatchError(f"a batch claims {header.count} records in {len(data)} bytes")


def renumbered(plain: bytes, header: BatchHeader, codec: int) -> bytes:
    """The records of ``plain`` (a batch whose payload is unpacked) as a batch with offsets that count up, in ``codec``.

    Producer and timestamps stay; attributes are a client's own.
    """
    found = records_of(header._replace(attributes=0), plain[HEADER_SIZE:])
    return build(
        ((record.timestamp, record.key, record.value, record.headers) for record in found),
        codec=codec,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
    )


def records(buffer: Buffer, pos: int = 0) -> Iterator[Record]:
    """The records of the batch at ``pos``; BatchError, at the call or while iterating, when it is not sound."""
    return records_of(*payload(buffer, pos))


def records_of(header: BatchHeader, data: bytes) -> Iterator[Record]:
    """The records in the unpacked ``data`` of a batch; BatchError while iterating when they are not sound."""
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    appended = header.max_timestamp if header.is_log_append_time else None
    number, make = varint_at, Record._make
    pos, size = 0, len(data)
    try:
        for _ in range(header.count):
            length, pos = number(data, pos)
            end = pos + length
            if length < 0 or end > size:
                raise BatchError(f"a record of {length} bytes in a batch with {size - pos} left")
            since, pos = number(data, pos + 1, 70)
            delta, pos = number(data, pos)
            if data[pos] == 1:  # the zigzag of -1, spelled out: most keys are null
                key = None
                pos += 1
            else:
                key, pos = _read_bytes(data, pos, end)
            value, pos = _read_bytes(data, pos, end)
            if data[pos] == 0:
                found: list[Header] = []
                pos += 1
            else:
                found, pos = _read_headers(data, pos, end)
            if pos != end:
                raise BatchError(f"a record's fields end {end - pos} bytes before the record")
            stamp = base_timestamp + since if appended is None else appended
            if not LONG_MIN <= stamp <= LONG_MAX:  # wraps, as in Java, lest one record end whoever packs it again
                stamp = long(stamp)
            yield make((base_offset + delta, stamp, key, value, found))
    except IndexError:
        raise BatchError("a batch's records are cut short") from None
    if pos != size:
        raise BatchError(f"{size - pos} bytes follow the last of {header.count} records")


def _read_bytes(data: bytes, pos: int, end: int) -> tuple[bytes | None, int]:
    """Length and bytes, all before ``end``; null is -1, and to Apache Kafka any negative length."""
    size, pos = varint_at(data, pos)
    if size < 0:
        return None, pos
    after = pos + size
    if after > end:
        raise BatchError(f"a field of {size} bytes in a record with {end - pos} left")
    return data[pos:after], after


def _read_headers(data: bytes, pos: int, end: int) -> tuple[list[Header], int]:
    count, pos = varint_at(data, pos)
    if count < 0 or count * 2 > end - pos:
        raise BatchError(f"a record claims {count} headers in {end - pos} bytes")
    found: list[Header] = []
    for _ in range(count):
        key, pos = _read_bytes(data, pos, end)
        if key is None:
            raise BatchError("a record header without a key")
        value, pos = _read_bytes(data, pos, end)
        found.append((key.decode(errors="replace"), value))
    return found, pos


_TABLE = 1024  # lengths of most keys and values; a longer table costs a broker's start more than it ever gives back
_POSITIVE = tuple(bytes((value * 2,) if value < 64 else (value * 2 & 127 | 128, value >> 6)) for value in range(_TABLE))
_NULL = varint(-1)


def _put(parts: list[bytes], data: bytes | None) -> None:
    if data is None:
        parts.append(_NULL)
    else:
        size = len(data)
        parts.append(_POSITIVE[size] if size < _TABLE else varint(size))
        parts.append(data)


def _put_headers(parts: list[bytes], headers: Iterable[Header]) -> None:
    at = len(parts)
    parts.append(b"")
    count = 0
    for key, value in headers:
        _put(parts, key.encode())
        _put(parts, value)
        count += 1
    parts[at] = varint(count)
