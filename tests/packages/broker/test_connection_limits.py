"""Limits of connections: who is served, who is held until there is room, who is refused; and limits that change."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from moldau.broker.network.connection_quotas import KEYS, ConnectionQuotas
from moldau.model.broker_config import BROKER_KEYS
from moldau.wire.frames import request_frame
from moldau.wire.messages.k18_api_versions import ApiVersionsRequest
from tests.packages.broker.data_cluster import DataCluster, run
from tests.packages.doubles import ManualTasks, manual_world
from tests.packages.manual_clock import ManualClock


class Client:
    def __init__(self, ip: str = "10.0.0.1") -> None:
        self.peer: tuple[str | int, ...] | None = (ip, 1)
        self.state = "served"

    def hold(self) -> None:
        self.state = "held"

    def release(self) -> None:
        self.state = "served"

    def refuse(self) -> None:
        self.state = "refused"

    def turn_away(self, wait_ms: int) -> None:
        self.state = "turned away" if 0 < wait_ms <= 1000 else "held for too long"


class Scene:
    """A listener's limits and a clock that the test moves."""

    def __init__(self, **given: Any) -> None:
        self.tasks = ManualTasks(ManualClock(1000))
        self.values = {key: BROKER_KEYS[key].default for key in KEYS}
        self.values |= {key.replace("_", "."): value for key, value in given.items()}
        world = manual_world(clock=self.tasks.clock, tasks=self.tasks)
        self.limits = ConnectionQuotas(world, self.values.__getitem__)

    def come(self, *ips: str) -> list[Client]:
        clients = [Client(ip) for ip in ips]
        for client in clients:
            self.limits.came(client)
        return clients

    def change(self, **values: Any) -> None:
        self.values |= {key.replace("_", "."): value for key, value in values.items()}
        self.limits.reconfigure()

    def pass_time(self, ms: int) -> None:
        self.tasks.advance(ms)


def states(clients: list[Client]) -> list[str]:
    return [client.state for client in clients]


def test_without_limits_everybody_is_served() -> None:
    assert set(states(Scene().come(*["10.0.0.1"] * 1000))) == {"served"}


def test_one_too_many_is_held_until_another_leaves_in_the_order_they_came() -> None:
    scene = Scene(max_connections=2)
    clients = scene.come("a", "b", "c", "d")
    assert states(clients) == ["served", "served", "held", "held"]
    scene.limits.left(clients[0])
    assert states(clients)[2:] == ["served", "held"]
    scene.limits.left(clients[3])
    scene.limits.left(clients[1])
    assert states(scene.come("e")) == ["served"]


def test_a_raised_limit_lets_in_who_waits() -> None:
    scene = Scene(max_connections=0)
    clients = scene.come("a", "b", "c")
    assert set(states(clients)) == {"held"}
    scene.change(max_connections=2)
    assert states(clients) == ["served", "served", "held"]


def test_one_address_has_its_own_limit_and_may_have_another_one() -> None:
    scene = Scene(max_connections_per_ip=1, max_connections_per_ip_overrides="b:2, c:0, d:many")
    clients = scene.come("a", "a", "b", "b", "b", "c", "d")
    assert states(clients) == ["served", "refused", "served", "served", "refused", "refused", "served"]
    scene.limits.left(clients[1])
    scene.limits.left(clients[0])
    assert states(scene.come("a", "a")) == ["served", "refused"], "the refused one was never counted"


def test_connections_are_made_at_a_rate() -> None:
    scene = Scene(max_connection_creation_rate=2)
    scene.pass_time(1000)
    clients = scene.come("a", "b", "c", "d")
    assert states(clients) == ["served", "served", "held", "held"]
    scene.pass_time(500)
    assert states(clients) == ["served", "served", "served", "held"]
    scene.pass_time(500)
    assert set(states(clients)) == {"served"}
    assert not scene.tasks.timers


def test_a_held_client_is_answered_when_another_hangs_up(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            broker = cluster.brokers[0]
            broker.config.adopt({"max.connections": "1"})
            broker.socket_listener.limits = ConnectionQuotas(broker.world, broker.config.__getitem__)
            first = await asyncio.open_connection("127.0.0.1", broker.port)
            second = await asyncio.open_connection("127.0.0.1", broker.port)
            for _, writer in (first, second):
                writer.writelines(request_frame(ApiVersionsRequest(), 0, 1, "test"))
            assert await first[0].readexactly(4)
            waiting = asyncio.ensure_future(second[0].readexactly(4))
            done, _ = await asyncio.wait([waiting], timeout=0.1)
            assert not done
            first[1].close()
            assert await asyncio.wait_for(waiting, 60)
            second[1].close()

    run(work)
