"""Who is controller, by the znode /controller, and how this node becomes it (laws Z2, Z5).

Winning and the new controller epoch are one transaction. Who created the znode is told by the session that owns it: a
lost answer is resolved by looking again, and what an earlier life of this broker left behind is waited for.
Decides nothing about when: the plane looks at the start, whenever the znode changes, and in every new session.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable

from moldau.broker.zookeeper.parts import ZooKeeperNode
from moldau.model.named import NamedTuple
from moldau.ports.zookeeper import (
    BadVersion,
    CheckVersion,
    Create,
    Delete,
    NoAuth,
    NodeExists,
    NoNode,
    Set,
    Stat,
    ZooKeeper,
)
from moldau.zookeeper import paths
from moldau.zookeeper.payload import EPOCH_MAX, BadZnode
from moldau.zookeeper.znodes import (
    ControllerZnode,
    controller_epoch_text,
    controller_json,
    parse_broker,
    parse_controller,
    parse_controller_epoch,
)

log = logging.getLogger(__name__)


class ControllerVacant(NamedTuple):
    """There is no controller."""


class ControllerHere(NamedTuple):
    """This session holds the controller role, under an epoch; ``resigned``: we have given it up, or it is not what we
    won.
    """

    epoch: int
    epoch_version: int
    resigned: bool = False


class ControllerElsewhere(NamedTuple):
    """Another session does; the address is None when that broker is not registered. ``trouble``: why there is no
    controller all the same, and what is to be done, if that should last."""

    broker_id: int
    address: tuple[str, int] | None
    trouble: str = ""


class ControllerElection:
    """One node's candidacy. ``changed`` is called whenever /controller may have changed."""

    def __init__(
        self,
        node: ZooKeeperNode,
        zk: ZooKeeper,
        changed: Callable[[], object],
        newest_epoch: Callable[[], int] = lambda: 0,
    ) -> None:
        """``newest_epoch``: the newest controller epoch that this node has heard of."""
        self._newest_epoch = newest_epoch
        self._ahead = 0
        self._refused = False
        self._node = node
        self._zk = zk
        self._changed = changed
        self.elsewhere: ControllerElsewhere | None = None
        """Who is controller, if another node is."""
        self.resigned: int | None = None
        """Newest controller epoch of ours that is over, whatever the znode says."""
        self._elected_for: int | None = None
        """The controller epoch that we last stood for."""

    async def read_controller(self) -> ControllerVacant | ControllerHere | ControllerElsewhere:
        """Read /controller, and watch it."""
        watch = lambda happened, path: self._changed()  # noqa: E731
        while True:
            if await self._zk.exists(paths.CONTROLLER, watch) is None:
                self.elsewhere = None
                return ControllerVacant()
            try:
                data, stat = await self._zk.get(paths.CONTROLLER)
            except NoNode:
                continue
            if stat.ephemeral_owner == self._zk.session_id:
                self.elsewhere = None
                epoch, version = await self._epoch()
                over = self.resigned is not None and self.resigned >= epoch
                return ControllerHere(epoch, version, over or epoch != self._elected_for)
            try:
                seen = parse_controller(data)
            except BadZnode as error:
                self.elsewhere = None
                return ControllerElsewhere(-1, None, _trouble(f"{error}", stat))
            id = seen.broker_id
            if seen.kraft_controller_epoch >= 0:
                self.elsewhere = ControllerElsewhere(id, self._of_quorum(id))
                return self.elsewhere
            what = f"{paths.CONTROLLER} names broker {id}"
            trouble = "" if stat.ephemeral_owner else _trouble(what, stat)
            if id == self._node.config.node_id:
                # Our own earlier life, whose session has not ended yet: it will, and the watch tells.
                self.elsewhere = None
                return ControllerElsewhere(id, None, trouble)
            address = await self._address(id)
            if address is None and not trouble:
                trouble = _trouble(f"{what}, which is not registered in {paths.BROKER_IDS}", stat)
            self.elsewhere = ControllerElsewhere(id, address, trouble)
            return self.elsewhere

    def _of_quorum(self, id: int) -> tuple[str, int] | None:
        """A controller of the quorum rules: the cluster migrates, and whoever is not told where it is cannot follow
        (KIP-866)."""
        where: tuple[str, int] | None = self._node.config.voters.get(id)
        if where is None or not self._node.config.migrates:
            log.error(
                "controller %d of the quorum rules: restart this broker with zookeeper.metadata.migration.enable=true"
                " and controller.quorum.voters, or as a KRaft broker (process.roles)",
                id,
            )
        return where

    async def _address(self, id: int) -> tuple[str, int] | None:
        try:
            broker = parse_broker(id, (await self._zk.get(paths.broker(id)))[0])
        except (NoNode, NoAuth, BadZnode):
            return None
        wanted = self._node.config.inter_broker_listener
        return next(((e.host, e.port) for e in broker.endpoints if e.name == wanted), None)

    async def _epoch(self) -> tuple[int, int]:
        """The controller epoch, and the version of its znode, which is made if there is none."""
        while True:
            try:
                data, stat = await self._zk.get(paths.CONTROLLER_EPOCH)
                return parse_controller_epoch(data), stat.version
            except NoNode:
                with contextlib.suppress(NodeExists):
                    await self._zk.create(paths.CONTROLLER_EPOCH, controller_epoch_text(0))

    async def elect(self) -> ControllerHere | None:
        """Try to be controller: the controller role if we won, None if somebody else was faster; ConnectionLoss: look
        again.
        """
        stands, version = await self._epoch()
        # /controller_epoch may have been set back, or removed: brokers that know a newer one would refuse all.
        epoch = max(stands, self._newest_epoch()) + self._ahead
        znode = ControllerZnode(
            broker_id=self._node.config.node_id,
            timestamp_ms=self._node.world.clock.wall_ms(),
            incarnation_id=self._node.lifecycle.incarnation_id,
        )
        self._elected_for = epoch + 1
        self._refused = False
        try:
            await self._zk.multi(
                [
                    Create(path=paths.CONTROLLER, data=controller_json(znode), ephemeral=True),
                    Set(path=paths.CONTROLLER_EPOCH, data=controller_epoch_text(epoch + 1), version=version),
                ]
            )
        except (NodeExists, BadVersion):
            self._changed()
            return None
        return ControllerHere(epoch + 1, version + 1)

    def refused_by_broker(self) -> None:
        """Brokers know a newer controller epoch than this one has stood for, and do not say which."""
        self._refused = True

    def accepted_by_broker(self) -> None:
        """A broker takes its roles from us."""
        self._refused = False
        self._ahead = 0

    async def resign(self) -> None:
        """Delete /controller if this session owns it.

        Whoever was refused and owns it still was not refused for another that was elected since: brokers know epochs
        that /controller_epoch does not tell of, and the next candidacy passes over more of them. In every other case
        the newer epoch stands in the znode, and the next one is the one after it (Z2).
        """
        try:
            # Before the znode: read after it, from a server that lagged, the version would be the next controller's.
            _, version = await self._epoch()
            _, stat = await self._zk.get(paths.CONTROLLER)
            refused, self._refused = self._refused, False
            if stat.ephemeral_owner == self._zk.session_id:
                if refused:
                    self._ahead = min(max(1, 2 * self._ahead), EPOCH_MAX // 4)
                await self._zk.multi(
                    [
                        CheckVersion(path=paths.CONTROLLER_EPOCH, version=version),
                        Delete(path=paths.CONTROLLER, version=stat.version),
                    ]
                )
        except (NoNode, BadVersion):
            pass  # it is gone, or somebody else's


def _trouble(what: str, stat: Stat) -> str:
    """Why nobody is controller, and when that ends."""
    if stat.ephemeral_owner:
        return (
            f"nobody can be controller: {what}; the znode goes when session 0x{stat.ephemeral_owner:x} ends, which made"
            f" it, or when somebody deletes {paths.CONTROLLER}"
        )
    return (
        f"nobody can be controller: {what}, and the znode belongs to no session, so no broker made it and none removes"
        f" it: delete {paths.CONTROLLER}, as with zookeeper-shell.sh"
    )
