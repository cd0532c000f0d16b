"""A connection's sending side that hands parts of files to the kernel unread: sendfile, from page cache to socket.

A ``SendfileProtocol`` stands between the loop's transport and its receiver, as each one's other half. Everything but
slices of files goes the loop's own way; while a slice is under way, what is written after it waits here. A
connection has one file descriptor, however slowly its client reads: when the socket is full, the loop itself waits for
it, with a few of the bytes in its own queue. Decides no content and no limits: the receiver is paused as the loop would
pause it. What is received goes past it. Read next: ``disk.py``, whose files name the slices.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Iterable
from typing import Any

from moldau.ports import Receiver
from moldau.ports.disk import FileSlice
from moldau.runtime.disk import DiskFileSlice

log = logging.getLogger(__name__)

Bytes = bytes | bytearray | memoryview

TURN_BYTES = 8 << 20
"""The most that one turn of the loop sends: a reader as quick as we are must not keep everybody else waiting."""

WOKEN_BY_BYTES = 4 << 10
"""So much is read and given to the loop when the socket is full: it says when that is gone. The loop lets nobody else
wait for its handle, and a second handle for each slow client would be a file descriptor more for each."""

AT_ONCE = int(socket.MSG_DONTWAIT)
MORE_COMES = int(socket.MSG_DONTWAIT | getattr(socket, "MSG_MORE", 0))  # macOS has none
"""Flags of a send that does not wait: of the last there is, and of what is not. Numbers, since Python works out the
union of two members of an enumeration anew each time."""

REMOVED_S = 60
"""For so long at most a connection may go on to hold a file that was removed; half of it at least. Apache Kafka closes
the file under its readers when it is removed."""


MAPPED = "::ffff:"
"""What the address of a client of IPv4 begins with at a socket of IPv6."""


class SendfileProtocol(asyncio.BufferedProtocol):
    """The loop's protocol, and the receiver's transport, of one connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop, receiver: Receiver) -> None:
        self._loop = loop
        self._receiver = receiver
        self.get_buffer = receiver.get_buffer  # type: ignore[method-assign]  # what comes costs no call more
        self.buffer_updated = receiver.buffer_updated  # type: ignore[method-assign]
        self._transport: Any = None
        self._peername: Any = None
        self._kind: tuple[int, int, int] | None = None  # of its socket
        self._left: deque[Bytes | DiskFileSlice] = deque()
        self._waiting = False  # for the socket to take more, or for the next turn of the loop
        self._next: asyncio.Handle | None = None  # that turn
        self._ending = False  # once all has been sent
        self._look: asyncio.TimerHandle | None = None
        self._removed: DiskFileSlice | None = None

    # ---- the loop's protocol

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._peername = _plain(transport.get_extra_info("peername"))  # uvloop raises ValueError once it is closed
        self._receiver.connection_made(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._drop()
        self._receiver.connection_lost(exc)

    def eof_received(self) -> bool | None:
        return self._receiver.eof_received()

    def pause_writing(self) -> None:
        if not self._waiting:  # else it has heard already
            self._receiver.pause_writing()

    def resume_writing(self) -> None:
        if self._waiting:  # not at once: asyncio is in the middle of its own sending
            self._send_soon()
        else:
            self._receiver.resume_writing()

    # ---- the receiver's transport

    def write(self, data: Bytes) -> None:
        if not self._left:
            self._transport.write(data)
        elif not self._ending:
            self._left.append(data)

    def writelines(self, list_of_data: Iterable[Bytes | FileSlice]) -> None:
        pieces: list[Any] = list(list_of_data)
        if self._left:
            if not self._ending:
                self._left += pieces
        elif DiskFileSlice not in map(type, pieces):
            self._transport.writelines(pieces)
        elif self._transport.is_closing():
            log.debug("an answer to %s comes after the end", self._peername)
        else:
            self._left += pieces
            self._send()

    def close(self) -> None:
        if self._left:
            self._ending = True
            self._transport.pause_reading()
        else:
            self._drop()
            self._transport.close()

    def abort(self) -> None:
        self._drop()
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._ending or bool(self._transport.is_closing())

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        if not self._ending:
            self._transport.resume_reading()

    def get_write_buffer_size(self) -> int:
        return int(self._transport.get_write_buffer_size()) + sum(map(len, self._left))

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._peername if name == "peername" else self._transport.get_extra_info(name, default)

    # ---- sending

    def _send(self) -> None:
        """Send until nothing is left, the socket takes no more, or others must have their turn."""
        self._next = None
        if self._transport.is_closing():  # it ends by itself, and says so
            return
        try:
            # The loop's own queue goes first: nothing overtakes it.
            is_full = self._transport.get_write_buffer_size() > 0 or self._send_some()
            if is_full:
                self._wait_for_socket()
        except OSError as error:
            self._failed(error)
            return
        if is_full:
            return
        if self._left:
            self._wait()
            self._send_soon()
        else:
            self._sent()

    def _send_some(self) -> bool:
        """Send for one turn of the loop; whether the socket is full now. OSError."""
        left, budget = self._left, TURN_BYTES
        try:
            sock = self._lent()
            try:
                while left and budget > 0:
                    piece = left[0]
                    more = MORE_COMES if len(left) > 1 else AT_ONCE  # heads go in one segment with what follows them
                    if isinstance(piece, DiskFileSlice):
                        budget -= piece.send(sock, more)
                        if not piece:
                            left.popleft()
                    else:
                        sent = sock.send(piece, more)
                        if sent == len(piece):
                            left.popleft()
                        else:
                            left[0] = memoryview(piece)[sent:]
            finally:
                sock.detach()
        except BlockingIOError:
            return True
        return False

    def _lent(self) -> socket.socket:
        """The loop's own handle of the socket, which it lets nobody write to, as a socket that may be written to: it is
        not to be closed, but detached."""
        theirs = self._transport.get_extra_info("socket")
        if self._kind is None:  # theirs makes members of enumerations of these numbers whenever it is asked
            self._kind = int(theirs.family), int(theirs.type), int(theirs.proto)
        return socket.socket(*self._kind, theirs.fileno())

    def _send_soon(self) -> None:
        if self._next is None:
            self._next = self._loop.call_soon(self._send)

    def _wait(self) -> None:
        """The receiver waits until all is sent."""
        if not self._waiting:
            self._waiting = True
            self._receiver.pause_writing()
        if self._look is None:
            self._look = self._loop.call_later(REMOVED_S / 2, self._look_at_files)

    def _wait_for_socket(self) -> None:
        """Have the loop say when the socket has taken all of the loop's own queue, which is given a little if it is
        empty. OSError when that cannot be read."""
        self._wait()
        transport = self._transport
        transport.set_write_buffer_limits(0)
        if not transport.get_write_buffer_size():
            transport.write(self._take(WOKEN_BY_BYTES))
            if not transport.get_write_buffer_size():  # it was taken at once: asyncio says nothing then
                self._send_soon()

    def _take(self, most: int) -> Bytes:
        """The next bytes of what is left, in memory."""
        piece = self._left[0]
        if isinstance(piece, DiskFileSlice):
            taken: Bytes = piece.take(most)
            is_whole = not piece
        else:
            taken, is_whole = memoryview(piece)[:most], len(piece) <= most
            self._left[0] = memoryview(piece)[most:]
        if is_whole:
            self._left.popleft()
        return taken

    def _look_at_files(self) -> None:
        """End the connection when what it has to send at two looks is of a file that was removed: it would hold the
        disk space of a deleted segment for as long as its client likes."""
        self._look = None
        before, self._removed = self._removed, None
        for piece in self._left if self._waiting else ():
            if isinstance(piece, DiskFileSlice) and (piece is before or piece.is_removed()):
                self._removed = piece
                break
        if before is not None and self._removed is before:
            log.info("%s reads too slowly what was deleted meanwhile: the connection is closed", self._peername)
            self.abort()
        elif self._waiting:
            self._look = self._loop.call_later(REMOVED_S / 2, self._look_at_files)

    def _sent(self) -> None:
        """Nothing is left: the receiver may go on, if it waits."""
        if not self._waiting:
            return
        self._waiting = False
        self._transport.set_write_buffer_limits()
        if self._ending:
            self._ending = False
            self.close()
        else:
            self._receiver.resume_writing()

    def _failed(self, error: OSError) -> None:
        log.debug("sending to %s failed: %s", self._peername, error)
        self.abort()

    def _drop(self) -> None:
        """Forget what is left."""
        self._left.clear()
        self._removed = None
        self._waiting = False
        for handle in (self._look, self._next):
            if handle is not None:
                handle.cancel()
        self._look = self._next = None


def _plain(peername: Any) -> Any:  # Any: as the loop has it
    """The same, of a client of IPv4 as any socket of IPv4 has it, and Java any: limits and quotas go by addresses."""
    if isinstance(peername, tuple) and str(peername[0]).startswith(MAPPED) and "." in peername[0]:
        return peername[0].removeprefix(MAPPED), peername[1]
    return peername
