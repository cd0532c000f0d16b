"""Making a node's folders ready: ``meta.properties`` in each, and the records that a new cluster starts from.

The counterpart of Kafka's storage tool: a folder formatted by either serves either. Writes nothing but small files.
Source: KIP-631 (formatting), KIP-778 (bootstrap records), KIP-853 (standalone and initial controllers).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress

from moldau.broker.config.node_config import PORT_MAX, NodeConfig
from moldau.model import uuid_bytes, uuid_text
from moldau.model.config_key import INT_MAX
from moldau.ports import Disk, Random
from moldau.storage.checkpoints import MetaProperties, format_meta, parse_meta
from moldau.storage.errors import BrokenFile
from moldau.storage.names import META, METADATA_TOPIC
from moldau.wire.batch import Entry, build
from moldau.wire.records.control import KRaftVersionRecord, SnapshotFooterRecord, SnapshotHeaderRecord, VotersRecord
from moldau.wire.records.framing import pack_metadata
from moldau.wire.records.metadata import FeatureLevelRecord
from moldau.wire.schema import Message

_CONTROLLER = re.compile(r"(\d{1,10})@(?:\[(.+)\]|([^:]+)):(\d{1,5}):([^:]+)\Z", re.ASCII)
METADATA_VERSION = 25
"""metadata.version of a new cluster: 4.0-IV3, the newest that needs no share groups."""
METADATA_FOLDER = f"{METADATA_TOPIC}-0"
BOOTSTRAP = "bootstrap.checkpoint"
FIRST_SNAPSHOT = "00000000000000000000-0000000000.checkpoint"
UNFORMATTED = "is not formatted."
"""How ``describe`` ends a line of what `storage format` mends."""
LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER, KRAFT_VERSION, KRAFT_VOTERS = 2, 3, 4, 5, 6


class FormatRefused(Exception):
    """The folders are in use already, or the ids given make no sense; the text says which."""


def format_storage(
    config: NodeConfig,
    cluster_id: str,
    disk: Disk,
    random: Random,
    *,
    voters: VotersRecord | None = None,
    ignore_formatted: bool = False,
) -> list[str]:
    """Format every folder of a node; the folders that were formatted now. FormatRefused names what is in the way.

    Args:
        cluster_id: 22 characters, the same for all nodes.
        voters: the first voter set, for a cluster without ``controller.quorum.voters`` (KIP-853).
    """
    _refuse_zookeeper(config)
    try:
        uuid_bytes(cluster_id)
    except ValueError as error:
        raise FormatRefused(f"Cluster ID string {cluster_id} does not appear to be a valid UUID: {error}") from None
    folders = list(dict.fromkeys((config.metadata_dir, *config.log_dirs)))
    taken = [folder for folder in folders if disk.exists(f"{folder}/{META}")]
    if taken and not ignore_formatted:
        raise FormatRefused(
            f"Log directory {taken[0]} is already formatted. Use --ignore-formatted to ignore this directory and"
            " format the others."
        )
    for folder in taken:
        _refuse_another(folder, config, disk, cluster_id)
    fresh = [folder for folder in folders if folder not in taken]
    for folder in fresh:
        disk.make_dirs(folder)
        if (
            folder == config.metadata_dir
        ):  # first: a folder with meta.properties is formatted, and left alone from then on
            _write_beginning(folder, disk, voters)
        meta = MetaProperties(
            cluster_id=cluster_id, node_id=config.node_id, directory_id=directory_id(config, folder, voters, random)
        )
        disk.write_atomic(f"{folder}/{META}", format_meta(meta))
    return fresh


def _write_beginning(folder: str, disk: Disk, voters: VotersRecord | None) -> None:
    """Write what a new cluster starts from, and who votes first."""
    disk.write_atomic(f"{folder}/{BOOTSTRAP}", _checkpoint(_bootstrap_records(), []))
    if voters is not None:
        disk.make_dirs(f"{folder}/{METADATA_FOLDER}")
        control = [
            (KRAFT_VERSION, KRaftVersionRecord(k_raft_version=1).encode(0)),
            (KRAFT_VOTERS, voters.encode(0)),
        ]
        disk.write_atomic(f"{folder}/{METADATA_FOLDER}/{FIRST_SNAPSHOT}", _checkpoint([], control))


def _refuse_another(folder: str, config: NodeConfig, disk: Disk, cluster_id: str) -> None:
    """Refuse to leave alone what is another cluster's or another node's: no node would start on such a mixture."""
    meta = read_meta(folder, disk)
    for name, given, read in (("cluster.id", cluster_id, meta.cluster_id), ("node.id", config.node_id, meta.node_id)):
        if given != read:
            raise FormatRefused(f"Invalid {name} in: {folder}/{META}. Expected {given}, but read {read}")


def directory_id(config: NodeConfig, folder: str, voters: VotersRecord | None, random: Random) -> bytes:
    """The id of a folder; the metadata folder of an initial voter has the id that the voter set says."""
    if voters is not None and folder == config.metadata_dir:
        for voter in voters.voters:
            if voter.voter_id == config.node_id:
                return bytes(voter.voter_directory_id)
    return random.uuid()


def standalone(config: NodeConfig, random: Random) -> VotersRecord:
    """A voter set of this controller alone; FormatRefused as for ``initial_controllers``, or when it is none."""
    _refuse_zookeeper(config)
    if not config.is_controller:
        raise FormatRefused("You can only use --standalone on a controller: process.roles does not say that it is one.")
    _refuse_voters(config)
    return initial_controllers([(config.node_id, *_controller_address(config), random.uuid())], config)


def initial_controllers(members: Sequence[tuple[int, str, int, bytes]], config: NodeConfig) -> VotersRecord:
    """A voter set of (id, host, port, directory id); FormatRefused when the file sets voters, or no listener for them.

    Of three nodes with the same controller.quorum.voters each was formatted as a cluster of its own, under one id.
    """
    _refuse_voters(config)
    name = config.controller_listener_names[0]
    return VotersRecord(
        voters=[
            VotersRecord.Voter(
                voter_id=id,
                voter_directory_id=directory,
                endpoints=[VotersRecord.Endpoint(name=name, host=host, port=port)],
                k_raft_version_feature=VotersRecord.KRaftVersionFeature(max_supported_version=1),
            )
            for id, host, port, directory in members
        ]
    )


def _refuse_zookeeper(config: NodeConfig) -> None:
    if config.on_zookeeper:
        raise FormatRefused("zookeeper.connect is set: a node in ZooKeeper mode is not formatted, it starts as it is")


def _refuse_voters(config: NodeConfig) -> None:
    if config.voters:
        raise FormatRefused(
            "controller.quorum.voters is set, and says who votes: format without --standalone and"
            " --initial-controllers; or remove it, and set controller.quorum.bootstrap.servers, for a quorum that grows"
        )
    if not config.controller_listener_names:
        raise FormatRefused("controller.listener.names is not set: it names the listener of the controllers")


def parse_controllers(text: str) -> list[tuple[int, str, int, bytes]]:
    """``id@host:port:directory-id`` entries separated by commas; FormatRefused names a bad one, or an id that is there
    twice."""
    found: dict[int, tuple[int, str, int, bytes]] = {}
    for entry in text.split(","):
        match = _CONTROLLER.match(entry)
        try:
            if match is None or int(match[1]) > INT_MAX or int(match[4]) > PORT_MAX:
                raise ValueError(entry)
            one = int(match[1]), match[2] or match[3], int(match[4]), uuid_bytes(match[5])
        except ValueError:
            raise FormatRefused(
                f"Invalid value {entry} for --initial-controllers: id@host:port:directory-id is expected"
            ) from None
        if one[0] in found:
            raise FormatRefused(f"Invalid value {text} for --initial-controllers: it has {one[0]} more than once")
        found[one[0]] = one
    return list(found.values())


def read_meta(folder: str, disk: Disk) -> MetaProperties:
    """What a folder was formatted as; FormatRefused tells how to format one that was not, or what cannot be read."""
    path = f"{folder}/{META}"
    if not disk.exists(path):
        raise FormatRefused(
            f"No readable meta.properties in {folder}: format it first, with"
            " `moldau storage format -t CLUSTER_ID -c server.properties` (`moldau storage random-uuid` makes an id;"
            " without controller.quorum.voters a first controller takes --standalone, and others what `--help` tells)"
        )
    try:
        return parse_meta(disk.read(path), path)
    except BrokenFile as error:
        raise FormatRefused(str(error)) from None
    except OSError as error:
        raise FormatRefused(f"{path} cannot be read: {error.strerror or error}") from None


def own_meta(config: NodeConfig, disk: Disk) -> MetaProperties:
    """What this node's metadata directory was formatted as; FormatRefused when it is another node's, or when the
    metadata log stands elsewhere. Writes nothing."""
    _refuse_other_metadata(config, disk)
    _refuse_to_begin_over_logs_of_zookeeper(config, disk)
    meta = read_meta(config.metadata_dir, disk)
    if meta.node_id != config.node_id:
        raise FormatRefused(
            f"{config.metadata_dir} was formatted for node {meta.node_id}, and node.id is {config.node_id}"
        )
    return meta


def _refuse_other_metadata(config: NodeConfig, disk: Disk) -> None:
    """Refuse a start beside a metadata log of this node's that stands in another of its log directories.

    The order of log.dirs was changed, or disks are mounted the other way round. A node that begins an empty metadata
    log forgets its votes, and a majority of such nodes elects itself over a cluster without topics. Apache Kafka
    refuses as well.
    """
    home = os.path.realpath(config.metadata_dir)  # one directory may be named in two ways
    for folder in config.log_dirs:
        with suppress(OSError):  # a directory that cannot be looked into costs itself, later
            if os.path.realpath(folder) == home or not disk.exists(f"{folder}/{METADATA_FOLDER}"):
                continue
            has_one = disk.exists(f"{config.metadata_dir}/{METADATA_FOLDER}")
            mend = (
                f"{config.metadata_dir} has one too: move away the one that is not right"
                if has_one
                else "or restore the order of log.dirs, or where disks are mounted"
            )
            raise FormatRefused(
                f"a metadata log stands in {folder}/{METADATA_FOLDER}, while the metadata directory is"
                f" {config.metadata_dir} (metadata.log.dir, or the first of log.dirs): set metadata.log.dir={folder};"
                f" {mend}"
            )


def _refuse_to_begin_over_logs_of_zookeeper(config: NodeConfig, disk: Disk) -> None:
    """Refuse the start of a controller without a metadata log in folders of a broker in ZooKeeper mode: no migration
    (KIP-866) has such a node. It would elect itself, know none of the topics, and put logs aside for new ones of the
    same names, and in ZooKeeper mode again it would lead these. Apache Kafka starts, and puts all logs aside."""
    if not config.is_controller or disk.exists(f"{config.metadata_dir}/{METADATA_FOLDER}"):
        return
    for folder in dict.fromkeys((config.metadata_dir, *config.log_dirs)):
        meta = None
        with suppress(FormatRefused):  # it costs itself, later
            meta = read_meta(folder, disk)
        if meta is not None and meta.version == 0:
            raise FormatRefused(
                f"{folder} is of a broker in ZooKeeper mode (version=0 in its meta.properties), and there is no"
                f" metadata log in {config.metadata_dir}: as a controller this node would begin a cluster that has none"
                " of its topics. `moldau migrate` moves a cluster to KRaft mode; give a new controller folders of"
                " its own (log.dirs, metadata.log.dir)"
            )


def _controller_address(config: NodeConfig) -> tuple[str, int]:
    names = {one.name: one for one in (*config.listeners, *config.advertised)}
    one = names[config.controller_listener_names[0]]
    return one.host or "localhost", one.port


def _bootstrap_records() -> list[Message]:
    return [FeatureLevelRecord(name="metadata.version", feature_level=METADATA_VERSION)]


def _checkpoint(records: list[Message], control: list[tuple[int, bytes]]) -> bytes:
    """A snapshot file: a header with control records, records, a footer (KIP-630)."""
    head = _control([(SNAPSHOT_HEADER, SnapshotHeaderRecord().encode(0)), *control])
    body: list[Entry] = [(0, None, pack_metadata(record, 0), []) for record in records]
    foot = _control([(SNAPSHOT_FOOTER, SnapshotFooterRecord().encode(0))])
    out = bytearray()
    offset = 0
    for batch, is_control in ((head, True), (body, False), (foot, True)):
        if batch:
            out += build(batch, base_offset=offset, leader_epoch=0, control=is_control)
            offset += len(batch)
    return bytes(out)


def _control(records: list[tuple[int, bytes]]) -> list[Entry]:
    return [(0, type.to_bytes(4, "big"), value, []) for type, value in records]  # key: int16 version 0, int16 type


def describe(config: NodeConfig, disk: Disk) -> tuple[str, bool]:
    """What the folders hold, in the manner of Kafka's ``storage info``, and whether all is well."""
    folders = sorted({config.metadata_dir, *config.log_dirs})
    lines = ["Found log director" + ("y:" if len(folders) == 1 else "ies:"), *(f"  {folder}" for folder in folders), ""]
    metas: dict[str, MetaProperties] = {}
    problems = []
    for folder in folders:
        if not disk.exists(f"{folder}/{META}"):
            problems.append(f"  {folder} {UNFORMATTED}")
            continue
        try:
            metas[folder] = read_meta(folder, disk)
        except FormatRefused as error:
            problems.append(f"  {error}")
    for folder, meta in metas.items():
        id = uuid_text(meta.directory_id or bytes(16))
        what = f"{{cluster.id={meta.cluster_id}, directory.id={id}, node.id={meta.node_id}, version={meta.version}}}"
        lines.append(f"Found metadata in {folder}: {what}")
    problems += [
        f"  The folders differ in {name.replace('_', '.')}."
        for name in ("cluster_id", "node_id")
        if len({getattr(meta, name) for meta in metas.values()}) > 1
    ]
    if problems:
        lines += ["", "Found problem:" if len(problems) == 1 else "Found problems:", *problems]
    return "\n".join(lines), not problems
