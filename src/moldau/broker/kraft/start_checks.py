"""Whether this node may begin in KRaft mode, by what its own metadata log says: looked at before anything is written.

A log of levels that this version does not support ends the start, and so does that of a migration from ZooKeeper which
controllers of Apache Kafka began. Once the node takes part it would find out as well, but have voted and written by
then. Decides nothing: ``feature_support.py`` and ``kafkas_migration.py`` of ``moldau/controller`` do.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from moldau.broker.config import storage_format
from moldau.broker.config.node_config import NodeConfig
from moldau.broker.controller.kafkas_controllers import refuse_beside
from moldau.broker.kraft.batches import NewerLevel
from moldau.controller.feature_support import newer_than_supported
from moldau.controller.kafkas_migration import of_log
from moldau.image.snapshot import METADATA_VERSION
from moldau.model import Code
from moldau.ports import Disk, World
from moldau.storage.checkpoints import MetaProperties
from moldau.wire.batch import LENGTH_OVERHEAD, check, headers, records
from moldau.wire.codec import Malformed
from moldau.wire.compression import BatchError
from moldau.wire.records.framing import pack_metadata, unpack_metadata
from moldau.wire.records.metadata import FeatureLevelRecord, ZkMigrationStateRecord

_HEADS = tuple(pack_metadata(record)[:3] for record in (FeatureLevelRecord(), ZkMigrationStateRecord()))
"""How these records begin: metadata logs are not compressed."""
log = logging.getLogger(__name__)


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
    level = state = 0
    try:
        for record in _told(disk, folder):
            if isinstance(record, ZkMigrationStateRecord):
                state = record.zk_migration_state
                continue
            if (newer := newer_than_supported(record.name, record.feature_level)) is not None:
                raise NewerLevel(newer)
            if record.name == METADATA_VERSION:
                level = record.feature_level
    except OSError as error:
        log.warning("the metadata log in %s was not looked at before the start: %s", folder, error.strerror or error)
        return
    if (why := of_log(level, state)) is not None:
        raise why


def _told(disk: Disk, folder: str) -> Iterator[FeatureLevelRecord | ZkMigrationStateRecord]:
    """The levels of features and the states of migrations in the newest snapshot, and in what the log has behind it."""
    if not disk.exists(folder):
        return
    names = sorted(disk.list_dir(folder))
    segments = [name for name in names if name.endswith(".log")]
    first = 0
    for snapshot in [name for name in names if name.endswith(".checkpoint")][-1:]:
        yield from _told_in(disk.read(f"{folder}/{snapshot}"), 0)
        first = int(snapshot[:20])
    for name, following in zip(segments, [*segments[1:], ""], strict=False):
        if not following or int(following[:20]) > first:
            yield from _told_in(disk.read(f"{folder}/{name}"), first)


def _told_in(data: bytes, first: int) -> Iterator[FeatureLevelRecord | ZkMigrationStateRecord]:
    """Those from offset ``first`` on, up to the first that stands in a batch which is not sound: recovery cuts there. A
    log may be long, so only batches are decoded that have the beginning of such a record in them."""
    places = sorted(at for head in _HEADS for at in _all_of(data, head))
    at = 0
    for position, header in headers(data):
        end = position + LENGTH_OVERHEAD + header.length
        here = at
        while at < len(places) and places[at] < end:
            at += 1
        if here < at and not header.is_control and header.last_offset >= first:
            if check(data, position, header) is not Code.NONE:
                return
            try:
                found = [unpack_metadata(record.value or b"") for record in records(data, position)]
            except (Malformed, BatchError):
                return
            yield from (one for one in found if isinstance(one, FeatureLevelRecord | ZkMigrationStateRecord))
        if at == len(places):
            return


def _all_of(data: bytes, head: bytes) -> Iterator[int]:
    at = data.find(head)
    while at >= 0:
        yield at
        at = data.find(head, at + 1)
