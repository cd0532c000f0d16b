"""Between a shard of the group coordinator and its partition's log: batches of records, and reading them all back.

Decides nothing about groups. A record that cannot be read is named in the log and left out: one broken record must not
take away a fiftieth of all groups. Offsets written inside a transaction count when its commit marker is met (KIP-98).
Read next: ``coordinator.py``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from moldau.groups.codec import pack, unpack
from moldau.groups.records import Record
from moldau.storage import Log
from moldau.terms import Code
from moldau.wire import batch
from moldau.wire.batch import BatchHeader, ControlType
from moldau.wire.codec import Malformed
from moldau.wire.compression import BatchError

log = logging.getLogger("moldau.groups")

READ_BYTES = 256 * 1024
"""Read at once while loading: what is parsed of it must not hold the loop."""
RECORD_OVERHEAD_BYTES = 32
"""Beside key and value, generously: lengths, deltas, attributes."""


def batches_of(appends: Iterable[tuple[int, tuple[Record, ...]]], wall_ms: int, max_bytes: int) -> Iterator[_Batch]:
    """(bytes, numbers of the appends in them) for as few batches as ``max_bytes`` allows; an append is never split."""
    builder, size, seqs = batch.Builder(), 0, list[int]()
    for seq, records in appends:
        packed = [pack(record) for record in records]
        needs = sum(len(key) + len(value or b"") + RECORD_OVERHEAD_BYTES for key, value in packed)
        if seqs and size + needs > max_bytes:
            yield builder.finish(), seqs
            builder, size, seqs = batch.Builder(), 0, []
        for key, value in packed:
            builder.append(wall_ms, key, value)
        size += needs
        seqs.append(seq)
    if seqs:
        yield builder.finish(), seqs


_Batch = tuple[bytes, list[int]]


class Replay:
    """Reads a log from its start to ``end``, some batches at a time; ``records`` yields them in log order."""

    def __init__(self, partition_log: Log, end: int) -> None:
        self._log = partition_log
        self._at = partition_log.log_start_offset
        self._end = end
        self._open: dict[int, list[Record]] = {}
        """Records of transactions whose end was not met yet, by producer id."""

    def records(self) -> Iterator[Record | None]:
        """Every record in order; None after each batch, where the reader may pause. LogError when the disk fails."""
        while self._at < self._end:
            self._at = max(self._at, self._log.log_start_offset)  # retention and compaction go on meanwhile
            data = self._log.read(self._at, READ_BYTES, up_to=self._end)
            before = self._at
            for position, header in batch.headers(data):
                yield from self._batch(data, position, header)
                self._at = header.next_offset
                yield None
            if self._at == before:
                return  # the rest was compacted away

    def _batch(self, data: bytes, position: int, header: BatchHeader) -> Iterator[Record]:
        code = batch.check(data, position, header)
        if code is not Code.NONE:
            log.error("the batch at offset %d of a group log is left out: %s", header.base_offset, code.name)
        elif header.is_control:
            yield from self._marker(data, position, header)
        elif header.is_transactional:
            self._open.setdefault(header.producer_id, []).extend(_records(data, position))
        else:
            yield from _records(data, position)

    def _marker(self, data: bytes, position: int, header: BatchHeader) -> Iterator[Record]:
        held = self._open.pop(header.producer_id, [])
        first = next(iter(batch.records(data, position)), None)
        if first is not None and batch.control_type(first.key) == ControlType.COMMIT:
            yield from held


def _records(data: bytes, position: int) -> Iterator[Record]:
    try:
        for entry in batch.records(data, position):
            try:
                record = None if entry.key is None else unpack(entry.key, entry.value)
            except Malformed as error:
                log.error("record %d of a group log cannot be read and is left out: %s", entry.offset, error)
                continue
            if record is not None:
                yield record
    except BatchError as error:
        log.error("a batch of a group log cannot be read and is left out: %s", error)
