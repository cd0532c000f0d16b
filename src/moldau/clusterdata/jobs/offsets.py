"""The topic __consumer_offsets as tables: the newest of each key, tombstones too.

Offsets of a transaction count from its commit marker on, and not when a newer commit was made meanwhile, as the
coordinator takes them. Which replica is read: ``coordinator_log.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from moldau.clusterdata.columns import Column
from moldau.clusterdata.jobs import coordinator_log
from moldau.clusterdata.jobs.options import JobOptions
from moldau.clusterdata.segments import ListedSegment
from moldau.groups.codec import unpack
from moldau.groups.records import GroupRecord, OffsetRecord, OtherGroupRecord
from moldau.model.named import NamedTuple
from moldau.wire.batch import BatchHeader, ControlType, Record, control_type
from moldau.wire.codec import Malformed
from moldau.wire.compression import BatchError

TOPIC = "__consumer_offsets"
_PLACE = (
    Column("log_partition", "int", "The partition of __consumer_offsets."),
    Column("log_offset", "bigint", "The offset of the record there; null where nothing could be read."),
    Column("reason", "string", "Why the other columns are empty; null where the record was understood."),
)
OFFSET_COLUMNS = (
    Column("group", "string", "The group."),
    Column("topic", "string", "The topic."),
    Column("partition", "int", "The number of the partition."),
    Column("offset", "bigint", "The committed offset; null of a tombstone."),
    Column("leader_epoch", "int", "The leader epoch of the last record read; -1 is unknown."),
    Column("metadata", "string", "What the consumer said beside it."),
    Column("commit_ms", "bigint", "When it was committed, by the coordinator's clock."),
    Column("tombstone", "boolean", "Whether the offset was deleted."),
    *_PLACE,
)
GROUP_COLUMNS = (
    Column("group", "string", "The group."),
    Column("protocol_type", "string", "consumer, connect, ...; empty of a group that only keeps offsets."),
    Column("generation", "int", "Its generation."),
    Column("protocol", "string", "The assignor that its members share."),
    Column("leader", "string", "The member that assigns."),
    Column("members", "array<string>", "The ids of its members."),
    Column("clients", "array<string>", "The client ids and hosts of its members: app@/127.0.0.1."),
    Column("since_ms", "bigint", "When it came to this; -1 is unknown."),
    Column("tombstone", "boolean", "Whether the group was deleted."),
    *_PLACE,
)

Row = tuple[object, ...]


class OffsetEntry(NamedTuple):
    """A record that counts, or (no record) what could not be read. ``log_offset`` orders entries of one key."""

    log_offset: int | None
    record: OffsetRecord | GroupRecord | None
    reason: str | None


def plan(options: JobOptions) -> Sequence[tuple[ListedSegment, ...]]:
    """A task for each partition of the topic: the segments of one replica. FileNotFoundError names a folder that is
    none."""
    return coordinator_log.plan(options, TOPIC)


def entries(replica: Sequence[ListedSegment]) -> Iterator[OffsetEntry]:
    """What counts in a partition of the topic, in the order in which it came to count."""
    pending: dict[tuple[int, int], list[OffsetEntry]] = {}
    for found in coordinator_log.batches(replica):
        if isinstance(found, coordinator_log.UnreadRecord):
            yield OffsetEntry(None, None, found.reason)
        else:
            yield from _of_batch(found.header, found.records, pending)


def _of_batch(
    header: BatchHeader, records: Sequence[Record], pending: dict[tuple[int, int], list[OffsetEntry]]
) -> Iterator[OffsetEntry]:
    producer = header.producer_id, header.producer_epoch
    if header.is_control:
        for record in records:
            try:
                kind = control_type(record.key)
            except BatchError as error:
                yield OffsetEntry(record.offset, None, str(error))
                continue
            if kind in (ControlType.COMMIT, ControlType.ABORT):
                ended = [key for key in pending if key[0] == producer[0] and key[1] <= producer[1]]
                for key in ended:
                    held = pending.pop(key)
                    if kind == ControlType.COMMIT:
                        yield from held
        return
    found = [one for record in records if (one := _entry(record)) is not None]
    if header.is_transactional:
        pending.setdefault(producer, []).extend(found)
    else:
        yield from found


def _entry(record: Record) -> OffsetEntry | None:
    """None: a kind of record that is not told of here."""
    try:
        found = None if record.key is None else unpack(record.key, record.value)
    except (Malformed, ValueError, IndexError) as error:
        return OffsetEntry(record.offset, None, str(error) or repr(error))
    if record.key is None:
        return OffsetEntry(record.offset, None, "a record without a key")
    return None if found is None or isinstance(found, OtherGroupRecord) else OffsetEntry(record.offset, found, None)


def _newest(task: Sequence[ListedSegment]) -> tuple[dict[object, OffsetEntry], list[OffsetEntry]]:
    newest: dict[object, OffsetEntry] = {}
    broken: list[OffsetEntry] = []
    for entry in entries(task):
        record = entry.record
        if record is None:
            broken.append(entry)
            continue
        key = record[:-1]
        before = newest.get(key)
        assert entry.log_offset is not None
        if before is None or before.log_offset is None or before.log_offset < entry.log_offset:
            newest[key] = entry
    return newest, broken


def offset_rows(task: Sequence[ListedSegment], options: JobOptions) -> Iterator[Row]:
    """A row of ``OFFSET_COLUMNS`` for each group and partition, and for each record that cannot be read."""
    number = task[0].partition
    newest, broken = _newest(task)
    for entry in newest.values():
        if isinstance(entry.record, OffsetRecord) and (not options.groups or entry.record.group_id in options.groups):
            group, topic, partition, value = entry.record
            told = (None,) * 4 if value is None else (value.offset, value.leader_epoch, value.metadata, value.commit_ms)
            yield group, topic, partition, *told, value is None, number, entry.log_offset, None
    for entry in broken:
        yield *(None,) * 8, number, entry.log_offset, entry.reason


def group_rows(task: Sequence[ListedSegment], options: JobOptions) -> Iterator[Row]:
    """A row of ``GROUP_COLUMNS`` for each group, and for each record that cannot be read."""
    number = task[0].partition
    newest, broken = _newest(task)
    for entry in newest.values():
        if not isinstance(entry.record, GroupRecord) or (
            options.groups and entry.record.group_id not in options.groups
        ):
            continue
        group, value = entry.record
        told: Row = (None,) * 7
        if value is not None:
            members = [member.member_id for member in value.members]
            clients = [f"{member.client_id}@{member.client_host}" for member in value.members]
            told = (value.protocol_type, value.generation, value.protocol_name, value.leader_id, members, clients,
                    value.since_ms)  # fmt: skip
        yield group, *told, value is None, number, entry.log_offset, None
    for entry in broken:
        yield *(None,) * 9, number, entry.log_offset, entry.reason
