"""Streams as a node sees them, in asyncio's own protocol shape so that production adds no layer.

``Receiver`` is ``asyncio.BufferedProtocol``; ``Transport`` is the part of ``asyncio.Transport`` that we use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from moldau.model.protocol import Protocol


class Transport(Protocol):
    """The sending half of a connection."""

    def write(self, data: bytes | bytearray | memoryview) -> None: ...

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """On a connection that came in, slices of files (``disk.py``) are sent too."""

    def close(self) -> None:
        """Close after what is buffered has been sent."""

    def abort(self) -> None:
        """Close at once."""

    def is_closing(self) -> bool: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_write_buffer_size(self) -> int: ...

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """``peername`` and ``sockname``: (host, port, ...)."""


class Receiver(Protocol):
    """The receiving half, asyncio's BufferedProtocol."""

    def connection_made(self, transport: Any) -> None: ...

    def connection_lost(self, exc: Exception | None) -> None: ...

    def get_buffer(self, sizehint: int) -> bytearray | memoryview: ...

    def buffer_updated(self, nbytes: int) -> None: ...

    def eof_received(self) -> bool | None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


class Listener(Protocol):
    """A bound address."""

    @property
    def port(self) -> int:
        """The bound port (real, when 0 was asked for)."""

    async def open(self) -> None:
        """Accept from now on; OSError when another process listens there by now."""

    def close(self) -> None: ...


class Net(Protocol):
    """Connections in and out."""

    async def listen(self, host: str, port: int, accept: Callable[[], Receiver], *, opened: bool = True) -> Listener:
        """Bind; OSError (EADDRINUSE, ...) when the address cannot be had. Not ``opened``, it refuses connections until
        ``Listener.open``."""

    async def connect(self, host: str, port: int, receiver: Receiver) -> Transport:
        """Connect; ConnectionRefusedError when the host is up and nobody listens (fast death), OSError
        otherwise, also of what is no address at all."""
