"""The first words with ZooKeeper: a session, the znodes that everything hangs on, the cluster's id.

Whoever comes first makes what is missing. An ensemble that does not answer, a chroot that cannot be made, or an ACL
that denies, ends the start with words that say which.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence

from moldau.broker.config.node_config import NodeConfig
from moldau.broker.config.storage_format import FormatRefused, read_meta
from moldau.broker.controller.kafkas_controllers import refuse_beside
from moldau.broker.zookeeper.folders import make, make_folders
from moldau.broker.zookeeper.host import ZooKeeperHost
from moldau.broker.zookeeper.plane import ZooKeeperPlane
from moldau.model import uuid_text
from moldau.model.protocol import Protocol
from moldau.ports import PlaneEvents, World
from moldau.ports.zookeeper import ConnectionLoss, NoAuth, NoNode, ZooKeeper, ZooKeeperError
from moldau.storage.checkpoints import MetaProperties
from moldau.storage.errors import LogError
from moldau.zookeeper import paths
from moldau.zookeeper.payload import BadZnode
from moldau.zookeeper.znodes import cluster_id_json, parse_cluster_id, parse_controller

log = logging.getLogger(__name__)

CONTROLLER_VERSION = 2
"""The version of the JSON in /controller, as Kafka writes it since 3.4 (KIP-866)."""


class Joining(Protocol):
    """A node that has no plane yet."""

    @property
    def config(self) -> NodeConfig: ...

    @property
    def world(self) -> World: ...


async def join(node: ZooKeeperHost, listeners: Sequence[PlaneEvents]) -> tuple[ZooKeeperPlane, str]:
    """The plane, connected and not yet started, and the cluster's id. FormatRefused says why not."""

    async def greet(zk: ZooKeeper) -> str:
        await _refuse_controller(zk, node.config)
        await _refuse_foreign_folders(zk, node)
        await make_folders(zk)
        return await _cluster_id(node, zk, uuid_text(node.world.random.uuid()))

    if node.config.migrates:
        await refuse_beside(node.world, node.config.voters)
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

    await refuse_beside(node.world, node.config.voters, node.config.node_id)
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


async def _refuse_controller(zk: ZooKeeper, config: NodeConfig) -> None:
    """FormatRefused beside brokers of Kafka 3.3 and before, as far as the controller is one, since nobody has tried it;
    and beside a controller of a quorum, whom a broker that does not take part in the migration would never hear."""
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
    if held.kraft_controller_epoch >= 0 and not config.migrates:
        raise FormatRefused(
            f"{paths.CONTROLLER} is held by controller {held.broker_id} of a quorum: the cluster is on its way from"
            f" ZooKeeper to KRaft, or was left behind there, and this broker's file does not say that it takes part"
            " (zookeeper.metadata.migration.enable, controller.quorum.voters). End the migration, or go back, first;"
            " this node has written nothing"
        )


async def _refuse_foreign_folders(zk: ZooKeeper, node: Joining) -> None:
    """FormatRefused when a directory of this node is another cluster's than the one that stands in ZooKeeper."""
    try:
        found = parse_cluster_id((await zk.get(paths.CLUSTER_ID))[0])
    except NoNode:
        return
    for folder, known in _owners(node):
        if known.cluster_id != found:
            raise FormatRefused(
                f"{folder} belongs to node {known.node_id} of cluster {known.cluster_id}, not to node"
                f" {node.config.node_id} of cluster {found}, which stands in ZooKeeper at"
                f" {node.config['zookeeper.connect']}"
            )


def _owners(node: Joining) -> Iterator[tuple[str, MetaProperties]]:
    """Whose each directory is that says so; whoever claims the others tells what is wrong with them."""
    for folder in node.config.log_dirs:
        with contextlib.suppress(FormatRefused, OSError, LogError):
            yield folder, read_meta(folder, node.world.disk)


def _refuse_another(node: Joining) -> None:
    """FormatRefused when this node's directories are of a cluster, while none stands in ZooKeeper: a new one in its
    place would have none of its topics, and leave their logs to nobody."""
    for folder, known in _owners(node):
        raise FormatRefused(
            f"no cluster stands in ZooKeeper at {node.config['zookeeper.connect']}, and {folder} belongs to cluster"
            f" {known.cluster_id}: has ZooKeeper lost its data, or is its chroot another? Bring its data back from the"
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
