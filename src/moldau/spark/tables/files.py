"""A batch's rows as Parquet files in a folder of their own, counted on both sides.

Two writers: Spark's own (local paths and what Hadoop's filesystems reach), and Arrow inside the executors' Python
(``write_arrow``; for S3 without a jar, and for formats that keep partition columns inside the files). Both count the
rows while they are computed; a driver that does not see as many rows in the files refuses the batch: executors and
driver do not share the folder. Read next: table.py.
"""

from __future__ import annotations

import json
import time
import urllib.parse
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from moldau.model.counted import counted
from moldau.spark.tables.ledger import TableError
from moldau.spark.tables.stores import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_STATS_TEXT = 64  # longer strings make poor bounds and a heavy log
_WRITTEN = "path string, size long, rows long, stats string"

Stats = Mapping[str, object]
"""What Delta's log says of a file: numRecords, minValues, maxValues, nullCount."""


class DataFile(NamedTuple):
    """A Parquet file of a table: its path below the table, what Delta's log says of it, and its partition values."""

    path: str
    size: int
    rows: int
    stats: Stats
    partition: Mapping[str, str | None]


class TableContents(NamedTuple):
    """What the files of a table's newest version hold: the rows of those that can be read, and of each that cannot, or
    is not as the table's log says, what is wrong with it."""

    rows: int
    damaged: Sequence[str]


class FileLayout(NamedTuple):
    """How files are laid out: which columns name folders, and whether the files hold those columns as well."""

    partition_by: Sequence[str] = ()
    keep_columns: bool = False


def folder_of(batch_id: int) -> str:
    """A folder that no other attempt writes into."""
    return f"batch-{batch_id:09d}-{uuid.uuid4().hex[:12]}"


def write_files(rows: DataFrame, store: Store, folder: str, layout: FileLayout) -> list[DataFile]:
    """Write the rows; TableError when the driver cannot see what the executors wrote."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as fn

    observation = Observation(f"moldau-{uuid.uuid4().hex[:8]}")
    watched = rows.observe(observation, fn.count(fn.lit(1)).alias("rows"))
    if store.s3 or layout.keep_columns:
        found = write_arrow(watched, store, folder, layout)
    else:
        write_spark(watched, store, folder, layout.partition_by)
        found = read_footers(store, folder)
    check_count(store, folder, int(observation.get["rows"]), sum(each.rows for each in found))
    return found


def check_count(store: Store, folder: str, observed: int, there: int) -> None:
    """TableError unless as many rows lie in the folder as were computed."""
    if observed != there:
        were = counted(observed, "row was", "rows were")
        raise TableError(
            f"{store}: {were} written by the executors, but the driver finds {there:,} in {folder}. "
            "Executors and driver do not share this folder: give the table a place that all machines reach "
            "under one name (a mount, hdfs://, s3://). Nothing was added to the table."
        )


def write_spark(rows: DataFrame, store: Store, folder: str, partition_by: Sequence[str]) -> None:
    """By Spark's own Parquet writer, with timestamps in microseconds as tables want them."""
    conf = rows.sparkSession.conf
    name, zone = "spark.sql.parquet.outputTimestampType", conf.get("spark.sql.session.timeZone", "UTC")
    if zone not in ("UTC", "Etc/UTC", "Z", "+00:00", "GMT"):
        types = {field.name: field.dataType.typeName() for field in rows.schema.fields}
        local = [column for column in partition_by if types.get(column) == "timestamp"]
        if local:
            raise TableError(
                f"{store}: partition values of {', '.join(local)} would be written in the session's time zone {zone}, "
                "which no reader could tell: set spark.sql.session.timeZone to UTC, or partition by a date"
            )
    before = conf.get(name, None)
    conf.set(name, "TIMESTAMP_MICROS")
    try:
        writer = rows.write.mode("error").option("compression", "zstd")  # Connect knows no mode errorifexists
        if partition_by:
            writer = writer.partitionBy(*partition_by)
        writer.parquet(f"{store.uri}/{folder}")
    finally:
        conf.unset(name) if before is None else conf.set(name, before)


def read_footers(store: Store, folder: str) -> list[DataFile]:
    """The files below a folder that hold rows."""
    found = []
    for name in store.names(folder, ".parquet"):
        with store.filesystem.open_input_file(store.at(name)) as file:
            footer, size = pq.read_metadata(file), file.size()
        if footer.num_rows:
            found.append(DataFile(name, size, footer.num_rows, file_stats(footer), partition_of(name)))
    return found


def held(files: Iterable[tuple[Store, str, int]]) -> TableContents:
    """Look at each file: a table's log alone does not tell that a file is there, nor that it is whole. A file is its
    store, its name there and the size that the log says."""
    rows, damaged = 0, []
    for store, name, size in files:
        there = store.size(name)
        if there != size:
            damaged.append(f"{store}/{name}: " + ("gone" if there is None else f"{there:,} bytes, not {size:,}"))
            continue
        try:
            with store.filesystem.open_input_file(store.at(name)) as file:
                rows += pq.read_metadata(file).num_rows
        except (OSError, pa.ArrowException) as error:
            damaged.append(f"{store}/{name}: {str(error).splitlines()[0]}")
    return TableContents(rows, damaged)


def gone(store: Store, paths: Iterable[str]) -> int:
    """How many of the files are not there."""
    return sum(store.size(each) is None for each in paths)


def write_arrow(rows: DataFrame, store: Store, folder: str, layout: FileLayout) -> list[DataFile]:
    """By Arrow in the executors' Python processes; the driver looks that every file is there with its size."""
    place, options, schema = store.uri, store.options, _arrow_schema(rows)
    by, keep = list(layout.partition_by), layout.keep_columns

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from moldau.spark.tables.files import TaskFiles
        from moldau.spark.tables.stores import open_store

        yield TaskFiles(open_store(place, options), folder, schema, FileLayout(by, keep)).write(batches)

    found = []
    for row in rows.mapInArrow(write, _WRITTEN).collect():
        size = store.size(row.path)
        if size != row.size:
            raise TableError(
                f"{store}: an executor wrote {row.path} with {row.size} bytes, the driver finds "
                f"{'nothing' if size is None else f'{size} bytes'}: they do not share this folder"
            )
        found.append(DataFile(row.path, row.size, row.rows, json.loads(row.stats), partition_of(row.path)))
    return found


class WrittenAs(TypedDict):
    """How Arrow writes a file."""

    compression: str
    write_statistics: list[str]


def written_as(schema: pa.Schema, partition_by: Sequence[str] = ()) -> WrittenAs:
    """How Arrow writes rows of these columns: with the bounds of all that are neither numbers with a point nor nested.

    Arrow's bounds pass over NaN, which is greater than any number to Spark and DataFusion: these would not look for it
    in a file whose greatest number is less than what they are asked for. A partition's column, of which a file has one
    value, has bounds in any case: pyiceberg takes the value from there.
    """
    without = (pa.types.is_floating, pa.types.is_nested)
    bounded = [one.name for one in schema if one.name in partition_by or not any(test(one.type) for test in without)]
    return {"compression": "zstd", "write_statistics": bounded}


class TaskFiles:
    """One task's files: one for each combination of partition values."""

    def __init__(self, store: Store, folder: str, schema: pa.Schema, layout: FileLayout) -> None:
        self._store, self._folder, self._layout = store, folder, layout
        drop = () if layout.keep_columns else layout.partition_by
        self._schema = pa.schema([field for field in schema if field.name not in drop])
        self._whole = schema
        self._open: dict[str, tuple[str, pq.ParquetWriter, pa.NativeFile]] = {}

    def write(self, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch:
        """What was written: path, size, rows and bounds of each file."""
        try:
            for batch in batches:
                table = pa.Table.from_batches([batch]).cast(self._whole)
                for place, part in _split(table, self._layout.partition_by):
                    self._writer(place).write_table(part.select(self._schema.names))
        finally:
            for _, writer, sink in self._open.values():
                writer.close()
                sink.close()
        return self._told()

    def _writer(self, place: str) -> pq.ParquetWriter:
        if place not in self._open:
            name = f"{self._folder}/{place}part-{uuid.uuid4().hex}.parquet"
            self._store.make_folder(name.rpartition("/")[0])
            sink = self._store.filesystem.open_output_stream(self._store.at(name))
            how = written_as(self._schema, self._layout.partition_by)
            self._open[place] = (name, pq.ParquetWriter(sink, self._schema, **how), sink)
        return self._open[place][1]

    def _told(self) -> pa.RecordBatch:
        found = []
        for name, _, _ in self._open.values():
            with self._store.filesystem.open_input_file(self._store.at(name)) as file:
                footer, size = pq.read_metadata(file), file.size()
            found.append((name, size, footer.num_rows, json.dumps(file_stats(footer))))
        columns = list(zip(*found, strict=True)) or [(), (), (), ()]
        types = (pa.string(), pa.int64(), pa.int64(), pa.string())
        arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, names=["path", "size", "rows", "stats"])


def _split(table: pa.Table, by: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each combination of partition values, with the folder names that say it."""
    if not by:
        yield "", table
        return
    # By numbers that stand for values: NaN equals nothing, and 0.0 equals -0.0, which has a folder of its own.
    coded = [pc.dictionary_encode(table.column(name).combine_chunks(), null_encoding="encode") for name in by]
    values = [one.dictionary.to_pylist() for one in coded]
    numbers = pa.table([one.indices for one in coded], names=[str(at) for at in range(len(by))])
    for found in numbers.group_by(numbers.column_names).aggregate([]).to_pylist():
        chosen, place = None, ""
        for at, (column, number) in enumerate(found.items()):
            same, value = pc.equal(numbers[column], number), values[at][number]
            chosen = same if chosen is None else pc.and_(chosen, same)
            text = NO_PARTITION if value is None else urllib.parse.quote(_partition_text(value), safe="")
            place += f"{urllib.parse.quote(by[at], safe='')}={text}/"
        yield place, table.filter(chosen)


def _partition_text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def partition_of(path: str) -> dict[str, str | None]:
    """The partition values in the folder names of a file's path."""
    found: dict[str, str | None] = {}
    for part in path.split("/")[:-1]:
        name, sign, value = part.partition("=")
        if sign:
            found[urllib.parse.unquote(name)] = None if value == NO_PARTITION else urllib.parse.unquote(value)
    return found


def _arrow_schema(rows: DataFrame) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(rows.schema, timezone="UTC")


def file_stats(footer: pq.FileMetaData) -> Stats:
    """Row count, and bounds and null counts of flat columns, as Delta's log writes them; from the footer alone."""
    lows: dict[str, Any] = {}  # Any: a column's bounds are of one type, which orders itself
    highs: dict[str, Any] = {}  # Any: as above
    nulls: dict[str, int] = {}
    unknown: set[str] = set()
    for group in range(footer.num_row_groups):
        for index in range(footer.num_columns):
            column = footer.row_group(group).column(index)
            name, stats = column.path_in_schema, column.statistics
            bounds = None if "." in name or stats is None or not stats.has_min_max else _bounds(stats)
            if bounds is None or not _plain(*bounds):
                unknown.add(name)
                continue
            lows[name] = min(lows.get(name, bounds[0]), bounds[0])
            highs[name] = max(highs.get(name, bounds[1]), bounds[1])
            nulls[name] = nulls.get(name, 0) + (stats.null_count or 0)
    known = [name for name in lows if name not in unknown]
    return {
        "numRecords": footer.num_rows,
        "minValues": {name: lows[name] for name in known},
        "maxValues": {name: highs[name] for name in known},
        "nullCount": {name: nulls[name] for name in known},
    }


def _bounds(stats: Any) -> tuple[Any, Any] | None:  # Any: pyarrow's statistics have values of any type
    """Lowest and highest value; None where Python has no such value, as for times beyond the year 9999."""
    try:
        return stats.min, stats.max
    except (OverflowError, ValueError):
        return None


def _plain(low: object, high: object) -> bool:
    """Bounds that JSON can carry without a second thought: numbers, and short text (Delta compares it as such)."""
    if isinstance(low, bool) or isinstance(high, bool):
        return False
    if isinstance(low, str) and isinstance(high, str):
        return len(low) <= _STATS_TEXT and len(high) <= _STATS_TEXT
    if isinstance(low, float) and isinstance(high, float):
        return abs(low) < float("inf") and abs(high) < float("inf")
    return isinstance(low, int) and isinstance(high, int)


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


WriteFiles = Callable[["DataFrame", Store, str, FileLayout], list[DataFile]]
__all__ = ["DataFile", "FileLayout", "WriteFiles", "file_stats", "folder_of", "write_files"]
