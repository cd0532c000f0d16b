"""Streams into tables, each batch exactly once, without a jar: Delta, Iceberg, and Parquet with a manifest.

``Table`` is what ``foreachBatch`` calls; the table's own commits say which batch of which pipeline they hold and from
which offsets to which, so a batch that does not follow is refused. ``Totals`` keeps sums beside it by the same rule.
Read next: table.py, ledger.py.
"""

from moldau.spark.tables.checkpoint import key_of as key_of
from moldau.spark.tables.delta import DeltaFormat as DeltaFormat
from moldau.spark.tables.files import file_stats as file_stats
from moldau.spark.tables.ledger import BatchKey as BatchKey
from moldau.spark.tables.ledger import LedgerEntry as LedgerEntry
from moldau.spark.tables.ledger import LedgerError as LedgerError
from moldau.spark.tables.ledger import TableError as TableError
from moldau.spark.tables.table import Table as Table
from moldau.spark.tables.table import Written as Written
from moldau.spark.tables.totals import Totals as Totals

__all__ = [
    "BatchKey", "DeltaFormat", "LedgerEntry", "LedgerError", "Table", "TableError", "Totals", "Written", "file_stats",
    "key_of",
]  # fmt: skip
