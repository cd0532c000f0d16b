"""Registering where servers lag: the epoch is that of the newest registration, and nobody removes his own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moldau.broker.lifecycle import RegistrationRefused
from moldau.broker.zookeeper import registration
from moldau.broker.zookeeper.registration import MARGIN_MS, register
from moldau.image import Endpoint
from moldau.ports.zookeeper import ConnectionLoss, NodeExists, NoNode, Stat
from moldau.zookeeper.znodes import BrokerZnode, broker_json
from tests.packages.broker.doubles import NodeDouble, zookeeper_config
from tests.packages.doubles import manual_world
from tests.packages.manual_clock import ManualClock

OURS, BEFORE = 77, 76


class Lagging:
    """ZooKeeper behind a server that shows what was: a registration of the session before, until it has caught up."""

    session_id = OURS
    session_timeout_ms = 1

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
    zk: Any = Lagging(old=broker_json(BrokerZnode(1, endpoints)))
    node: Any = NodeDouble(config=zookeeper_config(), endpoints=endpoints)  # Any: as far as registering needs both

    async def scenario() -> int:
        try:
            return await register(node, zk, bytes(16), -1)
        except ConnectionLoss:
            return await register(node, zk, bytes(16), -1)

    assert asyncio.run(scenario()) == 20
    assert zk.deleted == []


class Held(Lagging):
    """ZooKeeper that keeps the session of a dead process for 40 s, as its servers do with each."""

    session_timeout_ms = 40_000

    async def create(self, path: str, data: bytes, *, ephemeral: bool) -> None:
        raise NodeExists(path)


def test_a_dead_process_s_session_is_waited_for_as_long_as_servers_keep_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not as long as was asked for: where servers' shortest time-out is longer, the start was refused too soon."""
    clock = ManualClock()

    async def refused(*about: Any) -> bool:
        return True

    async def pass_by(tasks: Any, ms: int) -> None:
        clock.now_ms += ms

    monkeypatch.setattr(registration, "is_refused", refused)
    monkeypatch.setattr(registration, "sleep", pass_by)
    theirs = (Endpoint("PLAINTEXT", "h", 9092, 0),)
    node: Any = NodeDouble(  # Any: as above
        config=zookeeper_config(zookeeper_session_timeout_ms="1"),
        endpoints=(Endpoint("PLAINTEXT", "other", 9092, 0),),
        world=manual_world(clock=clock),
    )
    zk: Any = Held(old=broker_json(BrokerZnode(1, theirs)))  # Any: as above
    with pytest.raises(RegistrationRefused, match="another live broker is registered"):
        asyncio.run(register(node, zk, bytes(16), -1))
    assert clock.now_ms == Held.session_timeout_ms + MARGIN_MS
