"""A pipeline maintains its tables between two batches: when each is due, what a restart and a failure change, and that
nothing of it costs a batch. Tables are real ones of Delta and of Parquet; no JVM is needed."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from moldau.admin.pipeline_status import draw_status
from moldau.pipeline import source_options
from moldau.pipeline.books import BATCH, BookLine, BookTotals, Count, SinkRows
from moldau.pipeline.folder import PipelineFolder
from moldau.pipeline.maintained import BATCHES_MOST, FILE, Maintained, is_due, maintained, plans
from moldau.pipeline.maintaining import BEGUN, Maintaining
from moldau.pipeline.page import page, shown_of
from moldau.pipeline.reading import read_text
from moldau.pipeline.sinks import open_table
from moldau.pipeline.spec import Maintain, Pipeline, TableSink
from moldau.spark.tables import BatchKey, Table, TableError
from moldau.spark.tables.delta import DeltaFormat
from moldau.spark.tables.files import folder_of, read_footers

HOUR_MS = 3_600_000
ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture(autouse=True)
def nobody_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster whose lag a status asks for is not there."""
    monkeypatch.setattr(source_options, "PATIENT_MS", 100)


def pipeline_of(folder: Path, sinks: str = "{table: orders}", more: str = "", *, topics: str = "t") -> Pipeline:
    text = f"pipeline: a\ncluster: 127.0.0.1:1\nsource: {{topics: [{topics}]}}\nsinks: [{sinks}]\n{more}"
    found = read_text(text, {}, folder)
    assert found.pipeline is not None, found.problems
    return found.pipeline


def key(batch: int) -> BatchKey:
    start, end = (json.dumps({"t": {"0": at * 3}}) for at in (batch, batch + 1))
    return BatchKey("q", batch, (start,) if batch else None, (end,))


class Stream:
    """Takes batches of three rows as a run does, with the time of a clock that the test moves."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline, self.folder, self.now_ms, self.said = (
            pipeline,
            PipelineFolder(pipeline),
            1_000 * HOUR_MS,
            list[str](),
        )
        self.failing: Sequence[str] = ()
        self.opened: list[str] = []
        self.begin()

    def begin(self) -> None:
        """A new process."""
        self.maintaining = Maintaining(
            self.pipeline, self.folder, say=self.said.append, now_ms=lambda: self.now_ms, open_one=self._open
        )

    def _open(self, sink: TableSink, name: str) -> Table:
        self.opened.append(Path(sink.table).name)
        if Path(sink.table).name in self.failing:
            raise TableError("the catalog gave no answer")
        return open_table(sink, name)

    def take(self, *, hours: float = 0, batches: int = 1) -> None:
        """Write so many batches to every table, and look after each."""
        for _ in range(batches):
            self.now_ms += round(hours * HOUR_MS)
            line = self.folder.books.last()
            number = 0 if line is None else line.batch + 1
            names = [Path(sink.table) for sink in self.pipeline.sinks if isinstance(sink, TableSink)]
            if self.pipeline.dead_letters.table is not None:
                names.append(Path(self.pipeline.dead_letters.table))
            for name in names:
                self.write(Path(str(name).replace("{topic}", "t")), number)
            self.folder.books.add(line_of(number, [str(one) for one in names]), None)
            self.maintaining.look()

    def write(self, place: Path, number: int) -> None:
        sinks = [sink for sink in self.pipeline.sinks if isinstance(sink, TableSink) and sink.table == str(place)]
        table = open_table(sinks[0] if sinks else TableSink(table=str(place)), "a")
        table.format.prepare(ROWS.schema, evolve=False)
        folder = f"batch-{number}"
        (place / folder).mkdir()
        pq.write_table(ROWS, place / folder / "part-0.parquet")
        table.add(read_footers(table.store, folder), key(number))

    def state(self, table: str = "orders") -> Maintained:
        (found,) = [one for name, one in maintained(self.folder.store).items() if Path(name).name == table]
        return found


def line_of(number: int, names: Sequence[str]) -> BookLine:
    return BookLine(
        sequence=-1, kind=BATCH, batch=number, query="q", at_ms=0, took_ms=1, start=key(number).start,
        end=key(number).end, counts=[Count("t", "ok", None, 3, "t-0@0")], drift=[], rows_out=3, late=0,
        sinks={name: SinkRows(3) for name in names if not name.endswith("dead")}, dead=0, totals=BookTotals(),
    )  # fmt: skip


def files(place: Path) -> int:
    return len(DeltaTable(str(place)).file_uris())


# --- when it is due


def test_the_clock_begins_with_the_first_batch_and_goes_on_from_the_last_maintenance() -> None:
    day = Maintain()
    new = Maintained(since_ms=HOUR_MS)
    assert not is_due(new, day, 25 * HOUR_MS - 1, 0)
    assert is_due(new, day, 25 * HOUR_MS, 0)
    done = Maintained(since_ms=HOUR_MS, at_ms=25 * HOUR_MS)
    assert not is_due(done, day, 49 * HOUR_MS - 1, 0)
    assert is_due(done, day, 49 * HOUR_MS, 0)


@pytest.mark.parametrize(("every", "again_ms"), [("24h", 144 * 60_000), ("5m", 60_000)])
def test_what_failed_is_tried_again_after_a_tenth_of_the_time_or_a_minute(every: str, again_ms: int) -> None:
    failed = Maintained(since_ms=0, at_ms=0, failed_ms=1000 * HOUR_MS, failure="no space")
    assert not is_due(failed, Maintain(every=every), 1000 * HOUR_MS + again_ms - 1, 0)
    assert is_due(failed, Maintain(every=every), 1000 * HOUR_MS + again_ms, 0)


def test_many_batches_make_a_table_due_before_its_time_unless_the_last_try_failed() -> None:
    done = Maintained(since_ms=0, at_ms=HOUR_MS, line=7)
    assert not is_due(done, Maintain(), HOUR_MS + 1, 6 + BATCHES_MOST)
    assert is_due(done, Maintain(), HOUR_MS + 1, 7 + BATCHES_MOST)
    failed = Maintained(since_ms=0, at_ms=HOUR_MS, line=7, failed_ms=2 * HOUR_MS, failure="no space")
    assert not is_due(failed, Maintain(), 2 * HOUR_MS + 1, 7 + BATCHES_MOST)


def test_a_clock_that_was_set_back_does_not_put_it_off_for_years() -> None:
    assert is_due(Maintained(since_ms=0, at_ms=9000 * HOUR_MS), Maintain(), 8000 * HOUR_MS, 0)


@pytest.mark.parametrize("failing", [False, True])
def test_a_clock_that_was_ahead_when_it_began_does_not_make_a_table_due_with_each_batch(
    tmp_path: Path, failing: bool
) -> None:
    run = Stream(pipeline_of(tmp_path))
    run.now_ms = 9000 * HOUR_MS
    run.take()
    run.take(hours=24)  # and was maintained then
    run.opened.clear()
    run.now_ms = 1000 * HOUR_MS
    run.failing = ("orders",) if failing else ()
    run.take(hours=1, batches=3)
    assert run.opened == (["orders"] * 1)
    assert run.state().since_ms <= run.now_ms


# --- with tables


def test_small_files_are_merged_when_the_time_has_come_and_the_stream_goes_on(tmp_path: Path) -> None:
    run = Stream(pipeline_of(tmp_path, more="dlq: {table: dead}"))
    run.take(hours=6, batches=5)  # the clock began with the first
    assert (files(tmp_path / "orders"), files(tmp_path / "dead")) == (1, 1)
    assert run.state().did == {"merged": 5, "into": 1, "removed": 0}
    assert "5 files merged into 1, 0 removed" in run.said[0]
    run.take(hours=6, batches=3)
    assert files(tmp_path / "orders") == 4
    run.take(hours=6)
    assert files(tmp_path / "orders") == 1
    assert open_table(TableSink(table=str(tmp_path / "orders")), "a").count() == 27
    assert len(run.said) == 4


def test_every_so_many_batches_are_merged_though_they_came_fast(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moldau.pipeline.maintained.BATCHES_MOST", 4)
    run = Stream(pipeline_of(tmp_path))
    run.take(batches=3)
    run.begin()
    run.take(batches=2)
    assert (files(tmp_path / "orders"), run.state().did["merged"]) == (1, 5)
    run.take(batches=3)
    assert files(tmp_path / "orders") == 4
    run.take()
    assert (files(tmp_path / "orders"), run.state().did["merged"]) == (1, 5)


def test_a_restart_does_not_begin_the_clock_anew(tmp_path: Path) -> None:
    run = Stream(pipeline_of(tmp_path))
    for _ in range(4):
        run.take(hours=6)
        run.begin()
    assert not run.said
    run.now_ms += 6 * HOUR_MS
    run.maintaining.look()  # at the end of `run --once`, without a batch
    assert files(tmp_path / "orders") == 1


def test_a_pipeline_that_took_no_batch_yet_has_no_clock(tmp_path: Path) -> None:
    run = Stream(pipeline_of(tmp_path))
    run.maintaining.look()
    assert maintained(run.folder.store) == {}
    assert not run.opened


def test_a_table_whose_maintenance_is_off_is_left_alone(tmp_path: Path) -> None:
    run = Stream(pipeline_of(tmp_path, "{table: orders, maintain: off}, {table: others, maintain: {every: 1h}}"))
    run.take(hours=2, batches=3)
    assert files(tmp_path / "orders") == 3
    assert set(run.opened) == {"others"}
    assert [Path(name).name for name in maintained(run.folder.store)] == ["others"]


def test_each_table_has_a_clock_of_its_own_and_each_topic_a_table(tmp_path: Path) -> None:
    sinks = '{table: "{topic}", maintain: {every: 1h}}, {table: others, maintain: {every: 4h}}'
    run = Stream(pipeline_of(tmp_path, sinks, topics="t, silent"))
    run.take(hours=1, batches=3)
    assert run.opened.count("t") == 2
    assert run.opened.count("others") == 0
    assert files(tmp_path / "t") == 1
    assert not (tmp_path / "silent").exists()  # nothing was read of it: it is looked for, and not made
    assert run.state("silent").at_ms is None


def test_a_parquet_table_with_a_manifest_is_maintained_too(tmp_path: Path) -> None:
    run = Stream(pipeline_of(tmp_path, "{table: orders, format: parquet, maintain: {every: 2h}}"))
    run.take(hours=1, batches=3)
    assert run.state().did == {"merged": 3, "into": 1, "removed": 0}


def test_of_an_iceberg_table_snapshots_expire(tmp_path: Path) -> None:
    options = f"{{catalog: c, type: sql, uri: 'sqlite:///{tmp_path}/catalog.db'}}"
    sink = f"{{table: orders, format: iceberg, maintain: {{every: 2h}}, options: {options}}}"
    run = Stream(pipeline_of(tmp_path, sink))
    run.take(hours=1, batches=3)
    assert run.state().did == {"merged": 0, "into": 0, "removed": 0, "expired": 0}
    assert "orders was maintained: 0 snapshots expired, in " in run.said[0]
    run.take(hours=1)


def test_what_is_older_than_the_retention_is_removed_and_what_is_younger_can_be_gone_back_to(tmp_path: Path) -> None:
    run = Stream(pipeline_of(tmp_path, "{table: orders, maintain: {every: 2h}}"))
    run.take(hours=1, batches=3)
    table = open_table(TableSink(table=str(tmp_path / "orders")), "a")
    under_way, cut_off = folder_of(8), folder_of(9)  # of batches that belong to no version
    for name, age_s in ((under_way, 3500), (cut_off, 169 * 3600)):
        table.store.write(f"{name}/part-0.parquet", b"rows")
        at = time.time() - age_s
        os.utime(tmp_path / "orders" / name / "part-0.parquet", (at, at))
    run.take(hours=2)
    assert run.state().did == {"merged": 2, "into": 1, "removed": 1}
    assert not (tmp_path / "orders" / cut_off).exists()
    assert len([*(tmp_path / "orders").glob("batch-*/*.parquet")]) == 5
    assert json.loads(table.rewind(1)) == {"t": {"0": 6}}
    assert table.count() == 6


# --- failures


def test_a_failure_is_told_with_its_table_and_cause_and_the_other_tables_are_maintained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Stream(pipeline_of(tmp_path, "{table: orders}, {table: others}"))
    run.failing = ("orders",)
    run.take(hours=12, batches=3)
    assert files(tmp_path / "orders") == 3
    assert files(tmp_path / "others") == 1
    assert run.said[0].endswith("orders was not maintained: the catalog gave no answer. It is tried again in 2.4 h")
    assert run.state().failure == "the catalog gave no answer"
    draw_status(run.pipeline, run.folder, "text", verify=False)
    shown = capsys.readouterr().out
    assert "orders: not maintained at 1970-02-13T04:00:00Z: the catalog gave no answer\n" in shown
    assert "others: maintained at 1970-02-13T04:00:00Z: 3 files merged into 1, 0 removed, in " in shown
    assert "the catalog gave no answer" in page(shown_of(run.pipeline, run.folder), run.now_ms)
    run.opened.clear()
    run.take(hours=1, batches=2)
    assert not run.opened
    run.failing = ()
    run.begin()
    run.take(hours=0.4)
    assert run.opened == ["orders"]
    assert (files(tmp_path / "orders"), run.state().failure) == (1, "")


class Died(BaseException):
    """What ends a process where it stands, and a panic of delta-rs, are no Exception."""


@pytest.mark.parametrize("step", ["compact", "vacuum", "create_checkpoint", "cleanup_metadata"])
def test_a_pipeline_goes_on_after_a_maintenance_that_was_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    run = Stream(pipeline_of(tmp_path))
    run.take(hours=6, batches=4)

    def cut(*arguments: object, **named: object) -> Mapping[str, object]:
        raise Died(step)

    def cut_off(
        self: DeltaFormat, *, target_bytes: int, retention_hours: int, **named: Any
    ) -> object:  # Any: as the format takes it
        with monkeypatch.context() as inner:
            where = "deltalake.table.TableOptimizer" if step == "compact" else "deltalake.DeltaTable"
            inner.setattr(f"{where}.{step}", cut)
            return whole(self, target_bytes=target_bytes, retention_hours=retention_hours, **named)

    whole = DeltaFormat.maintain
    with monkeypatch.context() as patched:
        patched.setattr(DeltaFormat, "maintain", cut_off)
        run.take(hours=6)
    assert run.state().failure == step
    run.begin()
    run.take(hours=6, batches=2)
    assert files(tmp_path / "orders") <= 2  # merged at the first of the two
    assert run.state().failure == ""
    table = open_table(TableSink(table=str(tmp_path / "orders")), "a")
    assert (table.count(), table.held().rows, table.held().damaged) == (21, 21, [])
    last = run.folder.books.last()
    assert last is not None
    assert last.totals.rows_out == 21


def test_a_process_that_maintenance_kills_takes_batches_before_it_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Stream(pipeline_of(tmp_path))
    run.take()

    def killed(self: DeltaFormat, **named: object) -> None:
        raise SystemExit(137)

    with monkeypatch.context() as patched:
        patched.setattr(DeltaFormat, "maintain", killed)
        with pytest.raises(SystemExit):
            run.take(hours=24)
    run.begin()
    run.take(hours=1, batches=2)
    assert run.state().failure == BEGUN
    assert run.opened == ["orders"]
    run.take(hours=0.4)
    assert (run.state().failure, files(tmp_path / "orders")) == ("", 1)


def test_what_is_unfinished_keeps_its_files_until_it_is_finished_or_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Stream(pipeline_of(tmp_path))
    monkeypatch.setattr("moldau.pipeline.maintaining.unfinished", lambda *_: [Replay()])
    run.take(hours=24, batches=2)
    assert files(tmp_path / "orders") == 2
    assert "replay 0 was cut off" in run.state().failure


class Replay:
    def to_text(self) -> str:
        return "replay 0 was cut off"


def test_a_table_in_another_one_loses_no_file(tmp_path: Path) -> None:
    run = Stream(pipeline_of(tmp_path, "{table: orders}, {table: orders/inner}"))
    run.take(hours=24, batches=2)
    assert files(tmp_path / "orders" / "inner") == 1
    assert files(tmp_path / "orders") == 2
    assert run.state().failure == (
        "table inner lies in it, and would lose its files: move one of them, or say `maintain: off`"
    )


def test_a_file_that_cannot_be_read_begins_the_clock_anew_and_says_so(tmp_path: Path) -> None:
    run = Stream(pipeline_of(tmp_path))
    run.take(hours=6, batches=2)
    run.folder.store.replace(FILE, b'{"tables": 7}')
    run.begin()
    run.take(hours=100)
    assert "the clock of each table begins anew" in run.said[0]
    assert run.state().since_ms == run.now_ms


def test_a_disk_that_is_full_for_a_merge_is_rid_of_what_is_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, kind in enumerate(("delta", "parquet")):
        run = Stream(pipeline_of(tmp_path / kind, f"{{table: orders, format: {kind}}}"))
        run.take(batches=2)
        table = open_table(TableSink(table=str(tmp_path / kind / "orders"), format=kind), "a")
        left = f"{folder_of(number)}/part-0.parquet"
        table.store.write(left, b"rows")
        os.utime(tmp_path / kind / "orders" / left, (1, 1))
        with monkeypatch.context() as patched:
            patched.setattr("deltalake.table.TableOptimizer.compact", _full)
            patched.setattr("moldau.spark.tables.manifest.ParquetFormat._merge", _full)
            run.take(hours=24)
        assert "No space left on device" in run.state().failure
        assert table.store.size(left) is None
        assert table.count() == 9


def _full(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_folder_that_is_full_costs_no_batch_and_no_second_maintenance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Stream(pipeline_of(tmp_path))
    run.take()

    def full(name: str, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run.folder.store, "replace", full)
    run.take(hours=24)
    run.take(hours=1)
    assert run.opened == ["orders"]
    assert "could not be written down: [Errno 28] No space left on device" in run.said[0]


@pytest.mark.parametrize(
    "text",
    [b"", b"\xff", b"[" * 100_000, b'{"tables": {"orders": {"since_ms": 0, "at_ms": 1' + b"0" * 40 + b"}}}", None],
)
def test_status_is_shown_whatever_the_file_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: bytes | None
) -> None:
    run = Stream(pipeline_of(tmp_path))
    run.take()
    file = Path(run.folder.store.uri) / FILE
    file.unlink()
    if text is None:
        file.mkdir()
    else:
        file.write_bytes(text.replace(b'"orders"', json.dumps(str(tmp_path / "orders")).encode()))
    draw_status(run.pipeline, run.folder, "text", verify=False)
    shown = capsys.readouterr().out
    assert "3 read" in shown
    assert ("maintained.json does not say when" in shown) or ("maintained at 1000" in shown)
    page(shown_of(run.pipeline, run.folder), run.now_ms)
    run.begin()
    run.take()


def test_the_ledger_keeps_the_last_lines_of_replays_and_backfills_too(tmp_path: Path) -> None:
    run = Stream(pipeline_of(tmp_path, "{table: orders, maintain: {every: 1h}}"))
    run.take()
    table = open_table(TableSink(table=str(tmp_path / "orders")), "a.replay")
    table.add([], BatchKey("r", 0, None, None))
    before = len([one for one in DeltaTable(str(tmp_path / "orders")).history() if "moldau.ledger" in one])
    run.take(hours=2)
    history = DeltaTable(str(tmp_path / "orders")).history()
    assert len([one for one in history if "moldau.ledger" in one]) == before + 3  # a batch, and both lines once more
    assert table.last_batch("r") == 0


# --- what the file says


def test_a_file_says_how_a_table_is_maintained(tmp_path: Path) -> None:
    sinks = "{table: orders}, {table: b, maintain: {every: 1h, target: 64m, retention: 2d}}, {table: c, maintain: off}"
    pipeline = pipeline_of(tmp_path, sinks, "dlq: {table: dead}")
    assert [sink.maintain for sink in pipeline.sinks if isinstance(sink, TableSink)] == [
        Maintain(), Maintain(every="1h", target="64m", retention="2d"), None,
    ]  # fmt: skip
    assert [how for _, how in plans(pipeline)] == [
        "every 24h, or after 1,000 batches, small files into files of 128m; what was replaced is kept for 168h",
        "every 1h, or after 1,000 batches, small files into files of 64m; what was replaced is kept for 2d",
        "not by this pipeline",
        "every 24h, or after 1,000 batches, small files into files of 128m; what was replaced is kept for 168h",
    ]


@pytest.mark.parametrize(
    ("maintain", "said"),
    [
        ("{evry: 1h}", "1:67 'evry' is not known here. Did you mean 'every'?"),
        ("{every: often}", "1:74 maintain: every: 'often' is not a duration: 500ms, 10s, 5m, 1h, 1d"),
        ("{every: 0s}", "1:74 maintain: every: '0s' is no time at all"),
        ("{target: large}", "1:75 maintain: target: 'large' is not a size: 1048576, 512k, 64m, 1g"),
        ("{retention: 59m}", "1:78 maintain: retention: '59m' is not from 1h, as long as a batch may last, to 30d"),
        ("{retention: 31d}", "1:78 maintain: retention: '31d' is not from 1h, as long as a batch may last, to 30d"),
        ("{target: 8589934592g}", "1:75 maintain: target: '8589934592g' is larger than a file can be"),
        ("never", "1:66 maintain is off, or a mapping of 'every', 'target' and 'retention'"),
    ],
)
def test_a_wrong_maintenance_is_named_with_its_place(maintain: str, said: str) -> None:
    found = read_text(f"{{pipeline: a, source: {{topics: t}}, sinks: [{{table: /t, maintain: {maintain}}}]}}", {})
    (problem,) = found.problems
    assert f"{problem.place} {problem.message}".startswith(said)
