"""The first words with ZooKeeper: a session, the znodes that everything hangs on, the cluster's id.

Whoever comes first makes what is missing. An ensemble that does not answer, a chroot that cannot be made, or an ACL
that denies, ends the start with words that say which.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from moldau.broker.config.node_config import NodeConfig
from moldau.broker.config.storage_format import FormatRefused, read_meta
from moldau.broker.zookeeper.folders import make, make_folders
from moldau.broker.zookeeper.host import ZooKeeperHost
from moldau.broker.zookeeper.plane import ZooKeeperPlane
from moldau.model import uuid_text
from moldau.ports import PlaneEvents, World
from moldau.ports.zookeeper import ConnectionLoss, NoAuth, NoNode, ZooKeeper, ZooKeeperError
from moldau.storage.errors import LogError
from moldau.zookeeper import paths
from moldau.zookeeper.payload import BadZnode
from moldau.zookeeper.znodes import cluster_id_json, parse_cluster_id, parse_controller

log = logging.getLogger(__name__)

CONTROLLER_VERSION = 2
"""Of /controller, as Kafka writes it since 3.4 (KIP-866)."""


class Joining(Protocol):
    """A node that has no plane yet."""

    @property
    def config(self) -> NodeConfig: ...

    @property
    def world(self) -> World: ...


async def join(node: ZooKeeperHost, listeners: Sequence[PlaneEvents]) -> tuple[ZooKeeperPlane, str]:
    """The plane, connected and not yet started, and the cluster's id. FormatRefused says why not."""

    async def greet(zk: ZooKeeper) -> str:
        await _refuse_older_controller(zk)
        await make_folders(zk)
        return await _cluster_id(node, zk, uuid_text(node.world.random.uuid()))

    zk, cluster_id = await _opened(node, greet)
    return ZooKeeperPlane(node, zk, listeners), cluster_id


async def join_to_migrate(node: Joining, cluster_id: str) -> ZooKeeper:
    """A session for a controller of the quorum that is to take the cluster over. FormatRefused: it is another cluster's
    ZooKeeper, or none answers."""

    async def greet(zk: ZooKeeper) -> str:
        try:
            return parse_cluster_id((await zk.get(paths.CLUSTER_ID))[0])
        except NoNode:
            return ""

    zk, found = await _opened(node, greet)
    if found == cluster_id:
        return zk
    await zk.stop()
    where = node.config["zookeeper.connect"]
    if not found:
        raise FormatRefused(f"there is no cluster in ZooKeeper at {where}: is its chroot right?")
    raise FormatRefused(
        f"the cluster in ZooKeeper at {where} is {found}, and this node was formatted for {cluster_id}; format it with"
        f" `moldau storage format -t {found}`"
    )


async def _opened(node: Joining, greet: Callable[[ZooKeeper], Awaitable[str]]) -> tuple[ZooKeeper, str]:
    """A session, and the cluster's id as ``greet`` finds it there."""
    ensemble = node.config.ensemble()
    if node.world.zookeeper is None:
        raise FormatRefused("zookeeper.connect is given, and this program has no ZooKeeper client")
    zk: ZooKeeper = node.world.zookeeper(ensemble)
    try:
        await zk.start()
        return zk, await greet(zk)
    except ConnectionLoss as error:
        await zk.stop()
        raise FormatRefused(
            f"ZooKeeper at {ensemble.connect} did not answer within {ensemble.connection_timeout_ms} ms: {error}"
        ) from error
    except FormatRefused:
        await zk.stop()
        raise
    except (ZooKeeperError, BadZnode) as error:
        await zk.stop()
        raise FormatRefused(f"ZooKeeper at {ensemble.connect}: {error}") from error


async def _refuse_older_controller(zk: ZooKeeper) -> None:
    """FormatRefused beside brokers of Kafka 3.3 and before, as far as the controller is one: nobody has tried it."""
    try:
        await zk.sync()  # a follower may not know yet who is controller
        held = parse_controller((await zk.get(paths.CONTROLLER))[0])
    except (NoNode, NoAuth, BadZnode):
        return  # nobody is controller, or nobody knows who: whoever wants to be says what is in the way
    if held.version < CONTROLLER_VERSION:
        raise FormatRefused(
            f"the controller is broker {held.broker_id}, of Kafka 3.3 or before (version {held.version} of"
            f" {paths.CONTROLLER}): Moldau shares a ZooKeeper with brokers of Kafka 3.4 and later; bring all brokers to"
            " 3.9 first"
        )


def _refuse_another(node: Joining) -> None:
    """FormatRefused when this node's directories are of a cluster, while none stands in ZooKeeper: a new one in its
    place would have none of its topics, and leave their logs to nobody."""
    for folder in node.config.log_dirs:
        try:
            known = read_meta(folder, node.world.disk).cluster_id
        except (FormatRefused, OSError, LogError):
            continue  # whoever claims it tells
        raise FormatRefused(
            f"no cluster stands in ZooKeeper at {node.config['zookeeper.connect']}, and {folder} belongs to cluster"
            f" {known}: has ZooKeeper lost its data, or is its chroot another? Bring its data back from the"
            " newest copy that there is (topics made and brokers in sync since then are not in it), or give this node"
            " empty directories"
        )


async def _cluster_id(node: Joining, zk: ZooKeeper, fresh: str) -> str:
    while True:
        try:
            return parse_cluster_id((await zk.get(paths.CLUSTER_ID))[0])
        except NoNode:
            await zk.sync()  # a server that lags may not have it yet
            if await zk.exists(paths.CLUSTER_ID) is None:
                _refuse_another(node)
            await make(zk, paths.CLUSTER, b"")
            if await make(zk, paths.CLUSTER_ID, cluster_id_json(fresh)):
                log.info("this is a new cluster, %s", fresh)
