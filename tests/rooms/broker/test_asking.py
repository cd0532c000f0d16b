"""Asking the controller, patiently: while there is none, when another one comes, and until time is up."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.broker.asking import Asking
from moldau.runtime.world import real_world
from moldau.terms import Code
from moldau.wire.messages.k19_create_topics import CreateTopicsRequest
from tests.rooms.broker.data_cluster import run, until

FOREVER_MS = 3_600_000


class Timers:
    """Time that does not go by unless it is told to."""

    def __init__(self) -> None:
        self.set: list[tuple[float, Any]] = []

    def call_later(self, delay_ms: float, call: Any) -> Any:
        entry = (delay_ms, call)
        self.set.append(entry)
        return SimpleNamespace(cancel=lambda: self.set.remove(entry) if entry in self.set else None)


class Seat:
    """A node that asks; ``answers`` are what the controllers say in turn."""

    def __init__(self, *answers: Any) -> None:
        real = real_world(asyncio.get_running_loop(), lambda task, error: None)
        self.timers = Timers()
        self.world = SimpleNamespace(clock=real.clock, tasks=self.timers, rare=None)
        self.plane = SimpleNamespace(leader=(2, 1))
        self.config = SimpleNamespace(node_id=1)
        self.answers = list(answers)
        self.peers = SimpleNamespace(ask=self._answer)
        self.office = None
        self.asking = Asking(self)

    def voters(self) -> dict[int, tuple[str, int]]:
        return {2: ("here", 2), 3: ("here", 3)}

    async def _answer(self, host: str, port: int, message: Any, timeout_ms: int | None) -> Any:
        answer = self.answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    def elects(self, leader: int) -> None:
        self.plane.leader = (leader, self.plane.leader[1] + 1)
        self.asking.controller_changed()


def said(code: Code) -> Any:
    return SimpleNamespace(error_code=code, fields=())


def test_who_waits_for_a_controller_asks_when_there_is_another_one() -> None:
    async def scenario() -> None:
        seat = Seat(ConnectionRefusedError("dead"), said(Code.NOT_CONTROLLER), said(Code.NONE))
        asked = asyncio.ensure_future(seat.asking.patiently(CreateTopicsRequest(), FOREVER_MS))
        await until(lambda: len(seat.timers.set) == 1, "it waits")
        seat.elects(3)
        await until(lambda: len(seat.answers) == 1 and len(seat.timers.set) == 1, "it has asked, and waits again")
        assert seat.timers.set[0][0] == 20, "not for long: the new one is about to take office"
        seat.timers.set[0][1]()
        assert (await asked).error_code is Code.NONE
        assert not seat.timers.set
        seat.elects(2)

    run(scenario)


def test_waiting_without_news_takes_longer_each_time_and_ends() -> None:
    async def scenario() -> None:
        seat = Seat(*[said(Code.NOT_CONTROLLER)] * 4)
        asked = asyncio.ensure_future(seat.asking.patiently(CreateTopicsRequest(), FOREVER_MS))
        waits = []
        for _ in range(3):
            await until(lambda: len(seat.timers.set) == 1, "it waits")
            waits.append(seat.timers.set[0][0])
            seat.timers.set[0][1]()
            left = len(seat.answers)
            await until(lambda left=left: len(seat.answers) < left, "it asks")
        assert waits == [20, 40, 80]
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked

    run(scenario)
