"""Tables take a batch once, whoever writes it and however often, and refuse what does not follow; no JVM is needed."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder

from moldau.spark.query import NoQuery
from moldau.spark.tables import BatchKey, DeltaFormat, LedgerError, Table, TableError, Totals, file_stats
from moldau.spark.tables.checkpoint import key_of, offsets_of
from moldau.spark.tables.files import (
    DataFile,
    FileLayout,
    TaskFiles,
    check_count,
    folder_of,
    partition_of,
    read_footers,
)
from moldau.spark.tables.ledger import LedgerEntry, Raced, next_entry
from moldau.spark.tables.stores import Store, open_store

ROWS = pa.table({"id": pa.array([3, 1, 2], pa.int64()), "name": ["b", None, "a"], "x": [1.5, 2.5, None]})

Make = Callable[..., Table]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A table in its format, opened anew: as another driver would have it."""

    def made(name: str = "t", **how: Any) -> Table:
        return Table(DeltaFormat(open_store(tmp_path / name), how.pop("partition_by", ())), **how)

    return made


def files(store: Store, folder: str, rows: pa.Table = ROWS) -> list[DataFile]:
    """Files under the table as executors leave them."""
    store.write(f"{folder}/_SUCCESS", b"")
    with store.filesystem.open_output_stream(store.at(f"{folder}/part-0.parquet")) as file:
        pq.write_table(rows, file)
    return read_footers(store, folder)


def at(offset: int, id: str = "A") -> tuple[str, ...]:
    return (json.dumps({"t": {"0": offset}, "#topicIds": {"t": id}}),)


def key(batch: int, start: int | None = None, end: int | None = None, query: str = "q") -> BatchKey:
    return BatchKey(query, batch, None if start is None else at(start), None if end is None else at(end))


def add(table: Table, batch: BatchKey, rows: pa.Table = ROWS) -> bool:
    """Whether the batch was added."""
    table.format.prepare(rows.schema, evolve=table.evolve)
    folder = f"batch-{batch.batch_id}-{threading.get_ident()}-{len(table.store.names(''))}"
    return not table.add(files(table.store, folder, rows), batch).skipped


def test_a_batch_that_is_run_again_is_skipped_by_any_driver(make):
    assert add(make(), key(0, None, 10))
    assert not add(make(), key(0, None, 10))
    assert add(make(), key(1, 10, 20))
    assert not add(make(), key(1, 10, 20))
    assert not add(make(), key(0, None, 10))
    table = make()
    assert table.count() == 6
    assert (table.last_batch("q"), table.last_batch("other")) == (1, None)
    assert json.loads(table.positions()) == {"t": {"0": 20}}


def test_the_commit_names_pipeline_query_batch_offsets_and_rows(make, tmp_path):
    add(make(pipeline="orders", begins_late=True), key(7, 5, 9))
    entry = DeltaTable(str(tmp_path / "t")).history(1)[0]
    assert (entry["moldau.query"], entry["moldau.batch"], entry["moldau.rows"]) == ("q", "7", "3")
    assert LedgerEntry.from_json(entry["moldau.ledger"]) == LedgerEntry("orders", 0, "q", 7, at(5), at(9), 3)


def test_of_drivers_that_race_with_one_batch_one_is_taken(make):
    add(make(), key(0, None, 10))
    outcome: list[bool | Exception] = []
    start = threading.Barrier(4)

    def run(table: Table) -> None:
        table.last()
        start.wait()
        try:
            outcome.append(add(table, key(1, 10, 20)))
        except Exception as error:
            outcome.append(error)

    threads = [threading.Thread(target=run, args=(make(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcome, key=str) == [False, False, False, True]
    assert make().count() == 6


def test_a_commit_is_on_the_version_that_was_judged(make):
    """One driver looks, another commits the batch, and the first has not seen it."""
    slow, fast = make(), make()
    add(slow, key(0, None, 10))
    last = slow.last()
    assert add(fast, key(1, 10, 20))
    with pytest.raises(Raced):
        slow.format.commit((), next_entry("default", last, key(1, 10, 20), 0))
    assert not add(slow, key(1, 10, 20))


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        (key(1, 15, 20), "leaves a gap.*adopt.*rewind.*reset"),
        (key(1, 5, 20), "overlaps what is there"),
        (key(0, None, 10, "other"), "comes from query other.*adopt.*reset.*a pipeline name of its own"),
        (key(0, None, 15), "covers other offsets than it did.*restored from an older copy"),
        (BatchKey("q", 1, at(10, "B"), at(20, "B")), "does not continue it"),
    ],
    ids=["gap", "overlap", "another checkpoint", "a restored checkpoint", "a topic made anew"],
)
def test_a_batch_that_does_not_follow_is_refused_with_what_to_do(make, batch, said):
    table = make()
    add(table, key(0, None, 10))
    for again in (table, make()):
        with pytest.raises(LedgerError, match=said):
            add(again, batch)
    assert table.count() == 3


def test_a_restored_checkpoint_whose_batches_are_all_in_the_table_goes_on(make):
    table = make()
    for number in range(4):
        add(table, key(number, number * 10 if number else None, number * 10 + 10))
    assert not add(table, key(1, 10, 15))  # other bounds under an old number, but nothing that is not there
    assert add(table, key(2, 40, 45))  # a number that was used, and exactly what comes next


def test_adopt_lets_a_new_checkpoint_go_on_where_the_table_ends(make):
    add(make(), key(0, None, 10))
    make().adopt()
    with pytest.raises(LedgerError, match="leaves a gap"):
        add(make(), key(0, 12, 20, "new"))
    assert add(make(), key(0, 10, 20, "new"))
    with pytest.raises(LedgerError, match="comes from query q"):
        add(make(), key(1, 10, 20))


def test_reset_takes_whatever_comes(make):
    add(make(), key(0, None, 10))
    make().reset()
    assert add(make(), key(0, 3, 20, "new"))
    assert make().count() == 6


def test_rewind_takes_the_table_back_to_the_end_of_a_batch(make):
    for number in range(3):
        add(make(), key(number, number * 10 if number else None, number * 10 + 10))
    assert json.loads(make().rewind(0)) == {"t": {"0": 10}}
    assert make().count() == 3
    assert add(make(), key(0, 10, 30, "new"))
    assert make().count() == 6
    with pytest.raises(LedgerError, match="batch 77 of pipeline 'default'"):
        make().rewind(77)


def test_pipelines_of_one_table_do_not_stand_in_each_others_way(make):
    for number in range(3):
        assert add(make(pipeline="a"), key(number, number * 10 if number else None, number * 10 + 10))
        assert add(make(pipeline="b"), key(number, number * 7 if number else None, number * 7 + 7, "r"))
    assert make().count() == 18


def test_a_batch_without_rows_moves_the_ledger_on(make):
    table = make()
    add(table, key(0, None, 10))
    assert table.add([], key(1, 10, 15)) == (0, 0, False)
    assert add(make(), key(2, 15, 20))


def test_new_columns_are_let_in_when_asked_for_and_types_never_change(make):
    add(make(), key(0, None, 1))
    wider = ROWS.append_column("more", pa.array([1, 2, 3], pa.int32()))
    with pytest.raises(TableError, match="differ in more; new columns are added by evolve=True"):
        add(make(), key(1, 1, 2), wider)
    add(make(evolve=True), key(1, 1, 2), wider)
    add(make(), key(2, 2, 3))  # and an older writer goes on
    found = make().read()
    assert sorted(found["more"].to_pylist(), key=str) == [1, 2, 3, *[None] * 6]
    with pytest.raises(TableError, match="they differ in id"):
        add(make(evolve=True), key(3, 3, 4), ROWS.set_column(0, "id", pa.array(["x"] * 3)))


def test_nullability_at_any_depth_is_no_difference(make):
    deep = pa.struct([pa.field("a", pa.int64(), nullable=False)])
    flat = pa.struct([pa.field("a", pa.int64())])
    one = pa.table({"s": pa.array([{"a": 1}], deep)})
    add(make(), key(0, None, 1), one)
    assert add(make(), key(1, 1, 2), pa.table({"s": pa.array([{"a": 1}], flat)}))


def test_a_table_that_is_partitioned_otherwise_is_refused(make):
    add(make(), key(0, None, 1))
    with pytest.raises(TableError, match=r"partitioned by \[\], not by \['name'\]"):
        add(make(partition_by=["name"]), key(1, 1, 2))


def test_a_decimal_with_a_point_is_no_partition(make, tmp_path):
    """delta-rs reads -0.01 in a folder's name as 0.-1: the table could not be read, and was lost once it was merged."""
    rows = pa.table({"cut": pa.array([Decimal("-0.01")], pa.decimal128(9, 2)), "n": [1]})
    with pytest.raises(TableError, match="cut is a decimal128"):
        add(make(partition_by=["cut"]), key(0, None, 1), rows)
    whole = pa.table({"cut": pa.array([Decimal(-1)], pa.decimal128(9, 0)), "n": [1]})
    assert add(make(partition_by=["cut"]), key(0, None, 1), whole)
    there = DeltaTable.create(str(tmp_path / "old"), rows.schema, partition_by=["cut"])
    with pytest.raises(TableError, match="cut is a decimal128"):
        DeltaFormat(open_store(tmp_path / "old"), ["cut"]).maintain(target_bytes=1, retention_hours=1)
    assert there.version() == 0


def test_rows_that_the_driver_cannot_see_are_not_taken_for_no_rows(tmp_path):
    with pytest.raises(TableError, match="3 rows were written by the executors, but the driver finds 0.*do not share"):
        check_count(open_store(tmp_path), "batch-1", 3, 0)
    check_count(open_store(tmp_path), "batch-1", 0, 0)


def test_a_users_restore_of_the_table_is_noticed(make, tmp_path):
    for number in range(3):
        add(make(), key(number, number * 10 if number else None, number * 10 + 10))
    DeltaTable(str(tmp_path / "t")).restore(2)  # after batch 1: version 0 made the table
    assert json.loads(make().positions()) == {"t": {"0": 20}}
    with pytest.raises(LedgerError, match="leaves a gap"):
        add(make(), key(3, 30, 40))


def test_files_are_merged_and_removed_beside_the_stream_and_the_ledger_stays(make, tmp_path):
    table = make()
    for number in range(12):
        add(table, key(number, number * 10 if number else None, number * 10 + 10))
    lost = f"{folder_of(99)}/part-0.parquet"
    table.store.write(lost, b"never committed")
    done = make().maintain(retention_hours=0)
    assert (done["merged"], done["into"]) == (12, 1)
    assert done["removed"] >= 13
    assert table.store.size(lost) is None
    assert add(table, key(12, 120, 130))
    assert make().count() == 39
    assert sorted(set(make().read()["id"].to_pylist())) == [1, 2, 3]


def test_maintenance_keeps_the_last_lines_of_further_names_in_the_log(make, tmp_path):
    add(make(), key(0, None, 10))
    add(make(pipeline="default.replay"), key(0, None, 10))
    add(make(), key(1, 10, 20))
    make().maintain(names=["default.replay", "never.wrote"])
    history = DeltaTable(str(tmp_path / "t")).history()
    newest = [json.loads(one["moldau.ledger"])["pipeline"] for one in history if "moldau.ledger" in one][:2]
    assert sorted(newest) == ["default", "default.replay"]
    assert not add(make(pipeline="default.replay"), key(0, None, 10))
    assert add(make(), key(2, 20, 30))


def test_a_ledger_whose_line_was_expired_is_refused_until_it_is_adopted(make, tmp_path):
    add(make(), key(0, None, 10))
    foreign = DeltaTable(str(tmp_path / "t"))
    foreign.alter.set_table_properties({"x.y": "1"}, raise_if_not_exists=False)
    foreign.create_checkpoint()
    for log in sorted((tmp_path / "t" / "_delta_log").glob("*.json"))[:-1]:
        log.unlink()
    with pytest.raises(LedgerError, match=r"no longer in the table's log.*adopt\(positions\)"):
        add(make(), key(1, 10, 20))
    make().adopt(at(10)[0])
    assert add(make(), key(1, 10, 20))


def test_a_table_of_before_pipelines_had_names_goes_on(make, tmp_path):
    from deltalake import CommitProperties, Transaction, write_deltalake

    mark = CommitProperties(app_transactions=[Transaction("q", 4, 0)])
    write_deltalake(str(tmp_path / "t"), ROWS, commit_properties=mark)
    assert not add(make(), key(4, 40, 50))
    assert add(make(), key(5, 50, 60))


def test_offsets_of_a_batch_come_from_the_checkpoint(tmp_path):
    (tmp_path / "offsets").mkdir()
    for number in (0, 1):
        (tmp_path / "offsets" / str(number)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{at(number * 10 + 10)[0]}')
    store = open_store(tmp_path)
    assert offsets_of(store, 1) == (at(10), at(20))
    assert offsets_of(store, 0) == (None, at(10))
    assert offsets_of(store, 2) == (at(20), None)
    (tmp_path / "initial-offsets.json").write_text(json.dumps({"offsets": json.loads(at(4)[0]), "subscription": "t"}))
    assert offsets_of(store, 0) == (at(4), at(10))
    (tmp_path / "offsets" / "3").write_text('v1\n{}\n{"a\u2028b\x85c": 1}\n{"second": 2}\n')
    assert offsets_of(store, 3)[1] == ('{"a\u2028b\x85c": 1}', '{"second": 2}'), "a line ends as Java's lines do"
    (tmp_path / "offsets" / "0").write_text("v2\n{}")
    with pytest.raises(TableError, match="version 'v2'"):
        offsets_of(store, 0)


class ConnectRows:
    """Rows in a batch function under Spark Connect, whose session knows neither a context nor its query."""

    def __init__(self) -> None:
        self.sparkSession = self.streams = self
        self.active = ()

    @property
    def sparkContext(self) -> object:
        raise AttributeError("not supported in Spark Connect")


def test_under_connect_the_checkpoint_says_which_query_calls(tmp_path):
    rows: Any = ConnectRows()  # Any: as a DataFrame of Spark Connect is, where a batch is told from others
    with pytest.raises(NoQuery, match="give checkpoint=, the query's checkpointLocation"):
        key_of(rows, 0, checkpoint=str(tmp_path))
    (tmp_path / "metadata").write_text('{"id":"q"}')
    (tmp_path / "offsets").mkdir()
    for number in (0, 1):
        (tmp_path / "offsets" / str(number)).write_text(f"v1\n{{}}\n{at(number * 10 + 10)[0]}")
    assert key_of(rows, 1, checkpoint=str(tmp_path)) == BatchKey("q", 1, at(10), at(20))


def test_a_tasks_files_are_one_for_each_partition_value(tmp_path):
    store = open_store(tmp_path)
    rows = pa.table({"day": ["1", "2", None], "n": [1, 2, 3]})
    for keep, columns in ((False, ["n"]), (True, ["day", "n"])):
        told = TaskFiles(store, f"b-{keep}", rows.schema, FileLayout(["day"], keep)).write(iter(rows.to_batches()))
        found = {partition_of(row["path"])["day"]: row for row in told.to_pylist()}
        assert sorted(found, key=str) == ["1", "2", None]
        for row in found.values():
            assert (row["rows"], row["size"]) == (1, store.size(row["path"]))
            assert pq.read_schema(store.at(row["path"])).names == columns


@pytest.mark.parametrize("keep", [False, True])
def test_numbers_that_equal_others_or_none_are_each_in_one_file_of_their_own(tmp_path, keep):
    numbers = [0.0, -0.0, math.nan, 1.5, None, math.nan, math.inf]
    rows = pa.table({"x": numbers, "name": ["a", "a", "a", "b", None, "a", None], "n": list(range(7))})
    layout = FileLayout(["x", "name"], keep)
    told = TaskFiles(open_store(tmp_path), "b", rows.schema, layout).write(iter(rows.to_batches()))
    found = [pq.ParquetFile(tmp_path / row["path"]).read(["n"])["n"].to_pylist() for row in told.to_pylist()]
    assert sorted(found) == [[0], [1], [2, 5], [3], [4], [6]]
    assert sorted(partition_of(row["path"])["x"] or "" for row in told.to_pylist()) == [
        "", "-0.0", "0.0", "1.5", "inf", "nan",
    ]  # fmt: skip


def test_a_reader_that_skips_files_by_their_bounds_finds_nan_in_them(tmp_path):
    """To DataFusion, as to Spark, NaN is greater than any number, and Arrow's bounds do not tell of it."""
    table = Table(DeltaFormat(open_store(str(tmp_path))))
    batches: list[list[float | None]] = [[1.0, math.nan], [math.nan], [2.0, None], []]
    for number, values in enumerate(batches):
        rows = pa.table(
            {
                "x": pa.array(values, pa.float64()),
                "f": pa.array(values, pa.float32()),
                "n": pa.array([number] * len(values), pa.int64()),
            }
        )
        table.format.prepare(rows.schema, evolve=False)
        told = TaskFiles(table.store, f"b{number}", rows.schema, FileLayout()).write(iter(rows.to_batches()))
        files = [DataFile(one["path"], one["size"], one["rows"], json.loads(one["stats"]), {})
                 for one in told.to_pylist()]  # fmt: skip
        table.add(files, BatchKey("q", number, at(number), at(number + 1)))
    counted = QueryBuilder().register("t", DeltaTable(tmp_path))
    for rule, rows in (("x > 5", 2), ("f > 5", 2), ("x > 1.5", 3), ("isnan(x)", 2), ("n > 5", 0)):
        found = pa.table(counted.execute(f"SELECT count(*) AS n FROM t WHERE {rule}").read_all())
        assert found["n"].to_pylist() == [rows], rule


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
    folder = tmp_path / "batch" / "day=2013-01-01" / "name=a%3Ab%2F"
    folder.mkdir(parents=True)
    pq.write_table(ROWS, folder / "p.parquet")
    pq.write_table(ROWS.slice(0, 0), folder / "empty.parquet")
    (found,) = read_footers(open_store(tmp_path), "batch")
    assert (found.rows, found.partition) == (3, {"day": "2013-01-01", "name": "a:b/"})


PART = pa.table({"carrier": ["UA", "B6"], "flights": pa.array([2, 1], pa.int64()), "delay": [4.0, 1.5]})


def test_sums_are_folded_in_once_for_each_batch(tmp_path):
    totals = Totals(tmp_path / "sums", keys=["carrier"], sums=["flights", "delay"])
    assert totals.fold(PART, BatchKey("q", 0)).rows == 2
    assert totals.fold(PART, BatchKey("q", 0)).skipped
    assert totals.fold(PART.slice(0, 1), BatchKey("q", 1)).rows == 2
    assert totals.fold(PART, BatchKey("q", 0)).skipped
    found = {row["carrier"]: (row["flights"], row["delay"]) for row in totals.read().to_pylist()}
    assert found == {"UA": (4, 8.0), "B6": (1, 1.5)}


def test_sums_of_another_checkpoint_are_refused_until_the_totals_are_adopted(tmp_path):
    def totals() -> Totals:
        return Totals(tmp_path / "sums", keys=["carrier"], sums=["flights", "delay"])

    totals().fold(PART, key(0, None, 10))
    with pytest.raises(LedgerError, match="comes from query new.*adopt"):
        totals().fold(PART, key(0, None, 10, "new"))
    with pytest.raises(LedgerError, match="leaves a gap"):
        totals().fold(PART, key(1, 15, 20))
    assert json.loads(totals().positions()) == {"t": {"0": 10}}
    totals().adopt()
    assert not totals().fold(PART, key(3, 10, 20, "new")).skipped
    assert sorted(totals().read()["flights"].to_pylist()) == [2, 4]
    totals().rewind(0)
    assert sorted(totals().read()["flights"].to_pylist()) == [1, 2]


def test_totals_and_tables_of_before_the_ledger_know_the_query_that_filled_them(make, tmp_path):
    """Their commits name query and batch, and no line: another query's batches would count again."""
    from deltalake import CommitProperties, Transaction, write_deltalake

    for name, rows in (("sums", PART), ("t", ROWS)):
        mark = CommitProperties({"moldau.query": "q", "moldau.batch": "4"}, app_transactions=[Transaction("q", 4, 0)])
        write_deltalake(str(tmp_path / name), rows, commit_properties=mark)

    def totals() -> Totals:
        return Totals(tmp_path / "sums", keys=["carrier"], sums=["flights", "delay"])

    for table, put in ((totals, Totals.fold), (make, lambda table, rows, batch: add(table, batch))):
        with pytest.raises(LedgerError, match="comes from query new.*up to its batch 4.*adopt"):
            put(table(), PART, key(0, None, 10, "new"))
        table().adopt()
        put(table(), PART, key(0, None, 10, "new"))
    assert sorted(totals().read()["flights"].to_pylist()) == [2, 4]
    assert make().count() == 6
    assert add(make(pipeline="another"), key(0, None, 10, "third"))  # a stream of its own, as it may be


@pytest.mark.parametrize("positions", ["earliest", "23", "{}", '{"t": {"0": -2}}', '{"t": 5}', "{"])
def test_adopt_takes_no_positions_from_which_no_stream_could_go_on(make, positions):
    add(make(), key(0, None, 10))
    with pytest.raises(LedgerError, match="are not where a table can end"):
        make().adopt(positions)
    assert add(make(), key(1, 10, 20))


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


def test_a_table_in_a_place_that_nothing_reaches_is_refused_by_name():
    with pytest.raises(TableError, match="nowhere://bucket/t: this folder cannot be reached"):
        Table("nowhere://bucket/t")
    assert Table("file:///x/y").store.base == "/x/y"
