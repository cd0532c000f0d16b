"""One client's connection: whole frames are handled in the order in which they came, answers leave in that order.

Answers of a wake-up leave in one write. A connection is read from no more while its client does not read, while too
many of its requests are unanswered or too many bytes of its answers wait, and while a long request is worked on; after
some milliseconds of its requests, or of everybody's large ones, it goes on in the next turn of the loop. Malformed
frames, and frames larger than allowed, are refused before memory is taken. What each request does is
``moldau/broker/api``; read next: ``receive_buffer.py``.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Awaitable, Callable, Generator
from types import GeneratorType
from typing import Any, TypeVar

from moldau.broker.network.charging import Charge, charge
from moldau.broker.network.context import Context
from moldau.broker.network.listener_state import ListenerState
from moldau.broker.network.memory import ANSWERED_HERE, FETCH, READ_ONLY, LongWork
from moldau.broker.network.parked import session_of
from moldau.broker.network.regulating import Regulated
from moldau.broker.network.serving import (
    PRODUCE,
    SLICES_FROM_BYTES,
    Encoded,
    Slot,
    decode_kept_in_slices,
    encoded,
    freed,
    items_max,
    kept_whole,
    memory_of,
    of_unsupported,
)
from moldau.ports.buggify import CLOSED_CONNECTION
from moldau.wire.codec import Buffer, Malformed
from moldau.wire.frames import RequestHeader, read_request, read_request_header, read_request_in_slices
from moldau.wire.schema import Message

log = logging.getLogger(__name__)

TURN_NS = 5_000_000
"""After so long the requests of one connection wait until the others had their turn."""
FLUSH_BYTES = 1 << 18
"""So many bytes of answers are written before another request is looked at: the client may not read."""
TURN_BYTES = 1 << 22
"""After so many bytes of answers the others have their turn."""
_SIZE = struct.Struct(">i")

T = TypeVar("T")


class Connection(Regulated):
    """One client."""

    __slots__ = (
        "_busy", "_expected", "_flushing", "_out", "_out_bytes", "_out_memory", "_ready_bytes", "_stalled_bytes",
        "_written", "heard", "since_ms",
    )  # fmt: skip

    def __init__(self, listener: ListenerState) -> None:
        super().__init__(listener)
        self.since_ms = listener.world.clock.monotonic_ms()
        """When it was made, on the monotonic clock."""
        self.heard = True
        """Something came since ``IdleSweep`` last looked."""
        self._ready_bytes = 0  # of answers that wait for an earlier one
        self._expected = 0  # bytes of answers that are being made
        self._out: list[Buffer] = []
        self._out_bytes = self._out_memory = 0
        self._stalled_bytes = 0  # in memory, not taken by the peer
        self._busy = False  # inside buffer_updated: it flushes at its end
        self._flushing = False
        self._written = 0  # in memory, by the last write, and what was stalled before it

    # ---- asyncio's side

    def connection_made(self, transport: Any) -> None:  # Any: asyncio gives any transport, uvloop its own
        self._transport = transport
        self.peer = transport.get_extra_info("peername")
        if self.listener.closing or self.listener.turns_away(self.peer, transport):
            transport.abort()
            return
        self.listener.connections[self] = None
        if self.listener.limits is not None:
            self.listener.limits.came(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.listener.connections.pop(self, None)
        self.listener.unread.remove(self)
        if self.listener.limits is not None:
            self.listener.limits.left(self)
        self._transport = None
        self.unthrottle()
        for slot in self._slots:
            self._made(slot, 0)
        self._slots.clear()
        self._out.clear()
        self._ready_bytes = self._stalled_bytes = 0
        self._receive_buffer.drop()
        self.listener.memory.left(self)
        self.waiting.abandon()
        for hook in self.listener.closed_hooks:
            hook(self)

    def pause_writing(self) -> None:
        self._stalled = True
        if self._transport is not None:
            self._count_stalled()
        self._regulate()

    def resume_writing(self) -> None:
        self._stalled = False
        self._stalled_bytes = 0
        self._account()
        self._regulate()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._receive_buffer.space()

    def buffer_updated(self, nbytes: int) -> None:
        self.heard = True
        came = self._receive_buffer.arrived(nbytes)
        if came is not None:
            self._busy = True
            try:
                self._parse(came)
            except Malformed as error:
                self._refuse(str(error))
            finally:
                self._busy = False
                self._flush()
        if self._work is not None or self._receive_buffer.come:
            self._regulate()

    # ---- memory

    def _account(self) -> None:
        self.listener.memory.respond(self, self._ready_bytes + self._stalled_bytes)

    # ---- frames

    def _parse(self, came: memoryview) -> None:
        """Handle whole frames; what is left is kept for later."""
        listener, memory = self.listener, self.listener.memory
        start, end = 0, len(came)
        need, sent, handled, largest, began_ns, processor_ns = 4, 0, 0, 0, 0, -1
        while end - start >= 4:
            (size,) = _SIZE.unpack_from(came, start)
            need = 4 + size
            if not 0 <= size <= listener.frame_bytes_max:
                raise Malformed(f"a frame of {size} bytes; socket.request.max.bytes allows {listener.frame_bytes_max}")
            stop = start + need
            if stop > end or self._is_paused:
                break
            if memory.busy and self._put_off_for_room(came, start, size):
                break
            if listener.turn.is_over and self._put_off_for_turn(size):
                break
            # The low byte of its api key, which is all of it for what is served.
            if size > 1 and came[start + 5] in READ_ONLY and not memory.may_begin_read(self):
                self._refused_room = True
                break
            if listener.early is not None and listener.put_off_until_admitted(self, came[start + 4 : stop]):
                break
            if not handled:
                began_ns, processor_ns, self._called = listener.now_ns(), listener.turn.processor_ns(), False
            elif sent >= TURN_BYTES or listener.now_ns() - began_ns >= TURN_NS:
                self._turn_over = True
                break
            handled += 1
            largest = max(largest, size)
            self._handle(came[:stop], start + 4)
            if self._transport is None:
                return
            start, need = stop, 4
            if self._out_bytes >= FLUSH_BYTES:
                sent += self._out_bytes
                self._flush()
        self._receive_buffer.keep(came, start, need)
        self._took(listener.now_ns() - began_ns if handled else 0, processor_ns, largest)

    def _put_off_for_room(self, came: memoryview, start: int, size: int) -> bool:
        """Put off the request whose frame of so many bytes begins there, if there is no room for it beside what waits;
        whether it is put off."""
        api_key = int.from_bytes(came[start + 4 : start + 6], "big") if size >= 2 else -1
        is_large = size >= SLICES_FROM_BYTES and api_key != PRODUCE
        memory = self.listener.memory
        session_id = session_of(came[: start + 4 + size], start + 4) if api_key == FETCH else 0
        is_long = bool(session_id) and memory.parked.is_long_session(session_id)
        self._refused_room = not (
            memory.admits(self, api_key, self._expected, is_large=is_large or is_long)
            and (
                api_key != FETCH
                or not memory.parked.are_many
                or (session_id and not is_long)
                or memory.parked.admits(self)
            )
        )
        return self._refused_room

    def _handle(self, frame: memoryview, start: int) -> None:
        """Handle the request that is all of ``frame`` from ``start`` on; ``frame`` begins where its buffer does."""
        header = read_request_header(frame, start)
        answer = self.listener.answers.get(header.api_key)
        if answer is None or not answer.low <= header.api_version <= answer.high:
            self._unsupported(header)
        elif len(frame) - start < SLICES_FROM_BYTES:
            self._serve(read_request(frame, header), header, len(frame) - start)
        else:
            self._decode(frame, start, header)

    def _decode(self, frame: memoryview, start: int, header: RequestHeader) -> None:
        """Decode a long frame: mostly it is done at once; else in slices, from bytes that stay where they are."""
        most = items_max(header.api_key, self.listener.kind)
        work = read_request_in_slices(frame, header, most)
        try:
            next(work)
        except StopIteration as end:
            self._serve(end.value, header, len(frame) - start)
            return
        work.close()
        size = len(frame) - start
        kept = decode_kept_in_slices(self._receive_buffer, frame, start, header, most)
        self._begin(kept, header, lambda found: self._serve(found, header, size, is_kept=True), is_large=True)

    def _begin(
        self, work: Generator[None, None, T], header: RequestHeader, then: Callable[[T], object], *, is_large: bool
    ) -> None:
        """Work on a request in slices, the first one now; ``then`` is given what comes of it. Nothing else of this
        connection is handled meanwhile."""
        self._work = work
        kind = self.listener.memory.begin(header.api_key, is_large=is_large)
        self._step(work, header, then, kind)

    def _step(
        self, work: Generator[None, None, T], header: RequestHeader, then: Callable[[T], object], kind: LongWork
    ) -> None:
        """Work on, a slice at a time; not at all when nobody is there to be answered any more."""
        try:
            if self._transport is not None:
                next(work)
                self.listener.turn.go_on(header.api_key, lambda: self._step(work, header, then, kind))
                return
            work.close()
        except StopIteration as end:
            self._end_work(kind)
            self._go_on_with(then, end.value)
        except Malformed as error:
            self._end_work(kind)
            self._refuse(str(error))
        except Exception as error:
            self._end_work(kind)
            self._failed(header, error)
        else:
            self._end_work(kind)

    def _end_work(self, kind: LongWork) -> None:
        self._work = None
        self.listener.memory.end(kind)

    def _go_on_with(self, then: Callable[[T], object], found: T) -> None:
        try:
            then(found)
        except Malformed as error:
            self._refuse(str(error))
        if self._work is None and not self._encoding:
            self.waiting.made()
        self._regulate()

    def _serve(self, request: Message, header: RequestHeader, size: int, *, is_kept: bool = False) -> None:
        """Have the request of so many bytes handled, and its answer take its place in the line. ``is_kept``: its bytes
        stay where they are."""
        listener = self.listener
        stats = listener.stats.count(header.api_key, request)
        began_ms = listener.now_ms() if stats.timed else None
        context = Context(self, header)
        self.waiting.asked(header.api_key)
        quotas, account = listener.quotas, None
        if quotas is not None and quotas.active:
            account = charge(quotas, listener.world.clock, header, request, size=size, listener_kind=listener.kind)
            context.charge = account
        try:
            result = listener.handler(header.api_key)(request, context)
            if account is not None:
                result = self._account_for(account, result)
            ready = None
            if isinstance(result, Message):  # inside: an answer that this version cannot hold is the handler's failure
                ready = encoded(result, header, listener.world.tasks)
                if began_ms is not None or stats.tells:
                    listener.answered(stats, began_ms, result)
        except Exception as error:
            listener.handler_failed(header, error)
            raise Malformed(f"request {header.api_key} v{header.api_version} failed: {error!r}") from error
        if result is None or self._transport is None:
            return
        if type(ready) is list and not self._slots:  # the next to go, as most are
            self._put_out(ready)
            self._advance()
            return
        slot = Slot(stats, began_ms, account)
        self._slots.append(slot)
        slot.is_large = size >= SLICES_FROM_BYTES
        if type(ready) is not list:
            self._expect(slot, header.api_key)
        if isinstance(result, Message):
            assert ready is not None, "a response was encoded"
            self._fill(slot, ready, header)
        elif isinstance(result, Generator):
            kept = result if is_kept else kept_whole(self._receive_buffer, request, result)
            work = freed(listener.world.tasks, request, kept)
            self._begin(work, header, lambda found: self._worked(slot, found, header), is_large=slot.is_large)
        else:
            self._await(result, slot, header)

    def _expect(self, slot: Slot, api_key: int) -> None:
        """The answer is being made."""
        slot.api_key, slot.expected = api_key, self.listener.memory.expect(api_key, is_large=slot.is_large)
        self._expected += slot.expected

    def _made(self, slot: Slot, size: int) -> None:
        """It is there, or will never be."""
        if slot.expected:
            self._expected -= slot.expected
            self.listener.memory.made(slot.api_key, slot.expected, size, is_large=slot.is_large)
            slot.expected = 0
        while slot.works:
            self.listener.memory.end(slot.works.pop())

    def _account_for(self, account: Charge, result: Any) -> Any:  # Any: whatever handlers return
        """The handler has returned: throttle the client as it is due now; what is left to do is counted too."""
        account.handled()
        now = result is None or isinstance(result, Message)
        self.throttle(account.complete(result) if now else account.throttle_ms)
        return account.timed(result)

    def _unsupported(self, header: RequestHeader) -> None:
        """ApiVersions of a version we lack is answered in version 0 (KIP-511); any other ends the connection."""
        frame = of_unsupported(self.listener, header)
        slot = Slot(None, None, None)
        self._slots.append(slot)
        self._fill(slot, frame, header)

    # ---- answers

    def _await(self, result: Awaitable[Message | None], slot: Slot, header: RequestHeader) -> None:
        if slot.is_large and header.api_key in ANSWERED_HERE:  # its answer's items are there before their bytes are
            slot.works.append(self.listener.memory.begin(header.api_key, is_large=True))
        future = asyncio.ensure_future(result)
        future.add_done_callback(lambda done: self._answered(done, slot, header))

    def _answered(self, done: asyncio.Future[Message | None], slot: Slot, header: RequestHeader) -> None:
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
        self._settle(slot, done.result(), header)

    def _settle(self, slot: Slot, response: Message | None, header: RequestHeader) -> None:
        """A request that was not answered at once has its answer, or None."""
        if slot.charge is not None:
            self.throttle(slot.charge.complete(response))
        if response is None:
            self._made(slot, 0)
            self._slots.remove(slot)
            self._advance()
            return
        try:
            ready = encoded(response, header, self.listener.world.tasks)
        except Exception as failure:  # outside of any task: nobody else would hear of it, and the client would wait
            self._failed(header, failure)
            return
        if slot.stats is not None:
            self.listener.answered(slot.stats, slot.began_ms, response)
        self._fill(slot, ready, header)

    def _worked(self, slot: Slot, found: Message | Awaitable[Message | None] | None, header: RequestHeader) -> None:
        """The work in slices has its answer, or what that is still waited for."""
        if found is None or isinstance(found, Message):
            self._settle(slot, found, header)
        else:
            self._await(found, slot, header)

    def _failed(self, header: RequestHeader, error: BaseException) -> None:
        """There will be no answer: the node hears why, and the client by its connection's end."""
        self.listener.handler_failed(header, error)
        self._refuse(f"request {header.api_key} v{header.api_version} failed: {error!r}")

    def _fill(self, slot: Slot, ready: Encoded, header: RequestHeader) -> None:
        """The answer is encoded, or being encoded in slices: it takes its place."""
        if isinstance(ready, GeneratorType):
            slot.works.append(self.listener.memory.begin(header.api_key, is_large=slot.is_large))
            self._encoding += 1  # nothing else is handled meanwhile: a client would have many of these answers made
            self._encode_slowly(slot, ready, header)
            if not self._busy:
                self._regulate()
            return
        assert isinstance(ready, list), "an encoded answer is its buffers"
        slot.frame = ready
        if slot.expected or slot.works:
            self._made(slot, memory_of(ready))
        if self._slots[0] is not slot:
            slot.bytes = memory_of(ready)
            self._ready_bytes += slot.bytes
            self._account()
        self._advance()

    def _encode_slowly(self, slot: Slot, work: Generator[None, None, list[Buffer]], header: RequestHeader) -> None:
        """Encode on, a slice at a time."""
        if self._transport is None:
            self._end_encoding()
            work.close()
            return
        try:
            next(work)
        except StopIteration as end:
            self._end_encoding()
            self._fill(slot, end.value, header)
        except Exception as failure:
            self._end_encoding()
            self._failed(header, failure)
        else:
            self.listener.turn.go_on(header.api_key, lambda: self._encode_slowly(slot, work, header))

    def _end_encoding(self) -> None:
        self._encoding -= 1
        self.waiting.made()

    def _advance(self) -> None:
        """Queue the answers that are ready and next in order."""
        slots, freed = self._slots, 0
        while slots and (frame := slots[0].frame) is not None:
            freed += slots.popleft().bytes
            self._put_out(frame)
        if freed:
            self._ready_bytes -= freed
            self._account()
        if not self._busy and self._out and not self._flushing:
            self._flushing = True
            self.listener.world.tasks.call_soon(self._flush)
        if not self._reading:
            self._regulate()

    def _put_out(self, frame: list[Buffer]) -> None:
        self._out += frame
        size = len(frame[0]) if len(frame) == 1 else sum(map(len, frame))
        self._out_bytes += size
        self._out_memory += size if len(frame) == 1 else memory_of(frame)

    def _flush(self) -> None:
        self._flushing = False
        out, transport = self._out, self._transport
        if not out or transport is None:
            return
        self._written = self._out_memory + (self._stalled_bytes if self._stalled else 0)
        self._out, self._out_bytes, self._out_memory = [], 0, 0
        if len(out) == 1:
            transport.write(out[0])
        else:
            transport.writelines(out)
        if self._stalled:
            self._count_stalled()
        if (buggify := self.listener.world.buggify) is not None and buggify(CLOSED_CONNECTION):
            transport.close()

    def _count_stalled(self) -> None:
        """What was written waits in memory, at most."""
        assert self._transport is not None, "only what is connected can stall"
        self._stalled_bytes = min(self._written, self._transport.get_write_buffer_size())
        self._account()

    def _refuse(self, why: str) -> None:
        log.warning("closing the connection of %s on %s: %s", self.peer, self.listener.name, why)
        self.close()

    def close(self) -> None:
        if self._transport is not None:
            self._flush()
            self._transport.close()
