"""The front door: accept, read frames, dispatch, answer in order (NT-1).

One connection object is a BufferedProtocol with one reused receive buffer; frames are parsed in place and handled at
once, in the order they came; answers leave in that order, all of a wake-up in one write. Too large or malformed frames
are refused before memory is taken. Back-pressure: a connection with too many unanswered requests, or whose peer does
not
read, is not read from. What each request does is moldau/broker/api.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import struct
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from moldau.broker.api import ANSWERS, Answer, Handler, handler
from moldau.broker.connection_limits import ConnectionLimits
from moldau.broker.idle import IdleSweep
from moldau.broker.traffic import ApiStats, RequestStats
from moldau.broker.waiting_room import Waiter
from moldau.ports import Transport, World
from moldau.ports.rare import CLOSED_CONNECTION
from moldau.wire.codec import Malformed
from moldau.wire.frames import RequestHeader, read_request, read_request_header, response_frame
from moldau.wire.schema import Message

log = logging.getLogger("moldau.server")

BUFFER_BYTES = 64 * 1024
KEEP_BUFFER_BYTES = (1 << 21) + 4096
"""A larger buffer, grown for one large frame, is given back after that frame."""
UNANSWERED_MAX = 200
FETCH = 1
EARLY = frozenset({4, 5, 6, 7, 18, 56, 67})
"""What a broker hears on the ZooKeeper plane before it knows its cluster: the controller, or brokers that it is
controller of. Clients wait: they would be told that no topic is there."""
_SIZE = struct.Struct(">i")


class Context:
    """Who asks, and how: handed to every handler beside the request."""

    __slots__ = ("api_key", "api_version", "client_id", "connection", "correlation_id", "kind", "listener")

    def __init__(self, connection: Connection, header: RequestHeader) -> None:
        self.connection = connection
        self.api_key = header.api_key
        self.api_version = header.api_version
        self.correlation_id = header.correlation_id
        self.client_id = header.client_id
        self.listener = connection.door.listener
        self.kind = connection.door.kind

    @property
    def peer_host(self) -> str:
        """The client's address, as Kafka prints hosts of group members."""
        name = self.connection.peer
        return str(name[0]) if name else "unknown"


class Door:
    """What the connections of one listener share."""

    def __init__(self, node: Any, world: World, *, listener: str, kind: str, frame_bytes_max: int) -> None:
        self.node = node
        self.world = world
        self.now_ms = world.clock.monotonic_ms
        self.listener = listener
        self.kind = kind
        self.frame_bytes_max = frame_bytes_max
        self.answers: dict[int, Answer] = ANSWERS[kind]
        self.handlers: dict[int, Handler] = {}
        self.connections: dict[Connection, None] = {}  # in their order: a simulated run must repeat
        self.stats = RequestStats()
        self.closing = False
        self.closed_hooks: list[Callable[[Connection], None]] = []
        self.limits: ConnectionLimits | None = None
        self.idle: IdleSweep | None = None
        self.early: frozenset[int] | None = None
        """The only requests that are handled before ``admit``; None: all are."""
        self._waiting: list[Connection] = []

    @property
    def requests(self) -> int:
        """How many have come."""
        return sum(one.requests for one in self.stats.by_key.values())

    def answered(self, stats: ApiStats, began_ms: int | None, response: Message) -> None:
        """An answer is ready: count how it went, and how long it took if that is timed."""
        if began_ms is not None:
            stats.took(self.now_ms() - began_ms)
        if stats.tells:
            stats.answered(response)

    def accept(self) -> Connection:
        return Connection(self)

    def handler(self, key: int) -> Handler:
        found = self.handlers.get(key)
        if found is None:
            found = self.handlers[key] = handler(key, self.kind)
        return found

    def comes_too_early(self, connection: Connection, frame: memoryview) -> bool:
        """Whether a request has to wait for ``admit``; its connection is read no further until then."""
        if self.early is None or read_request_header(frame).api_key in self.early:
            return False
        self._waiting.append(connection)
        connection.hold()
        return True

    def admit(self) -> None:
        """Handle every request from now on."""
        self.early = None
        waiting, self._waiting = self._waiting, []
        for connection in waiting:
            connection.release()

    def close(self) -> None:
        """Refuse new work and cut every connection."""
        self.closing = True
        if self.idle is not None:
            self.idle.stop()
        for connection in list(self.connections):
            connection.close()


class Connection(asyncio.BufferedProtocol):
    """One client."""

    def __init__(self, door: Door) -> None:
        self.door = door
        self.peer: Any = None
        self.since_ms = door.world.clock.monotonic_ms()
        """When it was made, on the monotonic clock."""
        self.heard = True
        """Something came since ``IdleSweep`` last looked."""
        self._transport: Transport | None = None
        self._buffer = bytearray(BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._start = 0  # first byte not yet parsed
        self._end = 0  # first free byte
        self.parked: list[Waiter] = []
        """Fetches that wait here, and what is left of them: a later request ends their wait (decision 9)."""
        self._slots: deque[list[Any]] = deque()  # one [frame or None, ...] per unanswered request, in order
        self._out: list[Any] = []
        self._reading = True
        self._stalled = False  # the peer does not read
        self._held = False  # too many connections
        self._busy = False  # inside buffer_updated: it flushes at its end
        self._flushing = False

    # ---- asyncio's side

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self.peer = transport.get_extra_info("peername")
        if self.door.closing:
            transport.abort()
            return
        self.door.connections[self] = None
        if self.door.limits is not None:
            self.door.limits.came(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.door.connections.pop(self, None)
        if self.door.limits is not None:
            self.door.limits.left(self)
        self._transport = None
        self._slots.clear()
        self._out.clear()
        for hook in self.door.closed_hooks:
            hook(self)

    def hold(self) -> None:
        """Too many connections: do not read from this one yet."""
        self._held = True
        self.door.world.tasks.call_soon(self._regulate)  # asyncio begins to read after connection_made

    def release(self) -> None:
        """There is room now."""
        self._held = False
        self._regulate()
        if self._reading:  # it was let in before the pause began: look at what has come meanwhile
            self.door.world.tasks.call_soon(self._resume)

    def refuse(self) -> None:
        """Too many connections from its address."""
        log.info("refusing a connection from %s on %s: max.connections.per.ip", self.peer, self.door.listener)
        if self._transport is not None:
            self._transport.abort()

    @property
    def waits(self) -> bool:
        """Whether it is not for the client to speak: an answer is due, or there is no room for its request yet."""
        return bool(self._slots) or self._held

    def expire(self, idle_ms: int) -> None:
        """Nothing was said for that long. What the client has not taken by now it does not want."""
        log.debug("closing the connection of %s on %s, idle for %d ms", self.peer, self.door.listener, idle_ms)
        if self._transport is not None:
            self._transport.abort()

    def eof_received(self) -> bool | None:
        return None

    def pause_writing(self) -> None:
        self._stalled = True
        self._regulate()

    def resume_writing(self) -> None:
        self._stalled = False
        self._regulate()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        self._end += nbytes
        self.heard = True
        if self._held:
            return
        self._busy = True
        try:
            self._parse()
        except Malformed as error:
            self._refuse(str(error))
        finally:
            self._busy = False
            self._flush()

    # ---- frames

    def _parse(self) -> None:
        view, door = self._view, self.door
        start, end = self._start, self._end
        while end - start >= 4:
            if len(self._slots) > UNANSWERED_MAX:  # the rest waits in the buffer until answers have gone out
                self._regulate()
                break
            (size,) = _SIZE.unpack_from(view, start)
            if not 0 <= size <= door.frame_bytes_max:
                raise Malformed(f"a frame of {size} bytes; socket.request.max.bytes allows {door.frame_bytes_max}")
            stop = start + 4 + size
            if stop > end or (door.early is not None and door.comes_too_early(self, view[start + 4 : stop])):
                break
            self._start = stop
            self._handle(view[start + 4 : stop])
            if self._transport is None:
                return
            start = stop
        self._settle(start, end)

    def _settle(self, start: int, end: int) -> None:
        """Move what is left of a frame to the front, into a buffer in which the whole frame fits."""
        left = end - start
        need = 4
        if left >= 4:
            (size,) = _SIZE.unpack_from(self._view, start)
            need = size + 4
        if left == 0 and len(self._buffer) <= KEEP_BUFFER_BYTES:
            self._start = self._end = 0
            return
        if need > len(self._buffer) or (left == 0 and len(self._buffer) > KEEP_BUFFER_BYTES):
            # Grow towards what has really come: a size alone must not take memory (law X1).
            room = max(BUFFER_BYTES, min(need, max(4 * left, 4 * BUFFER_BYTES)))
            if room > left and (room > len(self._buffer) or left == 0):
                fresh = bytearray(room)
                fresh[:left] = self._view[start:end]
                self._buffer, self._view = fresh, memoryview(fresh)
                self._start, self._end = 0, left
                return
        if start and (end == len(self._buffer) or start + need > len(self._buffer)):
            self._buffer[:left] = self._buffer[start:end]
            start, end = 0, left
        self._start, self._end = start, end

    def _handle(self, frame: memoryview) -> None:
        header = read_request_header(frame)
        door = self.door
        answer = door.answers.get(header.api_key)
        if answer is None or not answer.low <= header.api_version <= answer.high:
            self._unsupported(header)
            return
        request = read_request(frame, header)
        stats = door.stats.count(header.api_key, request)
        began_ms = door.now_ms() if stats.timed else None
        context = Context(self, header)
        if self.parked:
            self._end_waits(header.api_key)
        try:
            result = door.handler(header.api_key)(door.node, request, context)
            ready = None
            if isinstance(result, Message):  # inside: an answer that this version cannot hold is the handler's failure
                ready = response_frame(result, header.api_version, header.correlation_id)
                if began_ms is not None or stats.tells:
                    door.answered(stats, began_ms, result)
        except Exception as error:
            door.node.handler_failed(header, error)
            raise Malformed(f"request {header.api_key} v{header.api_version} failed: {error!r}") from error
        if result is None:
            return
        slot: list[Any] = [None, stats, began_ms]
        self._slots.append(slot)
        if isinstance(result, Message):
            slot[0] = ready
            self._advance()
        else:
            self._await(result, slot, header)

    def _end_waits(self, api_key: int) -> None:
        """Answers leave in order: do not let this request wait behind a fetch that waits for records.

        Other fetches end no wait: a client with two of them under way would go round as fast as it can.
        """
        if api_key == FETCH:
            self.parked = [wait for wait in self.parked if not wait.done]
            return
        parked, self.parked = self.parked, []
        for wait in parked:
            if not wait.done:
                wait.expire()

    def _unsupported(self, header: RequestHeader) -> None:
        """ApiVersions of a version we lack is answered in version 0 (KIP-511); any other ends the connection."""
        if header.api_key != 18:
            raise Malformed(
                f"api key {header.api_key} version {header.api_version} is not served on {self.door.listener}"
            )
        from moldau.broker.api.k18_api_versions import unsupported

        self._slots.append([response_frame(unsupported(self.door), 0, header.correlation_id)])
        self._advance()

    # ---- answers

    def _await(self, result: Awaitable[Message | None], slot: list[Any], header: RequestHeader) -> None:
        future: Any = asyncio.ensure_future(result) if inspect.iscoroutine(result) else result
        future.add_done_callback(lambda done: self._answered(done, slot, header))

    def _answered(self, done: asyncio.Future[Message | None], slot: list[Any], header: RequestHeader) -> None:
        if self._transport is None or done.cancelled():
            if self._transport is not None:
                self._refuse(f"request {header.api_key} was given up")
            elif not done.cancelled():
                done.exception()  # the client is gone; what it would have been told no longer matters
            return
        error = done.exception()
        if error is not None:
            self._failed(header, error)
            return
        response = done.result()
        if response is None:
            self._slots.remove(slot)
        else:
            try:
                slot[0] = response_frame(response, header.api_version, header.correlation_id)
            except Exception as failure:  # outside of any task: nobody else would hear of it, and the client would wait
                self._failed(header, failure)
                return
            self.door.answered(slot[1], slot[2], response)
        self._advance()

    def _failed(self, header: RequestHeader, error: BaseException) -> None:
        """There will be no answer: the node hears why, and the client by its connection's end."""
        self.door.node.handler_failed(header, error)
        self._refuse(f"request {header.api_key} v{header.api_version} failed: {error!r}")

    def _advance(self) -> None:
        """Queue the answers that are ready and next in order."""
        slots = self._slots
        while slots and slots[0][0] is not None:
            self._out.extend(slots.popleft()[0])
        if not self._busy and self._out and not self._flushing:
            self._flushing = True
            self.door.world.tasks.call_soon(self._flush)
        if not self._reading:
            self._regulate()

    def _flush(self) -> None:
        self._flushing = False
        out, transport = self._out, self._transport
        if not out or transport is None:
            return
        self._out = []
        if len(out) == 1:
            transport.write(out[0])
        else:
            transport.writelines(out)
        if (rare := self.door.world.rare) is not None and rare(CLOSED_CONNECTION):
            transport.close()

    def _regulate(self) -> None:
        wanted = not (self._stalled or self._held) and len(self._slots) <= UNANSWERED_MAX
        if wanted == self._reading or self._transport is None:
            return
        self._reading = wanted
        if wanted:
            self.door.world.tasks.call_soon(self._resume)
        else:
            self._transport.pause_reading()

    def _resume(self) -> None:
        """Handle what was left in the buffer, then read on."""
        if self._transport is None or not self._reading:
            return
        self.buffer_updated(0)
        if self._reading and self._transport is not None:
            self._transport.resume_reading()

    def _refuse(self, why: str) -> None:
        log.warning("closing the connection of %s on %s: %s", self.peer, self.door.listener, why)
        self.close()

    def close(self) -> None:
        if self._transport is not None:
            self._flush()
            self._transport.close()
