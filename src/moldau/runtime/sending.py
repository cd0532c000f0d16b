"""A connection's sending side that hands parts of files to the kernel unread: sendfile, from page cache to socket.

A ``Sender`` stands between the loop's transport and its receiver, as each one's other half. Everything but stretches of
files goes the loop's own way; while a stretch is under way, what is written after it waits here. Decides no content and
no limits: the receiver is paused as the loop would pause it. What is received goes past it. Read next: ``disk.py``,
whose files name the stretches.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Iterable
from typing import Any

from moldau.ports import Receiver
from moldau.ports.disk import Stretch
from moldau.runtime.disk import FileStretch

log = logging.getLogger(__name__)

Bytes = bytes | bytearray | memoryview

TURN_BYTES = 8 << 20
"""The most that one turn of the loop sends: a reader as quick as we are must not keep everybody else waiting."""

REMOVED_S = 60
"""For so long at most a connection may go on to hold a file that was removed; half of it at least. Apache Kafka closes
the file under its readers when it is removed."""


class Sender(asyncio.BufferedProtocol):
    """The loop's protocol, and the receiver's transport, of one connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop, receiver: Receiver) -> None:
        self._loop = loop
        self._receiver = receiver
        self.get_buffer = receiver.get_buffer  # type: ignore[method-assign]  # what comes costs no call more
        self.buffer_updated = receiver.buffer_updated  # type: ignore[method-assign]
        self._transport: Any = None
        self._peername: Any = None
        self._socket: socket.socket | None = None
        self._left: deque[Bytes | FileStretch] = deque()
        self._waiting = False  # for the socket to take more
        self._ending = False  # once all has been sent
        self._look: asyncio.TimerHandle | None = None
        self._removed: FileStretch | None = None

    # ---- the loop's protocol

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._peername = transport.get_extra_info("peername")  # uvloop raises ValueError once it is closed
        self._receiver.connection_made(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._drop()
        self._receiver.connection_lost(exc)

    def eof_received(self) -> bool | None:
        return self._receiver.eof_received()

    def pause_writing(self) -> None:
        self._receiver.pause_writing()

    def resume_writing(self) -> None:
        if not self._left:  # else the receiver goes on when that is sent
            self._receiver.resume_writing()

    # ---- the receiver's transport

    def write(self, data: Bytes) -> None:
        if not self._left:
            self._transport.write(data)
        elif not self._ending:
            self._left.append(data)

    def writelines(self, list_of_data: Iterable[Bytes | Stretch]) -> None:
        pieces: list[Any] = list(list_of_data)
        if self._left:
            if not self._ending:
                self._left += pieces
        elif FileStretch not in map(type, pieces):
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
        left, budget = self._left, TURN_BYTES
        try:
            if self._transport.get_write_buffer_size():  # the loop's own queue goes first: nothing overtakes it
                self._wait_for_socket()
                return
            sock = self._socket = self._socket or _second_handle(self._transport.get_extra_info("socket"))
            while left and budget > 0:
                piece = left[0]
                more = socket.MSG_MORE if len(left) > 1 else 0  # heads go in one segment with what they are heads of
                if isinstance(piece, FileStretch):
                    budget -= piece.send(sock, more)
                    if not piece:
                        left.popleft()
                else:
                    sent = sock.send(piece, more)
                    if sent == len(piece):
                        left.popleft()
                    else:
                        left[0] = memoryview(piece)[sent:]
        except BlockingIOError:
            pass
        except OSError as error:
            self._failed(error)
            return
        self._settle(sock)

    def _wait_for_socket(self) -> None:
        """Be called when the socket takes more; the receiver waits for that."""
        if not self._waiting:
            self._waiting = True
            sock = self._socket = self._socket or _second_handle(self._transport.get_extra_info("socket"))
            self._loop.add_writer(sock, self._send)
            self._receiver.pause_writing()
        if self._look is None:
            self._look = self._loop.call_later(REMOVED_S / 2, self._look_at_files)

    def _look_at_files(self) -> None:
        """End the connection when what it has to send at two looks is of a file that was removed: it would hold the
        disk space of a deleted segment for as long as its client likes."""
        self._look = None
        before, self._removed = self._removed, None
        for piece in self._left if self._waiting else ():
            if isinstance(piece, FileStretch) and (piece is before or piece.is_removed()):
                self._removed = piece
                break
        if before is not None and self._removed is before:
            log.info("%s reads too slowly what was deleted meanwhile: the connection is closed", self._peername)
            self.abort()
        elif self._waiting:
            self._look = self._loop.call_later(REMOVED_S / 2, self._look_at_files)

    def _settle(self, sock: socket.socket) -> None:
        """Wait for the socket if something is left; else the receiver may go on."""
        if self._left:
            self._wait_for_socket()
            return
        if not self._waiting:
            return
        self._waiting = False
        self._loop.remove_writer(sock)
        if self._ending:
            self._ending = False
            self.close()
        else:
            self._receiver.resume_writing()

    def _failed(self, error: OSError) -> None:
        log.debug("sending to %s failed: %s", self._peername, error)
        self.abort()

    def _drop(self) -> None:
        """Forget what is left, and our handle of the socket: the connection ends when the last one is closed."""
        self._left.clear()
        self._removed = None
        if self._look is not None:
            self._look.cancel()
            self._look = None
        sock, self._socket = self._socket, None
        if sock is not None:
            if self._waiting:
                self._loop.remove_writer(sock)
                self._waiting = False
            sock.close()


def _second_handle(theirs: Any) -> socket.socket:
    """The loop lets nobody write to its own handle, nor wait for it."""
    sock = socket.fromfd(theirs.fileno(), theirs.family, theirs.type)
    sock.setblocking(False)
    return sock
