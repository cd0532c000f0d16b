"""Tables take a batch once, whoever writes it and however often; these parts need no JVM."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Schema

from moldau.spark.tables import BatchKey, Table, TableError, Totals, file_stats

ROWS = pa.table({"id": pa.array([3, 1, 2], pa.int64()), "name": ["b", None, "a"], "x": [1.5, 2.5, None]})


def written(path: Path, folder: str, rows: pa.Table = ROWS) -> Table:
    """A table, and files under it as Spark would have left them."""
    if not DeltaTable.is_deltatable(str(path)):
        path.mkdir(parents=True)
        DeltaTable.create(str(path), Schema.from_arrow(rows.schema))
    (path / folder).mkdir()
    pq.write_table(rows, path / folder / "part-0.parquet")
    (path / folder / "_SUCCESS").touch()
    return Table(path)


def commit(table: Table, folder: str, key: BatchKey, seen: DeltaTable | None = None) -> bool:
    actions, _ = table._actions(folder)
    return table._commit(seen or DeltaTable(str(table.path)), actions, key)


def count(table: Table) -> int:
    return DeltaTable(str(table.path)).to_pyarrow_table().num_rows


def test_of_two_drivers_that_race_with_one_batch_only_the_first_is_taken(tmp_path):
    table = written(tmp_path / "t", "batch-a")
    written(tmp_path / "t", "batch-b")
    first, second = DeltaTable(str(table.path)), DeltaTable(str(table.path))
    assert commit(table, "batch-a", BatchKey("q", 0), first)
    assert not commit(table, "batch-b", BatchKey("q", 0), second)
    assert count(table) == 3
    assert (table.last_batch("q"), table.last_batch("other")) == (0, None)


def test_another_query_with_the_same_batch_number_is_another_batch(tmp_path):
    table = written(tmp_path / "t", "batch-a")
    written(tmp_path / "t", "batch-b")
    first, second = DeltaTable(str(table.path)), DeltaTable(str(table.path))
    assert commit(table, "batch-a", BatchKey("q", 0), first)
    assert commit(table, "batch-b", BatchKey("r", 0), second)
    assert count(table) == 6


def test_the_history_names_query_and_batch(tmp_path):
    table = written(tmp_path / "t", "batch-a")
    commit(table, "batch-a", BatchKey("q", 7))
    entry = DeltaTable(str(table.path)).history(1)[0]
    assert (entry["moldau.query"], entry["moldau.batch"]) == ("q", "7")


def test_bounds_and_counts_come_from_the_footer(tmp_path):
    pq.write_table(ROWS, tmp_path / "f.parquet")
    assert file_stats(pq.read_metadata(tmp_path / "f.parquet")) == {
        "numRecords": 3,
        "minValues": {"id": 1, "name": "a", "x": 1.5},
        "maxValues": {"id": 3, "name": "b", "x": 2.5},
        "nullCount": {"id": 0, "name": 1, "x": 1},
    }
    odd = pa.table({"deep": [{"a": 1}], "long": ["x" * 100], "flag": [True], "nan": [float("inf")], "raw": [b"x"]})
    pq.write_table(odd, tmp_path / "g.parquet")
    assert json.loads(json.dumps(file_stats(pq.read_metadata(tmp_path / "g.parquet"))))["minValues"] == {}


def test_partition_values_are_read_from_folder_names(tmp_path):
    table = Table(tmp_path, partition_by=["day", "name"])
    folder = tmp_path / "batch" / "day=2013-01-01" / "name=a%3Ab%2F"
    folder.mkdir(parents=True)
    pq.write_table(ROWS, folder / "p.parquet")
    pq.write_table(ROWS.slice(0, 0), folder / "empty.parquet")
    (action,), rows = table._actions("batch")
    assert (rows, action.partition_values) == (3, {"day": "2013-01-01", "name": "a:b/"})


PART = pa.table({"carrier": ["UA", "B6"], "flights": pa.array([2, 1], pa.int64()), "delay": [4.0, 1.5]})


def test_sums_are_folded_in_once_for_each_batch(tmp_path):
    totals = Totals(tmp_path / "sums", keys=["carrier"], sums=["flights", "delay"])
    assert totals.fold(PART, BatchKey("q", 0)).rows == 2
    assert totals.fold(PART, BatchKey("q", 0)).skipped
    assert totals.fold(PART.slice(0, 1), BatchKey("q", 1)).rows == 2
    assert totals.fold(PART, BatchKey("q", 0)).skipped
    found = {row["carrier"]: (row["flights"], row["delay"]) for row in totals.read().to_pylist()}
    assert found == {"UA": (4, 8.0), "B6": (1, 1.5)}


def test_folding_in_from_many_threads_counts_each_batch_once(tmp_path):
    """The second writer of a version is refused, and finds on looking again that its batch is in."""
    path = tmp_path / "sums"
    Totals(path, keys=["carrier"], sums=["flights", "delay"]).fold(PART, BatchKey("q", 0))
    errors: list[Exception] = []

    def fold() -> None:
        try:
            Totals(path, keys=["carrier"], sums=["flights", "delay"]).fold(PART, BatchKey("q", 1))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=fold) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    found = Totals(path, keys=["carrier"], sums=["flights", "delay"]).read()
    assert sorted(found["flights"].to_pylist()) == [2, 4]


def test_a_table_elsewhere_is_refused_by_name():
    with pytest.raises(TableError, match="s3://bucket/t: only a folder"):
        Table("s3://bucket/t")
    assert Table("file:///x/y").path == Path("/x/y")
