"""Real nodes in ZooKeeper mode in one process: sockets and files are real, ZooKeeper is the simulator's."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from moldau.broker.config.node_config import NodeConfig
from moldau.broker.node import Node
from moldau.client.client import Client
from moldau.client.world_lines import WorldLines
from moldau.image import image_from
from moldau.ports import World
from moldau.ports.zookeeper import CheckVersion, Create, Set
from moldau.runtime.world import real_world
from moldau.zookeeper.reading import read
from moldau.zookeeper.survey import survey
from tests.packages.broker.data_cluster import PATIENCE_S
from tests.packages.broker.zookeeper_server import Server

SETTINGS = {
    "replica.lag.time.max.ms": "120000",  # no machine is so slow that it drops a follower that lives
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "3",
    "controlled.shutdown.retry.backoff.ms": "1000",
    "zookeeper.connect": "model:2181/kafka",
}


class Nodes:
    """Nodes 1 to n on one model of ZooKeeper, each with as many log directories."""

    def __init__(self, folder: Path, count: int = 3, *, dirs: int = 1) -> None:
        self.folder = folder
        self.server = Server()
        self.failures: list[Any] = []
        self.ended: dict[int, int] = {}
        self.nodes: dict[int, Node] = {}
        self.count = count
        self.dirs = dirs
        self._world: World | None = None

    def world(self) -> World:
        if self._world is None:
            loop = asyncio.get_running_loop()
            self._world = real_world(loop, lambda task, error: self.failures.append((task, error)), self.server.open)
        return self._world

    async def boot(self, id: int, port: int = 0) -> Node:
        config = NodeConfig(
            SETTINGS
            | {
                "broker.id": str(id),
                "listeners": f"PLAINTEXT://127.0.0.1:{port}",
                "log.dirs": ",".join(str(self.folder / f"node-{id}{'-more' * n}") for n in range(self.dirs)),
            }
        )
        node = self.nodes[id] = Node(config, self.world(), lambda code: self.ended.__setitem__(id, code))
        await asyncio.wait_for(node.start(), 60)
        return node

    async def __aenter__(self) -> Nodes:
        await asyncio.gather(*(self.boot(id) for id in range(1, self.count + 1)))
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None):  # type: ignore[no-untyped-def]
        if kind is None:
            await self.check_laws()
        else:
            print(self.state())
        for node in list(self.nodes.values()):
            if node.config.node_id not in self.ended:
                await node.stop()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()  # passes of a broker end with its process
        if kind is None:
            assert not self.failures, self.failures
            assert not self.ended, self.ended

    def state(self) -> str:
        """For whoever reads of a failure: one line for each node, and the znodes of the controller role."""
        lines = [f"failures {self.failures}, ended {self.ended}"]
        lines += [
            f"{path}: {self.server.znodes[path].data!r}"
            for path in ("/controller", "/controller_epoch")
            if path in self.server.znodes
        ]
        return "\n".join([*lines, *map(node_state, self.nodes.values())])

    async def check_laws(self) -> None:
        """Z1, Z4: what a node writes of partitions is guarded twice. Z7: at rest the image is what a survey finds."""
        for session, ops in self.server.log:
            states = [op for op in ops if op.path.endswith("/state") and isinstance(op, Set) and session]
            assert all(op.version >= 0 for op in states), f"Z4: a state is written whatever it was: {states}"
            checked = isinstance(ops[0], CheckVersion) and ops[0].path == "/controller_epoch"
            assert checked or not states, f"Z1: written by whoever thinks that it is controller: {ops}"
        session_of_ours = self.server.open()
        await session_of_ours.start()
        end = time.monotonic() + PATIENCE_S
        while True:
            found = image_from(read(await survey(session_of_ours), lambda: bytes(16)).records)
            active = [n for n in self.nodes.values() if n.is_active_controller]
            if not active or _same(found, active[0].metadata.image):
                break
            assert time.monotonic() < end, f"Z7: the controller overlooked something\n{self.state()}"
            await asyncio.sleep(0.005)
        await session_of_ours.stop()

    @property
    def controllers(self) -> list[int]:
        """Epochs of all active controllers: one, when all is well."""
        return [n.controller.epoch for n in self.nodes.values() if n.is_active_controller]

    @property
    def controller(self) -> Node:
        (active,) = (node for node in self.nodes.values() if node.is_active_controller)
        return active

    def client(self) -> Client:
        servers = ",".join(f"127.0.0.1:{next(iter(n.bound.values())).port}" for n in self.nodes.values())
        return Client(WorldLines(self.world()), servers)

    def json(self, path: str) -> Any:
        return json.loads(self.server.znodes[path].data)

    def write(self, path: str, data: bytes, *, sequential: bool = False) -> None:
        """As a tool does: create or set, without asking the controller."""
        there = path in self.server.znodes
        self.server.apply(
            0, [Set(path=path, data=data) if there else Create(path=path, data=data, sequential=sequential)]
        )

    def agree(self) -> bool:
        """Whether every image says the same of brokers and partitions."""
        images = [node.metadata.image for node in self.nodes.values()]
        return all(_essence(image) == _essence(images[0]) for image in images)


def node_state(node: Node) -> str:
    """What a node is and knows, in one line."""
    lifecycle, controller, image = node.lifecycle, node.controller, node.metadata.image
    states = ", ".join(
        f"{topic.name}-{p.id} led by {p.leader}, epoch {p.leader_epoch}, ISR {p.isr}"
        for topic in list(image.topics.values())[:8]
        for p in list(topic.partitions.values())[:3]
    )
    return (
        f"node {node.config.node_id}: {None if lifecycle is None else lifecycle.stage.name},"
        f" controller {controller.epoch if controller.active else None},"
        f" live brokers {sorted(broker.id for broker in image.live_brokers())}, {len(image.topics)} topics: {states}"
    )


def _same(found: Any, image: Any) -> bool:
    """Whether an image is what stands in ZooKeeper, but for brokers that are fenced although registered."""
    fenced = {broker.id for broker in image.brokers.values() if broker.fenced}
    brokers, *rest = _essence(found)
    live, *others = _essence(image)
    return {id: each for id, each in brokers.items() if id not in fenced} == live and rest == others


def _essence(image: Any) -> Any:
    return (
        {b.id: (b.epoch, b.endpoints) for b in image.live_brokers()},
        {
            (t.name, p.id): (t.id, p.leader, p.leader_epoch, p.partition_epoch, p.isr, p.replicas, p.adding, p.removing)
            for t in image.topics.values()
            for p in t.partitions.values()
        },
        image.configs,
    )
