"""Whether a batch's rows fit a table: columns are added when that is asked for, types and partitions never change.

Formats compare their own names of types; the rule and the refusal are the same for all. Read next: table.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from moldau.spark.tables.ledger import TableError


class ColumnsError(TableError):
    """Rows whose columns do not fit a table."""


def new_columns(table: str, there: Mapping[str, object], ours: Mapping[str, object], *, evolve: bool) -> list[str]:
    """The columns that the table lacks, in the rows' order; ColumnsError when the rows do not fit it."""
    differ = sorted(name for name in there.keys() & ours.keys() if there[name] != ours[name])
    more = [name for name in ours if name not in there]
    if differ or (more and not evolve):
        raise ColumnsError(
            f"the rows do not fit table {table}: they differ in {', '.join(differ or sorted(more))}; new columns are "
            "added by evolve=True, a column's type is never changed"
        )
    return more


def check_partitions(table: str, there: Sequence[str], ours: Sequence[str]) -> None:
    """ColumnsError unless the rows are to be partitioned as the table is."""
    if list(there) != list(ours):
        mend = f"say partition_by {list(there)}" if there else "leave partition_by out"
        raise ColumnsError(
            f"table {table} is partitioned by {list(there)}, not by {list(ours)}: {mend}, or write to another table"
        )
