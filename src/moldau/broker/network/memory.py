"""Who owns bytes of requests and responses in a node, and how many there may be (decision 21).

Counted are requests that are not whole or wait for their turn, those that are worked on in slices, fetches that wait
for records (``parked.py``), and responses that clients do not read. A client whose responses wait is not read from.
Where they are ``RESPONSE_BYTES_MAX`` together, clients that hold any are read from no more; others go on, one request
at a time, up to ``RESPONSE_BYTES_MOST``; with a request whose response is small also beyond that, while few hold
responses. Nobody waits for ever: a frame that was begun first always gets its memory, and a connection is closed
- that holds bytes and moves none of them while there are too many;
- that fills its buffer too slowly while others wait for one (``arriving.py``);
- that, when nobody can go on, has held responses from one look to the next.
Decides nothing about single requests.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from enum import IntEnum
from itertools import islice

from moldau.broker.network.arriving import ArrivingFrames, FrameKind
from moldau.broker.network.parked import ParkedFetches
from moldau.model.named import NamedTuple
from moldau.model.protocol import Protocol
from moldau.ports import Handle, Tasks

REQUEST_BYTES_MAX = 48 << 20
"""How much memory frames larger than a receive buffer may take, when ``queued.max.request.bytes`` sets no limit."""
RESPONSE_BYTES_MAX = 32 << 20
"""How much memory the waiting responses of all connections together take before clients that hold any must wait."""
RESPONSE_BYTES_MOST = 2 * RESPONSE_BYTES_MAX
"""...and before all clients must wait: many that hold nothing would hold as many responses as there are of them."""
RESPONSE_SHARE_BYTES = 1 << 20
"""What may wait of one connection before it is read from no more. One response may be larger."""
STALL_MS = 10_000
"""How long a connection may hold bytes and move none while there are too many."""
LITTLE_BYTES = 1 << 16
"""A response that is not expected to be larger does not wait for large ones."""
EXPECTED_BYTES, EXPECTED_LEAST = 1 << 18, 1 << 12
"""How large a response is taken to be that is not there yet, before one of its kind was seen, and at least."""
PRODUCE, FETCH = 0, 1
READ_ONLY = frozenset({2, 3, 9, 15, 16, 29, 32, 35, 60, 61, 65, 66, 69, 75})
"""Requests that only read what is there: ListOffsets, Metadata, OffsetFetch, DescribeGroups, ... A connection has one
under way, as in Apache Kafka of any. Others wait for what clients do, for a controller or for a quorum, and have small
responses."""

ANSWERED_HERE = READ_ONLY - {3}
"""The requests that wait for nobody else; Metadata may, for topics that are created."""


class WorkKind(IntEnum):
    """Requests that are worked on in slices. Reads are ``READ_ONLY``, and large when their frames are."""

    APPEND = 0
    FETCH = 1
    READ = 2
    LARGE_READ = 3
    OTHER = 4


class LongWork(NamedTuple):
    """What a request is that takes slices: it waits for none that is not the same. Small reads are told apart by
    their api keys, others have 0."""

    kind: WorkKind
    api_key: int = 0

    @property
    def places(self) -> int | None:
        """How many such may be worked on at once: each holds the items of its response meanwhile, whose bytes are
        counted when they are encoded. None: any number, as responses to appends are small."""
        return _PLACES[self.kind]


_PLACES = {
    WorkKind.APPEND: None,
    WorkKind.FETCH: 16,
    WorkKind.READ: 4,
    WorkKind.LARGE_READ: 4,
    WorkKind.OTHER: 16,
}


def work_of(api_key: int, *, is_large: bool) -> LongWork:
    """What a request is when it takes slices."""
    if api_key in READ_ONLY:
        return LongWork(WorkKind.LARGE_READ) if is_large else LongWork(WorkKind.READ, api_key)
    return LongWork({PRODUCE: WorkKind.APPEND, FETCH: WorkKind.FETCH}.get(api_key, WorkKind.OTHER))


SMALL = frozenset({0, 8, 10, 12, 13, 17, 18, 22, 24, 26, 28})
"""What has a small response whatever there is: Produce, OffsetCommit, FindCoordinator, Heartbeat, LeaveGroup,
SaslHandshake, ApiVersions, InitProducerId, and those of a transaction. It does not wait for a few who hold much."""
READS_A_TURN = 4
"""So many requests of that kind are begun in one turn of the loop; other connections' wait for their turn, in the
order in which they came. A thousand at once would make turns of a hundred milliseconds, for everybody."""
WOKEN_AT_ONCE = 16
"""So many that waited look again in one turn of the loop."""
CLOGGED_MS = 300
"""How long a connection may hold bytes of responses when nobody can go on."""
FREE_BUFFERS = 4
SMALLEST_BUFFER, LARGEST_BUFFER = 1 << 17, 1 << 21
"""Buffers of these sizes, powers of two, are kept for the next frame."""


class MemoryOwner(Protocol):
    """A connection as this file needs it."""

    def memory_freed(self) -> None:
        """There may be room now."""

    def has_moved(self) -> bool:
        """Whether bytes went in or out since this was last asked, or could not because we did not let them."""

    def keeps_pace(self, least: int) -> bool:
        """Whether at least so many bytes went in or out since this was last asked, or could not because we did not let
        them."""

    def give_up(self, why: str) -> None:
        """Close it."""

    def answer_parked(self) -> bool:
        """Answer the oldest of its fetches that wait for records, with what there is; whether there was one."""


class RequestMemory:
    """The bytes of one node's connections. ``requests_max`` and ``request_bytes_max`` are queued.max.requests and
    queued.max.request.bytes, the latter -1 for no limit but our own."""

    @classmethod
    def of(cls, tasks: Tasks, setting: Callable[[str], int]) -> RequestMemory:
        """Memory for one kind of listeners, as large as the node's settings say."""
        requests_max, request_bytes_max = setting("queued.max.requests"), setting("queued.max.request.bytes")
        return cls(tasks, requests_max=requests_max, request_bytes_max=request_bytes_max)

    def __init__(self, tasks: Tasks, *, requests_max: int = 500, request_bytes_max: int = -1) -> None:
        self._tasks = tasks
        self._requests_max = requests_max
        self._request_bytes_max = request_bytes_max if request_bytes_max > 0 else REQUEST_BYTES_MAX
        self.request_bytes = 0
        self.response_bytes = 0
        self.requests = 0
        """Requests that are worked on in slices."""
        self._under_way: Counter[LongWork] = Counter()
        """How many of them are the same."""
        self._frames: ArrivingFrames[MemoryOwner] = ArrivingFrames(
            tasks, self._request_bytes_max, lambda: self.request_bytes, self._waiting_for_buffers
        )
        """Frames that are being received into buffers of their own."""
        self._responses: dict[MemoryOwner, int] = {}
        self._shares = 0
        """As ``response_bytes``, but of each holder what is little at most: how many hold much, not how much."""
        self._for_buffers: dict[MemoryOwner, None] = {}
        self._for_room: dict[MemoryOwner, None] = {}
        self._for_turns: dict[LongWork | None, dict[MemoryOwner, None]] = {}
        """Who waits for bytes of requests, for bytes of responses, and for fewer requests in slices: such ones, or
        any."""
        self._for_reads: dict[MemoryOwner, None] = {}
        self._called: dict[MemoryOwner, None] = {}
        """Who waits to begin a read-only request, and whose turn it is."""
        self._reads = 0
        """So many were begun in this turn of the loop, or are to be."""
        self._woken: deque[MemoryOwner] = deque()
        """Who has waited and looks again."""
        self.parked: ParkedFetches[MemoryOwner] = ParkedFetches(tasks, self._request_bytes_max, self._wake)
        self.expected = 0
        """Bytes of responses that are being made, as far as is known."""
        self._sizes: dict[tuple[int, bool], int] = {}
        """What a response is taken to need, by its api key, and by whether its request was large: as much as the
        largest not long ago."""
        self._long: set[int] = set()
        """Requests that were not large and took slices before, or whose responses did, by their api keys."""
        self._free: list[bytearray] = []
        self.busy = False
        """Whether anything waits, so that ``admits`` has to be asked."""
        self._watch: Handle | None = None
        self._clogged: Handle | None = None
        self._held: dict[MemoryOwner, None] = {}
        """Who held bytes of responses when nobody could go on any more, or at the last look then, and ever since."""

    # ---- requests

    def buffer(self, owner: MemoryOwner, size: int, kind: FrameKind = FrameKind.ORDINARY) -> bytearray | None:
        """A buffer of at least ``size`` bytes, given back with ``release``; None when there is no room, and
        ``memory_freed`` is called later. As in Kafka what is held may pass the limit by one buffer, of each kind."""
        if not self._frames.may_take(owner, kind):
            self._for_buffers[owner] = None
            self._frames.waited_for()
            return None
        return self._give(owner, self._take(size), kind)

    def spare(self, owner: MemoryOwner, size: int) -> bytearray | None:
        """A buffer that was used before, if one is free: it costs nothing."""
        for number, buffer in enumerate(self._free):
            if len(buffer) >= size:
                return self._give(owner, self._free.pop(number), FrameKind.ORDINARY)
        return None

    def keep(self, owner: MemoryOwner, size: int, kind: FrameKind = FrameKind.ORDINARY) -> bytearray:
        """A buffer for the first bytes of a frame, which have come already, though there is no room for more."""
        return self._give(owner, bytearray(size), kind)

    def begin_frame(self, owner: MemoryOwner, kind: FrameKind) -> None:
        """Another frame of who may hold a buffer begins: those who wait come first."""
        self._frames.begin(owner, kind)

    def _give(self, owner: MemoryOwner, buffer: bytearray, kind: FrameKind) -> bytearray:
        self._frames.hold(owner, len(buffer), kind)
        self.request_bytes += len(buffer)
        self._look_later()
        return buffer

    def _waiting_for_buffers(self) -> int:
        return len(self._for_buffers) + len(self._woken)

    def _take(self, size: int) -> bytearray:
        """A buffer that was used before, if one is large enough; fresh ones are made as large as can be kept."""
        for number, buffer in enumerate(self._free):
            if size <= len(buffer) <= 4 * size:
                return self._free.pop(number)
        if size <= LARGEST_BUFFER:
            size = max(1 << (size - 1).bit_length(), SMALLEST_BUFFER)
        return bytearray(size)

    def release(self, owner: MemoryOwner, buffer: bytearray, *, reuse: bool = True) -> None:
        """The holder needs the buffer no more; ``reuse`` unless somebody may still look into it."""
        self._frames.release(owner, len(buffer))
        if reuse and SMALLEST_BUFFER <= len(buffer) <= LARGEST_BUFFER and len(self._free) < FREE_BUFFERS:
            self._free.append(buffer)
        self.forget(len(buffer))

    def hold(self, size: int) -> None:
        """Count the beginning of a small frame, or frames that wait for their turn."""
        self.request_bytes += size

    def forget(self, size: int) -> None:
        """Note that so many bytes are freed."""
        self.request_bytes -= size
        assert self.request_bytes >= 0, "bytes of requests were given back twice"
        if self._for_buffers:
            self._wake(self._for_buffers, len(self._for_buffers))

    @property
    def is_short(self) -> bool:
        """Whether reads should be small: bytes of requests fill what there is."""
        return self.request_bytes >= self._request_bytes_max

    # ---- requests in slices

    def begin(self, api_key: int, *, is_large: bool) -> LongWork:
        """A request, or its response, is worked on in slices from now on; to be given to ``end``."""
        self.requests += 1
        work = work_of(api_key, is_large=is_large)
        self._under_way[work] += 1
        if not is_large:
            self._long.add(api_key)
        self.busy = True
        return work

    def end(self, work: LongWork) -> None:
        """It is through."""
        self.requests -= 1
        self._under_way[work] -= 1
        self._set_busy()
        self._give_turns()

    # ---- responses

    def expect(self, api_key: int, *, is_large: bool) -> int:
        """A response is being made: how many bytes are kept free for it until ``made``."""
        if api_key not in READ_ONLY:
            return 0
        size = self._sizes.get((api_key, is_large), EXPECTED_BYTES)
        self.expected += size
        self.busy = True
        return size

    def made(self, api_key: int, expected: int, size: int, *, is_large: bool) -> None:
        """That response has so many bytes; 0 when it came to nothing."""
        self.expected -= expected
        if size:
            known = self._sizes.get((api_key, is_large), size)
            self._sizes[api_key, is_large] = max(size, known - (known >> 6), EXPECTED_LEAST)
        self._set_busy()
        self._give_room()

    def _set_busy(self) -> None:
        self.busy = bool(self._responses or self.requests or self.expected or self.parked.are_many)

    def respond(self, owner: MemoryOwner, size: int) -> None:
        """So many bytes of responses wait for this holder's client by now."""
        before = self._responses.get(owner, 0)
        if size:
            self._responses[owner] = size
        elif before:
            del self._responses[owner]
            self._held.pop(owner, None)
        self.response_bytes += size - before
        self._shares += min(size, LITTLE_BYTES) - min(before, LITTLE_BYTES)
        self._set_busy()
        if size < before:
            if not size and owner in self._for_room:  # it holds nothing now: small requests may go on all the same
                self._wake({owner: self._for_room.pop(owner)}, 1)
            self._give_room()
        else:
            self._look_later()

    # ---- fetches that wait

    def park(self, owner: MemoryOwner, size: int) -> None:
        """A fetch of this holder waits for records, and holds so many bytes until ``unpark``."""
        self.parked.add(owner, size)
        self._set_busy()

    def unpark(self, owner: MemoryOwner, size: int) -> None:
        """It was answered."""
        self.parked.remove(owner, size)
        self._set_busy()

    def know_sessions(self, is_long: Callable[[int], bool]) -> None:
        """Ask ``is_long`` from now on whether a fetch of the session of an id is a long request."""
        self.parked.is_long_session = is_long

    # ---- who may go on

    def may_begin_read(self, owner: MemoryOwner) -> bool:
        """Whether a read-only request may be begun in this turn of the loop; if not, ``memory_freed`` is called in a
        later one, and its turn is kept for it then."""
        if owner in self._called:
            del self._called[owner]
            return True
        if self._for_reads or self._reads >= READS_A_TURN:
            self._for_reads[owner] = None
            return False
        if not self._reads:
            self._tasks.call_soon(self._turn)
        self._reads += 1
        return True

    def _turn(self) -> None:
        """The loop has turned: the next ones may begin."""
        self._reads = 0
        self._called.clear()
        try:
            for owner in list(islice(self._for_reads, READS_A_TURN)):
                del self._for_reads[owner]
                self._called[owner] = None
                self._reads += 1
                owner.memory_freed()
        finally:  # whatever became of one of them, the others have their turn
            if self._reads:
                self._tasks.call_soon(self._turn)  # after those have been heard

    def admits(self, owner: MemoryOwner, api_key: int, expected: int = 0, *, is_large: bool = False) -> bool:
        """Whether another request of this holder may be taken in now, ``is_large`` one with many items; if not,
        ``memory_freed`` is called later. ``expected`` bytes of its responses are being made."""
        mine, there = self._responses.get(owner, 0), self.response_bytes
        is_little = api_key in SMALL
        if api_key in READ_ONLY:
            size = self._sizes.get((api_key, is_large), EXPECTED_BYTES)
            is_little = size <= LITTLE_BYTES
            if self.expected:
                there += self.expected + size
                if expected:
                    self._for_room[owner] = None
                    return False
        is_first = is_little and not mine
        full = (self._shares if is_first else there) >= (
            RESPONSE_BYTES_MAX if mine or is_first else RESPONSE_BYTES_MOST
        )
        is_long = is_large or (
            api_key in self._long and api_key in READ_ONLY
        )  # a fetch of one partition waits for none
        work = work_of(api_key, is_large=is_large) if is_long else None
        if full or mine > RESPONSE_SHARE_BYTES:
            self._for_room[owner] = None
        elif self._free_places(work) <= 0:
            self._for_turns.setdefault(work, {})[owner] = None
        else:
            return True
        return False

    def left(self, owner: MemoryOwner) -> None:
        """The connection ended, and gave its buffer back."""
        waits = self._for_buffers, self._for_room, self._for_reads, self._called, *self._for_turns.values()
        for waiting in waits:
            waiting.pop(owner, None)
        self.parked.left(owner)
        self.respond(owner, 0)

    def _free_places(self, work: LongWork | None) -> int:
        """How many more requests may be begun: of such, or of those that take no slices, as far as is known."""
        free = self._requests_max - self.requests
        if work is None or work.places is None:
            return free
        return min(work.places - self._under_way[work], free)

    @property
    def _is_crowded(self) -> bool:
        """Whether those who hold bytes have to move them."""
        return self.is_short or self.response_bytes >= RESPONSE_BYTES_MAX

    @property
    def _is_clogged(self) -> bool:
        """Whether nobody can go on."""
        return self.response_bytes >= RESPONSE_BYTES_MOST

    def _look_later(self) -> None:
        if self._watch is None and self._is_crowded:
            self._watch = self._tasks.call_later(STALL_MS, self._look)
        if self._clogged is None and self._is_clogged:
            self._held = dict.fromkeys(self._responses)
            self._clogged = self._tasks.call_later(CLOGGED_MS, self._look_at_clog)

    def _give_room(self) -> None:
        """There are fewer bytes of responses: who waits for that looks again, unless nobody could go on."""
        if self._for_room and not self._is_clogged:
            self._wake(self._for_room, len(self._for_room))

    def _give_turns(self) -> None:
        """Have so many look again as may begin something in slices, and others when these did not."""
        again = False
        for work, waiting in self._for_turns.items():
            if waiting and (free := self._free_places(work)) > 0:
                self._wake(waiting, free)
                again = True
        if again:
            self._tasks.call_soon(lambda: self._tasks.call_soon(self._give_turns))

    def _wake(self, waiting: dict[MemoryOwner, None], count: int) -> None:
        idle = not self._woken
        for owner in list(islice(waiting, count)):
            del waiting[owner]
            self._woken.append(owner)
        if idle:
            self._tasks.call_soon(self._wake_some)

    def _wake_some(self) -> None:
        """Have some of those who waited look again, and the others after them: each may take what there is."""
        try:
            for _ in range(min(len(self._woken), WOKEN_AT_ONCE)):
                self._woken.popleft().memory_freed()
        finally:
            if self._woken:
                self._tasks.call_soon(self._wake_some)

    def _look(self) -> None:
        """Close who holds bytes that did not move since the last look, if there are still too many."""
        self._watch = None
        crowded = self._is_crowded
        # Each is asked once: it tells what is new.
        for owner in dict.fromkeys([*self._frames.holders, *self._responses]):
            if not owner.has_moved() and crowded:
                owner.give_up(f"its bytes did not move for {STALL_MS} ms, and others need the memory")
        self._look_later()

    def _look_at_clog(self) -> None:
        """When nobody can go on, close who has held bytes of responses since then, until half of what there may be is
        free: who takes nothing before who takes a little, and the most first. A client that takes a little
        now and then would hold up everybody as well as one that takes nothing."""
        self._clogged = None
        clogged, left = self._is_clogged, self.response_bytes
        for owner in sorted(self._held, key=lambda one: (one.has_moved(), -self._responses[one])):
            if clogged and left >= RESPONSE_BYTES_MAX:
                left -= self._responses[owner]
                owner.give_up(f"it held its responses for {CLOGGED_MS} ms, and nobody could go on")
        self._held = {}
        self._look_later()

    def close(self) -> None:
        """The node stops."""
        self.parked.close()
        self._frames.close()
        if self._clogged is not None:
            self._clogged.cancel()
        if self._watch is not None:
            self._watch.cancel()
