"""A cluster in memory and Spark's way of driving a reader, to test pipelines and the source without a broker or a JVM.

``MemoryCluster`` holds real record batches, built with any codec, headers, timestamps and transactions, and lets a
test expire, compact, cut and re-create what it likes, or act in front of any question that a reader asks.
``MicroBatches`` plans and runs batches as Spark's engine does, with an offset log that survives what the test breaks.
For real brokers there are the fixtures of ``moldau.cluster.pytest_plugin``; docs/testing.md shows both.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict, Unpack

from moldau.model import TopicPartition
from moldau.spark.decode import next_offset
from moldau.spark.feed import Aborted, KnownTopic, LogEnd, OffsetLost, PartitionOffset, Slice
from moldau.wire.batch import ControlType, build, control_key, read_header, records

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.streaming.datasource import ReadLimit

    from moldau.spark.options import Options
    from moldau.spark.readers import BatchReader, StreamOffset, StreamReader

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
_ANYWHERE = {"kafka.bootstrap.servers": "memory:1", "fetchOffset.retryIntervalMs": "0"}
Headers = Sequence[tuple[str, bytes | None]]


class How(TypedDict, total=False):
    """What ``record_batch`` may be told beside values, timestamp, offset and producer."""

    keys: Sequence[bytes | None] | None
    headers: Headers
    codec: str


def record_batch(
    values: Sequence[bytes | None],
    *,
    keys: Sequence[bytes | None] | None = None,
    headers: Headers = (),
    timestamp_ms: int = 1000,
    codec: str = "none",
    base_offset: int = 0,
    producer_id: int = -1,
    transactional: bool = False,
) -> bytes:
    """One record batch as it lies in a log: for ``MemoryLog`` and for ``moldau.client.sync.Cluster.produce``.

    Records are a millisecond apart from ``timestamp_ms`` on; without ``keys`` every key is b"k".
    """
    of = [b"k"] * len(values) if keys is None else keys
    entries = [
        (timestamp_ms + index, key, value, headers)
        for index, (key, value) in enumerate(zip(of, values, strict=True))
    ]  # fmt: skip
    known = 0 if producer_id >= 0 else -1
    return build(
        entries, base_offset=base_offset, codec=CODECS[codec], transactional=transactional,
        producer_id=producer_id, producer_epoch=known, base_sequence=known,
    )  # fmt: skip


class MemoryLog:
    """One partition: batches in order, where its beginning has been cut, and where each leader epoch began."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.start = 0
        self.end = 0
        self.epochs: list[tuple[int, int]] = [(0, 0)]
        self.aborted: list[Aborted] = []

    def append(
        self,
        *values: bytes | None,
        timestamp: int = 1000,
        producer_id: int = -1,
        transactional: bool = False,
        **how: Unpack[How],
    ) -> int:
        """Add a batch, as ``record_batch`` has it; the offset of its first record."""
        at = self.end
        self.batches.append(
            record_batch(
                values, timestamp_ms=timestamp, base_offset=at, producer_id=producer_id, transactional=transactional,
                **how,
            )
        )  # fmt: skip
        self.end += len(values)
        return at

    def transaction(self, *values: bytes, commit: bool, producer_id: int = 7, **how: Unpack[How]) -> None:
        """Add the records of a transaction and the marker that ends it."""
        first = self.append(*values, producer_id=producer_id, transactional=True, **how)
        kind = ControlType.COMMIT if commit else ControlType.ABORT
        marker = [(1000, control_key(kind), bytes(6), ())]
        self.batches.append(
            build(
                marker,
                base_offset=self.end,
                producer_id=producer_id,
                producer_epoch=0,
                control=True,
                transactional=True,
            )
        )
        self.end += 1
        if not commit:
            self.aborted.append(Aborted(producer_id, first))

    def expire(self, offset: int) -> None:
        """Lose what is before ``offset``, as retention does."""
        self.start = offset
        self.batches = [each for each in self.batches if read_header(each).next_offset > offset]

    def compact(self, *keep: int) -> None:
        """Lose all batches but those that begin at these offsets; the log's end stays where it is."""
        self.batches = [each for each in self.batches if read_header(each).base_offset in keep]

    def cut(self, offset: int, *, elect: bool = False) -> None:
        """Lose what is from ``offset`` on; with ``elect`` to a leader of another epoch, which had no more."""
        self.end = offset
        self.batches = [each for each in self.batches if read_header(each).base_offset < offset]
        if elect:
            self.epochs.append((self.epochs[-1][0] + 1, offset))

    def epoch_end(self, epoch: int) -> int:
        """Where the records of this leader epoch and earlier ones end."""
        return next((begin for later, begin in self.epochs if later > epoch), self.end)


class MemoryCluster:
    """Topics by name. ``asked`` lists the questions, ``failures`` of which fail; ``before`` acts in front of one."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, MemoryLog] = {}
        self.ids: dict[str, bytes] = {}
        self.groups: dict[str, dict[TopicPartition, int]] = {}
        self.asked: list[str] = []
        self.failures = 0
        self.opened = 0
        self._generation = 0
        self._acts: list[tuple[str, Callable[[], object]]] = []

    def create(self, topic: str, partitions: int = 1) -> None:
        """A new topic; one of an old name has another id."""
        self._generation += 1
        self.ids[topic] = hashlib.md5(f"{topic}/{self._generation}".encode()).digest()
        for number in range(partitions):
            self.logs[TopicPartition(topic, number)] = MemoryLog()

    def delete(self, topic: str) -> None:
        """Delete a topic with its records."""
        del self.ids[topic]
        self.logs = {partition: log for partition, log in self.logs.items() if partition.topic != topic}

    def grow(self, topic: str) -> MemoryLog:
        """One more partition."""
        number = sum(partition.topic == topic for partition in self.logs)
        return self.logs.setdefault(TopicPartition(topic, number), MemoryLog())

    def log(self, topic: str, partition: int = 0) -> MemoryLog:
        """The log of a partition, to be appended to and broken."""
        return self.logs[TopicPartition(topic, partition)]

    def before(self, question: str, act: Callable[[], object]) -> None:
        """Do this once, in front of the next question of that name: topics, offsets, ends, fetch, committed, commit."""
        self._acts.append((question, act))

    def open(self, options: Options | None = None) -> MemoryFeed:
        """A feed over it; what readers take as ``open_feed``."""
        self.opened += 1
        return MemoryFeed(self, committed=options is not None and options.read_committed)

    def read(self, subscribe: str, **options: str) -> pa.Table:
        """What a batch read with these options gives, as an Arrow table: ``spark.createDataFrame`` takes it."""
        import pyarrow as pa

        from moldau.spark.decode import arrow_schema
        from moldau.spark.options import parse
        from moldau.spark.readers import BatchReader

        given = parse({**_ANYWHERE, "subscribe": subscribe, **options}, "batch")
        reader = BatchReader(given, self.open)
        found = [rows for part in reader.partitions() for rows in reader.read(part)]
        return pa.Table.from_batches(found, schema=arrow_schema(given.columns))

    def stream(self, subscribe: str, **options: str) -> MicroBatches:
        """A stream read with these options, from the earliest record unless they say so, to be driven by hand."""
        from moldau.spark.options import parse
        from moldau.spark.readers import StreamReader

        given = parse({**_ANYWHERE, "subscribe": subscribe, "startingOffsets": "earliest", **options}, "stream")
        return MicroBatches(lambda: StreamReader(given, self.open))

    def is_asked(self, question: str) -> None:
        """Note a question, do what is to be done first, and fail when failures are left."""
        self.asked.append(question)
        for each in [each for each in self._acts if each[0] == question][:1]:
            self._acts.remove(each)
            each[1]()
        if self.failures:
            self.failures -= 1
            raise ConnectionRefusedError(question)


class MemoryFeed:
    """A ``feed.Feed`` over a ``MemoryCluster``."""

    def __init__(self, cluster: MemoryCluster, *, committed: bool = False) -> None:
        self.cluster = cluster
        self._committed = committed

    def topics(self, names: Collection[str] | None) -> Mapping[str, KnownTopic]:
        """The topics of these names, or all."""
        self.cluster.is_asked("topics")
        return {
            name: KnownTopic(
                id, tuple(each.partition for each in self.cluster.logs if each.topic == name), name[:2] == "__"
            )
            for name, id in self.cluster.ids.items()
            if names is None or name in names
        }

    def offsets(self, asked: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """The offsets that -2 (earliest), -1 (latest) or a time in ms stand for."""
        self.cluster.is_asked("offsets")
        logs = self.cluster.logs
        return {partition: _offset(logs[partition], at) for partition, at in asked.items() if partition in logs}

    def ends(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, LogEnd]:
        """The end and the leader epoch of each partition's log."""
        self.cluster.is_asked("ends")
        logs = self.cluster.logs
        return {each: LogEnd(logs[each].end, logs[each].epochs[-1][0]) for each in partitions if each in logs}

    def epoch_ends(self, asked: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Where the log's epochs end."""
        self.cluster.is_asked("epoch_ends")
        logs = self.cluster.logs
        return {partition: logs[partition].epoch_end(epoch) for partition, epoch in asked.items() if partition in logs}

    def sample(self, asked: Mapping[TopicPartition, PartitionOffset]) -> Mapping[TopicPartition, float]:
        """How large a record is at these places."""
        self.cluster.is_asked("sample")
        found: dict[TopicPartition, float] = {}
        for partition, place in asked.items():
            batches = self.cluster.logs[partition].batches if partition in self.cluster.logs else []
            for header in map(read_header, batches):
                if header.next_offset > place.offset:
                    found[partition] = header.size / (header.next_offset - header.base_offset)
                    break
        return found

    def committed(self, group_id: str, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """What a group has committed."""
        self.cluster.is_asked("committed")
        return {each: at for each, at in self.cluster.groups.get(group_id, {}).items() if each in partitions}

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit for a group."""
        self.cluster.is_asked("commit")
        self.cluster.groups[group_id] = dict(offsets)

    def fetch(self, partition: TopicPartition, topic_id: bytes, offset: int, max_bytes: int) -> Slice:
        """What stands from an offset on; OffsetLost when it is not there."""
        self.cluster.is_asked("fetch")
        log = self.cluster.logs.get(partition)
        if log is None or topic_id != self.cluster.ids[partition.topic]:
            raise OffsetLost("the topic is another one")
        if not log.start <= offset <= log.end:
            raise OffsetLost(f"offset {offset} is outside {log.start} to {log.end}")
        found, size = [], 0
        for batch in log.batches:
            if read_header(batch).next_offset > offset and (not size or size + len(batch) <= max_bytes):
                found.append(batch)
                size += len(batch)
        data = b"".join(found)
        return Slice(data, next_offset(data, offset), log.start, log.end, log.aborted if self._committed else ())

    def slices(self, partition: TopicPartition, topic_id: bytes, span: range, max_bytes: int) -> Iterator[Slice]:
        """What stands in a range of offsets, one fetch after the other."""
        at = span.start
        while at < span.stop:
            found = self.fetch(partition, topic_id, at, max_bytes)
            if not found.records and at >= found.end_offset:
                return
            yield found
            at = found.next_offset

    def close(self) -> None:
        """Remember that the reader was closed."""
        self.cluster.asked.append("close")


def _offset(log: MemoryLog, at: int) -> int:
    if at == -2:
        return log.start
    if at == -1:
        return log.end
    for (
        batch
    ) in log.batches:  # as brokers look: in the first batch whose greatest time is late enough, record by record
        if read_header(batch).max_timestamp >= at:
            for record in records(batch):
                if record.timestamp >= at and record.offset >= log.start:
                    return record.offset
    return -1


Rows = list["pa.RecordBatch"]


class MicroBatches:
    """Drives a stream reader as Spark's engine does; what is written down survives ``restart``.

    Faults at every step: ``plan`` alone and then ``restart`` (the batch was planned and the driver lost), ``run`` of
    what is planned twice (``finish=False``: the batch failed, or its tasks are retried), and ``finish`` (committed).
    """

    def __init__(self, open_reader: Callable[[], StreamReader]) -> None:
        self._open = open_reader
        self.log: list[StreamOffset] = []
        self.finished = 0
        self.restart()

    def restart(self) -> None:
        """A new driver: nothing but the log of offsets is left."""
        self.reader = self._open()
        self.start = self.log[self.finished - 1] if self.finished else None

    def plan(self, limit: ReadLimit | None = None) -> bool:
        """Write the next batch's end down, unless one is planned already; False when there is nothing to read."""
        if len(self.log) > self.finished:
            return True
        start = self.reader.initialOffset() if self.start is None else self.start
        end = self.reader.latestOffset(start, self.reader.getDefaultReadLimit() if limit is None else limit)
        if json.dumps(end) == json.dumps(start):
            return False
        self.log.append(json.loads(json.dumps(end)))
        return True

    def run(self, *, finish: bool = True) -> list[bytes]:
        """The values of the planned batch, read as its tasks would; it stays planned unless it is to be finished."""
        start = self.reader.initialOffset() if self.start is None else self.start
        end = self.log[self.finished]
        found = values(self.reader, self.reader.partitions(start, end))
        if finish:
            self.finished += 1
            self.start = end
        return found

    def batch(self, *, fail: bool = False, limit: ReadLimit | None = None) -> list[bytes] | None:
        """Plan and run; None when there is nothing to do, or when it is to fail after it was planned."""
        return self.run() if self.plan(limit) and not fail else None


def values(reader: BatchReader | StreamReader, partitions: Sequence[InputPartition]) -> list[bytes]:
    """The values that a reader's tasks give, in their order."""
    return [value for part in partitions for rows in reader.read(part) for value in rows.column("value").to_pylist()]
