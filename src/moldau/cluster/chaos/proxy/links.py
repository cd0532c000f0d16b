"""One connection through the proxy: two pipes, each of which a cut holds up, a delay slows, and a reset breaks.

A cut is silence as the net's: what comes from the cut side waits, its end too, and goes on when the link is whole
again. A connection that is made under a cut, of either direction, carries nothing until then. Decides not when.
Read next: ``fronts.py``.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Any

_FULL = 1 << 20
"""Bytes that wait in one direction, from which on no more are read."""
_AT_ONCE = struct.pack("ii", 1, 0)
"""SO_LINGER: a close is a reset."""

Way = tuple[int, int]


class StreamEnd(Enum):
    """How a stream ended."""

    CLOSED = "closed"
    RESET = "reset"


class LinkConditions:
    """What is done to links: cuts are (from, to, port of the front; 0 for any), delays seconds by (from, to)."""

    def __init__(self) -> None:
        self.cuts: set[tuple[int, int, int]] = set()
        self.delays_s: dict[Way, float] = {}

    def is_cut(self, way: Way, port: int) -> bool:
        """Whether nothing gets through this way, on connections to this front."""
        return bool(self.cuts) and ((*way, 0) in self.cuts or (*way, port) in self.cuts)

    def is_fair(self, way: Way, port: int) -> bool:
        """Whether a connection can be made this way: it needs both directions."""
        return not self.is_cut(way, port) and not self.is_cut((way[1], way[0]), port)

    def touches(self, place: int, port: int) -> bool:
        """Return whether any node is cut off from a front of a place, either way."""
        return any(place in cut[:2] and cut[2] in (0, port) for cut in self.cuts)

    def clear(self) -> None:
        self.cuts.clear()
        self.delays_s.clear()


class Pipe:
    """One direction: what comes in waits for its time, and while the way is cut or the far side takes no more."""

    def __init__(self, link: ProxyLink, way: Way) -> None:
        self.source, self.target = ProxySide(self), ProxySide(self)
        self._link, self._way = link, way
        self._waiting: deque[tuple[float, bytes | StreamEnd]] = deque()
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None

    def push(self, what: bytes | StreamEnd) -> None:
        """Take what came in."""
        due_s = asyncio.get_running_loop().time() + self._link.conditions.delays_s.get(self._way, 0.0)
        self._waiting.append((due_s, what))
        self._size += len(what) if isinstance(what, bytes) else 0
        self.pump()

    def pump(self) -> None:
        """Pass on what is due, if anything may pass."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        held = (
            self.target.is_full or self._link.conditions.is_cut(self._way, self._link.port) or not self._link.is_whole
        )
        while self._waiting and not held:
            due_s, what = self._waiting[0]
            if due_s > loop.time():
                self._timer = loop.call_at(due_s, self.pump)
                break
            self._waiting.popleft()
            self._size -= len(what) if isinstance(what, bytes) else 0
            self.target.take(what)
            held = self.target.is_full
        self.source.read(not held and self._size < _FULL)

    def drop(self) -> None:
        """Forget what waits."""
        self._waiting.clear()
        self._size = 0
        if self._timer is not None:
            self._timer.cancel()


class ProxySide:
    """A connection's writing half, as a pipe sees its target, and its reading half, as a pipe sees its source."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self.transport: Any = None
        self.is_full = False

    def read(self, wanted: bool) -> None:
        """Read on, or do not."""
        transport = self.transport
        if transport is None or transport.is_closing() or transport.is_reading() == wanted:
            return
        if wanted:
            transport.resume_reading()
        else:
            transport.pause_reading()

    def take(self, what: bytes | StreamEnd) -> None:
        """Send bytes, or end as the other side has ended."""
        if self.transport is None or self.transport.is_closing():
            return
        if isinstance(what, bytes):
            self.transport.write(what)
        elif what is StreamEnd.CLOSED:
            self.transport.close()
        else:
            reset(self.transport)


class Caller(asyncio.Protocol):
    """One end of a link: feeds the pipe that begins here, and tells the one that ends here whether there is room."""

    def __init__(self, link: ProxyLink, out: Pipe, back: Pipe) -> None:
        self._link, self._out, self._back = link, out, back

    def connection_made(self, transport: Any) -> None:
        transport.pause_reading()
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._out.source.transport = self._back.target.transport = transport
        self._link.joined(self, transport)

    def data_received(self, data: bytes) -> None:
        self._out.push(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._link.left(self)
        self._back.drop()
        self._out.push(StreamEnd.CLOSED if error is None else StreamEnd.RESET)

    def pause_writing(self) -> None:
        self._back.target.is_full = True
        self._back.pump()

    def resume_writing(self) -> None:
        self._back.target.is_full = False
        self._back.pump()


class ProxyLink:
    """A connection from a place to a front's listener. Whole once both ends are there."""

    def __init__(self, conditions: LinkConditions, way: Way, port: int, far_is_gone: Callable[[], None]) -> None:
        self.conditions, self.way, self.port = conditions, way, port
        self._far_is_gone = far_is_gone
        self.is_whole = False
        self._there, self._back = Pipe(self, way), Pipe(self, (way[1], way[0]))
        self.near, self.far = Caller(self, self._there, self._back), Caller(self, self._back, self._there)
        self._transports: dict[Caller, Any] = {}

    def joined(self, end: Caller, transport: Any) -> None:
        self._transports[end] = transport
        if len(self._transports) == 2:
            self.is_whole = True
            self.pump()

    def left(self, end: Caller) -> None:
        """An end is gone; what it has sent is still passed on."""
        self._transports.pop(end, None)
        if end is self.far:
            self._far_is_gone()

    @property
    def is_over(self) -> bool:
        return not self._transports

    def pump(self) -> None:
        """Conditions have changed."""
        self._there.pump()
        self._back.pump()

    def reset(self) -> None:
        """Break both ends at once; bytes in flight are lost."""
        for transport in list(self._transports.values()):
            reset(transport)


def reset(transport: Any) -> None:
    """End a connection so that the peer sees a reset, and none of what was not sent yet."""
    with suppress(OSError, ValueError):  # it may be over already
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    transport.abort()
