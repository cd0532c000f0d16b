"""Taking /controller for the quorum, so that no controller of ZooKeeper's acts any more (KIP-866).

The znode is persistent: while the quorum changes its leader, no broker may think that nobody rules. Taking it raises
/controller_epoch in the same transaction, which deposes whoever held it. /migration is made with it, and says
from then on how much of the log ZooKeeper holds; where the log says that a cluster was copied and /migration is gone,
somebody has gone back to ZooKeeper, and what this quorum knows is out of date.
"""

from __future__ import annotations

from moldau.broker.host import Host
from moldau.model.named import NamedTuple
from moldau.ports.zookeeper import Create, Delete, NoNode, Op, Set, ZooKeeper
from moldau.zookeeper import paths
from moldau.zookeeper.znodes import (
    ControllerZnode,
    MigrationZnode,
    controller_epoch_text,
    controller_json,
    migration_json,
    parse_controller,
    parse_controller_epoch,
)


class NotOurs(Exception):
    """/controller cannot be taken, and why."""


class Claim(NamedTuple):
    """The epoch under which brokers and ZooKeeper know this controller, and the version of its znode."""

    epoch: int
    version: int


async def claim(node: Host, zk: ZooKeeper, quorum_epoch: int, *, copied: bool) -> Claim:
    """Take the controller role; NotOurs says what is in the way, ZooKeeperError what ZooKeeper says."""
    await zk.sync()
    try:
        data, stat = await zk.get(paths.CONTROLLER_EPOCH)
    except NoNode:
        raise NotOurs("there was never a controller in this ZooKeeper: is zookeeper.connect's chroot right?") from None
    epoch = max(quorum_epoch, parse_controller_epoch(data) + 1)
    ops: list[Op] = [Set(path=paths.CONTROLLER_EPOCH, data=controller_epoch_text(epoch), version=stat.version)]
    ops += await _deposed(zk, quorum_epoch)
    me = ControllerZnode(node.config.node_id, node.world.clock.wall_ms(), kraft_controller_epoch=quorum_epoch)
    ops.append(Create(path=paths.CONTROLLER, data=controller_json(me)))
    if await zk.exists(paths.MIGRATION) is None:
        if copied:
            raise NotOurs(
                "/migration is gone: the cluster went back to ZooKeeper, and this quorum's metadata are out of date."
                " Stop the controllers; to migrate again, give them empty folders"
            )
        ops.append(Create(path=paths.MIGRATION, data=mark(node.config.node_id, quorum_epoch, -1)))
    await zk.multi(ops)
    return Claim(epoch, stat.version + 1)


async def _deposed(zk: ZooKeeper, quorum_epoch: int) -> list[Op]:
    """The removal of the present controller; a newer leader of the quorum must not be removed."""
    try:
        data, stat = await zk.get(paths.CONTROLLER)
    except NoNode:
        return []
    holder = parse_controller(data)
    if holder.kraft_controller_epoch > quorum_epoch:
        raise NotOurs(f"controller {holder.broker_id} of a newer quorum epoch {holder.kraft_controller_epoch} holds it")
    return [Delete(path=paths.CONTROLLER, version=stat.version)]


def mark(controller_id: int, quorum_epoch: int, offset: int) -> bytes:
    """/migration: how far ZooKeeper holds what the quorum's log says."""
    return migration_json(
        MigrationZnode(
            controller_id=controller_id,
            controller_epoch=quorum_epoch,
            metadata_offset=offset,
            metadata_epoch=quorum_epoch,
        )
    )
