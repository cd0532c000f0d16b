"""The metadata log of a KRaft cluster, out of a node's files: its records, the image at an offset or a time, and what
changed between two.

What a log holds need not be committed: the end of a log is what its node had heard. Of several nodes' logs below one
folder, the one with the greatest last epoch and offset is read, as Raft elects. Read next: jobs.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

from moldau.clusterdata.columns import Column
from moldau.clusterdata.segments import ListedSegment, scan, segments
from moldau.image import Image
from moldau.model import uuid_text
from moldau.model.named import NamedTuple
from moldau.wire.batch import HEADER_SIZE, BatchHeader, ControlType, Record, control_type, records_of
from moldau.wire.codec import Malformed, uvarint
from moldau.wire.compression import BatchError, decompress
from moldau.wire.records import control
from moldau.wire.records.as_json import plain, text
from moldau.wire.records.framing import unpack_metadata
from moldau.wire.schema import Message

TOPIC = "__cluster_metadata"
CONTROL: dict[int, tuple[str, type[Message]]] = {
    ControlType.LEADER_CHANGE: ("LeaderChange:", control.LeaderChangeMessage),
    ControlType.SNAPSHOT_HEADER: ("SnapshotHeader", control.SnapshotHeaderRecord),
    ControlType.SNAPSHOT_FOOTER: ("SnapshotFooter", control.SnapshotFooterRecord),
    ControlType.KRAFT_VERSION: ("KRaftVersion", control.KRaftVersionRecord),
    ControlType.KRAFT_VOTERS: ("KRaftVoters", control.VotersRecord),
}
"""What control records say, beside how Kafka's dump tool calls them."""
_SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint$")

RECORD_COLUMNS = (
    Column("file", "string", "The segment or snapshot."),
    Column("snapshot", "boolean", "Whether that is a snapshot, whose offsets count from 0."),
    Column("position", "bigint", "The byte at which the record's batch begins."),
    Column("offset", "bigint", "The record's offset; null where nothing could be read."),
    Column("epoch", "int", "The epoch of the quorum's leader that wrote it."),
    Column("timestamp", "bigint", "When it was written, in ms."),
    Column("type", "string", "The kind of record, as Kafka's dump tool calls it: TOPIC_RECORD, ..."),
    Column("version", "int", "The version of the record; null of control records."),
    Column("data", "string", "Its fields, as JSON."),
    Column("reason", "string", "Why the columns above are empty; null where the record was understood."),
)
_REPLICAS = (
    Column("replicas", "array<int>", "The assigned replicas."),
    Column("isr", "array<int>", "The in-sync replicas."),
    Column("adding", "array<int>", "Replicas that a reassignment adds."),
    Column("removing", "array<int>", "Replicas that a reassignment removes."),
    Column("elr", "array<int>", "Eligible leader replicas (KIP-966)."),
)
TABLES: dict[str, tuple[Column, ...]] = {
    "topics": (
        Column("topic", "string", "The topic's name."),
        Column("topic_id", "string", "Its id."),
        Column("partitions", "int", "How many partitions it has."),
    ),
    "partitions": (
        Column("topic", "string", "The topic's name."),
        Column("partition", "int", "The number of the partition."),
        Column("topic_id", "string", "The topic's id."),
        Column("leader", "int", "The leader; -1 is nobody."),
        Column("leader_epoch", "int", "The leader epoch."),
        Column("partition_epoch", "int", "Counts every change of the partition."),
        *_REPLICAS,
    ),
    "configs": (
        Column("resource_type", "string", "topic, broker, group, client-metrics, or a number."),
        Column("resource", "string", "The topic's name or the broker's id; empty for the default of all brokers."),
        Column("name", "string", "The setting."),
        Column("value", "string", "Its value."),
    ),
    "brokers": (
        Column("broker", "int", "The broker's id."),
        Column("epoch", "bigint", "Its epoch."),
        Column("rack", "string", "Its rack."),
        Column("fenced", "boolean", "Whether it is fenced."),
        Column("in_controlled_shutdown", "boolean", "Whether it is stopping."),
        Column("endpoints", "array<string>", "PLAINTEXT://host:9092"),
    ),
    "features": (
        Column("name", "string", "The feature."),
        Column("level", "int", "Its level."),
    ),
}
"""The tables of an image."""
_KEYS = {"topics": 1, "partitions": 2, "configs": 3, "brokers": 1, "features": 1}
"""How many of a table's columns name a row."""
DIFF_COLUMNS = (
    Column("table", "string", "topics, partitions, configs, brokers or features."),
    Column("key", "string", "What names the row: orders, orders-0, topic/orders/retention.ms, 1, metadata.version."),
    Column("change", "string", "added, removed or changed."),
    Column("before", "string", "The row at the earlier point, as JSON; null when it was not there."),
    Column("after", "string", "The row at the later point, as JSON; null when it is not there."),
)
_RESOURCES = {2: "topic", 4: "broker", 16: "client-metrics", 32: "group"}

Row = tuple[object, ...]


class MetadataError(ValueError):
    """An image that cannot be had from the files; the message says why."""


class Point(NamedTuple):
    """Up to where: an offset (it is included) or a time in ms; neither is the end of the log."""

    offset: int | None = None
    time_ms: int | None = None


class MetadataFiles(NamedTuple):
    """A node's metadata log: its segments and, by the offset after the last that they cover, its snapshots."""

    segments: tuple[ListedSegment, ...]
    snapshots: tuple[tuple[int, str], ...]


def files(path: str) -> MetadataFiles:
    """The metadata log in a folder or below it; MetadataError when there is none, FileNotFoundError when there is no
    folder."""
    of: dict[Path, list[ListedSegment]] = {}
    for one in segments(path, (TOPIC,)):
        of.setdefault(Path(one.path).parent, []).append(one)
    if not of:
        raise MetadataError(f"there is no {TOPIC}-0 in {path} or below")
    folder = max(sorted(of), key=lambda folder: _end(of[folder]))
    snapshots = []
    for file in folder.iterdir():
        name = _SNAPSHOT.match(file.name)
        if name is not None:
            snapshots.append((int(name[1]), str(file)))
    return MetadataFiles(tuple(of[folder]), tuple(sorted(snapshots)))


def _end(of: list[ListedSegment]) -> tuple[int, int]:
    end = (-1, -1)
    for segment in of:
        for found in scan(segment.path, checksums=False):
            if found.header is not None:
                end = max(end, (found.header.leader_epoch, found.header.last_offset))
    return end


def end_offset(of: MetadataFiles) -> int:
    """The last offset that the log or a snapshot reaches; -1 of an empty log."""
    return max([_end(list(of.segments))[1], *(end - 1 for end, _ in of.snapshots)])


# ---- records


def record_rows(of: MetadataFiles) -> Iterator[Row]:
    """A row of ``RECORD_COLUMNS`` for each record of the snapshots and of the log, and for each damaged place."""
    for file, snapshot in [(path, True) for _, path in of.snapshots] + [(one.path, False) for one in of.segments]:
        yield from file_rows(file, snapshot=snapshot)


def file_rows(file: str, *, snapshot: bool) -> Iterator[Row]:
    """A row of ``RECORD_COLUMNS`` for each record of one file, and for each damaged place."""
    for position, header, record, reason in _records(file):
        here = (file, snapshot, position)
        if record is None or header is None:
            yield (*here, None, None, None, None, None, None, reason)
            continue
        place = (*here, record.offset, header.leader_epoch, record.timestamp)
        try:
            yield (*place, *(_control(record) if header.is_control else _told(record)), None)
        except (ValueError, IndexError, struct.error) as error:  # Malformed is a ValueError
            yield (*place, None, None, None, str(error) or repr(error))


def _records(file: str) -> Iterator[tuple[int, BatchHeader | None, Record | None, str | None]]:
    for found in scan(file):
        header = found.header
        if header is None or found.reason is not None:
            yield found.position, None, None, found.reason
            continue
        try:
            for record in records_of(header, decompress(header.codec, found.data[HEADER_SIZE:])):
                yield found.position, header, record, None
        except BatchError as error:
            yield found.position, None, None, str(error)


def _told(record: Record) -> tuple[str, int, str]:
    value = record.value or b""
    found = unpack_metadata(value)
    _, at = uvarint(memoryview(value), 0)
    _, at = uvarint(memoryview(value), at)
    version, _ = uvarint(memoryview(value), at)
    return kind_of(found), version, text(plain(found, version))


def kind_of(record: Message) -> str:
    """The name of a record's type as Kafka writes it: TOPIC_RECORD."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(record).__name__).upper()


def _control(record: Record) -> tuple[str, None, str]:
    kind = control_type(record.key)
    known = CONTROL.get(kind)
    if known is None:
        raise ValueError(f"control records of type {kind} are not known")
    message = known[1]
    value = memoryview(record.value or b"")
    (version,) = struct.unpack_from(">h", value)
    version = min(max(version, message.versions[0]), message.versions[1])
    return ControlType(kind).name, None, text(plain(message.decode(value, version), version))


# ---- images


def image_at(of: MetadataFiles, point: Point) -> Image:
    """The image at a point: the newest snapshot before it, and the records from there. MetadataError when the log
    begins later, or a record on the way cannot be read."""
    wanted = point.offset if point.time_ms is None else _offset_at(of, point.time_ms)
    image, next_offset = Image(), 0
    for end, path in reversed(of.snapshots):
        if wanted is None or end - 1 <= wanted:
            for offset, record in _metadata(path):
                image.apply(record, offset)
            image.offset, next_offset = end - 1, end
            break
    first = of.segments[0].base
    if first > next_offset:
        raise MetadataError(f"the log begins at offset {first}, and no snapshot tells what was before")
    for segment in of.segments:
        for offset, record in _metadata(segment.path):
            if wanted is not None and offset > wanted:
                return image
            if offset >= next_offset:
                image.apply(record, offset)
                image.offset = offset
    return image


def _metadata(path: str) -> Iterator[tuple[int, Message]]:
    for position, header, record, reason in _records(path):
        if record is None or header is None:
            raise MetadataError(f"{path}, byte {position}: {reason}")
        if header.is_control:
            continue
        try:
            yield record.offset, unpack_metadata(record.value or b"")
        except (Malformed, IndexError) as error:
            raise MetadataError(f"{path}, offset {record.offset}: {error}") from None


def _offset_at(of: MetadataFiles, time_ms: int) -> int:
    """The last offset whose record, and whose predecessors, were written at that time or before."""
    last = -1
    for segment in of.segments:
        for found in scan(segment.path, checksums=False):
            if found.header is None:
                continue
            if found.header.max_timestamp > time_ms:
                if last < 0:
                    raise MetadataError(f"the log begins after {time_ms}")
                return last
            last = found.header.last_offset
    return last


def table_rows(image: Image, table: str) -> Iterator[Row]:
    """The rows of one of ``TABLES``, in the order of their keys."""
    return _MAKERS[table](image)


def _topics(image: Image) -> Iterator[Row]:
    for name in sorted(image.names):
        topic = image.topics[image.names[name]]
        yield name, uuid_text(topic.id), len(topic.partitions)


def _partitions(image: Image) -> Iterator[Row]:
    for name in sorted(image.names):
        topic = image.topics[image.names[name]]
        for number, one in sorted(topic.partitions.items()):
            lists = (list(ids) for ids in (one.replicas, one.isr, one.adding, one.removing, one.elr))
            yield name, number, uuid_text(topic.id), one.leader, one.leader_epoch, one.partition_epoch, *lists


def _configs(image: Image) -> Iterator[Row]:
    for kind, resource in sorted(image.configs):
        for name, value in sorted(image.configs[kind, resource].items()):
            yield _RESOURCES.get(kind, str(kind)), resource, name, value


def _brokers(image: Image) -> Iterator[Row]:
    for id, one in sorted(image.brokers.items()):
        ends = [f"{end.name}://{end.host}:{end.port}" for end in one.endpoints]
        yield id, one.epoch, one.rack, one.fenced, one.in_controlled_shutdown, ends


def _features(image: Image) -> Iterator[Row]:
    yield from sorted(image.features.items())


_MAKERS = {
    "topics": _topics, "partitions": _partitions, "configs": _configs, "brokers": _brokers, "features": _features,
}  # fmt: skip


def diff_rows(before: Image, after: Image, tables: Iterable[str] = TABLES) -> Iterator[Row]:
    """A row of ``DIFF_COLUMNS`` for each row of the tables that is not the same at both points."""
    for table in tables:
        wide = _KEYS[table]
        was = {row[:wide]: row for row in table_rows(before, table)}
        now = {row[:wide]: row for row in table_rows(after, table)}
        for key in sorted({*was, *now}, key=repr):
            old, new = was.get(key), now.get(key)
            if old == new:
                continue
            change = "added" if old is None else "removed" if new is None else "changed"
            sign = "-" if table == "partitions" else "/"
            yield table, sign.join(map(str, key)), change, _json(table, old), _json(table, new)


def _json(table: str, row: Row | None) -> str | None:
    return None if row is None else text({one.name: value for one, value in zip(TABLES[table], row, strict=True)})
