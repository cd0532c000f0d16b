"""How a node starts and stops, and what it survives: nothing is acknowledged that closing its logs would miss."""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.config.node_config import NodeConfig
from moldau.broker.config.storage_format import format_storage
from moldau.broker.data import DataSide
from moldau.broker.lifecycle import Stage
from moldau.broker.node import Node
from moldau.client.connection import Connection, connect
from moldau.cluster.nodes import free_ports
from moldau.model import Code
from moldau.runtime.disk import RealDisk
from moldau.runtime.world import RealRandom, real_world
from moldau.storage import Log, LogDirs
from moldau.storage.loading import DirLoad
from moldau.storage.names import CLEAN_SHUTDOWN
from moldau.wire.messages.k00_produce import ProduceRequest
from moldau.wire.messages.k19_create_topics import CreateTopicsRequest
from tests.packages.broker.data_cluster import DROPS_SOON, TOPIC, TOPIC_ID, DataCluster, batch, run, until


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
        (port,) = free_ports(1)
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


def test_a_controller_votes_and_leads_while_the_logs_of_its_broker_are_recovered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = DataSide._load_directory

    async def work() -> None:
        recovered = asyncio.Event()

        async def slow(self: DataSide, loading: DirLoad) -> None:
            await recovered.wait()
            await quick(self, loading)

        monkeypatch.setattr(DataSide, "_load_directory", slow)
        alone = Alone(tmp_path)
        node = alone.node
        starting = asyncio.ensure_future(node.start())
        await until(lambda: node.is_active_controller, "it is the active controller")
        assert not starting.done()
        assert node.lifecycle is not None
        assert node.lifecycle.stage is Stage.STARTING, "a broker registers with all its logs"
        assert not node.metadata.image.brokers
        recovered.set()
        await until(starting.done, "it serves")
        await alone.stop()

    run(work)


def test_a_node_that_is_told_to_stop_while_it_recovers_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = DataSide._load_directory

    async def work() -> None:
        began, told = asyncio.Event(), asyncio.Event()

        async def slow(self: DataSide, loading: DirLoad) -> None:
            began.set()
            await told.wait()
            await quick(self, loading)

        monkeypatch.setattr(DataSide, "_load_directory", slow)
        alone = Alone(tmp_path)
        starting = asyncio.ensure_future(alone.node.start())
        await until(began.is_set, "it recovers")
        alone.node.stop_soon()
        told.set()
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


# ---- what is met by what runs by itself


def test_a_pass_that_meets_what_nobody_expected_is_named_counted_and_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looked = 0

    def look(self: LogDirs, now_ms: int, at_once: int) -> int:
        nonlocal looked
        looked += 1
        raise struct.error("int too large to convert")

    async def work() -> None:
        monkeypatch.setattr(LogDirs, "retention_in_slices", look)
        alone = Alone(tmp_path, log_retention_check_interval_ms="1", http_listener="127.0.0.1:0")
        await alone.node.start()
        await until(lambda: looked > 2, "it looks again")
        assert alone.node.survivals["retention"] > 1
        assert alone.node.pages is not None
        assert "moldau_unexpected_errors_total" in (await alone.node.pages.answer("GET", "/metrics"))[2]
        await alone.stop()

    run(work)
    assert "retention failed and goes on" in caplog.text
    assert "Traceback" in caplog.text


def test_a_broken_assertion_of_ours_in_a_pass_or_a_callback_stops_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: LogDirs, now_ms: int, at_once: int) -> int:
        raise AssertionError("ours")

    async def work() -> None:
        monkeypatch.setattr(LogDirs, "retention_in_slices", broken)
        alone = Alone(tmp_path, log_retention_check_interval_ms="1")
        await alone.node.start()
        await until(lambda: alone.failures, "the task ends")
        assert alone.failures[0][0] == "retention"
        loop = asyncio.get_running_loop()
        alone.node.callback_failed(loop, {"message": "", "exception": ValueError("of others")})
        assert (alone.ended, alone.node.survivals["callback"]) == ([], 1)
        alone.node.callback_failed(loop, {"message": "", "exception": AssertionError("ours")})
        assert alone.ended == [1]
        await alone.node.stop()

    run(work)


def test_a_page_that_cannot_be_made_costs_the_visit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        alone = Alone(tmp_path, http_listener="127.0.0.1:0")
        await alone.node.start()
        pages = alone.node.pages
        assert pages is not None

        async def answer(method: str, path: str) -> None:
            raise KeyError("gone meanwhile")

        monkeypatch.setattr(pages, "answer", answer)
        reader, writer = await asyncio.open_connection("127.0.0.1", pages.port)
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 500 ")
        writer.close()
        assert alone.node.survivals["page"] == 1
        await alone.stop()

    run(work)


def test_an_answer_of_a_leader_that_nobody_understands_costs_its_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 2, **DROPS_SOON) as cluster:
            cluster.create(0, 1, partitions=2)
            good = Log.append_follower

            def append(self: Log, *args: Any) -> Any:
                if self.partition.partition == 0:
                    raise struct.error("nobody expected it")
                return good(self, *args)

            monkeypatch.setattr(Log, "append_follower", append)
            assert (await cluster.produce(0, batch(), acks=1, number=0)).error_code == Code.NONE
            assert (await cluster.produce(0, batch(), number=1)).error_code == Code.NONE, "the other one goes on"
            await until(lambda: cluster.image.at((TOPIC_ID, 0)).isr == (0,), "the follower leaves the ISR")

    run(work)
