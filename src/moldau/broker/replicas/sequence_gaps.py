"""Gaps in the sequences of idempotent producers: batches that this broker refused and that a producer sends again.

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

TRANSIENT_CODES = frozenset(
    {
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.UNKNOWN_TOPIC_ID,
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.REQUEST_TIMED_OUT,
        Code.NOT_ENOUGH_REPLICAS,
        Code.KAFKA_STORAGE_ERROR,
    }
)
"""Codes by which a batch is refused that the producer is to send again unchanged."""
NAME_MAX = 249
"""No topic has a longer name."""
REMEMBERED_MAX = 20_000
"""How many gaps a broker remembers, the latest of them: some 10 MB. A batch behind a gap that was forgotten is answered
as Apache Kafka answers it."""
REMEMBERED_MS = 120_000
"""How long a gap is remembered: producers give a record up after ``delivery.timeout.ms``, which is two minutes."""
_HALF = 1 << 30


class ProducedPartition(NamedTuple):
    """A partition as a request names it: before version 13 by the topic's name, then by its id."""

    topic: str
    topic_id: bytes
    number: int


class _Gap(NamedTuple):
    """What a producer is to send again: the batch that begins with ``first_sequence``, refused with ``code``, and those
    behind it; those up to ``refused_up_to`` were refused for it once."""

    first_sequence: int
    refused_up_to: int
    code: Code
    at_ms: int


Key = tuple[ProducedPartition, int, int]
"""Partition, producer id and producer epoch: each key has one gap."""


class SequenceGaps:
    """The gaps of all producers of a broker. A batch behind a gap is refused once for it; sent again while the gap is
    still there, it is judged by the log alone, so that no producer is stuck.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._gaps: dict[Key, _Gap] = {}
        """In the order in which they were last changed."""

    def __bool__(self) -> bool:
        return bool(self._gaps)

    def __len__(self) -> int:
        """How many gaps there are."""
        return len(self._gaps)

    def refused(self, target: ProducedPartition, header: BatchHeader, code: Code) -> None:
        """Note that a batch was refused with one of the ``TRANSIENT_CODES``."""
        if header.producer_id < 0 or len(target.topic) > NAME_MAX:
            return
        key = (target, header.producer_id, header.producer_epoch)
        gap, base = self._gaps.get(key), header.base_sequence
        if gap is None or not _after(base, gap.first_sequence):
            self._keep(key, base, base, code)
        else:  # also where those behind it were refused before: they are behind another refusal now (seed 184)
            self._keep(key, gap.first_sequence, base, gap.code)

    def code_behind_gap(self, target: ProducedPartition, header: BatchHeader) -> Code | None:
        """The code by which to refuse a batch that is out of order, or of a producer that the log does not know: that
        of the gap before it. None if there is no gap, or the batch was refused for it already.
        """
        key = (target, header.producer_id, header.producer_epoch)
        gap = self._gaps.get(key)
        if (
            gap is None
            or not _after(header.base_sequence, gap.first_sequence)
            or not _after(header.base_sequence, gap.refused_up_to)
        ):
            return None
        self._keep(key, gap.first_sequence, header.base_sequence, gap.code)
        return gap.code

    def refuse_once_on_new_leader(self, target: ProducedPartition, header: BatchHeader) -> bool:
        """Whether to refuse a batch that lacks others and is the first of its producer on a new leader: what it lacks
        may be on its way here from the leader before. A batch that is refused so leaves a gap.
        """
        key = (target, header.producer_id, header.producer_epoch)
        gap = self._gaps.get(key)
        if gap is not None and not _after(gap.first_sequence, header.base_sequence):
            return False
        if gap is None and len(self._gaps) >= REMEMBERED_MAX:  # forgotten, it would be refused again
            self._forget_old()
            if len(self._gaps) >= REMEMBERED_MAX:
                return False
        self.refused(target, header, Code.NOT_LEADER_OR_FOLLOWER)
        return True

    def appended(self, target: ProducedPartition, header: BatchHeader) -> None:
        """Note that a batch is in the log: the gap that it fills, or is behind, is none any more."""
        key = (target, header.producer_id, header.producer_epoch)
        gap = self._gaps.get(key)
        if gap is not None and not _after(gap.first_sequence, header.base_sequence):
            del self._gaps[key]

    def _keep(self, key: Key, first_sequence: int, refused_up_to: int, code: Code) -> None:
        self._gaps.pop(key, None)
        self._gaps[key] = _Gap(first_sequence, refused_up_to, code, self._clock.monotonic_ms())
        self._forget_old()

    def _forget_old(self) -> None:
        """Forget at most two gaps, so that no request pays for all that came before."""
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
