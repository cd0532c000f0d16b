"""The ledger's lines in the commits of a Delta table: how a commit says which batch it is, and how that is read.

Source: the Delta protocol, "Transaction Identifiers" and "Commit Provenance". Read next: ledger.py, delta.py.
"""

from __future__ import annotations

from dataclasses import replace

from deltalake import CommitProperties, DeltaTable, Transaction

from moldau.spark.tables.delta_past import TableCommit, commits
from moldau.spark.tables.files import now_ms
from moldau.spark.tables.ledger import LINE, UNNAMED, LedgerEntry
from moldau.spark.tables.stores import Store

OLD_COMMITS = 500
"""How far back a batch is looked for that is the newest, or of before there was a ledger."""


def marked(entry: LedgerEntry) -> CommitProperties:
    """The commit says which batch it is: for the machine (transaction and line) and for people (the history)."""
    return CommitProperties(
        custom_metadata={
            LINE: entry.to_json(), "moldau.query": entry.query_id, "moldau.batch": str(entry.batch_id),
            "moldau.pipeline": entry.pipeline, "moldau.rows": str(entry.rows),
        },
        app_transactions=[Transaction(f"moldau:{entry.pipeline}", entry.sequence, now_ms())],
    )  # fmt: skip


def line_in(commit: TableCommit, pipeline: str) -> LedgerEntry | None:
    """A pipeline's line in a commit, if it has one."""
    text = commit.said.get(LINE)
    entry = LedgerEntry.from_json(text) if isinstance(text, str) else None
    return entry if entry is not None and entry.pipeline == pipeline else None


def before_ledgers(store: Store, table: DeltaTable, pipeline: str, query_id: str) -> LedgerEntry | None:
    """The newest batch of a table that was filled before there was a ledger, whichever query it came from.

    Its commits named query and batch alone. They were all of one pipeline, which had no name.
    """
    version = table.transaction_version(query_id)
    if version is not None:
        return LedgerEntry(pipeline, -1, query_id, int(version), None, None, 0)
    if pipeline != UNNAMED:
        return None
    for commit in commits(store, table, OLD_COMMITS):
        query, batch = commit.said.get("moldau.query"), commit.said.get("moldau.batch")
        if query is not None and batch is not None and LINE not in commit.said:
            return LedgerEntry(pipeline, -1, str(query), int(str(batch)), None, None, 0)
    return None


def renumbered(entry: LedgerEntry, sequence: int) -> LedgerEntry:
    """The same line by another number."""
    return replace(entry, sequence=sequence)
