"""Memory of fetches that wait for records, of all connections that share one owner of requests (decision 21).

A fetch that names its partitions (every one without a session) is kept with all of them until there is something to
say, and a client may have many under way on one connection, and many connections. When there are too many, a client
that has any waits with its next until all of them are answered, or until there are fewer; a client that has none parks
one, up to twice as much. Beyond that it waits as well, and soon fetches of those that hold most are answered with what
there is, as if their time were up: one in a turn of the loop, for as long as others wait. A fetch within a session
waits for nobody here: followers' are such. One within a client's session of which very much is to be told is counted
while it is answered, and waits. Decides nothing about what a fetch is answered: ``replicas/fetch/reader.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Generic, TypeVar

from moldau.model.protocol import Protocol
from moldau.ports import Handle, Tasks
from moldau.wire.frames import read_request_header

PATIENCE_MS = 300
"""How long fetches stay parked, at least, while others that hold nothing wait to be."""


SESSIONS_FROM, NO_REPLICA_FROM = 7, 15
"""Versions of a fetch from which on it has a session, and does not begin with a replica's id."""
_SESSION_ID = Struct(">12xxi")
"""What a fetch begins with behind that: how long, how many bytes at least and at most, what is seen, the session."""


def session_of(frame: memoryview, start: int) -> int:
    """The session with which the fetch request goes on that is all of ``frame`` from ``start`` on, naming only what is
    new in it; 0 for none."""
    header = read_request_header(frame, start)
    at = header.body + (4 if header.api_version < NO_REPLICA_FROM else 0)
    if header.api_version < SESSIONS_FROM or at + _SESSION_ID.size > len(frame):
        return 0
    (found,) = _SESSION_ID.unpack_from(frame, at)
    return int(found)


class Parking(Protocol):
    """A connection as this file needs it."""

    def memory_freed(self) -> None:
        """There may be room now."""

    def answer_parked(self) -> bool:
        """Answer the oldest fetch of this connection that is parked, with what there is; whether there was one."""


MemoryOwner = TypeVar("MemoryOwner", bound=Parking)


class ParkedFetches(Generic[MemoryOwner]):
    """The waiting fetches of the connections that share one ``RequestMemory``. ``bytes``: what they hold, about."""

    def __init__(self, tasks: Tasks, bytes_max: int, wake: Callable[[dict[MemoryOwner, None], int], None]) -> None:
        self._tasks, self._bytes_max, self._wake = tasks, bytes_max, wake
        self.bytes = 0
        self.is_long_session: Callable[[int], bool] = lambda session_id: False
        """Whether a fetch of the session is a long request: its answer holds as much as one that names so many."""
        self._held: dict[MemoryOwner, int] = {}
        self._waiting: dict[MemoryOwner, None] = {}
        """Who has another to park."""
        self._timer: Handle | None = None

    @property
    def are_many(self) -> bool:
        """Whether who has parked one may not park another."""
        return self.bytes >= self._bytes_max

    @property
    def are_too_many(self) -> bool:
        """Whether nobody may."""
        return self.bytes >= 2 * self._bytes_max

    def add(self, owner: MemoryOwner, size: int) -> None:
        """A fetch is parked that holds so many bytes."""
        self._held[owner] = self._held.get(owner, 0) + size
        self.bytes += size

    def remove(self, owner: MemoryOwner, size: int) -> None:
        """It was answered, or its client is gone."""
        were_many, were_too_many = self.are_many, self.are_too_many
        self.bytes -= size
        assert self.bytes >= 0, "a parked fetch was given back twice"
        left = self._held[owner] - size
        if left:
            self._held[owner] = left
        else:
            del self._held[owner]
        if were_many > self.are_many or were_too_many > self.are_too_many:
            self._wake(self._waiting, len(self._waiting))
        elif not left and owner in self._waiting:
            self._wake({owner: self._waiting.pop(owner)}, 1)

    def admits(self, owner: MemoryOwner) -> bool:
        """Whether another fetch of this holder may be taken in now; if not, ``memory_freed`` is called later."""
        if not self.are_many or (owner not in self._held and not self.are_too_many):
            return True
        self._waiting[owner] = None
        if self._timer is None and owner not in self._held:
            self._timer = self._tasks.call_later(PATIENCE_MS, self._make_room)
        return False

    def _make_room(self) -> None:
        """Make room for clients that hold nothing and have waited for long enough: of whoever holds most one fetch is
        answered, and another in the next turn of the loop if that is not enough for who still waits. What answers hold
        that are being made is free soon."""
        self._timer = None
        if self.are_too_many and self._waiting:
            if any(owner.answer_parked() for owner in sorted(self._held, key=self._held.__getitem__, reverse=True)):
                self._tasks.call_soon(self._make_room)
            else:
                self._timer = self._tasks.call_later(PATIENCE_MS, self._make_room)

    def left(self, owner: MemoryOwner) -> None:
        """The connection ended."""
        self._waiting.pop(owner, None)

    def close(self) -> None:
        """The node stops."""
        if self._timer is not None:
            self._timer.cancel()
