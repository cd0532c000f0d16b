"""Records written from a stream, on blocking connections: gathered into batches and written partition by partition.

Each batch is written once (KIP-98), or not at all; what went wrong is raised, with how many records were written
before. A batch that is refused for its size is written in parts, as by Kafka's producer (KIP-126). For scripts and
commands; producer.py is faster, and needs an event loop. Read next: writing.py.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence

from moldau.client.client import Client
from moldau.client.partitioner import partition_of
from moldau.client.writing import BatchOutcome, produce, producer_id
from moldau.model import Code, TopicPartition
from moldau.model.counted import counted
from moldau.model.value import value
from moldau.wire.batch import Builder, Header, records
from moldau.wire.compression import Codec

BATCH_BYTES = 512 << 10
BATCH_RECORDS = 10_000
RECORD_BYTES = 40
"""What a record may take besides its key, its value and its headers, each of which takes as much besides at most."""
TOO_LARGE = frozenset({Code.MESSAGE_TOO_LARGE, Code.RECORD_LIST_TOO_LARGE})


class NotWritten(Exception):
    """A batch of ``count`` records that the cluster did not acknowledge; ``written`` records were written before it.

    ``doubtful``: it may be in the log all the same. ``place``: how many records of its partition were written before it
    by the same flush.
    """

    def __init__(self, partition: TopicPartition, told: BatchOutcome, written: int, count: int, place: int = 0) -> None:
        super().__init__(f"{counted(count, 'record')} for {partition} not written")
        self.partition = partition
        self.code = told.code
        self.message = told.message
        self.doubtful = told.doubtful
        self.written = written
        self.count = count
        self.place = place


@value(kw_only=True)
class FeedOptions:
    """How to write."""

    acks: int = -1
    codec: Codec = Codec.NONE
    timeout_ms: int = 30_000


class TopicFeed:
    """Takes the records of one topic; ``flush`` writes what has gathered."""

    def __init__(self, client: Client, topic: str, options: FeedOptions) -> None:
        self.client = client
        self.topic = topic
        self.options = options
        self.written = 0
        self.waiting = 0
        self.sending = 0
        """Records under way: when a flush is cut off, whether they are written is not known."""
        self._bytes = 0
        self._open: dict[int, list[Builder]] = {}
        self._sticky = 0
        self._identity: tuple[int, int] | None = None
        self._sequences: dict[int, int] = {}

    @property
    def full(self) -> bool:
        """Whether so much has gathered that it should be written now."""
        return self._bytes >= BATCH_BYTES or self.waiting >= BATCH_RECORDS

    def add(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header] = (),
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> int:
        """Take a record, and return its partition; without a partition its key decides, without a key all until the
        next flush stay together.

        KeyError when the topic has no such partition; it must be known to the client.
        """
        count = len(self.client.view.topics[self.topic].partitions)
        if partition is None:
            partition = self._sticky % count if key is None else partition_of(key, count)
        if not 0 <= partition < count:
            raise KeyError(partition)
        builder = self._builder(partition, _size(key, value, headers))
        before = builder.size
        builder.append(time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms, key, value, headers)
        self._bytes += builder.size - before
        self.waiting += 1
        return partition

    def _builder(self, partition: int, size: int) -> Builder:
        """The batch that a record of so many bytes goes into: another one, when it would make the last one large."""
        batches = self._open.setdefault(partition, [])
        if not batches or (batches[-1].count and batches[-1].size + size > BATCH_BYTES):
            batches.append(Builder())
        return batches[-1]

    async def flush(self) -> None:
        """Write what has gathered. NotWritten when a batch is refused: what is behind it waits for the next flush.
        Refused when there is no producer id."""
        waiting, self._open = self._open, {}
        self.sending = self.waiting
        self._bytes = self.waiting = 0
        self._sticky += 1
        batches = deque((number, builder) for number, builders in sorted(waiting.items()) for builder in builders)
        places: Counter[int] = Counter()
        while batches:
            number, builder = batches.popleft()
            done = await self._write(number, builder)
            if done.code in (Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER):
                self.written += builder.count
                self.sending -= builder.count
                places[number] += builder.count
            elif done.code in TOO_LARGE and builder.count > 1 and not done.doubtful:
                batches.extendleft((number, part) for part in reversed(list(_halves(builder))))
            else:
                self._keep(batches)
                target = TopicPartition(self.topic, number)
                raise NotWritten(target, done, self.written, builder.count, places[number])

    def _keep(self, batches: Iterable[tuple[int, Builder]]) -> None:
        """Have these wait for the next flush."""
        for number, builder in batches:
            self._open.setdefault(number, []).append(builder)
            self._bytes += builder.size
            self.waiting += builder.count
            self.sending -= builder.count

    async def _write(self, number: int, builder: Builder) -> BatchOutcome:
        """Write a batch. After one that is not known to be written another producer id begins anew: in the sequence of
        this one what comes next might be out of order for good."""
        options, sequence = self.options, -1
        if options.acks == -1:
            if self._identity is None:
                self._identity = await producer_id(self.client)
                self._sequences = {}
            sequence = self._sequences.get(number, 0)
        id, epoch = identity = self._identity if self._identity is not None else (-1, -1)
        self._identity = None
        batch = builder.finish(codec=options.codec, producer_id=id, producer_epoch=epoch, base_sequence=sequence)
        target = TopicPartition(self.topic, number)
        done = await produce(self.client, target, batch, acks=options.acks, timeout_ms=options.timeout_ms)
        is_written = done.code in (Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER)
        if options.acks == -1 and (is_written or (done.code in TOO_LARGE and not done.doubtful)):
            self._identity = identity
            if is_written:
                self._sequences[number] = (sequence + builder.count) & 0x7FFFFFFF
        return done


def _size(key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> int:
    """How many bytes a record takes in a batch, at most."""
    size = RECORD_BYTES + len(key or b"") + len(value or b"")
    return size + sum(RECORD_BYTES + 4 * len(name) + len(text or b"") for name, text in headers)


def _halves(builder: Builder) -> Iterator[Builder]:
    """Two batches of the records of one."""
    all_records = list(records(builder.finish()))
    middle = len(all_records) // 2
    for some in (all_records[:middle], all_records[middle:]):
        half = Builder()
        for one in some:
            half.append(one.timestamp, one.key, one.value, one.headers)
        yield half
