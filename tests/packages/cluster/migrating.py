"""A migration's commands against a model of what they command: node processes, their metadata logs, and ZooKeeper.

Folders, properties and ``cluster.json`` are real, so that a command which is cut off leaves behind what it would leave.
Nodes are what their properties make them at the moment when they are started; the model takes the steps that real nodes
take by themselves as soon as they can.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

from moldau.broker.kraft.batches import proposal
from moldau.cluster.cluster import Cluster, ClusterError
from moldau.cluster.migration import steps
from moldau.cluster.migration.metadata_logs import of_quorum
from moldau.cluster.migration.steps import Migration, Mode
from moldau.cluster.nodes import ClusterSpec, NodeSpec
from moldau.controller.migration import MigrationState
from moldau.model import uuid_text
from moldau.model.properties import read_properties
from moldau.ports.zookeeper import Delete, NoNode, Op, Stat
from moldau.storage.names import METADATA_TOPIC
from moldau.wire.records.metadata import TopicRecord, ZkMigrationStateRecord
from moldau.zookeeper import paths
from moldau.zookeeper.znodes import ControllerZnode, MigrationZnode, controller_json, migration_json

T = TypeVar("T")
BROKERS = (1, 2, 3)
NO_PROCESS = 10_000_000
"""Numbers from here on are no process of any machine."""
QUORUM_EPOCH = 7


class CutOff(BaseException):
    """The command ends here, as by kill -9."""


class Process(NamedTuple):
    node: int
    given: dict[str, str]

    @property
    def mode(self) -> Mode:
        if self.given.get("process.roles"):
            return Mode.QUORUM
        return Mode.TAKES_PART if "controller.quorum.voters" in self.given else Mode.ZOOKEEPER


class World:
    """What lives on when a command is cut off. ``left`` counts the steps until that happens; None: never."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.left: int | None = None
        self.processes: dict[int, Process] = {}
        self.znodes: dict[str, bytes] = {}
        self.decisions = 1
        self.said: list[str] = []
        self.writes_both = True
        """Whether the quorum's leader reaches ZooKeeper."""
        spec = ClusterSpec(uuid_text(bytes(range(16))), zookeeper="model:2181")
        for id in BROKERS:
            node = NodeSpec(id, "broker", str(folder / f"node-{id}"), port=id)
            Path(node.folder).mkdir(parents=True)
            node.properties.write_text(f"broker.id={id}\nlisteners=PLAINTEXT://127.0.0.1:{id}\nlog.dirs=/nowhere\n")
            spec.nodes.append(node)
            self.launch(node)
        spec.save(folder)
        self.originals = {node.id: node.properties.read_text() for node in spec.nodes}
        self.settle()
        save = ClusterSpec.save
        patch.setattr(ClusterSpec, "save", lambda spec, folder: self.around(lambda: save(spec, folder)))
        patch.setattr(steps, "is_alive", lambda pid: pid in self.processes)
        for name in ("_write", "_set_aside"):
            patch.setattr(steps, name, self._step(getattr(steps, name)))
        patch.setattr(Migration, "_in_zookeeper", lambda _, work: self.ask(work))

    # ---- steps of a command

    def around(self, action: Callable[[], T]) -> T:
        """A step: the command may be cut off before it, and after it."""
        self.tick()
        done = action()
        self.tick()
        return done

    def tick(self) -> None:
        if self.left is not None:
            if not self.left:
                raise CutOff
            self.left -= 1

    def _step(self, action: Callable[..., T]) -> Callable[..., T]:
        return lambda *given: self.around(lambda: action(*given))

    def migration(self) -> Migration:
        """As another process sees the cluster."""
        return Migration(Commanded(self), self.said.append)

    # ---- processes

    def launch(self, node: NodeSpec) -> None:
        assert all(each.node != node.id for each in self.processes.values()), f"node {node.id} runs twice"
        node.pid = NO_PROCESS + len(self.said) + len(self.processes)
        while node.pid in self.processes:
            node.pid += 1
        self.processes[node.pid] = Process(node.id, read_properties(node.properties.read_text()))

    def of(self, *, controllers: bool) -> list[Process]:
        return [each for each in self.processes.values() if (each.node not in BROKERS) is controllers]

    def _log(self, id: int) -> Path:
        return self.folder / f"node-{id}" / "data" / f"{METADATA_TOPIC}-0" / f"{0:020}.log"

    def append(self, record: Any) -> None:
        """Decided by all controllers that run."""
        for process in self.of(controllers=True):
            log = self._log(process.node)
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("ab") as file:
                file.write(proposal([record], self.decisions, QUORUM_EPOCH, 0))
        self.decisions += 1

    def decide(self, name: str) -> None:
        """The quorum makes a topic."""
        self.append(TopicRecord(name=name, topic_id=bytes(15) + b"\1"))
        self.settle()

    @property
    def state(self) -> MigrationState:
        controllers = [self.folder / f"node-{each.node}" for each in self.of(controllers=True)]
        return of_quorum(controllers).state

    def settle(self) -> None:
        """What nodes do by themselves."""
        controllers, brokers = self.of(controllers=True), self.of(controllers=False)
        voters = {len(each.given["controller.quorum.voters"].split(",")) for each in controllers}
        elected = bool(voters) and len(controllers) > max(voters) // 2
        everybody = len(brokers) == len(BROKERS)
        if elected and all("zookeeper.connect" in each.given for each in controllers):
            ready = everybody and all(each.mode is not Mode.ZOOKEEPER for each in brokers)
            if self.state is MigrationState.NONE and ready and len(controllers) == max(voters):
                self.append(ZkMigrationStateRecord(zk_migration_state=MigrationState.MIGRATION))
            if self.state is MigrationState.MIGRATION and self.writes_both:
                self.znodes[paths.CONTROLLER] = controller_json(ControllerZnode(101, 0, QUORUM_EPOCH))
                mark = MigrationZnode(101, QUORUM_EPOCH, self.decisions - 1, QUORUM_EPOCH)
                self.znodes[paths.MIGRATION] = migration_json(mark)
        let_go = elected and not any("zookeeper.connect" in each.given for each in controllers)
        if let_go and self.state is MigrationState.MIGRATION and all(e.mode is Mode.QUORUM for e in brokers):
            self.append(ZkMigrationStateRecord(zk_migration_state=MigrationState.POST_MIGRATION))
        candidates = [each for each in brokers if each.mode is not Mode.QUORUM]
        if candidates and paths.CONTROLLER not in self.znodes:
            self.znodes[paths.CONTROLLER] = controller_json(ControllerZnode(candidates[0].node, 0))

    # ---- ZooKeeper

    def ask(self, work: Callable[[Any], Awaitable[T]]) -> T:
        coroutine = work(self)
        try:
            while True:
                coroutine.send(None)  # type: ignore[attr-defined]
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    async def get(self, path: str) -> tuple[bytes, Stat]:
        if path not in self.znodes:
            raise NoNode(path)
        return self.znodes[path], Stat(0, 0, 0, 0)

    async def multi(self, ops: Sequence[Op]) -> None:
        def removed() -> None:
            for op in ops:
                assert isinstance(op, Delete)
                del self.znodes[op.path]
            self.settle()

        self.around(removed)


class Commanded(Cluster):
    """The cluster of a world's folder."""

    def __init__(self, world: World) -> None:
        super().__init__(data=world.folder)
        self._world = world

    def alive(self) -> list[int]:
        return [node.id for node in self.spec.nodes if node.pid in self._world.processes]

    def restart(self, id: int, *, wait: bool = True, timeout_s: float = 0) -> None:
        node = self.node(id)
        if node.pid in self._world.processes:
            self.terminate(id)

        def launched() -> None:
            self._world.launch(node)
            self._world.settle()
            self._world.left, left = None, self._world.left
            self.spec.save(self.folder)
            self._world.left = left

        self._world.around(launched)

    def terminate(self, id: int, timeout_s: float = 0) -> None:
        node = self.node(id)

        def ended() -> None:
            assert node.pid is not None
            del self._world.processes[node.pid]

        self._world.around(ended)
        self.spec.save(self.folder)

    def wait_until_in_sync(self, timeout_s: float = 0) -> None:
        if missing := [node.id for node in self.spec.nodes if node.is_broker and node.id not in self.alive()]:
            raise ClusterError(f"nodes {missing} do not run, and replicas on them cannot be in sync")

    def wait_until(self, condition: Callable[[], bool], what: str, timeout_s: float = 0) -> None:
        self._world.settle()
        if not condition():
            raise ClusterError(f"not within {timeout_s:g} s: {what}")
