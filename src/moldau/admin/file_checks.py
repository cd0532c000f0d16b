"""What can be wrong with a node's server.properties, or with a client's file, on the machine where they are used.

No cluster need run. Read next: doctor.py, cluster_checks.py.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import suppress

from moldau.admin.advice import nearest
from moldau.admin.client_config import BadClientConfig, read_client_config
from moldau.admin.findings import ERROR, NOTE, WARNING, Finding, some
from moldau.broker.config import storage_format as formatting
from moldau.broker.config.node_config import NodeConfig, load
from moldau.broker.config.storage_format import FormatRefused
from moldau.broker.kraft.committed import note_of
from moldau.model.broker_config import BROKER_KEYS
from moldau.model.config_key import ConfigError
from moldau.model.properties import decode_properties, read_properties
from moldau.runtime.disk import RealDisk
from moldau.storage import LogDir
from moldau.storage.errors import OldFormat
from moldau.storage.folder import Folder
from moldau.storage.names import parse_folder
from moldau.storage.old_formats import refuse_old_formats
from moldau.zookeeper.connect import parse_connect

OF_NODES = frozenset({"process.roles", "node.id", "broker.id", "listeners", "log.dirs", "log.dir", "zookeeper.connect"})
"""A file with any of these is a node's."""
CONNECT_S = 1.0
PAGE_S = 2.0
LOG_MISSING = "kafka_server_raftmetrics_log_missing"
FULL, NEARLY_FULL = 0.03, 0.10


def file_checks(path: str) -> tuple[list[Finding], str | None]:
    """All that is wrong with a file; and the servers that it names, when it is a client's."""
    try:
        with open(path, "rb") as file:
            text = decode_properties(file.read())
    except OSError as error:
        return [
            Finding(ERROR, path, f"cannot be read: {error.strerror}", "name a server.properties or a client's file")
        ], None
    except ConfigError:
        return [Finding(ERROR, path, "is no text file", "name a server.properties or a client's file")], None
    try:
        if not OF_NODES & set(read_properties(text)):
            return _client(path)
        config = load(text)
    except ConfigError as error:
        return [Finding(ERROR, path, str(error), "docs/configuration.md says what is allowed")], None
    found = [*_keys(path, config), *_folders(config), *_formats(config), *_network(config), *_durability(path, config)]
    return found, None


def _client(path: str) -> tuple[list[Finding], str | None]:
    try:
        config = read_client_config(path)
    except BadClientConfig as error:
        return [Finding(ERROR, path, str(error).removeprefix(f"{path}: "), "see docs/cli.md")], None
    found = []
    if config.unused:
        what = f"not used by any command: {some(config.unused)}"
        found.append(Finding(NOTE, path, what, "other clients may use them"))
    servers = config.text("bootstrap.servers")
    if not servers:
        found.append(Finding(WARNING, path, "bootstrap.servers is not set", "set it, or give --bootstrap-server"))
    return found, servers or None


def _keys(path: str, config: NodeConfig) -> Iterator[Finding]:
    for key in config.unknown:
        near = nearest(key, BROKER_KEYS)
        yield Finding(WARNING, path, f"{key} is no setting of a broker", near or "take it out")
    if config.without_effect:
        yield Finding(NOTE, path, f"without effect here: {some(config.without_effect)}", "nothing need be done")


def _folders(config: NodeConfig) -> Iterator[Finding]:
    disk = RealDisk()
    for folder in sorted({config.metadata_dir, *config.log_dirs}):
        parent = folder
        while parent and not os.path.isdir(parent):
            parent = os.path.dirname(parent.rstrip("/")) or ("/" if parent.startswith("/") else ".")
        if not os.access(parent, os.W_OK):
            yield Finding(
                ERROR,
                folder,
                "this user may not write there",
                f"chown it, or run the node as its owner (`ls -ld {parent}`)",
            )
        usage = shutil.disk_usage(parent)
        share = usage.free / usage.total if usage.total else 1.0
        if share < NEARLY_FULL:
            mend = "make room, or name another disk in log.dirs"
            yield Finding(ERROR if share < FULL else WARNING, folder, f"{100 * share:.0f} % of the disk is left", mend)
    if config.on_zookeeper:
        return
    said, sound = formatting.describe(config, disk)
    if not sound:
        problems = [line.strip() for line in said.partition("Found problem")[2].splitlines()[1:] if line.strip()]
        mend = "`moldau storage format -t CLUSTER_ID -c FILE` (`moldau storage random-uuid` draws an id)"
        if not any(line.endswith(formatting.UNFORMATTED) for line in problems):  # it would refuse what stands there
            mend = "look at all of them with `moldau storage info -c FILE`, and bring meta.properties back from a copy"
        yield Finding(ERROR, "log.dirs", some(problems) or "not formatted", mend)
    if config.is_controller:  # no others note
        yield from _metadata_log(config, disk)


def _metadata_log(config: NodeConfig, disk: RealDisk) -> Iterator[Finding]:
    """A metadata log whose folder was removed, by the word of the node that runs, or while it is on record what was
    committed in it."""
    folder = f"{config.metadata_dir}/{formatting.METADATA_FOLDER}"
    if _has_lost_its_log(config):
        what = f"the node runs, and its next start would not find its metadata log: {folder} was removed or unmounted"
        mend = (
            "restart it while another controller leads, which has the metadata; or bring the folder back (decision 53)"
        )
        yield Finding(ERROR, "metadata log", what, mend)
        return
    with suppress(FormatRefused, OSError, ValueError):  # told above
        meta = formatting.read_meta(config.metadata_dir, disk)
        note = note_of(disk, config.metadata_dir, meta.cluster_id, meta.directory_id)
        if note.offset and not any(name.endswith((".log", ".checkpoint")) for name in _names_in(disk, folder)):
            what = f"the metadata log is gone, and up to offset {note.offset} it was committed: {folder} was removed"
            mend = "start it, or restart it, while another controller leads, which has the metadata; or put the folder"
            mend += " back (decision 53)"
            yield Finding(ERROR, "metadata log", what, mend)


def _has_lost_its_log(config: NodeConfig) -> bool:
    """Whether the node says so on its page; one that has none, or does not run, says nothing."""
    place = config.pages()
    if place is None:
        return False
    from moldau.publishing.pages import ask

    host, port = place
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # what binds everything
    try:
        page = ask(f"[{here}]:{port}" if ":" in here else f"{here}:{port}", PAGE_S)
    except OSError:
        return False
    return f"\n{LOG_MISSING} 1\n" in page


def _names_in(disk: RealDisk, folder: str) -> list[str]:
    """What a folder holds; nothing when it is not there."""
    return disk.list_dir(folder) if disk.exists(folder) else []


def _formats(config: NodeConfig) -> Iterator[Finding]:
    """Logs with records in message formats before v2, which a node sets out of use as it starts."""
    disk = RealDisk()
    for folder in config.log_dirs if config.is_broker else ():
        with suppress(OSError):  # what cannot be listed is told above, and where the node starts
            for name in disk.list_dir(folder):
                path = f"{folder}/{name}"
                if parse_folder(name) is None or not disk.is_dir(path):
                    continue
                try:
                    refuse_old_formats(Folder(LogDir(disk, folder), path), disk.list_dir(path))
                except OldFormat as error:
                    what = f"out of use on Moldau: {error.path}, offset {error.offset}: message format v{error.format}"
                    yield Finding(WARNING, f"partition {name}", what, OldFormat.mend)


def _network(config: NodeConfig) -> Iterator[Finding]:
    for one in config.advertised:
        if one.host in ("127.0.0.1", "localhost", "::1"):
            what = f"clients and brokers elsewhere are told to come to {one.host}:{one.port}, their own machine"
            yield Finding(NOTE, f"listener {one.name}", what, "set advertised.listeners, unless all of them run here")
    peers = {id: place for id, place in config.voters.items() if id != config.node_id}
    for id, (host, port) in sorted(peers.items()):
        if (why := _why_not(host, port)) is not None:
            what = f"{host}:{port} of controller.quorum.voters cannot be reached from here: {why}"
            yield Finding(WARNING, f"controller {id}", what, "start it, or correct its address")
    if len(config.voters) % 2 == 0 and config.voters:
        what = f"{len(config.voters)} voters survive no more failures than {len(config.voters) - 1}"
        yield Finding(NOTE, "controller.quorum.voters", what, "an odd number is better")
    if config.is_controller and config.voters and config.node_id not in config.voters:
        what = f"this controller is node {config.node_id}, and not among the voters {some(sorted(config.voters))}"
        yield Finding(
            ERROR, "controller.quorum.voters", what, "the same list, with all controllers, is in every node's file"
        )
    if config.on_zookeeper:
        servers = parse_connect(config["zookeeper.connect"]).hosts
        down = [
            f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            for host, port in servers
            if _why_not(host, port) is not None
        ]
        if down:
            severity = ERROR if 2 * len(down) >= len(servers) else WARNING  # more than half must be there
            yield Finding(
                severity, "zookeeper.connect", f"cannot be reached from here: {some(down)}", "start ZooKeeper there"
            )


def _why_not(host: str, port: int) -> str | None:
    try:
        with socket.create_connection((host, port), CONNECT_S):
            return None
    except (OSError, ValueError, OverflowError) as error:
        return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _durability(path: str, config: NodeConfig) -> Iterator[Finding]:
    if not config.is_broker:
        return
    needed, made = int(config["min.insync.replicas"]), int(config["default.replication.factor"])
    if needed > made > 1:
        what = f"min.insync.replicas={needed} is more than default.replication.factor={made}: acks=all waits for all"
        mend = "lower the first or raise the second, or no broker may be down"
        yield Finding(WARNING, path, what, mend)
    if config["unclean.leader.election.enable"]:
        what = "unclean.leader.election.enable=true: acknowledged records are given up for availability"
        yield Finding(WARNING, path, what, "set it to false, and for single topics where loss does not matter")
