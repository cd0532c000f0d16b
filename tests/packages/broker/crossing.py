"""A cluster on its way between two modes, in one process: brokers that change mode, controllers, a ZooKeeper model."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import TracebackType
from typing import Any

from moldau.broker.config.node_config import NodeConfig
from moldau.broker.config.storage_format import format_storage
from moldau.broker.migration.stages import MigrationStage
from moldau.broker.node import Node
from moldau.client.client import Client
from moldau.client.world_lines import WorldLines
from moldau.cluster.nodes import free_ports
from moldau.controller.migration import MigrationState
from moldau.image import Image
from moldau.model import uuid_text
from moldau.ports import World
from moldau.runtime.disk import RealDisk
from moldau.runtime.world import RealRandom, real_world
from moldau.zookeeper import laws, paths
from moldau.zookeeper.survey import survey
from moldau.zookeeper.znodes import cluster_id_json
from tests.packages.broker.zookeeper_nodes import node_state
from tests.packages.broker.zookeeper_server import Server

COMMON = {
    "replica.lag.time.max.ms": "120000",  # no machine is so slow that it drops a follower that lives
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "3",
    "controlled.shutdown.retry.backoff.ms": "1000",
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.fetch.timeout.ms": "10000",
}
ZK, READY, QUORUM = "on ZooKeeper", "on ZooKeeper, to migrate", "in KRaft mode"
CONNECT = {"zookeeper.connect": "model:2181/kafka"}
MIGRATE = {"zookeeper.metadata.migration.enable": "true"}


class Crossing:
    """Brokers 1 to 3 and controllers 101 to 103; who runs in which mode is the test's to say."""

    def __init__(self, folder: Path, controllers: int = 1, session_timeout_ms: int = 30_000, *, dirs: int = 1) -> None:
        """``dirs``: log directories of each broker."""
        self.folder = folder
        self.dirs = dirs
        self.session_timeout_ms = session_timeout_ms
        self.server = Server()
        self.cluster_id = uuid_text(RealRandom().uuid())
        self.nodes: dict[int, Node] = {}
        self.failures: list[Any] = []
        self.ended: dict[int, int] = {}
        self._world: World | None = None
        self.brokers = (1, 2, 3)
        self.controllers = tuple(range(101, 101 + controllers))
        self.ports = dict(zip((*self.brokers, *self.controllers), free_ports(3 + controllers), strict=True))
        self.voters = ",".join(f"{id}@127.0.0.1:{self.ports[id]}" for id in self.controllers)

    def settings(self, id: int, mode: str) -> dict[str, str]:
        quorum = {"controller.quorum.voters": self.voters, "controller.listener.names": "CONTROLLER"}
        own = {"log.dirs": str(self.folder / f"node-{id}"), **COMMON}
        own["broker.session.timeout.ms"] = str(self.session_timeout_ms)
        if id in self.controllers:
            given = {"process.roles": "controller", "node.id": str(id), **quorum}
            given["listeners"] = f"CONTROLLER://127.0.0.1:{self.ports[id]}"
            return own | given | (CONNECT | MIGRATE if mode == READY else {})
        own["log.dirs"] = ",".join(str(self.folder / f"node-{id}{'-more' * n}") for n in range(self.dirs))
        own["listeners"] = f"PLAINTEXT://127.0.0.1:{self.ports[id]}"
        if mode == QUORUM:
            return own | quorum | {"process.roles": "broker", "node.id": str(id)}
        return own | CONNECT | {"broker.id": str(id)} | (quorum | MIGRATE if mode == READY else {})

    def world(self) -> World:
        """One for all: folders stay locked by their process."""
        if self._world is None:
            loop = asyncio.get_running_loop()
            self._world = real_world(loop, lambda task, error: self.failures.append((task, error)), self.server.open)
        return self._world

    def begin(self, id: int, mode: str, **more: str) -> Node:
        """A node that is not started yet."""
        config = NodeConfig(self.settings(id, mode) | {key.replace("_", "."): text for key, text in more.items()})
        node = self.nodes[id] = Node(config, self.world(), lambda code: self.ended.__setitem__(id, code))
        return node

    async def boot(self, id: int, mode: str) -> Node:
        node = self.begin(id, mode)
        if id in self.controllers and not (self.folder / f"node-{id}" / "meta.properties").exists():
            format_storage(node.config, self.cluster_id, RealDisk(), RealRandom())
        await asyncio.wait_for(node.start(), 60)
        return node

    async def stop(self, id: int) -> None:
        await asyncio.wait_for(self.nodes.pop(id).stop(), 60)

    async def restart(self, id: int, mode: str) -> None:
        await self.stop(id)
        await self.boot(id, mode)

    async def __aenter__(self) -> Crossing:
        self.write("/cluster", b"")
        self.write("/cluster/id", cluster_id_json(self.cluster_id))
        await asyncio.gather(*(self.boot(id, ZK) for id in self.brokers))
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None):  # type: ignore[no-untyped-def]
        if kind is not None:
            print(self.report())
        for id in sorted(self.nodes):
            if id not in self.ended:
                await self.stop(id)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        if kind is None:
            assert not self.failures, self.failures
            assert not self.ended, self.ended

    # ---- looking

    def report(self) -> str:
        """For whoever reads of a failure: one line for each node, and what stands in ZooKeeper of the way."""
        lines = [f"failures {self.failures}, ended {self.ended}, stage {self.stage()}"]
        lines += [f"{path}: {self.server.znodes[path].data!r}" for path in MARKS if path in self.server.znodes]
        for id, node in self.nodes.items():
            lines.append(node_state(node))
            if node.config.is_controller and node.has_joined:  # not where it was refused
                lines.append(f"  voter {id}: leader and epoch {getattr(node.plane, 'leader', None)}")
        return "\n".join(lines)

    @property
    def ruler(self) -> Node | None:
        """The controller that rules, in either mode."""
        found = [node for node in self.nodes.values() if node.is_active_controller]
        return found[0] if len(found) == 1 else None

    def stage(self) -> MigrationStage | None:
        ruler = self.ruler
        return None if ruler is None or ruler.migration is None else ruler.migration.state.stage

    def state(self) -> MigrationState:
        return MigrationState(next(self.nodes[id].metadata.image for id in self.controllers).zk_migration_state)

    def client(self) -> Client:
        servers = ",".join(f"127.0.0.1:{self.ports[id]}" for id in self.brokers)
        return Client(WorldLines(self.world()), servers)

    def write(self, path: str, data: bytes) -> None:
        from moldau.ports.zookeeper import Create, Set

        there = path in self.server.znodes
        self.server.apply(0, [Set(path=path, data=data) if there else Create(path=path, data=data)])

    def remove(self, path: str) -> None:
        from moldau.ports.zookeeper import Delete

        if path in self.server.znodes:
            self.server.apply(0, [Delete(path=path)])

    def in_agreement(self) -> bool:
        """Whether all brokers serve, and every image says the same of brokers and partitions."""
        images = [node.metadata.image for node in self.nodes.values() if node.config.is_broker]
        live = all({b.id for b in image.live_brokers()} == set(self.brokers) for image in images)
        return live and all(_partitions(image) == _partitions(images[0]) for image in images)

    def in_sync(self) -> bool:
        images = [node.metadata.image for node in self.nodes.values() if node.config.is_broker]
        return self.in_agreement() and all(
            set(p.isr) == set(p.replicas) and p.leader >= 0 for image in images for t in image.topics.values()
            for p in t.partitions.values()
        )  # fmt: skip

    async def laws_hold(self) -> bool:
        """Z4, Z7 between the ruling controller's image and the znodes, brokers and levels of features left aside."""
        ruler = self.ruler
        if ruler is None:
            return False
        session = self.server.open()
        await session.start()
        found = await survey(session)
        await session.stop()
        image = ruler.metadata.image.copy()
        image.brokers, image.features = {}, {}
        image.zk_migration_state = 0
        found.brokers.clear()
        try:
            for law in laws.LAWS:
                law(image, found)
        except AssertionError:
            return False
        return True


def _partitions(image: Image) -> Any:
    return {
        (t.name, p.id): (t.id, p.leader, p.leader_epoch, p.partition_epoch, set(p.isr), p.replicas)
        for t in image.topics.values()
        for p in t.partitions.values()
    }


MARKS = (paths.CONTROLLER, paths.MIGRATION)
