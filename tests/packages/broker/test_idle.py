"""Idle connections: who has said nothing for too long is closed, who waits for an answer is not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from moldau.broker.config.node_config import load
from moldau.broker.network.idle import LOOKS, IdleSweep
from moldau.model.config_key import ConfigError
from moldau.wire.frames import request_frame
from moldau.wire.messages.k18_api_versions import ApiVersionsRequest
from tests.packages.broker.data_cluster import DataCluster, batch, run, until
from tests.packages.doubles import ManualTasks, manual_world
from tests.packages.manual_clock import ManualClock


class Client:
    def __init__(self) -> None:
        self.heard = True
        self.waits = False
        self.idle_ms: int | None = None

    def expire(self, idle_ms: int) -> None:
        self.idle_ms = idle_ms


class Scene:
    """A listener with some connections, and a clock that the test moves."""

    def __init__(self, count: int, max_idle_ms: int) -> None:
        self.tasks = ManualTasks(ManualClock(5))
        self.clients = [Client() for _ in range(count)]
        world = manual_world(clock=self.tasks.clock, tasks=self.tasks)
        self.sweep = IdleSweep(world, self.clients, max_idle_ms)

    def until(self, now_ms: int) -> None:
        while (timer := self.tasks.first) is not None and timer.due_ms <= now_ms:
            self.tasks.advance(int(timer.due_ms) - self.tasks.clock.now_ms)
            assert len(self.tasks.timers) <= 1, "one timer for all connections"
            self.clients[:] = [client for client in self.clients if client.idle_ms is None]
        self.tasks.clock.now_ms = now_ms


def test_a_silent_connection_goes_after_the_allowed_while_and_a_speaking_one_stays() -> None:
    scene = Scene(3, max_idle_ms=1000)
    silent, speaking, waiting = scene.clients
    waiting.waits = True
    for now_ms in range(0, 1005, 5):
        speaking.heard = True
        scene.until(5 + now_ms)
        assert silent.idle_ms is None, f"closed {now_ms} ms after its last word"
    for now_ms in range(1010, 1210, 5):
        speaking.heard = True
        scene.until(5 + now_ms)
    assert silent.idle_ms is not None
    assert scene.clients == [speaking, waiting]


def test_the_while_of_who_waited_begins_with_the_answer() -> None:
    scene = Scene(1, max_idle_ms=1000)
    (client,) = scene.clients
    client.waits = True
    scene.until(50_000)
    client.waits = False
    scene.until(50_900)
    assert client.idle_ms is None
    scene.until(50_000 + 1000 + 2 * 1000 // LOOKS)
    assert client.idle_ms is not None


def test_a_word_between_two_looks_counts() -> None:
    scene = Scene(1, max_idle_ms=1000)
    (client,) = scene.clients
    for now_ms in range(990, 20_000, 990):
        scene.until(now_ms)
        client.heard = True
    assert client.idle_ms is None


def test_below_nothing_means_never_and_a_stopped_sweep_looks_no_more() -> None:
    assert not Scene(1, max_idle_ms=-1).tasks.timers
    scene = Scene(1, max_idle_ms=1000)
    scene.sweep.stop()
    scene.until(10_000)
    assert scene.clients[0].idle_ms is None


def test_a_while_shorter_than_a_failed_login_is_kept_waiting_stops_the_start() -> None:
    text = "node.id=1\nprocess.roles=broker,controller\ncontroller.quorum.voters=1@localhost:9093\n"
    text += "listeners=PLAINTEXT://:9092,CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER\n"
    for allowed in (-1, 101):
        assert load(f"{text}connections.max.idle.ms={allowed}\n")["connections.max.idle.ms"] == allowed
    for refused in (0, 100):
        with pytest.raises(ConfigError, match=r"connections\.max\.idle\.ms: more than connection\.failed"):
            load(f"{text}connections.max.idle.ms={refused}\n")


def test_an_idle_client_is_hung_up_on_and_a_parked_one_is_answered(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0)
            socket_listener = cluster.brokers[0].socket_listener
            idle, writer = await asyncio.open_connection("127.0.0.1", cluster.brokers[0].port)
            writer.writelines(request_frame(ApiVersionsRequest(), 0, 1, "test"))
            assert await idle.readexactly(4)
            parked = asyncio.ensure_future(cluster.fetch(0, 0, max_wait_ms=60_000, min_bytes=1))
            await until(
                lambda: any(connection.waits for connection in socket_listener.connections), "the fetch is parked"
            )
            socket_listener.idle = IdleSweep(cluster.world, socket_listener.connections, 50)
            await asyncio.wait_for(idle.read(), 60)
            assert idle.at_eof()
            assert not parked.done(), "it has waited longer than the other was silent"
            socket_listener.idle.stop()  # a loop that stands still has its own client idle, too
            await cluster.produce(0, batch(), over=await cluster.connect_another(0))
            assert (await asyncio.wait_for(parked, 60)).error_code == 0
            writer.close()

    run(work)
