"""Whether this node may begin in KRaft mode, by what its own metadata log says: looked at before anything is written.

A log of levels that this version does not support ends the start, and so does that of a migration from ZooKeeper which
controllers of Apache Kafka began. Once the node takes part it would find out as well, but have voted and written by
then. A newer level that no other node may have, as it stands at the end of the log and is not known to be committed, is
asked about first (``tail.py``): the quorum may have gone on without it, and cuts it. Decides nothing:
``controller/feature_support.py`` and ``controller/kafkas_migration.py`` do.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from moldau.broker.config import storage_format
from moldau.broker.config.node_config import NodeConfig
from moldau.broker.controller.kafkas_controllers import refuse_beside
from moldau.broker.kraft.batches import NewerLevel
from moldau.broker.kraft.committed import note_of
from moldau.broker.kraft.tail import LogPlace, TailStatus, tail_status
from moldau.controller.feature_support import newer_than_supported
from moldau.controller.kafkas_migration import of_log
from moldau.image.snapshot import METADATA_VERSION
from moldau.model import Code
from moldau.ports import Disk, World
from moldau.storage.checkpoints import MetaProperties
from moldau.wire.batch import LENGTH_OVERHEAD, check, headers, records
from moldau.wire.codec import Malformed
from moldau.wire.compression import BatchError
from moldau.wire.records.framing import FRAME_VERSION, unpack_metadata
from moldau.wire.records.metadata import FeatureLevelRecord, ZkMigrationStateRecord

_HEADS = tuple(
    bytes((FRAME_VERSION, one.api_key, one.versions[1])) for one in (FeatureLevelRecord, ZkMigrationStateRecord)
)
"""How these records begin: metadata logs are not compressed."""
log = logging.getLogger(__name__)


class UndecidedLevel(NewerLevel):
    """A level that is newer than this version supports, ``at`` the end of a log that other nodes may have without."""

    def __init__(self, why: object, at: LogPlace) -> None:
        super().__init__(why)
        self.at = at


async def own_meta(config: NodeConfig, world: World) -> MetaProperties:
    """What this node's metadata directory was formatted as, see ``storage_format.own_meta``; UnsupportedLevel when it
    has to keep out. Whoever comes from ZooKeeper asks the controllers first: its folders are about to be changed."""
    meta = storage_format.own_meta(config, world.disk)
    noted = note_of(world.disk, config.metadata_dir, meta.cluster_id, meta.directory_id)
    try:
        refuse_own_log(world.disk, f"{config.metadata_dir}/{storage_format.METADATA_FOLDER}", noted.offset)
    except UndecidedLevel as level:
        await _refuse_unless_cut(config, world, meta.cluster_id, level)
    if not meta.version:
        await refuse_beside(world, config.voters)
    return meta


async def _refuse_unless_cut(config: NodeConfig, world: World, cluster_id: str, level: UndecidedLevel) -> None:
    """NewerLevel unless the quorum has gone on without that level, or has a snapshot in its place, which is read first.
    A sole voter decides alone: what it has counts."""
    others = [where for id, where in config.voters.items() if id != config.node_id]
    found = TailStatus.COMMITTED
    if others or config.bootstrap_controllers:
        found = await tail_status(world, cluster_id, [*others, *config.bootstrap_controllers], level.at)
    if found not in (TailStatus.CUT, TailStatus.REPLACED):
        raise NewerLevel(f"{level} ({found.value}, at offset {level.at.offset} of the metadata log)") from level
    log.warning("what stands at the end of the metadata log is left out (%s): %s", found.value, level)


def refuse_own_log(disk: Disk, folder: str, committed: int = 0) -> None:
    """UnsupportedLevel when nobody may go on with the metadata log in ``folder`` here. What cannot be read is left to
    whoever reads it next. ``committed``: up to where the log is known to be."""
    level = state = 0
    undecided: UndecidedLevel | None = None
    try:
        for record, at in _told(disk, folder):
            if isinstance(record, ZkMigrationStateRecord):
                state = record.zk_migration_state
                continue
            if (newer := newer_than_supported(record.name, record.feature_level)) is not None:
                if at is None or at.offset < committed or _is_followed(disk, folder, at.epoch):
                    raise NewerLevel(newer)
                undecided = UndecidedLevel(newer, at)
                break
            if record.name == METADATA_VERSION:
                level = record.feature_level
    except OSError as error:
        log.warning("the metadata log in %s was not looked at before the start: %s", folder, error.strerror or error)
        return
    if (why := of_log(level, state)) is not None:
        raise why
    if undecided is not None:
        raise undecided


def _is_followed(disk: Disk, folder: str, epoch: int) -> bool:
    """Whether the log has a record that a later leader's controller wrote. It does so once a record of its own epoch is
    committed, and with it all that is before (law R6; so does Apache Kafka's)."""
    return any(
        header.leader_epoch > epoch and not header.is_control
        for name in disk.list_dir(folder)
        if name.endswith(".log")
        for _, header in headers(disk.read(f"{folder}/{name}"))
    )


def _told(disk: Disk, folder: str) -> Iterator[tuple[FeatureLevelRecord | ZkMigrationStateRecord, LogPlace | None]]:
    """The levels of features and the states of migrations in the newest snapshot, and in what the log has behind it,
    with where it has them."""
    if not disk.exists(folder):
        return
    names = sorted(disk.list_dir(folder))
    segments = [name for name in names if name.endswith(".log")]
    first = 0
    for snapshot in [name for name in names if name.endswith(".checkpoint")][-1:]:
        yield from ((one, None) for one, _ in _told_in(disk.read(f"{folder}/{snapshot}"), 0))
        first = int(snapshot[:20])
    for name, following in zip(segments, [*segments[1:], ""], strict=False):
        if not following or int(following[:20]) > first:
            yield from _told_in(disk.read(f"{folder}/{name}"), first)


def _told_in(data: bytes, first: int) -> Iterator[tuple[FeatureLevelRecord | ZkMigrationStateRecord, LogPlace]]:
    """The records from offset ``first`` on, up to the first that stands in a batch which is not sound: recovery cuts
    there. A log may be long, so only batches are decoded that have the beginning of such a record in them."""
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
            where = LogPlace(header.last_offset, header.leader_epoch)  # a batch is committed as a whole
            yield from ((one, where) for one in found if isinstance(one, FeatureLevelRecord | ZkMigrationStateRecord))
        if at == len(places):
            return


def _all_of(data: bytes, head: bytes) -> Iterator[int]:
    at = data.find(head)
    while at >= 0:
        yield at
        at = data.find(head, at + 1)
