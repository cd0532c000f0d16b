"""The ZooKeeper plane with real nodes in one process: sockets and files are real, ZooKeeper is a model in memory."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import TracebackType
from typing import Any

from moldau.broker.config import NodeConfig
from moldau.broker.node import Node
from moldau.client.admin import NewTopic, create_topics, delete_topics
from moldau.client.client import Client
from moldau.client.lines import WorldLines
from moldau.ports import World
from moldau.ports.zookeeper import Check, Set
from moldau.runtime.world import real_world
from tests.rooms.broker.data_cluster import run, until
from tests.rooms.broker.zookeeper_model import Server

SETTINGS = {
    "replica.lag.time.max.ms": "1000",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "3",
    "controlled.shutdown.retry.backoff.ms": "1000",
    "zookeeper.connect": "model/kafka",
}


class Nodes:
    """Nodes 1 to n on one model of ZooKeeper."""

    def __init__(self, folder: Path, count: int = 3) -> None:
        self.folder = folder
        self.server = Server()
        self.failures: list[Any] = []
        self.ended: dict[int, int] = {}
        self.nodes: dict[int, Node] = {}
        self.count = count

    def world(self) -> World:
        plain = real_world(asyncio.get_running_loop(), lambda task, error: self.failures.append((task, error)))
        return World(
            clock=plain.clock,
            random=plain.random,
            disk=plain.disk,
            net=plain.net,
            tasks=plain.tasks,
            zookeeper=self.server.open,
        )

    async def boot(self, id: int, port: int = 0) -> Node:
        config = NodeConfig(
            SETTINGS
            | {
                "broker.id": str(id),
                "listeners": f"PLAINTEXT://127.0.0.1:{port}",
                "log.dirs": str(self.folder / f"node-{id}"),
            }
        )
        node = self.nodes[id] = Node(config, self.world(), lambda code: self.ended.__setitem__(id, code))
        await asyncio.wait_for(node.start(), 20)
        return node

    async def __aenter__(self) -> Nodes:
        await asyncio.gather(*(self.boot(id) for id in range(1, self.count + 1)))
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None):  # type: ignore[no-untyped-def]
        for node in list(self.nodes.values()):
            if node.config.node_id not in self.ended:
                await node.stop()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()  # passes of a broker end with its process
        if kind is None:
            assert not self.failures, self.failures
            assert not self.ended, self.ended

    @property
    def controller(self) -> Node:
        (active,) = (node for node in self.nodes.values() if node.office is not None and node.office.active)
        return active

    def client(self) -> Client:
        servers = ",".join(f"127.0.0.1:{next(iter(n.bound.values())).port}" for n in self.nodes.values())
        return Client(WorldLines(self.world()), servers)

    def json(self, path: str) -> Any:
        return json.loads(self.server.znodes[path].data)

    def agree(self) -> bool:
        """Whether every image says the same of brokers and partitions."""
        images = [node.metadata.image for node in self.nodes.values()]
        return all(_essence(image) == _essence(images[0]) for image in images)


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


def test_three_brokers_register_elect_one_controller_and_serve_a_topic(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            active = nodes.controller
            assert nodes.json("/controller")["brokerid"] == active.config.node_id
            assert nodes.server.znodes["/controller_epoch"].data == b"1"
            client = nodes.client()
            made = await create_topics(client, [NewTopic(name="t", partitions=3, replication_factor=3)])
            assert made["t"].code == 0
            await until(nodes.agree, "all brokers know the topic")
            state = nodes.json("/brokers/topics/t/partitions/0/state")
            assert sorted(state["isr"]) == [1, 2, 3]
            gone = await delete_topics(client, ["t"])
            assert gone["t"].code == 0
            await until(lambda: nodes.agree() and "t" not in active.metadata.image.names, "the topic is gone")
            assert not any(path.startswith("/brokers/topics/t") for path in nodes.server.znodes)
            client.close()
        assert not any(znode.stat.ephemeral_owner for znode in nodes.server.znodes.values())

    run(scenario)


def test_every_write_of_a_controller_checks_its_epoch(tmp_path: Path) -> None:
    """Law Z1: after the election, nothing below /brokers/topics or /config is written without the check."""

    async def scenario() -> None:
        async with Nodes(tmp_path, 1) as nodes:
            client = nodes.client()
            await create_topics(client, [NewTopic(name="t", partitions=1, replication_factor=1)])
            client.close()
            guarded = [
                ops
                for _, ops in nodes.server.log
                if any(op.path.startswith(("/brokers/topics/", "/config/t")) for op in ops)
            ]
            writes = [ops for ops in guarded if ops[0].path not in ("/config/topics",)]
            assert writes
            for ops in writes:
                assert isinstance(ops[0], Check), ops
                assert ops[0].path == "/controller_epoch"
            elections = [
                ops
                for _, ops in nodes.server.log
                if any(isinstance(op, Set) and op.path == "/controller_epoch" for op in ops)
            ]
            assert [[op.path for op in ops] for ops in elections] == [["/controller", "/controller_epoch"]]

    run(scenario)
