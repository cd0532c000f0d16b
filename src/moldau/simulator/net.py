"""Connections between simulated processes: bytes of one connection never reorder or vanish, but it may stall or break.

A link may be cut one way (bytes wait, connects hang), and a dead process resets its connections. Delivery is in drawn
pieces after a drawn delay: mostly short, at times very long, each link with its own mean; a clogged link carries
nothing for a while. Hosts are names; a process listens under its own.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from moldau.simulator.loop import Owner, SimLoop

Link = tuple[str, str]
HIGH_WATER = 1 << 16
CUT_RETRY_S = 0.05


class NetworkConditions(NamedTuple):
    """How the net is: mean latency of a link, the share of pieces that take up to ``spike_s``."""

    latency_s: float = 0.0005
    spikes: float = 0.0
    spike_s: float = 0.5


class Wires:
    """The net all processes share. ``cut`` holds (from host, to host) that carry nothing now."""

    def __init__(
        self,
        loop: SimLoop,
        rng: random.Random,
        hash_event: Callable[[str], object],
        network: NetworkConditions | None = None,
    ) -> None:
        self.loop, self.rng, self.hash_event = loop, rng, hash_event
        self.cut: set[Link] = set()
        self._cuts: list[frozenset[Link]] = []
        self._conditions = network if network is not None else NetworkConditions()
        self._latency_s: dict[Link, float] = {}
        self.listeners: dict[tuple[str, int], SimListener] = {}
        self.ends: dict[SimTransport, None] = {}
        self.next_port = 40_000

    def died(self, owner: Owner) -> None:
        """A process is gone: it listens no more, and its peers see resets."""
        self.listeners = {place: one for place, one in self.listeners.items() if one.owner is not owner}
        for end in [end for end in self.ends if end.owner is owner]:
            end.vanish()

    def delay_s(self, link: Link) -> float:
        """How long the next piece takes: about the link's mean; now and then, very long."""
        mean_s = self._latency_s.get(link)
        if mean_s is None:
            mean_s = self._latency_s[link] = self._conditions.latency_s * (0.5 + self.rng.random())
        if self.rng.random() < self._conditions.spikes:
            return self.rng.uniform(0, self._conditions.spike_s)
        return mean_s * (0.5 - math.log(1 - self.rng.random()))

    def sever(self, links: Iterable[Link]) -> Callable[[], None]:
        """Let these links carry nothing; call the answer to mend them (others may have cut the same ones)."""
        cut = frozenset(links)
        self._cuts.append(cut)
        self.cut |= cut

        def mend() -> None:
            self._cuts.remove(cut)
            self.cut = set().union(*self._cuts)

        return mend


class SimListener:
    """A name and port that accepts."""

    def __init__(self, wires: Wires, owner: Owner, place: tuple[str, int], accept: Callable[[], Any]) -> None:
        self._wires, self.owner, self.place, self.accept = wires, owner, place, accept
        self.opened = False

    @property
    def port(self) -> int:
        return self.place[1]

    async def open(self) -> None:
        self.opened = True

    def close(self) -> None:
        if self._wires.listeners.get(self.place) is self:
            del self._wires.listeners[self.place]


class SimTransport(asyncio.Transport):
    """One end. ``_out`` is what was written here and has not arrived there."""

    def __init__(self, wires: Wires, owner: Owner, addresses: tuple[tuple[str, int], tuple[str, int]]) -> None:
        super().__init__()
        self._wires, self.owner = wires, owner
        self._mine, self._theirs = addresses
        self.peer: SimTransport
        self.protocol: Any = None
        self._out = bytearray()
        self._closing = self._gone = self._told = self._moving = self._choked = self.reading_paused = False
        wires.ends[self] = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing or self._gone or not self.owner.alive:
            return
        self._out += data
        if len(self._out) > HIGH_WATER and not self._choked:
            self._choked = True
            self.protocol.pause_writing()
        self._move()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def get_write_buffer_size(self) -> int:
        return len(self._out)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if self._told:
            raise ValueError("negative file descriptor")  # as uvloop does: a caller that needs a name asks in time
        return {"peername": self._theirs, "sockname": self._mine}.get(name, default)

    def is_closing(self) -> bool:
        return self._closing or self._gone

    def pause_reading(self) -> None:
        self.reading_paused = True

    def resume_reading(self) -> None:
        self.reading_paused = False
        self.peer._move()

    def close(self) -> None:
        if not self._closing and not self._gone and self.owner.alive:
            self._closing = True
            self._move()

    def abort(self) -> None:
        if not self._gone and self.owner.alive:
            self._lost(None)
            self._later(lambda: self.peer._lost(ConnectionResetError("reset by peer")), self.peer.owner)

    def break_now(self) -> None:
        """Break the connection for both ends, with bytes in flight or not."""
        for end in (self, self.peer):
            end._lost(ConnectionResetError("the connection broke"))

    def vanish(self) -> None:
        """This end's process is dead; the other end gets a reset when the link carries again."""
        self._gone = True
        self._wires.ends.pop(self, None)
        self._tell_reset()

    def _tell_reset(self) -> None:
        if self._is_cut():
            self._wires.loop.call_later(CUT_RETRY_S, self._tell_reset)
        else:
            self._later(lambda: self.peer._lost(ConnectionResetError("reset by peer")), self.peer.owner)

    def _is_cut(self) -> bool:
        return (self._mine[0], self._theirs[0]) in self._wires.cut

    def _later(self, call: Callable[[], object], owner: Owner) -> None:
        delay_s = self._wires.delay_s((self._mine[0], self._theirs[0]))
        self._wires.loop.call_later(delay_s, call, context=owner.context)

    def _move(self) -> None:
        if not self._moving and not self._gone and (self._out or self._closing):
            self._moving = True
            self._later(self._arrive, self.peer.owner)

    def _arrive(self) -> None:
        """Deliver a piece of what waits, in the context of the receiver."""
        self._moving = False
        if self._gone or self.peer._gone:
            return
        if self._is_cut():
            self._moving = True
            self._wires.loop.call_later(CUT_RETRY_S, self._arrive, context=self.peer.owner.context)
            return
        if self._out and not self.peer.reading_paused:
            wires = self._wires
            size = len(self._out) if wires.rng.random() < 0.8 else wires.rng.randint(1, len(self._out))
            room = self.peer.protocol.get_buffer(size)
            taken = min(size, len(room))
            room[:taken] = self._out[:taken]
            del self._out[:taken]
            wires.hash_event(f"{self._mine}>{self._theirs} {taken}")
            self.peer.protocol.buffer_updated(taken)
            if self._choked and len(self._out) < HIGH_WATER // 4:
                self._choked = False
                wires.loop.call_soon(self.protocol.resume_writing, context=self.owner.context)
        if self._out and self.peer.reading_paused:
            return
        if self._closing and not self._out:
            self.peer._lost(None)
            self._lost(None)
        else:
            self._move()

    def _lost(self, error: Exception | None) -> None:
        if not self._gone:
            self._gone = True
            self._wires.ends.pop(self, None)
            if self.owner.alive:
                self._wires.loop.call_soon(self._over, error, context=self.owner.context)

    def _over(self, error: Exception | None) -> None:
        self.protocol.connection_lost(error)
        self._told = True


class SimNet:
    """The net as one process sees it, under its hostname."""

    def __init__(self, wires: Wires, host: str, owner: Owner) -> None:
        self._wires, self._host, self._owner = wires, host, owner

    async def listen(self, host: str, port: int, accept: Callable[[], Any], *, opened: bool = True) -> SimListener:
        wires = self._wires
        wires.next_port += 1
        place = (self._host, port or wires.next_port)
        if place in wires.listeners:
            raise OSError(98, "address in use")
        wires.listeners[place] = listener = SimListener(wires, self._owner, place, accept)
        listener.opened = opened
        return listener

    async def connect(self, host: str, port: int, receiver: Any) -> SimTransport:
        wires = self._wires
        await asyncio.sleep(wires.delay_s((self._host, host)) + wires.delay_s((host, self._host)))
        while (self._host, host) in wires.cut or (host, self._host) in wires.cut:  # noqa: ASYNC110
            await asyncio.sleep(CUT_RETRY_S)
        listener = wires.listeners.get((host, port))
        if listener is None or not listener.opened:
            raise ConnectionRefusedError(111, f"nobody listens on {host}:{port}")
        wires.next_port += 1
        here, there = (self._host, wires.next_port), (host, port)
        mine = SimTransport(wires, self._owner, (here, there))
        theirs = SimTransport(wires, listener.owner, (there, here))
        mine.peer, theirs.peer = theirs, mine
        mine.protocol = receiver

        def accepted() -> None:
            theirs.protocol.connection_made(theirs)

        theirs.protocol = listener.owner.context.copy().run(listener.accept)
        wires.loop.call_soon(accepted, context=listener.owner.context)
        receiver.connection_made(mine)
        return mine
