"""Between a shard of the group coordinator and its partition's log: batches of records, and reading them all back.

Decides nothing about groups. A record that cannot be read is named in the log and left out: one broken record must not
take away a fiftieth of all groups. Offsets written inside a transaction count when its commit marker is met (KIP-98).
Read next: ``groups/coordinator.py``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from moldau.groups.codec import pack, unpack
from moldau.groups.facts import TransactionalWriter
from moldau.groups.group import INT32_MAX
from moldau.groups.records import GroupRecord, OffsetRecord, OtherGroupRecord, Record, ReplayedRecord
from moldau.model import Code
from moldau.model.named import NamedTuple
from moldau.storage import Log
from moldau.storage.slow import Slow, unpacked
from moldau.wire import batch
from moldau.wire.batch import BatchHeader, ControlType
from moldau.wire.codec import Malformed
from moldau.wire.compression import MAX_OUTPUT_BYTES, BatchError

log = logging.getLogger(__name__)

READ_BYTES = 256 * 1024
"""Read at once while loading: what is parsed of it must not hold the loop."""
RECORD_OVERHEAD_BYTES = 32
"""Beside key and value, generously: lengths, deltas, attributes."""
LEFT_OUT_SHOWN = 10
"""Lines in the log about what one replay leaves out; the rest is only counted."""


class OffsetsBatch(NamedTuple):
    """The bytes of one batch, and the numbers of the appends whose records are in it."""

    data: bytes
    seqs: tuple[int, ...]


class Unwritable(NamedTuple):
    """An append that no batch can hold, and why. It costs nobody but its own caller."""

    seq: int
    why: str
    code: Code = Code.INVALID_REQUEST


def batches_of(
    appends: Iterable[tuple[int, tuple[Record, ...]]],
    wall_ms: int,
    max_bytes: int,
    producer: TransactionalWriter | None = None,
    record_bytes_max: int = INT32_MAX,
) -> Iterator[OffsetsBatch | Unwritable]:
    """As few batches as ``max_bytes`` allows, of the producer's transaction if there is one; an append is never split.
    What cannot be written comes out by itself, before any batch that holds a later append; what the log would not take,
    of more than ``record_bytes_max``, without being made: that is a long step for nothing."""
    builder, size, seqs = batch.Builder(), 0, list[int]()
    for seq, records in appends:
        least = sum(map(_least_bytes, records))
        if least > record_bytes_max:
            yield Unwritable(seq, f"{least} bytes, of which the topic takes {record_bytes_max}", Code.MESSAGE_TOO_LARGE)
            continue
        try:
            packed = [pack(record) for record in records]
        except Malformed as error:
            yield Unwritable(seq, str(error))
            continue
        needs = sum(len(key) + len(value or b"") + RECORD_OVERHEAD_BYTES for key, value in packed)
        if seqs and size + needs > max_bytes:
            yield OffsetsBatch(_finished(builder, producer), tuple(seqs))
            builder, size, seqs = batch.Builder(), 0, []
        for key, value in packed:
            builder.append(wall_ms, key, value)
        size += needs
        seqs.append(seq)
    if builder.count:
        yield OffsetsBatch(_finished(builder, producer), tuple(seqs))


def _least_bytes(record: Record) -> int:
    """What a group's record holds at least; of others, which are small, 0."""
    if not isinstance(record, GroupRecord) or record.value is None:
        return 0
    return sum(len(member.subscription) + len(member.assignment) for member in record.value.members)


def _finished(builder: batch.Builder, producer: TransactionalWriter | None) -> bytes:
    if producer is None:
        return builder.finish()
    return builder.finish(producer_id=producer.id, producer_epoch=producer.epoch, transactional=True)


class Replay:
    """Reads a log from its start to ``end``, some batches at a time; ``records`` yields them in log order."""

    def __init__(self, partition_log: Log, end: int) -> None:
        self._log = partition_log
        self._at = partition_log.log_start_offset
        self._end = end
        self._open: dict[int, dict[object, tuple[int, ReplayedRecord]]] = {}
        """Records of transactions whose end was not met yet, by producer id and what they are about, with their
        offsets in the log."""
        self.left_out = 0
        """How many records and batches could not be read."""

    def records(self) -> Iterator[ReplayedRecord | Slow | None]:
        """Every record in order; None in place of one that is not kept or cannot be read, and after each batch: the
        reader may pause at any of them. A ``Slow`` is called, anywhere, before the next is asked for: a batch that
        unpacks to much. LogError when the disk fails."""
        while self._at < self._end:
            self._at = max(self._at, self._log.log_start_offset)  # retention and compaction go on meanwhile
            data = self._log.read(self._at, READ_BYTES, up_to=self._end)
            before = self._at
            for position, header in batch.headers(data):
                yield from self._batch(data, position, header)
                self._at = header.next_offset
                yield None
            if self._at <= before:
                return  # the rest was compacted away

    def leave_out(self, offset: int, why: object, what: str = "record") -> None:
        """Name what is not loaded; no more than a few of them, for a log may be full of it."""
        self.left_out += 1
        if self.left_out <= LEFT_OUT_SHOWN:
            where = self._log.partition
            log.warning("the %s at offset %d of %s cannot be read and is left out: %s", what, offset, where, why)
        if self.left_out == LEFT_OUT_SHOWN:
            log.warning("what else cannot be read of %s is only counted", self._log.partition)

    def _batch(self, data: bytes, position: int, header: BatchHeader) -> Iterator[ReplayedRecord | Slow | None]:
        code = batch.check(data, position, header)
        if code is not Code.NONE:
            self.leave_out(header.base_offset, code.name, "batch")
        elif header.is_control:
            yield from self._marker(data, position, header)
        elif header.is_transactional:
            held = self._open.setdefault(header.producer_id, {})
            for number, record in enumerate(self._records(data, position, header)):
                if isinstance(record, Slow):
                    yield record
                    continue
                if record is not None:
                    held[_about(record)] = header.base_offset + number, record
                yield None
        elif self._open:
            for record in self._records(data, position, header):
                if record is not None and not isinstance(record, Slow):
                    self._overtake(record, header.last_offset)
                yield record
        else:
            yield from self._records(data, position, header)

    def _overtake(self, record: ReplayedRecord, offset: int) -> None:
        """What a transaction holds about the same from before ``offset`` will not count. A removal leaves it."""
        if record.value is not None:
            about = _about(record)
            for held in self._open.values():
                if about in held and held[about][0] < offset:
                    del held[about]

    def still_open(self) -> list[tuple[int, ReplayedRecord]]:
        """(producer id, record) of transactions that are open at the end, in the order of the log."""
        found = [(at, id, record) for id, held in self._open.items() for at, record in held.values()]
        return [(id, record) for _, id, record in sorted(found, key=lambda one: one[0])]

    def _marker(self, data: bytes, position: int, header: BatchHeader) -> Iterator[ReplayedRecord]:
        held = self._open.pop(header.producer_id, {})
        try:
            first = next(iter(batch.records(data, position)), None)
            commits = first is not None and batch.control_type(first.key) == ControlType.COMMIT
        except BatchError as error:
            self.leave_out(header.base_offset, error, "marker")
            return
        if commits:
            for at, record in held.values():
                self._overtake(record, at)
                yield record

    def _records(self, data: bytes, position: int, header: BatchHeader) -> Iterator[ReplayedRecord | Slow | None]:
        try:
            _, packed = batch.packed_payload(data, position)
            plain = yield from unpacked(header.codec, packed, MAX_OUTPUT_BYTES)
            batch.check_count(header, plain)
            for entry in batch.records_of(header, plain):
                record = None
                try:
                    if entry.key is not None:
                        record = _possible(unpack(entry.key, entry.value))
                except Malformed as error:
                    self.leave_out(entry.offset, error)
                yield record
        except BatchError as error:
            self.leave_out(header.base_offset, error, "rest of the batch")


def _about(record: ReplayedRecord) -> object:
    """The key under which a record stands in the log."""
    if isinstance(record, OtherGroupRecord):
        return record.key
    return (record.group_id, record.topic, record.partition) if isinstance(record, OffsetRecord) else record.group_id


def _possible(record: ReplayedRecord | None) -> ReplayedRecord | None:
    """The record; Malformed when it says what no group can be: whoever wrote it was not a coordinator."""
    if isinstance(record, GroupRecord) and record.value is not None and (flaw := record.value.flaw()):
        raise Malformed(flaw)
    return record
