"""Who asks, and how: what a handler is told beside the request."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from moldau.broker.network.charging import Charge
from moldau.broker.network.requests import ServedApi
from moldau.broker.network.waits import Waits
from moldau.model.protocol import Protocol
from moldau.wire.frames import RequestHeader


class ContextListener(Protocol):
    """The listener that a request came to, as far as handlers ask about it."""

    @property
    def answers(self) -> Mapping[int, ServedApi]: ...

    @property
    def kind(self) -> str: ...

    @property
    def name(self) -> str: ...


class ContextConnection(Hashable, Protocol):
    """The connection that a request came over, as far as handlers use it."""

    @property
    def listener(self) -> ContextListener: ...

    @property
    def peer(self) -> tuple[str | int, ...] | None: ...

    @property
    def since_ms(self) -> int: ...

    @property
    def waiting(self) -> Waits: ...

    def close(self) -> None: ...


class Context:
    """Handed to every handler."""

    __slots__ = ("api_key", "api_version", "charge", "client_id", "connection", "correlation_id", "kind", "listener")

    def __init__(self, connection: ContextConnection, header: RequestHeader) -> None:
        self.connection = connection
        self.api_key = header.api_key
        self.api_version = header.api_version
        self.correlation_id = header.correlation_id
        self.client_id = header.client_id
        self.listener = connection.listener.name
        self.kind = connection.listener.kind
        self.charge: Charge | None = None
        """What the request costs its client; None where no quota may bind it."""

    @property
    def peer_host(self) -> str:
        """The client's address, as Kafka prints hosts of group members."""
        name = self.connection.peer
        return str(name[0]) if name else "unknown"
