"""Who asks, as a handler is told beside the request."""

from __future__ import annotations

from dataclasses import dataclass

from moldau.broker.network.context import Context, ContextConnection, ContextListener
from moldau.broker.network.waits import Waits
from tests.packages.doubles import UNUSED


@dataclass(frozen=True, eq=False)
class OpenConnection:
    """A connection, each another one, as far as handlers look at it: when it was opened."""

    since_ms: int = 0
    listener: ContextListener = UNUSED
    peer: tuple[str | int, ...] | None = None
    waiting: Waits = UNUSED

    def close(self) -> None:
        raise AssertionError("it stays open")


class ContextValue(Context):
    """The context of a request without a connection, or over what a test takes for one."""

    def __init__(
        self,
        *,
        api_version: int = 0,
        client_id: str | None = "client",
        connection: ContextConnection = UNUSED,
        correlation_id: int = 0,
        kind: str = "broker",
        listener: str = "PLAINTEXT",
        peer_host: str = "127.0.0.1",
    ) -> None:
        self.connection = connection
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.listener = listener
        self.kind = kind
        self.charge = None
        self._peer_host = peer_host

    @property
    def peer_host(self) -> str:
        return self._peer_host
