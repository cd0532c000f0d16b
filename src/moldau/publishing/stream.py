"""One node's lines into a topic, each once and in order, whatever is killed when.

Where a stream ended, and by which producer with which sequence number, is read out of the topic; whoever goes on does
so under that producer's id with the next number. A request of a publisher that was killed may still arrive: it has the
number that the next publisher's first batch has, and the broker takes one of the two (KIP-98). Who is refused for that
reads the end of the topic again. So two publishers of one node do no harm either. Before the first line a claim is
written: the first one in the topic counts, whoever wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from enum import Enum, auto
from itertools import chain
from typing import Protocol

from moldau.model import Code
from moldau.model.named import NamedTuple
from moldau.publishing.following import CutFile, LogFollower, Start
from moldau.publishing.records import (
    BEGINS,
    CLAIM,
    GOES_ON,
    LOST,
    PLACE,
    FileLine,
    LineRange,
    PublishedRecord,
    key_of,
    own_words,
    read_line,
)
from moldau.wire.batch import Builder
from moldau.wire.compression import Codec

RENEW_MS = 300_000
"""How long a broker may refuse a producer's next number before another producer goes on: what it has and does not show
yet is committed, or cut off, much earlier."""
KEEP_MS = 6 * 3_600_000
"""A stream without lines writes a record so often: brokers forget a producer after a day, and retention removes the
place."""
_REFUSED_PRODUCER = frozenset({Code.UNKNOWN_PRODUCER_ID, Code.INVALID_PRODUCER_EPOCH})
_TOO_LARGE = frozenset({Code.MESSAGE_TOO_LARGE, Code.RECORD_LIST_TOO_LARGE})


class Away(Exception):
    """The cluster did not do it now, or nobody knows whether it did: the same is to be tried again."""


class NotTaken(Exception):
    """The cluster refuses it for a reason that somebody has to remove."""


class StateChangeTopic(Protocol):
    """The topic, as a stream needs it. All raise Away when the cluster cannot be asked."""

    def newest(self, node: int) -> Iterator[PublishedRecord]:
        """The records of a node, the newest first."""

    def partition_for(self, node: int) -> int:
        """Where records of a node belong that has none yet."""

    def producer(self) -> tuple[int, int]:
        """A new producer id and its epoch."""

    def append(self, partition: int, batch: bytes) -> Code:
        """Write a batch; what the broker said, if that stands."""

    def ensure(self) -> None:
        """Make the topic if it is not there."""


class StepResult(Enum):
    """What came of a step."""

    IDLE = auto()
    """Nothing is left to do now."""
    BUSY = auto()
    """Something was done, and more may be to do."""


class _Sending(NamedTuple):
    """A batch until it is known that it is written; ``place`` is that of its last record."""

    batch: bytes
    records: int
    place: LineRange
    lines: int


class Stream:
    """The lines of one node. ``step`` does a little; after Away or NotTaken it is called again, later."""

    def __init__(
        self,
        node: int,
        folder: str,
        topic: StateChangeTopic,
        *,
        now_ms: Callable[[], int],
        codec: Codec = Codec.GZIP,
        say: Callable[[str], object] = lambda text: None,
    ) -> None:
        self.node, self.folder = node, folder
        self.lines = 0
        """Lines that were written by this object."""
        self._follower = LogFollower(folder, node)
        self._topic, self._now_ms, self._codec, self._say = topic, now_ms, codec, say
        self._found = self._renew = False
        self._partition = -1
        self._identity = (-1, -1)
        self._sequence = 0
        self._sending: _Sending | None = None
        self._to_prove: LineRange | None = None
        self._is_proven = False
        self._words: str | None = None
        self._wrote_ms = 0
        self._refused_ms: int | None = None
        self._most = 1 << 30
        self._unwritten: list[FileLine] = []

    def close(self) -> None:
        """Close the file that is read; nothing is lost by that."""
        self._follower.close()

    def step(self) -> StepResult:
        """Find where to go on, or write the next lines. Away and NotTaken may pass; nothing is lost by them."""
        if self._sending is not None:
            return self._send()
        if self._to_prove is not None:
            return self._prove()
        try:
            if not self._found:
                return self._find()
            return self._write_some()
        except CutFile:
            self._forget()
            return StepResult.BUSY

    def left_bytes(self) -> int:
        """About how much of the files is not in the topic."""
        if not self._found:
            self._look()
        with suppress(CutFile):
            return self._follower.left_bytes()
        return 0

    # ---- where to go on

    def _look(self) -> tuple[Start, PublishedRecord | None]:
        """Go in the files where the topic ends; and the record whose producer goes on."""
        claims: list[PublishedRecord] = []
        newest: PublishedRecord | None = None
        told = self._topic.newest(self.node)
        for one in told:
            if not one.place.is_claim:
                newest = one
                break
            claims.append(one)
        others = (one for one in told if not one.place.is_claim)
        start = self._follower.go_on(chain([newest], others) if newest is not None else ())
        return start, newest or (claims[-1] if claims else None)

    def _find(self) -> StepResult:
        start, last = self._look()
        if start is Start.NO_FILE:
            return StepResult.IDLE
        if last is None or self._renew:
            self._partition = self._topic.partition_for(self.node) if last is None else last.partition
            self._identity, self._sequence, self._renew = self._topic.producer(), 0, False
        else:
            self._partition, self._identity = last.partition, last.producer
            self._sequence = _next(last.sequence, 1)
        self._wrote_ms = self._now_ms() if last is None else last.timestamp_ms
        self._found, self._unwritten = True, []
        if last is None:
            self._prepare([(self._now_ms(), own_words(self.node, self._now_ms(), BEGINS), CLAIM)], 0)
        elif start is Start.LOST:
            self._say(f"node {self.node}: the file of its newest published line is gone from {self.folder}: {LOST}")
            self._words = LOST
        return StepResult.BUSY

    def _forget(self) -> None:
        """Find out anew where to go on."""
        self._found = self._is_proven = False
        self._sending = self._to_prove = self._words = None
        self._unwritten = []

    # ---- writing

    def _write_some(self) -> StepResult:
        now_ms = self._now_ms()
        if self._words is None and not self._unwritten:
            self._unwritten = self._follower.read()
        if self._words is None and not self._unwritten and now_ms - self._wrote_ms >= KEEP_MS:
            self._words = GOES_ON
        if self._words is not None:
            self._prepare([(now_ms, own_words(self.node, now_ms, self._words), self._follower.place)], 0)
        elif self._unwritten:
            some = self._unwritten[: self._most]
            records = []
            for line in some:
                at, value = read_line(self.node, line)
                records.append((now_ms if at is None else max(min(at, now_ms), 0), value, line.place))
            self._prepare(records, len(some))
        else:
            return StepResult.IDLE
        return self._send()

    def _prepare(self, records: Sequence[tuple[int, bytes, LineRange]], lines: int) -> None:
        builder = Builder()
        for at, value, place in records:
            builder.append(at, key_of(self.node), value, [(PLACE, place.encoded())])
        id, epoch = self._identity
        batch = builder.finish(codec=self._codec, producer_id=id, producer_epoch=epoch, base_sequence=self._sequence)
        self._sending = _Sending(batch, len(records), records[-1][2], lines)

    def _send(self) -> StepResult:
        sending = self._sending
        assert sending is not None
        code = self._topic.append(self._partition, sending.batch)
        if code in (Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER):
            self._written(sending)
        elif code is Code.OUT_OF_ORDER_SEQUENCE_NUMBER:
            self._refused()
        elif code in _REFUSED_PRODUCER:
            self._forget()
            self._renew = True
        elif code is Code.UNKNOWN_TOPIC_OR_PARTITION:
            self._forget()
            self._topic.ensure()
        elif code in _TOO_LARGE and sending.records > 1:
            self._most = sending.records // 2
            self._sending = None
        else:
            raise NotTaken(f"records of node {self.node}: {code.name}")
        return StepResult.BUSY

    def _written(self, sending: _Sending) -> None:
        self._sending, self._words, self._refused_ms = None, None, None
        self._sequence = _next(self._sequence, sending.records)
        self._wrote_ms = self._now_ms()
        self._unwritten = self._unwritten[sending.lines :]
        self.lines += sending.lines
        if sending.place.is_claim:
            self._forget()  # the first claim counts, which may be another one
        elif not self._is_proven:
            self._to_prove = sending.place

    def _prove(self) -> StepResult:
        """Look whether the first batch that was written is the one that stands: one with the same numbers, of a
        publisher that was killed, would be taken for it."""
        newest = next((one for one in self._topic.newest(self.node) if not one.place.is_claim), None)
        if newest is None or newest.place != self._to_prove:
            self._forget()
        self._to_prove, self._is_proven = None, self._found
        return StepResult.BUSY

    def _refused(self) -> None:
        """The topic has more of this producer than was seen."""
        self._forget()
        now_ms = self._now_ms()
        if self._refused_ms is None:
            self._refused_ms = now_ms
        elif now_ms - self._refused_ms >= RENEW_MS:
            self._say(
                f"node {self.node}: its producer is refused for {RENEW_MS // 60_000} minutes; another one goes on"
            )
            self._renew, self._refused_ms = True, None
        raise Away(f"records of node {self.node}: others of its producer are ahead")


def _next(sequence: int, records: int) -> int:
    """The sequence number after so many records."""
    return (sequence + records) & 0x7FFFFFFF
