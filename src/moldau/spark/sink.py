"""The sink ``moldau``: rows as records into topics, from a batch write or a stream, without a jar.

Columns and the option ``topic`` are those of Spark's own Kafka connector. Each task has an idempotent producer, so a
lost connection doubles nothing; a task that runs again does, as with every Spark sink to a topic. A stream
therefore marks its records with a header that says query, batch, task and row, and ``once`` reads them back without the
doubles: effectively once, for readers that ask. Read next: moldau/client/sync.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from moldau.spark.given import Given, OptionError, kafka_options
from moldau.terms import Code, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from moldau.client.view import Topic
    from moldau.client.writing import Written
    from moldau.wire.batch import Builder

MARK = "moldau-batch"
"""The header that tells a stream's records apart: query id / batch / task / row."""

_BATCH_BYTES = 512 << 10
_NAMES = ("topic", "includeHeaders", "markBatches", "checkpointLocation", "path")
_CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
_TYPES = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
}


class SinkError(RuntimeError):
    """A record that cannot be written; the message names topic and partition, and what the broker said."""


class Out(Protocol):
    """What the sink asks of a cluster; ``moldau.client.sync.Cluster`` has it."""

    def topics(self, names: Sequence[str]) -> Mapping[str, Topic]: ...

    def producer_id(self) -> tuple[int, int]: ...

    def produce(self, target: TopicPartition, records: bytes, *, acks: int = -1) -> Written: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Where to write and how. ``topic`` overrides the column; ``mark`` adds the header ``MARK`` in streams."""

    kafka: Mapping[str, str] = field(default_factory=dict)
    topic: str | None = None
    mark: bool = True
    codec: int = 0


@dataclass
class Wrote(WriterCommitMessage):
    """What a task wrote."""

    records: int


def parse(raw: Mapping[str, str]) -> SinkOptions:
    """The checked options; OptionError otherwise."""
    given = Given(raw)
    given.refuse_unknown(_NAMES)
    kafka = kafka_options(given)
    codec, acks = kafka.get("compression.type", "none"), kafka.get("acks", "all")
    if codec not in _CODECS:
        raise OptionError("kafka.compression.type", codec, "allowed are " + ", ".join(_CODECS))
    if acks not in ("all", "-1"):
        raise OptionError("kafka.acks", acks, "only all is allowed: the producer is idempotent")
    return SinkOptions(kafka, given.get("topic"), given.flag("markBatches", True), _CODECS[codec])


def check_columns(schema: StructType, options: SinkOptions) -> None:
    """OptionError when the rows cannot become records: no value, no topic, or a column of another type."""
    found = {name.lower(): schema[name].dataType.simpleString() for name in schema.fieldNames()}
    for name, types in _TYPES.items():
        if name in found and found[name] not in types:
            raise OptionError(f"column {name}", found[name], "its type must be " + " or ".join(types))
    if "value" not in found:
        raise OptionError("column value", None, "it is what is written")
    if "topic" not in found and options.topic is None:
        raise OptionError("topic", None, "set it, or give the rows a column topic")


def _open(options: SinkOptions) -> Out:
    from moldau.client.sync import Cluster

    return Cluster(options.kafka["bootstrap.servers"])


class BatchWriter(DataSourceArrowWriter):
    """``df.write.format("moldau").save()``: appends; at least once when a task is run again."""

    def __init__(self, options: SinkOptions, open_out: Callable[[SinkOptions], Out] = _open) -> None:
        self.options, self._open = options, open_out

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Wrote:
        return write_task(self.options, iterator, self._open(self.options), "")

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Nothing is left to do: records are in the log when their task ends."""

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Records of tasks that ended stay in the log, as with Spark's own connector."""


class StreamWriter(DataSourceStreamArrowWriter):
    """``df.writeStream.format("moldau").start()``: marked, so that ``once`` can read every record once."""

    def __init__(self, options: SinkOptions, open_out: Callable[[SinkOptions], Out] = _open) -> None:
        self.options, self._open = options, open_out

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Wrote:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None, "a task writes"
        query, batch = (task.getLocalProperty(name) for name in ("sql.streaming.queryId", "streaming.sql.batchId"))
        prefix = f"{query}/{batch}/{task.partitionId()}/" if self.options.mark else ""
        return write_task(self.options, iterator, self._open(self.options), prefix)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """As for a batch write."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """As for a batch write; the batch runs again with the same marks."""


def write_task(options: SinkOptions, rows: Iterator[pa.RecordBatch], out: Out, mark: str) -> Wrote:
    """Write one task's rows and wait for every acknowledgement; ``mark`` begins the header, "" for none."""
    try:
        writer = _Producer(options, out, mark)
        for each in rows:
            writer.add(each)
        writer.flush()
        return Wrote(writer.count)
    finally:
        out.close()


class _Producer:
    """Collects records by partition and sends a batch when one is full."""

    def __init__(self, options: SinkOptions, out: Out, mark: str) -> None:
        self.options, self.out, self.mark = options, out, mark
        self.count = 0
        self._id: tuple[int, int] | None = None
        self._builders: dict[TopicPartition, Builder] = {}
        self._sequences: dict[TopicPartition, int] = {}
        self._sizes: dict[str, int] = {}
        self._sticky: dict[str, int] = {}

    def add(self, rows: pa.RecordBatch) -> None:
        """All rows of an Arrow batch."""
        columns = {name.lower(): rows.column(index).to_pylist() for index, name in enumerate(rows.schema.names)}
        nothing = [None] * rows.num_rows
        now_ms = time.time_ns() // 1_000_000
        topics = nothing if self.options.topic is not None else columns["topic"]
        keys, partitions, headers = (columns.get(name, nothing) for name in ("key", "partition", "headers"))
        for topic, key, value, partition, header in zip(
            topics, keys, columns["value"], partitions, headers, strict=True
        ):
            raw_key = key.encode() if isinstance(key, str) else key
            target = self._target(self.options.topic or topic, raw_key, partition)
            builder = self._builder(target)
            pairs = [(each["key"], each["value"]) for each in header or ()]
            if self.mark:
                pairs.append((MARK, f"{self.mark}{self.count}".encode()))
            builder.append(now_ms, raw_key, value.encode() if isinstance(value, str) else value, pairs)
            self.count += 1
            if builder.size >= _BATCH_BYTES:
                self._send(target)

    def flush(self) -> None:
        """Send what is left."""
        for target in list(self._builders):
            self._send(target)

    def _target(self, topic: str | None, key: bytes | None, partition: int | None) -> TopicPartition:
        from moldau.client.partitioner import partition_of

        if topic is None:
            raise SinkError("a row has no topic: set the option topic, or give every row one")
        size = self._size(topic)
        if partition is not None:
            if not 0 <= partition < size:
                raise SinkError(f"a row names partition {partition} of {topic}, which has {size}")
            return TopicPartition(topic, partition)
        if key is not None:
            return TopicPartition(topic, partition_of(key, size))
        return TopicPartition(topic, self._sticky.setdefault(topic, 0) % size)

    def _size(self, topic: str) -> int:
        if topic not in self._sizes:
            found = self.out.topics([topic])
            if topic not in found:
                raise SinkError(f"topic {topic} is not in the cluster")
            self._sizes[topic] = len(found[topic].partitions)
        return self._sizes[topic]

    def _builder(self, target: TopicPartition) -> Builder:
        found = self._builders.get(target)
        if found is None:
            from moldau.wire.batch import Builder

            found = self._builders[target] = Builder()
        return found

    def _send(self, target: TopicPartition) -> None:
        builder = self._builders.pop(target)
        if self._id is None:
            self._id = self.out.producer_id()
        sequence = self._sequences.get(target, 0)
        records = builder.finish(
            codec=self.options.codec, producer_id=self._id[0], producer_epoch=self._id[1], base_sequence=sequence
        )
        written = self.out.produce(target, records, acks=-1)
        if written.code not in (Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER):
            raise SinkError(f"{target}: {written.code.name} {written.message or ''}".rstrip())
        self._sequences[target] = (sequence + builder.count) & 0x7FFFFFFF
        if target.topic in self._sticky:
            self._sticky[target.topic] += 1


def once(rows: DataFrame) -> DataFrame:
    """Records of marked streams, each once, whatever ran twice; others are left as they are. Needs the headers column.

    A batch that runs again must make the same rows in the same order for this to hold: true of maps and filters over
    topics, not of what has been shuffled without an order.
    """
    from pyspark.sql import functions as fn

    mark = fn.filter("headers", lambda header: header["key"] == MARK)[0]["value"].cast("string")
    place = fn.concat_ws("/", "topic", "partition", "offset")
    return rows.withColumn("_mark", fn.coalesce(mark, place)).dropDuplicates(["topic", "_mark"]).drop("_mark")


def rows_written(messages: Sequence[Any]) -> int:
    """Records in the given commit messages."""
    return sum(message.records for message in messages if isinstance(message, Wrote))
