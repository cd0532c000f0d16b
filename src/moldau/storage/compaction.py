"""Compaction: of each key only the newest record stays (cleanup.policy=compact).

Decides which records stay, when tombstones go (KIP-534: a delete horizon in the batch), and that offsets never move.
A ``Compaction`` is planned on the loop, run anywhere (it reads sealed segments and writes ``.cleaned`` files), and put
in place on the loop (``swap.py``). Whatever a run meets is its outcome, never an exception: bytes on a disk cost their
log. Record bytes are copied, not re-encoded: offsets and timestamps are relative to a base that stays.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING

from moldau.model.named import NamedTuple
from moldau.ports import Disk
from moldau.storage.aborted import AbortedTxn
from moldau.storage.batch_extent import BatchExtent
from moldau.storage.cleanable import LONG_MAX, Dirt, is_due, measure
from moldau.storage.decided import DecidedTransactions
from moldau.storage.errors import CorruptLog
from moldau.storage.folder import Folder, LogDir
from moldau.storage.index_saves import sync_file
from moldau.storage.names import CLEANED, INDEX, LOG, TIME_INDEX, TXN_INDEX, offset_name
from moldau.storage.raw_records import Scanned, scan
from moldau.storage.segment import Segment
from moldau.storage.transactions import aborted_within, pack
from moldau.wire.batch import HEADER_SIZE, LENGTH_OVERHEAD, BatchHeader, headers, payload
from moldau.wire.compression import BatchError, compress
from moldau.wire.crc import crc32c
from moldau.wire.varints import varint

if TYPE_CHECKING:
    from moldau.storage.log import Log

MAX_KEYS = 800_000
"""Keys remembered in one run; a log with more is compacted in several."""
WRITE_BYTES = 1 << 19
"""Collected before they are written (log.cleaner.io.buffer.size)."""

KINDS = (INDEX, TIME_INDEX, TXN_INDEX, LOG)
"""The files of a compacted segment; the log last: it alone makes the others count."""

_HEADER = Struct(">qiibIhiqqqhii")
_CRC = Struct(">I")
_CONTROL, _HORIZON, _CODEC = 0x20, 0x40, 0x07
_LONG_KEY = 24
_MAX_RELATIVE = 0x7FFFFFFF
_PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})
"""What says nothing about the log: the run is made again the next time."""

Pace = Callable[[int], object]
"""Called with the size of each batch read; it may take its time (log.cleaner.io.max.bytes.per.second)."""


class SealedSegment(NamedTuple):
    """A sealed segment to compact; the next one begins at ``end``."""

    base: int
    size: int
    end: int


class CompactionOrder(NamedTuple):
    """All that a run has to know, as plain values: it may be handed to another thread or process."""

    folder: str
    sources: tuple[SealedSegment, ...]
    dirty_from: int
    """Records below were compacted before: their keys need not be noted."""
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    index_interval: int
    keep_empty: frozenset[int]
    """Last offsets of batches that keep their header when no record is left: a producer's last one tells its sequence
    number."""
    keep_markers: frozenset[tuple[int, int]] = frozenset()
    """Producer ids and epochs of which only a marker tells the epoch: it stays."""
    aborted: tuple[AbortedTxn, ...] = ()
    """The aborted transactions that may have records in the sources."""
    keys_max: int = MAX_KEYS
    write_bytes: int = WRITE_BYTES


class Compacted(NamedTuple):
    """Neighbouring sources that became one ``.cleaned`` segment at the offset of the first."""

    sources: tuple[SealedSegment, ...]
    size: int
    aborted: tuple[AbortedTxn, ...] = ()
    """The aborted transactions whose markers are in it, and of which readers have to be told still."""


class CompactionResult(NamedTuple):
    """What a run has made. With a ``reason`` it failed and left nothing; ``passing``: the log is not to blame;
    ``may_be_mended``: the disk or the system refused, which says nothing about the bytes of the log."""

    made: tuple[Compacted, ...] = ()
    cleaned_to: int = -1
    keys: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    reason: str = ""
    passing: bool = False
    may_be_mended: bool = False


def plan(log: Log, now_ms: int) -> Compaction | None:
    """A compaction to run when the log is dirty enough. OSError, LogError when it cannot be read."""
    dirt = measure(log, now_ms)
    if dirt is None or not is_due(log, dirt):
        return None
    return Compaction(log, dirt, now_ms)


def no_haste_needed(size: int) -> None:
    """No limit."""


class Compaction:
    """One run over one log: which segments, and (after ``run``) what stands in their place."""

    __slots__ = ("disk", "order", "outcome", "segments", "truncations")

    def __init__(self, log: Log, dirt: Dirt, now_ms: int) -> None:
        self.disk = log.dir.disk
        self.segments = {segment.base_offset: segment for segment in log.segments[: dirt.last]}
        self.truncations = log.truncations
        self.outcome: CompactionResult | None = None
        ends = [segment.base_offset for segment in log.segments[1 : dirt.last + 1]]
        self.order = CompactionOrder(
            folder=log.folder.path,
            sources=tuple(
                SealedSegment(base, segment.size, end)
                for (base, segment), end in zip(self.segments.items(), ends, strict=True)
            ),
            dirty_from=max(log.cleaned_to, log.segments[dirt.first].base_offset),
            now_ms=now_ms,
            delete_retention_ms=log.config.delete_retention_ms,
            segment_bytes=log.config.roll_bytes,
            index_interval=log.config.index_interval_bytes,
            keep_empty=frozenset(known.batches[-1].last_offset for _, known in log.producers if known.batches),
            keep_markers=frozenset((id, known.epoch) for id, known in log.producers if not known.batches),
            aborted=tuple(aborted_within(log, log.segments[0].base_offset, ends[-1])),
        )

    @property
    def cleaned_to(self) -> int:
        """Where the run stopped; before it, where it would at most."""
        return self.order.sources[-1].end if self.outcome is None else self.outcome.cleaned_to

    @property
    def error(self) -> str | None:
        """Why the run failed; None when it did not."""
        return None if self.outcome is None else self.outcome.reason or None

    @property
    def bytes(self) -> int:
        """The size of all that is read."""
        return sum(source.size for source in self.order.sources)

    def is_quick(self, bytes_max: int, records_max: int, packed_max: int) -> bool:
        """Whether no more than so many bytes and records are read, and so many bytes unpacked; asked on any thread."""
        if self.bytes > bytes_max:
            return False
        records = packed = 0
        try:
            for source in self.order.sources:
                data = self.disk.read(f"{self.order.folder}/{offset_name(source.base, LOG)}")[: source.size]
                for _, header in headers(data):
                    records += max(header.count, 0)
                    packed += header.length if header.codec else 0
        except OSError:
            return True  # whoever reads it says what is wrong
        return records <= records_max and packed <= packed_max

    def run(self, pace: Pace = no_haste_needed) -> None:
        """Do the work, here."""
        self.outcome = compact(self.order, self.disk, pace)

    def sweep(self) -> None:
        """Remove whatever a run has left that was ended from outside."""
        for source in self.order.sources:
            for kind in KINDS:
                with suppress(OSError):
                    self.disk.remove(f"{self.order.folder}/{offset_name(source.base, kind)}{CLEANED}")


def compact(order: CompactionOrder, disk: Disk, pace: Pace = no_haste_needed) -> CompactionResult:
    """Do what an order says; whatever it meets is in the outcome, and then no file is left."""
    run = _Run(order, disk, pace)
    try:
        return run.work()
    except Exception as error:  # whatever it is, it came from the bytes of this log: the log pays, not the node
        run.remove()
        passing = isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in _PASSING)
        named = isinstance(error, CorruptLog) or (isinstance(error, OSError) and error.filename is not None)
        refused = isinstance(error, OSError) and not passing
        reason = str(error) if named else f"{run.reading}: {error!r}"
        return CompactionResult(reason=reason, passing=passing, may_be_mended=refused)


class _Run:
    """A run under way."""

    def __init__(self, order: CompactionOrder, disk: Disk, pace: Pace) -> None:
        self._order = order
        # Files and indexes of its own: the log's belong to the loop.
        self._folder = Folder(LogDir(disk, order.folder.rpartition("/")[0]), order.folder)
        self._pace = pace
        self._keys: dict[bytes, int] = {}
        self._up_to = order.sources[-1].end
        self._cleaned: list[Segment] = []
        self._decided = DecidedTransactions(order.aborted)
        self._bytes_read = 0
        self.reading = order.folder

    def work(self) -> CompactionResult:
        self._note_keys()
        made = tuple(self._clean(group) for group in self._groups())
        written = sum(one.size for one in made)
        return CompactionResult(made, self._up_to, len(self._keys), self._bytes_read, written)

    def remove(self) -> None:
        """Take away what was written."""
        for cleaned in self._cleaned:
            with suppress(OSError):
                cleaned.remove()

    def _batches(self, source: SealedSegment) -> Iterator[tuple[Segment, int, BatchHeader]]:
        segment = Segment(self._folder, source.base, source.size)
        self.reading = segment.path()
        for position, header in segment.walk(0):
            yield segment, position, header
        segment.drop()

    def _read(self, segment: Segment, position: int, header: BatchHeader) -> bytes:
        raw = segment.batch(position, header)
        self._bytes_read += len(raw)
        self._pace(len(raw))
        return raw

    def _note_keys(self) -> None:
        """The last offset of every key in the dirty part, up to the first record for whose key there is no room: the
        run goes as far, and the next one on from there."""
        order, keys, most = self._order, self._keys, max(self._order.keys_max, 1)
        dirty = [source for source in order.sources if source.end > order.dirty_from]
        decided = DecidedTransactions(order.aborted, dirty[0].base)
        for source in dirty:
            for segment, position, header in self._batches(source):
                if header.attributes & _CONTROL:
                    decided.is_empty(header)
                    continue
                if decided.is_aborted(header) or header.last_offset < order.dirty_from:
                    continue
                raw = self._read(segment, position, header)
                try:
                    _, data = payload(raw)
                    base = header.base_offset
                    for _, _, _, _, offset_delta, key, _ in scan(data, header.count):
                        offset = base + offset_delta
                        if key is None or offset < order.dirty_from:
                            continue
                        digest = _digest(key)
                        if len(keys) >= most and digest not in keys:
                            self._up_to = min(offset, self._up_to)
                            return
                        keys[digest] = offset
                except BatchError as error:
                    raise CorruptLog(segment.path(), position, str(error)) from error

    def _groups(self) -> Iterator[tuple[SealedSegment, ...]]:
        """Neighbouring segments that together fit into one. That in which the run stops stays by itself: the rest of
        it is dirty."""
        group: list[SealedSegment] = []
        size = 0
        for source in self._order.sources:
            if source.base >= self._up_to:
                break
            wide = bool(group) and source.end - group[0].base > _MAX_RELATIVE
            if group and (size + source.size > self._order.segment_bytes or wide or source.end > self._up_to):
                yield tuple(group)
                group, size = [], 0
            group.append(source)
            size += source.size
        if group:
            yield tuple(group)

    def _clean(self, group: tuple[SealedSegment, ...]) -> Compacted:
        """Write a group's ``.cleaned`` segment, durably."""
        cleaned = Segment(self._folder, group[0].base, suffix=CLEANED)
        self._cleaned.append(cleaned)
        for kind in reversed(KINDS):
            self._folder.remove(cleaned.path(kind))
        cleaned.open(create=True)
        waiting = bytearray()
        extents: list[BatchExtent] = []
        for source in group:
            for segment, position, header in self._batches(source):
                raw = self._read(segment, position, header)
                try:
                    batch, timestamp = self._filter(raw, header)
                except BatchError as error:
                    raise CorruptLog(segment.path(), position, str(error)) from error
                if batch:
                    waiting += batch
                    extents.append(BatchExtent(len(batch), header.base_offset, header.last_offset, timestamp))
                if extents and len(waiting) >= self._order.write_bytes:
                    cleaned.append(waiting, extents, self._order.index_interval)
                    waiting, extents = bytearray(), []
        if extents:
            cleaned.append(waiting, extents, self._order.index_interval)
        cleaned.seal()
        cleaned.save_index()
        aborted = self._decided.take_kept()
        if aborted:
            self._folder.disk.write_atomic(cleaned.path(TXN_INDEX), pack(aborted))
        cleaned.open().sync()
        for kind in (INDEX, TIME_INDEX):
            sync_file(self._folder, cleaned.path(kind))
        cleaned.close()
        return Compacted(group, cleaned.size, aborted)

    def _kept(self, header: BatchHeader, data: bytes) -> Iterator[Scanned]:
        """The records that stay."""
        base, up_to, newest = header.base_offset, self._up_to, self._keys.get
        horizon = header.delete_horizon_ms
        tombstones_go = horizon is not None and horizon <= self._order.now_ms
        for record in scan(data, header.count):
            offset, key = base + record[4], record[5]
            if offset < up_to:  # above, nothing was noted
                if key is None:
                    continue  # cannot be replaced by key: came in before the topic was compacted; Kafka drops it too
                if offset < newest(_digest(key), -1) or (record[6] and tombstones_go):
                    continue
            yield record

    def _filter(self, batch: bytes, header: BatchHeader) -> tuple[bytes, int]:
        """The batch without the records that newer ones replace (empty: nothing is left), and its largest timestamp."""
        if header.attributes & _CONTROL:
            return self._marker(batch, header)
        if self._decided.is_aborted(header):
            return self._without_records(header)
        _, data = payload(batch)
        body = bytearray()
        count = begin = end = 0
        latest, tombstones = -1, False
        for start, _, after, timestamp_delta, _, _, tombstone in self._kept(header, data):
            if start != end:  # records between were left out
                body += data[begin:end]
                begin = start
            end = after
            count += 1
            tombstones |= tombstone
            latest = max(latest, wrapped(header.base_timestamp + timestamp_delta))
        if not count:
            return self._without_records(header)
        if tombstones and header.delete_horizon_ms is None:
            return self._with_horizon(header, data, self._kept(header, data))
        if count == header.count:
            return batch, header.max_timestamp
        body += data[begin:end]
        latest = header.max_timestamp if header.is_log_append_time else latest
        return _rebuild(header, body, count, latest), latest

    def _without_records(self, header: BatchHeader) -> tuple[bytes, int]:
        if header.producer_id >= 0 and header.last_offset in self._order.keep_empty:
            return _rebuild(header, b"", 0, header.max_timestamp), header.max_timestamp
        return b"", -1

    def _marker(self, batch: bytes, header: BatchHeader) -> tuple[bytes, int]:
        """A control batch, or nothing in its place once its transaction has had no records for delete.retention.ms."""
        is_last = (header.producer_id, header.producer_epoch) in self._order.keep_markers
        if not self._decided.is_empty(header) or header.producer_id < 0:
            return batch, header.max_timestamp
        if header.delete_horizon_ms is None:
            _, data = payload(batch)
            return self._with_horizon(header, data, scan(data, header.count))
        if header.delete_horizon_ms <= self._order.now_ms and not is_last:
            return b"", -1
        return batch, header.max_timestamp

    def _with_horizon(self, header: BatchHeader, data: bytes, kept: Iterable[Scanned]) -> tuple[bytes, int]:
        """A tombstone, or a marker without records, is met for the first time: it may go after delete.retention.ms.

        The horizon takes the place of the base timestamp, so every record's delta is written again.
        """
        horizon = min(self._order.now_ms + self._order.delete_retention_ms, LONG_MAX)
        body = bytearray()
        count, latest = 0, -1
        for _, delta_end, end, timestamp_delta, _, _, _ in kept:
            timestamp = wrapped(header.base_timestamp + timestamp_delta)
            middle = b"\x00" + varint(wrapped(timestamp - horizon))
            body += varint(len(middle) + end - delta_end)
            body += middle
            body += data[delta_end:end]
            count += 1
            latest = max(latest, timestamp)
        latest = header.max_timestamp if header.is_log_append_time else latest
        marked = header._replace(attributes=header.attributes | _HORIZON, base_timestamp=horizon)
        return _rebuild(marked, body, count, latest), latest


def wrapped(number: int) -> int:
    """A sum of int64s as int64s make it: Java's clients add a record's delta so, and no sum is refused.

    >>> wrapped(LONG_MAX + 1) == -LONG_MAX - 1
    True
    """
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _rebuild(header: BatchHeader, body: bytes | bytearray, count: int, max_timestamp: int) -> bytes:
    """A batch with the same offsets, producer and codec, and other records."""
    if count:
        body = compress(header.attributes & _CODEC, body)
    length = HEADER_SIZE - LENGTH_OVERHEAD + len(body)
    head = bytearray(_HEADER.pack(*header._replace(length=length, crc=0, max_timestamp=max_timestamp, count=count)))
    _CRC.pack_into(head, 17, crc32c(body, crc32c(memoryview(head)[21:])))
    return bytes(head) + body


def _digest(key: bytes) -> bytes:
    """Long keys are remembered by 128 bits of them: two keys that agree in those do not occur."""
    if len(key) <= _LONG_KEY:
        return key
    from hashlib import blake2b  # OpenSSL's, which a start has no use for

    return blake2b(key, digest_size=16).digest() + b"-long key-"
