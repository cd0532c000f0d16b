"""How long a controller is waited for, by a clock of the test's own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moldau.client.client import CONTROLLER, Client, ClientOptions, NoController
from moldau.client.lines import ConnectionOptions
from moldau.model import Code
from moldau.wire.messages.k46_list_partition_reassignments import ListPartitionReassignmentsResponse


class Lines:
    """A broker that says after a second each time that the controller did not answer it in time, until one is there."""

    options = ConnectionOptions()

    def __init__(self, elected_at_ms: int) -> None:
        self.clock_ms, self._elected_at_ms = 0, elected_at_ms

    def now_ms(self) -> int:
        return self.clock_ms

    def below(self, _: int) -> int:
        return 0

    async def pause(self, ms: int) -> None:
        self.clock_ms += ms

    def version_for(self, _: object, highest: int | None) -> int:
        return 0

    async def ask(self, *_: object, **__: object) -> ListPartitionReassignmentsResponse:
        self.clock_ms += 1_000
        code = Code.NONE if self.clock_ms > self._elected_at_ms else Code.REQUEST_TIMED_OUT
        return ListPartitionReassignmentsResponse(error_code=code)


class Asking(Client):
    async def _line_for(self, to: object, limit_ms: int | None) -> Any:  # a double of a line
        assert to is CONTROLLER
        return self.lines

    async def refresh(self, topics: object) -> dict[str, Code]:
        return {}


def client(lines: Any) -> Client:
    return Asking(lines, "127.0.0.1:1", ClientOptions(controller_ms=10_000))


class Knowing(Lines):
    """A broker that knows why there is no controller."""

    async def ask(self, *_: object, **__: object) -> ListPartitionReassignmentsResponse:
        self.clock_ms += 1_000
        return ListPartitionReassignmentsResponse(error_code=Code.NOT_CONTROLLER, error_message="delete /controller")


def test_what_a_broker_says_of_a_controller_that_is_not_there_is_told() -> None:
    with pytest.raises(NoController, match=r"no controller is active \(delete /controller\)"):
        asyncio.run(client(Knowing(0)).demand_controller())


def test_a_controller_is_waited_for_as_long_as_is_said() -> None:
    """A broker that had heard of none for a few seconds was believed at once, and "within 10 s" was said."""
    lines = Lines(elected_at_ms=1_000_000)
    with pytest.raises(NoController, match="none answers within 10 s"):
        asyncio.run(client(lines).demand_controller())
    assert 9_000 <= lines.clock_ms <= 11_000


def test_a_controller_that_is_elected_meanwhile_is_enough() -> None:
    lines = Lines(elected_at_ms=7_000)
    asyncio.run(client(lines).demand_controller())
    assert 7_000 < lines.clock_ms < 9_500
