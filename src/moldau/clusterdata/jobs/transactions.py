"""The topic __transaction_state as tables: the newest record of each transactional id, and all that the log still has.

Apache Kafka's coordinators write it; a node of Moldau may hold a replica. Its key is led by a type, of which there is
one (0), its value by a version: 0, or 1 with what KIP-890 added. What cannot be read is a row with the reason, under
its transactional id where the key tells that: an older state would look as if it were the newest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum

from moldau.clusterdata.columns import Column
from moldau.clusterdata.jobs import coordinator_log
from moldau.clusterdata.jobs.options import JobOptions
from moldau.clusterdata.segments import ListedSegment
from moldau.model.named import NamedTuple
from moldau.wire.batch import Record
from moldau.wire.codec import Buffer, Malformed, decode_from
from moldau.wire.records.framing import version_of
from moldau.wire.records.transactions import TransactionLogKey, TransactionLogValue

TOPIC = "__transaction_state"
COLUMNS = (
    Column("transactional_id", "string", "The transactional id; null where that could not be read."),
    Column("state", "string", "Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, ..."),
    Column("producer_id", "bigint", "The id that its producer has."),
    Column("producer_epoch", "int", "The epoch of that id; -1 is none yet."),
    Column("partitions", "array<string>", "The partitions of its transaction: orders-0."),
    Column("started_ms", "bigint", "When its transaction began, by the coordinator's clock; -1: none has."),
    Column("updated_ms", "bigint", "When it came to this, by the coordinator's clock."),
    Column("timeout_ms", "int", "How long a transaction of it may last until the coordinator aborts it."),
    Column("previous_producer_id", "bigint", "The id of the last transaction that was ended; -1 is unknown."),
    Column("next_producer_id", "bigint", "The id that its producer goes on with (KIP-890); -1 is none."),
    Column("next_producer_epoch", "int", "The epoch of that id; -1 is none."),
    Column("client_version", "int", "The transaction.version that its producer was served by; 0 where none is told."),
    Column("version", "int", "The version of the record's value: 0 tells nothing of the four columns before."),
    Column("tombstone", "boolean", "Whether the transactional id was removed, as those are that nobody uses."),
    Column("record_ms", "bigint", "The timestamp of the record."),
    Column("log_partition", "int", "The partition of __transaction_state."),
    Column("log_offset", "bigint", "The offset of the record there; null where none could be read."),
    Column("reason", "string", "What is not understood of it, and not told in the columns before; null: all is."),
)
_OF_VALUE = 12
"""Columns that a value tells, from ``state`` on."""

Row = tuple[object, ...]


class TransactionState(IntEnum):
    """What a coordinator has a transactional id in, by the number in its log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def shown(self) -> str:
        """As Kafka's tools name it: PrepareCommit."""
        return "".join(word.capitalize() for word in self.name.split("_"))


class TransactionEntry(NamedTuple):
    """What stands in the log: of a record of ``transactional_id`` its value and the version of that, both None of a
    tombstone. With a reason something could not be read; without a record that is all."""

    transactional_id: str | None
    version: int | None
    value: TransactionLogValue | None
    record: Record | None
    reason: str | None


def plan(options: JobOptions) -> Sequence[tuple[ListedSegment, ...]]:
    """A task for each partition of the topic: the segments of one replica. FileNotFoundError names a folder that is
    none."""
    return coordinator_log.plan(options, TOPIC)


def entries(replica: Sequence[ListedSegment]) -> Iterator[TransactionEntry]:
    """All that stands in a partition of the topic, in its order."""
    for found in coordinator_log.batches(replica):
        if isinstance(found, coordinator_log.UnreadRecord):
            yield TransactionEntry(None, None, None, None, found.reason)
        elif not found.header.is_control:
            yield from map(_entry, found.records)


def newest_rows(task: Sequence[ListedSegment], options: JobOptions) -> Iterator[Row]:
    """A row of ``COLUMNS`` for each transactional id, and for each place where it is not known whose record that is."""
    newest: dict[str, TransactionEntry] = {}
    nameless = []
    for entry in entries(task):
        if entry.transactional_id is None:
            nameless.append(entry)
        else:
            newest[entry.transactional_id] = entry
    yield from _rows(task, [*newest.values(), *nameless], options)


def history_rows(task: Sequence[ListedSegment], options: JobOptions) -> Iterator[Row]:
    """A row of ``COLUMNS`` for each record that compaction has left, in their order."""
    yield from _rows(task, entries(task), options)


def _entry(record: Record) -> TransactionEntry:
    try:
        if record.key is None:
            return TransactionEntry(None, None, None, record, "a record without a key")
        kind = version_of(record.key)
        if kind != TransactionLogKey.api_key:
            return TransactionEntry(None, None, None, record, f"a record of type {kind}: 0 alone is known")
        id = decode_from(TransactionLogKey, memoryview(record.key), 2, 0)[0].transactional_id
    except (Malformed, ValueError) as error:
        return TransactionEntry(None, None, None, record, f"its key: {error}")
    if record.value is None:
        return TransactionEntry(id, None, None, record, None)
    try:
        return TransactionEntry(id, *_value(record.value), record, None)
    except (Malformed, ValueError) as error:
        return TransactionEntry(id, None, None, record, f"its value: {error}")


def _value(data: Buffer) -> tuple[int, TransactionLogValue]:
    version = version_of(data)
    first, last = TransactionLogValue.versions
    if not first <= version <= last:
        raise Malformed(f"version {version} is not known: {first} and {last} are")
    return version, decode_from(TransactionLogValue, memoryview(data), 2, version)[0]


def _rows(
    task: Sequence[ListedSegment], found: Iterator[TransactionEntry] | Sequence[TransactionEntry], options: JobOptions
) -> Iterator[Row]:
    number = task[0].partition
    for entry in found:
        id, version, value, record, reason = entry
        if options.transactional_ids and id is not None and id not in options.transactional_ids:
            continue
        told: Row = (None,) * _OF_VALUE
        if value is not None:
            state, reason = _state(value.transaction_status)
            told = (
                state, value.producer_id, value.producer_epoch, partitions_of(value),
                value.transaction_start_timestamp_ms, value.transaction_last_update_timestamp_ms,
                value.transaction_timeout_ms, value.previous_producer_id, value.next_producer_id,
                value.next_producer_epoch, value.client_transaction_version, version,
            )  # fmt: skip
        tombstone = None if id is None or (value is None and reason is not None) else value is None
        place: Row = (None, number, None) if record is None else (record.timestamp, number, record.offset)
        yield id, *told, tombstone, *place, reason


def _state(status: int) -> tuple[str | None, str | None]:
    """The name of a state, or why there is none."""
    try:
        return TransactionState(status).shown, None
    except ValueError:
        return None, f"its state: {status} is not known"


def partitions_of(value: TransactionLogValue) -> list[str]:
    """The partitions that a transaction has so far, by name: orders-0; none once it has ended."""
    topics = value.transaction_partitions or ()
    return [f"{one.topic}-{number}" for one in topics for number in one.partition_ids]
