"""The first words with ZooKeeper: a session, the znodes that everything hangs on, the cluster's id.

Whoever comes first makes what is missing. An ensemble that does not answer, a chroot that cannot be made, or an ACL
that denies, ends the start with words that say which.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from moldau.broker.formatting import FormatRefused
from moldau.broker.zookeeper.folders import make, make_folders
from moldau.broker.zookeeper_plane import ZooKeeperPlane
from moldau.ports import PlaneEvents
from moldau.ports.zookeeper import ConnectionLoss, NoNode, ZooKeeper, ZooKeeperError
from moldau.terms import uuid_text
from moldau.zookeeper import paths
from moldau.zookeeper.payload import BadZnode
from moldau.zookeeper.znodes import cluster_id_json, parse_cluster_id

log = logging.getLogger("moldau.zookeeper")


async def join(node: Any, listeners: Sequence[PlaneEvents]) -> tuple[ZooKeeperPlane, str]:
    """The plane, connected and not yet started, and the cluster's id. FormatRefused says why not."""

    async def greet(zk: ZooKeeper) -> str:
        await make_folders(zk)
        return await _cluster_id(zk, uuid_text(node.world.random.uuid()))

    zk, cluster_id = await _opened(node, greet)
    return ZooKeeperPlane(node, zk, listeners), cluster_id


async def join_to_migrate(node: Any, cluster_id: str) -> ZooKeeper:
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


async def _opened(node: Any, greet: Callable[[ZooKeeper], Awaitable[str]]) -> tuple[ZooKeeper, str]:
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
    except (ZooKeeperError, BadZnode) as error:
        await zk.stop()
        raise FormatRefused(f"ZooKeeper at {ensemble.connect}: {error}") from error


async def _cluster_id(zk: ZooKeeper, fresh: str) -> str:
    while True:
        try:
            return parse_cluster_id((await zk.get(paths.CLUSTER_ID))[0])
        except NoNode:
            await make(zk, paths.CLUSTER, b"")
            if await make(zk, paths.CLUSTER_ID, cluster_id_json(fresh)):
                log.info("this is a new cluster, %s", fresh)
