"""What was begun: its note, plans on disk, and which names tell one folder's writing from another's."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TextIO, cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from moldau.model import TopicPartition
from moldau.pipeline.backfill import Backfills, BackfillSpans
from moldau.pipeline.batches import ForeachBatch
from moldau.pipeline.begun import BegunBatch, HalfWritten, rows_of
from moldau.pipeline.books import (
    BACKFILL,
    BATCH,
    REPLAY,
    BookLine,
    Books,
    BookTotals,
    BrokenLine,
    Count,
    SinkRows,
    TakenBack,
    waiting,
)
from moldau.pipeline.dedup import PARTS, KeptKeys
from moldau.pipeline.folder import BrokenPipelineFile, PipelineFolder
from moldau.pipeline.plans import name_of, next_number
from moldau.pipeline.positions import _sink_steps, differences, verified
from moldau.pipeline.ranges import Span
from moldau.pipeline.reading import read_text
from moldau.pipeline.replay_plans import OLD_QUERY
from moldau.pipeline.replays import ReplayFailed, Replays, places_of
from moldau.pipeline.resetting import let_in, reset
from moldau.pipeline.spec import Decode, Dedup, Pipeline, Source, TableSink, ValueFormat
from moldau.pipeline.taken_back import taken_back
from moldau.pipeline.unfinished import abandon, unfinished
from moldau.spark.tables import BatchKey, Table, TableError
from moldau.spark.tables.delta import DeltaFormat
from moldau.spark.tables.files import DataFile
from moldau.spark.tables.ledger import LedgerEntry
from moldau.spark.tables.stores import open_store
from moldau.spark.testing import MemoryCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEY = BatchKey("q", 0, ('{"t": {"0": 0}}',), ('{"t": {"0": 3}}',))
QUERY = "5f1e0b7a-0000-4000-8000-000000000001"


def pipeline_of(folder: Path, name: str = "a", *, state: str = "state") -> Pipeline:
    found = read_text(
        f"pipeline: {name}\nfolder: {folder / state}\ncluster: 127.0.0.1:1\nsource: {{topics: t}}\n"
        f"sinks: [{{table: {folder / 'orders'}}}, {{table: {folder / 'second'}}}]\ndlq: {{table: {folder / 'dead'}}}\n",
        {},
    ).pipeline
    assert found is not None
    return found


def bury(place: Path, pipeline: str, batch: str, count: int, key: BatchKey = KEY, *, stage: str = "sound") -> None:
    """Write dead letters as a batch does."""
    columns = {
        "pipeline": pipeline, "batch": batch, "topic": "t", "partition": 0, "offset": 0, "stage": stage,
        "reason": "not met", "died_at": "2026-11-26T00:00:00",
    }  # fmt: skip
    put(place, pipeline, pa.table({name: [value] * count for name, value in columns.items()}), key)


def put(place: Path, pipeline: str, rows: pa.Table, key: BatchKey = KEY) -> None:
    """Write rows as one batch of a pipeline."""
    import pyarrow.parquet as pq

    table = Table(DeltaFormat(open_store(place)), pipeline=pipeline, begins_late=True)
    table.format.prepare(rows.schema, evolve=False)
    name = f"{pipeline}-{key.query_id}-{key.batch_id}.parquet"
    pq.write_table(rows, place / name)
    stats = {"numRecords": rows.num_rows}
    table.add([DataFile(name, (place / name).stat().st_size, rows.num_rows, stats, {})], key)  # type: ignore[arg-type]


def book(folder: PipelineFolder, batch: int, *, kind: str = BATCH, query: str = QUERY) -> BookLine:
    counts = [Count("t", "ok", None, 3, "t-0@0")]
    line = BookLine(
        sequence=-1, kind=kind, batch=batch, query=query, at_ms=0, took_ms=1, start=KEY.start, end=KEY.end,
        counts=counts, drift=[], rows_out=3, late=0, sinks={"table": SinkRows(3)}, dead=0, totals=BookTotals(),
    )  # fmt: skip
    return folder.books.add(line)


def begin_checkpoint(folder: PipelineFolder) -> None:
    folder.store.write("checkpoint/metadata", json.dumps({"id": QUERY}).encode())
    folder.store.write("checkpoint/offsets/0", b"v1\n{}\n" + (KEY.end or ("",))[0].encode())


def test_a_batch_that_some_place_has_is_refused_when_it_would_come_to_other_rows(tmp_path: Path) -> None:
    folder = PipelineFolder(pipeline_of(tmp_path))
    BegunBatch(folder.store, BATCH).begin(KEY, "judged", "rows", list)
    again = BegunBatch(folder.store, BATCH)
    again.begin(KEY, "judged", "rows", lambda: ["orders"])
    with pytest.raises(HalfWritten, match=r"batch 0 .*: orders has it, and .*checks.* Undo the edit.*abandon FILE"):
        again.begin(KEY, "otherwise", "rows", lambda: ["orders"])
    with pytest.raises(HalfWritten, match=r"orders, dead have it, and decode or transform"):
        again.begin(KEY, "judged", "others", lambda: ["orders", "dead"])
    again.begin(KEY, "otherwise", "others", list)
    again.to_topic(KEY, "clean")
    with pytest.raises(HalfWritten, match="topic clean has it"):
        BegunBatch(folder.store, BATCH).begin(KEY, "judged", "rows", list)
    again.begin(KEY._replace(batch_id=1), "judged", "rows", lambda: ["orders"])


def test_records_of_a_batch_that_was_abandoned_are_marked_otherwise(tmp_path: Path) -> None:
    folder = PipelineFolder(pipeline_of(tmp_path))
    begun = BegunBatch(folder.store, BATCH)
    begun.begin(KEY, "judged", "rows", list)
    begun.to_topic(KEY, "clean")
    assert begun.marked(KEY) == KEY
    begun.abandon(KEY)
    BegunBatch(folder.store, BATCH).begin(KEY, "otherwise", "rows", lambda: ["orders"])
    assert BegunBatch(folder.store, BATCH).marked(KEY).query_id == "q+1"
    assert BegunBatch(folder.store, BATCH).marked(KEY._replace(batch_id=1)).query_id == "q"


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"number": 0, "groups": 3}', b"x"])
def test_a_plan_that_is_damaged_is_named_in_one_line(tmp_path: Path, content: bytes) -> None:
    pipeline = pipeline_of(tmp_path)
    folder = PipelineFolder(pipeline)
    for name, look in (
        ("replays", Replays(pipeline, folder).planned),
        ("backfills", Backfills(pipeline, folder).planned),
    ):
        folder.store.write(f"{name}/000000000.json", content)
        with pytest.raises(BrokenPipelineFile, match=f"{name}/000000000.json is no plan") as found:
            look()
        assert len(str(found.value).splitlines()) == 1


def test_a_plan_of_before_folders_had_a_name_for_their_replays_is_known_still(tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path)
    folder = PipelineFolder(pipeline)
    folder.store.write("replays/000000000.json", b'{"number": 0, "groups": [["0", "sound"]]}')
    (old,) = Replays(pipeline, folder).planned()
    assert (old.query, old.groups, old.waits) == (OLD_QUERY, [("0", "sound")], True)


def test_replays_of_two_folders_have_different_names_and_of_one_folder_the_same(tmp_path: Path) -> None:
    one, other = (pipeline_of(tmp_path, state=name) for name in ("one", "other"))
    names = [Replays(each, PipelineFolder(each))._query() for each in (one, one, other)]
    assert names[0] == names[1]
    assert names[0] != names[2]


def test_a_replay_is_found_in_the_books_whatever_came_after_it(tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path)
    folder = PipelineFolder(pipeline)
    folder.store.write("replays/000000000.json", b'{"number": 0, "groups": [["0", "sound"]]}')
    replays = Replays(pipeline, folder)
    (planned,) = replays.planned()
    assert replays.line_of(planned) is None
    book(folder, 0)
    written = book(folder, 0, kind=REPLAY, query=OLD_QUERY)
    book(folder, 1)
    found = replays.line_of(planned)
    assert found is not None
    assert found.sequence == written.sequence == 1
    assert unfinished(pipeline, folder) == [], "it is written: only that it is done was not said"


def test_dead_letters_of_another_pipeline_in_the_table_are_neither_listed_nor_counted(tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path)
    bury(tmp_path / "dead", "a", "0", 2)
    bury(tmp_path / "dead", "other", "0", 3)
    bury(tmp_path / "dead", "a.replay", "replay-0", 1)
    waiting = Replays(pipeline, PipelineFolder(pipeline)).waiting()
    assert sorted((one.batch, one.records) for one in waiting) == [("0", 2), ("replay-0", 1)]
    found = verified(pipeline, BookTotals(dead={str(tmp_path / "dead"): 3}))
    assert found[-1]["there"] == 3
    assert differences(found) == []


def test_a_table_of_dead_letters_that_has_none_yet_lists_none(tmp_path: Path) -> None:
    bury(tmp_path / "dead", "a", "0", 0)
    assert Replays(pipeline_of(tmp_path), PipelineFolder(pipeline_of(tmp_path))).waiting() == []


def test_dead_letters_of_books_that_begin_anew_have_other_names(tmp_path: Path) -> None:
    folder = PipelineFolder(pipeline_of(tmp_path))
    assert folder.books.tag(lambda: False) == ""
    assert Books(folder.store).tag(lambda: True) == "", "it stays as it was when the books began"
    folder.store.delete("books/id")
    tag = Books(folder.store).tag(lambda: True)
    assert len(tag) == 8
    folder.store.delete("books/id")
    book(folder, 0)
    assert Books(folder.store).tag(lambda: True) == "", "books of before this was kept go on as they were"


def half_written(tmp_path: Path) -> tuple[Pipeline, PipelineFolder]:
    """A pipeline whose first batch is in a table and in the dead letters, and nowhere else."""
    pipeline = pipeline_of(tmp_path)
    folder = PipelineFolder(pipeline)
    begin_checkpoint(folder)
    bury(tmp_path / "dead", "a", "0", 1, KEY._replace(query_id=QUERY))
    put(tmp_path / "orders", "a", pa.table({"id": [1, 2]}), KEY._replace(query_id=QUERY))
    return pipeline, folder


def test_what_has_a_batch_that_is_half_written_is_said_and_counts_for_no_fault(tmp_path: Path) -> None:
    pipeline, folder = half_written(tmp_path)
    (one,) = unfinished(pipeline, folder)
    assert one.to_text() == "batch 0 is half written: it is in orders (2 rows), dead (1 row), and not in the books"
    found = verified(pipeline, BookTotals(dead={str(tmp_path / "dead"): 0}), [one])
    assert [(each["rows"], each["there"], each["unfinished"]) for each in found] == [(0, 2, 2), (0, 0, 0), (0, 1, 1)]
    assert differences(found) == []
    book(folder, 0)
    assert unfinished(pipeline, PipelineFolder(pipeline)) == []


def test_a_batch_is_given_up_without_a_row_of_it_left_and_with_all_that_others_wrote(tmp_path: Path) -> None:
    pipeline, folder = half_written(tmp_path)
    put(tmp_path / "orders", "other", pa.table({"id": [7]}))
    write_deltalake(tmp_path / "orders", pa.table({"id": [8]}), mode="append")
    (one,) = unfinished(pipeline, folder)
    abandon(folder, one)
    assert sorted(Table(tmp_path / "orders").read()["id"].to_pylist()) == [7, 8]
    assert Table(tmp_path / "dead").read().num_rows == 0
    assert unfinished(pipeline, folder) == []
    put(tmp_path / "orders", "a", pa.table({"id": [1, 2, 3]}), KEY._replace(query_id=QUERY, batch_id=0))
    assert sorted(Table(tmp_path / "orders").read()["id"].to_pylist()) == [1, 2, 3, 7, 8]


def test_rows_that_cannot_be_told_apart_any_more_stay_and_their_cost_is_said(tmp_path: Path) -> None:
    pipeline, folder = half_written(tmp_path)
    put(tmp_path / "orders", "other", pa.table({"id": [7]}))
    DeltaTable(tmp_path / "orders").optimize.compact()
    (one,) = unfinished(pipeline, folder)
    assert one.cost()[0] == "orders: 2 rows of it stay, and may stand there twice afterwards"
    abandon(folder, one)
    assert sorted(Table(tmp_path / "orders").read()["id"].to_pylist()) == [1, 2, 7]
    last = Table(tmp_path / "orders", pipeline="a").last()
    assert last is not None
    assert last.what == "reset", "it takes the batch once more"


def test_a_replay_that_is_given_up_lets_its_dead_letters_wait_again(tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path)
    folder = PipelineFolder(pipeline)
    bury(tmp_path / "dead", "a", "0", 2)
    folder.store.write("replays/000000000.json", b'{"number": 0, "groups": [["0", "sound"]]}')
    put(tmp_path / "orders", "a.replay", pa.table({"id": [5]}), BatchKey(OLD_QUERY, 0))
    replays = Replays(pipeline, folder)
    assert replays.waiting() == []
    (one,) = unfinished(pipeline, folder)
    assert one.to_text() == "replay 0 was cut off: what it was writing is in orders (1 row)"
    abandon(folder, one)
    assert [each.records for each in replays.waiting()] == [2]
    assert Table(tmp_path / "orders").read().num_rows == 0
    assert unfinished(pipeline, folder) == []


class Failing(ForeachBatch):
    """Batches that end by an error once some places were written."""

    places: ClassVar[Sequence[Path]] = ()

    def take(self, records: DataFrame, key: BatchKey, batch: str, *, covered: BatchKey | None = None) -> BookLine:
        for place in self.places:
            if place.name == "dead":
                bury(place, "a.replay", batch, 1, key)
            else:
                put(place, "a.replay", pa.table({"id": [5]}), key)
        raise TableError("the rows do not fit table orders: they differ in id")


class Frames:
    """A session that makes data frames of rows: the rows themselves."""

    def createDataFrame(self, rows: pa.Table) -> pa.Table:
        return rows


def a_failing_replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: list[str]) -> tuple[Replays, list[str]]:
    """A replay that failed after these tables had been written, and what was said of it."""
    pipeline = replace(pipeline_of(tmp_path), decode=Decode(format=ValueFormat.TEXT))
    bury(tmp_path / "dead", "a", "0", 2)
    rows = Table(tmp_path / "dead", pipeline="a").read().drop_columns(["offset"])
    more = {"key": b"k", "value": b"v", "timestamp": 0, "headers": None}
    rows = rows.append_column("offset", pa.array([7, 9]))
    for name, value in more.items():
        rows = rows.append_column(name, pa.array([value] * 2))
    replays = Replays(pipeline, PipelineFolder(pipeline))
    monkeypatch.setattr(Replays, "_rows", lambda self: rows)
    monkeypatch.setattr("moldau.pipeline.replays.ForeachBatch", Failing)
    monkeypatch.setattr(Failing, "places", [tmp_path / name for name in written])
    spark = cast("SparkSession", Frames())
    with pytest.raises(ReplayFailed) as caught:
        replays.replay(spark, replays.waiting(), modules=None, on_line=lambda line: None)
    return replays, str(caught.value).splitlines()


@pytest.mark.parametrize("written", [[], ["dead"], ["dead", "orders"]])
def test_a_replay_that_fails_names_its_records_and_what_goes_on(
    written: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replays, (first, second) = a_failing_replay(tmp_path, monkeypatch, written)
    pipeline = replace(pipeline_of(tmp_path), decode=Decode(format=ValueFormat.TEXT))
    folder = PipelineFolder(pipeline)
    assert first == (
        "replay 0 of 2 dead letters (t-0@7 to 9) failed: the rows do not fit table orders: they differ in id"
    )
    if "orders" in written:
        assert second.startswith("What was written before is in orders (1 row), dead (1 row): mend it, and `moldau")
        assert "`moldau pipeline abandon FILE` gives the replay up" in second
        assert (replays.waiting(), len(unfinished(pipeline, folder))) == ([], 1)
    else:
        assert second == (
            "No sink has any of them, and they wait as before: mend it, then `moldau pipeline dlq replay FILE`"
        )
        assert [one.records for one in replays.waiting()] == [2]
        assert unfinished(pipeline, folder) == []
        assert Table(tmp_path / "dead").count() == 2


def test_a_replay_of_which_a_table_cannot_tell_is_not_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It said that no sink had any of it, and gave it up: its rows were written twice by the next one."""
    real, take = Table.last, Failing.take

    def last(self: Table, query: str = "") -> LedgerEntry | None:
        if self.store.uri.endswith("orders"):
            raise TableError("the store does not answer")
        return real(self, query)

    def lost(self: Failing, *arguments: Any) -> object:
        try:
            return take(self, *arguments)
        finally:
            monkeypatch.setattr(Table, "last", last)

    monkeypatch.setattr(Failing, "take", lost)
    replays, (_, second) = a_failing_replay(tmp_path, monkeypatch, ["dead", "orders"])
    assert second.startswith("What was written before is in doubt: mend it, and `moldau")
    monkeypatch.setattr(Table, "last", real)
    assert replays.waiting() == []


def test_a_replay_names_the_first_and_last_record_of_each_partition_of_a_few() -> None:
    places = [("t", 0, 3), ("t", 0, 1), ("u", 2, 5), *(("v", number, 0) for number in range(4))]
    rows = pa.Table.from_pylist([dict(zip(("topic", "partition", "offset"), one, strict=True)) for one in places])
    assert places_of(rows) == "7 dead letters (t-0@1 to 3, u-2@5, v-0@0, v-1@0, v-2@0 and 1 more partition)"
    assert places_of(rows.slice(2, 1)) == "1 dead letter (u-2@5)"


def test_a_table_that_has_replays_of_an_earlier_folder_takes_those_of_this_one(tmp_path: Path) -> None:
    pipeline = replace(pipeline_of(tmp_path), name="a.replay")
    ours = BatchKey("replay-of-this-folder", 0)
    put(tmp_path / "orders", "a.replay", pa.table({"id": [1]}), BatchKey(OLD_QUERY, 0))
    for _ in range(2):
        let_in(pipeline, PipelineFolder(pipeline), ours.query_id)
        put(tmp_path / "orders", "a.replay", pa.table({"id": [2]}), ours)
    assert sorted(Table(tmp_path / "orders").read()["id"].to_pylist()) == [1, 2], "its own batch it takes once"


def test_a_backfill_that_is_given_up_keeps_what_is_in_the_books(tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path)
    folder = PipelineFolder(pipeline)
    content = {"number": 0, "first": 0, "line": 0, "batches": [[["t", 0, 0, 2]], [["t", 0, 2, 4]]]}
    folder.store.write("backfills/000000000.json", json.dumps(content).encode())
    backfills = Backfills(pipeline, folder)
    book(folder, 0, kind="backfill", query=backfills.query())
    for batch in (0, 1):
        put(tmp_path / "orders", "a.backfill", pa.table({"id": [batch]}), BatchKey(backfills.query(), batch))
    (one,) = unfinished(pipeline, folder)
    assert (one.name, [part.place for part in one.parts]) == ("backfill 1", ["orders"])
    abandon(folder, one)
    assert Table(tmp_path / "orders").read()["id"].to_pylist() == [0]
    assert not backfills.planned()[0].waits


def test_a_folder_is_one_pipelines(tmp_path: Path) -> None:
    one, other = pipeline_of(tmp_path), pipeline_of(tmp_path, "copied")
    with PipelineFolder(one).locked():
        pass
    with (
        pytest.raises(BrokenPipelineFile, match=r"state is the folder of pipeline 'a', not of 'copied'"),
        PipelineFolder(other).locked(),
    ):
        pass
    with PipelineFolder(one).locked():
        pass


def test_a_folder_whose_owner_is_no_text_and_a_name_of_replays_that_is_none_are_named(tmp_path: Path) -> None:
    """The first was told as a byte that cannot be decoded, the second taken as it was into ledgers and marks."""
    pipeline = pipeline_of(tmp_path)
    folder = PipelineFolder(pipeline)
    for kind in ("replays", "backfills"):
        for content in (b"", b"\xff\x00", b"replay", b'{"id": 3}'):
            folder.store.write(f"{kind}/id", content)
            with pytest.raises(BrokenPipelineFile, match=f"{kind}/id is no name of {kind}; restore it"):
                name_of(folder.store, kind, kind.removesuffix("s"))
    folder.store.write("pipeline", b"\xff\x00")
    with pytest.raises(BrokenPipelineFile, match=f"{folder.store.uri} is the folder of pipeline '"):
        PipelineFolder(pipeline).refuse_other()


def test_a_plan_says_of_dead_letters_and_of_tables_that_were_reset_what_a_run_does_with_them(tmp_path: Path) -> None:
    pipeline, folder = half_written(tmp_path)
    Table(tmp_path / "orders", pipeline="a").reset()
    found = {one.what.rsplit("/", 1)[-1]: one.how for one in _sink_steps(pipeline, folder)}
    assert found == {
        "orders": "takes whatever batch comes next",
        "second": "new to this pipeline",
        "dead": "goes on after batch 0",
    }


def test_a_plan_says_of_a_table_that_was_taken_back_that_a_run_is_refused_and_where_it_would_go_on(
    tmp_path: Path,
) -> None:
    pipeline = pipeline_of(tmp_path)
    folder = PipelineFolder(pipeline)
    folder.store.write("checkpoint/offsets/0", b"")
    for batch, start, end in ((0, 0, 3), (1, 3, 6)):
        key = BatchKey(QUERY, batch, (f'{{"t": {{"0": {start}}}}}',), (f'{{"t": {{"0": {end}}}}}',))
        put(tmp_path / "orders", "a", pa.table({"id": [batch]}), key)
    folder.books.add(replace(book(folder, 0), batch=1, end=key.end))

    def how() -> str:
        return next(one.how for one in _sink_steps(pipeline, folder) if one.what.endswith("orders"))

    table = Table(tmp_path / "orders", pipeline="a")
    table.adopt()
    assert how() == 'goes on where it ends: {"t": {"0": 6}}'
    table.rewind(0)
    assert how() == (
        'was taken back, and the checkpoint goes on at {"t": {"0": 6}}: a run is refused; `moldau pipeline reset FILE '
        """--to '{"t": {"0": 3}}'` begins where it ends"""
    )
    folder.store.delete("checkpoint/offsets/0")
    assert how() == 'goes on where it ends: {"t": {"0": 3}}'


def test_who_looks_whether_a_run_is_there_keeps_none_from_beginning(tmp_path: Path) -> None:
    """A reader that holds what readers hold, for as long as it takes the run to ask for its own lock."""
    pipeline = pipeline_of(tmp_path)
    with PipelineFolder(pipeline).locked():
        assert PipelineFolder(pipeline).is_locked()
    folder, took = PipelineFolder(pipeline), list[str]()
    flock, held = fcntl.flock, (tmp_path / "state" / "alive").open()
    flock(held, fcntl.LOCK_SH)

    def let_go(file: TextIO, how: int) -> None:
        took.append(Path(file.name).name)
        if Path(file.name).name == "alive":
            held.close()
        flock(file, how)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fcntl, "flock", let_go)
        with folder.locked():
            assert took == ["lock", "alive"]


def test_a_batch_is_given_up_in_all_tables_or_in_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline, folder = half_written(tmp_path)
    real = Table.last

    def last(self: Table, query: str = "") -> LedgerEntry | None:
        if self.store.uri.endswith("orders"):
            raise OSError("the store does not answer")
        return real(self, query)

    monkeypatch.setattr(Table, "last", last)
    assert [part.place for part in unfinished(pipeline, folder)[0].parts] == ["dead"]
    with pytest.raises(OSError, match="does not answer"):
        unfinished(pipeline, folder, exactly=True)


def test_tables_of_topics_that_are_new_in_a_batch_are_known_by_its_note(tmp_path: Path) -> None:
    pipeline = replace(
        pipeline_of(tmp_path), source=Source(pattern="t.*"), sinks=(TableSink(table=str(tmp_path / "{topic}")),)
    )
    folder = PipelineFolder(pipeline)
    begin_checkpoint(folder)
    batch = KEY._replace(query_id=QUERY)
    BegunBatch(folder.store, BATCH).begin(batch, "judged", "rows", list, ["t1"])
    put(tmp_path / "t1", "a", pa.table({"id": [1]}), batch)
    (one,) = unfinished(pipeline, PipelineFolder(pipeline))
    assert [part.place for part in one.parts] == ["t1"]


def test_a_batch_that_spark_has_committed_is_never_given_up_though_the_books_lost_its_line(tmp_path: Path) -> None:
    pipeline, folder = half_written(tmp_path)
    book(folder, 0)
    line = book(folder, 1)
    put(tmp_path / "orders", "a", pa.table({"id": [3]}), BatchKey(QUERY, 1, KEY.end, ('{"t": {"0": 6}}',)))
    for batch in (0, 1):
        folder.store.write(f"checkpoint/commits/{batch}", b"v1\n{}")
    folder.store.delete(f"books/000000/{line.sequence:09d}.json")
    assert PipelineFolder(pipeline).contradictions()
    assert unfinished(pipeline, PipelineFolder(pipeline)) == []


def test_the_first_run_begins_as_the_file_says_after_a_first_backfill_was_given_up(tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path)
    folder = PipelineFolder(pipeline)
    content = {"number": 0, "first": 0, "line": 0, "batches": [[["t", 0, 0, 2]], [["t", 0, 2, 4]]]}
    folder.store.write("backfills/000000000.json", json.dumps(content).encode())
    folder.begin_at('{"t": {"0": 4}}')
    (one,) = unfinished(pipeline, folder)
    abandon(folder, one)
    assert folder.start() is None
    folder.store.write("backfills/000000001.json", json.dumps({**content, "number": 1}).encode())
    folder.begin_at('{"t": {"0": 3}}')
    (one,) = unfinished(pipeline, folder)
    abandon(folder, one)
    assert folder.start() == '{"t": {"0": 3}}', "somebody asked for that"


def test_the_number_of_a_plan_that_was_removed_is_not_given_out_again(tmp_path: Path) -> None:
    store = PipelineFolder(pipeline_of(tmp_path)).store
    assert next_number(store, "backfills") == 0
    store.write("backfills/000000004.done", b"")
    store.write("backfills/id", b"x")
    assert next_number(store, "backfills") == 5


def test_a_schema_that_was_moved_makes_no_other_batch(tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path)

    def rows(**decode: object) -> str:
        return rows_of(replace(pipeline, decode=Decode(format=ValueFormat.AVRO, **decode)), "struct<id:int>", 1)  # type: ignore[arg-type]

    assert rows(schema_file="/releases/1/o.avsc") == rows(schema_file="/releases/2/o.avsc")
    assert rows(registry="http://one:8081") == rows(registry="http://two:8081", version=3)
    assert rows(registry="http://one:8081", subject="a") != rows(registry="http://one:8081", subject="b")


def test_batches_of_a_backfill_whose_plan_was_removed_are_not_numbered_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables that have a batch of that name would take the next backfill's for it."""
    pipeline = pipeline_of(tmp_path)
    folder = PipelineFolder(pipeline)
    backfills = Backfills(pipeline, folder)
    BegunBatch(folder.store, BACKFILL).begin(BatchKey(backfills.query(), 6), "judged", "rows", list)
    monkeypatch.setattr(Backfills, "_finish", lambda self, spark, one, modules, on_line: None)
    wanted = BackfillSpans([Span(TopicPartition("t", 0), 0, 5)], [], None)
    backfills.carry_out(cast("SparkSession", None), wanted, modules=None, on_line=lambda line: None)
    assert [one.first for one in backfills.planned()] == [7]


@pytest.mark.parametrize("kind", [BATCH, REPLAY, BACKFILL])
def test_the_keys_of_a_batch_whose_process_was_killed_behind_its_line_are_remembered(kind: str, tmp_path: Path) -> None:
    """A replay is not run again then, nor a batch of the stream after a reset: the next record of a key would be
    written as well."""
    pipeline = replace(pipeline_of(tmp_path), dedup=Dedup(by=("id",)))
    folder = PipelineFolder(pipeline)
    killed, tried = KeptKeys("one", "a-query", 4, 5), KeptKeys("two", "another", 0, 6)
    folder.store.write(PARTS, json.dumps([asdict(killed), asdict(tried)]).encode())
    book(folder, 4, kind=kind, query="a-query")
    for number in range(3):
        book(folder, number)
    ForeachBatch(pipeline, None, folder.books, "", checkpoint=folder.checkpoint, store=folder.store)
    there = json.loads(folder.store.read(PARTS) or b"")
    assert there == [asdict(replace(killed, booked=True)), asdict(tried)], (
        "what is in no line counts for no other batch"
    )


class BatchesRead:
    """Stands for what writes the batches of a backfill: notes them, and is cut off by the second one, once."""

    read: ClassVar[list[object]] = []

    def __init__(self, *given: object, **named: object) -> None:
        """Nothing is written."""

    def take(self, records: object, key: BatchKey, batch: str, *, covered: BatchKey) -> None:
        self.read.append(covered.start)
        if len(self.read) == 2:
            raise KeyboardInterrupt


class NoSpark:
    """Stands for a session, whose reads nobody looks at."""

    @property
    def read(self) -> NoSpark:
        return self

    def format(self, name: str) -> NoSpark:
        return self

    def options(self, **named: str) -> NoSpark:
        return self

    def load(self) -> None:
        """No rows."""


def test_a_backfill_of_a_topic_that_was_made_anew_since_it_was_planned_reads_no_other_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its offsets name other records now, which the stream may have read, or be about to."""
    pipeline = replace(pipeline_of(tmp_path), source=Source(topics=("t",), max_records=2))
    folder, cluster = PipelineFolder(pipeline), MemoryCluster()
    cluster.create("t")
    cluster.log("t").append(*[b"old"] * 6)
    monkeypatch.setattr("moldau.spark.client_feed.open_feed", cluster.open)
    monkeypatch.setattr("moldau.pipeline.backfill.ForeachBatch", BatchesRead)
    monkeypatch.setattr("moldau.pipeline.backfill.plan_decode", lambda decode, topics: None)
    monkeypatch.setattr(BatchesRead, "read", [])
    spark, on_line = cast("SparkSession", NoSpark()), list[BookLine]().append
    backfills = Backfills(pipeline, folder)
    with pytest.raises(KeyboardInterrupt):
        backfills.carry_out(spark, backfills.wanted("earliest", "latest"), modules=None, on_line=on_line)
    cluster.delete("t")
    cluster.create("t")
    cluster.log("t").append(*[b"new"] * 6)
    before = len(BatchesRead.read)
    with pytest.raises(
        HalfWritten, match="(?s)t: .* made anew since the backfill was planned.*`moldau pipeline abandon FILE`"
    ):
        Backfills(pipeline, folder).finish(spark, modules=None, on_line=on_line)
    assert len(BatchesRead.read) == before
    (one,) = unfinished(pipeline, folder)
    abandon(folder, one)
    again = Backfills(pipeline, folder)
    again.carry_out(spark, again.wanted("earliest", "latest"), modules=None, on_line=on_line)
    assert len(BatchesRead.read) == before + 3


def test_what_was_taken_back_before_a_reset_counts_no_more(tmp_path: Path) -> None:
    """`status --verify` ended with 4 for ever: the books went on counting what had gone."""
    pipeline = pipeline_of(tmp_path)
    folder = PipelineFolder(pipeline)
    orders, dead = str(tmp_path / "orders"), str(tmp_path / "dead")

    def batch(number: int, query: str) -> None:
        """Three records, two of them rows, one a dead letter."""
        key = BatchKey(query, number, (f'{{"t": {{"0": {3 * number}}}}}',), (f'{{"t": {{"0": {3 * number + 3}}}}}',))
        put(tmp_path / "orders", "a", pa.table({"id": [1, 2]}), key)
        bury(tmp_path / "dead", "a", f"{query[:4]}-{number}", 1, key)
        counts = [Count("t", "ok", None, 2, "t-0@0"), Count("t", "dlq", "sound", 1, "t-0@2")]
        folder.books.add(
            BookLine(sequence=-1, kind=BATCH, batch=number, query=query, at_ms=0, took_ms=1, start=key.start,
                     end=key.end, counts=counts, drift=[], rows_out=2, late=0, sinks={orders: SinkRows(2)}, dead=1,
                     totals=BookTotals(), dead_in=dead)
        )  # fmt: skip

    def told() -> tuple[list[str], int]:
        last, back = folder.books.last(), folder.books.taken_back()
        assert last is not None
        return differences(verified(pipeline, last.totals, (), back)), waiting(last.totals, back)

    for number in range(3):
        batch(number, QUERY)
    assert told() == ([], 3)
    for place in (orders, dead):
        Table(place, pipeline="a").rewind(0)
    assert [text.partition(", ")[0] for text in told()[0]] == [f"{orders} holds 2 rows", f"{dead} holds 1 row"]
    assert taken_back(pipeline, folder) == TakenBack({orders: 4, dead: 2}, waiting=2)
    for _ in range(2):  # cut off after its note and called again, it notes nothing more
        reset(pipeline, folder, '{"t": {"0": 3}}', taken_back(pipeline, folder))
    assert told() == ([], 1)
    for number in (1, 2):
        batch(number, "6" + QUERY[1:])
    assert told() == ([], 3)
    Table(orders, pipeline="a").rewind(1)
    reset(pipeline, folder, '{"t": {"0": 6}}', taken_back(pipeline, folder))
    assert folder.books.taken_back() == TakenBack({orders: 6, dead: 2}, waiting=2)
    assert told() == ([], 3)
    put(tmp_path / "orders", "other", pa.table({"id": [7]}))
    assert told()[0] == [
        f"{orders} holds 5 rows, by the books 10, of which 6 were taken back before: "
        "1 more (as where another pipeline or program writes to the table, too)"
    ]


def test_rows_that_went_another_way_are_missed_after_a_reset_too(tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path)
    folder = PipelineFolder(pipeline)
    put(tmp_path / "orders", "a", pa.table({"id": [1, 2]}))
    folder.books.add(replace(book(folder, 0), batch=1, sinks={str(tmp_path / "orders"): SinkRows(3)}))
    DeltaTable(str(tmp_path / "orders")).delete("id = 1")
    assert taken_back(pipeline, folder) == TakenBack()
    reset(pipeline, folder, "earliest", taken_back(pipeline, folder))
    assert folder.books.taken_back() == TakenBack()


def test_a_note_of_what_was_taken_back_that_is_damaged_is_named(tmp_path: Path) -> None:
    folder = PipelineFolder(pipeline_of(tmp_path))
    folder.store.write("books/taken-back", b'{"rows": 3}')
    with pytest.raises(BrokenLine, match=r"books/taken-back: .*rows is 3, not an object"):
        folder.books.taken_back()
