"""Records written from a stream, on blocking connections: gathered into batches and written partition by partition.

Each batch is written once (KIP-98), or not at all; what went wrong is raised, with how many records were written
before. For scripts and commands; producer.py is faster, and needs an event loop. Read next: writing.py.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from moldau.client.client import Client
from moldau.client.partitioner import partition_of
from moldau.client.writing import BatchOutcome, produce, producer_id
from moldau.model import Code, TopicPartition
from moldau.model.counted import counted
from moldau.model.value import value
from moldau.wire.batch import Builder, Header
from moldau.wire.compression import Codec

BATCH_BYTES = 512 << 10
BATCH_RECORDS = 10_000


class NotWritten(Exception):
    """A batch of ``count`` records that the cluster did not acknowledge; ``written`` records were written before it.

    ``doubtful``: it may be in the log all the same.
    """

    def __init__(self, partition: TopicPartition, told: BatchOutcome, written: int, count: int) -> None:
        super().__init__(f"{counted(count, 'record')} for {partition} not written")
        self.partition = partition
        self.code = told.code
        self.message = told.message
        self.doubtful = told.doubtful
        self.written = written
        self.count = count


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
        self._open: dict[int, Builder] = {}
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
    ) -> None:
        """Take a record; without a partition its key decides, without a key all until the next flush stay together.

        KeyError when the topic has no such partition; it must be known to the client.
        """
        count = len(self.client.view.topics[self.topic].partitions)
        if partition is None:
            partition = self._sticky % count if key is None else partition_of(key, count)
        if not 0 <= partition < count:
            raise KeyError(partition)
        builder = self._open.setdefault(partition, Builder())
        before = builder.size
        builder.append(time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms, key, value, headers)
        self._bytes += builder.size - before
        self.waiting += 1

    async def flush(self) -> None:
        """Write what has gathered. NotWritten when a batch is refused; Refused when there is no producer id."""
        waiting, self._open = self._open, {}
        self.sending = self.waiting
        self._bytes = self.waiting = 0
        self._sticky += 1
        for number, builder in sorted(waiting.items()):
            await self._write(number, builder)

    async def _write(self, number: int, builder: Builder) -> None:
        options, records = self.options, builder.count
        sequence = -1
        if options.acks == -1:
            if self._identity is None:
                self._identity = await producer_id(self.client)
            sequence = self._sequences.get(number, 0)
            self._sequences[number] = (sequence + records) & 0x7FFFFFFF
        id, epoch = self._identity if self._identity is not None else (-1, -1)
        batch = builder.finish(codec=options.codec, producer_id=id, producer_epoch=epoch, base_sequence=sequence)
        target = TopicPartition(self.topic, number)
        done = await produce(self.client, target, batch, acks=options.acks, timeout_ms=options.timeout_ms)
        if done.code not in (Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER):
            raise NotWritten(target, done, self.written, records)
        self.written += records
        self.sending -= records
