"""What of one connection's requests waits in the purgatory, and when such a wait ends before its time.

A fetch of a consumer waits no longer than until its client asks for something else, because answers leave in order
(decision 9); everything waits no longer than its connection lasts. Read next: ``broker/purgatory.py``.
"""

from __future__ import annotations

from moldau.broker.purgatory import DelayedOperation

FETCH = 1


class Waits:
    """The waits of one connection, and what is left of them."""

    __slots__ = ("_all", "_fetches")

    def __init__(self) -> None:
        self._all: list[DelayedOperation] = []
        self._fetches: list[DelayedOperation] = []

    def add(self, waiter: DelayedOperation, *, of_consumer: bool = False) -> None:
        """The answer of a request waits there; ``of_consumer`` if it is a consumer's fetch."""
        if len(self._all) > 16:
            self._all = [one for one in self._all if not one.done]
        self._all.append(waiter)
        if of_consumer:
            self._fetches.append(waiter)

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

    def abandon(self) -> None:
        """The client is gone."""
        waiting, self._all, self._fetches = self._all, [], []
        for one in waiting:
            if not one.done:
                one.abandon()
