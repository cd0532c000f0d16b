"""Which batches of idempotent producers a broker is to be sent again, as what they lack was to be sent again, too.

A producer has up to five batches of a partition under way. If the first meets a broker that leads no more, or not yet,
and the second one that does, the second lacks the first. Told OUT_OF_ORDER_SEQUENCE_NUMBER, librdkafka (2.16) goes on
under the next producer epoch, and writes again whatever other partitions have stored without having answered: twice in
their logs. Told what the first was told, it sends both again, in order. Read next: ``api/k00_produce.py``.
"""

from __future__ import annotations

from moldau.model import Code
from moldau.model.named import NamedTuple
from moldau.ports import Clock
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
NAME_MAX = 249
"""No topic has a longer name."""
REMEMBERED_MAX = 20_000
"""So many producers and partitions are remembered by a broker, the latest: some 10 MB. One that was forgotten is told
what Apache Kafka tells it."""
REMEMBERED_MS = 120_000
"""And so long: Kafka's producers give a record up then, unless ``delivery.timeout.ms`` says otherwise."""
_HALF = 1 << 30


class Target(NamedTuple):
    """A partition as a request names it: before version 13 by the topic's name, then by its id."""

    topic: str
    topic_id: bytes
    number: int


class _Gap(NamedTuple):
    """What a producer is to send again: from the batch that begins with ``lowest``; those up to ``told`` know it."""

    lowest: int
    told: int
    code: Code
    at_ms: int


Key = tuple[Target, int, int]
"""Of a producer id and epoch in a partition."""


class SentBack:
    """Those of all producers of a broker. Each batch is told once of what it lacks, until that comes again: sent again
    without it, it is judged as it is.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._gaps: dict[Key, _Gap] = {}
        """The one that was noted last comes last."""

    def __bool__(self) -> bool:
        return bool(self._gaps)

    def __len__(self) -> int:
        """Of how many producers and partitions something is to come again."""
        return len(self._gaps)

    def note(self, target: Target, header: BatchHeader, code: Code) -> None:
        """A batch was refused with one of the codes ``FOR_THE_MOMENT``."""
        if header.producer_id < 0 or len(target.topic) > NAME_MAX:
            return
        key = (target, header.producer_id, header.producer_epoch)
        gap, base = self._gaps.get(key), header.base_sequence
        if gap is None or not _after(base, gap.lowest):
            self._keep(key, base, base, code)
        else:
            self._keep(key, gap.lowest, base if _after(base, gap.told) else gap.told, gap.code)

    def behind(self, target: Target, header: BatchHeader) -> Code | None:
        """What a batch ahead of one that is out of order, or of a producer that the log does not know, was refused
        with; None if none was, or this one was told so.
        """
        key = (target, header.producer_id, header.producer_epoch)
        gap = self._gaps.get(key)
        if gap is None or not _after(header.base_sequence, gap.lowest) or not _after(header.base_sequence, gap.told):
            return None
        self._keep(key, gap.lowest, header.base_sequence, gap.code)
        return gap.code

    def meets(self, target: Target, header: BatchHeader) -> bool:
        """Whether a batch that lacks others, and is the first of its producer that a new leader has, is to be sent
        again: what it lacks may be on its way back from the leader before.
        """
        key = (target, header.producer_id, header.producer_epoch)
        gap = self._gaps.get(key)
        if gap is not None and not _after(gap.lowest, header.base_sequence):
            return False
        if gap is None and len(self._gaps) >= REMEMBERED_MAX:  # forgotten before it comes again, it would be told again
            self._forget_old()
            if len(self._gaps) >= REMEMBERED_MAX:
                return False
        self.note(target, header, Code.NOT_LEADER_OR_FOLLOWER)
        return True

    def appended(self, target: Target, header: BatchHeader) -> None:
        """A batch is in the log: nothing that it lacked is waited for."""
        key = (target, header.producer_id, header.producer_epoch)
        gap = self._gaps.get(key)
        if gap is not None and not _after(gap.lowest, header.base_sequence):
            del self._gaps[key]

    def _keep(self, key: Key, lowest: int, told: int, code: Code) -> None:
        self._gaps.pop(key, None)
        self._gaps[key] = _Gap(lowest, told, code, self._clock.monotonic_ms())
        self._forget_old()

    def _forget_old(self) -> None:
        """At most two, so that no request pays for all that came before."""
        for _ in range(2):
            oldest = next(iter(self._gaps), None)
            if oldest is None:
                return
            is_old = self._clock.monotonic_ms() - self._gaps[oldest].at_ms > REMEMBERED_MS
            if not is_old and len(self._gaps) <= REMEMBERED_MAX:
                return
            del self._gaps[oldest]


def _after(sequence: int, other: int) -> bool:
    """Whether a sequence number comes after another; they begin anew at 2**31."""
    return 0 < (sequence - other) & 0x7FFFFFFF < _HALF
