"""What simulated seeds in ZooKeeper mode once found, each in its smallest form."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from moldau.broker.lifecycle import Stage
from moldau.broker.metadata.state_change_log import StateChangeLog
from moldau.broker.zookeeper import batch
from moldau.broker.zookeeper.channels import Channels
from moldau.broker.zookeeper.controller_requests import ControllerRequestHandler
from moldau.broker.zookeeper.rules import Rules
from moldau.broker.zookeeper.settings import ZnodeSettings
from moldau.image import Broker, Delta, Endpoint, Image
from moldau.ports.zookeeper import ConnectionLoss, Stat
from moldau.wire.records.metadata import ConfigRecord
from moldau.wire.schema import Message
from tests.packages.broker.data_cluster import run, until
from tests.packages.broker.doubles import NodeDouble, zookeeper_config
from tests.packages.broker.zookeeper_nodes import Nodes

T = TypeVar("T")


class Lagging:
    """A server that shows broker 2's earlier registration until it has caught up; ``away``: it cannot."""

    def __init__(self, *, away: bool = False) -> None:
        self.away = away
        self.czxid = 10

    async def sync(self) -> None:
        if self.away:
            raise ConnectionLoss("/")
        self.czxid = 20

    async def exists(self, path: str) -> Stat:
        assert path == "/brokers/ids/2"
        return Stat(self.czxid, self.czxid, 0, 7)


@dataclass(frozen=True)
class Connected:
    """A plane whose session answers at once."""

    zk: Lagging
    claimed_epoch: int | None = None

    async def retry_until_connected(self, call: Callable[[], Awaitable[T]]) -> T:
        return await call()


@dataclass(frozen=True)
class Registered:
    """A broker's registration."""

    epoch: int


@dataclass(kw_only=True)
class BrokerNode(NodeDouble):
    """A broker that is registered."""

    lifecycle: Registered = Registered(5)


def told(zk: Lagging) -> tuple[dict[int, int], bool]:
    """Epochs as broker 1 looks them up, and whether it knows that it has to look again."""
    node: Any = BrokerNode(config=zookeeper_config())  # Any: a node and a plane, as far as a look-up needs them
    plane: Any = Connected(zk)
    handler = ControllerRequestHandler(node, plane)
    return asyncio.run(handler._epochs([1, 2])), handler._blind


@pytest.mark.parametrize(("away", "epoch"), [(False, 20), (True, 10)])
def test_the_epoch_of_a_broker_is_not_taken_from_a_server_that_lags(away: bool, epoch: int) -> None:
    """Seed 29: with the epoch of an earlier life the broker joined no ISR any more (KIP-903)."""
    assert told(Lagging(away=away)) == ({1: 5, 2: epoch}, away)


def test_settings_of_a_new_topic_are_not_asked_of_a_server_that_lags() -> None:
    """Seed 700031: it had not made their znode yet, and no note tells of settings that a topic is made with."""

    class WithSettings(Lagging):
        async def get_many(self, wanted: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
            assert wanted == ["/config/topics/t"]
            stands = (b'{"version":1,"config":{"retention.ms":"7"}}', Stat(20, 20, 0, 0))
            return [stands if self.czxid == 20 else None]

    node: Any = NodeDouble(config=zookeeper_config())  # Any: a node and a plane, as far as reading needs them
    plane: Any = Connected(WithSettings())
    settings = ZnodeSettings(node, plane)
    (record,) = asyncio.run(settings.of_topics(["t"]))
    assert isinstance(record, ConfigRecord)
    assert (record.resource_name, record.name, record.value) == ("t", "retention.ms", "7")


class UnwrittenLog(StateChangeLog):
    """A state-change log that nobody keeps."""

    is_traced = False

    def __init__(self) -> None: ...

    def say(self, *about: object) -> None: ...

    def stepped(self, *about: object) -> None: ...


def registered(epoch: int) -> Broker:
    """Broker 1 under a registration."""
    return Broker(id=1, epoch=epoch, incarnation_id=bytes(16), endpoints=(Endpoint("IN", "h", 1),), fenced=False)


class OpenChannel:
    """A channel that takes what it is to send; ``closed`` holds the epoch of each that was closed."""

    def __init__(self, broker: Broker, closed: list[str]) -> None:
        self.broker = broker
        self._closed = closed

    def enqueue(self, messages: Sequence[Message], offset: int) -> None: ...

    def close(self) -> None:
        self._closed.append(str(self.broker.epoch))


@pytest.mark.parametrize("alive", [[], [registered(8)]])
def test_who_waits_for_a_broker_s_word_hears_that_it_is_gone(alive: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 800000: a tool's wish to delete stayed, as its last StopReplica was owed by a broker that died (Z7)."""
    image = Image()
    channels = Channels(NodeDouble(config=zookeeper_config(), state_change_log=UnwrittenLog()), Rules())
    closed: list[str] = []
    monkeypatch.setattr(batch, "reachable", lambda image, sender: alive)
    monkeypatch.setattr(batch, "requests", lambda image, delta, sender, deleting: {})
    monkeypatch.setattr(batch, "full", lambda image, broker, sender, deleted: [])
    monkeypatch.setattr(
        "moldau.broker.zookeeper.channels.Channel", lambda *about, **more: OpenChannel(registered(8), closed)
    )
    channels._sender = batch.SendingController(controller_id=1, controller_epoch=1, listener="IN")
    channels._open = {1: OpenChannel(registered(7), closed)}  # type: ignore[dict-item]
    channels.on_deletion_answered.append(lambda: closed.append("told"))
    channels.send_changes(image, Delta())
    assert closed == ["7", "told"]
    channels.send_changes(image, Delta())
    assert closed == ["7", "told"]


def test_who_is_controller_no_more_serves_by_nothing_that_it_read_there(tmp_path: Path) -> None:
    """Seed 37: elected and deposed before it had decided anything, it took what it had read for what it was told."""

    async def scenario() -> None:
        async with Nodes(tmp_path, 1) as nodes:
            node = nodes.controller
            assert node.lifecycle is not None
            plane: Any = node.plane
            assert plane.controller_requests.complete
            plane.deposed("of a test")
            assert not plane.controller_requests.complete
            node.lifecycle.stage = Stage.FENCED  # as one is that has just registered
            node.lifecycle.metadata_changed()
            assert node.lifecycle.stage is Stage.FENCED
            await until(lambda: nodes.controllers == [2], "it is elected again")
            await until(lambda: node.lifecycle.stage is Stage.RUNNING, "and serves")  # type: ignore[union-attr]

    run(scenario)


def test_a_broker_that_begins_to_serve_knows_who_is_controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It named itself to clients until it had read its settings and looked at /controller."""
    waits = asyncio.Event()
    real = ZnodeSettings.open

    async def late(settings: ZnodeSettings) -> None:
        await waits.wait()
        await real(settings)

    async def scenario() -> None:
        async with Nodes(tmp_path, 2) as nodes:
            monkeypatch.setattr(ZnodeSettings, "open", late)
            node = await nodes.boot(3)
            await until(lambda: node.lifecycle.stage is Stage.RUNNING, "it is told to serve")
            try:
                assert node.broker_services().controller_shown([1, 2, 3]) == nodes.controller.config.node_id
            finally:
                waits.set()

    run(scenario)
