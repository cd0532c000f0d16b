"""The latest row of each key, kept in a Delta table: a batch's rows replace those with the same key, once.

The merge and the ledger's line are one commit. A batch's latest rows are collected on the driver, which bounds what a
batch may hold: for tables of state, not for facts. ``latest`` gives the same view of a table that keeps every row.
Read next: delta.py, table.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from moldau.spark.rows import quoted, unused_name
from moldau.spark.tables.delta import DeltaFormat
from moldau.spark.tables.ledger import BatchKey, LedgerEntry, TableError
from moldau.spark.tables.table import Table, Written

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame


class Upserts(Table):
    """``foreachBatch(Upserts(path, keys=["id"], order_by=["offset"]))``: one row for each key, the latest.

    ``order_by`` says which of a batch's rows of one key is the latest: its columns ascend in time. ``delete_when`` is
    an SQL condition on that row (``"new.value IS NULL"``) by which the key's row is deleted rather than replaced.
    Between batches the later batch wins, whatever ``order_by`` says: a row that comes late replaces a newer one.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        keys: Sequence[str],
        order_by: Sequence[str],
        delete_when: str | None = None,
        pipeline: str = "default",
        begins_late: bool = False,
        storage_options: dict[str, str] | None = None,
    ) -> None:
        super().__init__(path, pipeline=pipeline, begins_late=begins_late, storage_options=storage_options)
        if not keys or not order_by:
            raise TableError(f"{self.store}: keys and order_by each need a column")
        self.keys, self.order_by, self.delete_when = list(keys), list(order_by), delete_when

    def check(self, rows: DataFrame) -> None:
        """TableError when the table is there and ``append`` would refuse the columns of these rows, or, where none may
        delete, nulls in them. Writes nothing."""
        from pyspark.sql.pandas.types import to_arrow_schema

        assert isinstance(self.format, DeltaFormat), "a path is a Delta table"
        self.format.check(to_arrow_schema(rows.schema, timezone="UTC"), evolve=self.evolve, merged=True)
        if self.delete_when is None:
            self._check_nulls(latest(rows, self.keys, self.order_by))

    def append(self, rows: DataFrame, key: BatchKey) -> Written:
        """Merge the batch's latest rows in, unless the table has this batch."""
        return self.merge(latest(rows, self.keys, self.order_by).toArrow(), key)

    def can_take_back(self, entry: LedgerEntry) -> bool:
        """False: what a merge replaced is not in the table any more."""
        return False

    def take_back(self, entry: LedgerEntry) -> bool:
        """False, as ``can_take_back``."""
        return False

    def merge(self, rows: pa.Table, key: BatchKey) -> Written:
        """Merge rows, one for each key, as this batch."""
        table = self.format
        assert isinstance(table, DeltaFormat), "a path is a Delta table"
        table.prepare(rows.schema, evolve=self.evolve)

        def commit(entry: LedgerEntry) -> None:
            if rows.num_rows:
                table.merge(rows, entry, keys=self.keys, delete_when=self.delete_when)
            else:
                table.commit((), entry)

        done = self.once(key, rows.num_rows, commit)
        return Written(rows.num_rows, 1, False) if done else Written(0, 0, True)


def latest(rows: DataFrame, keys: Sequence[str], order_by: Sequence[str]) -> DataFrame:
    """The latest row of each key: the last by ``order_by``. Of a batch, or of a table that keeps every row."""
    from pyspark.sql import Window
    from pyspark.sql import functions as fn

    place = unused_name("_place", rows.columns)
    window = Window.partitionBy(*map(quoted, keys)).orderBy(
        *[fn.col(quoted(name)).desc_nulls_last() for name in order_by]
    )
    return rows.withColumn(place, fn.row_number().over(window)).where(fn.col(place) == 1).drop(place)
