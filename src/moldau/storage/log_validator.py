"""What a leader takes into its log from a client, batch by batch, and what it stamps on it.

Codes, their order, and the records that are named in a refusal (KIP-467) are those of Apache Kafka's UnifiedLog and
LogValidator; ``docs/decisions/0020-what-a-leader-takes.md`` says where not. Every record's structure is checked. A
batch that takes long to look into is examined in parts: ``LogValidator.examine`` is a generator that pauses between
them. Sequence numbers are ``producers.py``. Read next: ``wire/scan.py``, ``log.py``.
"""

from __future__ import annotations

from struct import Struct

from moldau.model import Code, TopicPartition
from moldau.model.config_key import LONG_MAX
from moldau.model.named import NamedTuple
from moldau.storage.batch_extent import BatchExtent
from moldau.storage.config import LogConfig
from moldau.storage.slow import PACKED_HERE_MAX, Pauses, Slow, run_to_end, unpacked
from moldau.wire.batch import HEADER_SIZE, LENGTH_OVERHEAD, BatchHeader, check, headers, read_header, renumbered
from moldau.wire.common_form import is_one_record, read_common
from moldau.wire.compression import MAX_OUTPUT_BYTES, BatchError, Codec, UnpacksToTooMuch, compress
from moldau.wire.crc import crc32c
from moldau.wire.scan import RecordBounds, Scan, ScannedRecord
from moldau.wire.varints import long

Buffer = bytearray | memoryview

UNPACKED_TIMES = 32
"""A batch may unpack to so many times what max.message.bytes allows it to have, and no further than anybody who reads
the log follows."""
UNPACKED_FREE = 1 << 20
"""...and to this in any case."""
RECORDS_FREE = 100_000
"""A batch may hold as many records as max.message.bytes allows bytes, and this many in any case."""
RENUMBERED_MAX = 10_000
"""Offset deltas of more records are not written anew: that is Python's work, and holds the interpreter's lock."""
RENUMBERED_HERE_MAX = 1_000
"""Offset deltas of more records are written anew as something slow: 4 ms of work."""
PART = 500
"""Records of a batch, read one by one, that are looked at between two pauses: less than a millisecond."""
_GLANCE = 1500
"""So many records of many sizes are looked at at once, a few times as many as of those in any form."""
_CODEC = 0x07
_LOG_APPEND = 0x08
_TRANSACTIONAL = 0x10
_CRC_AT, _CRC_FROM, _ATTRIBUTES_AT, _MAX_TIMESTAMP_AT = 17, 21, 21, 35
_CRC, _ATTRIBUTES, _TIMESTAMP = Struct(">I"), Struct(">h"), Struct(">q")
_LENGTH, _LENGTH_AT, _MIN_LENGTH = Struct(">i"), 8, 14
_CODECS = {
    "uncompressed": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4, "zstd": Codec.ZSTD,
}  # fmt: skip
_NONE = TopicPartition("", 0)


class BadRecord(NamedTuple):
    """A record for which a batch was refused: its place in the batch, and what is wrong with it."""

    batch_index: int
    message: str


class Appended(NamedTuple):
    """The outcome of an append. Offsets are -1 when nothing was taken; ``append_time_ms`` is -1 under CreateTime.

    ``duplicate``: a retried batch; the offsets are those it got the first time. ``bad_records``: for which of them a
    batch was refused; empty where it was not for particular ones.
    """

    code: Code
    first_offset: int = -1
    last_offset: int = -1
    append_time_ms: int = -1
    log_start_offset: int = -1
    message: str = ""
    duplicate: bool = False
    bad_records: tuple[BadRecord, ...] = ()


class InvalidAppend(NamedTuple):
    """Why an append was not taken."""

    code: Code
    message: str
    bad_records: tuple[BadRecord, ...] = ()

    def appended(self, log_start_offset: int) -> Appended:
        """The same as the outcome of an append."""
        return Appended(
            self.code, log_start_offset=log_start_offset, message=self.message, bad_records=self.bad_records
        )


class ValidatedBatches(NamedTuple):
    """Bytes ready for offsets, and their headers. ``data`` is what came in unless the broker re-encoded it."""

    data: Buffer
    headers: list[BatchHeader]


Given = bytes | bytearray | memoryview | ValidatedBatches
"""What is to be appended, or what was examined already."""
Examination = Pauses[ValidatedBatches | InvalidAppend]


class LogValidator:
    """The rules of one topic's configuration, taken apart once so that an append looks at plain numbers."""

    __slots__ = (
        "_after", "_before", "_codec", "_compact", "_largest", "_log_append", "_max_bytes", "_plain", "_segment_bytes",
        "_unpacked_max",
    )  # fmt: skip

    def __init__(self, config: LogConfig) -> None:
        self._max_bytes = config.max_message_bytes
        self._segment_bytes = config.roll_bytes
        self._log_append = config.log_append_time
        self._after = config.message_timestamp_after_max_ms
        self._before = config.message_timestamp_before_max_ms
        self._compact = config.compact
        self._codec = _CODECS.get(config.compression_type)
        self._largest = min(self._max_bytes, self._segment_bytes)
        self._unpacked_max = min(MAX_OUTPUT_BYTES, max(UNPACKED_FREE, UNPACKED_TIMES * self._max_bytes))
        self._plain = not self._log_append and self._codec in (None, Codec.NONE)

    def validate(
        self, records: Given, now_ms: int, internal: bool, partition: TopicPartition = _NONE
    ) -> ValidatedBatches | InvalidAppend:
        """Check every batch in ``records`` and stamp append time, all at once, in place where they can be written to.

        ``internal`` appends (coordinators, quorum) may be control, and are not looked into.
        """
        if isinstance(records, ValidatedBatches):
            return records
        data = bytearray(records) if isinstance(records, bytes) or memoryview(records).readonly else records
        return run_to_end(self.examine(data, now_ms, internal, partition))

    def examine(
        self, data: Buffer, now_ms: int, internal: bool, partition: TopicPartition = _NONE, *, seen: bool = False
    ) -> Examination:
        """The same in parts, of what can be written to; ``seen`` if ``validate_quickly`` was asked before."""
        end = len(data)
        if (
            not seen
            and end >= HEADER_SIZE
            and (ordinary := self.validate_quickly(data, read_header(data), now_ms, internal))
        ):
            return ordinary
        positions = _positions(data)
        if isinstance(positions, InvalidAppend):
            return positions
        batches: list[memoryview] = []
        for position in positions:
            header = read_header(data, position)
            refused = self._check(data, position, header, internal, partition)
            if refused is not None:
                return refused
            size = header.length + LENGTH_OVERHEAD
            batch = memoryview(data)[position : position + size]
            examined: memoryview | InvalidAppend
            if internal:
                examined = self._stamped(batch, header, header.attributes, header.max_timestamp, now_ms)
            else:
                examined = yield from self._look_inside(batch, header, now_ms, partition)
            if isinstance(examined, InvalidAppend):
                return examined
            batches.append(examined)
        if position + size < end:
            return InvalidAppend(Code.CORRUPT_MESSAGE, "the last batch is cut short")
        return self._together(data, batches)

    def validate_quickly(
        self, data: Given, header: BatchHeader, now_ms: int, internal: bool = False, at: int = -1
    ) -> ValidatedBatches | None:
        """What ``examine`` returns for the most common batches, at once: sound ones in the common form, not compressed,
        which are stored as they are. None is no refusal: it takes a closer look.

        ``at`` is where ``data`` begins in what it is a view of, -1 if that is not known.
        """
        if not self._plain or isinstance(data, ValidatedBatches):
            return None
        (base, length, _, magic, crc, attributes, delta, _oldest, _newest, producer_id, epoch, sequence, count) = header
        whole: bytes | bytearray
        if type(data) is bytearray:
            whole, at = data, 0
        elif type(data) is memoryview and not data.readonly:
            owner = data.obj
            whole, at = (owner, at) if at >= 0 and isinstance(owner, bytearray) else (bytes(data), 0)
        else:
            return None
        end = at + len(data)
        if not (
            base == 0
            and magic == 2
            and length + LENGTH_OVERHEAD == len(data) <= self._largest
            and 0 < count == delta + 1
            and (attributes in (0, _TRANSACTIONAL))
            and ((sequence >= 0 and epoch >= 0) if producer_id >= 0 else attributes == 0)
            and crc32c(memoryview(whole)[at + _CRC_FROM : end]) == crc
        ):
            return None
        if internal or self._are_common(whole, at + HEADER_SIZE, end, header, now_ms):
            return ValidatedBatches(data, [header])
        return None

    def _are_common(self, data: bytes | bytearray, pos: int, end: int, header: BatchHeader, now_ms: int) -> bool:
        """Whether the batch's records from ``pos`` on are sound, and tell the largest timestamp that the header tells.

        False does not tell that something is wrong.
        """
        oldest, newest, count = header.base_timestamp, header.max_timestamp, header.count
        if 0 <= oldest <= newest and now_ms - self._before <= oldest and newest <= now_ms + self._after:
            if count == 1 and oldest == newest and is_one_record(data, pos, end, self._compact):
                return True
            index, after, largest = read_common(data, pos, end, 0, count, keyed=self._compact, work=_GLANCE)
            if index == count:
                return after == end and oldest + largest == newest
        scan = Scan(header, bytes(memoryview(data)[pos:end]), self._wanted(header, now_ms))
        try:
            scan.run(PART)
        except BatchError:
            return False
        return scan.done and scan.in_order and not scan.bad and scan.largest == newest

    def _check(
        self, data: Buffer, position: int, header: BatchHeader, internal: bool, partition: TopicPartition
    ) -> InvalidAppend | None:
        """What a batch's header alone tells, in the order in which Apache Kafka looks at it."""
        if not internal and header.base_offset != 0:
            return InvalidAppend(Code.INVALID_RECORD, f"the base offset of a new batch is 0, not {header.base_offset}")
        if header.length + LENGTH_OVERHEAD > self._max_bytes:
            return InvalidAppend(
                Code.MESSAGE_TOO_LARGE,
                f"a batch of {header.length + LENGTH_OVERHEAD} bytes exceeds max.message.bytes = {self._max_bytes}",
            )
        if check(data, position, header) is not Code.NONE:
            return InvalidAppend(Code.CORRUPT_MESSAGE, "length, format or checksum of a batch is wrong")
        if header.codec > Codec.ZSTD:
            return InvalidAppend(Code.INVALID_RECORD, f"no compression codec has the number {header.codec}")
        if header.count <= 0 or header.last_offset_delta != header.count - 1:
            return InvalidAppend(
                Code.INVALID_RECORD,
                f"a batch of {header.count} records cannot end {header.last_offset_delta} offsets after its first",
            )
        if internal:
            return None
        if header.is_control:
            where = f"in topic partition {partition}"
            return InvalidAppend(Code.INVALID_RECORD, f"Clients are not allowed to write control records {where}")
        if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
            return InvalidAppend(
                Code.INVALID_RECORD, f"producer {header.producer_id} sent a batch without sequence number"
            )
        if header.is_transactional and header.producer_id < 0:
            return InvalidAppend(Code.INVALID_RECORD, "a transactional batch needs a producer id")
        return None

    # ---- records

    def _look_inside(
        self, batch: memoryview, header: BatchHeader, now_ms: int, partition: TopicPartition
    ) -> Pauses[memoryview | InvalidAppend]:
        """The client's batch as it is to be stored: in place where that can be."""
        try:
            data = yield from self._unpacked(batch, header)
            scan = Scan(header, data, self._wanted(header, now_ms))
            yield from _whole(scan)
            if scan.bad:
                return self._bad_records(scan, header, now_ms, partition)
            largest = scan.largest
            if header.is_log_append_time:  # its timestamps were hidden by a bit that a client may not set
                again = Scan(header._replace(attributes=header.attributes & ~_LOG_APPEND), data, RecordBounds())
                yield from _whole(again)
                largest = again.largest
            attributes = header.attributes & (_CODEC | _TRANSACTIONAL)  # no other bit is a client's to set
            codec = header.codec if self._codec is None else self._codec
            if codec == header.codec and scan.in_order:
                return self._stamped(batch, header, attributes, max(largest, -1), now_ms)
            if scan.smallest < -1 and (codec or header.codec):
                return InvalidAppend(Code.INVALID_TIMESTAMP, f"Invalid negative timestamp {scan.smallest}")
            if not scan.in_order and header.count > RENUMBERED_MAX:
                return InvalidAppend(
                    Code.INVALID_RECORD, f"offset deltas of {header.count} records do not count up from 0"
                )
            packing = Slow(lambda: _encoded(batch, header, data, codec, scan.in_order))
            if len(data) > PACKED_HERE_MAX or (not scan.in_order and header.count > RENUMBERED_HERE_MAX):
                yield packing
            fresh = bytearray(packing.result())
        except UnpacksToTooMuch as error:
            return InvalidAppend(Code.MESSAGE_TOO_LARGE, str(error))
        except BatchError as error:
            return InvalidAppend(Code.INVALID_RECORD, str(error))
        if len(fresh) > self._max_bytes:
            return InvalidAppend(
                Code.MESSAGE_TOO_LARGE, "the batch exceeds max.message.bytes in the topic's compression"
            )
        made = read_header(fresh)
        return self._stamped(memoryview(fresh), made, made.attributes, max(largest, -1), now_ms)

    def _unpacked(self, batch: memoryview, header: BatchHeader) -> Pauses[bytes]:
        """The records' bytes, no more than may be; BatchError when the header claims more of them than there can be."""
        data = yield from unpacked(header.codec, batch[HEADER_SIZE:], self._unpacked_max)
        if header.count > max(self._max_bytes, RECORDS_FREE):
            raise UnpacksToTooMuch(f"a batch of {header.count} records; {max(self._max_bytes, RECORDS_FREE)} may be")
        return data

    def _wanted(self, header: BatchHeader, now_ms: int) -> RecordBounds:
        """What a record of this batch must be."""
        if self._log_append:
            return RecordBounds(self._compact, none_at_all=header.is_log_append_time)
        if header.is_log_append_time and header.max_timestamp == -1:
            return RecordBounds(self._compact, none_at_all=True)
        if self._before == self._after == LONG_MAX:
            return RecordBounds(self._compact)
        return RecordBounds(self._compact, now_ms - self._before, now_ms + self._after)

    def _bad_records(self, scan: Scan, header: BatchHeader, now_ms: int, partition: TopicPartition) -> InvalidAppend:
        """Why the batch is refused, in Apache Kafka's words, which clients show to their users."""
        of_type = self._log_append or (header.is_log_append_time and header.max_timestamp == -1)
        earliest, latest = long(now_ms - self._before), long(now_ms + self._after)
        keyless, code = 0, Code.INVALID_RECORD
        partial = header.codec != Codec.NONE and self._codec in (None, header.codec)
        bad = []
        for record in scan.found:
            if self._compact and record.key_size < 0:
                keyless += 1
                text = f"Compacted topic cannot accept message without key in topic partition {partition}"
            elif of_type:
                text = (
                    f"Invalid timestamp type in message {_shown(record, partial)}. "
                    "Producer should not set timestamp type to LogAppendTime."
                )
            else:
                text = (
                    f"Timestamp {record.timestamp} of message with offset {record.offset_delta} is out of range. The "
                    f"timestamp should be within [{earliest}, {latest}]"
                )
            bad.append(BadRecord(record.batch_index, text))
        if keyless < len(bad):
            code, message = Code.INVALID_TIMESTAMP, "One or more records have been rejected due to invalid timestamp"
        else:
            first = ", ".join(f"RecordError(batchIndex={index}, message='{text}')" for index, text in bad[:3])
            message = (
                f"One or more records have been rejected due to {scan.bad} record errors in total, and only showing "
                f"the first three errors at most: [{first}]"
            )
        return InvalidAppend(code, message, tuple(bad))

    # ---- what is stored

    def _stamped(
        self, batch: memoryview, header: BatchHeader, attributes: int, largest: int, now_ms: int
    ) -> memoryview:
        """The batch with these attributes and largest timestamp, or the append time where the topic wants that; both
        lie inside the checksum.
        """
        if self._log_append:
            attributes, largest = attributes | _LOG_APPEND, now_ms
        if attributes != header.attributes or largest != header.max_timestamp:
            _ATTRIBUTES.pack_into(batch, _ATTRIBUTES_AT, attributes)
            _TIMESTAMP.pack_into(batch, _MAX_TIMESTAMP_AT, largest)
            _CRC.pack_into(batch, _CRC_AT, crc32c(batch[_CRC_FROM:]))
        return batch

    def _together(self, data: Buffer, batches: list[memoryview]) -> ValidatedBatches | InvalidAppend:
        size = sum(map(len, batches))
        if size > self._segment_bytes:
            return InvalidAppend(Code.RECORD_LIST_TOO_LARGE, f"{size} bytes exceed a segment of {self._segment_bytes}")
        here = memoryview(data).obj
        whole = data if all(batch.obj is here for batch in batches) else bytearray().join(batches)
        return ValidatedBatches(whole, [header for _, header in headers(whole)])


def _positions(data: Buffer) -> list[int] | InvalidAppend:
    """Where the whole batches of format 2 in ``data`` begin; what is behind the last of them is not looked at."""
    positions = []
    position, end = 0, len(data)
    while position < end:
        if end - position < _CRC_AT:
            break
        (length,) = _LENGTH.unpack_from(data, position + _LENGTH_AT)
        magic, size = data[position + _CRC_AT - 1], length + LENGTH_OVERHEAD
        if length < _MIN_LENGTH:
            return InvalidAppend(Code.CORRUPT_MESSAGE, f"no record batch has a length of {length} bytes")
        if magic > 2:
            return InvalidAppend(Code.CORRUPT_MESSAGE, f"there is no record format {magic}")
        if position + size > end:
            break
        if magic != 2:
            return InvalidAppend(Code.INVALID_RECORD, f"record format {magic} is no longer taken, only format 2 is")
        if size < HEADER_SIZE:
            return InvalidAppend(Code.CORRUPT_MESSAGE, f"no record batch has a length of {length} bytes")
        positions.append(position)
        position += size
    if not positions:
        return InvalidAppend(Code.INVALID_RECORD, "there is no whole record batch")
    return positions


def _whole(scan: Scan) -> Pauses[None]:
    """Run the scan to its end, in parts."""
    scan.run(PART)
    while not scan.done:
        yield None
        scan.run(PART)


def _shown(record: ScannedRecord, partial: bool) -> str:
    """A record as Apache Kafka's DefaultRecord shows itself, or its PartialDefaultRecord, which tells null from 0."""
    key, value = (
        (record.key_size, record.value_size) if partial else (max(record.key_size, 0), max(record.value_size, 0))
    )
    where = f"offset={record.offset_delta}, timestamp={record.timestamp}"
    return f"{'Partial' if partial else ''}DefaultRecord({where}, key={key} bytes, value={value} bytes)"


class FollowerAppend(NamedTuple):
    """What a follower writes: the whole batches, as they came."""

    data: bytes | Buffer
    headers: list[BatchHeader]
    extents: list[BatchExtent]


def take(data: bytes | Buffer, expected: int, empty: bool, newest_epoch: int) -> FollowerAppend | InvalidAppend:
    """Check what a leader sent to a log that ends at ``expected``; a torn last batch is left out.

    A leader that was deposed while it sent a part of its file unread may have cut the file and written its successor's
    batches there: what is of a later epoch than the asked leader's is no answer to what was asked (KAFKA-18723).
    Offsets may leave gaps (compaction) but not go back; only the first batch of an ``empty`` log may straddle the end.
    """
    batches: list[BatchHeader] = []
    extents: list[BatchExtent] = []
    end = 0
    for position, header in headers(data):
        if header.magic in (0, 1):
            break
        if check(data, position, header) is not Code.NONE or header.last_offset_delta < 0:
            return InvalidAppend(Code.CORRUPT_MESSAGE, f"the batch at offset {header.base_offset} is corrupt")
        if header.base_offset < expected and (extents or not empty or header.last_offset < expected):
            return InvalidAppend(Code.OFFSET_OUT_OF_RANGE, f"offset {header.base_offset} is below {expected}")
        if header.leader_epoch > newest_epoch:
            break
        batches.append(header)
        end = position + header.length + LENGTH_OVERHEAD
        extents.append(BatchExtent(end - position, header.base_offset, header.last_offset, header.max_timestamp))
        expected = header.next_offset
    if end + _CRC_AT <= len(data) and data[end + _CRC_AT - 1] in (0, 1) and not _is_cut_short(data, end):
        older = f"the leader sends message format v{data[end + _CRC_AT - 1]}, which is not read, only v2"
        return InvalidAppend(Code.INVALID_RECORD, older)
    if len(data) - end >= HEADER_SIZE and read_header(data, end).length < HEADER_SIZE - LENGTH_OVERHEAD:
        return InvalidAppend(Code.CORRUPT_MESSAGE, "a batch has an impossible length")
    return FollowerAppend(data if end == len(data) else memoryview(data)[:end], batches, extents)


def _is_cut_short(data: bytes | Buffer, at: int) -> bool:
    (length,) = _LENGTH.unpack_from(data, at + _LENGTH_AT)
    return bool(at + LENGTH_OVERHEAD + length > len(data))


def _encoded(batch: memoryview, header: BatchHeader, data: bytes, codec: int, in_order: bool) -> bytes:
    """The batch in another codec, with offset deltas that count up: same records, producer and timestamps."""
    if not in_order:
        plain = b"".join((batch[:HEADER_SIZE], data))
        return renumbered(plain, header, codec)
    packed = compress(codec, data)
    fresh = bytearray(HEADER_SIZE + len(packed))
    fresh[:HEADER_SIZE] = batch[:HEADER_SIZE]
    fresh[HEADER_SIZE:] = packed
    _LENGTH.pack_into(fresh, _LENGTH_AT, len(fresh) - LENGTH_OVERHEAD)
    _ATTRIBUTES.pack_into(fresh, _ATTRIBUTES_AT, header.attributes & _TRANSACTIONAL | codec)
    _CRC.pack_into(fresh, _CRC_AT, crc32c(memoryview(fresh)[_CRC_FROM:]))
    return bytes(fresh)
