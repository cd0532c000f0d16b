"""The ephemeral znode that says a broker lives (law Z5): create it, or learn whose it is.

A lost answer is resolved by reading: the incarnation id in the znode says whether it is ours. What a dead process of
ours left behind is removed only when it is proven dead, for a connection to the address that it names arrives here; or
when it does not answer there, it is waited for. Anybody else's means that this process must not live.
"""

from __future__ import annotations

import contextlib
import logging

from moldau.broker.controller.failure_detector import is_refused, reaches_us
from moldau.broker.lifecycle import RegistrationRefused
from moldau.broker.loop import sleep
from moldau.broker.zookeeper.folders import make_again
from moldau.broker.zookeeper.parts import ZooKeeperNode
from moldau.ports.zookeeper import BadVersion, NoAuth, NodeExists, NoNode, Stat, ZooKeeper
from moldau.zookeeper import paths
from moldau.zookeeper.payload import BadZnode
from moldau.zookeeper.znodes import BrokerZnode, broker_json, parse_broker

log = logging.getLogger(__name__)

RETRY_MS = 200
MARGIN_MS = 5_000


async def register(node: ZooKeeperNode, zk: ZooKeeper, incarnation_id: bytes, first_epoch: int) -> int:
    """The broker epoch; ``first_epoch`` is that of this process's first registration, -1 before it.

    RegistrationRefused when another process lives under the id; errors of the session.
    """
    path = paths.broker(node.config.node_id)
    data = broker_json(
        BrokerZnode(
            id=node.config.node_id,
            endpoints=tuple(node.own_endpoints()),
            rack=node.config["broker.rack"],
            timestamp_ms=node.world.clock.wall_ms(),
            incarnation_id=incarnation_id,
            first_epoch=first_epoch,
        )
    )
    deadline_ms = node.world.clock.monotonic_ms() + zk.session_timeout_ms + MARGIN_MS
    while True:
        with contextlib.suppress(NodeExists):
            await _create(zk, path, data)
        await zk.sync()  # a server that lags shows an earlier registration: its epoch, or one that is not ours any more
        found = await _read(zk, path)
        if found is None:
            continue
        there, stat = found
        if stat.ephemeral_owner == zk.session_id:
            return int(stat.czxid)
        await _make_way(node, zk, (path, there, stat), deadline_ms)


async def _create(zk: ZooKeeper, path: str, data: bytes) -> None:
    try:
        await zk.create(path, data, ephemeral=True)
    except NoNode:
        await make_again(zk)  # somebody removed the one that it is to lie in
        await zk.create(path, data, ephemeral=True)
    except NoAuth as error:
        raise RegistrationRefused(f"ZooKeeper does not let this broker register: {error}") from error


async def deregister(node: ZooKeeperNode, zk: ZooKeeper) -> None:
    """Take our own registration away, if it is there and ours."""
    path = paths.broker(node.config.node_id)
    found = await _read(zk, path)
    if found is not None and found[1].ephemeral_owner == zk.session_id:
        with contextlib.suppress(NoNode, BadVersion):
            await zk.delete(path, found[1].version)


async def _read(zk: ZooKeeper, path: str) -> tuple[bytes, Stat] | None:
    try:
        found: tuple[bytes, Stat] = await zk.get(path)
    except NoNode:
        return None
    return found


async def _make_way(node: ZooKeeperNode, zk: ZooKeeper, found: tuple[str, bytes, Stat], deadline_ms: int) -> None:
    """A registration of another session is in the way: remove it, wait for its end, or be refused."""
    path, data, stat = found
    id = node.config.node_id
    try:
        endpoints = parse_broker(id, data).endpoints
    except BadZnode as error:
        raise RegistrationRefused(f"{error}; remove that znode if no broker {id} runs") from error
    mine = {(e.host, e.port) for e in node.own_endpoints()}
    shared = [e for e in endpoints if (e.host, e.port) in mine]
    for one in shared:
        if await reaches_us(node.world, node.listeners, one.host, one.port):
            log.info("an earlier process of this broker is registered; its address is ours now, so it is dead")
            with contextlib.suppress(NoNode, BadVersion):
                await zk.delete(path, stat.version)
            return
    # Where both tell the same address and somebody else answers, that may be a proxy: a dead process's session ends.
    lives = not endpoints or (
        not shared and not await is_refused(node.peers, endpoints, node.config.inter_broker_listener)
    )
    where = ", ".join(f"{e.host}:{e.port}" for e in endpoints)
    if lives or node.world.clock.monotonic_ms() >= deadline_ms:
        raise RegistrationRefused(
            f"another live broker is registered under broker.id {id}, at {where}, by ZooKeeper session"
            f" {stat.ephemeral_owner:#x}; this process, of session {zk.session_id:#x}, is refused: stop the other, or"
            " give this node another id"
        )
    log.info("broker %d is registered at %s, where it does not answer; waiting for its session to expire", id, where)
    await sleep(node.world.tasks, RETRY_MS)
