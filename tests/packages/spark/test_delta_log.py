"""What a Delta table's log keeps, and what a look into it costs; no JVM is needed."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from moldau.spark.tables import BatchKey, LedgerError, Table, TableError
from moldau.spark.tables.delta import DeltaFormat
from moldau.spark.tables.files import read_footers

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
HOUR_S = 3600


def key(number: int) -> BatchKey:
    """Batch ``number`` of a query, ten offsets long."""
    start, end = (json.dumps({"t": {"0": at * 10}}) for at in (number, number + 1))
    return BatchKey("q", number, (start,) if number else None, (end,))


def add(table: Table, number: int) -> bool:
    """Whether the batch was added."""
    table.format.prepare(ROWS.schema, evolve=False)
    folder = f"batch-{number}-{table.pipeline}"
    table.store.make_folder(folder)
    with table.store.filesystem.open_output_stream(table.store.at(f"{folder}/part-0.parquet")) as file:
        pq.write_table(ROWS, file)
    return not table.add(read_footers(table.store, folder), key(number)).skipped


def versions(home: Path) -> list[int]:
    """The versions whose commit is still a file."""
    return sorted(int(one.stem) for one in (home / "_delta_log").glob("*.json"))


def age(home: Path, hours: float, *, before: int) -> None:
    """Have the commits before a version be of so many hours ago, for the log and for its history."""
    then = time.time() - hours * HOUR_S
    for version in (one for one in versions(home) if one < before):
        path = home / "_delta_log" / f"{version:020d}.json"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            if "commitInfo" in line:
                line["commitInfo"]["timestamp"] = round(then * 1000)
        path.write_text("\n".join(map(json.dumps, lines)))
    for path in (home / "_delta_log").glob("0*"):
        if int(path.name[:20]) < before:
            os.utime(path, (then, then))


def rows_at(home: Path, version: int) -> int:
    return DeltaTable(str(home), version=version).count()


def settings(home: Path) -> dict[str, str | None]:
    """What the table says about how long something is kept, in hours where it is hours."""
    return {
        name.partition(".")[2]: value.removeprefix("interval ").removesuffix(" hours")
        for name, value in DeltaTable(str(home)).metadata().configuration.items()
    }


def test_the_log_keeps_what_the_retention_says_and_those_versions_can_still_be_read(tmp_path: Path) -> None:
    table = Table(tmp_path)
    for number in range(120):  # a version each, after the one that made the table; one checkpoint, of version 99
        add(table, number)
    age(tmp_path, hours=200, before=110)
    table.maintain(retention_hours=168)
    assert versions(tmp_path)[0] == 99
    assert [rows_at(tmp_path, version) for version in (99, 109, 110, 120)] == [297, 327, 330, 360]
    assert add(Table(tmp_path), 120)
    age(tmp_path, hours=200, before=versions(tmp_path)[-1])
    table.maintain(retention_hours=168)
    assert len(versions(tmp_path)) < 10
    assert add(Table(tmp_path), 121)
    assert Table(tmp_path).count() == 122 * 3


def test_the_table_says_the_retention_to_other_programs_too_and_follows_it(tmp_path: Path) -> None:
    table = Table(tmp_path)
    add(table, 0)
    table.maintain(retention_hours=168)
    assert settings(tmp_path) == {
        "logRetentionDuration": "168", "deletedFileRetentionDuration": "168", "retention": "168",
    }  # fmt: skip
    newest = versions(tmp_path)[-1]
    table.maintain(retention_hours=168)
    told = DeltaTable(str(tmp_path)).history()
    assert not [one for one in told if one["version"] > newest and one["operation"] == "SET TBLPROPERTIES"]
    table.maintain(retention_hours=24)
    assert set(settings(tmp_path).values()) == {"24"}


def test_how_long_a_user_has_the_table_keep_its_log_stays(tmp_path: Path) -> None:
    table = Table(tmp_path)
    add(table, 0)
    DeltaTable(str(tmp_path)).alter.set_table_properties({"delta.logRetentionDuration": "interval 9000 hours"})
    for hours in (168, 24):
        table.maintain(retention_hours=hours)
        assert settings(tmp_path) == {
            "logRetentionDuration": "9000", "deletedFileRetentionDuration": str(hours), "retention": str(hours),
        }  # fmt: skip


def test_a_log_that_its_user_keeps_for_good_stays_whole(tmp_path: Path) -> None:
    table = Table(tmp_path)
    add(table, 0)
    DeltaTable(str(tmp_path)).alter.set_table_properties({"delta.enableExpiredLogCleanup": "false"})
    DeltaTable(str(tmp_path)).create_checkpoint()
    add(table, 1)
    age(tmp_path, hours=200, before=4)
    table.maintain(retention_hours=168)
    assert versions(tmp_path)[0] == 0


def test_the_last_line_of_a_pipeline_that_wrote_nothing_for_long_stays_in_the_log(tmp_path: Path) -> None:
    idle, busy = (Table(tmp_path, pipeline=name) for name in ("idle", "busy"))
    add(idle, 0)
    for number in range(3):
        add(busy, number)
    age(tmp_path, hours=20, before=2)
    for _ in range(2):
        busy.maintain(retention_hours=24)
        age(tmp_path, hours=30, before=versions(tmp_path)[-1])
    assert versions(tmp_path)[0] > 2
    assert not add(Table(tmp_path, pipeline="idle"), 0)
    assert add(Table(tmp_path, pipeline="idle"), 1)


def test_a_commit_looks_into_the_log_no_oftener_than_it_must(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(tmp_path)
    add(table, 0)
    looks: list[str] = []
    for name in ("history", "update_incremental"):
        real = getattr(DeltaTable, name)

        def look(self: DeltaTable, *arguments: object, name: str = name, real: object = real) -> object:
            looks.append(name)
            return real(self, *arguments)  # type: ignore[operator]

        monkeypatch.setattr(DeltaTable, name, look)
    add(table, 1)  # what delta-rs is asked lists the whole folder of the log, on a disk
    assert looks == ["update_incremental"] * 2  # for the columns, and for the ledger


def test_a_log_that_another_one_took_the_place_of_is_noticed_at_the_same_version(tmp_path: Path) -> None:
    table, other = Table(tmp_path / "t"), Table(tmp_path / "other")
    for number in range(3):
        add(table, number)
        if number < 2:
            add(other, number)
    DeltaTable(str(tmp_path / "other")).alter.set_table_properties({"x.y": "1"}, raise_if_not_exists=False)
    assert versions(tmp_path / "t") == versions(tmp_path / "other")
    for one in (tmp_path / "other" / "_delta_log").iterdir():
        (tmp_path / "t" / "_delta_log" / one.name).write_bytes(one.read_bytes())
    assert isinstance(table.format, DeltaFormat)
    last = table.format.last("default", "q")
    assert last is not None
    assert last.batch_id == 1
    with pytest.raises(LedgerError, match="gap"):
        add(table, 3)


def test_a_table_whose_place_delta_rs_would_not_find_again_is_refused_before_it_is_made(tmp_path: Path) -> None:
    """It took batches, and could not be read any more once its log had a checkpoint."""
    with pytest.raises(TableError, match=r"name has %XX in it"):
        add(Table(tmp_path / "a%20b" / "t"), 0)
    assert not (tmp_path / "a%20b").exists()
    for name in ("a b", "100%", "a#b", "a?b", "a+b", "ä"):
        table = Table(tmp_path / name / "t")
        for number in range(3):
            assert add(table, number)
        table.maintain(retention_hours=0)
        assert Table(tmp_path / name / "t").count() == 9, name
