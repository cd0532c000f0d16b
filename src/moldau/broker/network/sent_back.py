"""Which batches of idempotent producers a connection is to send again, since what they lack was to be sent again, too.

A producer has up to five batches of a partition under way. If the first meets a broker that leads no more, or not yet,
and the second one that does, the second lacks the first. Told OUT_OF_ORDER_SEQUENCE_NUMBER, librdkafka (2.16) goes on
under the next producer epoch, and writes again whatever other partitions have stored without having answered: twice in
their logs. Told what the first was told, it sends both again, in order. Read next: ``api/k00_produce.py``.
"""

from __future__ import annotations

from typing import TypeVar

from moldau.model import Code
from moldau.model.named import NamedTuple
from moldau.wire.batch import BatchHeader

T = TypeVar("T")

FOR_THE_MOMENT = frozenset(
    {
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.UNKNOWN_TOPIC_ID,
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.REQUEST_TIMED_OUT,
        Code.NOT_ENOUGH_REPLICAS,
        Code.KAFKA_STORAGE_ERROR,
    }
)
"""Codes that say nothing of the batch itself: it is to be sent again."""
NAME_MAX = 249
"""No topic has a longer name."""
REMEMBERED_MAX = 1000
"""So many producers and partitions are remembered for each connection, the latest."""


class Target(NamedTuple):
    """A partition as a request names it: before version 13 by the topic's name, then by its id."""

    topic: str
    topic_id: bytes
    number: int


Key = tuple[Target, int, int]
"""Of a producer id and epoch in a partition."""


class SentBack:
    """Those of one connection."""

    __slots__ = ("_met", "_next")

    def __init__(self) -> None:
        self._next: dict[Key, tuple[int, Code]] = {}
        """The sequence that follows a refused batch, and with what it was refused."""
        self._met: dict[Key, int] = {}
        """The last sequence that was sent back for having come before what it lacks."""

    def __bool__(self) -> bool:
        return bool(self._next)

    def note(self, target: Target, header: BatchHeader, code: Code) -> None:
        """A batch was refused with one of the codes ``FOR_THE_MOMENT``."""
        if header.producer_id < 0 or len(target.topic) > NAME_MAX:
            return
        key = (target, header.producer_id, header.producer_epoch)
        _remember(self._next, key, ((header.last_sequence + 1) & 0x7FFFFFFF, code))

    def behind(self, target: Target, header: BatchHeader) -> Code | None:
        """What the batch right ahead of one that is out of order, or of a producer that the log does not know, was
        refused with, None if it was not. Each is told so once: sent again without what it lacks, it is judged as it is.
        """
        key = (target, header.producer_id, header.producer_epoch)
        sequence, code = self._next.get(key, (-1, Code.NONE))
        if header.base_sequence != sequence:
            return None
        self.note(target, header, code)
        _remember(self._met, key, header.base_sequence)
        return code

    def meets(self, target: Target, header: BatchHeader) -> bool:
        """Whether a batch that is out of order, and is the first of its producer that a new leader has, is to be sent
        again: what it lacks may be on its way back from the leader before. Each is told so once.
        """
        key = (target, header.producer_id, header.producer_epoch)
        if header.base_sequence <= self._met.get(key, -1):
            return False
        _remember(self._met, key, header.base_sequence)
        self.note(target, header, Code.NOT_LEADER_OR_FOLLOWER)
        return True


def _remember(kept: dict[Key, T], key: Key, what: T) -> None:
    kept.pop(key, None)
    kept[key] = what
    if len(kept) > REMEMBERED_MAX:
        del kept[next(iter(kept))]
