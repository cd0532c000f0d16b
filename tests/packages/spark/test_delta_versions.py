"""Which version of a Delta table a batch came with is told by the log, whatever others write, and whenever."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from moldau.spark.tables import DeltaFormat, Table
from moldau.spark.tables.stores import open_store
from tests.packages.spark.table_batches import key
from tests.packages.spark.test_table_take_back import add


def opened(place: Path, pipeline: str = "a") -> Table:
    return Table(DeltaFormat(open_store(place)), pipeline=pipeline, begins_late=True)


def batch(place: Path, number: int, pipeline: str = "a") -> None:
    add(place, pa.table({"id": [number * 10, number * 10 + 1]}), key(number, pipeline), pipeline=pipeline)


def foreign(place: Path, value: int) -> None:
    """A row by a program whose commit does not say what it is, which the protocol leaves to it."""
    name, version = f"foreign-{value}.parquet", DeltaTable(place).version() + 1
    pq.write_table(pa.table({"id": [value]}), place / name)
    size = (place / name).stat().st_size
    file = {
        "path": name, "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": True,
        "stats": json.dumps({"numRecords": 1}),
    }  # fmt: skip
    (place / "_delta_log" / f"{version:020d}.json").write_text(json.dumps({"add": file}) + "\n")


def ids(place: Path) -> list[int]:
    return sorted(DeltaTable(place).to_pyarrow_table()["id"].to_pylist())


@pytest.mark.parametrize("before", [True, False])
def test_a_batch_is_taken_back_and_nothing_else_where_commits_of_others_say_nothing(
    tmp_path: Path, before: bool
) -> None:
    """delta-rs counts its history down from the newest version: each commit that says nothing shifts all before it."""
    batch(tmp_path, 0)
    if before:
        foreign(tmp_path, 98)
    batch(tmp_path, 1)
    foreign(tmp_path, 99)
    table = opened(tmp_path)
    entry = table.last()
    assert entry is not None, "the newest commit does not have the line"
    assert entry.batch_id == 1
    assert table.can_take_back(entry)
    assert table.take_back(entry)
    assert ids(tmp_path) == [0, 1, *[98] * before, 99]
    batch(tmp_path, 1)
    assert ids(tmp_path) == [0, 1, 10, 11, *[98] * before, 99]


def test_a_table_goes_back_to_the_batch_that_is_named_where_commits_of_others_say_nothing(tmp_path: Path) -> None:
    for number in range(4):
        batch(tmp_path, number)
        foreign(tmp_path, 90 + number)
    table = opened(tmp_path)
    assert table.rows_at(1) == 5
    table.rewind(1)
    assert ids(tmp_path) == [0, 1, 10, 11, 90]
    assert (last := table.last()) is not None
    assert last.end == key(1).end


def test_a_batch_is_taken_back_and_nothing_else_where_another_pipeline_writes_between_two_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The history has the commit that came since the table was opened, and is counted down from where it was opened."""
    for number in range(3):
        batch(tmp_path, number)
        batch(tmp_path, number, "other")
    table = opened(tmp_path)
    entry = table.last()
    assert entry is not None
    real, looks = DeltaFormat._open, list[int]()

    def raced(self: DeltaFormat) -> DeltaTable | None:
        found = real(self)
        if self is table.format:
            looks.append(1)
            if len(looks) == 2:  # for its files, behind the look for its line
                batch(tmp_path, 3, "other")
        return found

    monkeypatch.setattr(DeltaFormat, "_open", raced)
    assert table.take_back(entry)
    assert ids(tmp_path) == [0, 0, 1, 1, 10, 10, 11, 11, 20, 21, 30, 31]


def test_the_line_of_a_batch_is_found_behind_many_commits_that_say_nothing(tmp_path: Path) -> None:
    batch(tmp_path, 0)
    for value in range(25):
        foreign(tmp_path, value + 100)
    last = opened(tmp_path).last()
    assert last is not None
    assert last.batch_id == 0
    assert opened(tmp_path, "nobody").last() is None
