"""What was changed in the books, removed from them or added to them since they were written is found."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from moldau.admin.pipeline import pipeline as commands
from moldau.model import TopicPartition
from moldau.pipeline import audit
from moldau.pipeline.books import BATCH, BookLine, Books, BookTotals, BrokenLine, Count, NotBalanced, SinkRows
from moldau.pipeline.expired import with_expired
from moldau.pipeline.folder import BrokenPipelineFile, PipelineFolder
from moldau.pipeline.reading import load
from moldau.pipeline.running import Runner
from moldau.spark.losses import Loss, LossKind, mark

QUERY = "5f1e0b7a-0000-4000-8000-000000000001"
Fields = dict[str, Any]  # Any: JSON that a test edits


def line(batch: int, *, dead: int = 0) -> BookLine:
    def at(offset: int) -> list[str]:
        return [json.dumps({"t": {"0": offset}})]

    counts = [Count("t", "ok", None, 10 - dead, "t-0@0")]
    counts += [Count("t", "dlq", "decode", dead, "t-0@1", "no JSON")] if dead else []
    return BookLine(
        sequence=-1, kind=BATCH, batch=batch, query=QUERY, at_ms=0, took_ms=1,
        start=at(10 * batch), end=at(10 * batch + 10), counts=counts, drift=[], rows_out=10 - dead, late=0,
        sinks={"tab": SinkRows(10 - dead)}, dead=dead, dead_in="dead", totals=BookTotals(),
    )  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A pipeline of four batches with its checkpoint, as a run leaves them."""
    found = tmp_path / "a.yaml"
    found.write_text(
        "pipeline: a\ncluster: 127.0.0.1:1\nfolder: state\nsource: {topics: t}\nsinks: [{table: tab}]\n"
        "decode: {format: raw}\n"
    )
    folder = PipelineFolder(load(found, {}))
    for batch in range(4):
        folder.books.add(line(batch, dead=batch % 2))
        folder.store.write(f"checkpoint/offsets/{batch}", b"v1")
        folder.store.write(f"checkpoint/commits/{batch}", b"v1")
    folder.store.write("checkpoint/metadata", json.dumps({"id": QUERY}).encode())
    folder.say("done")
    return found


def path_of(file: Path, number: int) -> Path:
    return file.parent / f"state/books/000000/{number:09d}.json"


def edit(path: Path, change: Callable[[Fields], object]) -> None:
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))


def problems(file: Path, *, whole: bool = True) -> list[str]:
    return audit.problems(PipelineFolder(load(file, {})), whole=whole)


def status(file: Path) -> tuple[int, str]:
    found = CliRunner().invoke(commands, ["status", str(file)])
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    return found.exit_code, found.output


def test_books_as_they_were_written_have_nothing_that_contradicts(file: Path) -> None:
    assert (problems(file), problems(file, whole=False)) == ([], [])
    assert status(file)[0] == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda one: one["counts"][0].update(records=11), "12 records were read, of 10 offsets"),
        (lambda one: one["counts"][0].update(records=8), "the totals of read, topics are not the sum of the lines"),
        (lambda one: one["totals"].update(read=50), "the totals of read are not the sum"),
        (lambda one: one["totals"]["dead"].update(dead=3), "the totals of dead are not the sum"),
        (lambda one: one["totals"]["sinks"].update(tab=3), "the totals of sinks are not the sum"),
        (lambda one: one.update(dead=5), "1 record is a dead letter, 5 were written"),
        (lambda one: one.update(batch=9), "batch 9 follows batch 2"),
        (lambda one: one.update(start=['{"t": {"0": 29}}']), "batch 3 does not begin where batch 2 ended"),
        (lambda one: one["counts"][0].update(outcome="lost"), "9 records of t are lost"),
    ],
)
def test_an_edited_line_is_found_by_what_its_parts_say_of_each_other(
    file: Path, change: Callable[[Fields], object], said: str
) -> None:
    edit(path_of(file, 3), change)
    for whole in (False, True):
        assert any(said in one and one.startswith("line 3") for one in problems(file, whole=whole)), problems(file)
    code, text = status(file)
    assert (code, said in text) == (4, True), text


def test_an_edited_line_in_the_middle_is_found_when_all_are_looked_at(file: Path) -> None:
    edit(path_of(file, 1), lambda one: one["totals"].update(read=21))
    assert problems(file, whole=False) == []
    assert [one.partition(":")[0] for one in problems(file)] == ["line 1 of the books", "line 2 of the books"]


def test_offsets_without_a_record_are_counted_and_are_no_contradiction(file: Path) -> None:
    lines = PipelineFolder(load(file, {})).books.newest(4)
    assert audit.gaps(lines) == 0
    edit(path_of(file, 0), lambda one: one.update(end=['{"t": {"0": 12}}']))
    assert audit.gaps(PipelineFolder(load(file, {})).books.newest(4)) == 2


OLD, NEW = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"


def batch_over(
    start: int, end: int, read: int, losses: Sequence[Loss] = (), *, ids: tuple[str, str] = (OLD, OLD)
) -> BookLine:
    """A line of a batch that read so many records between two positions, and noted these losses."""
    texts: list[Fields] = [{"t": {"0": at}, "#topicIds": {"t": id}} for at, id in zip((start, end), ids, strict=True)]
    if losses:
        texts[1]["#skipped"] = mark(losses)
    first, last = ([json.dumps(one)] for one in texts)
    return replace(line(0), start=first, end=last, counts=[Count("t", "ok", None, read, "t-0@0")], sequence=3)


PART = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("given", "gaps", "said"),
    [
        (batch_over(10, 20, 10), 0, None),
        (batch_over(10, 20, 5), 5, None),
        (batch_over(10, 30, 30, [Loss(LossKind.TOPIC_RECREATED, PART, 10, 0)], ids=(OLD, NEW)), 0, "made anew"),
        (batch_over(10, 30, 28, [Loss(LossKind.TOPIC_RECREATED, PART, 10, 2)], ids=(OLD, NEW)), 0, "made anew"),
        (batch_over(10, 30, 30, ids=(OLD, NEW)), 0, None),
        (batch_over(10, 30, 25, [Loss(LossKind.LOG_DIVERGED, PART, 10, 5)]), 0, "other records are there now"),
        (batch_over(10, 5, 0, [Loss(LossKind.LOG_WENT_BACK, PART, 10, 5)]), 0, "its end was cut off"),
        (batch_over(10, 20, 5, [Loss(LossKind.RECORDS_EXPIRED, PART, 10, 15)]), 0, "t-0: 5 offsets were lost before"),
        (batch_over(10, 20, 3, [Loss(LossKind.RECORDS_EXPIRED, PART, 10, 15)]), 2, "t-0: 5 offsets were lost before"),
        (batch_over(0, 20, 5, [Loss(LossKind.NEW_PARTITION_CUT, PART, 0, 15)]), 0, "t-0: 15 offsets were lost before"),
    ],
)
def test_what_was_lost_is_told_and_is_neither_a_gap_nor_a_contradiction(
    given: BookLine, gaps: int, said: str | None
) -> None:
    wrong = [one for one in audit.in_lines([given]) if "were read, of" in one]
    assert (wrong, audit.gaps([given])) == ([], gaps)
    assert [said in one and "line 3 of the books" in one for one in audit.lost([given])] == [True] * (said is not None)


def test_what_expired_while_a_batch_read_it_is_no_gap_of_that_batch() -> None:
    before = batch_over(0, 10, 4)
    loss = Loss(LossKind.EXPIRED_MEANWHILE, PART, 0, 6)
    after = batch_over(10, 20, 5, [loss, Loss(LossKind.RECORDS_EXPIRED, PART, 10, 15)])
    assert (audit.gaps([before]), audit.gaps([before, after])) == (6, 0)
    assert [one.split(";")[0] for one in audit.lost([before, after])] == [
        "t-0: up to 6 offsets expired while a batch read them: line 3 of the books",
        "t-0: 5 offsets were lost before they were read",
    ]


def test_what_a_batch_notes_of_itself_is_told_once_though_the_next_one_notes_it_too() -> None:
    before = with_expired(batch_over(0, 10, 4), lambda sources: dict.fromkeys(sources, 5))
    after = batch_over(10, 20, 10, [Loss(LossKind.EXPIRED_MEANWHILE, PART, 0, 6)])
    assert (audit.gaps([before]), audit.gaps([before, after])) == (1, 1)
    said = ["t-0: up to 5 offsets expired while a batch read them: line 3 of the books"]
    assert audit.lost([before]) == audit.lost([before, after]) == said


@pytest.mark.parametrize(
    ("given", "begins", "told"),
    [
        (batch_over(0, 10, 10), 5, []),
        (batch_over(0, 10, 7), 0, []),
        (batch_over(5, 10, 3), 5, []),
        (batch_over(0, 10, 7), 30, ["up to 10 offsets expired"]),
        (batch_over(0, 10, 4, [Loss(LossKind.RECORDS_EXPIRED, PART, 0, 5)]), 5, ["5 offsets were lost"]),
        (
            batch_over(0, 10, 4, [Loss(LossKind.RECORDS_EXPIRED, PART, 0, 5)]),
            6,
            ["5 offsets were lost", "up to 1 offset expired"],
        ),
        (batch_over(10, 30, 28, [Loss(LossKind.TOPIC_RECREATED, PART, 10, 0)], ids=(OLD, NEW)), 2,
         ["made anew", "up to 2 offsets expired"]),
    ],
)  # fmt: skip
def test_a_batch_that_read_fewer_records_than_offsets_says_what_may_have_expired(
    given: BookLine, begins: int, told: list[str]
) -> None:
    found = audit.lost([with_expired(given, lambda sources: dict.fromkeys(sources, begins))])
    assert len(found) == len(told)
    assert all(text in one for text, one in zip(told, found, strict=True)), found


def test_a_batch_whose_cluster_does_not_say_where_its_logs_begin_says_nothing_of_it() -> None:
    given = batch_over(0, 10, 4)
    assert with_expired(given, lambda sources: {}) == given


def test_more_records_than_a_topic_that_was_made_anew_has_offsets_are_a_contradiction() -> None:
    wrong = batch_over(10, 30, 31, ids=(OLD, NEW))
    assert any("31 records were read, of 30 offsets" in one for one in audit.in_lines([wrong]))


def test_status_says_what_was_lost_and_not_that_there_was_nothing(file: Path) -> None:
    loss = Loss(LossKind.RECORDS_EXPIRED, PART, 30, 35)
    end = [json.dumps({"t": {"0": 45}, "#skipped": mark([loss])})]
    edit(path_of(file, 3), lambda one: (one.update(end=end), one["totals"].update(end=end)))
    found = CliRunner().invoke(commands, ["status", str(file), "--verify"]).output
    assert "lost: t-0: 5 offsets were lost before they were read; the log now begins after the position" in found
    assert "held no record" not in found
    as_json = CliRunner().invoke(commands, ["status", str(file), "--verify", "-o", "json"]).stdout
    assert len(json.loads(as_json)["lost"]) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda one: one["totals"].update(read="51"), r'totals\.read is "51", not of type int'),
        (lambda one: one.update(batch=True), "batch is true, not of type int"),
        (lambda one: one.update(sinks=[]), r"sinks is \[\], not an object"),
        (lambda one: one["sinks"]["tab"].update(rows=None), r"sinks\.tab\.rows is null"),
        (lambda one: one["counts"][0].update(stage=7), "counts.stage is 7, not of type str"),
        (lambda one: one.pop("kind"), "kind"),
        (lambda one: one.update(more=1), "more is not known"),
        (lambda one: one["totals"].update(newest=["q"]), "newest is .*not 2 values"),
        (lambda one: one.update(sequence=2), "it holds line 2"),
    ],
)
def test_a_value_of_another_type_is_named_with_its_file_and_what_mends_it(
    file: Path, change: Callable[[Fields], object], said: str
) -> None:
    edit(path_of(file, 3), change)
    with pytest.raises(BrokenLine, match=said) as found:
        PipelineFolder(load(file, {})).books.last()
    assert "000000003.json" in str(found.value)
    code, text = status(file)
    assert (code, "moldau pipeline reset" in text, "Traceback" in text) == (1, True, False), text


def test_a_line_whose_predecessors_are_missing_is_no_newest_line(file: Path) -> None:
    stray = json.loads(path_of(file, 3).read_text())
    path_of(file, 7).write_text(json.dumps({**stray, "sequence": 7}))
    with pytest.raises(BrokenLine, match=r"000000004\.json is missing, and .*000000007\.json is there"):
        PipelineFolder(load(file, {})).books.last()
    path_of(file, 7).unlink()
    path_of(file, 1).unlink()
    with pytest.raises(BrokenLine, match=r"000000001\.json is missing"):
        PipelineFolder(load(file, {})).books.last()


def test_books_that_are_gone_or_end_early_contradict_the_checkpoint(file: Path) -> None:
    path_of(file, 3).unlink()
    assert problems(file) == ["the books end with batch 2, and the checkpoint has committed batch 3"]
    for number in range(3):
        path_of(file, number).unlink()
    assert problems(file) == ["the books are gone, and the checkpoint has committed batch 3"]
    code, text = status(file)
    assert (code, "the books are gone" in text) == (4, True), text


def as_spark_writes_it(file: Path) -> None:
    """Have the checkpoint's newest files be ones that Spark could read."""
    for path in (file.parent / "state/checkpoint").glob("*/*"):
        path.write_text("v1\n{}\n{}")


def test_a_run_whose_checkpoint_has_what_the_books_lack_is_refused_though_nothing_new_is_there(file: Path) -> None:
    """With another pipeline's checkpoint it ended with 0 and `done`, and `status` with 4."""
    for number in range(4):
        path_of(file, number).unlink()
    as_spark_writes_it(file)
    with pytest.raises(
        NotBalanced, match=r"the books are gone, and the checkpoint has committed batch 3: restore what"
    ):
        Runner(load(file, {}), session=lambda pipeline: pytest.fail("Spark is not asked")).run()


def test_a_checkpoint_of_another_pipeline_is_told_and_refused_though_nothing_new_is_there(file: Path) -> None:
    """What lay between the books' end and its position was left out, and `status --verify` said that all balanced."""
    as_spark_writes_it(file)
    metadata = file.parent / "state/checkpoint/metadata"
    metadata.write_text('{"id": "another"}')
    why = "the books end with batch 3 of another checkpoint than the one that is there, which has committed batch 3"
    assert problems(file) == [why]
    with pytest.raises(NotBalanced, match=why):
        Runner(load(file, {}), session=lambda pipeline: pytest.fail("Spark is not asked")).run()
    state = PipelineFolder(load(file, {})).state()
    assert state is not None
    assert (state.state, state.message.startswith(why)) == ("failed", True), "`status` says it too"
    with pytest.raises(NotBalanced, match="batch 3 of another checkpoint, and batch 4 of this one comes next"):
        PipelineFolder(load(file, {})).books.follows("another", 4)
    PipelineFolder(load(file, {})).books.follows("another", 0)  # as after a reset


def test_a_state_that_is_gone_is_not_that_of_a_new_pipeline(file: Path) -> None:
    (file.parent / "state/state.json").unlink()
    code, text = status(file)
    assert (code, text.splitlines()[0].startswith("a: unknown - ")) == (0, True), text


def test_books_that_are_a_file_are_named(file: Path) -> None:
    home = file.parent / "state/books"
    home.rename(file.parent / "elsewhere")
    home.write_text("in the way")
    with pytest.raises(BrokenLine, match="books: not a folder of books"):
        Books(PipelineFolder(load(file, {})).store).last()


def test_a_checkpoint_that_is_gone_stops_a_run_until_a_reset_says_where_to_begin(file: Path) -> None:
    folder = PipelineFolder(load(file, {}))
    (file.parent / "state/checkpoint").rename(file.parent / "aside")
    assert problems(file) == [f"{folder.checkpoint} is gone, and the books end with its batch 3"]
    with pytest.raises(BrokenPipelineFile, match=r"checkpoint is gone.*`moldau pipeline reset FILE --to POSITION`"):
        Runner(load(file, {}), session=lambda pipeline: pytest.fail("Spark is not asked")).run()
    folder.begin_at('{"t": {"0": 40}}')
    assert problems(file) == []
    folder.books.add(line(4))
    assert PipelineFolder(load(file, {})).has_lost_checkpoint(), "a batch was written after the reset"


def test_a_start_of_before_lines_were_told_is_believed(file: Path) -> None:
    (file.parent / "state/checkpoint").rename(file.parent / "aside")
    (file.parent / "state/start.json").write_text('{"start": "earliest"}')
    assert problems(file) == []
