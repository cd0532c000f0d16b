"""Connection-refused failure detection: whether the process behind a broker's addresses is gone.

Decides nothing about brokers: an address either refuses a fresh connection, which only a host does that is up and has
no such process, or it proves nothing. Asked by ``controller/service.py`` and by the ZooKeeper plane. Why it is safe,
and which address counts: docs/decisions/0002 and 0024.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Protocol, cast

from moldau.broker.loop import sleep
from moldau.image import Endpoint
from moldau.ports import Receiver, World

LOOKS = 20
LOOK_MS = 25


class ConnectionProbes(Protocol):
    """Connections to other nodes as this file needs them."""

    async def refuses(self, host: str, port: int) -> bool: ...


class HasPeer(Protocol):
    """A connection; ``peer`` is the address that it came from, as the socket tells it, None before it is made."""

    @property
    def peer(self) -> tuple[str | int, ...] | None: ...


class Listening(Protocol):
    """A listener's connections; ``peer`` is where one came from."""

    @property
    def connections(self) -> Iterable[HasPeer]: ...


async def is_refused(peers: ConnectionProbes, endpoints: Sequence[Endpoint], inter_broker: str) -> bool:
    """Whether a broker's process is gone: its listener for brokers refuses connections.

    Of a broker that has no listener of the name ``inter_broker``, all must refuse: one that is meant for clients
    elsewhere may refuse a controller while the broker lives.
    """
    named = [one for one in endpoints if one.name == inter_broker]
    for one in named or endpoints:
        if not await peers.refuses(one.host, one.port):
            return False
    return bool(endpoints)


async def reaches_us(world: World, listeners: Sequence[Listening], host: str, port: int) -> bool:
    """Whether a connection to an address arrives at this very process, at one of its listeners."""
    probe = cast("Receiver", asyncio.BufferedProtocol())  # it hears of nothing
    try:
        transport = await world.net.connect(host, port, probe)
    except OSError:
        return False
    try:
        ours = transport.get_extra_info("sockname")
        for _ in range(LOOKS):
            came = [one.peer for socket_listener in listeners for one in socket_listener.connections]
            if any(peer and peer[:2] == ours[:2] for peer in came):
                return True
            await sleep(world.tasks, LOOK_MS)
        return False
    finally:
        transport.abort()
