"""What a leader takes into its log from a client, batch by batch, and what it stamps on it.

Decides from headers and checksums only; records are looked into where the topic asks for it (compaction needs keys, a
limit on old timestamps needs every timestamp, ``compression.type`` may re-encode). Sequence numbers are
``producers.py``. Codes and their order follow Apache Kafka's UnifiedLog and LogValidator. Read next: ``log.py``.
"""

from __future__ import annotations

from struct import Struct

from moldau.storage.config import LogConfig
from moldau.storage.segment import Mark
from moldau.terms import Code
from moldau.terms.config_key import LONG_MAX
from moldau.terms.named import NamedTuple
from moldau.wire.batch import HEADER_SIZE, LENGTH_OVERHEAD, BatchHeader, build, check, headers, read_header, records
from moldau.wire.compression import BatchError, Codec
from moldau.wire.crc import crc32c

Buffer = bytearray | memoryview

_CODEC = 0x07
_LOG_APPEND = 0x08
_TRANSACTIONAL = 0x10
_CONTROL = 0x20
_CRC_AT, _CRC_FROM, _ATTRIBUTES_AT, _MAX_TIMESTAMP_AT = 17, 21, 21, 35
_CRC, _ATTRIBUTES, _TIMESTAMP = Struct(">I"), Struct(">h"), Struct(">q")
_CODECS = {
    "uncompressed": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4, "zstd": Codec.ZSTD,
}  # fmt: skip


class Appended(NamedTuple):
    """The outcome of an append. Offsets are -1 when nothing was taken; ``append_time_ms`` is -1 under CreateTime.

    ``duplicate``: a retried batch; the offsets are those it got the first time.
    """

    code: Code
    first_offset: int = -1
    last_offset: int = -1
    append_time_ms: int = -1
    log_start_offset: int = -1
    message: str = ""
    duplicate: bool = False


class Refused(NamedTuple):
    """Why an append was not taken."""

    code: Code
    message: str


class Admitted(NamedTuple):
    """Bytes ready for offsets, and their headers. ``data`` is what came in unless the broker re-encoded it."""

    data: Buffer
    headers: list[BatchHeader]


class Admission:
    """The rules of one topic's configuration, taken apart once so that an append looks at plain numbers."""

    __slots__ = (
        "_after",
        "_before",
        "_codec",
        "_compact",
        "_largest",
        "_log_append",
        "_look_inside",
        "_max_bytes",
        "_plain",
        "_segment_bytes",
    )

    def __init__(self, config: LogConfig) -> None:
        self._max_bytes = config.max_message_bytes
        self._segment_bytes = config.roll_bytes
        self._log_append = config.log_append_time
        self._after = config.message_timestamp_after_max_ms
        self._before = config.message_timestamp_before_max_ms
        self._compact = config.compact
        self._codec = _CODECS.get(config.compression_type)
        self._largest = min(self._max_bytes, self._segment_bytes)
        self._look_inside = self._compact or (self._before < LONG_MAX and not self._log_append)
        self._plain = not self._log_append and not self._look_inside and self._codec is None

    def admit(self, data: Buffer, now_ms: int, internal: bool) -> Admitted | Refused:
        """Check every batch in ``data`` and stamp append time. ``internal`` appends (coordinators, quorum) may be
        control.
        """
        batches: list[BatchHeader] = []
        position, end = 0, len(data)
        if self._plain and end >= HEADER_SIZE:
            header = read_header(data)
            if self._ordinary(data, header, now_ms):
                return Admitted(data, [header])
        while position < end:
            if position + HEADER_SIZE > end:
                return Refused(Code.CORRUPT_MESSAGE, "the last batch is cut short")
            header = read_header(data, position)
            refused = self._check(data, position, header, internal)
            if refused is None and not self._log_append:
                refused = self._check_time(header, now_ms)
            if refused is None and self._look_inside and not header.attributes & _CONTROL:
                refused = self._check_records(data, position, now_ms)
            if refused is not None:
                return refused
            if self._log_append:
                header = self._stamp(data, position, header, now_ms)
            batches.append(header)
            position += header.length + LENGTH_OVERHEAD
        if not batches:
            return Refused(Code.INVALID_RECORD, "there is no record batch")
        if end > self._segment_bytes:
            return Refused(Code.RECORD_LIST_TOO_LARGE, f"{end} bytes are more than a segment of {self._segment_bytes}")
        if self._codec is not None and any(h.codec != self._codec and not h.is_control for h in batches):
            return self._encode_again(data, batches)
        return Admitted(data, batches)

    def _ordinary(self, data: Buffer, header: BatchHeader, now_ms: int) -> bool:
        """Whether ``data`` is one sound client batch and nothing is to be stamped: the common case in one look.

        False is no refusal; it only means that what follows must look closer.
        """
        (base, length, _, magic, crc, attributes, delta, _, newest, producer_id, epoch, sequence, count) = header
        return (
            base == 0
            and magic == 2
            and length + LENGTH_OVERHEAD == len(data) <= self._largest
            and count > 0
            and delta == count - 1
            and newest - now_ms <= self._after
            and attributes <= _TRANSACTIONAL + 4
            and attributes & _CODEC <= 4
            and ((sequence >= 0 and epoch >= 0) if producer_id >= 0 else attributes < _TRANSACTIONAL)
            and not attributes & _LOG_APPEND
            and crc32c(memoryview(data)[_CRC_FROM:]) == crc
        )

    def _check(self, data: Buffer, position: int, header: BatchHeader, internal: bool) -> Refused | None:
        if header.magic != 2 and header.magic in (0, 1):
            return Refused(Code.INVALID_RECORD, f"record format {header.magic} is no longer taken, only format 2 is")
        if not internal and header.base_offset != 0:
            return Refused(Code.INVALID_RECORD, f"the base offset of a new batch is 0, not {header.base_offset}")
        if header.length + LENGTH_OVERHEAD > self._max_bytes:
            return Refused(
                Code.MESSAGE_TOO_LARGE,
                f"a batch of {header.length + LENGTH_OVERHEAD} bytes exceeds max.message.bytes = {self._max_bytes}",
            )
        if check(data, position, header) is not Code.NONE:
            return Refused(Code.CORRUPT_MESSAGE, "length, format or checksum of a batch is wrong")
        if header.count <= 0 or header.last_offset_delta != header.count - 1:
            return Refused(
                Code.INVALID_RECORD,
                f"a batch of {header.count} records cannot end {header.last_offset_delta} offsets after its first",
            )
        if header.attributes & _CODEC > 4:
            return Refused(Code.INVALID_RECORD, f"no compression codec has the number {header.attributes & _CODEC}")
        if internal:
            return None
        if header.attributes & _CONTROL:
            return Refused(Code.INVALID_RECORD, "clients cannot write control batches")
        if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
            return Refused(Code.INVALID_RECORD, f"producer {header.producer_id} sent a batch without sequence number")
        if header.is_transactional and header.producer_id < 0:
            return Refused(Code.INVALID_RECORD, "a transactional batch needs a producer id")
        return None

    def _check_time(self, header: BatchHeader, now_ms: int) -> Refused | None:
        ahead = header.max_timestamp - now_ms
        if ahead > self._after:
            return Refused(
                Code.INVALID_TIMESTAMP,
                f"timestamp {header.max_timestamp} is {ahead} ms ahead; message.timestamp.after.max.ms = {self._after}",
            )
        return None

    def _check_records(self, data: Buffer, position: int, now_ms: int) -> Refused | None:
        try:
            for record in records(data, position):
                if self._compact and record.key is None:
                    return Refused(Code.INVALID_RECORD, "a compacted topic takes no record without a key")
                if not self._log_append and now_ms - record.timestamp > self._before:
                    return Refused(
                        Code.INVALID_TIMESTAMP,
                        f"timestamp {record.timestamp} is too old; message.timestamp.before.max.ms = {self._before}",
                    )
        except BatchError as error:
            return Refused(Code.INVALID_RECORD, str(error))
        return None

    @staticmethod
    def _stamp(data: Buffer, position: int, header: BatchHeader, now_ms: int) -> BatchHeader:
        """LogAppendTime: type and timestamp lie inside the checksum, so it is computed again."""
        attributes = header.attributes | _LOG_APPEND
        _ATTRIBUTES.pack_into(data, position + _ATTRIBUTES_AT, attributes)
        _TIMESTAMP.pack_into(data, position + _MAX_TIMESTAMP_AT, now_ms)
        end = position + header.length + LENGTH_OVERHEAD
        crc = crc32c(memoryview(data)[position + _CRC_FROM : end])
        _CRC.pack_into(data, position + _CRC_AT, crc)
        return header._replace(attributes=attributes, max_timestamp=now_ms, crc=crc)

    def _encode_again(self, data: Buffer, batches: list[BatchHeader]) -> Admitted | Refused:
        """The topic wants its own codec (compression.type): the one place where a broker builds batches of client
        records.
        """
        assert self._codec is not None
        out = bytearray()
        position = 0
        try:
            for header in batches:
                size = header.length + LENGTH_OVERHEAD
                if header.codec == self._codec or header.is_control:
                    out += memoryview(data)[position : position + size]
                else:
                    out += _encoded(data, position, header, self._codec)
                position += size
        except BatchError as error:
            return Refused(Code.INVALID_RECORD, str(error))
        result, position = [], 0
        while position < len(out):
            header = read_header(out, position)
            if header.length + LENGTH_OVERHEAD > self._max_bytes:
                return Refused(Code.MESSAGE_TOO_LARGE, "the batch exceeds max.message.bytes in the topic's compression")
            result.append(header)
            position += header.length + LENGTH_OVERHEAD
        return Admitted(out, result)


class Taken(NamedTuple):
    """What a follower writes: the whole batches, as they came."""

    data: bytes | Buffer
    headers: list[BatchHeader]
    marks: list[Mark]


def take(data: bytes | Buffer, expected: int, empty: bool, newest_epoch: int) -> Taken | Refused:
    """Check what a leader sent to a log that ends at ``expected``; a torn last batch is left out.

    A leader that was deposed while it sent a part of its file unread may have cut the file and written its successor's
    batches there: what is of a later epoch than the asked leader's is no answer to what was asked (KAFKA-18723).
    Offsets may leave gaps (compaction) but not go back; only the first batch of an ``empty`` log may straddle the end.
    """
    batches: list[BatchHeader] = []
    marks: list[Mark] = []
    end = 0
    for position, header in headers(data):
        if check(data, position, header) is not Code.NONE or header.last_offset_delta < 0:
            return Refused(Code.CORRUPT_MESSAGE, f"the batch at offset {header.base_offset} is corrupt")
        if header.base_offset < expected and (marks or not empty or header.last_offset < expected):
            return Refused(Code.OFFSET_OUT_OF_RANGE, f"offset {header.base_offset} is below {expected}")
        if header.leader_epoch > newest_epoch:
            break
        batches.append(header)
        end = position + header.length + LENGTH_OVERHEAD
        marks.append(Mark(end - position, header.base_offset, header.last_offset, header.max_timestamp))
        expected = header.next_offset
    if len(data) - end >= HEADER_SIZE and read_header(data, end).length < HEADER_SIZE - LENGTH_OVERHEAD:
        return Refused(Code.CORRUPT_MESSAGE, "a batch has an impossible length")
    return Taken(data if end == len(data) else memoryview(data)[:end], batches, marks)


def _encoded(data: Buffer, position: int, header: BatchHeader, codec: Codec) -> bytes:
    """One batch in another codec: same records, offsets, producer and timestamps."""
    entries = [(r.timestamp, r.key, r.value, r.headers) for r in records(data, position)]
    batch = bytearray(
        build(
            entries,
            codec=codec,
            base_offset=header.base_offset,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            transactional=header.is_transactional,
        )
    )
    if header.is_log_append_time:
        Admission._stamp(batch, 0, read_header(batch), header.max_timestamp)
    return bytes(batch)
