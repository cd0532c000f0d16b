"""A table that takes each batch of a stream once and refuses what does not follow: ``foreachBatch(Table(path))``.

Order of a batch: the ledger is asked whether it may follow, executors write files, the driver counts them, and one
commit adds files and the ledger's next line. A crash anywhere leaves the table before or after that commit; files of a
batch that never committed belong to no version and go with ``maintain``. Read next: ledger.py, files.py, delta.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import pyarrow as pa

from moldau.model.protocol import Protocol
from moldau.spark.rows import quoted
from moldau.spark.tables import checkpoint as checkpoints
from moldau.spark.tables.columns import ColumnsError
from moldau.spark.tables.delta import DeltaFormat
from moldau.spark.tables.delta_columns import nulls_of
from moldau.spark.tables.files import DataFile, FileLayout, TableContents, WriteFiles, folder_of, held, write_files
from moldau.spark.tables.ledger import (
    UNNAMED,
    BatchKey,
    BatchVerdict,
    LedgerEntry,
    LedgerError,
    Offsets,
    Raced,
    are_positions,
    judge,
    marker,
    next_entry,
    starting_offsets,
)
from moldau.spark.tables.stores import Store, open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TRIES = 5
Found = TypeVar("Found")


class Written(NamedTuple):
    """What became of a batch: rows and files added, or ``skipped`` because an earlier run had added them."""

    rows: int
    files: int
    skipped: bool


class Format(Protocol):
    """What a table asks of its format: Delta, Iceberg, or Parquet with a manifest."""

    store: Store

    @property
    def layout(self) -> FileLayout:
        """How its files are partitioned and named."""

    def prepare(self, schema: pa.Schema, *, evolve: bool) -> None:
        """Make the table for rows of this schema, if there is none; change its schema where that may be."""

    def check(self, schema: pa.Schema, *, evolve: bool) -> None:
        """TableError unless rows of this schema may be appended."""

    def last(self, pipeline: str, query_id: str) -> LedgerEntry | None:
        """The newest line that is the query's in a pipeline's ledger; None without one."""

    def lost(self, pipeline: str) -> LedgerEntry | None:
        """The line of a batch that the ledger has, and the table not; None when all are there."""

    def commit(self, files: Sequence[DataFile], entry: LedgerEntry) -> None:
        """Put files into the table with the line of their batch, in one commit."""

    def rewind(self, pipeline: str, batch_id: int) -> LedgerEntry:
        """Take out what came after a batch; the line that is the last one now."""

    def rows_at(self, pipeline: str, batch_id: int) -> int:
        """How many rows the table had after a batch."""

    def maintain(
        self, *, target_bytes: int, retention_hours: int, dry_run: bool = False, restate: Callable[[], None] = ...
    ) -> Mapping[str, int]:
        """Join small files and remove old ones; what was done, in numbers. ``restate`` is called before the log
        expires, where what it writes is kept."""

    def count(self) -> int:
        """How many rows the table has."""

    def data_files(self) -> Iterable[tuple[Store, str, int]]:
        """The files with rows: the store, the path and the size of each."""

    def read(self) -> pa.Table:
        """All rows."""


class Table:
    """A table that a stream fills exactly once: ``stream.writeStream.foreachBatch(Table(path)).start()``.

    ``path`` is a folder or URI (local, hdfs://, s3://), or a ``Format`` (``DeltaFormat``, ``ParquetFormat``,
    ``IcebergFormat``). ``pipeline`` names the stream for the table; a table that several streams fill needs a name for
    each. ``evolve`` lets new columns in. ``begins_late`` is for a new table under a query that runs already: without
    it a table that lacks the query's first batch is refused, since it may have been removed. ``checkpoint`` is the
    query's checkpointLocation, which a classic session knows by itself. ``storage_options`` are delta-rs's
    (AWS_ENDPOINT_URL, ...).
    """

    def __init__(
        self,
        path: str | Path | Format,
        *,
        partition_by: Sequence[str] = (),
        pipeline: str = UNNAMED,
        evolve: bool = False,
        begins_late: bool = False,
        checkpoint: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        write: WriteFiles = write_files,
    ) -> None:
        if isinstance(path, (str, Path)):
            path = DeltaFormat(open_store(path, storage_options), partition_by)
        self.format: Format = path
        self.pipeline, self.evolve, self.checkpoint, self._write = pipeline, evolve, checkpoint, write
        self.begins_late = begins_late

    def __repr__(self) -> str:
        return f"{type(self.format).__name__}({self.format.store}, pipeline={self.pipeline!r})"

    @property
    def store(self) -> Store:
        """Where the table's files lie."""
        return self.format.store

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Append a batch, as ``foreachBatch`` hands it over."""
        self.append(rows, self.key_of(rows, batch_id))

    def key_of(self, rows: DataFrame, batch_id: int) -> BatchKey:
        """The key of the batch that ``foreachBatch`` is handing over just now."""
        return checkpoints.key_of(rows, batch_id, checkpoint=self.checkpoint)

    def check(self, rows: DataFrame) -> None:
        """TableError when the table is there and ``append`` would refuse these rows. Writes nothing."""
        from pyspark.sql.pandas.types import to_arrow_schema

        self.format.check(to_arrow_schema(rows.schema, timezone="UTC"), evolve=self.evolve)
        self._check_nulls(rows)

    def _check_nulls(self, rows: DataFrame) -> None:
        """ColumnsError where rows have a null in a column that may not be null."""
        names = self.format.required() if isinstance(self.format, DeltaFormat) else []
        if names:
            from pyspark.sql import functions as fn

            nulls = [fn.count_if(fn.col(quoted(name)).isNull()) for name in names]
            found = [name for name, count in zip(names, rows.agg(*nulls).collect()[0], strict=True) if count]
            if found:
                raise ColumnsError(nulls_of(str(self.store), found))

    def append(self, rows: DataFrame, key: BatchKey) -> Written:
        """Add the rows unless the table has this batch. TableError when they do not fit, LedgerError when the batch
        does not follow what is there."""
        from pyspark.sql.pandas.types import to_arrow_schema

        self.format.prepare(to_arrow_schema(rows.schema, timezone="UTC"), evolve=self.evolve)
        if self._judge(key) is BatchVerdict.DONE:
            return Written(0, 0, True)
        files = self._write(rows, self.store, folder_of(key.batch_id), self.format.layout)
        return self.add(files, key)

    def add(self, files: Sequence[DataFile], key: BatchKey) -> Written:
        """Commit files that lie under the table as this batch; skipped when another run of it was first."""
        count = sum(each.rows for each in files)
        done = self.once(key, count, lambda entry: self.format.commit(files, entry))
        return Written(count, len(files), False) if done else Written(0, 0, True)

    def once(self, key: BatchKey, rows: int, commit: Callable[[LedgerEntry], None]) -> bool:
        """Commit a batch under the ledger's next line, again when another writer was first (Raced).

        False when the table has the batch; LedgerError when it does not follow what is there.
        """
        for _ in range(_TRIES):
            last = self.format.last(self.pipeline, key.query_id)
            if self.judge(last, key) is BatchVerdict.DONE:
                return False
            try:
                commit(next_entry(self.pipeline, last, key, rows))
            except Raced as error:
                raced = error
                continue
            return True
        raise LedgerError(f"{self.store}: batch {key.batch_id} was not added in {_TRIES} tries: {raced}") from raced

    def last(self, query_id: str = "") -> LedgerEntry | None:
        """The pipeline's newest line in the table's ledger."""
        return self.format.last(self.pipeline, query_id)

    def last_batch(self, query_id: str) -> int | None:
        """The newest batch of a query in the table, None when there is none."""
        last = self.last(query_id)
        return last.batch_id if last is not None and last.query_id == query_id else None

    def positions(self) -> str:
        """Where the table ends, as the option ``startingOffsets`` of a stream that goes on from it."""
        last = self.last()
        return starting_offsets(None if last is None else last.end)

    def adopt(self, positions: str | None = None) -> LedgerEntry:
        """Let another query go on where the table ends (or at ``positions``, as in ``startingOffsets``).

        For a stream whose checkpoint was lost: start it with a new checkpoint and ``startingOffsets`` =
        ``table.positions()``.
        """
        if positions is None:
            return self._mark("adopt", None)
        self.check_positions(positions)
        return self._mark("adopt", (positions,))

    def check_positions(self, positions: str) -> None:
        """LedgerError when these are not positions that ``adopt`` takes."""
        if not are_positions((positions,)):
            raise LedgerError(
                f"{self.store}: positions {positions!r} are not where a table can end: give the offset of the next "
                'record of each partition, as {"topic": {"0": 23}}'
            )

    def reset(self) -> LedgerEntry:
        """Take whatever query and batch comes next: for doubles or a gap that are wanted. Rows are left as they are."""
        return self._mark("reset", None, forget=True)

    def rewind(self, batch_id: int) -> str:
        """Take the table back to the end of a batch; from where a new stream goes on, as ``startingOffsets``."""
        entry = _again(lambda: self.format.rewind(self.pipeline, batch_id))
        self._put(marker(entry, "rewind", entry.end))
        return starting_offsets(entry.end)

    def can_take_back(self, entry: LedgerEntry) -> bool:
        """Whether exactly the rows of the pipeline's newest batch can be removed: from a Delta table that keeps every
        row, while the files that the batch added are there as they were added."""
        return isinstance(self.format, DeltaFormat) and self.format.added(entry) is not None

    def take_back(self, entry: LedgerEntry) -> bool:
        """Remove the rows of the pipeline's newest batch and go on from before it; False where that cannot be done."""
        table = self.format
        return isinstance(table, DeltaFormat) and _again(lambda: table.take_back(entry))

    def rows_at(self, batch_id: int) -> int:
        """How many rows ``rewind`` to this batch would leave in the table; LedgerError where it would refuse."""
        return self.format.rows_at(self.pipeline, batch_id)

    def maintain(
        self,
        *,
        target_bytes: int = 128 << 20,
        retention_hours: int = 168,
        dry_run: bool = False,
        names: Sequence[str] = (),
    ) -> Mapping[str, int]:
        """Merge small files, remove files that no recent version needs, expire old versions; beside the stream.

        A reader, or a time travel, further back than ``retention_hours`` finds its files gone. ``names`` are further
        ones under which the ledger is to keep its last line, however long ago that was written.
        """

        def restate() -> None:
            if dry_run:
                return
            self._restate(self.pipeline)
            for name in names:
                if name != self.pipeline and self.format.lost(name) is not None:
                    with contextlib.suppress(LedgerError):  # lost before: whoever writes under it is told
                        self._restate(name)

        return self.format.maintain(
            target_bytes=target_bytes, retention_hours=retention_hours, dry_run=dry_run, restate=restate
        )

    def _restate(self, pipeline: str) -> None:
        """Write a pipeline's last line once more, so that the log that is kept holds it."""
        for _ in range(_TRIES):
            last = self.format.last(pipeline, "")
            if last is None or last.sequence < 0:
                return
            try:
                self.format.commit((), last.restated())
                return
            except Raced:  # a batch was committed meanwhile
                continue

    def count(self) -> int:
        """Rows in the table."""
        return self.format.count()

    def held(self) -> TableContents:
        """The table's rows by its files, and the files that are gone or damaged: looked at one by one."""
        found = held(self.format.data_files())
        deleted = self.format.deleted() if isinstance(self.format, DeltaFormat) and not found.damaged else 0
        return found._replace(rows=found.rows - deleted)

    def read(self) -> pa.Table:
        """The whole table, on this machine."""
        return self.format.read()

    def _judge(self, key: BatchKey) -> BatchVerdict:
        return self.judge(self.format.last(self.pipeline, key.query_id), key)

    def judge(self, last: LedgerEntry | None, key: BatchKey) -> BatchVerdict:
        """What a batch is to the pipeline's last line: it follows, or is there already; LedgerError when neither."""
        return judge(str(self.store), last, key, begins_late=self.begins_late)

    def _mark(self, what: str, end: Offsets | None, *, forget: bool = False) -> LedgerEntry:
        last = self._last_or_lost() if forget or end is not None else self.last()
        if last is None:
            raise LedgerError(f"{self.store}: pipeline {self.pipeline!r} has written nothing here yet")
        entry = marker(last, what, None if forget else end if end is not None else last.end)
        return self._put(entry)

    def _last_or_lost(self) -> LedgerEntry | None:
        try:
            return self.last()
        except LedgerError:
            return self.format.lost(self.pipeline)

    def _put(self, entry: LedgerEntry) -> LedgerEntry:
        """Commit a line without rows, and the line as it is there: behind the one that a maintenance has restated
        meanwhile. LedgerError when a batch was first."""
        begins = entry.start

        def put() -> LedgerEntry:
            nonlocal entry
            try:
                self.format.commit((), entry)
            except Raced as error:
                last = self._last_or_lost()
                if last == entry:
                    return entry
                if last is None or last.end != begins:
                    raise LedgerError(f"{self.store}: a batch came meanwhile: {error}", "Stop its stream.") from error
                entry = replace(entry, sequence=last.sequence + 1)
                raise
            return entry

        return _again(put)


def _again(action: Callable[[], Found]) -> Found:
    """What the action gives; it is tried again where another writer, such as a maintenance, came between (Raced)."""
    for _ in range(_TRIES - 1):
        with contextlib.suppress(Raced):
            return action()
    return action()
