"""Whether this node may begin in KRaft mode, by what its own metadata log says: looked at before anything is written.

A log of levels that this version does not support ends the start, and so does that of a migration from ZooKeeper which
controllers of Apache Kafka began. Once the node takes part it would find out as well, but have voted and written by
then. Decides nothing: ``feature_support.py`` and ``kafkas_migration.py`` of ``moldau/controller`` do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct

from moldau.broker.config import storage_format
from moldau.broker.config.node_config import NodeConfig
from moldau.broker.controller.kafkas_controllers import refuse_beside
from moldau.broker.kraft.batches import decided
from moldau.controller.features import SUPPORTED
from moldau.controller.kafkas_migration import KAFKA_4, of_log
from moldau.image.snapshot import METADATA_VERSION
from moldau.ports import Disk, World
from moldau.storage.checkpoints import MetaProperties
from moldau.wire.batch import headers, records
from moldau.wire.codec import Malformed
from moldau.wire.compression import BatchError
from moldau.wire.records.framing import pack_metadata, unpack_metadata
from moldau.wire.records.metadata import FeatureLevelRecord, ZkMigrationStateRecord
from moldau.wire.schema import Message

HEAD_BYTES = 9 << 20
"""Whole batches are at least within this: Apache Kafka makes none of more than 8 MiB."""
_LEVEL = Struct(">h")
_BEGINS = pack_metadata(FeatureLevelRecord())[:3]
"""How the record of a feature's level begins: metadata logs are not compressed."""
_MARKS = {pack_metadata(FeatureLevelRecord(name=one.name))[: -_LEVEL.size - 1]: one.high for one in SUPPORTED}
"""What stands before a feature's level, and the highest that is supported."""


async def own_meta(config: NodeConfig, world: World) -> MetaProperties:
    """What this node's metadata directory was formatted as, see ``storage_format.own_meta``; UnsupportedLevel when it
    has to keep out. Whoever comes from ZooKeeper asks the controllers first: its folders are about to be changed."""
    meta = storage_format.own_meta(config, world.disk)
    refuse_own_log(world.disk, f"{config.metadata_dir}/{storage_format.METADATA_FOLDER}")
    if not meta.version:
        await refuse_beside(world, config.voters)
    return meta


def refuse_own_log(disk: Disk, folder: str) -> None:
    """UnsupportedLevel when nobody may go on with the metadata log in ``folder`` here. What cannot be read is left to
    whoever reads it next."""
    try:
        files = _files(disk, folder)
        for path in files:
            _refuse_newer(disk.read(path))
        _refuse_migration(disk, files)
    except (OSError, Malformed, BatchError):
        pass


def _refuse_newer(data: bytes) -> None:
    """NewerLevel when there is one. Records are decoded only where bytes look like it: a log may be long."""
    if any(level > highest for level, highest in _levels(data)):
        for _ in decided(data):
            pass


def _levels(data: bytes) -> Iterator[tuple[int, int]]:
    """What look like levels of features, each with the highest that is supported."""
    at = data.find(_BEGINS)
    while at >= 0:
        for mark, highest in _MARKS.items():
            end = at + len(mark) + _LEVEL.size
            if data.startswith(mark, at) and end <= len(data):
                yield *_LEVEL.unpack_from(data, at + len(mark)), highest
        at = data.find(_BEGINS, at + 1)


def _refuse_migration(disk: Disk, files: Sequence[str]) -> None:
    """KafkasMigration; only a log whose first level of metadata.version is one of Kafka 3 is read to its end."""
    if not files or (_first_level(disk, files[0]) or KAFKA_4) >= KAFKA_4:
        return
    level = state = 0
    for path in files:
        for record in _records(disk.read(path)):
            if isinstance(record, ZkMigrationStateRecord):
                state = record.zk_migration_state
            elif isinstance(record, FeatureLevelRecord) and record.name == METADATA_VERSION:
                level = record.feature_level
    if (why := of_log(level, state)) is not None:
        raise why


def _files(disk: Disk, folder: str) -> list[str]:
    """The newest snapshot, if there is one, and the segments that go beyond it."""
    if not disk.exists(folder):
        return []
    names = sorted(disk.list_dir(folder))
    snapshots = [name for name in names if name.endswith(".checkpoint")][-1:]
    segments = [name for name in names if name.endswith(".log")]
    if snapshots:
        later = [name for name in segments if name[:20] > snapshots[0][:20]]
        segments = [*segments[: len(segments) - len(later)][-1:], *later]
    return [f"{folder}/{name}" for name in (*snapshots, *segments)]


def _first_level(disk: Disk, path: str) -> int | None:
    """The level that a file begins with; None when it does not say."""
    file = disk.open(path)
    try:
        head = file.pread(HEAD_BYTES, 0)
    finally:
        file.close()
    levels = (r for r in _records(head) if isinstance(r, FeatureLevelRecord) and r.name == METADATA_VERSION)
    return next((record.feature_level for record in levels), None)


def _records(data: bytes) -> Iterator[Message]:
    for position, header in headers(data):
        for record in () if header.is_control else records(data, position):
            yield unpack_metadata(record.value or b"")
