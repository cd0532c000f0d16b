"""Transactions that a partition has open and that no coordinator will end: consumers that read committed records only
wait at the first of their records, and compaction and transactions of others wait behind it (KIP-664).

As Apache Kafka's ``kafka-transactions.sh find-hanging`` judges them, but from files: a transaction of which nothing was
written for longer than any transaction may last, and that no transactional id in ``__transaction_state`` has among its
partitions. What a partition has open stands in the newest snapshot of its producers (``.snapshot``) and in the batches
behind it, as a broker reads both when it starts. Read next: ``transactions.py``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from moldau.clusterdata.columns import Column
from moldau.clusterdata.jobs import transactions
from moldau.clusterdata.jobs.coordinator_log import end_of
from moldau.clusterdata.jobs.options import JobOptions
from moldau.clusterdata.metadata import TOPIC as METADATA
from moldau.clusterdata.replica_check.assigned import assigned
from moldau.clusterdata.segments import FoundBatch, ListedSegment, scan, segments
from moldau.model import TopicPartition
from moldau.model.counted import counted
from moldau.model.named import NamedTuple
from moldau.storage.errors import BrokenFile
from moldau.storage.names import SNAPSHOT, parse_offset_name
from moldau.storage.producers import Producers
from moldau.wire.batch import HEADER_SIZE, records_of
from moldau.wire.compression import BatchError, decompress

COLUMNS = (
    Column("topic", "string", "The topic."),
    Column("partition", "int", "The number of the partition."),
    Column("producer_id", "bigint", "The id of the producer whose transaction it is."),
    Column("producer_epoch", "int", "The epoch of that id."),
    Column("coordinator_epoch", "int", "That of the coordinator that wrote its last marker; -1: none is known."),
    Column("start_offset", "bigint", "The offset of the transaction's first record, by which Kafka's tools abort it."),
    Column("last_ms", "bigint", "The timestamp of its last record."),
    Column("silent_ms", "bigint", "How long ago that is."),
    Column("broker", "int", "The broker of the replica that was read; null when its folder does not say."),
    Column("reason", "string", "What could not be read, and may have said otherwise; null: nothing."),
)
_MARKER_EPOCH_AT = 2
"""In the value of a marker the epoch of the coordinator stands behind the version."""


class TransactionsToCheck(NamedTuple):
    """The replica of a partition that goes furthest, the producer ids of transactions that their coordinators have in
    it, what could not be read of the coordinators' log, and the time that it is."""

    log: tuple[ListedSegment, ...]
    held: frozenset[int]
    doubt: str | None
    now_ms: int


class Transaction:
    """What a partition knows of a producer that has transactions; ``start`` is -1 while none is open."""

    __slots__ = ("coordinator_epoch", "epoch", "last_ms", "start")

    def __init__(self, epoch: int, coordinator_epoch: int, last_ms: int, start: int) -> None:
        self.epoch, self.coordinator_epoch, self.last_ms, self.start = epoch, coordinator_epoch, last_ms, start


def plan(options: JobOptions) -> Sequence[TransactionsToCheck]:
    """A task for each partition. FileNotFoundError where there is no __transaction_state, and BrokenFile where a part
    of it is not there: every transaction that it tells of would look as if nobody knew it."""
    held, doubt = _held(options)
    now_ms = time.time_ns() // 1_000_000 if options.now_ms is None else options.now_ms
    of: dict[TopicPartition, dict[str, dict[str, ListedSegment]]] = {}
    for path in options.paths:
        for one in segments(path, options.topics):
            if one.topic not in (METADATA, transactions.TOPIC):
                key = TopicPartition(one.topic, one.partition)
                of.setdefault(key, {}).setdefault(one.directory, {})[one.path] = one
    return [
        TransactionsToCheck(_furthest(replicas), frozenset(held.get(str(key), ())), doubt, now_ms)
        for key, replicas in sorted(of.items())
    ]


def rows(task: TransactionsToCheck, options: JobOptions) -> Iterator[tuple[object, ...]]:
    """A row of ``COLUMNS`` for each transaction that hangs in a partition, the oldest first."""
    known, doubts = _producers(task.log)
    reason = "; ".join(([task.doubt] if task.doubt is not None else []) + doubts) or None
    first = task.log[0]
    for id, one in sorted(known.items(), key=lambda entry: entry[1].start):
        silent_ms = task.now_ms - one.last_ms
        if one.start < 0 or id in task.held or silent_ms <= options.longest_ms:
            continue
        yield (
            first.topic, first.partition, id, one.epoch, one.coordinator_epoch, one.start, one.last_ms, silent_ms,
            first.broker, reason,
        )  # fmt: skip


def _held(options: JobOptions) -> tuple[dict[str, set[int]], str | None]:
    """Partition -> producer ids of transactions that a coordinator has in it, and what could not be read of them."""
    logs = transactions.plan(options)
    where = ", ".join(options.paths)
    if not logs:
        raise FileNotFoundError(2, f"no {transactions.TOPIC}, which tells the transactions that are known", where)
    there = {one[0].partition for one in logs}
    wanted = {one.partition for one in assigned(options.paths) if one.topic == transactions.TOPIC}
    if absent := sorted((wanted | set(range(max(there)))) - there):
        numbers = ", ".join(map(str, absent))
        raise BrokenFile(f"{where}: of {transactions.TOPIC} not there: {numbers}; what they tell would look unknown")
    held: dict[str, set[int]] = {}
    unread = 0
    for log in logs:
        newest: dict[str, transactions.TransactionEntry] = {}
        for entry in transactions.entries(log):
            if entry.transactional_id is None:
                unread += 1
            else:
                newest[entry.transactional_id] = entry
        for entry in newest.values():
            if entry.value is not None:
                for name in transactions.partitions_of(entry.value):
                    held.setdefault(name, set()).add(entry.value.producer_id)
            unread += entry.reason is not None
    if not unread:
        return held, None
    return held, f"{counted(unread, 'place')} of {transactions.TOPIC} cannot be read"


def _furthest(replicas: dict[str, dict[str, ListedSegment]]) -> tuple[ListedSegment, ...]:
    found = [tuple(one.values()) for _, one in sorted(replicas.items())]
    return found[0] if len(found) == 1 else max(found, key=end_of)


def _producers(log: Sequence[ListedSegment]) -> tuple[dict[int, Transaction], list[str]]:
    """The producers that have transactions in a replica, and what could not be read."""
    begin, known = _snapshot(log)
    doubts: list[str] = []
    for segment, following in zip(log, [*log[1:], None], strict=True):
        if following is not None and following.base <= begin:
            continue
        try:
            for found in scan(segment.path):
                header = found.header
                if header is None or found.reason is not None:
                    doubts.append(f"{segment.path}, byte {found.position}: {found.reason}")
                elif header.is_transactional and header.base_offset >= begin:
                    _take(known, found, doubts, segment)
        except OSError as error:
            if not isinstance(error, FileNotFoundError):  # of a file that retention has deleted since
                doubts.append(f"{segment.path}: {error.strerror}")
    return known, doubts


def _take(known: dict[int, Transaction], found: FoundBatch, doubts: list[str], segment: ListedSegment) -> None:
    """A batch of a transaction, or a marker."""
    header = found.header
    assert header is not None
    one = known.setdefault(header.producer_id, Transaction(header.producer_epoch, -1, -1, -1))
    one.epoch, one.last_ms = header.producer_epoch, header.max_timestamp
    if not header.is_control:
        if one.start < 0:
            one.start = header.base_offset
        return
    one.start = -1
    try:
        for record in records_of(header, decompress(header.codec, found.data[HEADER_SIZE:])):
            told = (record.value or b"")[_MARKER_EPOCH_AT : _MARKER_EPOCH_AT + 4]
            one.coordinator_epoch = int.from_bytes(told, "big", signed=True) if len(told) == 4 else -1
    except BatchError as error:
        doubts.append(f"{segment.path}, byte {found.position}: {error}")


def _snapshot(log: Sequence[ListedSegment]) -> tuple[int, dict[int, Transaction]]:
    """Up to where the newest snapshot of a replica's producers tells, and those of them that have transactions."""
    folder = Path(log[0].path).parent
    offsets = []
    for file in folder.glob(f"*{SNAPSHOT}"):
        name = parse_offset_name(file.name)
        if name is not None and not name.state:
            offsets.append((name.offset, file))
    end = end_of(log) if offsets else -1
    for offset, file in sorted(offsets, reverse=True):
        if offset > max(end, log[0].base):  # of a log that was cut off since
            continue
        try:
            found = Producers.parse(file.read_bytes(), offset, str(file))
        except (BrokenFile, OSError):  # an older one, and more batches, tell the same
            continue
        return offset, {
            id: Transaction(one.epoch, one.coordinator_epoch, one.last_timestamp, one.txn_first_offset)
            for id, one in found
        }
    return -1, {}
