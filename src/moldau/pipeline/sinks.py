"""The places that a pipeline writes to, each of which takes a batch once: tables by their ledgers, topics by marks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from moldau.model.protocol import Protocol
from moldau.pipeline import columns as names
from moldau.pipeline.absent import refuse_absent
from moldau.pipeline.books import SinkRows, names_of
from moldau.pipeline.spec import KEPT_OF_RECORDS, DeadLetters, Deletes, TableFeed, TableSink, TopicSink
from moldau.spark.produce import MARK
from moldau.spark.rows import quoted, row_json
from moldau.spark.tables import BatchKey, LedgerError, Table, TableError
from moldau.spark.tables.columns import ColumnsError
from moldau.spark.tables.delta import DeltaFormat
from moldau.spark.tables.manifest import ParquetFormat
from moldau.spark.tables.routing import Tables
from moldau.spark.tables.stores import open_store
from moldau.spark.tables.table import Format, Written
from moldau.spark.tables.upsert import Upserts

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

KEPT = (names.TOPIC, names.PARTITION, names.OFFSET, names.TIMESTAMP)
"""What says in a table, of a pipeline without steps, where a row came from."""


class Target(Protocol):
    """A sink that is open."""

    name: str
    exact: bool
    """Whether it keeps every row, so that its count can be held against the books."""

    def check(self, rows: DataFrame, sources: Sequence[str], count: int) -> None:
        """TableError where a table that is there would refuse the columns of these rows, which are ``count`` and come
        from these topics; TopicAbsent where the topic for them is not there. Writes nothing."""

    def write(self, rows: DataFrame, key: BatchKey, count: int) -> SinkRows:
        """Write a batch of ``count`` rows, unless it is there already."""


def open_format(sink: TableSink, place: str) -> Format:
    """The table's format over its place. TableError when its options cannot be used."""
    options = dict(sink.options)
    if sink.format == "iceberg":
        return _iceberg(sink, place, options)
    store = open_store(place, options)
    return DeltaFormat(store, sink.partition_by) if sink.format == "delta" else ParquetFormat(store, sink.partition_by)


def _iceberg(sink: TableSink, place: str, options: dict[str, str]) -> Format:
    from moldau.spark.tables.catalogs import answering, settings_read

    try:
        with settings_read():
            from pyiceberg.catalog import load_catalog
    except ImportError as error:
        raise TableError(f"{sink.table}: Iceberg needs pyiceberg: pip install 'moldau[iceberg]'") from error
    from moldau.spark.tables.iceberg import IcebergFormat

    name = options.pop("catalog")
    identifier = options.pop("identifier", "") or f"default.{place.rstrip('/').rsplit('/', 1)[-1]}"
    # pyiceberg's own begin with small letters, delta-rs's with capitals, as for tables of other formats.
    store = {key: options.pop(key) for key in list(options) if key.isupper()}
    try:
        with answering(identifier), settings_read():
            catalog = load_catalog(name, **options)
    except ValueError as error:
        raise TableError(f"{sink.table}: catalog {name} cannot be opened: {error}") from error
    return IcebergFormat(catalog, identifier, location=place, partition_by=sink.partition_by, storage_options=store)


class IntoTable:
    """A table; ``pipeline`` is its name in the ledger."""

    def __init__(self, sink: TableSink, pipeline: str, *, begins_late: bool) -> None:
        self.name, self.exact = sink.name, not sink.keys
        self.table = open_table(sink, pipeline)
        self.table.begins_late = begins_late

    def check(self, rows: DataFrame, sources: Sequence[str], count: int) -> None:
        _check(self.table, rows)

    def write(self, rows: DataFrame, key: BatchKey, count: int) -> SinkRows:
        return wrote(self.table, self.table.append(rows, key), key)


class IntoTables:
    """A table for each topic that records came from, whatever their own fields say."""

    def __init__(self, sink: TableSink, pipeline: str, *, begins_late: bool) -> None:
        self.name, self.exact = sink.name, True

        def open_one(place: str) -> Table:
            return Table(open_format(sink, place), pipeline=pipeline, evolve=sink.evolve)

        self.tables = Tables(sink.table, open_table=open_one, begins_late=begins_late)

    def check(self, rows: DataFrame, sources: Sequence[str], count: int) -> None:
        rows = self._routed(rows)
        for topic in sources:
            _check(self.tables.table(topic), rows)

    def write(self, rows: DataFrame, key: BatchKey, count: int) -> SinkRows:
        found = self.tables.append(self._routed(rows), key)
        parts = [wrote(self.tables.table(topic), one, key) for topic, one in found.items()]
        return SinkRows(sum(one.rows for one in parts), any(one.again for one in parts))

    def _routed(self, rows: DataFrame) -> DataFrame:
        """The rows as their tables have them, with the column that says which one is whose."""
        if names.TOPIC not in rows.columns:
            place = self.tables.template
            raise TableError(
                f"{place}: the transformation must keep the column {names.TOPIC}: it says where a row goes"
            )
        self.tables.column = names.TOPIC
        if "topic" in (one.lower() for one in rows.columns):
            return rows
        self.tables.column = "topic"  # tables have it by the name that the source gives it
        return rows.withColumnRenamed(names.TOPIC, "topic")


def _check(table: Table, rows: DataFrame) -> None:
    try:
        table.check(rows)
    except ColumnsError:
        raise
    except (TableError, OSError):  # what is the matter with the table itself, the write says
        return


class ToTopic:
    """A topic whose records carry the batch's mark; ``feed`` is the table whose changes they are."""

    exact = True

    def __init__(self, sink: TopicSink, cluster: str, feed: TableFeed | None = None) -> None:
        self.name, self._sink, self._cluster, self._feed = sink.name, sink, sink.cluster or cluster, feed
        self._topic_exists = False

    def check(self, rows: DataFrame, sources: Sequence[str], count: int) -> None:
        if count and not self._topic_exists:
            refuse_absent(self._cluster, self._sink.topic)
            self._topic_exists = True

    def write(self, rows: DataFrame, key: BatchKey, count: int) -> SinkRows:
        if count:
            options = {"kafka.bootstrap.servers": self._cluster, **self._sink.options}
            if "timestamp" in self._sink.keep:
                options["keepTimestamp"] = "true"
            write_marked(as_records(rows, self._sink, self._feed), self._sink.topic, key, options)
        return SinkRows(count)


def write_marked(rows: DataFrame, topic: str, key: BatchKey, options: Mapping[str, str]) -> None:
    """Write records to a topic, each with a mark that is the same when the batch runs again."""
    marked = {**options, "topic": topic, "batch": f"{key.query_id}/{key.batch_id}"}
    rows.write.format("moldau").mode("append").options(**marked).save()


def open_table(sink: TableSink, pipeline: str) -> Table:
    """The table of a sink without ``{topic}``."""
    if sink.keys:
        return Upserts(
            sink.table, keys=sink.keys, order_by=sink.order_by, delete_when=sink.delete_when, pipeline=pipeline,
            storage_options=dict(sink.options),
        )  # fmt: skip
    return Table(open_format(sink, sink.table), pipeline=pipeline, evolve=sink.evolve)


def is_written(opened: Callable[[str], Table], pipeline: str) -> bool:
    """Whether a table has batches of the pipeline, or of replays or backfills of it; ``opened`` gives it by the name
    under which they write."""
    for name in names_of(pipeline):
        try:
            if opened(name).last() is not None:
                return True
        except LedgerError:  # it was there, and its line was expired
            return True
    return False


def wrote(table: Table, found: Written, key: BatchKey) -> SinkRows:
    """What the table has of this batch, whichever run of it wrote it."""
    if not found.skipped:
        return SinkRows(found.rows)
    last = table.last(key.query_id)
    if last is None or last.batch_id != key.batch_id:
        at = "it is gone" if last is None else f"it has batch {last.batch_id}"
        raise TableError(f"{table.store}: batch {key.batch_id} is not the newest there ({at}), nor in the books")
    return SinkRows(last.rows, again=True)


def as_records(rows: DataFrame, sink: TopicSink, feed: TableFeed | None = None) -> DataFrame:
    """Rows as ``key`` and ``value`` of records; a deleted row of a table's feed has no value."""
    from pyspark.sql import functions as fn

    own = names.RESERVED if feed is None else {*names.RESERVED, *names.FEED}
    if sink.value is not None:
        value = fn.expr(sink.value)
    else:
        value = row_json(fn.struct(*[quoted(name) for name in rows.columns if name not in own]))
    if feed is not None and feed.deletes is Deletes.TOMBSTONE:
        if names.CHANGE not in rows.columns:
            raise TableError(f"topic {sink.topic}: the transformation must keep {names.CHANGE}, which tells deletes")
        value = fn.when(fn.col(names.CHANGE) != "delete", value)
    kept = [] if sink.key is None else [fn.expr(sink.key).alias("key")]
    found = rows.select(*kept, value.alias("value"), *(kept_column(name) for name in sink.keep))
    texts = [name for name in ("key", "value") if name in found.columns]
    texts = [name for name in texts if found.schema[name].dataType.simpleString() not in ("string", "binary")]
    return found.withColumns({name: fn.col(name).cast("string") for name in texts}) if texts else found


def kept_column(name: str) -> Column:
    """What the record itself had; headers without the mark that another pipeline gave it, since it gets one here."""
    from pyspark.sql import functions as fn

    column = fn.col(KEPT_OF_RECORDS[name])
    if name == "headers":
        column = fn.filter(column, lambda header: header["key"] != MARK)
    return column.alias(name)


def open_sink(
    sink: TableSink | TopicSink,
    pipeline: str,
    cluster: str,
    *,
    begins_late: bool = False,
    feed: TableFeed | None = None,
) -> Target:
    """The open sink."""
    if isinstance(sink, TopicSink):
        return ToTopic(sink, cluster, feed)
    if "{topic}" in sink.table:
        return IntoTables(sink, pipeline, begins_late=begins_late)
    return IntoTable(sink, pipeline, begins_late=begins_late)


class Dead:
    """The dead letters of a pipeline: a Delta table, a topic, or both."""

    def __init__(self, letters: DeadLetters, pipeline: str, cluster: str, *, begins_late: bool = False) -> None:
        self._pipeline, self._topic, self._cluster = pipeline, letters.topic, cluster
        self._topic_exists = False
        self.table = None
        if letters.table is not None:
            self.table = Table(letters.table, pipeline=pipeline, begins_late=begins_late)

    def check(self, count: int) -> None:
        """TopicAbsent where the topic for so many dead letters is not there."""
        if self._topic is not None and count and not self._topic_exists:
            refuse_absent(self._cluster, self._topic)
            self._topic_exists = True

    def write(self, rows: DataFrame, key: BatchKey, count: int, batch: str, *, marked: BatchKey) -> int:
        """Write the rows that are dead as batch ``batch``, ``marked`` so in the topic; how many there are now. The
        table's ledger needs every batch, also one without dead letters."""
        if self._topic is not None and count:
            options = {"kafka.bootstrap.servers": self._cluster}
            write_marked(as_letters(rows, self._pipeline), self._topic, marked, options)
        if self.table is None:
            return count
        found = self.table.append(as_rows(rows, self._pipeline, batch), key)
        return wrote(self.table, found, key).rows


def as_rows(rows: DataFrame, pipeline: str, batch: str | None) -> DataFrame:
    """Dead letters as rows of their table: the record as it was, where it lay, and why it could not be taken.

    ``batch`` is what the books call their batch; None where there are no books, nor the column.
    """
    from pyspark.sql import functions as fn

    return rows.select(
        fn.lit(pipeline).alias("pipeline"),
        *([] if batch is None else [fn.lit(batch).alias("batch")]),
        *(fn.col(name).alias(name.removeprefix("_")) for name in (*names.PLACES, names.VALUE)),
        fn.col(names.STAGE).alias("stage"),
        fn.col(names.REASON).alias("reason"),
        fn.col(names.SCHEMA_ID).alias("schema_id"),
        fn.current_timestamp().alias("died_at"),
    )


def as_letters(rows: DataFrame, pipeline: str) -> DataFrame:
    """Dead letters as records: key, value and headers as they were, and headers that say where and why."""
    from pyspark.sql import functions as fn

    told = {
        "pipeline": fn.lit(pipeline),
        "topic": fn.col(names.TOPIC),
        "partition": fn.col(names.PARTITION),
        "offset": fn.col(names.OFFSET),
        "stage": fn.col(names.STAGE),
        "reason": fn.col(names.REASON),
        "schema-id": fn.coalesce(fn.col(names.SCHEMA_ID).cast("string"), fn.lit("")),
    }
    more = fn.array(
        *(
            fn.struct(fn.lit(f"moldau.dlq.{name}").alias("key"), one.cast("string").cast("binary").alias("value"))
            for name, one in told.items()
        )
    )
    there = fn.coalesce(fn.col(names.HEADERS), fn.array().cast(names.PLACES[names.HEADERS]))
    return rows.select(
        fn.col(names.KEY).alias("key"), fn.col(names.VALUE).alias("value"), fn.concat(there, more).alias("headers")
    )
