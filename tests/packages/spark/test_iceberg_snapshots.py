"""What an Iceberg table keeps of its past: each commit reads and writes all of it; no JVM is needed."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from moldau.spark.tables import BatchKey, LedgerError, Table
from moldau.spark.tables import iceberg as module
from moldau.spark.tables.files import read_footers
from moldau.spark.tables.iceberg import DELETED, IcebergFormat

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    return SqlCatalog("c", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")


def table_of(catalog: SqlCatalog, tmp_path: Path, pipeline: str = "default") -> Table:
    return Table(IcebergFormat(catalog, "n.t", location=str(tmp_path / "t")), pipeline=pipeline)


def take(table: Table, number: int) -> None:
    """Add batch ``number``, of ten offsets and three rows."""
    table.format.prepare(ROWS.schema, evolve=False)
    folder = f"batch-{number}-{table.pipeline}"
    table.store.make_folder(folder)
    with table.store.filesystem.open_output_stream(table.store.at(f"{folder}/part-0.parquet")) as file:
        pq.write_table(ROWS, file)
    start, end = (json.dumps({"t": {"0": at * 10}}) for at in (number, number + 1))
    key = BatchKey("q", number, (start,) if number else None, (end,))
    assert not table.add(read_footers(table.store, folder), key).skipped


def metadata(tmp_path: Path) -> int:
    """How many files of metadata there are."""
    return len([*(tmp_path / "t" / "metadata").glob("*.metadata.json")])


def test_no_more_snapshots_are_kept_than_a_commit_can_carry_however_young(
    catalog: SqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SNAPSHOTS_MOST", 4)
    table = table_of(catalog, tmp_path)
    for number in range(7):
        take(table, number)
    before = catalog.load_table("n.t").snapshots()
    done = table.maintain(retention_hours=168)
    there = catalog.load_table("n.t").snapshots()
    assert done["expired"] == 4
    # The newest four, the last of which came with the maintenance: the ledger's line once more.
    assert [each.snapshot_id for each in there][:-1] == [each.snapshot_id for each in before][-3:]
    take(table_of(catalog, tmp_path), 7)
    assert table_of(catalog, tmp_path).count() == 24


def test_old_files_of_metadata_are_removed_by_each_commit(catalog: SqlCatalog, tmp_path: Path) -> None:
    table = table_of(catalog, tmp_path)
    take(table, 0)
    with catalog.load_table("n.t").transaction() as change:
        change.set_properties({"write.metadata.previous-versions-max": "3"})
    for number in range(1, 9):
        take(table, number)
    assert metadata(tmp_path) == 4


def test_a_table_of_before_has_them_removed_from_its_first_maintenance_on_unless_its_owner_said(
    catalog: SqlCatalog, tmp_path: Path
) -> None:
    table = table_of(catalog, tmp_path)
    take(table, 0)
    with catalog.load_table("n.t").transaction() as change:
        change.remove_properties(DELETED)
    table.maintain()
    assert catalog.load_table("n.t").properties[DELETED] == "true"
    with catalog.load_table("n.t").transaction() as change:
        change.set_properties({DELETED: "false"})
    table.maintain()
    assert catalog.load_table("n.t").properties[DELETED] == "false"


@pytest.mark.parametrize("left", [0, 1])
def test_what_a_roll_back_took_from_a_pipeline_is_known_after_another_one_has_maintained_the_table(
    catalog: SqlCatalog, tmp_path: Path, left: int
) -> None:
    """Without the snapshots that tell it, the next batch would be taken, and those before it be gone without a word."""
    other = table_of(catalog, tmp_path, "other")
    take(other, 0)
    for number in range(3):
        take(table_of(catalog, tmp_path), number)
    there = catalog.load_table("n.t")
    there.manage_snapshots().rollback_to_snapshot(there.snapshots()[left].snapshot_id).commit()
    for number in range(1, 3):
        take(other, number)
        assert other.maintain(retention_hours=0)["expired"]
    said = "leaves a gap" if left else "holds none of its batches any more"
    with pytest.raises(LedgerError, match=said):
        take(table_of(catalog, tmp_path), 3)
    assert table_of(catalog, tmp_path).count() == 9 + 3 * left
    table_of(catalog, tmp_path).adopt(json.dumps({"t": {"0": 30}}))
    take(table_of(catalog, tmp_path), 3)
    take(other, 3)


def test_snapshots_that_the_tables_own_properties_keep_stay_whatever_the_retention_is(
    catalog: SqlCatalog, tmp_path: Path
) -> None:
    """So many of each branch, those that tags name, and all where nothing may be expired."""
    table = table_of(catalog, tmp_path)
    for number in range(7):
        take(table, number)
    there = catalog.load_table("n.t")
    ids = [one.snapshot_id for one in there.snapshots()]
    there.manage_snapshots().create_tag(ids[0], "first").create_branch(ids[2], "aside").commit()
    with there.transaction() as change:
        change.set_properties({"history.expire.min-snapshots-to-keep": "2", "gc.enabled": "false"})
    assert table.maintain(retention_hours=0)["expired"] == 0
    with catalog.load_table("n.t").transaction() as change:
        change.set_properties({"gc.enabled": "true"})
    table.maintain(retention_hours=0)
    left = [one.snapshot_id for one in catalog.load_table("n.t").snapshots()]
    assert left[:3] == ids[:3], "a tag's, and two of the branch aside"
    assert len(left) == 3 + 2, "two of the table's own, which maintenance wrote last: it states lines again"
    take(table_of(catalog, tmp_path), 7)
