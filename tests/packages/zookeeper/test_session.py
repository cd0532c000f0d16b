"""No watch of a session is lost: not by the order in which threads hand over, not by a connection that breaks again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from kazoo import exceptions
from kazoo.protocol.states import EventType, WatchedEvent, ZnodeStat

from moldau.ports.zookeeper import Ensemble, Happened, Link, NoAuth, ZooKeeperError
from moldau.zookeeper.link import ZooKeeperClient
from moldau.zookeeper.session import Session

Watcher = Callable[[WatchedEvent], object]


class Server:
    """In place of kazoo's client: answers every read at once, in the caller's own turn, or with ``error``."""

    over = False

    def __init__(self) -> None:
        self.pzxid = 1
        self.error: Exception | None = None
        self.changed_at_once = False
        self.watchers: list[Watcher] = []
        self._results = ZooKeeperClient("127.0.0.1:1", 4_000, lambda _: None).handler

    def mended(self) -> None:
        """Calls are never refused here."""

    def get_children_async(self, path: str, watcher: Watcher | None, include_data: bool) -> Any:
        result = self._results.async_result()
        if self.error is not None:
            result.set_exception(self.error)
            return result
        stat = ZnodeStat(*[0] * 10, self.pzxid)
        result.set(([], stat))
        if watcher is not None:
            self.watchers.append(watcher)
        if self.changed_at_once:
            self.change("/a")
        return result

    def exists_async(self, path: str, watcher: Watcher | None = None) -> Any:
        raise AssertionError("no test here asks for it")

    def change(self, path: str) -> None:
        """A child comes; who waits is told."""
        self.pzxid += 1
        self.watchers, waiting = [], self.watchers
        for watcher in waiting:
            watcher(WatchedEvent(EventType.CHILD, "CONNECTED", path))


def session(server: Server) -> Session:
    one = Session(Ensemble(connect="127.0.0.1:1", session_timeout_ms=4_000, connection_timeout_ms=1_000))
    one._client = server  # type: ignore[assignment]
    one._link = Link.CONNECTED
    return one


def run(scene: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(scene(), 120)

    asyncio.run(bounded())


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_an_event_that_is_handed_over_before_its_reads_answer_is_told() -> None:
    """The answer and the event came before the loop had asked kazoo to be told of the answer (a busy machine)."""

    async def scene() -> None:
        server = Server()
        server.changed_at_once = True
        told: list[tuple[Happened, str]] = []
        await session(server).children("/a", lambda *what: told.append(what))
        await turns()
        assert told == [(Happened.CHILDREN, "/a")]

    run(scene)


def test_a_watch_is_told_once() -> None:
    async def scene() -> None:
        server, told = Server(), []
        await session(server).children("/a", lambda *what: told.append(what))
        server.change("/a")
        server.change("/a")
        await turns()
        assert told == [(Happened.CHILDREN, "/a")]

    run(scene)


@pytest.mark.parametrize("during", [True, False])
def test_a_watch_outlives_a_connection_that_breaks_again_while_it_is_looked_after(during: bool) -> None:
    async def scene() -> None:
        server, told = Server(), []
        one = session(server)
        await one.children("/a", lambda *what: told.append(what))
        server.error, server.watchers = exceptions.ConnectionLoss(), []
        one._told(server, "SUSPENDED")  # type: ignore[arg-type]
        one._told(server, "CONNECTED")  # type: ignore[arg-type]
        await turns()
        assert not told
        server.error = None
        server.changed_at_once = during
        if not during:
            server.change("/a")
        one._told(server, "SUSPENDED")  # type: ignore[arg-type]
        one._told(server, "CONNECTED")  # type: ignore[arg-type]
        await turns()
        assert told == [(Happened.CHILDREN, "/a")]
        assert one._link is Link.CONNECTED

    run(scene)


def test_who_may_not_read_any_more_after_a_break_is_told_so() -> None:
    async def scene() -> None:
        server, told = Server(), []
        one = session(server)
        await one.children("/a", lambda *what: told.append(what))
        server.error = exceptions.NoAuthError()
        one._told(server, "SUSPENDED")  # type: ignore[arg-type]
        one._told(server, "CONNECTED")  # type: ignore[arg-type]
        await turns()
        assert len(told) == 1
        with pytest.raises(NoAuth) as raised:
            await one.children("/a", lambda *what: told.append(what))
        assert isinstance(raised.value, ZooKeeperError)

    run(scene)
