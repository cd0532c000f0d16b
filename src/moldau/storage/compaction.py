"""Compaction: of each key only the newest record stays (cleanup.policy=compact).

Decides whether a log is worth compacting, which records stay, when tombstones go (KIP-534: a delete horizon in the
batch), and that offsets never move. A ``Compaction`` is planned on the loop, run anywhere (it reads sealed segments
and writes ``.cleaned`` files), and put in place on the loop by ``Log.end_compaction``, in steps of which a crash may
follow any. Record bytes are copied, not re-encoded: offsets and timestamps are relative to a base that stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from struct import Struct
from typing import TYPE_CHECKING

from moldau.storage.errors import CorruptLog, LogError
from moldau.storage.flush import sync_file
from moldau.storage.folder import Folder, LogDir
from moldau.storage.names import CLEANED, INDEX, LOG, SWAP, TIME_INDEX, offset_name
from moldau.storage.retention import doom
from moldau.storage.segment import Mark, Segment
from moldau.terms.named import NamedTuple
from moldau.wire.batch import HEADER_SIZE, LENGTH_OVERHEAD, BatchHeader, payload
from moldau.wire.compression import BatchError, compress
from moldau.wire.crc import crc32c

if TYPE_CHECKING:
    from moldau.storage.log import Log

MAX_KEYS = 2_000_000
"""Keys remembered in one run; a log with more is compacted in several."""

_HEADER = Struct(">qiibIhiqqqhii")
_CRC = Struct(">I")
_CONTROL, _HORIZON, _CODEC = 0x20, 0x40, 0x07
_LONG_KEY = 24
_WRITE_BYTES = 1 << 20
_MAX_RELATIVE = 0x7FFFFFFF


class Dirt(NamedTuple):
    """How much of a log waits for compaction: the first segment not yet compacted, one past the last that may be."""

    ratio: float
    first: int
    last: int
    overdue: bool


def measure(log: Log, now_ms: int) -> Dirt | None:
    """What could be compacted now; None for a log without compaction or with nothing to do."""
    config = log.config
    segments = log.segments
    if not config.compact or len(segments) < 2:
        return None
    cleaned_to = max(log.cleaned_to, segments[0].base_offset)
    first = log.segment_at(cleaned_to)
    last = len(segments) - 1  # never the active one
    # Not beyond what the checkpoint says is durable: a start that reads a compacted segment would take its gaps for
    # losses.
    limit = min(log.high_watermark, log.restart_point)
    while last > first and segments[last].base_offset > limit:
        last -= 1
    if config.min_compaction_lag_ms > 0:
        newest = now_ms - config.min_compaction_lag_ms
        last = next((n for n in range(first, last) if segments[n].largest_timestamp() > newest), last)
    dirty = sum(segment.size for segment in segments[first:last])
    if last <= first or not dirty:
        return None
    began = segments[first].begin_timestamp()
    overdue = began is not None and 0 <= began < now_ms - config.max_compaction_lag_ms
    return Dirt(dirty / sum(segment.size for segment in segments[:last]), first, last, overdue)


def plan(log: Log, now_ms: int) -> Compaction | None:
    """A compaction to run, when the dirt has reached min.cleanable.dirty.ratio (or a record max.compaction.lag.ms)."""
    dirt = measure(log, now_ms)
    if dirt is None or (dirt.ratio < log.config.min_cleanable_dirty_ratio and not dirt.overdue):
        return None
    return Compaction(log, dirt, now_ms)


def _no_haste_needed(size: int) -> None:
    """No limit."""


class Compaction:
    """One run over one log: which segments, and (after ``run``) what stands in their place."""

    __slots__ = (
        "_delete_retention_ms", "_folder", "_interval", "_keep_empty", "_keys", "_now_ms", "_segment_bytes",
        "cleaned_to", "dirty_from", "error", "keys_max", "pace", "replaced", "sources", "truncations",
    )  # fmt: skip

    def __init__(self, log: Log, dirt: Dirt, now_ms: int) -> None:
        # Files and indexes of its own: the log's belong to the loop.
        dir = LogDir(log.dir.disk, log.dir.path)
        self._folder = Folder(dir, log.folder.path)
        self.sources = log.segments[: dirt.last]
        self.dirty_from = log.segments[dirt.first].base_offset
        self.cleaned_to = log.segments[dirt.last].base_offset
        self.replaced: list[tuple[list[Segment], Segment]] = []
        self.error: Exception | None = None
        self.truncations = log.truncations
        self._now_ms = now_ms
        self._delete_retention_ms = log.config.delete_retention_ms
        self._segment_bytes = log.config.roll_bytes
        self._interval = log.config.index_interval_bytes
        self.keys_max = MAX_KEYS
        self.pace: Callable[[int], object] = _no_haste_needed
        """Called with the size of each batch read; it may take its time (log.cleaner.io.max.bytes.per.second)."""
        self._keys: dict[bytes, int] = {}
        # A producer's last batch keeps its header, so that its sequence number survives a rebuild of the state.
        self._keep_empty = {known.batches[-1].last_offset for _, known in log.producers if known.batches}

    def run(self) -> None:
        """Do the work. Errors are kept for ``Log.end_compaction``."""
        try:
            self._note_keys()
            for group in self._groups():
                self._clean(group)
        except (OSError, LogError) as error:
            self.error = error

    def discard(self) -> None:
        """Remove what was written."""
        for _, cleaned in self.replaced:
            cleaned.remove()
        self.replaced = []

    def _own(self, source: Segment) -> Segment:
        return Segment(self._folder, source.base_offset, source.size)

    def _note_keys(self) -> None:
        """The last offset of every key in the dirty part; stops at a segment boundary when there are too many."""
        keys = self._keys
        for source in self.sources:
            if source.base_offset < self.dirty_from:
                continue
            if len(keys) > self.keys_max:
                self.cleaned_to = source.base_offset
                break
            segment = self._own(source)
            for position, header in segment.walk(0):
                if not header.attributes & _CONTROL:
                    try:
                        raw = segment.batch(position, header)
                        self.pace(len(raw))
                        _, data = payload(raw)
                        for record in raw_records(data, header.count):
                            if record.key is not None:
                                keys[_digest(record.key)] = header.base_offset + record.offset_delta
                    except BatchError as error:
                        raise CorruptLog(segment.path(), position, str(error)) from error
            segment.drop()

    def _groups(self) -> Iterator[list[Segment]]:
        """Neighbouring segments that together fit into one."""
        group: list[Segment] = []
        size = 0
        for source in self.sources:
            if source.base_offset >= self.cleaned_to:
                break
            wide = bool(group) and self._end_of(source) - group[0].base_offset > _MAX_RELATIVE
            if group and (size + source.size > self._segment_bytes or wide):
                yield group
                group, size = [], 0
            group.append(source)
            size += source.size
        if group:
            yield group

    def _end_of(self, source: Segment) -> int:
        at = self.sources.index(source) + 1
        return self.sources[at].base_offset if at < len(self.sources) else self.cleaned_to

    def _clean(self, group: list[Segment]) -> None:
        cleaned = Segment(self._folder, group[0].base_offset, suffix=CLEANED)
        self.replaced.append((group, cleaned))
        for kind in (LOG, INDEX, TIME_INDEX):
            self._folder.disk.remove(cleaned.path(kind))
        cleaned.open(create=True)
        waiting = bytearray()
        marks: list[Mark] = []
        for source in group:
            segment = self._own(source)
            for position, header in segment.walk(0):
                try:
                    raw = segment.batch(position, header)
                    self.pace(len(raw))
                    batch, timestamp = self._filter(raw, header)
                except BatchError as error:
                    raise CorruptLog(segment.path(), position, str(error)) from error
                if batch:
                    waiting += batch
                    marks.append(Mark(len(batch), header.base_offset, header.last_offset, timestamp))
                if len(waiting) >= _WRITE_BYTES:
                    cleaned.append(waiting, marks, self._interval)
                    waiting, marks = bytearray(), []
            segment.drop()
        if marks:
            cleaned.append(waiting, marks, self._interval)
        cleaned.seal()
        cleaned.save_index()
        cleaned.open().sync()
        for kind in (INDEX, TIME_INDEX):
            sync_file(self._folder, cleaned.path(kind))
        cleaned.close()

    def _filter(self, batch: bytes, header: BatchHeader) -> tuple[bytes, int]:
        """The batch without the records that newer ones replace (empty: nothing is left), and its largest timestamp."""
        if header.attributes & _CONTROL:
            return batch, header.max_timestamp
        _, data = payload(batch)
        horizon = header.delete_horizon_ms
        tombstones_go = horizon is not None and horizon <= self._now_ms
        kept: list[RawRecord] = []
        tombstones = False
        for record in raw_records(data, header.count):
            if record.key is None:
                continue  # cannot be replaced by key: came in before the topic was compacted; Kafka drops it as well
            newest = self._keys.get(_digest(record.key), -1)
            if header.base_offset + record.offset_delta < newest or (record.tombstone and tombstones_go):
                continue
            tombstones |= record.tombstone
            kept.append(record)
        if not kept:
            if header.producer_id >= 0 and header.last_offset in self._keep_empty:
                return _rebuild(header, b"", 0, header.base_timestamp, header.max_timestamp), header.max_timestamp
            return b"", -1
        if tombstones and horizon is None:
            return self._with_horizon(header, data, kept)
        if len(kept) == header.count:
            return batch, header.max_timestamp
        newest_stamp = _newest(header, kept)
        body = b"".join(data[record.start : record.end] for record in kept)
        return _rebuild(header, body, len(kept), header.base_timestamp, newest_stamp), newest_stamp

    def _with_horizon(self, header: BatchHeader, data: bytes, kept: list[RawRecord]) -> tuple[bytes, int]:
        """A tombstone is met for the first time: it may go after delete.retention.ms.

        The horizon takes the place of the base timestamp, so every record's delta is written again.
        """
        horizon = self._now_ms + self._delete_retention_ms
        shift = header.base_timestamp - horizon
        body = bytearray()
        for record in kept:
            rest = data[record.delta_end : record.end]
            middle = b"\x00" + _varint(record.timestamp_delta + shift)
            body += _varint(len(middle) + len(rest)) + middle + rest
        newest = _newest(header, kept)
        marked = header._replace(attributes=header.attributes | _HORIZON)
        return _rebuild(marked, bytes(body), len(kept), horizon, newest), newest


def install(log: Log, compaction: Compaction, now_ms: int) -> int:
    """Put the compacted segments in the place of what they were made from; bytes saved.

    A crash after any step is finished or undone by the next start (``recovery.py``). All is thrown away if the log was
    truncated meanwhile, and a group whose sources retention took. OSError; CorruptLog when the log could not be read.
    """
    if compaction.error is not None or compaction.truncations != log.truncations:
        compaction.discard()
    if compaction.error is not None:
        raise compaction.error
    saved, whole = 0, bool(compaction.replaced)
    for group, cleaned in compaction.replaced:
        at = log.segments.index(group[0]) if group[0] in log.segments else -1
        if at < 0 or log.segments[at : at + len(group)] != group:
            cleaned.remove()
            whole = False
            continue
        new = Segment(log.folder, cleaned.base_offset, cleaned.size)
        new.created_ms = group[0].created_ms
        new.checked_from = 0  # made from checked bytes just now
        _swap(log, group, cleaned, now_ms)
        log.replace_segments(at, len(group), [new])
        saved += sum(segment.size for segment in group) - new.size
    if whole:
        log.cleaned_to = compaction.cleaned_to
    compaction.replaced = []
    return saved


def _swap(log: Log, group: list[Segment], cleaned: Segment, now_ms: int) -> None:
    disk, folder = log.folder.disk, log.folder
    kinds = [kind for kind in (INDEX, TIME_INDEX, LOG) if disk.exists(cleaned.path(kind))]
    finals = [folder.file(offset_name(cleaned.base_offset, kind)) for kind in kinds]
    for kind, final in zip(kinds, finals, strict=True):
        disk.rename(cleaned.path(kind), final + SWAP)
    disk.sync_dir(folder.path)
    for segment in group:
        doom(segment, now_ms + log.config.file_delete_delay_ms)
    for final in finals:
        disk.rename(final + SWAP, final)
    disk.sync_dir(folder.path)


def _newest(header: BatchHeader, kept: list[RawRecord]) -> int:
    if header.is_log_append_time:
        return header.max_timestamp
    return header.base_timestamp + max(record.timestamp_delta for record in kept)


def _rebuild(header: BatchHeader, body: bytes, count: int, base_timestamp: int, max_timestamp: int) -> bytes:
    """A batch with the same offsets, producer and codec, and other records."""
    if count:
        body = compress(header.attributes & _CODEC, body)
    head = bytearray(
        _HEADER.pack(
            *header._replace(
                length=HEADER_SIZE - LENGTH_OVERHEAD + len(body),
                crc=0,
                base_timestamp=base_timestamp,
                max_timestamp=max_timestamp,
                count=count,
            )
        )
    )
    _CRC.pack_into(head, 17, crc32c(body, crc32c(memoryview(head)[21:])))
    return bytes(head) + body


def _digest(key: bytes) -> bytes:
    """Long keys are remembered by 128 bits of them: two keys that agree in those do not occur."""
    return key if len(key) <= _LONG_KEY else blake2b(key, digest_size=16).digest() + b"-long key-"


# -- records as bytes -----------------------------------------------------------------------------------------------


class RawRecord(NamedTuple):
    """Where a record stands in its batch's payload, and as much of it as compaction asks for."""

    start: int
    delta_end: int
    end: int
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    tombstone: bool


def raw_records(data: bytes, count: int) -> Iterator[RawRecord]:
    """The records of an unpacked payload; BatchError where they do not parse."""
    pos = 0
    try:
        for _ in range(count):
            start = pos
            length, pos = _read_varint(data, pos)
            end = pos + length
            timestamp_delta, delta_end = _read_varint(data, pos + 1)
            offset_delta, pos = _read_varint(data, delta_end)
            key_length, pos = _read_varint(data, pos)
            key = data[pos : pos + key_length] if key_length >= 0 else None
            pos += max(key_length, 0)
            value_length, _ = _read_varint(data, pos)
            if end > len(data) or length < 0 or pos > end:
                raise IndexError
            yield RawRecord(start, delta_end, end, timestamp_delta, offset_delta, key, value_length < 0)
            pos = end
    except IndexError:
        raise BatchError(f"the record at byte {pos} of a batch does not parse") from None


def _read_varint(data: bytes, pos: int) -> tuple[int, int]:
    raw = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        raw |= (byte & 127) << shift
        if byte < 128:
            return (raw >> 1) ^ -(raw & 1), pos
        shift += 7
        if shift > 63:
            raise IndexError


def _varint(value: int) -> bytes:
    raw = (value << 1) ^ (value >> 63)
    out = bytearray()
    while raw > 127:
        out.append(raw & 127 | 128)
        raw >>= 7
    out.append(raw)
    return bytes(out)
