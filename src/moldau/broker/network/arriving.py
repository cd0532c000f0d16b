"""Buffers of frames that are too large for the buffer that all connections share (decision 21): who gets one.

Of the memory a part is kept for each kind of frame, so that no kind waits for another: what nodes ask of each other, a
controller of its brokers before all; ordinary frames; large ones. Within a kind a frame that was begun first always
gets its memory, and while anybody waits each frame has to come in at some rate, or its connection is closed. While
nobody waits a client may be as slow as it likes. So who waits gets on within a bounded time. Decides nothing about
other memory: ``memory.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Generic, TypeVar

from moldau.model.protocol import Protocol
from moldau.ports import Handle, Tasks

ORDINARY_BYTES = 1 << 21
"""Larger frames are large ones: a producer's request has a megabyte, unless somebody has said otherwise."""
PACE_MS = 3_000
"""While anybody waits for a buffer it is seen so often who is too slow..."""
PACE_LEAST_MS = 300
"""...or, when many wait for each who goes on, more often, up to this: who comes last waits behind all of them."""
A_FEW = 16
"""So many wait for each other without being many."""
FILLED_IN_MS = 10_000
"""In this time what somebody holds has to come in again, while others wait..."""
RATE = 1 << 20
"""...or at this rate, in bytes a second: the client of a large frame has that much at least."""
API_KEY = slice(4, 6)
"""Where a frame names its request."""
_API_KEYS_OF_NODES = frozenset({4, 5, 6, 7, 27, 56, 67})
"""LeaderAndIsr, StopReplica, UpdateMetadata, ControlledShutdown, WriteTxnMarkers, AlterPartition, AllocateProducerIds.
Anybody may send such a frame, who then holds up others of the kind no longer than is said here."""


class FrameKind(IntEnum):
    """What a frame waits for: memory, behind others of its kind."""

    OF_NODES = 0
    ORDINARY = 1
    LARGE = 2


KEPT = (8, 4, 8)
"""An eighth of the memory is kept for the first kind, and so on."""


def kind_of(begun: bytes | bytearray | memoryview, need: int) -> FrameKind:
    """The kind of a frame of ``need`` bytes that begins with these bytes."""
    if int.from_bytes(begun[API_KEY], "big") in _API_KEYS_OF_NODES and len(begun) >= API_KEY.stop:
        return FrameKind.OF_NODES
    return FrameKind.ORDINARY if need <= ORDINARY_BYTES else FrameKind.LARGE


class Arriving(Protocol):
    """A connection as this file needs it."""

    def keeps_pace(self, least: int) -> bool:
        """Whether at least so many bytes went in or out since this was last asked, or could not because we did not let
        them."""

    def give_up(self, why: str) -> None:
        """Close it."""


Owner = TypeVar("Owner", bound=Arriving)


class ArrivingFrames(Generic[Owner]):
    """Who holds buffers, of the connections that share one ``RequestMemory``; ``bytes_max`` is all that may be in
    use, ``in_use`` how much is, ``waiting`` how many wait for a buffer."""

    def __init__(self, tasks: Tasks, bytes_max: int, in_use: Callable[[], int], waiting: Callable[[], int]) -> None:
        self._tasks, self._bytes_max, self._in_use, self._waiting = tasks, bytes_max, in_use, waiting
        self._held: list[dict[Owner, int]] = [{} for _ in FrameKind]
        """Bytes of each holder, by the kind of its frame; who began first stands first."""
        self._bytes = [0 for _ in FrameKind]
        self._kept = [bytes_max // part for part in KEPT]
        self._kinds: dict[Owner, FrameKind] = {}
        self._seen: dict[Owner, int] = {}
        """Who has held bytes since the last look, and how many they were."""
        self._timer: Handle | None = None
        self._pace_ms = PACE_MS
        """From the last look to the next; no longer than the last one, until nobody waits any more."""

    @property
    def holders(self) -> list[Owner]:
        """Who holds any."""
        return list(self._kinds)

    def may_take(self, owner: Owner, kind: FrameKind) -> bool:
        """Whether it gets another buffer for its frame of this kind; what is in use may pass the limit by one buffer of
        each kind."""
        if self._bytes[kind] < self._kept[kind] or next(iter(self._held[kind]), owner) is owner:
            return True
        kept = sum(max(self._kept[other] - self._bytes[other], 0) for other in FrameKind if other is not kind)
        return self._in_use() + kept < self._bytes_max

    def hold(self, owner: Owner, size: int, kind: FrameKind) -> None:
        """It has a buffer of so many bytes more."""
        known = self._kinds.get(owner, kind)
        if known is not kind:
            self.begin(owner, kind)
        self._kinds[owner] = kind
        self._held[kind][owner] = self._held[kind].get(owner, 0) + size
        self._bytes[kind] += size

    def begin(self, owner: Owner, kind: FrameKind) -> None:
        """It begins with another frame, and comes behind those who hold any already."""
        known = self._kinds.get(owner)
        if known is not None:
            size = self._held[known].pop(owner)
            self._bytes[known] -= size
            self._kinds[owner] = kind
            self._held[kind][owner] = size
            self._bytes[kind] += size

    def release(self, owner: Owner, size: int) -> None:
        """It has so many bytes less."""
        kind = self._kinds[owner]
        self._bytes[kind] -= size
        left = self._held[kind][owner] - size
        if left:
            self._held[kind][owner] = left
        else:
            del self._held[kind][owner], self._kinds[owner]
            self._seen.pop(owner, None)

    # ---- who is too slow

    def waited_for(self) -> None:
        """Somebody waits for a buffer."""
        if self._timer is None:
            for owner in self._kinds:
                owner.keeps_pace(0)
            self._look_later()

    def _look_later(self) -> None:
        self._seen = {owner: self._held[kind][owner] for owner, kind in self._kinds.items()}
        self._pace_ms = min(self._pace_ms, max(PACE_MS // (1 + self._lines), PACE_LEAST_MS))
        self._timer = self._tasks.call_later(self._pace_ms, self._look)

    @property
    def _lines(self) -> int:
        """How many wait for each who goes on with its frame, who are taken to be a few at least. Who waits may hold the
        first bytes of its own."""
        waiting = self._waiting()
        return waiting // max(len(self._kinds) - waiting, A_FEW)

    def _look(self) -> None:
        """Look at what has come, when all that has come is read: a process that stood still has it in its sockets."""
        self._tasks.call_soon(lambda: self._tasks.call_soon(self._look_at_pace))

    def _look_at_pace(self) -> None:
        """Close who is too slow while others wait, who holds most first, until frames have half of the memory, or all
        of them when as many wait: what else is in use is not freed by closing them."""
        self._timer = None
        if not self._waiting():
            self._pace_ms = PACE_MS
            return
        pace_ms, enough = self._pace_ms, 0 if self._lines else self._bytes_max // 2
        keep_pace = {owner: owner.keeps_pace(_least(self._seen.get(owner, 0), pace_ms)) for owner in self._kinds}
        slow = [owner for owner in self._seen if not keep_pace[owner]]
        left = sum(self._bytes)
        for owner in sorted(slow, key=lambda one: -self._held[self._kinds[one]][one]):
            if left > enough:
                held, least = self._held[self._kinds[owner]][owner], _least(self._seen[owner], pace_ms)
                left -= held
                owner.give_up(
                    f"others wait for the {held} bytes of memory that its request takes, and less than {least} bytes"
                    f" of it came in {pace_ms} ms"
                )
        self._look_later()

    def close(self) -> None:
        """The node stops."""
        if self._timer is not None:
            self._timer.cancel()


def _least(held: int, pace_ms: int) -> int:
    """So many bytes have to come in that time of who holds so many."""
    return min(held * pace_ms // FILLED_IN_MS, RATE * pace_ms // 1000)
