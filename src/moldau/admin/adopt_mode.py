"""Which mode a cluster of Apache Kafka is in, and whether that can be shared: releases and session times on ZooKeeper,
migrations that have begun and not ended, and whose cluster a node's folders are of.

Of a migration a broker on ZooKeeper tells by its settings, a controller by what it answers to ApiVersions (KIP-866).
Read next: adopt_checks.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from moldau.admin.findings import ERROR, NOTE, WARNING, Finding, some
from moldau.broker.config.node_config import load
from moldau.broker.config.storage_format import FormatRefused, read_meta
from moldau.client import admin
from moldau.client.admin import ConfigEntry
from moldau.client.client import ANYONE, Client, ClientOptions, ForNode, NoController, Refused
from moldau.client.lines import ConnectionOptions, UnsupportedApi
from moldau.client.sync import Cluster
from moldau.model.config_key import ConfigError
from moldau.model.properties import decode_properties
from moldau.runtime.disk import RealDisk
from moldau.storage.errors import LogError
from moldau.wire.messages.k04_leader_and_isr import LeaderAndIsrRequest
from moldau.wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.wire.messages.k55_describe_quorum import DescribeQuorumResponse

if TYPE_CHECKING:
    from moldau.admin.asking import Talk

SINCE_3_4 = 7
"""The version of LeaderAndIsr that brokers of Kafka 3.4 were the first to serve (KIP-866)."""
MIGRATES = "zookeeper.metadata.migration.enable"
SESSION = "zookeeper.session.timeout.ms"
CONTROLLER_MS = 5_000
"""How long a controller may take: its listener may be one that this machine does not reach."""
END_IT = "finish it, or go back, with Kafka's own nodes; check again then"


async def _versions(client: Client, node: ForNode | None = None) -> ApiVersionsResponse:
    request = ApiVersionsRequest(client_software_name="moldau", client_software_version="0.1")
    response: ApiVersionsResponse = await client.ask(request, ANYONE if node is None else node)
    return response


def mode(talk: Talk, silent: Collection[int]) -> Iterator[Finding]:
    """What stands in the way in the mode that the brokers are in, or between the two modes."""
    brokers = sorted(talk.cluster.brokers().keys() - set(silent))
    served = {id: {one.api_key: one.max_version for one in talk.ask(_versions, ForNode(id)).api_keys} for id in brokers}
    on_zookeeper = {
        id: keys[LeaderAndIsrRequest.api_key] for id, keys in served.items() if LeaderAndIsrRequest.api_key in keys
    }
    older = [id for id, version in on_zookeeper.items() if version < SINCE_3_4]
    if older:
        what = "run Kafka 3.3 or before; Moldau shares a ZooKeeper with brokers of Kafka 3.4 and later"
        yield Finding(ERROR, f"brokers {some(older)}", what, "bring all brokers to 3.9 first")
    elif on_zookeeper:
        what = "the cluster keeps its metadata in ZooKeeper; Moldau was run there beside Apache Kafka 3.9 only"
        yield Finding(NOTE, "ZooKeeper", what, "docs/interchange.md, On ZooKeeper; or migrate to KRaft first")
    if len(on_zookeeper) == len(served) and served:
        return
    if on_zookeeper:
        others = sorted(served.keys() - on_zookeeper.keys())
        what = f"a migration is under way: brokers {some(on_zookeeper)} are on ZooKeeper, {some(others)} in KRaft mode"
        yield Finding(ERROR, "migration", what, END_IT)
    yield from _controllers(talk)


def _controllers(talk: Talk) -> Iterator[Finding]:
    """What is wrong if no controller leads the metadata log, or one that there is is not to migrate."""
    try:
        told = talk.ask(admin.ask_quorum)
    except (NoController, UnsupportedApi):
        told = DescribeQuorumResponse()
    led = [part for topic in told.topics for part in topic.partitions if not part.error_code and part.leader_id >= 0]
    if told.error_code or not led:
        mend = "mend the cluster first: `moldau doctor`"
        yield Finding(ERROR, "controller", "no controller leads the metadata log", mend)
        return
    migrating, unknown = [], []
    for node in told.nodes:
        ready = [_is_to_migrate(f"{one.host}:{one.port}") for one in node.listeners]
        if True in ready:
            migrating.append(node.node_id)
        elif None in ready:
            unknown.append(node.node_id)
    if migrating:
        what = f"has begun and is not ended: controllers {some(migrating)} have {MIGRATES}"
        yield Finding(ERROR, "migration", f"one from ZooKeeper {what}", END_IT)
    if unknown:
        what = f"did not tell whether a migration from ZooKeeper is under way: controllers {some(unknown)}"
        yield Finding(NOTE, "migration", what, f"look whether {MIGRATES} is in their files")


def _is_to_migrate(server: str) -> bool | None:
    """Whether the controller at an address takes part in a migration; None when nobody answers there."""
    options = ClientOptions(api_timeout_ms=CONTROLLER_MS)
    connection = ConnectionOptions(request_timeout_ms=CONTROLLER_MS, connect_timeout_ms=CONTROLLER_MS)
    with (
        contextlib.suppress(OSError, Refused, UnsupportedApi),
        Cluster(server, connection=connection, options=options) as controller,
    ):
        return controller.run(_versions(controller.client)).zk_migration_ready
    return None


def migrating_brokers(told: Mapping[str, Mapping[str, ConfigEntry]]) -> Iterator[Finding]:
    """A migration that brokers on ZooKeeper take part in, by what each tells of its settings."""
    ready = [id for id, entries in told.items() if MIGRATES in entries and entries[MIGRATES].value == "true"]
    if ready:
        what = f"has begun and is not ended, or is being taken back: brokers {some(ready)} have {MIGRATES}"
        yield Finding(ERROR, "migration", f"one from ZooKeeper {what}", END_IT)


def session_times(told: Mapping[str, Mapping[str, ConfigEntry]]) -> Iterator[Finding]:
    """Brokers on one ZooKeeper whose sessions are to last differently."""
    times: dict[str, list[str]] = {}
    for id, entries in told.items():
        on_zookeeper = entries["zookeeper.connect"].value if "zookeeper.connect" in entries else None
        if on_zookeeper and SESSION in entries:
            times.setdefault(str(entries[SESSION].value), []).append(id)
    if len(times) > 1:
        each = "; ".join(f"{value} on brokers {some(ids)}" for value, ids in sorted(times.items()))
        what = f"{SESSION} differs ({each}): how long a dead broker is waited for depends on which it is"
        yield Finding(WARNING, SESSION, what, "give all brokers the same, restart them one by one, and check again")


def folders(talk: Talk, files: Sequence[str]) -> Iterator[Finding]:
    """Folders of nodes, named by their files, that belong to another cluster: such a node does not start."""
    ours = talk.cluster.cluster_id()
    for path in files:
        try:
            with open(path, "rb") as file:
                config = load(decode_properties(file.read()))
        except (OSError, ConfigError) as error:
            yield Finding(ERROR, path, f"cannot be used: {error}", f"`moldau doctor {path}` tells more")
            continue
        for folder in sorted({config.metadata_dir, *config.log_dirs}):
            with contextlib.suppress(FormatRefused, OSError, LogError):  # not formatted yet: the doctor tells
                theirs = read_meta(folder, RealDisk()).cluster_id
                if theirs != ours:
                    what = f"belongs to cluster {theirs}, and {talk.bootstrap} is cluster {ours}"
                    yield Finding(ERROR, folder, what, "name the servers of its own cluster, or its own folders")
