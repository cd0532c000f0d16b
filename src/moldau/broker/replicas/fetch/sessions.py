"""Incremental fetch sessions, the broker's side (KIP-227): a client names what changed, and is told what is new.

Decides which session a request belongs to, and who must give way when there are too many, or clients' have too many
partitions together: whoever was idle longest, if for long enough, consumers before followers. Who finds no room is
answered without a session. What is read is ``replicas/fetch/reader.py``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator, Iterator

from moldau.broker.replicas.fetch.reader import PARTITIONS_AT_ONCE, FetchReader, Found
from moldau.broker.replicas.host import ReplicaHost
from moldau.model import Code
from moldau.ports import Clock, Random
from moldau.ports.buggify import LOST_SESSION
from moldau.wire.messages.k01_fetch import FetchRequest, FetchResponse

FINAL, INITIAL = -1, 0
EVICTABLE_AFTER_MS = 120_000
PARTITIONS_MOST = 1 << 18
"""A client's session that has more is ended: as many as one request may name, so that it can be opened again."""

PARTITIONS_ALL = 1 << 19
"""Partitions of all clients' sessions together, of which each keeps 460 bytes: a client that begins anew again and
again leaves a session behind each time, and a thousand of as many partitions as one may have would be 120 GB."""


class FetchSession(FetchReader):
    """A reader that lasts. ``epoch`` is that of the next request."""

    def __init__(self, replicas: ReplicaHost, id: int, *, by_id: bool, follower: bool) -> None:
        super().__init__(replicas)
        self.session_id = id
        self.lasting = True
        self.by_id = by_id
        self.follower = follower
        self.epoch = 1
        self.used_ms = 0
        self._opening = True

    def __repr__(self) -> str:
        who = "follower" if self.follower else "consumer"
        now = "waits" if self.waiting is not None else "is answered"
        return f"FetchSession({self.session_id} of a {who}: {len(self.parts)} partitions, epoch {self.epoch}, {now})"

    def respond(self, found: Found) -> FetchResponse:
        """Everything the first time, then only what is new."""
        if self._opening:
            self._opening = False
            return super().respond(found)
        return self.build(_news(found))

    def respond_in_slices(self, found: Found) -> Generator[None, None, FetchResponse]:
        """As ``respond``, with pauses."""
        if self._opening:
            self._opening = False
            return (yield from super().respond_in_slices(found))
        return (yield from self._build_in_slices(found, _news))


def _news(found: Found) -> Found:
    return [(partition, data) for partition, data in found if partition.is_news(data)]


class FetchSessionCache:
    """All fetch sessions of a broker."""

    def __init__(self, replicas: ReplicaHost, clock: Clock, random: Random, slots: int) -> None:
        self._replicas = replicas
        self._clock = clock
        self._random = random
        self._slots = slots
        self._by_id: OrderedDict[int, FetchSession] = OrderedDict()  # least recently used first
        replicas.deps.requests.know_sessions(self.is_long_of_consumer)

    def __iter__(self) -> Iterator[FetchSession]:
        return iter(list(self._by_id.values()))

    def __len__(self) -> int:
        return len(self._by_id)

    def is_long(self, session_id: int) -> bool:
        """Whether a fetch of that session takes more than one turn of the loop should hold."""
        session = self._by_id.get(session_id)
        return session is not None and session.is_long

    def is_long_of_consumer(self, session_id: int) -> bool:
        """As ``is_long``, and it is no follower's: those wait for no clients."""
        session = self._by_id.get(session_id)
        return session is not None and session.is_long and not session.follower

    def is_being_read(self, request: FetchRequest) -> bool:
        """Whether the last fetch of the session is not answered yet with which this one goes on; if that waits for
        records, it is answered now."""
        session = self._by_id.get(request.session_id)
        if session is None or session.epoch != request.session_epoch:
            return False
        if session.waiting is not None:
            session.waiting.expire()  # pipelined: its client has more to ask, and does not wait
        return session.being_read

    def open(self, request: FetchRequest, version: int, *, follower: bool) -> FetchReader | Code:
        """The reader for a request, with what it names taken in; or why its session cannot go on."""
        by_id = version >= 13
        if request.session_epoch in (FINAL, INITIAL):
            old = self._by_id.pop(request.session_id, None) if request.session_id else None
            if old is not None:
                old.close()
            reader: FetchReader | None = None
            if request.session_epoch == INITIAL and request.topics:
                reader = self._create(by_id=by_id, follower=follower)
            if reader is None:
                reader = FetchReader(self._replicas)
            reader.add(request.topics, by_id)
            self.fits(reader, 0)
            return reader
        session = self._by_id.get(request.session_id)
        buggify = self._replicas.deps.world.buggify
        if buggify is not None and session is not None and buggify(LOST_SESSION):
            del self._by_id[request.session_id]
            session.close()
            session = None
        if session is not None and len(session.parts) > PARTITIONS_MOST and not session.follower:
            del self._by_id[request.session_id]
            session.close()
            session = None
        if session is None:
            return Code.FETCH_SESSION_ID_NOT_FOUND
        if session.by_id != by_id:
            return Code.FETCH_SESSION_TOPIC_ID_ERROR
        if request.session_epoch != session.epoch:
            return Code.INVALID_FETCH_SESSION_EPOCH
        return self._go_on(session, request)

    def fits(self, reader: FetchReader, had: int) -> bool:
        """Whether a reader that had so many partitions may keep those that were added since. False: it was a session,
        is none any more, and can be read from once; its client is told no id, as when all slots are taken."""
        if not isinstance(reader, FetchSession) or reader.follower or len(reader.parts) <= had or self._have_room():
            return True
        self._by_id.pop(reader.session_id, None)
        reader.session_id, reader.lasting = 0, False
        return False

    def _have_room(self) -> bool:
        """Whether clients' sessions have no more partitions than they may together, once those are gone that were idle
        for long."""
        clients = [session for session in self._by_id.values() if not session.follower]
        held = sum([len(session.parts) for session in clients])
        long_ago_ms = self._clock.monotonic_ms() - EVICTABLE_AFTER_MS
        for session in clients:
            if held <= PARTITIONS_ALL or session.used_ms >= long_ago_ms:
                break
            held -= len(session.parts)
            del self._by_id[session.session_id]
            session.close()
        return held <= PARTITIONS_ALL

    def _go_on(self, session: FetchSession, request: FetchRequest) -> FetchSession | Code:
        if session.waiting is not None:
            session.waiting.expire()  # pipelined: its client has more to ask, and does not wait
        session.epoch = 1 if session.epoch == 0x7FFFFFFF else session.epoch + 1
        session.used_ms = self._clock.monotonic_ms()
        self._by_id.move_to_end(session.session_id)
        had = len(session.parts)
        session.add(request.topics, session.by_id)
        if not self.fits(session, had):
            session.close()
            return Code.FETCH_SESSION_ID_NOT_FOUND
        for topic in request.forgotten_topics_data:
            name = bytes(topic.topic_id) if session.by_id else topic.topic
            for number in topic.partitions:
                session.forget((name, number))
        if len(session.uncounted) <= PARTITIONS_AT_ONCE:  # else it is counted in slices
            session.count_unnamed()
        return session

    def _create(self, *, by_id: bool, follower: bool) -> FetchSession | None:
        now_ms = self._clock.monotonic_ms()
        if len(self._by_id) >= self._slots and not self._make_room(now_ms, follower):
            return None
        id = 0
        while not id or id in self._by_id:
            id = self._random.below(0x7FFFFFFF)
        session = self._by_id[id] = FetchSession(self._replicas, id, by_id=by_id, follower=follower)
        session.used_ms = now_ms
        return session

    def _make_room(self, now_ms: int, follower: bool) -> bool:
        for id, session in self._by_id.items():
            idle = now_ms - session.used_ms > EVICTABLE_AFTER_MS
            if idle or (follower and not session.follower):
                del self._by_id[id]
                session.close()
                return True
        return False

    def close(self) -> None:
        for session in self._by_id.values():
            session.close()
        self._by_id.clear()
