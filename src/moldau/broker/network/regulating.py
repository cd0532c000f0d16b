"""When a connection is read from, and when it is not.

Not while its client does not read, too many of its requests are unanswered, a long request is worked on, it is another
connection's turn, there is no memory for what it brings, there are too many connections, or its client is throttled.
What has come of it meanwhile is kept, and handled first. Read next: ``connection.py``.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Generator

from moldau.broker.network.listener_state import ListenerState
from moldau.broker.network.receive_buffer import ReceiveBuffer
from moldau.broker.network.serving import SLICES_FROM_BYTES, Slot
from moldau.broker.network.turn import HEAVY_NS, LITTLE_BYTES, NOTED_NS, OVER_NS
from moldau.broker.network.waits import Waits
from moldau.ports import Handle, Transport

log = logging.getLogger(__name__)

UNANSWERED_MAX = 200


class Regulated(asyncio.BufferedProtocol):
    """The part of a connection that decides whether it is read from."""

    __slots__ = (
        "_called", "_encoding", "_held", "_is_heavy", "_light_bytes", "_moved", "_pace", "_reading", "_receive_buffer",
        "_refused_room", "_slots", "_stalled", "_throttle", "_throttled_until_ms", "_transport", "_turn_over",
        "_was_slow", "_work", "listener", "peer", "waiting",
    )  # fmt: skip

    def __init__(self, listener: ListenerState) -> None:
        self.listener = listener
        self.peer: tuple[str | int, ...] | None = None  # as the socket names it
        self._transport: Transport | None = None
        self._receive_buffer = ReceiveBuffer(self, listener.memory, listener.shared)
        self._slots: deque[Slot] = deque()  # one for each unanswered request, in order
        self._work: Generator[None, None, object] | None = None  # on a request in slices
        self._encoding = 0  # answers that are encoded in slices
        self._reading = True
        self._stalled = False  # the peer does not read
        self._held = False  # too many connections
        self._refused_room = False  # for another request
        self._turn_over = False
        self._called = False  # its turn has come
        self._is_heavy = False  # its last requests took long
        self._light_bytes = LITTLE_BYTES  # of the largest request that is known not to
        self._was_slow = False  # they took a whole turn, with what the loop waited for meanwhile
        self._throttle: Handle | None = None  # ends when its client may be heard again
        self._throttled_until_ms = 0
        self.waiting = Waits(self, listener.memory)
        self._moved: object = None
        # Who was waited for when that was last asked, and what had moved.
        self._pace: tuple[bool, bool, int] | None = None

    def hold(self) -> None:
        """Too many connections: do not read from this one yet."""
        self._held = True
        self.listener.world.tasks.call_soon(self._regulate)  # asyncio begins to read after connection_made

    def release(self) -> None:
        """There is room now."""
        self._held = False
        self._regulate()
        if self._reading:  # it was let in before the pause began: look at what has come meanwhile
            self.listener.world.tasks.call_soon(self._resume)

    def refuse(self) -> None:
        """Too many connections from its address."""
        log.info("refusing a connection from %s on %s: max.connections.per.ip", self.peer, self.listener.name)
        if self._transport is not None:
            self._transport.abort()

    def turn_away(self, wait_ms: int) -> None:
        """Its address makes connections too fast: serve nothing on it, and close it when that is made up for."""
        log.debug("closing a connection from %s on %s in %d ms: its quota", self.peer, self.listener.name, wait_ms)
        self.hold()
        self.listener.world.tasks.call_later(wait_ms, self._abort)

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def descriptor(self) -> int:
        """The file descriptor of its socket; -1 where there is none, as in a simulated network."""
        try:
            found = self._transport and self._transport.get_extra_info("socket")
        except ValueError:  # of uvloop, which has closed it and will say so
            return -1
        return int(found.fileno()) if found else -1

    def end_at_once(self) -> None:
        """Its client has gone, and the loop does not hear of it, as nothing is read."""
        log.debug("closing the connection of %s on %s: its client has gone", self.peer, self.listener.name)
        self._abort()

    @property
    def waits(self) -> bool:
        """Whether it is not for the client to speak: an answer is due, or there is no room for its request yet."""
        no_room = self._refused_room or self._receive_buffer.starved or self._turn_over
        return bool(self._slots) or self._held or no_room or self._throttle is not None or self._work is not None

    def expire(self, idle_ms: int) -> None:
        """Nothing was said for that long. What the client has not taken by now it does not want."""
        log.debug("closing the connection of %s on %s, idle for %d ms", self.peer, self.listener.name, idle_ms)
        if self._transport is not None:
            self._transport.abort()

    @property
    def _is_paused(self) -> bool:
        """Whether no request of this connection may be handled now, whatever it is: nor is its client read from then.
        What depends on the request is ``_put_off_for_room``, ``_put_off_for_turn``."""
        return bool(
            self._stalled
            or self._held
            or self._throttle is not None
            or self._work is not None
            or self._encoding
            or len(self._slots) > UNANSWERED_MAX
        )

    def _regulate(self) -> None:
        """Read from the client, or do not, as things are now."""
        wanted = not (self._is_paused or self._turn_over or self._refused_room or self._receive_buffer.starved)
        if wanted == self._reading or self._transport is None:
            return
        self._reading = wanted
        if wanted:
            self.listener.unread.remove(self)
            self.listener.world.tasks.call_soon(self._resume)
            return
        self._transport.pause_reading()
        self.listener.unread.add(self)
        if self._turn_over:
            self.listener.turn.wait(self._begin_turn, is_new=not self._is_heavy)

    def _begin_turn(self) -> None:
        self._turn_over, self._called = False, True
        self._regulate()

    def _put_off_for_turn(self, size: int) -> bool:
        """Put off a request of so many bytes to a later turn, this one having had its time, if it may take long;
        whether it is put off."""
        self._turn_over = not self._called and (self._is_heavy or size > min(self._light_bytes, SLICES_FROM_BYTES - 1))
        return self._turn_over

    def _took(self, spent_ns: int, processor_ns: int, largest: int) -> None:
        """What was handled of this connection took so long; 0 when nothing was. ``largest``: bytes of the largest of
        these requests. Their processor time counts from ``processor_ns`` on, when that is known: on a busy machine
        others had the processor in the meantime. Who takes a whole turn twice, whatever the loop waited for, is one of
        those that take long all the same."""
        is_long = spent_ns >= HEAVY_NS
        if is_long and processor_ns >= 0:
            was_slow, self._was_slow = self._was_slow, spent_ns >= OVER_NS
            used_ns = self.listener.processor_ns() - processor_ns
            is_long = used_ns >= HEAVY_NS or (was_slow and self._was_slow)
        if spent_ns:
            self._is_heavy = is_long
        if largest > self._light_bytes and not is_long:
            self._light_bytes = largest
        if spent_ns >= NOTED_NS:
            self.listener.turn.spent(spent_ns)

    def _resume(self) -> None:
        """Handle what was kept, then read on."""
        if self._transport is None or not self._reading:
            return
        self.buffer_updated(0)
        if self._reading and self._transport is not None:
            self._transport.resume_reading()

    # ---- memory

    def memory_freed(self) -> None:
        """There may be room for what this connection brings, or for another request."""
        if self._transport is not None:
            self._refused_room = False
            self._receive_buffer.retry()
            self._regulate()

    def has_moved(self) -> bool:
        """Whether bytes went in or out since this was last asked."""
        if self._transport is None:
            return True
        before = self._moved
        left = self._transport.get_write_buffer_size() if self._stalled else 0
        self._moved = (self._receive_buffer.come, left, len(self._slots))
        return self._moved != before or (not self._stalled and not self._reading and self._throttle is None)

    def keeps_pace(self, least: int) -> bool:
        """Whether at least so many bytes went in or out since this was last asked, or could not because we did not let
        them."""
        if self._transport is None:
            return True
        moved = self._receive_buffer.brought - (self._transport.get_write_buffer_size() if self._stalled else 0)
        before, self._pace = self._pace, (self._stalled, self._reading, moved)
        if before is None or before[:2] != self._pace[:2] or not (self._stalled or self._reading):
            return True
        return moved - before[2] >= least

    def give_up(self, why: str) -> None:
        """Close it at once; what it held is free."""
        log.warning("closing the connection of %s on %s: %s", self.peer, self.listener.name, why)
        if self._transport is not None:
            self._transport.abort()

    def answer_parked(self) -> bool:
        """Answer the oldest of its fetches that wait, with what there is: others need the memory."""
        return self.waiting.answer_oldest_fetch()

    # ---- throttling

    def throttle(self, wait_ms: int) -> None:
        """Its client has spent its quota: hear nothing more of it for so long, at least (KIP-219)."""
        if wait_ms <= 0 or self._transport is None:
            return
        self._throttled_until_ms = max(self._throttled_until_ms, self.listener.now_ms() + wait_ms)
        if self._throttle is None:
            self._throttle = self.listener.world.tasks.call_later(wait_ms, self._look_at_throttle)
            self._regulate()

    def _look_at_throttle(self) -> None:
        left_ms = self._throttled_until_ms - self.listener.now_ms()
        if left_ms > 0:
            self._throttle = self.listener.world.tasks.call_later(left_ms, self._look_at_throttle)
            return
        self._throttle = None
        self._regulate()

    def unthrottle(self) -> None:
        """It has ended: nothing waits for it."""
        if self._throttle is not None:
            self._throttle.cancel()
            self._throttle = None
