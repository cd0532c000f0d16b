"""What maintenance of a table removes: nothing that is not the table's own, and nothing within the retention."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from moldau.spark.tables import Table
from moldau.spark.tables.delta import DeltaFormat
from moldau.spark.tables.files import folder_of, read_footers
from moldau.spark.tables.manifest import ParquetFormat
from moldau.spark.tables.own_files import is_written
from moldau.spark.tables.stores import open_store
from tests.packages.spark.table_batches import key

ROWS = pa.table({"id": [1, 2, 3]})
DAY_S = 86_400


def opened(folder: Path, kind: str = "delta") -> Table:
    store = open_store(str(folder))
    return Table(DeltaFormat(store) if kind == "delta" else ParquetFormat(store))


def write(folder: Path, number: int, kind: str = "delta") -> None:
    """A batch of three rows."""
    table, name = opened(folder, kind), folder_of(number)
    table.format.prepare(ROWS.schema, evolve=False)
    (folder / name).mkdir(parents=True)
    pq.write_table(ROWS, folder / name / "part-0.parquet")
    table.add(read_footers(table.store, name), key(number))


def age(folder: Path, days: int) -> None:
    """Have all files be as old as if the machine's clock had gone on."""
    for file in folder.rglob("*"):
        if file.is_file() and not file.is_symlink():
            at = file.stat().st_mtime - days * DAY_S
            os.utime(file, (at, at))


def age_log(folder: Path, days: int) -> None:
    """The same of what a Delta table's log says, which has no checkpoint then."""
    for file in (folder / "_delta_log").glob("*checkpoint*"):
        file.unlink()
    for file in (folder / "_delta_log").glob("*.json"):
        lines: list[dict[str, dict[str, Any]]] = [json.loads(line) for line in file.read_text().splitlines()]
        for action in (part for line in lines for part in line.values()):
            for name in ("deletionTimestamp", "timestamp", "modificationTime", "lastUpdated"):
                if isinstance(action.get(name), int):
                    action[name] -= days * DAY_S * 1000
        file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    age(folder, days)


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_maintenance_removes_no_file_of_others_within_the_table_nor_behind_a_link(tmp_path: Path, kind: str) -> None:
    table, elsewhere, other = tmp_path / "orders", tmp_path / "elsewhere", tmp_path / "other"
    for number in range(3):
        write(table, number, kind)
    write(other, 0)
    theirs = [
        elsewhere / "rows.parquet", elsewhere / folder_of(1) / "part-0.parquet", table / "README.md",
        table / "books" / "000000000.json", table / "checkpoint" / "offsets" / "0", table / "rows" / "rows.parquet",
        table / "part-notes.txt", table / "day=1" / "rows.parquet",
    ]  # fmt: skip
    for file in theirs:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("theirs")
    theirs += [*other.rglob("*.parquet")]
    (table / "link").symlink_to(elsewhere)
    (table / folder_of(7)).symlink_to(next(other.glob("batch-*")))
    (table / "part-link.parquet").symlink_to(elsewhere / "rows.parquet")
    (table / "nowhere.parquet").symlink_to(tmp_path / "nowhere")
    cut_off = table / folder_of(9)
    cut_off.mkdir()
    (cut_off / "part-0.parquet").write_bytes(b"of a batch that was cut off")
    age(tmp_path, 20)
    assert opened(table, kind).maintain(retention_hours=1)["removed"] == 1
    assert not cut_off.exists()
    assert [file for file in theirs if not file.exists()] == []
    assert opened(other).held() == (3, [])
    assert opened(table, kind).held() == (9, [])


def test_a_table_in_a_link_is_maintained_as_one_in_a_folder(tmp_path: Path) -> None:
    write(tmp_path / "there", 0)
    (tmp_path / "orders").symlink_to(tmp_path / "there")
    left = tmp_path / "there" / folder_of(9) / "part-0.parquet"
    left.parent.mkdir()
    left.write_bytes(b"cut off")
    age(tmp_path / "there", 20)
    assert opened(tmp_path / "orders").maintain(retention_hours=1)["removed"] == 1
    assert not left.exists()


@pytest.mark.parametrize(
    ("name", "by", "is_ours"),
    [
        ("batch-000000007-0123456789ab/part-0.parquet", (), True),
        ("batch-000000007-0123456789ab/_SUCCESS", (), True),
        ("merged-000000000-0123456789ab/day=1/part-0.parquet", ("day",), True),
        ("part-00000-1-c000.zstd.parquet", (), True),
        ("day=1/part-00000-1.parquet", ("day",), True),
        ("_change_data/day=1/part-00000-1.parquet", ("day",), True),
        ("a%20b=1/part-00000-1.parquet", ("a b",), True),
        ("day=1/part-00000-1.parquet", (), False),
        ("part-00000-1.parquet", ("day",), False),
        ("inner/part-00000-1.parquet", (), False),
        ("inner/batch-000000007-0123456789ab/part-0.parquet", (), False),
        ("batch-of-mine/part-0.parquet", (), False),
        ("rows.parquet", (), False),
    ],
)
def test_what_is_a_tables_own_is_told_by_its_name(name: str, by: tuple[str, ...], is_ours: bool) -> None:
    assert is_written(name, by) is is_ours


def test_what_was_replaced_is_kept_for_the_retention_though_a_checkpoint_forgets_it_before(tmp_path: Path) -> None:
    """delta-rs names in a checkpoint what was replaced within a week, and a full vacuum takes the rest for unknown."""
    for number in range(4):
        write(tmp_path / "t", number)
    for file in (tmp_path / "t").glob("batch-*/*.parquet"):
        at = file.stat().st_mtime - 40 * DAY_S
        os.utime(file, (at, at))
    version = DeltaTable(str(tmp_path / "t")).version()
    assert opened(tmp_path / "t").maintain(retention_hours=720)["merged"] == 4
    age_log(tmp_path / "t", 8)
    for number in (4, 5):
        write(tmp_path / "t", number)
        assert opened(tmp_path / "t").maintain(retention_hours=720)["removed"] == 0
    assert DeltaTable(str(tmp_path / "t"), version=version).to_pyarrow_table().num_rows == 12
    assert opened(tmp_path / "t").maintain(retention_hours=168)["removed"] == 4


@pytest.mark.parametrize("kept", ["interval 0 seconds", "interval 1 hours"])
def test_the_ledger_stays_in_a_log_that_is_kept_for_no_time(tmp_path: Path, kept: str) -> None:
    write(tmp_path / "t", 0)
    DeltaTable(str(tmp_path / "t")).alter.set_table_properties({"delta.logRetentionDuration": kept})
    for number in range(1, 4):
        write(tmp_path / "t", number)
        opened(tmp_path / "t").maintain(retention_hours=1)
    assert opened(tmp_path / "t").held() == (12, [])
