"""What the client needs of a connection and of the world around it, so that one client serves both ways of waiting.

A ``Line`` is a connection; ``Lines`` opens them and waits. ``world_lines.WorldLines`` does so on the event loop;
``sockets.SocketLines`` does so with blocking sockets and no loop at all: every await in the client then returns at
once, because the wait has happened inside. Also here: the version table a peer shows in its handshake.
Source: KIP-35, KIP-511. Read next: client.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from moldau.model import Code
from moldau.model.protocol import Protocol
from moldau.model.value import replace, value
from moldau.wire.messages.k18_api_versions import ApiVersionsRequest
from moldau.wire.schema import Message, Request, ResponseT

API_VERSIONS = ApiVersionsRequest.api_key


class UnsupportedApi(Exception):
    """Both sides know no common version of a request, or the peer does not serve it at all."""

    code = Code.UNSUPPORTED_VERSION

    def __init__(self, text: str, api_key: int = -1) -> None:
        """``api_key``: of the request that the peer does not serve in any version, if that is so."""
        super().__init__(text)
        self.api_key = api_key


class RequestTimedOut(ConnectionError):
    """No answer within the request timeout; the connection is gone, since answers come in order."""


@value(kw_only=True)
class ConnectionOptions:
    """How to talk. Times in ms. ``room`` gives what an answer of so many bytes is read into by blocking lines."""

    client_id: str | None = "moldau"
    request_timeout_ms: int = 30_000
    connect_timeout_ms: int = 10_000
    max_frame_bytes: int = 256 << 20
    software_name: str = "moldau"
    software_version: str = "0.1"
    room: Callable[[int], bytearray | memoryview] = bytearray


DEFAULTS = ConnectionOptions()


def connecting_within(options: ConnectionOptions, limit_ms: int | None) -> ConnectionOptions:
    """The options, with no more time for connecting than ``limit_ms``."""
    if limit_ms is None or limit_ms >= options.connect_timeout_ms:
        return options
    return replace(options, connect_timeout_ms=max(limit_ms, 1))


class Line(Protocol):
    """One connection to one node."""

    @property
    def closed(self) -> bool: ...

    @property
    def backlogged(self) -> bool:
        """More waits to be sent than the transport likes."""

    def version_for(self, request: type[Message], highest: int | None = None) -> int: ...

    def ask(
        self, message: Request[ResponseT], *, version: int | None = None, timeout_ms: int | None = None
    ) -> Awaitable[ResponseT]:
        """Send now; the awaitable gives the response or raises ConnectionError."""

    def tell(self, message: Request[Message], *, version: int | None = None) -> None:
        """Send a request that has no answer; ConnectionError when the line is closed."""

    def close(self) -> None: ...


class Lines(Protocol):
    """How lines are opened and time is spent."""

    @property
    def options(self) -> ConnectionOptions: ...

    async def connect(self, host: str, port: int, limit_ms: int | None = None) -> Line:
        """A line that has shaken hands; ConnectionRefusedError unchanged, OSError otherwise. ``limit_ms`` bounds each
        of the two where that is less than the options' ``connect_timeout_ms``."""

    def now_ms(self) -> int:
        """The monotonic clock."""

    async def pause(self, wait_ms: float) -> None: ...

    async def first(self, answers: Sequence[Any], wait_ms: float) -> list[int]:  # Any: what a line's ask gave
        """Which of the answers (of ``Line.ask``) can be awaited without waiting; waits a while until one can."""

    def below(self, n: int) -> int:
        """A random number in [0, n)."""


class Served(dict[int, tuple[int, int]]):
    """What a peer serves: api key -> (lowest, highest version)."""

    migrates_at: int | None = None
    """Where a controller takes part in a migration from ZooKeeper (KIP-866), the highest metadata.version that it
    supports, 0 when it does not say."""

    def pick(self, request: type[Message], highest: int | None, peer: str) -> int:
        """The highest version of ``request`` that both sides know, not above ``highest``; UnsupportedApi if none."""
        served = self.get(request.api_key)
        low, high = request.versions
        name = request.__name__
        if served is None:
            raise UnsupportedApi(f"{peer} does not serve {name}", request.api_key)
        top = min(high, served[1]) if highest is None else min(high, served[1], highest)
        if top < max(low, served[0]):
            bound = f" up to {highest}" if highest is not None else ""
            raise UnsupportedApi(f"{peer} serves {name} {served[0]} to {served[1]}, we speak {low} to {high}{bound}")
        return top


def answer_version(api_key: int, version: int, frame: memoryview) -> int:
    """The version a response is written in: the request's, save that a peer which does not know our version of the
    handshake says so in version 0 (KIP-511). ``frame`` starts at the correlation id."""
    if api_key == API_VERSIONS and bytes(frame[4:6]) == _UNSUPPORTED:
        return 0
    return version


_UNSUPPORTED = Code.UNSUPPORTED_VERSION.to_bytes(2, "big")


async def shake_hands(line: Line, options: ConnectionOptions, peer: str) -> Served:
    """Ask what the peer serves, first with our newest request, then with what it says it knows."""
    version = ApiVersionsRequest.versions[1]
    request = ApiVersionsRequest(
        client_software_name=options.software_name, client_software_version=options.software_version
    )
    wait_ms = options.connect_timeout_ms
    response = await line.ask(request, version=version, timeout_ms=wait_ms)
    if response.error_code == Code.UNSUPPORTED_VERSION:
        known = {api.api_key: api.max_version for api in response.api_keys}
        older = min(known.get(API_VERSIONS, 0), version - 1)
        response = await line.ask(request, version=older, timeout_ms=wait_ms)
    if response.error_code != Code.NONE:
        raise ConnectionError(f"{peer} refused the handshake with error {response.error_code}")
    served = Served({api.api_key: (api.min_version, api.max_version) for api in response.api_keys})
    if response.zk_migration_ready:
        highest = [one.max_version for one in response.supported_features if one.name == "metadata.version"]
        served.migrates_at = max(highest, default=0)
    return served
