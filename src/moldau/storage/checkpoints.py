"""Kafka's small text files: offset checkpoints, leader epochs, partition.metadata, meta.properties, the clean-shutdown
marker.

Pure: bytes to values and back. Anything malformed is a BrokenFile that says where; whoever reads decides whether it is
rebuilt (epochs, snapshots), ignored (a high watermark) or fatal (meta.properties). Writing durably is
``Disk.write_atomic``. Formats: Apache Kafka's CheckpointFile version 0, PartitionMetadataFile version 0, KIP-631
(meta.properties version 1), KIP-966.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from moldau.model import TopicPartition, uuid_bytes, uuid_text
from moldau.model.named import NamedTuple
from moldau.storage.errors import BrokenFile
from moldau.wire.crc import crc32c

_INT32_MAX, _INT64_MAX = 0x7FFFFFFF, 0x7FFFFFFFFFFFFFFF
_SUM = "#crc32c"
"""The last line of an offset checkpoint, in the place of a topic: no topic can be called so, and Apache Kafka passes
over partitions that it does not have. A file that Kafka wrote has no such line."""


def _lines(data: bytes, what: str, problems: list[str] | None = None) -> list[list[str]]:
    """The entries of a checkpoint file as fields; the count line must agree, so that a cut file is noticed.

    With ``problems``, a wrong count is named there; the last line of a file that was cut within it is left out.

    An empty file has none: Kafka makes its checkpoints empty and writes them when there is something to say.
    """
    if not data:
        return []
    try:
        lines = data.decode("utf-8").splitlines()
        version, count = int(lines[0]), int(lines[1])
    except (UnicodeDecodeError, ValueError, IndexError):
        raise BrokenFile(f"{what}: a version line and a count line are expected first") from None
    if version != 0:
        raise BrokenFile(f"{what}: version {version} is not known, 0 is expected")
    entries = [line.split() for line in lines[2:] if line.strip()]
    if len(entries) != count:
        problem = f"{what}: {count} entries are announced and {len(entries)} found"
        if problems is None:
            raise BrokenFile(problem)
        problems.append(problem)
        if entries and not data.endswith(b"\n"):
            entries.pop()
    return entries


def _text(lines: list[str]) -> bytes:
    return f"0\n{len(lines)}\n{''.join(lines)}".encode()


def format_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """An offset checkpoint: one line ``topic partition offset`` for each partition, and one with their checksum."""
    lines = [f"{topic} {partition} {offset}\n" for (topic, partition), offset in offsets.items()]
    text = f"0\n{len(lines) + 1}\n{''.join(lines)}".encode()
    return text + f"{_SUM} 0 {crc32c(text)}\n".encode()


def _check_sum(data: bytes, what: str) -> None:
    """BrokenFile when the checkpoint has a checksum and it is wrong: which line is to blame cannot be told then."""
    before, found, stated = data.rpartition(f"\n{_SUM} 0 ".encode())
    if found and stated.partition(b"\n")[0] != b"%d" % crc32c(before + b"\n"):
        raise BrokenFile(f"{what}: the checksum is wrong")


def parse_offsets(data: bytes, what: str, problems: list[str] | None = None) -> dict[TopicPartition, int]:
    """The offsets in a checkpoint. A line that is none is a BrokenFile that names ``what`` and the line; with
    ``problems`` it is named there and left out: the other partitions are not to blame for it."""
    offsets: dict[TopicPartition, int] = {}
    _check_sum(data, what)
    for number, fields in enumerate(_lines(data, what, problems), 3):
        try:
            topic, partition, offset = fields
            if topic == _SUM:
                continue
            value = int(offset)
            if not 0 <= value <= _INT64_MAX:
                raise ValueError
            offsets[TopicPartition(topic, int(partition))] = value
        except ValueError:
            problem = f"{what}, line {number}: topic, partition and offset are expected"
            if problems is None:
                raise BrokenFile(problem) from None
            problems.append(problem)
    return offsets


def format_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    """A leader epoch checkpoint: one line ``epoch start-offset`` for each epoch."""
    return _text([f"{epoch} {start}\n" for epoch, start in entries])


def parse_epochs(data: bytes, what: str) -> list[tuple[int, int]]:
    """(epoch, start offset) pairs; BrokenFile names ``what`` and the line."""
    entries = []
    for number, fields in enumerate(_lines(data, what), 3):
        try:
            epoch, start = (int(field) for field in fields)
        except ValueError:
            raise BrokenFile(f"{what}, line {number}: an epoch and an offset are expected") from None
        if not (0 <= epoch <= _INT32_MAX and 0 <= start <= _INT64_MAX):
            raise BrokenFile(f"{what}, line {number}: neither epoch nor offset can be negative, or so large")
        entries.append((epoch, start))
    return entries


def _properties(data: bytes, separator: str, what: str) -> dict[str, str]:
    try:
        lines = data.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise BrokenFile(f"{what} is not a text") from None
    values = {}
    for line in lines:
        line = line.strip()
        if line and not line.startswith(("#", "!")):
            name, found, value = line.partition(separator)
            if not found:
                raise BrokenFile(f"{what}: {line!r} is not of the form name{separator}value")
            values[name.strip()] = value.strip().replace("\\:", ":").replace("\\=", "=")
    return values


_HEAD, _WHOLE = b"version: 0\ntopic_id: ", len("version: 0\ntopic_id: ") + 22


def format_partition_metadata(topic_id: bytes) -> bytes:
    """``partition.metadata``: which topic incarnation a folder belongs to."""
    return _HEAD + uuid_text(topic_id).encode()


NEARLY = 2
"""So many bytes of such a file may be damaged, and it still tells of two ids which one it said: ids that were drawn
differ in nearly every letter."""


def says_nearly(said: bytes, topic_id: bytes) -> bool:
    """Whether a ``partition.metadata`` said this topic id before a bit or a byte of it was damaged."""
    said, meant = said.rstrip(b"\n"), format_partition_metadata(topic_id)
    return len(said) == len(meant) and sum(one != other for one, other in zip(said, meant, strict=True)) <= NEARLY


def says_another(said: bytes, topic_id: bytes) -> bool:
    """Whether a ``partition.metadata`` says the id of another topic. One that says nothing does not."""
    try:
        return parse_partition_metadata(said, "") != topic_id and not says_nearly(said, topic_id)
    except BrokenFile:
        return False


def parse_partition_metadata(data: bytes, what: str) -> bytes:
    """The topic id (16 bytes)."""
    if data.startswith(_HEAD) and len(data) == _WHOLE:  # nearly always: a start reads one for each partition
        values = {"version": "0", "topic_id": data[len(_HEAD) :].decode("latin-1")}
    else:
        values = _properties(data, ":", what)
    try:
        topic_id = uuid_bytes(values["topic_id"])
        if int(values["version"]) != 0 or topic_id == bytes(16):
            raise ValueError
    except (KeyError, ValueError):
        raise BrokenFile(f"{what}: 'version: 0' and a topic_id are expected") from None
    return topic_id


class MetaProperties(NamedTuple):
    """Whose directory it is. ``directory_id`` is 16 bytes, or None before KIP-858; ``cluster_id`` is the text."""

    cluster_id: str
    node_id: int
    directory_id: bytes | None = None
    version: int = 1


META_VERSIONS = (0, 1)
"""Versions of ``meta.properties``: 0 of a broker that has only ever known ZooKeeper, 1 of all others."""


def format_meta(meta: MetaProperties) -> bytes:
    """``meta.properties`` of version 1 (or 0, for a broker that has only ever known ZooKeeper)."""
    lines = [f"cluster.id={meta.cluster_id}"]
    if meta.directory_id is not None:
        lines.append(f"directory.id={uuid_text(meta.directory_id)}")
    lines.append(f"{'node' if meta.version else 'broker'}.id={meta.node_id}")
    lines.append(f"version={meta.version}")
    return ("\n".join(lines) + "\n").encode()


def parse_meta(data: bytes, what: str) -> MetaProperties:
    """What ``meta.properties`` says, version 0 or 1; of any other it is a BrokenFile, as of one that is damaged."""
    values = _properties(data, "=", what)
    try:
        version = int(values["version"])
        if version not in META_VERSIONS:  # a newer release may mean something else by the same words
            raise BrokenFile(f"{what}: version {version} is not known, 0 or 1 is expected")
        directory = values.get("directory.id")
        return MetaProperties(
            values["cluster.id"],
            int(values["node.id" if version else "broker.id"]),
            uuid_bytes(directory) if directory else None,
            version,
        )
    except (KeyError, ValueError) as error:
        raise BrokenFile(f"{what}: version, cluster.id and node.id are expected ({error})") from None


def format_clean_shutdown(broker_epoch: int) -> bytes:
    """The clean-shutdown marker; it carries the broker epoch that shut down (KIP-966)."""
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def parse_clean_shutdown(data: bytes) -> int:
    """The broker epoch in a marker, -1 when it has none (older brokers left the file empty): its presence is the
    message.
    """
    try:
        epoch = json.loads(data)["brokerEpoch"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return -1
    # What is no int64 could not be told to the controller, and the broker would never be registered.
    return epoch if type(epoch) is int and 0 <= epoch <= _INT64_MAX else -1
