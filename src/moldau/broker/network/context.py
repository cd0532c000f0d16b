"""Who asks, and how: what a handler is told beside the request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.wire.frames import RequestHeader

if TYPE_CHECKING:
    from moldau.broker.network.charging import Charge
    from moldau.broker.network.connection import Connection


class Context:
    """Handed to every handler."""

    __slots__ = ("api_key", "api_version", "charge", "client_id", "connection", "correlation_id", "kind", "listener")

    def __init__(self, connection: Connection, header: RequestHeader) -> None:
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
