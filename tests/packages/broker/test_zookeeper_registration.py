"""Registering where servers lag: the epoch is that of the newest registration, and nobody removes his own."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from moldau.broker.zookeeper.registration import register
from moldau.image import Endpoint
from moldau.ports.zookeeper import ConnectionLoss, NodeExists, NoNode, Stat
from moldau.zookeeper.znodes import BrokerZnode, broker_json

OURS, BEFORE = 77, 76


class Config(dict[str, Any]):
    node_id = 1


class Lagging:
    """ZooKeeper behind a server that shows what was: a registration of the session before, until it has caught up."""

    session_id = OURS

    def __init__(self, *, old: bytes) -> None:
        self.shown: tuple[bytes, Stat] | None = (old, Stat(10, 10, 0, BEFORE))
        self.truth = self.shown
        self.deleted: list[int] = []
        self._asked = 0

    async def create(self, path: str, data: bytes, *, ephemeral: bool) -> None:
        self._asked += 1
        if self._asked == 1:  # the session before is over by now: it is made, and nobody hears of it
            self.truth = (data, Stat(20, 20, 0, OURS))
            raise ConnectionLoss(path)
        raise NodeExists(path)

    async def sync(self) -> None:
        self.shown = self.truth

    async def get(self, path: str) -> tuple[bytes, Stat]:
        if self.shown is None:
            raise NoNode(path)
        return self.shown

    async def delete(self, path: str, version: int) -> None:
        assert self.truth is not None
        self.deleted.append(self.truth[1].czxid)
        raise AssertionError(f"removes what transaction {self.truth[1].czxid} registered")


def test_a_registration_whose_answer_was_lost_is_found_on_a_server_that_lags() -> None:
    """Simulated seed 5 of the scene ``unseen``: it saw its predecessor's, removed its own, and told an old epoch."""
    endpoints = (Endpoint("PLAINTEXT", "h", 9092, 0),)
    zk = Lagging(old=broker_json(BrokerZnode(1, endpoints)))
    node = SimpleNamespace(
        config=Config({"broker.rack": None, "zookeeper.session.timeout.ms": 1}),
        own_endpoints=lambda: endpoints,
        world=SimpleNamespace(clock=SimpleNamespace(wall_ms=lambda: 0, monotonic_ms=lambda: 0)),
    )

    async def scenario() -> int:
        try:
            return await register(node, zk, bytes(16), -1)
        except ConnectionLoss:
            return await register(node, zk, bytes(16), -1)

    assert asyncio.run(scenario()) == 20
    assert zk.deleted == []
