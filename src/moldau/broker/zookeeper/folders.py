"""The znodes that everything hangs on: whoever comes first makes them, and whoever finds one removed makes it again."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from moldau.ports.zookeeper import NoAuth, NodeExists, ZooKeeper
from moldau.zookeeper import paths

BESIDE_TOPICS = tuple(path for path in paths.PERSISTENT if path != paths.TOPICS)


async def make_folders(zk: ZooKeeper, wanted: Sequence[str] = paths.PERSISTENT) -> None:
    """Make those that are missing; ZooKeeperError as the port says."""
    try:
        there = [found is not None for found in await zk.get_many(wanted)]
    except NoAuth:  # one of them may not be read
        there = [await _is_there(zk, path) for path in wanted]
    for path, is_there in zip(wanted, there, strict=True):
        if not is_there:
            await make(zk, path, None)  # as Kafka: in /latest_producer_id_block its controller takes "" for broken JSON


async def make_again(zk: ZooKeeper) -> None:
    """Make those that another client removed from a cluster that runs, but for /brokers/topics: made again it would say
    that the cluster has no topics, and all logs would be set aside. ZooKeeperError as the port says.
    """
    await make_folders(zk, BESIDE_TOPICS)


async def _is_there(zk: ZooKeeper, path: str) -> bool:
    """Whether a znode stands: also one of which an ACL denies even that, as servers from 3.9 on do (ZOOKEEPER-2590)."""
    try:
        return await zk.exists(path) is not None
    except NoAuth:
        return True


async def make(zk: ZooKeeper, path: str, data: bytes | None) -> bool:
    """Whether it was made by us."""
    with contextlib.suppress(NodeExists):
        await zk.create(path, data)
        return True
    return False
