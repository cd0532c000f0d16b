"""The sink ``moldau``: rows as records into topics, from a batch write or a stream, without a jar.

Columns and the option ``topic`` are those of Spark's own Kafka connector. Each worker process has idempotent producers,
so a lost connection doubles nothing; a task that runs again does, as with every Spark sink to a topic. A stream
therefore marks its records with a header that says query, batch, task and row, and ``once`` reads them back without the
doubles: effectively once, for readers that ask. Update mode, which Spark does not let a Python sink have, goes through
``IntoTopic``. Read next: sink_options.py, produce.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from moldau.spark.given import OptionError
from moldau.spark.rows import unused_name
from moldau.spark.sink_options import SinkOptions, parse

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from moldau.spark.produce import OpenOut

MARK = "moldau-batch"
"""The header that tells a stream's records apart: query id / batch / task / row."""

_TYPES = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
}


@dataclass
class TaskRecords(WriterCommitMessage):
    """What a task wrote."""

    records: int


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
    if options.mark_by_key and "key" not in found:
        raise OptionError("markBy", "key", "the rows need a column key")
    if options.keep_timestamp and found.get("timestamp") not in ("timestamp",):
        raise OptionError("keepTimestamp", "true", "the rows need a column timestamp, of that type")
    for text in options.warnings:
        warnings.warn(text, stacklevel=3)


class BatchWriter(DataSourceArrowWriter):
    """``df.write.format("moldau").save()``: appends; at least once when a task is run again.

    With the option ``batch`` the records are marked as that batch's, which is how ``IntoTopic`` writes.
    """

    def __init__(self, options: SinkOptions, open_out: OpenOut | None = None) -> None:
        self.options, self._open = options, open_out

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskRecords:
        mark = ""
        if self.options.batch is not None and self.options.mark:
            mark = f"{self.options.batch}/" if self.options.mark_by_key else f"{self.options.batch}/{_task()}/"
        return _write(self.options, iterator, mark, self._open)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Nothing is left to do: records are in the log when their task ends."""

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Records of tasks that ended stay in the log, as with Spark's own connector."""


class StreamWriter(DataSourceStreamArrowWriter):
    """``df.writeStream.format("moldau").start()``: marked, so that ``once`` can read every record once."""

    def __init__(self, options: SinkOptions, open_out: OpenOut | None = None) -> None:
        self.options, self._open = options, open_out

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskRecords:
        from pyspark import TaskContext

        mark = ""
        if self.options.mark:
            task = TaskContext.get()
            assert task is not None, "a task writes"
            query, batch = (task.getLocalProperty(name) for name in ("sql.streaming.queryId", "streaming.sql.batchId"))
            mark = f"{query}/{batch}/" if self.options.mark_by_key else f"{query}/{batch}/{task.partitionId()}/"
        return _write(self.options, iterator, mark, self._open)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """As for a batch write."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """As for a batch write; the batch runs again with the same marks."""


def _task() -> int:
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None, "a task writes"
    return int(task.partitionId())


def _write(options: SinkOptions, rows: Iterator[pa.RecordBatch], mark: str, open_out: OpenOut | None) -> TaskRecords:
    from moldau.spark import produce

    return TaskRecords(produce.write_task(options, rows, mark, open_out=open_out or produce.open_out))


class IntoTopic:
    """Writes each batch of a stream to topics from ``foreachBatch``, in any output mode, marked as a stream's own.

    Spark has no update mode for sinks written in Python; this is the way to write streaming aggregates::

        counts.writeStream.outputMode("update").foreachBatch(IntoTopic(topic="counts", mark_by="key")).start()

    ``mark_by="key"`` tells a batch's rows apart by their key rather than by their place, which holds for aggregates,
    whose rows come in another order when a batch runs again and which have one row for each key. Other keyword
    arguments of the sink are given in ``options``; ``checkpoint`` is the query's checkpointLocation, for Spark Connect.
    """

    def __init__(
        self,
        topic: str | None = None,
        *,
        mark_by: str = "row",
        options: Mapping[str, str] | None = None,
        checkpoint: str | None = None,
    ) -> None:
        self.options = {**(options or {}), "markBy": mark_by}
        if topic is not None:
            self.options["topic"] = topic
        self.checkpoint = checkpoint

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        from moldau.spark.query import query_id

        name = f"{query_id(rows, self.checkpoint)}/{batch_id}"
        rows.write.format("moldau").mode("append").options(**self.options, batch=name).save()


def once(rows: DataFrame, *, within: str | None = None) -> DataFrame:
    """Records of marked streams, each once, whatever ran twice; others are left as they are. Needs the headers column.

    In a stream say how far apart the two copies of a record may be (``within="1 hour"``, by ``timestamp``): for so long
    a mark is kept. Without it a stream keeps every mark for ever, of which a warning tells.
    A batch that runs again must make the same rows in the same order for this to hold: true of maps and filters over
    topics, not of what has been shuffled without an order; for that write with ``markBy=key``.
    """
    from pyspark.sql import functions as fn

    name = unused_name("_mark", rows.columns)
    mark = fn.get(fn.filter("headers", lambda header: header["key"] == MARK), fn.lit(0))["value"]
    place = fn.concat_ws("/", "topic", "partition", "offset").cast("binary")
    marked = rows.withColumn(name, fn.coalesce(mark, place))
    if within is not None and rows.isStreaming:
        found = marked.withWatermark("timestamp", within).dropDuplicatesWithinWatermark(["topic", name])
        return found.drop(name)
    if rows.isStreaming:
        warnings.warn("once keeps every mark of this stream for ever: give it within, like '1 hour'", stacklevel=2)
    return marked.dropDuplicates(["topic", name]).drop(name)


__all__ = [
    "MARK", "BatchWriter", "IntoTopic", "SinkOptions", "StreamWriter", "TaskRecords", "check_columns", "once", "parse",
]  # fmt: skip
