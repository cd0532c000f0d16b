"""One listener of a node as all others see it: there while the node's own is, and refused when that one is gone.

A front connects through for each caller. A dead node's front refuses too, since a refusal is how Kafka's clients and
Moldau's nodes learn of a death at once; but not while another node is cut off from it, which must not learn of it
through a cut link: then callers that are not cut off are reset instead. Read next: ``links.py``, ``sources.py``.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from moldau.cluster.chaos.proxy.links import LinkConditions, ProxyLink, reset
from moldau.cluster.chaos.proxy.sources import Address, Sources

_LOOK_S = 0.02
_NEAR_S = 0.1
"""A listener on this machine answers at once, or has a full backlog."""
_BACKLOG = 512


class Front:
    """The listener of one port of a place; ``links`` are the connections through it."""

    def __init__(self, place: int, here: Address, real: Address, around: Around) -> None:
        self.place, self.here = place, here
        self.links: list[ProxyLink] = []
        self.made: dict[int, int] = {}
        """Connections that went through, by where they came from."""
        self._real, self._around = real, around
        self._server: asyncio.AbstractServer | None = None
        self._is_up = False
        self._turning = asyncio.Lock()
        self._calls: set[asyncio.Task[None]] = set()

    async def watch(self) -> None:
        """Follow the node's listener: one connection that carries nothing tells when it is gone. A watch that is
        cancelled ends the front and its links."""
        try:
            await self._watch()
        finally:
            self._close()
            for call in list(self._calls):
                call.cancel()
            for link in self.links:
                link.reset()

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                transport, probe = await loop.create_connection(_Probe, *self._real)
            except OSError:
                self._is_up = False
                await self.turn()
                await asyncio.sleep(_LOOK_S)
                continue
            self._is_up = True
            try:
                await self.turn()
                await probe.lost.wait()
            except OSError:  # another process has our port for a moment, as none kept it while the node was down
                await asyncio.sleep(_LOOK_S)
            finally:
                transport.abort()

    async def turn(self) -> None:
        """Listen, or do not, as it is now; and let links that could not be made be made."""
        async with self._turning:
            if not self._wanted():
                self._close()
            elif self._server is None:
                loop = asyncio.get_running_loop()
                self._server = await loop.create_server(self._called, *self.here, backlog=_BACKLOG, reuse_address=True)
        for link in list(self.links):
            link.pump()

    def looked(self) -> None:
        """The node's end of a link is gone: when it is dead, refuse callers before any peer sees the end."""
        try:
            with socket.create_connection(self._real, _NEAR_S):
                pass
        except ConnectionRefusedError:
            self._is_up = False
            if not self._wanted():
                self._close()
        except OSError:
            pass

    def _wanted(self) -> bool:
        return self._is_up or self._around.conditions.touches(self.place, self.here[1])

    def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def _called(self) -> asyncio.Protocol:
        return _Ring(self)

    def ring(self, transport: Any) -> None:
        """A caller connected."""
        peer = transport.get_extra_info("peername")  # asked now: uvloop raises ValueError once it is closed
        if peer is None:
            return
        task = asyncio.get_running_loop().create_task(self._answer(transport, peer[:2]))
        self._calls.add(task)

        def over(task: asyncio.Task[None]) -> None:
            self._calls.discard(task)
            if task.cancelled():
                transport.abort()

        task.add_done_callback(over)

    async def _answer(self, transport: Any, peer: tuple[str, int]) -> None:
        around, loop = self._around, asyncio.get_running_loop()
        source = around.sources.place(peer, self.here)
        if source is None:
            transport.abort()
            return
        way = (source, self.place)
        while not around.conditions.is_fair(way, self.here[1]):
            await around.changed()
        if transport.is_closing():
            return
        link = ProxyLink(around.conditions, way, self.here[1], self.looked)
        self.links = [one for one in self.links if not one.is_over]
        self.links.append(link)
        transport.set_protocol(link.near)
        link.near.connection_made(transport)
        try:
            await loop.create_connection(lambda: link.far, *self._real)
        except OSError:
            reset(transport)
            return
        self.made[source] = self.made.get(source, 0) + 1


class Around:
    """What all fronts share: the conditions of links, and which process is which node."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self.conditions = LinkConditions()
        self._change = asyncio.Event()

    async def changed(self) -> None:
        """Wait until the conditions change."""
        await self._change.wait()

    def change(self) -> None:
        """Wake those that wait."""
        self._change.set()
        self._change = asyncio.Event()


class _Ring(asyncio.Protocol):
    """A caller that is not identified yet: nothing is read."""

    def __init__(self, front: Front) -> None:
        self._front = front

    def connection_made(self, transport: Any) -> None:
        transport.pause_reading()
        asyncio.get_running_loop().call_soon(_pause_again, transport)
        self._front.ring(transport)


def _pause_again(transport: asyncio.ReadTransport) -> None:
    """Python 3.11.2, Debian's, begins to read after ``connection_made`` even when it is paused there: what came was
    read, and lost."""
    transport.resume_reading()
    transport.pause_reading()


class _Probe(asyncio.Protocol):
    def __init__(self) -> None:
        self.lost = asyncio.Event()

    def connection_made(self, transport: Any) -> None:
        # A listener that closes with a connection half made sends no reset, and this one would wait for ever.
        line = transport.get_extra_info("socket")
        line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):
            if hasattr(socket, name):
                line.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), 1)

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set()
