"""Notices that a client has gone whose connection is not read from.

The loop hears of a connection's end while it reads from it. One whose client waits for an answer, or for room, is not
read from, so its requests would keep their memory and their place in the line until their turn came, for nobody. Only a
connection that was reset ends here: what a client sent before it closed in order, as a producer with acks=0 does, is
still to be read. Read next: ``regulating.py``, which says what is read from.
"""

from __future__ import annotations

import select
from collections.abc import Hashable
from itertools import islice

from moldau.model.protocol import Protocol
from moldau.ports import Handle, Tasks

LOOK_MS = 250
AT_ONCE = 512
"""Connections in one look: half a millisecond. Those after them have their look next."""


class Unread(Hashable, Protocol):
    """A connection as this file needs it."""

    def descriptor(self) -> int:
        """The file descriptor of its socket; -1 where there is none."""

    def end_at_once(self) -> None:
        """Its client is gone: let go of what it holds."""


class UnreadConnections:
    """The connections of one listener that have not read their responses, in the order in which they are looked at."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._connections: dict[Unread, None] = {}
        self._next: Handle | None = None

    def add(self, connection: Unread) -> None:
        """It is not read from, from now on."""
        self._connections[connection] = None
        if self._next is None:
            self._next = self._tasks.call_later(LOOK_MS, self._look)

    def remove(self, connection: Unread) -> None:
        """It is read from again, or has ended."""
        self._connections.pop(connection, None)

    def stop(self) -> None:
        """Look no more."""
        if self._next is not None:
            self._next.cancel()

    def _look(self) -> None:
        self._next = None
        found, asked = {}, select.poll()
        for connection in list(islice(self._connections, AT_ONCE)):
            del self._connections[connection]
            self._connections[connection] = None
            descriptor = connection.descriptor()
            if descriptor >= 0:
                found[descriptor] = connection
                asked.register(descriptor, 0)  # what has ended is told unasked
        for descriptor, _ in asked.poll(0) if found else ():
            found[descriptor].end_at_once()
        if self._connections:
            self._next = self._tasks.call_later(LOOK_MS, self._look)
