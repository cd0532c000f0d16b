"""Merges the small files of a Delta table so that no row is in it twice, whoever else merges them at that moment.

delta-rs (1.6) lets in both of two merges of the same files, and each row is there twice from then on: it takes a file
that is removed without a change of rows for no conflict. A change of the table's properties is one, so a merge begins
with that: of two that overlap, the one that began first is refused. A program that does not do so is found out after.
Read next: delta.py (who maintains).
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Mapping

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from moldau.spark.tables.delta_past import KEEP_LOG, commit_file, commits
from moldau.spark.tables.ledger import TableError
from moldau.spark.tables.stores import Store

MERGED = "moldau.merge"
"""The property, and the part of a commit, that says which merge began last, and which one the commit is of."""
_COMMITS = 1000


def merge_small(
    store: Store,
    table: DeltaTable,
    target_bytes: int,
    properties: Mapping[str, str],
    paths: Callable[[int], Collection[str]],
) -> tuple[int, int]:
    """How many files were merged into how many. ``properties`` are set as well, ``paths`` has the files of a version.

    TableError where another program merges or changes the table at that moment.
    """
    if not _can_be_merged(table, target_bytes):
        if properties:
            _set(table, properties)
            table.update_incremental()
        return 0, 0
    name = uuid.uuid4().hex
    try:
        _set(table, {**properties, MERGED: name})
        table.update_incremental()
        before = table.version()
        did = table.optimize.compact(
            target_size=target_bytes,
            commit_properties=CommitProperties(custom_metadata={MERGED: name}),
            post_commithook_properties=KEEP_LOG,
        )
    except CommitFailedError as error:
        raise TableError(f"{store}: another program merges or changes it at this moment: {error}") from error
    table.update_incremental()
    if did["numFilesRemoved"]:
        _undo_second(store, table, name, before, paths)
    return did["numFilesRemoved"], did["numFilesAdded"]


def _set(table: DeltaTable, properties: Mapping[str, str]) -> None:
    table.alter.set_table_properties(dict(properties), raise_if_not_exists=False, post_commithook_properties=KEEP_LOG)


def _can_be_merged(table: DeltaTable, target_bytes: int) -> bool:
    """Whether a partition has two files that are smaller."""
    files = pa.table(table.get_add_actions(flatten=True))
    names = [f"partition.{name}" for name in table.metadata().partition_columns]
    partitions = Counter(
        tuple(map(repr, (one[name] for name in names)))
        for one in files.select(["size_bytes", *names]).to_pylist()
        if one["size_bytes"] < target_bytes
    )
    return max(partitions.values(), default=0) > 1


def _undo_second(
    store: Store, table: DeltaTable, name: str, before: int, paths: Callable[[int], Collection[str]]
) -> None:
    """Take the merge back, and TableError, where a file that it merged was merged by another one before."""
    version = next((one.version for one in commits(store, table, _COMMITS) if one.said.get(MERGED) == name), before + 1)
    if version == before + 1:  # nothing came between
        return
    told = store.read(commit_file(version)) or b""
    actions = [json.loads(line) for line in told.splitlines() if line.strip()]
    merged = {one["remove"]["path"] for one in actions if "remove" in one}
    if merged <= set(paths(version - 1)):
        return
    what = f"{store}: another program merged the same files at this moment"
    try:
        if table.version() != version:
            raise DeltaError(f"it has version {table.version()} by now")
        table.restore(version - 1, post_commithook_properties=KEEP_LOG)
    except DeltaError as error:
        raise TableError(
            f"{what}, and rows are in it twice since version {version} ({error}): restore it to version {version - 1}"
        ) from error
    raise TableError(f"{what}: its merge stays, and this one was taken back")
