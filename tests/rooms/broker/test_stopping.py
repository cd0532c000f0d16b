"""How a broker stops, and starts: nothing is acknowledged that closing would miss; voting does not wait for data."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.config import NodeConfig
from moldau.broker.formatting import format_storage
from moldau.broker.lifecycle import Stage
from moldau.broker.node import Node
from moldau.client.connection import Connection, connect
from moldau.runtime.disk import RealDisk
from moldau.runtime.world import RealRandom, real_world
from moldau.storage import LogDirs
from moldau.storage.names import CLEAN_SHUTDOWN
from moldau.terms import Code
from moldau.wire.messages.k00_produce import ProduceRequest
from moldau.wire.messages.k19_create_topics import CreateTopicsRequest
from tests.rooms.broker.data_cluster import TOPIC, DataCluster, batch, run, until


def test_a_broker_that_stops_acknowledges_nothing_that_closing_its_logs_misses(tmp_path: Path) -> None:
    """It has no successor: until it is gone, clients know no other leader."""

    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0)
            broker = cluster.brokers[0]
            assert (await cluster.produce(0, batch())).error_code == Code.NONE
            held = broker.replica()
            broker.replicas.stop()
            end = held.log.log_end_offset
            for answer in (await cluster.produce(0, batch()), await cluster.produce(0, batch(), acks=-1)):
                assert answer.error_code == Code.NOT_LEADER_OR_FOLLOWER
            assert broker.replicas.append(held, batch(), 1).code is Code.NOT_LEADER_OR_FOLLOWER, "who found it before"
            assert (await cluster.fetch(0, 0)).error_code == Code.NOT_LEADER_OR_FOLLOWER
            cluster.create(0, topic="later", id=bytes([8] * 16))
            assert len(broker.replicas.by_key) == 1, "nor begins another log"
            await asyncio.to_thread(broker.replicas.logs.close, 5)
            assert held.log.log_end_offset == held.log.recovery_point == end
            assert (tmp_path / "broker-0" / CLEAN_SHUTDOWN).exists()

    run(work)


class Alone:
    """One combined node in this process, on real sockets and files."""

    def __init__(self, folder: Path, **settings: str) -> None:
        port = free_port()
        self.config = NodeConfig(
            {
                "node.id": "1", "process.roles": "broker,controller", "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": f"1@127.0.0.1:{port}", "log.dirs": str(folder / "data"),
                "listeners": f"PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{port}",
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )  # fmt: skip
        self.failures: list[tuple[str, BaseException]] = []
        self.ended: list[int] = []
        disk = RealDisk()
        if not (folder / "data").exists():
            format_storage(self.config, "bW9sZGF1LW5vZGUtdGVzdA", disk, RealRandom())
        loop = asyncio.get_running_loop()
        self.world = real_world(loop, lambda task, error: self.failures.append((task, error)))
        self.node = Node(self.config, self.world, self.ended.append)

    async def stop(self) -> None:
        self.node.stop_soon()
        await until(lambda: self.ended, "it has stopped")
        assert (self.ended, self.failures) == ([0], [])

    async def line(self) -> Connection:
        return await connect(self.world, "127.0.0.1", self.node.bound["PLAINTEXT"].port)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def test_a_controller_votes_and_leads_while_the_logs_of_its_broker_are_recovered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick, recovered = LogDirs.load_in_turns, False

    def slow(self: LogDirs, *args: Any) -> Generator[None, None, None]:
        while not recovered:
            yield
        yield from quick(self, *args)

    async def work() -> None:
        nonlocal recovered
        monkeypatch.setattr(LogDirs, "load_in_turns", slow)
        alone = Alone(tmp_path)
        node = alone.node
        starting = asyncio.ensure_future(node.start())
        await until(lambda: node.office is not None and node.office.active, "it is the active controller")
        assert not starting.done()
        assert node.lifecycle is not None
        assert node.lifecycle.stage is Stage.STARTING, "a broker registers with all its logs"
        assert not node.metadata.image.brokers
        recovered = True
        await until(starting.done, "it serves")
        await alone.stop()

    run(work)


def test_a_node_that_is_told_to_stop_while_it_recovers_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick, began, told = LogDirs.load_in_turns, False, False

    def slow(self: LogDirs, *args: Any) -> Generator[None, None, None]:
        nonlocal began
        began = True
        while not told:
            yield
        yield from quick(self, *args)

    async def work() -> None:
        nonlocal told
        monkeypatch.setattr(LogDirs, "load_in_turns", slow)
        alone = Alone(tmp_path)
        starting = asyncio.ensure_future(alone.node.start())
        await until(lambda: began, "it recovers")
        alone.node.stop_soon()
        told = True
        await alone.stop()
        await until(starting.done, "its start is over")

    run(work)


def test_what_a_stopping_node_acknowledged_is_flushed_and_its_marker_tells_the_truth(tmp_path: Path) -> None:
    """Nobody can take over, and clients write on until their connections end."""

    async def work() -> None:
        alone = Alone(tmp_path, controlled_shutdown_enable="false")
        await alone.node.start()
        line = await alone.line()
        topic = CreateTopicsRequest.CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
        await line.ask(CreateTopicsRequest(topics=[topic]))
        acknowledged = 0

        async def write() -> None:
            nonlocal acknowledged
            part = ProduceRequest.PartitionProduceData(index=0, records=batch())
            topics = [ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[part])]
            while True:
                answer = await line.ask(ProduceRequest(acks=1, timeout_ms=5000, topic_data=topics), version=9)
                (shown,) = answer.responses[0].partition_responses
                if shown.error_code == Code.NONE:
                    acknowledged = shown.base_offset + 1

        async def until_it_hangs_up() -> None:
            with suppress(OSError):
                await write()

        writing = asyncio.ensure_future(until_it_hangs_up())
        await until(lambda: acknowledged > 10, "it writes")
        await alone.stop()
        await writing
        assert alone.node.data is not None
        (log,) = (one for one in alone.node.data.log_dirs.logs.values() if one.partition.topic == TOPIC)
        assert log.recovery_point == log.log_end_offset == acknowledged
        assert (tmp_path / "data" / CLEAN_SHUTDOWN).exists()

    run(work)
