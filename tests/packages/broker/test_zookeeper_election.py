"""Which controller epoch a candidate stands for: the next one, unless brokers know epochs that no znode tells of."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from moldau.broker.zookeeper.election import ControllerElection
from moldau.ports.zookeeper import Delete
from tests.packages.broker.data_cluster import run
from tests.packages.broker.doubles import NodeDouble, zookeeper_config
from tests.packages.broker.zookeeper_server import Server


@dataclass(frozen=True)
class Registered:
    """A broker's registration, as far as a candidate's znode tells of it."""

    incarnation_id: bytes


@dataclass(kw_only=True)
class Candidate(NodeDouble):
    """A node that stands for controller."""

    lifecycle: Registered


def candidates(count: int, scenario: Callable[..., Awaitable[None]]) -> None:
    """Run a scenario with a server and candidates, each in a session of its own."""

    async def with_sessions() -> None:
        before = asyncio.all_tasks()
        server = Server()
        made, sessions = [], []
        for id in range(1, count + 1):
            session = server.open()
            await session.start()
            sessions.append(session)
            node: Any  # Any: of a whole node a candidate needs its settings and its registration
            node = Candidate(config=zookeeper_config(id), lifecycle=Registered(uuid.UUID(int=id).bytes))
            made.append(ControllerElection(node, session, lambda: None))
        await sessions[0].create("/controller_epoch", b"0")
        await scenario(server, *made)
        for session in sessions:
            await session.stop()
        others = asyncio.all_tasks() - before
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    run(with_sessions)


async def stands(election: ControllerElection) -> int:
    won = await election.elect()
    assert won is not None
    return won.epoch


def test_who_was_refused_since_another_was_elected_stands_for_the_next_epoch() -> None:
    async def scenario(server: Server, first: ControllerElection, second: ControllerElection) -> None:
        assert await stands(first) == 1
        server.apply(0, [Delete(path="/controller")])
        assert await stands(second) == 2
        first.refused_by_broker()
        await first.resign()
        await second.resign()
        assert await stands(first) == 3

    candidates(2, scenario)


def test_who_was_refused_and_is_asked_to_stand_again_before_it_has_resigned_stands_for_the_next_epoch() -> None:
    async def scenario(server: Server, first: ControllerElection, second: ControllerElection) -> None:
        assert await stands(first) == 1
        server.apply(0, [Delete(path="/controller")])
        assert await stands(second) == 2
        first.refused_by_broker()
        await second.resign()
        assert await stands(first) == 3
        await first.resign()
        assert await stands(second) == 4

    candidates(2, scenario)


def test_who_was_refused_and_is_the_controller_passes_over_more_and_more_epochs_until_it_is_accepted() -> None:
    async def scenario(server: Server, first: ControllerElection) -> None:
        stood = []
        for _ in range(4):
            stood.append(await stands(first))
            first.refused_by_broker()
            await first.resign()
        assert stood == [1, 3, 6, 11]
        assert await stands(first) == 20
        first.accepted_by_broker()
        await first.resign()
        assert await stands(first) == 21

    candidates(1, scenario)
