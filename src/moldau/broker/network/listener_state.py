"""What the connections of one listener share: handlers, limits, memory, counts.

Asked by ``connection.py``; ``listener.py`` makes connections of it. Before the node knows its cluster only some
requests are handled (``early``), the others wait.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from moldau.broker.network.connection_quotas import ConnectionQuotas
from moldau.broker.network.descriptors import is_one_of_the_last
from moldau.broker.network.idle import IdleSweep
from moldau.broker.network.memory import RequestMemory
from moldau.broker.network.receive_buffer import SharedBuffer
from moldau.broker.network.requests import Dispatch, Handler, ServedApi
from moldau.broker.network.traffic import ApiStats, RequestStats
from moldau.broker.network.turn import LoopTurn
from moldau.broker.network.unread import UnreadConnections
from moldau.broker.quotas.clients import ClientQuotas
from moldau.broker.rate_limited_log import RateLimitedLog
from moldau.model.protocol import Protocol
from moldau.ports import World
from moldau.wire.frames import RequestHeader, read_request_header
from moldau.wire.schema import Message

log = logging.getLogger(__name__)

EARLY = frozenset({4, 5, 6, 7, 18, 56, 67})
"""What a broker hears in ZooKeeper mode before it knows its cluster: the controller, or brokers that it is
controller of. Clients wait: they would be told that no topic is there."""


class ListenedConnection(Hashable, Protocol):
    """A connection as its listener sees it."""

    heard: bool

    @property
    def peer(self) -> tuple[str | int, ...] | None: ...

    @property
    def waits(self) -> bool: ...

    def expire(self, idle_ms: int) -> None: ...

    def hold(self) -> None: ...

    def release(self) -> None: ...

    def close(self) -> None: ...


class ListenerState:
    """What the connections of one listener share."""

    def __init__(
        self,
        world: World,
        *,
        name: str,
        kind: str,
        answers: Mapping[int, ServedApi],
        dispatch: Dispatch,
        handler_failed: Callable[[RequestHeader, BaseException], object],
        frame_bytes_max: int,
        memory: RequestMemory | None = None,
    ) -> None:
        """``answers`` is what is answered here; ``dispatch`` finds a request's handler; ``handler_failed`` is told of
        those that raised."""
        self.world = world
        self.now_ms, self.now_ns = world.clock.monotonic_ms, world.clock.monotonic_ns
        self.processor_ns = world.clock.processor_ns
        self.name = name
        self.memory = RequestMemory(world.tasks) if memory is None else memory
        self.shared = SharedBuffer()
        self.turn = LoopTurn(world)
        self.unread = UnreadConnections(world.tasks)
        self.kind = kind
        self.frame_bytes_max = frame_bytes_max
        self.answers = answers
        self.handler_failed = handler_failed
        self._dispatch = dispatch
        self.handlers: dict[int, Handler] = {}
        self.connections: dict[ListenedConnection, None] = {}  # in their order: a simulated run must repeat
        self.stats = RequestStats()
        self.closing = False
        self.closed_hooks: list[Callable[[ListenedConnection], None]] = []
        self.limits: ConnectionQuotas | None = None
        self.quotas: ClientQuotas | None = None
        self.idle: IdleSweep | None = None
        self.early: frozenset[int] | None = None
        """The only requests that are handled before ``admit``; None: all are."""
        self.files_to_come: Callable[[], int] = lambda: 0
        """How many files the node may still open for its logs, whose descriptors are not for connections here."""
        self._waiting: list[ListenedConnection] = []
        self._turned_away = RateLimitedLog(world.clock)

    @property
    def requests(self) -> int:
        """How many have come."""
        return sum(one.requests for one in self.stats.by_key.values())

    def answered(self, stats: ApiStats, began_ms: int | None, response: Message) -> None:
        """An answer is ready: count how it went, and how long it took if that is timed."""
        if began_ms is not None:
            stats.took(self.now_ms() - began_ms)
        if stats.tells:
            stats.answered(response)

    def turns_away(self, peer: object, transport: Any) -> bool:  # Any: asyncio gives any transport, uvloop its own
        """Whether a connection that was just made has to go, for the node needs the file descriptors itself."""
        why = is_one_of_the_last(transport, self.files_to_come())
        if why and (after := self._turned_away.more()) is not None:
            log.warning("closing the connection of %s on %s: %s%s", peer, self.name, why, after)
        return bool(why)

    def handler(self, key: int) -> Handler:
        found = self.handlers.get(key)
        if found is None:
            found = self.handlers[key] = self._dispatch(key)
        return found

    def put_off_until_admitted(self, connection: ListenedConnection, frame: memoryview) -> bool:
        """Put off a request that comes too early until ``admit``, its connection being read no further until then;
        whether it is put off."""
        if self.early is None or read_request_header(frame).api_key in self.early:
            return False
        self._waiting.append(connection)
        connection.hold()
        return True

    def admit(self) -> None:
        """Handle every request from now on."""
        self.early = None
        waiting, self._waiting = self._waiting, []
        for connection in waiting:
            connection.release()

    def close(self) -> None:
        """Refuse new work and cut every connection."""
        self.closing = True
        self.unread.stop()
        if self.idle is not None:
            self.idle.stop()
        for connection in list(self.connections):
            connection.close()
