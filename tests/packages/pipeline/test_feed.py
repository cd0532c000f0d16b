"""A table's change feed: which rows are in it, in which order, where batches are cut, and what is refused by name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from moldau.pipeline import positions
from moldau.pipeline.books import BATCH, BookLine, BookTotals, Count
from moldau.pipeline.feed.changes import ChangeFeed, FeedError, PlannedBatch, Position
from moldau.pipeline.feed.checkpoint import CheckpointedBatch, FeedCheckpoint
from moldau.pipeline.feed.open import open_feed
from moldau.pipeline.feed.planning import begin, plan
from moldau.pipeline.feed.positions import FeedLag, cost, feed_steps, first_position, goes_on, to_read
from moldau.pipeline.feed.rows import _slice
from moldau.pipeline.feed.running import next_batch
from moldau.pipeline.folder import BrokenPipelineFile, PipelineFolder
from moldau.pipeline.lint import lint
from moldau.pipeline.reading import load, read_text
from moldau.pipeline.spec import Deletes, SchemaChange, TableFeed

CDF = {"delta.enableChangeDataFeed": "true"}


def rows(*ids: int, amount: float = 1.0) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "amount": pa.array([amount] * len(ids), pa.float64())})


def read(planned: PlannedBatch, keys: tuple[str, ...] = ()) -> Iterator[dict[str, object]]:
    for part in planned.slices:
        for batch in _slice(part, planned.schema, "t", keys):
            yield from batch.to_pylist()


def batches(feed: ChangeFeed, source: TableFeed, start: str = "earliest", most: int = 1000) -> list[PlannedBatch]:
    """Every batch from a start to the newest version."""
    at, schema, found = begin(feed, start), None, []
    while (planned := plan(feed, source, at, schema, most)) is not None:
        found.append(planned)
        at, schema = planned.end, planned.schema
    return found


def told(found: list[PlannedBatch], keys: tuple[str, ...] = ()) -> list[tuple[object, ...]]:
    """Version, change and id of every row, and of replaced ones that they are."""
    return [
        (one["_version"], one["_change"], one["id"], *(["replaced"] if one["_reason"] else []))
        for planned in found for one in read(planned, keys)
    ]  # fmt: skip


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "orders"


def source(table: Path, deletes: Deletes = Deletes.REFUSE) -> TableFeed:
    return TableFeed(table=str(table), keys=("id",), deletes=deletes)


def test_appended_files_are_inserts_version_by_version_and_batches_are_cut_anywhere(table: Path) -> None:
    for first in (0, 10, 20):
        write_deltalake(table, rows(*range(first, first + 10)), mode="append")
    feed = open_feed(source(table))
    whole = told(batches(feed, source(table)))
    assert whole == [(first // 10, "insert", first) for first in range(30)]
    cut = batches(feed, source(table), most=7)
    assert [one.rows for one in cut] == [7, 3, 7, 3, 7, 3], "a version that fits no more waits for the next batch"
    assert told(cut) == whole
    offsets = [one["_offset"] for planned in cut for one in read(planned)]
    assert offsets == list(range(30))
    assert told(batches(feed, source(table), "2")) == whole[20:]
    assert told(batches(feed, source(table), "latest")) == []
    with pytest.raises(FeedError, match="versions 0 to 2 in its log, and no 7"):
        begin(feed, "7")


def test_a_snapshot_is_all_rows_and_then_what_comes(table: Path) -> None:
    write_deltalake(table, rows(*range(10)), mode="append", configuration=CDF)
    DeltaTable(table).delete("id < 5")
    feed, tombstones = open_feed(source(table)), source(table, Deletes.TOMBSTONE)
    found = batches(feed, source(table), "snapshot", most=3)
    assert sorted(int(str(id)) for _, _, id in told(found)) == [5, 6, 7, 8, 9]
    DeltaTable(table).delete("id = 9")
    planned = plan(feed, tombstones, found[-1].end, found[-1].schema, 100)
    assert planned is not None
    assert told([planned], ("id",)) == [(2, "delete", 9)]


def test_deletes_and_updates_come_from_change_files_and_a_key_that_is_written_again_is_no_tombstone(
    table: Path,
) -> None:
    write_deltalake(table, rows(1, 2, 3), configuration=CDF)
    DeltaTable(table).update(updates={"amount": "7.0"}, predicate="id = 2")
    DeltaTable(table).update(updates={"id": "30"}, predicate="id = 3")
    DeltaTable(table).delete("id = 1")
    write_deltalake(table, rows(2, 40), mode="overwrite")
    feed, asked = open_feed(source(table)), source(table, Deletes.TOMBSTONE)
    found = told(batches(feed, asked, most=1), ("id",))
    assert found[3:] == [
        (1, "delete", 2, "replaced"), (1, "update", 2),
        (2, "delete", 3), (2, "update", 30),
        (3, "delete", 1),
        *sorted(found[8:10]), (4, "insert", 2), (4, "insert", 40),
    ]  # fmt: skip
    assert sorted(found[8:10]) == [(4, "delete", 2, "replaced"), (4, "delete", 30)]
    with pytest.raises(FeedError, match=r"version 1 deletes or updates rows, .* say `deletes: tombstone`"):
        batches(feed, source(table))


def test_a_table_without_the_feed_gives_appended_rows_and_refuses_the_rest(table: Path) -> None:
    write_deltalake(table, rows(1, 2, 3))
    DeltaTable(table).delete("id = 1")
    feed = open_feed(source(table))
    with pytest.raises(FeedError, match="version 1 deletes or updates rows, and does not say which"):
        batches(feed, source(table, Deletes.TOMBSTONE))


def test_versions_that_change_no_row_are_passed_over(table: Path) -> None:
    for one in range(3):
        write_deltalake(table, rows(one), mode="append")
    DeltaTable(table).optimize.compact()
    write_deltalake(table, rows(9), mode="append")
    feed = open_feed(source(table))
    assert told(batches(feed, source(table), most=1)) == [
        (0, "insert", 0), (1, "insert", 1), (2, "insert", 2), (4, "insert", 9)
    ]  # fmt: skip


def test_partition_columns_have_their_types(table: Path) -> None:
    values = {
        "id": [1, 2], "day": [date(2026, 1, 2), None], "at": [datetime(2026, 1, 2, 3, 4, 5, 6, UTC), None],
        "price": [Decimal("-1.50"), Decimal("2.00")], "name": ["a b/c%", None], "sure": [True, False],
    }  # fmt: skip
    given = pa.table(values, schema=pa.schema([
        ("id", pa.int64()), ("day", pa.date32()), ("at", pa.timestamp("us", "UTC")), ("price", pa.decimal128(9, 2)),
        ("name", pa.string()), ("sure", pa.bool_()),
    ]))  # fmt: skip
    write_deltalake(table, given, partition_by=["day", "at", "name", "sure"])
    feed = open_feed(source(table))
    for start in ("earliest", "snapshot"):
        found = [one for planned in batches(feed, source(table), start) for one in read(planned)]
        assert sorted(({name: one[name] for name in values} for one in found), key=lambda one: str(one["id"])) == (
            given.to_pylist()
        ), start


def test_values_with_unicodes_own_ends_of_lines_are_read_like_others(table: Path) -> None:
    """The log has them as they are, in the bounds of a file and in values of partitions."""
    texts = ["next\x85line", "a line\u2028separated", "a paragraph\u2029separated", "fed\x0c", "\x1c\x1d\x1e"]
    given = pa.table({"id": list(range(5)), "name": texts, "text": texts})
    write_deltalake(table, given, partition_by=["name"])
    for start in ("earliest", "snapshot"):
        found = [one for planned in batches(open_feed(source(table)), source(table), start) for one in read(planned)]
        there = sorted(
            ({name: one[name] for name in given.schema.names} for one in found), key=lambda one: str(one["id"])
        )
        assert there == given.to_pylist(), start


def test_an_empty_text_as_a_partition_is_null_as_in_the_table(table: Path) -> None:
    write_deltalake(table, pa.table({"id": [1, 2], "name": ["", "x"]}), partition_by=["name"])
    there = {(one["id"], one["name"]) for one in DeltaTable(table).to_pyarrow_table().to_pylist()}
    assert there == {(1, None), (2, "x")}, "as Delta's protocol has it"
    for start in ("earliest", "snapshot"):
        found = [one for planned in batches(open_feed(source(table)), source(table), start) for one in read(planned)]
        assert {(one["id"], one["name"]) for one in found} == there, start


def test_another_schema_ends_the_run_or_begins_a_batch(table: Path) -> None:
    write_deltalake(table, rows(1), mode="append")
    more = rows(2).append_column("note", pa.array(["new"]))
    write_deltalake(table, more, mode="append", schema_mode="merge")
    feed = open_feed(source(table))
    with pytest.raises(FeedError, match=r"version 1 changes the columns \(column note \(string\) is new\)"):
        batches(feed, source(table))
    found = batches(feed, replace(source(table), schema_change=SchemaChange.FOLLOW))
    assert [one.schema.names for one in found] == [["id", "amount"], ["id", "amount", "note"]]
    assert [one.get("note") for planned in found for one in read(planned)] == [None, "new"]


def test_what_is_gone_is_named_with_the_way_out(table: Path) -> None:
    for one in range(4):
        write_deltalake(table, rows(one), mode="append")
    feed = open_feed(source(table))
    at = begin(feed, "1")
    DeltaTable(table).optimize.compact()
    DeltaTable(table).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    with pytest.raises(FeedError, match="version 1: the file .* is gone, the table was vacuumed"):
        plan(feed, source(table), at, None, 100)
    assert len(told(batches(feed, source(table), "snapshot"))) == 4
    DeltaTable(table).create_checkpoint()
    for one in range(3):
        (table / f"_delta_log/{one:020}.json").unlink()
    with pytest.raises(FeedError, match="version 1 is not in its log any more, which begins with version 3"):
        plan(feed, source(table), at, None, 100)
    shutil.rmtree(table)
    with pytest.raises(FeedError, match="cannot be opened as a Delta table"):
        plan(feed, source(table), at, None, 100)
    write_deltalake(table, rows(1))
    with pytest.raises(FeedError, match="is another table than the one that was read"):
        plan(feed, source(table), at, None, 100)


def test_a_table_whose_columns_are_the_pipelines_own_names_or_lack_a_key_is_refused(table: Path) -> None:
    write_deltalake(table, rows(1).append_column("_change", pa.array(["x"])))
    with pytest.raises(FeedError, match="_change are names of the pipeline's own"):
        batches(open_feed(source(table)), source(table))
    shutil.rmtree(table)
    write_deltalake(table, rows(1))
    with pytest.raises(FeedError, match="has no column idd, which `keys` names"):
        batches(open_feed(source(table)), replace(source(table), keys=("idd",)))


def iceberg(tmp_path: Path) -> tuple[TableFeed, object]:
    from pyiceberg.catalog import load_catalog

    options = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    catalog = load_catalog("here", **options)
    catalog.create_namespace_if_not_exists("shop")
    found = catalog.create_table("shop.orders", schema=rows(1).schema)
    given = {"catalog": "here", "identifier": "shop.orders", **options}
    return TableFeed(table=str(tmp_path / "orders"), format="iceberg", options=given), found


def test_iceberg_snapshots_are_read_in_order_and_what_is_no_append_is_refused(tmp_path: Path) -> None:
    asked, table = iceberg(tmp_path)
    feed = open_feed(asked)
    assert batches(feed, asked, "earliest") == []
    for first in (0, 10, 20):
        table.append(rows(*range(first, first + 10)))  # type: ignore[attr-defined]
    found = batches(feed, asked, most=7)
    assert [id for _, _, id in told(found)] == list(range(30))
    numbers = list(dict.fromkeys(version for version, _, _ in told(found)))
    assert len(numbers) == 3
    assert [id for _, _, id in told(batches(feed, asked, str(numbers[1])))] == list(range(10, 30))
    assert sorted(int(str(id)) for _, _, id in told(batches(feed, asked, "snapshot", most=4))) == list(range(30))
    with table.update_schema() as update:  # type: ignore[attr-defined]
        from pyiceberg.types import StringType

        update.add_column("note", StringType())
    table.append(rows(30).append_column("note", pa.array(["new"])))  # type: ignore[attr-defined]
    with pytest.raises(FeedError, match=r"changes the columns \(column note"):
        batches(feed, asked)
    following = replace(asked, schema_change=SchemaChange.FOLLOW)
    assert len(told(batches(feed, following))) == 31
    end = batches(feed, following)[-1].end
    table.delete("id = 3")  # type: ignore[attr-defined]
    with pytest.raises(FeedError, match=r"shop.orders: snapshot \d+ is an? (overwrite|delete), and only appended"):
        plan(feed, following, end, None, 100)
    table.manage_snapshots().rollback_to_snapshot(numbers[0]).commit()  # type: ignore[attr-defined]
    with pytest.raises(FeedError, match="is not among the parents of its current one any more"):
        plan(feed, following, end, None, 100)


def test_an_iceberg_table_that_was_made_anew_or_lost_snapshots_is_told(tmp_path: Path) -> None:
    asked, table = iceberg(tmp_path)
    for one in range(3):
        table.append(rows(one))  # type: ignore[attr-defined]
    feed = open_feed(asked)
    found = batches(feed, asked, most=1)
    table.maintenance.expire_snapshots().by_ids(  # type: ignore[attr-defined]
        [one.end.done for one in found[:2]]
    ).commit()
    with pytest.raises(FeedError, match="is not among the parents of its current one any more"):
        plan(feed, asked, found[0].start, None, 100)
    assert len(told(batches(feed, asked, "earliest"))) == 1, "what is left"
    assert len(told(batches(feed, asked, "snapshot"))) == 3
    catalog = table.catalog  # type: ignore[attr-defined]
    catalog.drop_table("shop.orders")
    with pytest.raises(FeedError, match="is no table of its catalog"):
        plan(feed, asked, found[0].end, None, 100)
    catalog.create_table("shop.orders", schema=rows(1).schema)
    with pytest.raises(FeedError, match="is another table than the one that was read"):
        plan(feed, asked, found[0].end, None, 100)


FILE = """\
pipeline: p
cluster: localhost:9092
source: {table: tables/orders, start: earliest, keys: id, deletes: tombstone, schema_change: follow, max_records: 5}
sinks:
  - {topic: changes, key: CAST(id AS STRING)}
"""


def test_a_file_with_a_table_as_its_source_is_read_and_linted(tmp_path: Path) -> None:
    found = read_text(FILE, {}, tmp_path)
    assert found.problems == []
    assert found.pipeline is not None
    assert found.pipeline.source.feed == TableFeed(
        table=str(tmp_path / "tables/orders"), keys=("id",), deletes=Deletes.TOMBSTONE,
        schema_change=SchemaChange.FOLLOW,
    )  # fmt: skip
    assert lint(found.pipeline, found) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("keys: id, ", ""), "deletes: tombstone needs 'keys'"),
        ((", key: CAST(id AS STRING)", ""), "a tombstone needs a 'key'"),
        (("start: earliest", "start: -10m"), "is not snapshot, earliest, latest or a version's number"),
        (("deletes: tombstone", "deletes: keep"), "deletes: 'keep' is not known"),
        (("start: earliest", "start: earliest, format: iceberg"), "an Iceberg table needs options.catalog"),
        (("start: earliest", "start: earliest, format: iceberg"), "deletes: tombstone is for Delta"),
        (("sinks:", "dedup: {by: id}\nsinks:"), "dedup: is for pipelines that read topics"),
        (("sinks:", "decode: {format: raw}\nsinks:"), "decode: is for pipelines that read topics"),
        (("sinks:", "publish_group: g\nsinks:"), "only positions in topics can be a group's"),
        (("sinks:", "sinks:\n  - {table: copy}"), "a table's feed goes to topics"),
        (("key: CAST", "keep: [headers], key: CAST"), "a row of a table has no headers"),
        (("table: tables/orders", "table: tables/orders, topics: x"), "'topics' is not known here"),
    ],
)
def test_what_a_table_as_source_cannot_have_is_said(change: tuple[str, str], message: str, tmp_path: Path) -> None:
    found = read_text(FILE.replace(*change), {}, tmp_path)
    assert found.draft is not None
    problems = [one.message for one in (*found.problems, *lint(found.draft, found))]
    assert any(message in one for one in problems), problems


def test_the_checkpoint_keeps_a_batch_as_it_was_noted_and_says_when_it_cannot(tmp_path: Path) -> None:
    pipeline = read_text(FILE, {}, tmp_path).pipeline
    assert pipeline is not None
    folder = PipelineFolder(pipeline)
    checkpoint = FeedCheckpoint(folder)
    assert checkpoint.newest() is None
    query = checkpoint.query()
    assert FeedCheckpoint(folder).query() == query
    noted = CheckpointedBatch(0, Position("t", done=3), Position("t", at=4, row=2, rows=2), rows(1).schema)
    assert checkpoint.add(noted)
    assert not checkpoint.add(noted)
    assert checkpoint.newest() == noted
    folder.store.write("checkpoint/offsets/1", json.dumps({"start": "{}"}).encode())
    with pytest.raises(BrokenPipelineFile, match="does not say what a batch covers"):
        checkpoint.newest()


def test_a_reset_of_a_feed_says_what_stands_twice_and_what_is_left_out() -> None:
    at = Position("id", done=5, rows=40)
    stay = ": 40 rows that were written stay"
    twice = f"{stay}, and what is read again of them stands in the topics twice"
    assert cost(at, Position("id", at=7, whole=True)) == twice
    assert cost(at, Position("id")) == twice
    assert cost(at, Position("id", done=8)) == f"{stay}, 3 versions would be left out"
    assert cost(at, Position("another")) == stay


def test_the_plan_of_a_feed_says_why_a_run_would_be_refused(tmp_path: Path) -> None:
    """A table that a pipeline without steps filled has the columns `_topic`, ...: the plan said nothing of it."""
    write_deltalake(tmp_path / "orders", rows(1).append_column("_topic", pa.array(["t"])))
    (tmp_path / "a.yaml").write_text(
        "pipeline: a\nsource: {table: orders, start: earliest}\nsinks: [{topic: out}]\ncluster: 127.0.0.1:1\n"
    )
    pipeline = load(tmp_path / "a.yaml", {})
    (told,) = [one.how for one in feed_steps(pipeline, PipelineFolder(pipeline)) if "refused" in one.how]
    assert "_topic are names of the pipeline's own" in told
    assert "(`_topic AS topic` in the SQL of a pipeline)" in told


def test_the_plan_of_a_feed_whose_checkpoint_is_lost_says_that_a_run_is_refused(tmp_path: Path) -> None:
    """It said that a new one begins at the pipeline's start."""
    write_deltalake(tmp_path / "orders", rows(1))
    (tmp_path / "a.yaml").write_text(
        "pipeline: a\nsource: {table: orders, start: earliest}\nsinks: [{topic: out}]\ncluster: 127.0.0.1:1\n"
    )
    pipeline = load(tmp_path / "a.yaml", {})
    folder = PipelineFolder(pipeline)
    end = Position("id", done=0, rows=1).to_json()
    folder.books.add(
        BookLine(sequence=-1, kind=BATCH, batch=0, query="q", at_ms=0, took_ms=1, start=(), end=(end,),
             counts=[Count("orders", "ok", None, 1, "orders-0@0")], drift=[], rows_out=1, late=0, sinks={}, dead=0,
             totals=BookTotals())
    )  # fmt: skip
    (told,) = [one.how for one in positions.plan(pipeline, folder) if one.what == "checkpoint"]
    assert told.endswith("is gone, and the books end with its batch 0: a run is refused")


def test_the_plan_of_a_feed_says_what_is_left_and_behind_what_it_goes_on() -> None:
    def left(lag: int, *, whole: bool = False) -> str:
        return to_read(FeedLag("t", None, 7, lag), whole=whole)

    assert left(0) == "nothing to read: version 7 is the newest"
    assert (left(1), left(2)) == ("1 version to read, up to version 7", "2 versions to read, up to version 7")
    assert left(1, whole=True) == "the table to read, as it is in version 7"
    assert left(2, whole=True) == "the table to read, as it was, then 1 version, up to version 7"
    assert goes_on(Position("t", done=3)) == "after version 3"
    assert goes_on(Position("t", done=-1)) == "before the first version"
    assert goes_on(Position("t", done=3, at=4, row=1)) == "after row 1 of version 4"
    assert goes_on(Position("t", at=4, row=20, whole=True)) == ("after row 20 of the table as it was in version 4")


def test_of_a_table_of_snapshots_a_reset_counts_along_the_line_of_parents_not_by_their_ids() -> None:
    line = [90, 10, 70, 30]
    at, stay = Position("id", done=70, rows=40), ": 40 rows that were written stay"
    twice = f"{stay}, and what is read again of them stands in the topics twice"
    assert cost(at, Position("id", done=30), line) == f"{stay}, 1 version would be left out"
    assert cost(at, Position("id", done=-30), line) == f"{stay}, 0 versions would be left out"
    assert cost(at, Position("id", done=-70), line) == twice
    assert cost(at, Position("id", done=-90), line) == twice
    assert cost(at, Position("id", at=30, whole=True), line) == twice
    assert "is not known" in cost(Position("id", done=5, rows=40), Position("id", done=30), line)
    assert cost(Position("id", done=5, rows=40), Position("id", at=30, whole=True), line) == twice


def test_latest_is_the_version_of_the_first_run_and_what_comes_before_the_second_is_read(
    table: Path, tmp_path: Path
) -> None:
    file = FILE.replace("start: earliest", "start: latest").replace("tables/orders", str(table))
    pipeline = read_text(file, {}, tmp_path).pipeline
    assert pipeline is not None
    assert pipeline.source.feed is not None
    folder = PipelineFolder(pipeline)
    write_deltalake(table, rows(1), mode="append")
    feed = open_feed(pipeline.source.feed)
    assert next_batch(pipeline, folder, feed, None) is None, "there is nothing after the newest version"
    write_deltalake(table, rows(2), mode="append")
    planned = next_batch(pipeline, folder, feed, None)
    assert planned is not None, "a run that ended before its first batch began at a version, and not at each run's"
    assert told([planned]) == [(1, "insert", 2)]
    assert first_position(pipeline, folder, feed).done == 0
    earliest = replace(pipeline, source=replace(pipeline.source, start="earliest"))
    assert first_position(earliest, folder, feed).done is None, "the file was edited"
    assert folder.set_checkpoint_aside() is not None
    assert next_batch(pipeline, folder, feed, None) is None


def test_keys_and_own_names_are_found_whatever_their_case(table: Path) -> None:
    write_deltalake(table, rows(1, 2), configuration=CDF)
    DeltaTable(table).delete("id = 1")
    asked = replace(source(table, Deletes.TOMBSTONE), keys=("ID",))
    found = batches(open_feed(asked), asked)
    assert told(found, ("ID",)) == [(0, "insert", 1), (0, "insert", 2), (1, "delete", 1)]
    shutil.rmtree(table)
    write_deltalake(table, rows(1).append_column("_Offset", pa.array(["x"])))
    with pytest.raises(FeedError, match="_Offset are names of the pipeline's own"):
        batches(open_feed(source(table)), source(table))


def test_columns_that_differ_in_case_only_are_named_before_spark_confuses_them(tmp_path: Path) -> None:
    asked, _ = iceberg(tmp_path)
    from pyiceberg.catalog import load_catalog

    options = {name: value for name, value in asked.options.items() if name not in ("catalog", "identifier")}
    both = rows(1).append_column("ID", pa.array([7], pa.int64()))
    made = load_catalog("here", **options).create_table("shop.both", schema=both.schema)
    made.append(both)
    asked = replace(asked, options={**asked.options, "identifier": "shop.both"})
    with pytest.raises(FeedError, match="columns id and ID differ in case only"):
        batches(open_feed(asked), asked)
