"""Which batches of idempotent producers were refused for the moment on a connection, so that what is right behind goes
the same way.

A producer has up to five batches of a partition under way. If the first meets a broker that does not lead yet, and the
second the same broker when it does, the second lacks the first. Told OUT_OF_ORDER_SEQUENCE_NUMBER, librdkafka (2.16)
goes on under the next producer epoch, and writes again whatever other partitions have stored without having answered:
twice in their logs. Told what the first was told, it sends both again, in order. Read next: ``api/k00_produce.py``.
"""

from __future__ import annotations

from moldau.model import Code
from moldau.model.named import NamedTuple
from moldau.wire.batch import BatchHeader

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
REMEMBERED_MAX = 1000
"""So many producers and partitions are remembered for each connection, the latest."""


class Target(NamedTuple):
    """A partition as a request names it: before version 13 by the topic's name, then by its id."""

    topic: str
    topic_id: bytes
    number: int


class SentBack:
    """Those of one connection."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next: dict[tuple[Target, int, int], tuple[int, Code]] = {}
        """The sequence that follows a refused batch, and with what it was refused."""

    def note(self, target: Target, header: BatchHeader, code: Code) -> None:
        """A batch was refused with one of the codes ``FOR_THE_MOMENT``."""
        if header.producer_id < 0:
            return
        key = (target, header.producer_id, header.producer_epoch)
        self._next.pop(key, None)
        self._next[key] = ((header.last_sequence + 1) & 0x7FFFFFFF, code)
        if len(self._next) > REMEMBERED_MAX:
            del self._next[next(iter(self._next))]

    def behind(self, target: Target, header: BatchHeader) -> Code | None:
        """What the batch right ahead of one that is out of order was refused with, None if it was not. Each is told so
        once: sent again without what it lacks, it is out of order.
        """
        sequence, code = self._next.get((target, header.producer_id, header.producer_epoch), (-1, Code.NONE))
        if sequence < 0 or header.base_sequence != sequence:
            return None
        self.note(target, header, code)
        return code
