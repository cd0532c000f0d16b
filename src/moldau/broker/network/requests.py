"""What listeners, the controller channel and request handlers agree on: kinds of listeners, what a handler is given
and what it returns.

Which function answers which request is ``broker/api``, which imports this; nothing below it imports that table.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Hashable

from moldau.model.named import NamedTuple
from moldau.model.protocol import Protocol
from moldau.wire.schema import Message

Slices = Generator[None, None, Message | Awaitable[Message | None] | None]
"""Work on a long request that pauses where everybody else should have a turn, and returns as a handler does."""
Outcome = Message | None | Awaitable[Message | None] | Slices
"""What a handler returns: the response, None when nothing is sent, a response to come, or work in slices."""

BROKER = "broker"
CONTROLLER = "controller"
ZOOKEEPER = "zookeeper"


class ServedApi(NamedTuple):
    """One request that is answered: versions ``low`` to ``high`` on a kind of listener; ``shown`` is the advertised
    low."""

    key: int
    low: int
    high: int
    shown: int


class RequestContext(Protocol):
    """Who asks, and how: as ``network.Context`` of a connection has it, and the controller channel's own requests."""

    @property
    def api_version(self) -> int: ...

    @property
    def client_id(self) -> str | None: ...

    @property
    def connection(self) -> Hashable | None:
        """What the request came over; None for a request of this process."""

    @property
    def correlation_id(self) -> int: ...

    @property
    def kind(self) -> str: ...

    @property
    def listener(self) -> str: ...

    @property
    def peer_host(self) -> str: ...


Handler = Callable[[Message, RequestContext], Outcome]
"""Answers one kind of request; its services are bound already."""
Dispatch = Callable[[int], Handler]
"""Finds the handler of an api key; asked once for each key and listener."""


class RequestRead(Protocol):
    """What is known of a request once its header is read."""

    @property
    def api_key(self) -> int: ...

    @property
    def api_version(self) -> int: ...
