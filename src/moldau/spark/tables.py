"""Streams into Delta tables, each batch exactly once, without a jar.

Spark's executors write a batch's Parquet files into a folder of their own under the table; the driver then adds them in
one commit that also says "query Q has done batch N" (Delta's application transactions). A batch that is run again after
a crash finds that sentence and is skipped; files of a batch that never committed belong to no version of the table and
are removed by Delta's own vacuum. ``Totals`` keeps sums beside it, folded in by the same rule.
The folder must be reachable by driver and executors under one path. Read next: flights.py (both in use).
"""

from __future__ import annotations

import json
import time
import urllib.parse
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_STATS_TEXT = 64  # longer strings make poor bounds and a heavy log


class TableError(RuntimeError):
    """Rows that do not fit the table, or a table that cannot be written; the message names it."""


class BatchKey(NamedTuple):
    """What makes a batch the same batch when it is run again: the query (its id in the checkpoint) and its number."""

    query_id: str
    batch_id: int


class Written(NamedTuple):
    """What became of a batch: rows and files added, or ``skipped`` because an earlier run had added them."""

    rows: int
    files: int
    skipped: bool


def key_of(rows: DataFrame, batch_id: int) -> BatchKey:
    """The key of the batch that ``foreachBatch`` is handing over just now."""
    query_id = rows.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    if not query_id:
        raise TableError("no streaming query is running here: call from within foreachBatch, or give a BatchKey")
    return BatchKey(query_id, batch_id)


class Table:
    """A Delta table that takes each batch once: ``stream.writeStream.foreachBatch(Table(path)).start()``."""

    def __init__(self, path: str | Path, *, partition_by: Sequence[str] = ()) -> None:
        self.path = _local(path)
        self.partition_by = list(partition_by)

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        self.append(rows, key_of(rows, batch_id))

    def append(self, rows: DataFrame, key: BatchKey) -> Written:
        """Add the rows unless this batch was added before. TableError when they do not fit the table's columns."""
        table = self._open(rows)
        if _done(table, key):
            return Written(0, 0, True)
        folder = f"batch-{key.batch_id:09d}-{uuid.uuid4().hex[:12]}"
        rows.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        writer = rows.write.mode("errorifexists").option("compression", "zstd")
        if self.partition_by:
            writer = writer.partitionBy(*self.partition_by)
        writer.parquet(str(self.path / folder))
        actions, count = self._actions(folder)
        if not actions:
            return Written(0, 0, False)
        return Written(count, len(actions), not self._commit(table, actions, key))

    def last_batch(self, query_id: str) -> int | None:
        """The newest batch of a query in the table, None when there is none."""
        try:
            version = DeltaTable(str(self.path)).transaction_version(query_id)
        except TableNotFoundError:
            return None
        return None if version is None else int(version)

    def _open(self, rows: DataFrame) -> DeltaTable:
        wanted = Schema.from_arrow(_arrow_schema(rows))
        try:
            table = DeltaTable(str(self.path))
        except TableNotFoundError:
            self.path.mkdir(parents=True, exist_ok=True)
            table = DeltaTable.create(str(self.path), wanted, mode="ignore", partition_by=self.partition_by or None)
        there, ours = _columns(table.schema()), _columns(wanted)
        if there != ours:
            differ = sorted(name for name in there.keys() | ours.keys() if there.get(name) != ours.get(name))
            raise TableError(f"the rows do not fit table {self.path}: they differ in {', '.join(differ)}")
        return table

    def _actions(self, folder: str) -> tuple[list[AddAction | RemoveAction], int]:
        """An entry of the table's log for each file that holds rows, and the number of rows."""
        actions: list[AddAction | RemoveAction] = []
        count = 0
        for file in sorted((self.path / folder).rglob("*.parquet")):
            footer = pq.read_metadata(file)
            if not footer.num_rows:
                continue
            count += footer.num_rows
            inside = file.relative_to(self.path)
            values = dict(_partition_value(part) for part in inside.parts[1:-1])
            actions.append(
                AddAction(
                    path=inside.as_posix(),
                    size=file.stat().st_size,
                    partition_values=values,
                    modification_time=int(file.stat().st_mtime * 1000),
                    data_change=True,
                    stats=json.dumps(file_stats(footer)),
                )
            )
        return actions, count

    def _commit(self, table: DeltaTable, actions: list[AddAction | RemoveAction], key: BatchKey) -> bool:
        """Whether this call added the files; False when another run of the batch was first."""
        try:
            table.create_write_transaction(
                actions, "append", table.schema(), self.partition_by or None, commit_properties=_marked(key)
            )
        except (CommitFailedError, DeltaError):
            if _done(DeltaTable(str(self.path)), key):
                return False
            raise
        return True


class Totals:
    """A small Delta table of sums by key columns; each batch's partial sums are folded in once.

    ``keys`` and ``sums`` name its columns. The whole table is rewritten with every batch, on the driver: for results
    that fit a screen or two, not for facts.
    """

    def __init__(self, path: str | Path, *, keys: Sequence[str], sums: Sequence[str]) -> None:
        self.path = _local(path)
        self.keys, self.sums = list(keys), list(sums)

    def fold(self, partial: pa.Table, key: BatchKey) -> Written:
        """Add a batch's sums to the table's, unless this batch was folded in before."""
        partial = partial.select(self.keys + self.sums)
        try:
            table = DeltaTable(str(self.path))
        except TableNotFoundError:
            self.path.mkdir(parents=True, exist_ok=True)
            table = DeltaTable.create(str(self.path), Schema.from_arrow(partial.schema), mode="ignore")
        if _done(table, key):
            return Written(0, 0, True)
        both = pa.concat_tables([table.to_pyarrow_table().cast(partial.schema), partial])
        found = both.group_by(self.keys).aggregate([(name, "sum") for name in self.sums])
        names = [name.removesuffix("_sum") if name not in self.keys else name for name in found.column_names]
        found = found.rename_columns(names).select(partial.column_names).cast(partial.schema)
        try:
            write_deltalake(table, found, mode="overwrite", commit_properties=_marked(key))
        except (CommitFailedError, DeltaError):
            if _done(DeltaTable(str(self.path)), key):
                return Written(0, 0, True)
            raise
        return Written(found.num_rows, 1, False)

    def read(self) -> pa.Table:
        """The sums as they stand."""
        return DeltaTable(str(self.path)).to_pyarrow_table()


def _marked(key: BatchKey) -> CommitProperties:
    """The commit says which batch it is, for the machine (the transaction) and for people (the history)."""
    return CommitProperties(
        custom_metadata={"moldau.query": key.query_id, "moldau.batch": str(key.batch_id)},
        app_transactions=[Transaction(key.query_id, key.batch_id, int(time.time() * 1000))],
    )


def _done(table: DeltaTable, key: BatchKey) -> bool:
    last = table.transaction_version(key.query_id)
    return last is not None and last >= key.batch_id


def _columns(schema: Schema) -> dict[str, str]:
    return {field.name: str(field.type) for field in schema.fields}


def _arrow_schema(rows: DataFrame) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(rows.schema, timezone="UTC")


def _partition_value(part: str) -> tuple[str, str | None]:
    name, _, value = part.partition("=")
    return urllib.parse.unquote(name), None if value == _NO_PARTITION else urllib.parse.unquote(value)


def file_stats(footer: pq.FileMetaData) -> Mapping[str, Any]:
    """Row count, and bounds and null counts of flat columns, as Delta's log writes them; from the footer alone."""
    lows: dict[str, Any] = {}
    highs: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    unknown: set[str] = set()
    for group in range(footer.num_row_groups):
        for index in range(footer.num_columns):
            column = footer.row_group(group).column(index)
            name, stats = column.path_in_schema, column.statistics
            if "." in name or stats is None or not stats.has_min_max or not _plain(stats.min, stats.max):
                unknown.add(name)
                continue
            lows[name] = min(lows.get(name, stats.min), stats.min)
            highs[name] = max(highs.get(name, stats.max), stats.max)
            nulls[name] = nulls.get(name, 0) + (stats.null_count or 0)
    known = [name for name in lows if name not in unknown]
    return {
        "numRecords": footer.num_rows,
        "minValues": {name: lows[name] for name in known},
        "maxValues": {name: highs[name] for name in known},
        "nullCount": {name: nulls[name] for name in known},
    }


def _plain(low: object, high: object) -> bool:
    """Bounds that JSON can carry without a second thought: numbers, and short text (Delta compares it as such)."""
    if isinstance(low, bool) or isinstance(high, bool):
        return False
    if isinstance(low, str) and isinstance(high, str):
        return len(low) <= _STATS_TEXT and len(high) <= _STATS_TEXT
    if isinstance(low, float) and isinstance(high, float):
        return abs(low) < float("inf") and abs(high) < float("inf")
    return isinstance(low, int) and isinstance(high, int)


def _local(path: str | Path) -> Path:
    text = str(path)
    if "://" in text and not text.startswith("file://"):
        raise TableError(f"{text}: only a folder that driver and executors share can hold the table")
    return Path(text.removeprefix("file://")).absolute()
