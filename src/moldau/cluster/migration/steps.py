"""The steps of a migration, on a cluster of this machine: each waits until it is done, and may be taken up again.

start -> brokers -> finalise, or from anywhere before the last: rollback. One broker restarts at a time, and only when
every replica is in sync. ClusterError says what did not come about, with the nodes' last words. Properties: ``modes``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from moldau.cluster.cluster import Cluster, ClusterError
from moldau.cluster.ensemble import LocalEnsemble
from moldau.cluster.migration import modes
from moldau.cluster.migration.metadata_logs import LoggedMigration, of_quorum
from moldau.cluster.nodes import HOST, NodeSpec, free_ports, is_alive
from moldau.cluster.serving import ask_zookeeper
from moldau.controller.migration import MigrationState
from moldau.model.properties import read_properties
from moldau.ports.zookeeper import Delete, NoNode, Op, ZooKeeperError
from moldau.zookeeper import paths
from moldau.zookeeper.payload import BadZnode
from moldau.zookeeper.znodes import parse_controller, parse_migration

T = TypeVar("T")

FIRST_ID = 101
ORIGINAL = "server.properties.zookeeper"
"""What a broker was given before the migration: the way back leads there."""
WAIT_S = 60.0
LEVEL_S = 15.0
"""How long ZooKeeper is given to be told what is decided already, before there is a way back."""


class MigrationPhase(Enum):
    """How far a cluster is."""

    ZOOKEEPER = "on ZooKeeper; nothing has begun"
    WAITING = "the quorum's controllers wait: not every broker takes part yet"
    BEHIND = "the quorum leads, and ZooKeeper does not hold every decision yet"
    BOTH = "the quorum leads, and every decision is written to ZooKeeper too"
    FINISHING = "the quorum has left ZooKeeper for good; the command that finishes it was cut off"
    FINISHED = "in KRaft mode"


LEADS = (MigrationPhase.BEHIND, MigrationPhase.BOTH)
"""The quorum leads, and there is a way back."""


class Mode(Enum):
    """What a broker is told by its properties."""

    ZOOKEEPER = "ZooKeeper"
    TAKES_PART = "ZooKeeper, takes part"
    QUORUM = "quorum"


class Migration:
    """One cluster's. ``say`` hears of each step."""

    def __init__(self, cluster: Cluster, say: Callable[[str], object] = print) -> None:
        self.cluster = cluster
        self._say = say

    # ---- looking

    @property
    def brokers(self) -> list[NodeSpec]:
        return [node for node in self.cluster.spec.nodes if node.is_broker]

    @property
    def controllers(self) -> list[NodeSpec]:
        return [node for node in self.cluster.spec.nodes if not node.is_broker]

    def mode(self, broker: NodeSpec) -> Mode:
        given = read_properties(broker.properties.read_text())
        if given.get("process.roles"):
            return Mode.QUORUM
        return Mode.TAKES_PART if given.get(modes.ENABLE) == "true" else Mode.ZOOKEEPER

    def progress(self) -> MigrationPhase:
        """As the controllers' logs say, and ZooKeeper, which may be out of date."""
        if not self.cluster.spec.zookeeper:
            return MigrationPhase.FINISHED
        if not self.controllers:
            return MigrationPhase.ZOOKEEPER
        known = self._known()
        if known.state is MigrationState.POST_MIGRATION:
            return MigrationPhase.FINISHING
        written = self._in_zookeeper(_written)
        if written < 0 or known.state is not MigrationState.MIGRATION:
            return MigrationPhase.WAITING
        return MigrationPhase.BOTH if written >= known.decision else MigrationPhase.BEHIND

    def _known(self) -> LoggedMigration:
        return of_quorum([Path(node.folder) for node in self.controllers])

    def _in_zookeeper(self, work: Callable[[Any], Awaitable[T]]) -> T:
        where = self.cluster.spec.zookeeper
        try:
            return ask_zookeeper(where, work)
        except ZooKeeperError as error:
            raise ClusterError(f"ZooKeeper at {where}: {error}") from error

    # ---- the way there

    def start(self, controllers: int = 3) -> None:
        """Controllers, then the brokers' part in it; the quorum leads when this returns."""
        self.start_controllers(controllers)
        for broker in self.brokers:
            self.take_part(broker)
        self.wait_until_both()

    def start_controllers(self, count: int = 3) -> None:
        """Format and start controllers of the quorum, for the cluster that stands in ZooKeeper."""
        if not self.cluster.spec.zookeeper:
            raise ClusterError("this cluster is not on ZooKeeper: there is nothing to migrate")
        if not self.controllers:
            ports = enumerate(free_ports(count), FIRST_ID)
            folder = self.cluster.folder
            self.cluster.spec.nodes += [
                NodeSpec(id, "controller", str(folder / f"node-{id}"), controller_port=port) for id, port in ports
            ]
            self.cluster.spec.save(folder)  # cut off from here on, the next call goes on with these
        for node in self.controllers:
            if not (Path(node.folder) / "data" / "meta.properties").exists():
                self._format(node)
            if not is_alive(node.pid):
                self._say(f"controller {node.id} starts")
                self.cluster.restart(node.id, wait=False)

    def _format(self, node: NodeSpec) -> None:
        from moldau.broker.config.node_config import load
        from moldau.broker.config.storage_format import format_storage
        from moldau.runtime.disk import RealDisk
        from moldau.runtime.world import RealRandom

        _set_aside(Path(node.folder))
        Path(node.folder).mkdir(parents=True, exist_ok=True)
        self._write_controller(node, self.cluster.spec.zookeeper)
        format_storage(load(node.properties.read_text()), self.cluster.cluster_id, RealDisk(), RealRandom())

    def _write_controller(self, node: NodeSpec, zookeeper: str) -> None:
        own = {
            "node.id": str(node.id),
            "listeners": f"{modes.CONTROLLER_LISTENER}://{HOST}:{node.controller_port}",
            "log.dirs": str(Path(node.folder) / "data"),
        }
        given = modes.controller(self._given(self.brokers[0]), own, self._voters(), zookeeper)
        _write(node.properties, modes.text_of(given))

    def _voters(self) -> str:
        return ",".join(f"{node.id}@{HOST}:{node.controller_port}" for node in self.controllers)

    def _given(self, broker: NodeSpec) -> dict[str, str]:
        """A broker's properties as they were on ZooKeeper; kept aside when the migration begins."""
        kept = Path(broker.folder) / ORIGINAL
        if not kept.exists():
            _write(kept, broker.properties.read_text())
        return read_properties(kept.read_text())

    def take_part(self, broker: NodeSpec) -> None:
        """A broker restarts on ZooKeeper, knowing the quorum: the way there, and the first half of the way back."""
        self._switch(broker, Mode.TAKES_PART, modes.taking_part(self._given(broker), self._voters()))

    def wait_until_both(self, timeout_s: float = WAIT_S) -> None:
        """Until the quorum leads and ZooKeeper holds what it knows."""
        self.cluster.wait_until(lambda: self.progress() is MigrationPhase.BOTH, "the quorum leads", timeout_s)
        self.cluster.wait_until_in_sync()
        self._say(MigrationPhase.BOTH.value)

    def cross(self, broker: NodeSpec) -> None:
        """A broker restarts in KRaft mode."""
        if self.progress() not in (*LEADS, MigrationPhase.FINISHING):
            raise ClusterError(f"broker {broker.id} must stay: {self.progress().value}")
        self._switch(broker, Mode.QUORUM, modes.on_quorum(self._given(broker), self._voters()))

    def finalise(self) -> None:
        """Take ZooKeeper away from the controllers: there is no way back."""
        progress = self.progress()
        left = [broker.id for broker in self.brokers if self.mode(broker) is not Mode.QUORUM]
        if progress is MigrationPhase.FINISHED:
            self._let_go()
            self._say("the migration is finished")
            return
        if progress is not MigrationPhase.FINISHING and (left or progress not in LEADS):
            raise ClusterError(f"not yet: {progress.value}; brokers still on ZooKeeper: {left}")
        for node in self.controllers:
            self._write_controller(node, "")
            self._say(f"controller {node.id} restarts without ZooKeeper")
            self.cluster.restart(node.id, wait=False)
        self.cluster.wait_until(
            lambda: self._known().state is MigrationState.POST_MIGRATION, "the migration is finished", WAIT_S
        )
        for broker in self.brokers:
            if self.mode(broker) is not Mode.QUORUM:  # somebody has led it back meanwhile, where nobody is any more
                self._restart(broker, modes.text_of(modes.on_quorum(self._given(broker), self._voters())))
        spec = self.cluster.spec
        spec.zookeeper, spec.embedded = "", False
        spec.save(self.cluster.folder)  # before ZooKeeper goes: whoever is cut off here does not look for it again
        self._let_go()
        self._say("the migration is finished")

    def _let_go(self) -> None:
        """Stop a ZooKeeper of the cluster's own that nobody needs any more, and forget how it was used."""
        if (self.cluster.folder / "zookeeper" / "ensemble.json").exists():
            (self.cluster.ensemble or LocalEnsemble(self.cluster.folder / "zookeeper")).stop()
        self.cluster.ensemble = None
        for broker in self.brokers:
            (Path(broker.folder) / ORIGINAL).unlink(missing_ok=True)

    # ---- the way back

    def rollback(self, *, force: bool = False) -> None:
        """Back to ZooKeeper, from wherever the migration is; what was decided meanwhile stands there too. ``force``:
        also if it does not."""
        self.hand_back(force=force)
        for broker in self.brokers:
            self._switch(broker, Mode.ZOOKEEPER, self._given(broker))
            (Path(broker.folder) / ORIGINAL).unlink(missing_ok=True)
        for node in self.controllers:
            self.cluster.spec.nodes.remove(node)
        self.cluster.spec.save(self.cluster.folder)
        self._say("the cluster is on ZooKeeper, as before")

    def hand_back(self, *, force: bool = False) -> None:
        """ZooKeeper's controller leads again. Brokers still take part, in case the quorum is started anew.

        ClusterError, and nothing has been given up, when ZooKeeper does not hold every decision; ``force`` gives those
        up: topics made meanwhile would be gone, and leader epochs be used again.
        """
        progress = self.progress()
        if progress in (MigrationPhase.ZOOKEEPER, MigrationPhase.FINISHING, MigrationPhase.FINISHED):
            raise ClusterError(f"there is no way back: {progress.value}")
        if not force and progress in LEADS:
            self._wait_until_level()
        for broker in self.brokers:
            if self.mode(broker) is Mode.QUORUM:
                self.take_part(broker)
        self._start_others()
        self.cluster.wait_until_in_sync()
        for node in self.controllers:
            self._say(f"controller {node.id} stops")
            if is_alive(node.pid):
                self.cluster.terminate(node.id)
        if not self._in_zookeeper(_has_controller):
            self._check_handed_over(force=force)
            self._in_zookeeper(_give_back)
        self.cluster.wait_until(lambda: self._in_zookeeper(_has_controller), "a broker is controller again", WAIT_S)
        for node in self.controllers:
            _set_aside(Path(node.folder))  # what they know is out of date from now on

    def _wait_until_level(self) -> None:
        """Until ZooKeeper holds what is decided by now; more may be decided meanwhile."""
        goal = self._known().decision
        try:
            self.cluster.wait_until(lambda: self._in_zookeeper(_written) >= goal, "ZooKeeper holds it", LEVEL_S)
        except ClusterError:
            raise ClusterError(self._lacking(goal) + "; nothing was changed") from None

    def _check_handed_over(self, *, force: bool) -> None:
        """No controller runs any more: compare what they have decided with what ZooKeeper was told."""
        known, written = self._known(), self._in_zookeeper(_written)
        if known.state is not MigrationState.MIGRATION or written >= known.decision:
            return
        if force:
            self._say(f"given up: {self._lacking(known.decision)}")
            return
        for node in self.controllers:
            self.cluster.restart(node.id, wait=False)
        raise ClusterError(f"{self._lacking(known.decision)}; the controllers run again")

    def _lacking(self, decision: int) -> str:
        written = self._in_zookeeper(_written)
        return (
            f"ZooKeeper holds the quorum's decisions up to offset {written}, and the last one is at {decision}: see the"
            " controllers' server.log for what keeps them from writing. --force gives up what is not there: topics made"
            " since would be deleted, and leader epochs used again"
        )

    def _switch(self, broker: NodeSpec, mode: Mode, given: dict[str, str]) -> None:
        text = modes.text_of(given)
        if broker.properties.read_text() == text and is_alive(broker.pid):
            return
        self._say(f"broker {broker.id} restarts: {mode.value}")
        if is_alive(broker.pid):  # whoever is down already is missed by nobody more
            self._start_others(broker)
            self.cluster.wait_until_in_sync()
        self._restart(broker, text)

    def _restart(self, broker: NodeSpec, text: str) -> None:
        """Restart it with other properties. They are written while it is down: a broker that runs is what they say,
        also when this is cut off."""
        if is_alive(broker.pid):
            self.cluster.terminate(broker.id)
        _write(broker.properties, text)
        self.cluster.restart(broker.id)

    def _start_others(self, but: NodeSpec | None = None) -> None:
        """A command that was cut off while a broker restarted has left it down: what it holds could not be in sync."""
        for broker in self.brokers:
            if broker is not but and not is_alive(broker.pid):
                self._say(f"broker {broker.id} starts: {self.mode(broker).value}")
                self.cluster.restart(broker.id)


def _write(file: Path, text: str) -> None:
    """Write a file so that whoever is cut off leaves the old one or the new one."""
    temporary = file.with_name(file.name + ".tmp")
    temporary.write_text(text)
    temporary.replace(file)


def _set_aside(folder: Path) -> None:
    """Give a folder a name that nobody looks for; it may hold the only copy of a decision."""
    if folder.exists() and any(folder.iterdir()):
        number = next(n for n in count(1) if not folder.with_name(f"{folder.name}-old-{n}").exists())
        folder.rename(folder.with_name(f"{folder.name}-old-{number}"))


async def _written(zk: Any) -> int:
    """The offset of the quorum's log up to which ZooKeeper holds what it says; -1 while the quorum does not lead."""
    try:
        ruler = parse_controller((await zk.get(paths.CONTROLLER))[0])
        mark = parse_migration((await zk.get(paths.MIGRATION))[0])
    except (NoNode, BadZnode):
        return -1
    told = ruler.kraft_controller_epoch >= 0 and mark.controller_epoch == ruler.kraft_controller_epoch
    return mark.metadata_offset if told else -1


async def _give_back(zk: Any) -> None:
    """Remove what the quorum holds, all at once; brokers that watch elect a controller then. Whoever is cut off between
    two removals would find a quorum that leads and has told ZooKeeper nothing."""
    gone: list[Op] = []
    for path in (paths.MIGRATION, paths.CONTROLLER):
        try:
            data, stat = await zk.get(path)
        except NoNode:
            continue
        if path == paths.MIGRATION or parse_controller(data).kraft_controller_epoch >= 0:
            gone.append(Delete(path=path, version=stat.version))
    if gone:
        await zk.multi(gone)


async def _has_controller(zk: Any) -> bool:
    try:
        return parse_controller((await zk.get(paths.CONTROLLER))[0]).kraft_controller_epoch < 0
    except (NoNode, BadZnode):
        return False
