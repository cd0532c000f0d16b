"""The znodes that everything hangs on: whoever comes first makes them, and whoever finds one removed makes it again."""

from __future__ import annotations

import contextlib

from moldau.ports.zookeeper import NoAuth, NodeExists, ZooKeeper
from moldau.zookeeper import paths


async def make_folders(zk: ZooKeeper) -> None:
    """Make those that are missing; ZooKeeperError as the port says."""
    try:
        there = [found is not None for found in await zk.get_many(paths.PERSISTENT)]
    except NoAuth:  # one of them may not be read
        there = [await _is_there(zk, path) for path in paths.PERSISTENT]
    for path, is_there in zip(paths.PERSISTENT, there, strict=True):
        if not is_there:
            await make(zk, path, None)  # as Kafka: in /latest_producer_id_block its controller takes "" for broken JSON


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
