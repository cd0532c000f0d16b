"""Lines over blocking sockets: for scripts and Spark workers, which have no event loop and want none.

``drive`` runs a coroutine of the client to its end without a loop: what it awaits is read from the socket inside the
await. Faster than a loop for one connection, and safe in any thread, as long as one thread uses it at a time.
Does not route or retry (client.py). Read next: sync.py.
"""

from __future__ import annotations

import random
import select
import socket
import struct
import time
from collections.abc import Coroutine, Generator, Sequence
from typing import Any, Generic, TypeVar

from moldau.client.lines import (
    DEFAULTS,
    ConnectionOptions,
    Line,
    RequestTimedOut,
    Served,
    answer_version,
    connecting_within,
    shake_hands,
)
from moldau.wire.codec import Buffer, Malformed
from moldau.wire.frames import read_response_body, request_frame
from moldau.wire.schema import Message, Request, ResponseT

T = TypeVar("T")

RECEIVE_BYTES = 4 << 20
"""Asked of the kernel for each socket: a fetched megabyte should arrive while the last one is decoded."""


class _Answer(Generic[ResponseT]):
    """What ``ask`` gives: awaiting it reads the socket until the answer is there.

    The time for it counts from awaiting: nobody reads before, so an answer to a request that was sent long ago may lie
    in the socket, whole or in part, with nothing wrong on either side.
    """

    __slots__ = ("api_key", "error", "line", "response", "version", "wait_s")

    def __init__(self, line: SocketLine, api_key: int, version: int, wait_s: float) -> None:
        self.line = line
        self.api_key = api_key
        self.version = version
        self.wait_s = wait_s
        self.response: ResponseT | None = None
        self.error: Exception | None = None

    def __await__(self) -> Generator[object, None, ResponseT]:
        return self.take()
        yield  # makes this a generator, which never waits

    @property
    def settled(self) -> bool:
        return self.response is not None or self.error is not None

    def take(self) -> ResponseT:
        """The response, read now if need be; ConnectionError when the line ends first."""
        if not self.settled:
            self.line.receive_until(self)
        if self.error is not None:
            raise self.error
        assert self.response is not None, "settled by an answer, or by an error"
        return self.response


class SocketLine:
    """One connection; answers come in the order of the requests."""

    def __init__(self, host: str, port: int, options: ConnectionOptions = DEFAULTS) -> None:
        self.options = options
        self.versions = Served()
        self.peer = f"{host}:{port}"
        self._pending: dict[int, _Answer[Any]] = {}  # Any: the class of each response is that of its request
        self._next_id = 0
        self._socket: socket.socket | None = socket.create_connection((host, port), options.connect_timeout_ms / 1000)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)

    @property
    def closed(self) -> bool:
        """Whether no request can be sent; also when the other end has hung up while nothing was under way.

        Without a loop nobody hears of that in time: a request on such a line would be lost, and a produce that may or
        may not have been written cannot be sent again.
        """
        if self._socket is not None and not self._pending and self._has_hung_up(self._socket):
            self._end(ConnectionResetError(f"{self.peer} closed the connection"))
        return self._socket is None

    @staticmethod
    def _has_hung_up(line: socket.socket) -> bool:
        poll = select.poll()
        poll.register(line.fileno(), select.POLLIN)
        if not poll.poll(0):
            return False
        try:
            return not line.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    @property
    def backlogged(self) -> bool:
        return False  # sending waits by itself

    def fileno(self) -> int:
        """The socket's descriptor, -1 when closed."""
        return self._socket.fileno() if self._socket is not None else -1

    def version_for(self, request: type[Message], highest: int | None = None) -> int:
        return self.versions.pick(request, highest, self.peer)

    def ask(
        self, message: Request[ResponseT], *, version: int | None = None, timeout_ms: int | None = None
    ) -> _Answer[ResponseT]:
        """Send a request now; UnsupportedApi at once. See ``Connection.ask``."""
        if version is None:
            version = self.version_for(type(message))
        wait_ms = self.options.request_timeout_ms if timeout_ms is None else timeout_ms
        answer: _Answer[ResponseT] = _Answer(self, message.api_key, version, wait_ms / 1000)
        id = self._next_id
        self._next_id = (id + 1) & 0x7FFFFFFF
        if self._socket is None:
            answer.error = ConnectionError(f"the connection to {self.peer} is closed")
            return answer
        self._pending[id] = answer
        try:
            self._socket.settimeout(max(wait_ms, 1) / 1000)
            _send(self._socket, request_frame(message, version, id, self.options.client_id))
        except OSError as error:
            self._end(self._named(error))
        return answer

    def tell(self, message: Request[Message], *, version: int | None = None) -> None:
        """Send a request that has no answer (Produce with acks=0). ConnectionError when closed."""
        answer = self.ask(message, version=version)
        self._pending = {id: pending for id, pending in self._pending.items() if pending is not answer}
        if answer.error is not None:
            raise answer.error

    def receive_until(self, answer: _Answer[ResponseT]) -> None:
        """Read frames until ``answer`` is settled, one way or the other."""
        deadline = time.monotonic() + answer.wait_s
        try:
            while not answer.settled:
                self._receive(deadline)
        except (OSError, Malformed) as error:
            self._end(self._named(error))
        except BaseException:  # interrupted: half a frame may have come, and what is asked next would wait behind it
            self.close()
            raise

    def close(self) -> None:
        self._end(ConnectionError(f"the connection to {self.peer} was closed here"))

    def _receive(self, deadline: float) -> None:
        head = self._read(4, deadline)
        size = int.from_bytes(head, "big", signed=True)
        if size < 4 or size > self.options.max_frame_bytes:
            raise Malformed(f"a frame of {size} bytes")
        frame = self._read(size, deadline)
        (id,) = _ID.unpack_from(frame)
        pending = self._pending.pop(id, None)
        if pending is None:
            raise Malformed(f"an answer to request {id}, which was not asked")
        try:
            version = answer_version(pending.api_key, pending.version, frame)
            pending.response = read_response_body(frame, pending.api_key, version)
        except Malformed:
            self._pending[id] = pending
            raise

    def _read(self, size: int, deadline: float) -> memoryview:
        view = memoryview(self.options.room(size))
        got = 0
        while got < size:
            if self._socket is None:
                raise ConnectionError(f"the connection to {self.peer} is closed")
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._socket.settimeout(left)
            count = self._socket.recv_into(view[got:])
            if not count:
                raise ConnectionResetError(f"{self.peer} closed the connection")
            got += count
        return view

    def _named(self, error: Exception) -> Exception:
        if isinstance(error, TimeoutError):
            return RequestTimedOut(f"{self.peer} did not answer in time")
        if isinstance(error, ConnectionError):
            return error
        return ConnectionError(f"{self.peer}: {error}")

    def _end(self, error: Exception) -> None:
        if self._socket is None:
            return
        self._socket.close()
        self._socket = None
        pending, self._pending = self._pending, {}
        for answer in pending.values():
            answer.error = ConnectionError(*error.args) if type(error) is ConnectionError else error


_ID = struct.Struct(">i")


def _send(line: socket.socket, parts: list[Buffer]) -> None:
    """All the parts, without joining them: records go to the kernel from where they are."""
    for part in parts[:-1] if len(parts) > 1 else parts:
        line.sendall(part, socket.MSG_MORE if len(parts) > 1 else 0)
    if len(parts) > 1:
        line.sendall(parts[-1])


class SocketLines:
    """Opens socket lines; waits by sleeping."""

    def __init__(self, options: ConnectionOptions = DEFAULTS) -> None:
        self.options = options
        self._rng = random.Random()

    async def connect(self, host: str, port: int, limit_ms: int | None = None) -> Line:
        options = connecting_within(self.options, limit_ms)
        try:
            line = SocketLine(host, port, options)
        except (ValueError, OverflowError) as error:  # a label of 64 letters, a NUL, port 65536
            raise ConnectionError(f"{host}:{port} is no address: {error}") from error
        except TimeoutError:
            raise RequestTimedOut(f"no connection to {host}:{port} within {options.connect_timeout_ms} ms") from None
        try:
            line.versions = await shake_hands(line, options, line.peer)
        except BaseException:
            line.close()
            raise
        return line

    def now_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    async def pause(self, wait_ms: float) -> None:
        time.sleep(max(wait_ms, 0) / 1000)  # noqa: ASYNC251  # there is no loop to hold up

    async def first(self, answers: Sequence[_Answer[Message]], wait_ms: float) -> list[int]:
        ready = [i for i, answer in enumerate(answers) if answer.settled]
        if ready or not answers:
            return ready
        poll = select.poll()
        for answer in answers:
            poll.register(answer.line.fileno(), select.POLLIN)
        readable = {fd for fd, _ in poll.poll(max(wait_ms, 0))}
        return [i for i, answer in enumerate(answers) if answer.line.fileno() in readable]

    def below(self, n: int) -> int:
        return self._rng.randrange(n)


def drive(work: Coroutine[object, None, T]) -> T:
    """Run a coroutine that waits inside its awaits, and so never hands control back."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise AssertionError("a coroutine on blocking lines handed control back")
