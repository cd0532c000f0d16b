"""The requests that one event has an active controller send: a batch is begun, filled, and sent whole before the next.

What was begun and not sent would be lost, and brokers would go on without it: another batch is refused then, as
Apache Kafka's controller refuses it (``AbstractControllerBrokerRequestBatch.newBatch``). Who sends: ``channels.py``.
"""

from __future__ import annotations

from moldau.wire.schema import Message

RequestsByBroker = dict[int, list[Message]]
"""Broker id -> what it is told, in order."""


class UnsentRequests(Exception):
    """A batch is begun while requests of the one before have not been sent."""


class RequestBatch:
    """The requests that one controller sends together."""

    def __init__(self) -> None:
        self._told: RequestsByBroker | None = None

    def begin(self) -> RequestsByBroker:
        """A new batch, to be filled; UnsentRequests where the one before was not sent."""
        if self._told is not None:
            held = {id: [type(one).__name__ for one in messages] for id, messages in self._told.items()}
            raise UnsentRequests(f"requests of the batch before have not been sent, and would be lost: {held}")
        self._told = {}
        return self._told

    def sent(self) -> None:
        """All that it holds is in the queues of the brokers."""
        self._told = None
