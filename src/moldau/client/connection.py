"""One connection to one node: frames, correlation ids, versions both sides know, timeouts.

Decides which version of a request is sent, and when a silent peer is given up. Does not retry, route or reconnect
(client.py does) and reads no error code but the handshake's. Requests are pipelined: ``ask`` writes at once and answers
come back in order. A response and the views in it belong to the caller: a small frame is copied once, out of the reused
receive buffer; a large one is received straight into memory of its own. What holds thousands of items is encoded and
decoded in slices, with turns of the loop in between; what comes after it waits.
Sources: protocol guide; KIP-35 and KIP-511 (ApiVersions). Read next: moldau/wire/frames.py, client.py.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

from moldau.client.lines import (
    DEFAULTS,
    ConnectionOptions,
    RequestTimedOut,
    Served,
    UnsupportedApi,
    answer_version,
    shake_hands,
)
from moldau.model.named import NamedTuple
from moldau.ports import Handle, Transport, World
from moldau.wire.apis import APIS
from moldau.wire.codec import Buffer, Malformed
from moldau.wire.frames import read_response_body, read_response_body_in_slices, request_frame_in_slices
from moldau.wire.schema import Message, Request, ResponseT

T = TypeVar("T")

RECEIVE_BYTES = 64 << 10
"""The reused buffer. Frames that do not fit get memory of their own."""
SLICES_FROM_BYTES = 1 << 14
"""Shorter answers are decoded at once: a few thousand items of arrays at most."""


class _Pending(NamedTuple):
    answer: asyncio.Future[Any]  # Any: the class of each response is that of its request
    api_key: int
    version: int
    deadline_ms: int

    def give(self, response: Message) -> None:
        """Answer the request; the asker may have gone."""
        if not self.answer.done():
            self.answer.set_result(response)


class Connection(asyncio.BufferedProtocol):
    """One connection, open from ``connect`` until ``closed``; the ``Receiver`` of its own transport.

    Derives from asyncio's class because asyncio, unlike uvloop, asks for it by name.

    ``on_close(error)`` is called once when the connection ends, with None when we closed it ourselves.
    """

    def __init__(self, world: World, options: ConnectionOptions = DEFAULTS) -> None:
        self.options = options
        self.on_close: Callable[[Exception | None], object] | None = None
        self._backlogged = False
        self.versions = Served()
        """What the peer serves, as it said in the handshake."""
        self.peer = "the peer"
        """``host:port`` of the other side, for messages."""
        self._world = world
        self._transport: Transport | None = None
        self._closed: Exception | None = None
        self._pending: dict[int, _Pending] = {}
        self._next_id = 0
        self._timer: Handle | None = None
        self._timer_at = 0
        self._buffer = bytearray(RECEIVE_BYTES)
        self._view = memoryview(self._buffer)
        self._filled = 0
        self._large: memoryview | None = None
        self._large_filled = 0
        self._encoding: deque[tuple[int, Generator[None, None, list[Buffer]]]] = deque()
        """Ids and frames of requests that are not sent yet: one is being encoded in slices, the others come after."""
        self._decoding: tuple[_Pending, Generator[None, None, Message]] | None = None
        """The answer that is being decoded in slices. Nothing else is read meanwhile."""

    @property
    def closed(self) -> bool:
        return self._closed is not None

    @property
    def backlogged(self) -> bool:
        """More is buffered for sending than the transport likes: a polite sender waits."""
        return self._backlogged

    @property
    def in_flight(self) -> int:
        """Requests that wait for their answer."""
        return len(self._pending) + (self._decoding is not None)

    def version_for(self, request: type[Message], highest: int | None = None) -> int:
        """The highest version of ``request`` that both sides know (and that is not above ``highest``).

        Raises UnsupportedApi when there is none.
        """
        return self.versions.pick(request, highest, self.peer)

    def ask(
        self,
        message: Request[ResponseT],
        *,
        version: int | None = None,
        timeout_ms: int | None = None,
        client_id: str | None = None,
    ) -> asyncio.Future[ResponseT]:
        """Send a request now; the awaitable gives its response (a message of the same api key). ``client_id``: of whom
        it is passed on for; None: our own.

        Buffers of records in the message are handed to the transport, not copied: leave them alone until the answer is
        there. Raises UnsupportedApi at once. The awaitable raises ConnectionError when the connection ends first
        (RequestTimedOut when we ended it for silence), or the version has no room for what a long request holds. A peer
        that sends what cannot be read is disconnected.
        """
        if version is None:
            version = self.version_for(type(message))
        answer: asyncio.Future[ResponseT] = asyncio.get_running_loop().create_future()
        if self._closed is not None:
            answer.set_exception(_again(self._closed))
            return answer
        wait_ms = self.options.request_timeout_ms if timeout_ms is None else timeout_ms
        deadline_ms = self._world.clock.monotonic_ms() + wait_ms
        id = self._send(message, version, client_id)
        self._pending[id] = _Pending(answer, message.api_key, version, deadline_ms)
        if self._timer is None or deadline_ms < self._timer_at:
            self._arm(deadline_ms, wait_ms)
        return answer

    def tell(self, message: Request[Message], *, version: int | None = None) -> None:
        """Send a request that has no answer (Produce with acks=0). ConnectionError when closed."""
        if self._closed is not None:
            raise _again(self._closed)
        self._send(message, self.version_for(type(message)) if version is None else version)

    def close(self) -> None:
        """Close; what is pending fails with ConnectionError."""
        self._end(ConnectionError(f"the connection to {self.peer} was closed here"), None)

    def _send(self, message: Message, version: int, client_id: str | None = None) -> int:
        assert self._transport is not None, "a request before the connection was made"
        id = self._next_id
        self._next_id = (id + 1) & 0x7FFFFFFF
        work = request_frame_in_slices(message, version, id, self.options.client_id if client_id is None else client_id)
        if not self._encoding:
            try:
                next(work)
            except StopIteration as end:  # as nearly always
                self._write(end.value)
                return id
            self._world.tasks.call_soon(self._encode_on)
        self._encoding.append((id, work))
        return id

    def _write(self, parts: list[Buffer]) -> None:
        assert self._transport is not None, "a request before the connection was made"
        if len(parts) == 1:
            self._transport.write(parts[0])
        else:
            self._transport.writelines(parts)

    def _encode_on(self) -> None:
        """Encode the next slice of what is to be sent."""
        if self._closed is not None:
            self._encoding.clear()
            return
        id, work = self._encoding[0]
        try:
            next(work)
        except StopIteration as end:
            self._encoding.popleft()
            self._write(end.value)
        except Malformed as error:
            self._encoding.popleft()
            pending = self._pending.pop(id, None)
            if pending is None:  # nobody waits for an answer, and could be told
                self._end(ConnectionError(str(error)), error)
            elif not pending.answer.done():
                pending.answer.set_exception(ConnectionError(str(error)))
        if self._encoding:
            self._world.tasks.call_soon(self._encode_on)

    # -- time

    def _arm(self, deadline_ms: int, wait_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline_ms
        self._timer = self._world.tasks.call_later(max(wait_ms, 0), self._look_at_deadlines)

    def _look_at_deadlines(self) -> None:
        """One timer per connection, not per request: most never fire."""
        self._timer = None
        if not self._pending:
            return
        earliest = min(self._pending.values(), key=lambda p: p.deadline_ms)
        now_ms = self._world.clock.monotonic_ms()
        if now_ms < earliest.deadline_ms:
            self._arm(earliest.deadline_ms, earliest.deadline_ms - now_ms)
            return
        error = RequestTimedOut(f"{self.peer} did not answer {APIS[earliest.api_key].name} in time")
        self._end(error, error)

    # -- the receiving half (asyncio.BufferedProtocol)

    def connection_made(self, transport: Any) -> None:  # Any: asyncio gives any transport, uvloop its own
        self._transport = transport
        if address := transport.get_extra_info("peername"):  # asked now: uvloop raises ValueError once it is closed
            self.peer = f"{address[0]}:{address[1]}"
        if self._closed is not None:  # given up while it was being made
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        error = exc if isinstance(exc, ConnectionError) else ConnectionError(f"{self.peer} closed the connection")
        if exc is not None and error is not exc:
            error.__cause__ = exc
        self._end(error, error)

    def eof_received(self) -> bool | None:
        return False

    def pause_writing(self) -> None:
        self._backlogged = True

    def resume_writing(self) -> None:
        self._backlogged = False

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._large is not None:
            return self._large[self._large_filled :]
        return self._view[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._large is not None:
            self._large_filled += nbytes
            if self._large_filled == len(self._large):
                frame, self._large = self._large, None
                self._answer(frame)
            return
        self._filled += nbytes
        if self._closed is None and self._decoding is None:
            self._read_frames()

    def _read_frames(self) -> None:
        start, filled, buffer = 0, self._filled, self._buffer
        while filled - start >= 4:
            size = int.from_bytes(buffer[start : start + 4], "big", signed=True)
            if size < 4 or size > self.options.max_frame_bytes or not self._pending:
                self._distrust(f"a frame of {size} bytes for {len(self._pending)} requests")
                return
            end = start + 4 + size
            if end > filled:
                if 4 + size > RECEIVE_BYTES:
                    self._begin_large(size, start + 4, filled)
                    return
                break
            self._answer(memoryview(bytes(self._view[start + 4 : end])))
            if self._closed is not None:
                return
            start = end
            if self._decoding is not None:
                break
        if start:
            rest = filled - start
            buffer[:rest] = buffer[start:filled]
            self._filled = rest

    def _begin_large(self, size: int, start: int, filled: int) -> None:
        large = memoryview(bytearray(size))
        have = filled - start
        large[:have] = self._view[start:filled]
        self._large, self._large_filled, self._filled = large, have, 0

    def _answer(self, frame: memoryview) -> None:
        id = int.from_bytes(frame[:4], "big", signed=True)
        pending = self._pending.pop(id, None)
        if pending is None:
            self._distrust(f"an answer to request {id}, which was not asked")
            return
        version = answer_version(pending.api_key, pending.version, frame)
        if len(frame) >= SLICES_FROM_BYTES:
            self._decode(pending, read_response_body_in_slices(frame, pending.api_key, version))
            return
        try:
            response = read_response_body(frame, pending.api_key, version)
        except Malformed as error:
            self._pending[id] = pending
            self._distrust(str(error))
            return
        pending.give(response)

    def _decode(self, pending: _Pending, work: Generator[None, None, Message]) -> None:
        """Decode the first slice of an answer; mostly it is the last one. Else nothing more is read before that."""
        self._decoding = pending, work
        if not self._decoded() and self._closed is None:
            assert self._transport is not None, "an answer came over a transport"
            self._transport.pause_reading()
            self._world.tasks.call_soon(self._decode_on)

    def _decode_on(self) -> None:
        if self._closed is not None:
            return
        if not self._decoded():
            if self._closed is None:
                self._world.tasks.call_soon(self._decode_on)
            return
        self._read_frames()
        if self._closed is None and self._decoding is None and self._transport is not None:
            self._transport.resume_reading()

    def _decoded(self) -> bool:
        """Whether the next slice was the last one, and the answer is given to who asked."""
        assert self._decoding is not None, "an answer is being decoded"
        pending, work = self._decoding
        try:
            next(work)
        except StopIteration as end:
            self._decoding = None
            pending.give(end.value)
            return True
        except Malformed as error:
            self._distrust(str(error))
        return False

    def _distrust(self, why: str) -> None:
        error = ConnectionError(f"{self.peer} sent what cannot be read: {why}")
        self._end(error, error)

    def _end(self, error: Exception, seen: Exception | None) -> None:
        if self._closed is not None:
            return
        self._closed = error
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            if seen is None:
                self._transport.close()
            else:
                self._transport.abort()
        pending = list(self._pending.values())
        self._pending.clear()
        if self._decoding is not None:
            pending.append(self._decoding[0])
            self._decoding = None
        for waiting in pending:
            if not waiting.answer.done():
                waiting.answer.set_exception(_again(error))
                waiting.answer.exception()  # whoever dropped the answer does not want to read of it in the log
        if self.on_close is not None:
            self.on_close(seen)


async def connect(world: World, host: str, port: int, options: ConnectionOptions = DEFAULTS) -> Connection:
    """Connect and shake hands.

    ConnectionRefusedError comes through unchanged: the host is up and nobody listens, which fast death relies on. Other
    failures are OSError; ConnectionError (an OSError too) when the handshake fails or time runs out.
    """
    connection = Connection(world, options)
    try:
        await within(world, options.connect_timeout_ms, world.net.connect(host, port, connection))
        connection.versions = await within(
            world, options.connect_timeout_ms, shake_hands(connection, options, connection.peer)
        )
    except BaseException:
        connection.close()
        raise
    return connection


async def within(world: World, limit_ms: int, work: Coroutine[object, object, T]) -> T:
    """``work``, given up after ``limit_ms`` with RequestTimedOut."""
    task = asyncio.ensure_future(work)
    late = False

    def give_up() -> None:
        nonlocal late
        late = True
        task.cancel()

    timer = world.tasks.call_later(limit_ms, give_up)
    try:
        return await task
    except asyncio.CancelledError:
        task.cancel()
        if late:
            raise RequestTimedOut(f"no connection within {limit_ms} ms") from None
        raise
    finally:
        timer.cancel()


def _again(error: Exception) -> Exception:
    """A fresh exception of the same kind and text: one raised to many waiters would collect all their tracebacks."""
    if isinstance(error, (RequestTimedOut, ConnectionRefusedError, ConnectionResetError, BrokenPipeError)):
        return type(error)(*error.args)
    return ConnectionError(*error.args)


__all__ = ["Connection", "ConnectionOptions", "RequestTimedOut", "UnsupportedApi", "connect", "within"]
