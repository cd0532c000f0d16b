"""Fast death: what the controller's seat makes of a closed connection. Real loop and timers, a scripted front door."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.broker import office
from moldau.broker.config import NodeConfig
from moldau.broker.office import ControllerOffice
from moldau.controller.asks import RebalanceLeaders
from moldau.controller.replies import Moved
from moldau.image import Image
from moldau.runtime.world import real_world
from moldau.wire.records import metadata as records
from tests.rooms.broker.data_cluster import run, until


class Seat:
    """An active controller with broker 7 registered and unfenced; ``answers`` are what knocks at its door find."""

    def __init__(self, knock: Callable[[], bool]) -> None:
        self.failures: list[BaseException] = []
        self.proposed: list[Any] = []
        self.knocks = 0
        self.knock = knock
        self.world = real_world(asyncio.get_running_loop(), lambda task, error: self.failures.append(error))
        self.config = NodeConfig(
            {
                "node.id": "1", "process.roles": "controller", "listeners": "CONTROLLER://127.0.0.1:0",
                "controller.listener.names": "CONTROLLER", "controller.quorum.voters": "1@localhost:1",
            }
        )  # fmt: skip
        self.cluster_id = "mini"
        image = Image()
        door = records.RegisterBrokerRecord.BrokerEndpoint(name="PLAINTEXT", host="127.0.0.1", port=9092)
        image.apply(records.RegisterBrokerRecord(broker_id=7, broker_epoch=1, end_points=[door], fenced=False), 1)
        self.metadata = SimpleNamespace(image=image)
        self.plane = SimpleNamespace(next_offset=2, propose=self._propose)
        self.peers = SimpleNamespace(refuses=self._refuses)
        self.office = ControllerOffice(self)
        self.office.start()

    def _propose(self, batch: Sequence[Any], epoch: int) -> int:
        self.proposed += batch
        self.plane.next_offset += len(batch)
        return int(self.plane.next_offset) - 1

    async def _refuses(self, host: str, port: int) -> bool:
        self.knocks += 1
        return self.knock()

    @property
    def fenced(self) -> list[int]:
        changes = [r for r in self.proposed if isinstance(r, records.BrokerRegistrationChangeRecord)]
        return [change.broker_id for change in changes if change.fenced == 1]

    def settle(self) -> None:
        """Take office and forget that it knocked at every door then."""
        self.office.stands_for("first connection", 7)
        self.office.became_active(1)


def test_a_door_that_still_opens_while_its_process_dies_is_knocked_at_again() -> None:
    """A killed process closes its connections before its listeners: the first knock may come between the two."""

    async def scenario() -> None:
        seat = Seat(lambda: seat.knocks > 2)
        seat.settle()
        seat.office.connection_closed("first connection")
        await until(lambda: seat.fenced == [7], "the broker is fenced")
        seat.office.stop()
        assert not seat.failures

    run(scenario)


def test_a_broker_that_connects_again_is_not_knocked_at_any_more() -> None:
    async def scenario() -> None:
        def knock() -> bool:
            seat.office.stands_for("second connection", 7)
            return False

        seat = Seat(knock)
        seat.settle()
        seat.office.connection_closed("first connection")
        await until(lambda: seat.knocks == 1 and not seat.office.is_probing, "the probe is over")
        seat.office.stop()
        assert (seat.fenced, seat.knocks, seat.failures) == ([], 1, [])

    run(scenario)


def test_a_door_that_stays_open_is_left_to_the_session_timeout() -> None:
    async def scenario() -> None:
        seat = Seat(lambda: False)
        seat.settle()
        seat.office.connection_closed("first connection")
        await until(lambda: not seat.office.is_probing, "the probe is over")
        seat.office.stop()
        assert (seat.fenced, seat.failures) == ([], [])
        assert seat.knocks > 2

    run(scenario)


def test_leads_are_given_back_pass_after_pass_until_none_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass is bounded, and the next one is not minutes away."""
    passes: list[Any] = []

    async def ask(self: ControllerOffice, ask: Any) -> Any:
        passes.append(ask)
        return Moved(count=1000, more=len(passes) < 4)

    async def scenario() -> None:
        seat = Seat(lambda: False)
        seat.settle()
        await until(lambda: len(passes) == 4, "four passes")
        await asyncio.sleep(0.05)
        assert passes == [RebalanceLeaders()] * 4
        seat.office.stop()
        assert not seat.failures

    monkeypatch.setattr(office, "FIRST_REBALANCE_MS", 1)
    monkeypatch.setattr(ControllerOffice, "ask", ask)
    run(scenario)
