"""A Delta table loses just what a pipeline's newest batch added, whatever its partitions are called and others do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from moldau.spark.tables import BatchKey, DeltaFormat, Table
from moldau.spark.tables.files import DataFile, FileLayout, TaskFiles, partition_of
from moldau.spark.tables.ledger import LedgerEntry
from moldau.spark.tables.stores import open_store
from tests.packages.spark.table_batches import key

VALUES = ["plain", "a b", "a%20b", "ü", "a/b", "a=b", "a:b", "50%", "q?x#y", "+plus", "'", '"', "", " ", None]


def add(place: Path, rows: pa.Table, batch: BatchKey, by: Sequence[str] = (), pipeline: str = "a") -> Table:
    """Write the rows as a task of a batch does."""
    table = Table(DeltaFormat(open_store(place), by), pipeline=pipeline, begins_late=True)
    table.format.prepare(rows.schema, evolve=False)
    name = f"{pipeline}-{batch.query_id}-{batch.batch_id}"
    told = TaskFiles(table.store, name, rows.schema, FileLayout(by)).write(iter(rows.to_batches())).to_pylist()
    files = [
        DataFile(one["path"], one["size"], one["rows"], json.loads(one["stats"]), partition_of(one["path"]))
        for one in told
    ]
    table.add(files, batch)
    return table


@pytest.mark.parametrize("value", VALUES)
def test_files_of_a_partition_are_found_whatever_its_value_is(tmp_path: Path, value: str | None) -> None:
    rows = pa.table({"id": [1, 2], "p": pa.array([value, value], pa.string())})
    add(tmp_path, rows, key(0), ["p"])
    table = add(tmp_path, rows, key(1), ["p"])
    entry = table.last()
    assert entry is not None
    assert table.take_back(entry)
    assert DeltaTable(tmp_path).to_pyarrow_table().num_rows == 2


def test_rows_that_are_merged_with_others_between_the_look_and_the_commit_are_not_called_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """delta-rs sees no conflict with a compaction, which changes no rows: they would have come twice in silence."""
    add(tmp_path, pa.table({"id": [1, 2]}), key(0))
    table = add(tmp_path, pa.table({"id": [3, 4]}), key(1))
    entry, real = table.last(), DeltaFormat.added
    assert entry is not None

    def added(self: DeltaFormat, one: LedgerEntry) -> Sequence[str] | None:
        found = real(self, one)
        DeltaTable(tmp_path).optimize.compact()
        return found

    monkeypatch.setattr(DeltaFormat, "added", added)
    assert not table.take_back(entry)
    assert sorted(DeltaTable(tmp_path).to_pyarrow_table()["id"].to_pylist()) == [1, 2, 3, 4]
    last = Table(DeltaFormat(open_store(tmp_path)), pipeline="a").last()
    assert last is not None
    assert last.what == "reset", "it takes whatever comes"
