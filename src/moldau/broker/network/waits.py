"""What of one connection's requests waits in the purgatory, and when such a wait ends before its time.

A fetch of a consumer waits no longer than until its client asks for something else, because answers leave in order
(decision 9); everything waits no longer than its connection lasts. Read next: ``broker/purgatory.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moldau.broker.network.memory import FETCH, MemoryOwner, RequestMemory
from moldau.broker.purgatory import DelayedOperation, safely
from moldau.model.protocol import Protocol


class Answer(Protocol):
    """An answer that is still to come."""

    def add_done_callback(self, callback: Callable[[Any], object], /) -> object: ...  # Any: itself


class ParkedFetch(DelayedOperation, Protocol):
    """A fetch that waits for records."""

    @property
    def answer(self) -> Answer: ...


class Waits:
    """The waits of one connection, and what is left of them."""

    __slots__ = ("_all", "_fetches", "_held", "_making", "_memory", "_owner")

    def __init__(self, owner: MemoryOwner, memory: RequestMemory) -> None:
        self._owner, self._memory = owner, memory
        self._all: list[DelayedOperation] = []
        self._fetches: list[DelayedOperation] = []
        self._held: dict[DelayedOperation, None] = {}
        """Fetches whose memory is counted, the oldest first."""
        self._making = 0
        """Bytes of the long answer that is made."""

    def add(self, waiter: DelayedOperation, *, of_consumer: bool = False) -> None:
        """The answer of a request waits there; ``of_consumer`` if it is a consumer's fetch."""
        if len(self._all) > 16:
            self._all = [one for one in self._all if not one.done]
        self._all.append(waiter)
        if of_consumer:
            self._fetches.append(waiter)

    def add_fetch(self, wait: ParkedFetch, size: int, *, of_consumer: bool) -> None:
        """A fetch waits, with so many bytes of memory that nobody else counts."""
        self.add(wait, of_consumer=of_consumer)
        if size:
            self._held[wait] = None
            self._memory.park(self._owner, size)
            wait.answer.add_done_callback(lambda _: self._answered(wait, size))

    def _answered(self, wait: ParkedFetch, size: int) -> None:
        del self._held[wait]
        self._memory.unpark(self._owner, size)

    def answer_oldest_fetch(self) -> bool:
        """Others need the memory: answer with what there is; whether a fetch waited."""
        oldest = next((wait for wait in self._held if not wait.done), None)
        if oldest is not None:
            safely(oldest, oldest.expire)
        return oldest is not None

    def asked(self, api_key: int) -> None:
        """Another request has come: it does not wait behind a fetch that waits for records.

        Other fetches end no wait: a client with two of them under way would go round as fast as it can.
        """
        if not self._fetches:
            return
        if api_key == FETCH:
            self._fetches = [wait for wait in self._fetches if not wait.done]
            return
        fetches, self._fetches = self._fetches, []
        for wait in fetches:
            if not wait.done:
                wait.expire()

    def hold(self, size: int) -> None:
        """A long answer is made, which takes so many bytes until it is encoded; a connection has one under way."""
        self.made()
        self._making = size
        if size:
            self._memory.park(self._owner, size)

    def made(self) -> None:
        """It is encoded, or given up."""
        size, self._making = self._making, 0
        if size:
            self._memory.unpark(self._owner, size)

    def abandon(self) -> None:
        """The client is gone."""
        self.made()
        waiting, self._all, self._fetches = self._all, [], []
        for one in waiting:
            if not one.done:
                one.abandon()
