"""Small files of a Delta table are merged by two programs at one moment, and no row is in it twice."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.table import TableOptimizer

from moldau.spark.tables import Table, TableError
from moldau.spark.tables.delta import DeltaFormat
from moldau.spark.tables.files import folder_of, read_footers
from moldau.spark.tables.stores import open_store
from tests.packages.spark.table_batches import key

KINDS = pa.schema({"id": pa.int64(), "kind": pa.string()})


def opened(folder: Path, pipeline: str = "default") -> Table:
    return Table(DeltaFormat(open_store(str(folder)), ["kind"]), pipeline=pipeline)


def write(folder: Path, number: int, pipeline: str = "default") -> None:
    """A batch of three rows, whose partition has signs that a log writes otherwise."""
    table, name = opened(folder, pipeline), folder_of(number)
    table.format.prepare(KINDS, evolve=False)
    place = folder / name / "kind=a%3A ü"
    place.mkdir(parents=True)
    pq.write_table(pa.table({"id": [number, number, number]}), place / f"part-{uuid.uuid4()}.parquet")
    table.add(read_footers(table.store, name), key(number))


def meanwhile(monkeypatch: pytest.MonkeyPatch, what: Callable[[], object]) -> None:
    """Have it done once, while the next merge has read the table and has not written yet."""
    real = TableOptimizer.compact

    def compact(self: TableOptimizer, **named: object) -> object:
        monkeypatch.setattr(TableOptimizer, "compact", real)
        what()
        return real(self, **named)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(TableOptimizer, "compact", compact)


def ids(folder: Path) -> list[int]:
    return sorted(opened(folder).read()["id"].to_pylist())


def test_two_maintenances_at_one_moment_leave_each_row_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        write(tmp_path, number)
    write(tmp_path, 0, "other")
    meanwhile(monkeypatch, lambda: opened(tmp_path, "other").maintain(retention_hours=1))
    with pytest.raises(TableError, match="another program merges or changes it at this moment"):
        opened(tmp_path).maintain(retention_hours=1)
    assert ids(tmp_path) == [0] * 6 + [1] * 3 + [2] * 3
    write(tmp_path, 3)
    assert opened(tmp_path).maintain(retention_hours=1)["merged"] == 2
    assert opened(tmp_path).held() == (15, [])


def test_a_merge_of_another_program_stays_and_ours_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        write(tmp_path, number)
    meanwhile(monkeypatch, lambda: DeltaTable(str(tmp_path)).optimize.compact())
    with pytest.raises(TableError, match="merged the same files at this moment: its merge stays"):
        opened(tmp_path).maintain(retention_hours=1)
    assert ids(tmp_path) == [0] * 3 + [1] * 3 + [2] * 3
    assert opened(tmp_path).maintain(retention_hours=1)["merged"] == 0
    write(tmp_path, 3)
    assert opened(tmp_path).held() == (12, [])


def test_a_batch_at_that_moment_is_in_the_way_of_no_merge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        write(tmp_path, number)
    meanwhile(monkeypatch, lambda: write(tmp_path, 3))
    assert opened(tmp_path).maintain(retention_hours=1)["merged"] == 3
    assert ids(tmp_path) == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3
    assert opened(tmp_path).maintain(retention_hours=1)["merged"] == 2
