"""Connections to other nodes: one link per address and purpose, made on first use, remade after failure.

Decides nothing about what is asked. A link's answers come in the order asked. A long poll must not hold up a vote, so
fetches and other requests use links of their own; nor may what clients ask hold up a heartbeat, so requests that are
passed on for them have theirs. ConnectionRefusedError reaches the asker unchanged: fast death reads it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

from moldau.client.connection import Connection, ConnectionOptions, connect, within
from moldau.client.lines import Line, UnsupportedApi
from moldau.model.named import NamedTuple
from moldau.ports import Receiver, World
from moldau.wire.codec import Malformed
from moldau.wire.schema import Request, ResponseT

FETCH_KEYS = frozenset({1, 59})
OWN, FETCH = 0, 1
PASSED_ON = (2, 3, 4, 5)
"""Links for what clients ask: one that takes long (a voter that catches up) must not hold up all the others."""

PROBE_MS = 3_000
"""How long a probe waits for an address that says nothing; the system would for two minutes, and registrations with
it. A segment that is lost is sent again after one second."""


class NotSpoken(ConnectionError):
    """The node at that address does not know such a request, or its version has no room for what is to be said."""


class PassedOn(NamedTuple):
    """For whom a request is passed on: the client id that it bears, and the highest version that the client spoke."""

    client_id: str
    highest: int


def ask_over(line: Line, message: Request[ResponseT], timeout_ms: int | None = None) -> Awaitable[ResponseT]:
    """Send a request over a line, now; NotSpoken at once. Another release is no bug of ours: it must stop nobody."""
    try:
        return line.ask(message, timeout_ms=timeout_ms)
    except (UnsupportedApi, Malformed) as error:
        raise NotSpoken(str(error)) from error


class PeerLink:
    """One connection to an address, connected when first asked."""

    def __init__(
        self,
        world: World,
        host: str,
        port: int,
        options: ConnectionOptions,
        on_broken: Callable[[], object] | None = None,
        *,
        on_connected: Callable[[Connection], object] | None = None,
    ) -> None:
        """``on_broken`` is called whenever the other side, or the way there, ended a connection that was made,
        ``on_connected`` with each connection whose versions are negotiated."""
        self._world = world
        self._on_broken = on_broken
        self._on_connected = on_connected
        self._address = (host, port)
        self._options = options
        self._connection: Connection | None = None
        self._making: asyncio.Future[Connection] | None = None

    async def ask(self, message: Request[ResponseT], timeout_ms: int | None = None) -> ResponseT:
        """Send and wait; OSError when it cannot be had, NotSpoken among them."""
        return await ask_over(await self._open(), message, timeout_ms)

    async def pass_on(self, message: Request[ResponseT], timeout_ms: int | None, who: PassedOn) -> ResponseT:
        """Send a client's request in its name, and wait; OSError when an answer cannot be had."""
        connection = await self._open()
        try:
            version = connection.version_for(type(message), who.highest)
            asked = connection.ask(message, version=version, timeout_ms=timeout_ms, client_id=who.client_id)
        except (UnsupportedApi, Malformed) as error:
            raise NotSpoken(str(error)) from error
        return await asked

    async def _open(self) -> Connection:
        connection = self._connection
        return await self._connected() if connection is None or connection.closed else connection

    async def _connected(self) -> Connection:
        """One attempt serves everybody who waits for it."""
        if self._making is None:
            self._making = asyncio.ensure_future(connect(self._world, *self._address, self._options))
            self._making.add_done_callback(self._made)
        return await asyncio.shield(self._making)

    @property
    def in_flight(self) -> int:
        """Requests on it that have no answer yet."""
        return 0 if self._connection is None else self._connection.in_flight

    def _made(self, done: asyncio.Future[Connection]) -> None:
        self._making = None
        if not done.cancelled() and done.exception() is None:
            self._connection = done.result()
            if self._on_connected is not None:
                self._on_connected(self._connection)
            if self._on_broken is not None:
                self._connection.on_close = self._ended

    def _ended(self, error: Exception | None) -> None:
        if self._on_broken is not None and error is not None:
            self._on_broken()

    def close(self) -> None:
        if self._making is not None:
            self._making.cancel()
        if self._connection is not None:
            self._connection.close()


class Peers:
    """All links of a node. ``on_connected`` is called with each connection whose versions are negotiated."""

    def __init__(self, world: World, options: ConnectionOptions) -> None:
        self._world = world
        self._options = options
        self._links: dict[tuple[str, int, int], PeerLink] = {}
        self.on_connected: Callable[[Connection], object] | None = None

    async def ask(self, host: str, port: int, message: Request[ResponseT], timeout_ms: int | None = None) -> ResponseT:
        """Ask the node at an address; OSError when it cannot be reached, ConnectionRefusedError when nobody listens."""
        lane = FETCH if message.api_key in FETCH_KEYS else OWN
        return await self._link(host, port, lane).ask(message, timeout_ms)

    async def pass_on(
        self,
        host: str,
        port: int,
        message: Request[ResponseT],
        timeout_ms: int | None = None,
        *,
        who: PassedOn | None = None,
    ) -> ResponseT:
        """Ask as ``ask`` does, for a client, over the link on which the fewest requests wait."""
        links = (self._link(host, port, lane) for lane in PASSED_ON)
        link = min(links, key=lambda link: link.in_flight)
        return await (link.ask(message, timeout_ms) if who is None else link.pass_on(message, timeout_ms, who))

    def _link(self, host: str, port: int, lane: int) -> PeerLink:
        key = (host, port, lane)
        link = self._links.get(key)
        if link is None:
            link = self._links[key] = PeerLink(self._world, host, port, self._options, on_connected=self.on_connected)
        return link

    async def refuses(self, host: str, port: int) -> bool:
        """Whether the address refuses a fresh connection: its host is up and the process is gone."""
        return await self.accepts(host, port) is False

    async def accepts(self, host: str, port: int) -> bool | None:
        """Whether the address takes a fresh connection, False when it refuses; None when nothing can be learnt."""
        probe = cast("Receiver", asyncio.BufferedProtocol())  # it hears of nothing
        try:
            transport = await within(self._world, PROBE_MS, self._world.net.connect(host, port, probe))
        except ConnectionRefusedError:
            return False
        except OSError:
            return None  # silence proves nothing; the session's timeout decides
        transport.abort()
        return True

    def close(self) -> None:
        for link in self._links.values():
            link.close()
        self._links.clear()
