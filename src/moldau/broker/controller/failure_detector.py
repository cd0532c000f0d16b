"""Connection-refused failure detection: whether the process behind a broker's addresses is gone.

A broker whose connection to the active controller broke, and whose address then refuses a fresh one, is fenced at once.
An address either refuses, which only a host does that is up and has no such process, or it proves nothing: then the
session timeout decides. Driven by ``controller/service.py``; the ZooKeeper plane asks ``is_refused`` itself. Why it is
safe, and which address counts: docs/decisions/0002 and 0024.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable, Iterable, Sequence
from typing import cast

from moldau.broker.host import Host, WithIncarnation, WithPeers
from moldau.broker.loop import sleep
from moldau.broker.network.peers import PROBE_MS
from moldau.client.connection import within
from moldau.controller import requests
from moldau.image import Endpoint
from moldau.image.registration import Broker
from moldau.model.protocol import Protocol
from moldau.ports import Receiver, World

log = logging.getLogger(__name__)

LOOKS = 20
LOOK_MS = 25
RECONNECT_MS = 1_000
"""A living broker whose connection broke is back within a heartbeat and this."""
PROBE_PAUSES_MS = (0, 20, 80, 300, 1_000)
"""Pauses before each probe of a silent broker's address: a process that is killed closes its connections before its
listeners, and the first probe may come between the two."""


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


class FailureDetectorHost(Host, WithPeers, Protocol):
    """A node that may be the active controller."""

    @property
    def lifecycle(self) -> WithIncarnation | None: ...


class Fencing(Protocol):
    """The controller of this node, which fences brokers while it is active."""

    @property
    def active(self) -> bool: ...

    def contact_ms(self, broker_id: int) -> int | None:
        """When a broker's last heartbeat came, on the monotonic clock; None when it has no session."""

    def submit_nowait(self, request: object) -> None: ...


class FailureDetector:
    """What one controller knows of brokers' connections to it, and its probes of the addresses of silent ones."""

    def __init__(self, node: FailureDetectorHost, controller: Fencing) -> None:
        self._node = node
        self._world = node.world
        self._controller = controller
        self._connections: dict[Hashable, int] = {}
        self._broken_ms: dict[int, int] = {}
        """Broker id -> when its last connection ended, on the monotonic clock; none that has come back since."""
        self._probing: set[int] = set()

    def connection_is_of(self, connection: Hashable | None, broker_id: int) -> None:
        """From now on this connection's end is news of that broker."""
        if connection is not None:
            self._connections[connection] = broker_id
            self._broken_ms.pop(broker_id, None)

    def connection_closed(self, connection: Hashable) -> None:
        """A connection has ended; if it was a broker's last one, it is found out whether that is dead."""
        broker_id = self._connections.pop(connection, None)
        if broker_id is None or broker_id in self._connections.values():
            return
        self._broken_ms[broker_id] = self._world.clock.monotonic_ms()
        if self._controller.active:
            self.probe(broker_id)

    def probe(self, broker_id: int) -> None:
        """Something suggests that a broker's process is gone: find out."""
        if not self._controller.active:
            return
        broker = self._node.metadata.image.brokers.get(broker_id)
        if broker is None or broker.fenced or broker_id in self._probing or broker_id == self._node.config.node_id:
            return
        self._probing.add(broker_id)
        self._world.tasks.spawn(self._probe(broker_id, broker.epoch, broker.endpoints), f"probe of broker {broker_id}")

    async def _probe(self, broker_id: int, epoch: int, endpoints: Sequence[Endpoint]) -> None:
        refused = False
        try:
            for pause_ms in PROBE_PAUSES_MS if endpoints else ():
                if pause_ms:
                    await sleep(self._world.tasks, pause_ms)
                if not self._is_silent(broker_id, epoch):
                    break
                refused = await self._is_refused(endpoints)
                if refused:
                    break
        finally:
            self._probing.discard(broker_id)
        if refused and self._controller.active:
            log.warning("broker %d refuses connections: its process is gone, it is fenced now", broker_id)
            self._controller.submit_nowait(requests.BrokerRefused(broker_id=broker_id, broker_epoch=epoch))

    @property
    def is_probing(self) -> bool:
        """Whether it is being found out if a broker is dead."""
        return bool(self._probing)

    def _is_silent(self, broker_id: int, epoch: int) -> bool:
        """Whether a broker, still in the same life, has no connection to this controller, which still is one."""
        broker = self._node.metadata.image.brokers.get(broker_id)
        if broker is None or broker.fenced or broker.epoch != epoch or not self._controller.active:
            return False
        return broker_id not in self._connections.values()

    async def _is_refused(self, endpoints: Sequence[Endpoint]) -> bool:
        return await is_refused(self._node.peers, endpoints, self._node.config.inter_broker_listener)

    async def predecessor_is_gone(self, broker_id: int) -> bool:
        """Whether the process registered under an id is certainly dead, now that another one claims it.

        It is not while it is heard. Otherwise its address refuses connections, or its own connection broke and it has
        not come back, which is all that can be seen of a process behind a proxy. An address that both have is no proof:
        a copied file has it as well.
        """
        broker = self._node.metadata.image.brokers.get(broker_id)
        if broker is None or not broker.endpoints:
            return True
        if self._is_heard(broker):
            return False
        refused = await self._is_refused(broker.endpoints)
        if self._is_heard(broker):
            return False
        broken_ms = self._broken_ms.get(broker_id)
        interval_ms: int = self._node.config["broker.heartbeat.interval.ms"]
        away_ms = 0 if broken_ms is None else self._world.clock.monotonic_ms() - broken_ms
        return refused or away_ms > interval_ms + RECONNECT_MS

    def _is_heard(self, broker: Broker) -> bool:
        """Whether the very process that is registered is this one, or keeps a connection here and sends heartbeats."""
        lifecycle = self._node.lifecycle
        if lifecycle is not None and broker.incarnation_id == lifecycle.incarnation_id:
            return True
        contact_ms = self._controller.contact_ms(broker.id)
        if contact_ms is None or broker.id not in self._connections.values():
            return False
        interval_ms: int = self._node.config["broker.heartbeat.interval.ms"]
        return bool(self._world.clock.monotonic_ms() - contact_ms <= 2 * interval_ms)


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
        transport = await within(world, PROBE_MS, world.net.connect(host, port, probe))
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
