"""What others do to a table while a stream fills it is noticed, and maintenance changes no row; no JVM is needed."""

from __future__ import annotations

import datetime
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitStateUnknownException, NoSuchTableError, ServiceUnavailableError
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.snapshots import Snapshot
from requests import Timeout

from moldau.spark.tables import BatchKey, DeltaFormat, LedgerError, Table, TableError, file_stats
from moldau.spark.tables.files import DataFile, read_footers
from moldau.spark.tables.iceberg import IcebergFormat
from moldau.spark.tables.manifest import ParquetFormat
from moldau.spark.tables.stores import open_store
from tests.packages.spark.table_batches import at, key

ROWS = pa.table({"id": pa.array([3, 1, 2], pa.int64())})
Make = Callable[..., Table]
KINDS = ["delta", "parquet", "iceberg"]


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """A table in each format, opened anew: as another driver would have it."""
    return lambda **how: opened(request.param, tmp_path, **how)


def opened(kind: str, folder: Path, **how: Any) -> Table:
    store = open_store(folder / "t")
    if kind == "iceberg":
        catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
        return Table(IcebergFormat(catalog, "n.t", location=str(folder / "t")), **how)
    return Table(DeltaFormat(store) if kind == "delta" else ParquetFormat(store), **how)


def iceberg(folder: Path) -> IcebergTable:
    """The table as another program sees it."""
    found = opened("iceberg", folder).format
    assert isinstance(found, IcebergFormat)
    return found.catalog.load_table("n.t")


def add(table: Table, batch: BatchKey, rows: pa.Table = ROWS) -> bool:
    table.format.prepare(rows.schema, evolve=table.evolve)
    name = f"batch-{batch.batch_id}-{os.urandom(4).hex()}"
    table.store.make_folder(name)
    pq.write_table(rows, table.store.at(f"{name}/part-0.parquet"))
    return not table.add(read_footers(table.store, name), batch).skipped


def filled(make: Make, batches: int) -> None:
    for number in range(batches):
        add(make(), key(number))


def test_a_restore_to_a_moment_is_noticed_as_one_to_a_version_is(tmp_path):
    table = opened("delta", tmp_path)
    filled(lambda: table, 2)
    an_hour_ago = time.time() - 3600
    for log in (tmp_path / "t" / "_delta_log").iterdir():
        os.utime(log, (an_hour_ago, an_hour_ago))  # by which delta-rs tells when a version was made
    add(table, key(2))
    DeltaTable(str(tmp_path / "t")).restore(datetime.datetime.fromtimestamp(an_hour_ago + 60, datetime.UTC))
    assert table.count() == 6
    for driver in (table, opened("delta", tmp_path)):
        assert json.loads(driver.positions()) == {"t": {"0": 20}}
        with pytest.raises(LedgerError, match="leaves a gap"):
            add(driver, key(3))


def test_an_iceberg_table_rolled_back_before_a_pipelines_first_batch_is_noticed(tmp_path):
    add(opened("iceberg", tmp_path, pipeline="a"), key(0))
    snapshot = iceberg(tmp_path).current_snapshot()
    assert snapshot is not None
    add(opened("iceberg", tmp_path, pipeline="b"), key(0, "r"))
    iceberg(tmp_path).manage_snapshots().rollback_to_snapshot(snapshot.snapshot_id).commit()
    with pytest.raises(LedgerError, match="holds none of its batches any more"):
        add(opened("iceberg", tmp_path, pipeline="b"), key(1, "r"))
    assert add(opened("iceberg", tmp_path, pipeline="a"), key(1))
    opened("iceberg", tmp_path, pipeline="b").adopt(at(0)[0])
    assert add(opened("iceberg", tmp_path, pipeline="b"), BatchKey("s", 0, at(0), at(20)))


def test_an_iceberg_table_whose_snapshots_were_expired_goes_on(tmp_path):
    filled(lambda: opened("iceberg", tmp_path), 2)
    add(opened("iceberg", tmp_path, pipeline="b"), key(0, "r"))
    opened("iceberg", tmp_path, pipeline="b").maintain(retention_hours=0)
    assert add(opened("iceberg", tmp_path), key(2))


@pytest.mark.parametrize(
    "unknown", [CommitStateUnknownException("504"), ServiceUnavailableError("503"), Timeout("cut")]
)
def test_a_commit_whose_answer_the_catalog_lost_is_not_made_again(tmp_path, monkeypatch, unknown):
    running = opened("iceberg", tmp_path)
    assert add(running, key(0))
    commit, lost = SqlCatalog.commit_table, iter([unknown])

    def losing(*asked: Any) -> object:
        done = commit(*asked)
        for error in lost:
            raise error
        return done

    monkeypatch.setattr(SqlCatalog, "commit_table", losing)
    assert not add(running, key(1)), "it was added by the run whose answer was lost"
    assert add(running, key(2))
    assert not add(opened("iceberg", tmp_path), key(2))
    assert opened("iceberg", tmp_path).read().num_rows == 9


def test_a_table_is_not_taken_back_over_batches_of_another_pipeline(make):
    filled(lambda: make(pipeline="a"), 2)
    add(make(pipeline="b"), key(0, "r"))
    with pytest.raises(LedgerError, match="pipeline 'b' has written since"):
        make(pipeline="a").rewind(0)
    assert make().count() == 9
    assert add(make(pipeline="b"), key(1, "r"))


def test_a_table_that_vanished_under_its_query_is_not_begun_again_in_its_middle(make, tmp_path):
    running = make()
    for number in range(3):
        add(running, key(number))
    shutil.rmtree(tmp_path / "t")
    (tmp_path / "catalog.db").unlink(missing_ok=True)
    with pytest.raises(LedgerError, match="batch 3 of query q is not the query's first.*begins_late=True"):
        add(make(), key(3))
    assert add(make(begins_late=True), key(3))
    assert add(make(), key(4))


def test_a_batch_that_ends_before_the_tables_end_is_an_overlap_wherever_it_began(make):
    filled(make, 3)
    make().adopt()
    for end in (10, 29):
        with pytest.raises(LedgerError, match="overlaps what is there"):
            add(make(), BatchKey("new", 0, None, at(end)))
    assert add(make(), BatchKey("new", 0, None, at(40)))


def test_maintenance_goes_on_beside_a_batch_that_was_committed_meanwhile(make):
    filled(make, 4)
    keeper = make()
    look, batches = keeper.format.last, iter([4])

    def last(pipeline: str, query_id: str) -> object:
        found = look(pipeline, query_id)
        for number in batches:
            add(make(), key(number))
        return found

    keeper.format.last = last
    keeper.maintain()
    assert make().count() == 15
    assert add(make(), key(5))


def test_a_commit_to_an_iceberg_table_copies_and_lists_no_more_after_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted: snapshots that are copied, but for once in the catalog, and manifests that the newest snapshot lists."""
    running = opened("iceberg", tmp_path)
    add(running, key(0))
    with iceberg(tmp_path).transaction() as change:
        change.set_properties({"commit.manifest.min-count-to-merge": "4"})
    copied: list[object] = []
    copy = Snapshot.__deepcopy__
    monkeypatch.setattr(Snapshot, "__deepcopy__", lambda self, memo=None: (copied.append(1), copy(self, memo))[1])
    costs = []
    for number in range(1, 21):
        copied.clear()
        add(running, key(number))
        costs.append(len(copied) / number)
    assert costs[-1] < 4, "how often each snapshot that was there is copied"
    table = iceberg(tmp_path)
    assert len(table.snapshots()) == 21
    now = table.current_snapshot()
    assert now is not None
    assert len(now.manifests(table.io)) <= 4
    assert running.held() == (21 * 3, [])
    assert json.loads(opened("iceberg", tmp_path).rewind(10)) == {"t": {"0": 110}}
    assert opened("iceberg", tmp_path).count() == 11 * 3


def test_metadata_files_that_are_too_old_go_with_a_commit_where_an_iceberg_table_wants_that(tmp_path: Path) -> None:
    """None went: pyiceberg finds them by a log that it was not given."""
    running = opened("iceberg", tmp_path)
    add(running, key(0))
    with iceberg(tmp_path).transaction() as change:
        change.set_properties(
            {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "2"}
        )
    for number in range(1, 9):
        add(running, key(number))
    assert len(list(tmp_path.rglob("*.metadata.json"))) <= 5, "two earlier ones, and those from before it was wanted"
    assert running.held() == (9 * 3, [])


def test_two_that_merge_the_same_files_double_no_row(tmp_path, monkeypatch):
    filled(lambda: opened("parquet", tmp_path), 4)
    one, other = opened("parquet", tmp_path), opened("parquet", tmp_path)
    assert isinstance(one.format, ParquetFormat)
    merge, turns = one.format._merge, iter([0])

    def merged(parts: Sequence[list[DataFile]]) -> list[list[DataFile]]:
        for _ in turns:
            other.maintain()
        return merge(parts)

    monkeypatch.setattr(one.format, "_merge", merged)
    assert one.maintain()["merged"] == 0
    assert opened("parquet", tmp_path).count() == 12
    assert opened("parquet", tmp_path).read().num_rows == 12


def test_files_that_were_taken_away_and_given_back_are_in_the_sum_of_versions(tmp_path):
    filled(lambda: opened("parquet", tmp_path), 5)
    opened("parquet", tmp_path).maintain()
    opened("parquet", tmp_path).rewind(2)
    running = opened("parquet", tmp_path)
    for number in range(3, 110):
        running.add([], key(number, "n"))
    assert opened("parquet", tmp_path).count() == 9
    assert opened("parquet", tmp_path).read().num_rows == 9


def test_bounds_that_python_has_no_value_for_are_left_out(tmp_path):
    """Any producer may write such a timestamp, and Spark's dates go beyond the year 9999."""
    far = pa.array([10**18, -(10**18)], pa.timestamp("us", tz="UTC"))
    days = pa.array([10**7, 0], pa.int32()).cast(pa.date32())
    pq.write_table(pa.table({"id": [1, 2], "at": far, "day": days}), tmp_path / "a.parquet")
    stats = file_stats(pq.read_metadata(tmp_path / "a.parquet"))
    assert stats["numRecords"] == 2
    assert (stats["minValues"], stats["maxValues"]) == ({"id": 1}, {"id": 2})


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.list_(pa.int16())], ids=str)
def test_a_type_that_iceberg_lacks_is_refused_before_there_is_a_table(kind, tmp_path):
    rows = pa.table({"id": pa.array([None], kind)})
    with pytest.raises(TableError, match="Iceberg has no such type.*id"):
        add(opened("iceberg", tmp_path), key(0), rows)
    with pytest.raises(NoSuchTableError):
        iceberg(tmp_path)


def test_files_that_are_gone_or_cut_are_named_though_the_log_has_them(make: Make, tmp_path: Path) -> None:
    filled(make, 3)
    assert make().held() == (9, [])
    assert make().count() == 9
    first, second, third = sorted((tmp_path / "t").glob("batch-*/*.parquet"))
    first.unlink()
    second.write_bytes(second.read_bytes()[:-1])
    third.write_bytes(b"x" * third.stat().st_size)
    rows, damaged = make().held()
    assert rows == 0
    assert len(damaged) == 3
    for file, said in ((first, "gone"), (second, "bytes, not"), (third, "")):
        assert any(str(file) in one and said in one for one in damaged), damaged
    assert make().count() == 9, "the log alone tells nothing of it"


def test_files_in_folders_of_values_with_any_sign_are_looked_at(tmp_path: Path) -> None:
    for kind in (DeltaFormat, ParquetFormat):
        table = Table(kind(open_store(tmp_path / kind.__name__), ["name"]))
        rows = pa.table({"id": pa.array([1], pa.int64()), "name": ["x"]})
        table.format.prepare(rows.schema, evolve=False)
        name = "batch-0/name=a%20b%2Fc d%25"
        table.store.make_folder(name)
        pq.write_table(rows.select(["id"]), table.store.at(f"{name}/part-0.parquet"))
        table.add(read_footers(table.store, "batch-0"), key(0))
        assert table.held() == (1, []), kind


def test_a_log_that_was_cut_names_its_table(tmp_path: Path) -> None:
    def make() -> Table:
        return opened("delta", tmp_path)

    filled(make, 2)
    (newest,) = (tmp_path / "t" / "_delta_log").glob("*2.json")
    known = make()
    known.last()
    newest.write_bytes(newest.read_bytes()[:40])
    with pytest.raises(TableError, match=f"{tmp_path}/t: the table's log cannot be read"):
        make().last()


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b'{"add": [[1]]}', b'{"add": [], "number": 0, "more": 1}']
)
def test_a_damaged_file_of_a_parquet_tables_log_is_named(tmp_path: Path, content: bytes) -> None:
    assert add(opened("parquet", tmp_path), key(0))
    name = "_moldau/log/" + "0" * 20 + ".json"
    open_store(tmp_path / "t").write(name, content)
    with pytest.raises(TableError, match=f"{name} is damaged .*restore it from a copy"):
        opened("parquet", tmp_path).last()


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """Where ``make`` makes tables: a disk of its own of two megabytes."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "moldau", str(tmp_path)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting is not permitted here")
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=False)


def test_a_disk_that_is_full_when_a_batch_is_committed_loses_and_doubles_nothing(full: Path, make: Make) -> None:
    """Its files are written, and nothing more fits: its line goes in with space again, in the driver that runs too."""
    filled(make, 2)
    running = make()
    store = running.store
    running.format.prepare(ROWS.schema, evolve=False)
    store.make_folder("batch-2")
    pq.write_table(ROWS, store.at("batch-2/part-0.parquet"))
    files = read_footers(store, "batch-2")
    filler = full / "filler"
    filler.write_bytes(bytes(shutil.disk_usage(full).free))
    for driver in (running, make()):
        with pytest.raises(Exception, match=r"No space left on device|disk I/O error|database or disk is full"):
            driver.add(files, key(2))
    filler.unlink()
    assert make().count() == 6
    assert not running.add(files, key(2)).skipped
    assert make().add(files, key(2)).skipped
    assert add(make(), key(3))
    assert make().held() == (12, [])
