"""What maintenance of a table removes: nothing that is not the table's own, and nothing within the retention."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Schema

from moldau.spark.tables import LedgerError, Table, TableError
from moldau.spark.tables.delta import DeltaFormat
from moldau.spark.tables.files import folder_of, read_footers
from moldau.spark.tables.manifest import ParquetFormat
from moldau.spark.tables.own_files import is_written, remove
from moldau.spark.tables.stores import Store, open_store
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


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_a_table_of_links_to_the_folders_of_another_one_takes_no_file_from_it(tmp_path: Path, kind: str) -> None:
    table, copy = tmp_path / "orders", tmp_path / "copy"
    for number in range(3):
        write(table, number, kind)
    copy.mkdir()
    for part in table.iterdir():
        if part.name.startswith("batch-"):
            (copy / part.name).symlink_to(part)
        else:
            shutil.copytree(part, copy / part.name)
    assert opened(copy, kind).maintain(retention_hours=0) == {"merged": 3, "into": 1, "removed": 0}
    assert (opened(table, kind).held(), opened(copy, kind).held()) == ((9, []), (9, []))


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_a_rewind_that_needs_files_which_maintenance_removed_is_refused_before(tmp_path: Path, kind: str) -> None:
    for number in range(4):
        write(tmp_path, number, kind)
    opened(tmp_path, kind).maintain(retention_hours=1)
    assert opened(tmp_path, kind).rows_at(2) == 9
    opened(tmp_path, kind).maintain(retention_hours=0)
    for ask in (opened(tmp_path, kind).rows_at, opened(tmp_path, kind).rewind):
        with pytest.raises(LedgerError, match="batch 1 of .* cannot be gone back to: 2 files that the table had then"):
            ask(1)
    assert opened(tmp_path, kind).held() == (12, [])
    write(tmp_path, 4, kind)
    assert opened(tmp_path, kind).rows_at(4) == 15


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_a_table_that_is_taken_back_while_old_files_are_removed_keeps_those_it_has_again(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        write(tmp_path, number, kind)

    def later(store: Store, names: Sequence[str], used: Callable[[], Collection[str]]) -> int:
        opened(tmp_path, kind).rewind(1)
        return remove(store, names, used)

    with monkeypatch.context() as patched:
        patched.setattr(f"moldau.spark.tables.{'delta' if kind == 'delta' else 'manifest'}.remove", later)
        opened(tmp_path, kind).maintain(retention_hours=0)
    assert opened(tmp_path, kind).held() == (6, [])


@pytest.mark.parametrize(("kind", "step"), [*(("delta", n) for n in range(5)), *(("parquet", n) for n in range(3))])
def test_a_table_is_taken_back_while_it_is_maintained_as_if_it_were_not(
    tmp_path: Path, kind: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        write(tmp_path, number, kind)
    table, left = opened(tmp_path, kind), step

    def between(before: Callable[..., Any], *given: Any, **named: Any) -> Any:  # Any: whatever a step takes
        nonlocal left
        left -= 1
        if left == -1:
            opened(tmp_path, kind).maintain(retention_hours=1)
        return before(*given, **named)

    with monkeypatch.context() as patched:
        for name in ("last", "commit", "rewind", "_version_of"):
            patched.setattr(table.format, name, partial(between, getattr(table.format, name)))
        restore = DeltaTable.restore
        patched.setattr(DeltaTable, "restore", lambda *given, **named: between(restore, *given, **named))
        assert json.loads(table.rewind(1)) == {"t": {"0": 20}}
    assert left < 0
    assert opened(tmp_path, kind).held() == (6, [])
    last = opened(tmp_path, kind).last()
    assert last is not None
    assert (last.what, last.end) == ("rewind", key(1).end)


def test_a_parquet_table_whose_rewind_was_cut_off_takes_no_batch_after_those_that_went(tmp_path: Path) -> None:
    for number in range(4):
        write(tmp_path, number, "parquet")
    opened(tmp_path, "parquet").format.rewind("default", 1)  # and no line after it
    with pytest.raises(LedgerError, match="leaves a gap"):
        write(tmp_path, 4, "parquet")
    assert json.loads(opened(tmp_path, "parquet").rewind(1)) == {"t": {"0": 20}}


@pytest.mark.parametrize("way", ["merge", "no merge", "evolve", "rewind"])
def test_the_line_of_a_pipeline_that_stands_still_is_not_lost_by_any_commit_of_another(
    tmp_path: Path, way: str
) -> None:
    """delta-rs expires the log with each commit that does not say otherwise."""
    idle = Table(str(tmp_path), pipeline="idle")
    for number in range(3):
        write(tmp_path, number)
    idle.add((), key(0))
    opened(tmp_path).maintain(retention_hours=1)
    for number in range(3, 6):
        write(tmp_path, number)
    DeltaTable(str(tmp_path)).create_checkpoint()  # as each hundredth commit does
    age(tmp_path, 2)
    write(tmp_path, 6)
    write(tmp_path, 7)
    if way == "evolve":
        opened(tmp_path).format.prepare(pa.schema([*ROWS.schema, pa.field("more", pa.int64())]), evolve=True)
    elif way == "rewind":
        opened(tmp_path).rewind(6)
    else:
        opened(tmp_path).maintain(retention_hours=1, target_bytes=1 if way == "no merge" else 1 << 20)
    last = Table(str(tmp_path), pipeline="idle").last()
    assert last is not None
    assert (last.batch_id, last.end) == (0, key(0).end)


def test_a_shallow_clone_takes_rows_and_is_not_maintained_and_its_source_keeps_its_files(tmp_path: Path) -> None:
    source, clone = tmp_path / "source", tmp_path / "clone"
    write(source, 0)
    write(source, 1)
    shutil.copytree(source / "_delta_log", clone / "_delta_log")
    for file in (clone / "_delta_log").glob("*.json"):
        file.write_text(file.read_text().replace('"path":"batch', f'"path":"{source}/batch'))
    write(clone, 2)
    with pytest.raises(TableError, match="it is a shallow clone, with files of another table"):
        opened(clone).maintain(retention_hours=0)
    assert opened(clone).count() == 9
    assert opened(source).held() == (6, [])


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


def test_the_log_expires_though_a_file_of_others_keeps_the_folder_from_being_listed(tmp_path: Path) -> None:
    for number in range(2):
        write(tmp_path, number)
    DeltaTable(str(tmp_path)).create_checkpoint()
    write(tmp_path, 2)
    for file in (tmp_path / "_delta_log").glob("0*"):
        os.utime(file, (1, 1))
    (tmp_path / "a\nb").write_text("theirs")
    with pytest.raises(TableError, match="files in it cannot be listed, so none was removed"):
        opened(tmp_path).maintain(retention_hours=1)
    left = sorted(int(one.stem) for one in (tmp_path / "_delta_log").glob("*.json"))
    assert left[0] == 2  # of the checkpoint before the retention began
    assert opened(tmp_path).held() == (9, [])


@pytest.mark.parametrize("way", ["add", "adopt", "reset", "rewind"])
def test_a_table_that_forgets_its_transactions_lets_its_pipeline_go_on(tmp_path: Path, way: str) -> None:
    """A table may say that it keeps them for a week, say; a pipeline may rest for longer."""
    for number in range(3):
        write(tmp_path, number)
    kept = {"delta.setTransactionRetentionDuration": "interval 7 days"}
    DeltaTable(str(tmp_path)).alter.set_table_properties(kept)
    age_log(tmp_path, 8)
    table = opened(tmp_path)
    if way == "add":
        write(tmp_path, 2)  # again
        write(tmp_path, 3)
    elif way == "rewind":
        assert json.loads(table.rewind(1)) == {"t": {"0": 20}}
        write(tmp_path, 2)
    else:
        (table.adopt if way == "adopt" else table.reset)()
        write(tmp_path, 3)
    assert opened(tmp_path).count() == (9 if way == "rewind" else 12)
    opened(tmp_path).maintain(retention_hours=168)
    last = opened(tmp_path).last()
    assert last is not None
    assert (last.what, last.sequence) == ("kept", {"add": 4, "adopt": 5, "reset": 5, "rewind": 5}[way])


def test_a_delta_table_is_not_partitioned_by_bytes_which_a_merge_would_change(tmp_path: Path) -> None:
    table = Table(DeltaFormat(open_store(str(tmp_path)), ["b"]))
    schema = pa.schema({"b": pa.binary(), "id": pa.int64()})
    for ask in (table.format.check, table.format.prepare):
        with pytest.raises(TableError, match="b is a binary, whose values would become others as partitions"):
            ask(schema, evolve=False)
    DeltaTable.create(str(tmp_path), Schema.from_arrow(schema), partition_by=["b"])
    with pytest.raises(TableError, match="b is a binary"):
        opened(tmp_path).maintain()


@pytest.mark.parametrize(
    ("mode", "name", "said"),
    [("name", "renamed", "renamed is id"), ("id", "id", "by ids"), ("name", "id", "")],
)
def test_a_delta_table_whose_files_have_other_names_for_its_columns_takes_no_rows(
    tmp_path: Path, mode: str, name: str, said: str
) -> None:
    """They would be read as nulls, by every reader."""
    write(tmp_path, 0)
    first = tmp_path / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in first.read_text().splitlines()]
    for action in actions:
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
        if "metaData" in action:
            told = json.loads(action["metaData"]["schemaString"])
            notes = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "id"}
            told["fields"][0] |= {"name": name, "metadata": notes}
            action["metaData"]["schemaString"] = json.dumps(told)
            mapped = {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "1"}
            action["metaData"]["configuration"] = mapped
    first.write_text("\n".join(map(json.dumps, actions)))
    rows = pa.schema({name: pa.int64()})
    if not said:
        opened(tmp_path).format.check(rows, evolve=False)
        return
    for ask in (opened(tmp_path).format.check, opened(tmp_path).format.prepare):
        with pytest.raises(TableError, match=f"{said}.*would be read as nulls"):
            ask(rows, evolve=False)


def test_a_merge_whose_answer_was_lost_keeps_the_file_that_holds_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store has the version, and the client that sent it again was told that there is one."""
    for number in range(4):
        write(tmp_path, number, "parquet")
    put = Store.put_if_absent

    def answer_lost(store: Store, name: str, content: bytes) -> bool:
        return put(store, name, content) and b"merged-" not in content

    with monkeypatch.context() as patched:
        patched.setattr(Store, "put_if_absent", answer_lost)
        assert opened(tmp_path, "parquet").maintain(retention_hours=0) == {"merged": 4, "into": 1, "removed": 4}
    assert opened(tmp_path, "parquet").held() == (12, [])
    assert sorted(opened(tmp_path, "parquet").read()["id"].to_pylist()) == sorted([1, 2, 3] * 4)
