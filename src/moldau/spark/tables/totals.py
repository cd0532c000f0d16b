"""Sums by key columns, kept in a small Delta table: each batch's partial sums are folded in once.

The whole table is rewritten with every batch, on the driver: for results that fit a screen or two, not for facts.
The sums and the ledger's line are one commit. Read next: table.py, delta.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from moldau.spark.tables.delta import DeltaFormat
from moldau.spark.tables.ledger import BatchKey, LedgerEntry
from moldau.spark.tables.stores import open_store
from moldau.spark.tables.table import Table, Written


class Totals(Table):
    """A small Delta table of sums by key columns; each batch's partial sums are folded in once.

    ``keys`` and ``sums`` name its columns. The whole table is rewritten with every batch, on the driver: for results
    that fit a screen or two, not for facts.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        keys: Sequence[str],
        sums: Sequence[str],
        pipeline: str = "default",
        begins_late: bool = False,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self._delta = DeltaFormat(open_store(path, storage_options))
        super().__init__(self._delta, pipeline=pipeline, begins_late=begins_late)
        self.keys, self.sums = list(keys), list(sums)

    def fold(self, partial: pa.Table, key: BatchKey) -> Written:
        """Add a batch's sums to the table's, unless this batch was folded in before; LedgerError when it does not
        follow. ``rows`` of the answer are those of the table."""
        partial = partial.select(self.keys + self.sums)
        self.format.prepare(partial.schema, evolve=False)
        rows = 0

        def commit(entry: LedgerEntry) -> None:
            nonlocal rows
            found = self._summed(partial)
            rows = found.num_rows
            self._delta.overwrite(found, entry)

        done = self.once(key, partial.num_rows, commit)
        return Written(rows, 1, False) if done else Written(0, 0, True)

    def _summed(self, partial: pa.Table) -> pa.Table:
        both = pa.concat_tables([self.read().cast(partial.schema), partial])
        found = both.group_by(self.keys).aggregate([(name, "sum") for name in self.sums])
        names = [name.removesuffix("_sum") if name not in self.keys else name for name in found.column_names]
        return found.rename_columns(names).select(partial.column_names).cast(partial.schema)
