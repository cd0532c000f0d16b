"""One whole node, broker and controller, inside the test's own loop: real files, real listeners, no process.

``frame`` hands bytes to a listener's connection as its transport would. What a handler raised, and whether the node
wanted to end, is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from moldau.broker.config import storage_format as formatting
from moldau.broker.config.node_config import load
from moldau.broker.network.connection import Connection
from moldau.broker.network.listener import SocketListener
from moldau.broker.node import Node
from moldau.cluster.nodes import free_ports
from moldau.model.value import replace
from moldau.ports import Disk
from moldau.runtime.disk import RealDisk
from moldau.runtime.world import RealRandom, real_world
from tests.packages.broker.data_cluster import until

CLUSTER_ID = "bW9sZGF1LW5vZGUtdGVzdA"


class WholeNode:
    """``failures``: (api key, version, error) of each handler that raised; ``ended``: why the node wanted to go."""

    def __init__(self, folder: Path, more: Mapping[str, object], *, standalone: bool, disk: Disk | None = None) -> None:
        self.failures: list[tuple[int, int, BaseException]] = []
        self.ended: list[object] = []
        port, controller_port = free_ports(2)
        where = f"127.0.0.1:{controller_port}"
        settings: dict[str, object] = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": folder / "data",
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 2,
            "group.initial.rebalance.delay.ms": 0,
            **(
                {"controller.quorum.bootstrap.servers": where}
                if standalone
                else {"controller.quorum.voters": f"1@{where}"}
            ),
            **more,
        }
        config = load("".join(f"{key}={value}\n" for key, value in settings.items()))
        random = RealRandom()
        voters = formatting.standalone(config, random) if standalone else None
        formatting.format_storage(config, CLUSTER_ID, RealDisk(), random, voters=voters)
        world = real_world(asyncio.get_running_loop(), self._failed)
        if disk is not None:
            world = replace(world, disk=disk)
        self.node = Node(config, world, self.ended.append)
        self._handler_failed = self.node.handler_failed
        self.node.handler_failed = self._note  # type: ignore[method-assign]

    def _failed(self, task: str, error: BaseException) -> None:
        self.ended.append(f"{task}: {error!r}")
        self.node.failed(task, error)

    def _note(self, header: Any, error: BaseException) -> None:
        self.failures.append((header.api_key, header.api_version, error))

    def listener(self, kind: str) -> SocketListener:
        return next(one for one in self.node.listeners if one.kind == kind)

    def connection(self, kind: str) -> tuple[Connection, Wire]:
        """A new connection to a listener, and what comes back on it."""
        wire = Wire()
        connection = self.listener(kind).accept()
        wire.connection = connection
        connection.connection_made(wire)
        return connection, wire


class Wire:
    """A transport that keeps what is written to it."""

    def __init__(self) -> None:
        self.out = bytearray()
        self.closed = False
        self.connection: Connection | None = None

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else None

    def write(self, data: Any) -> None:
        self.out += bytes(data)

    def writelines(self, parts: Any) -> None:
        for part in parts:
            self.out += part if isinstance(part, bytes | bytearray | memoryview) else bytes(part.recall())

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            assert self.connection is not None
            self.connection.connection_lost(None)

    abort = close


def feed(connection: Connection, data: bytes) -> None:
    """Hand bytes over as a transport does, as far as the connection takes them."""
    at = 0
    while at < len(data) and connection._transport is not None:
        room = connection.get_buffer(-1)
        piece = data[at : at + len(room)]
        room[: len(piece)] = piece
        connection.buffer_updated(len(piece))
        at += len(piece)


@asynccontextmanager
async def whole_node(
    folder: Path, *, standalone: bool = False, disk: Disk | None = None, **more: object
) -> AsyncIterator[WholeNode]:
    """A node that serves, stopped at the end."""
    settings = {key.replace("_", "."): value for key, value in more.items()}
    one = WholeNode(folder, settings, standalone=standalone, disk=disk)
    await one.node.start()
    await until(lambda: one.node.admitted, "a node that serves")
    try:
        yield one
    finally:
        await one.node.stop()
