"""Who asks, as a handler is told beside the request."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class OpenConnection:
    """A connection, each another one, as far as handlers look at it: when it was opened."""

    since_ms: int = 0


@dataclass(frozen=True, kw_only=True)
class ContextValue:
    """A ``RequestContext`` without a connection, or over what a test takes for one."""

    api_version: int = 0
    client_id: str | None = "client"
    connection: Hashable | None = None
    correlation_id: int = 0
    kind: str = "broker"
    listener: str = "PLAINTEXT"
    peer_host: str = "127.0.0.1"
