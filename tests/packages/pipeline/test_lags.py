"""How far a pipeline is behind, where its topics are not what they were when it read them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from moldau.admin.pipeline import pipeline as commands
from moldau.model import TopicPartition
from moldau.pipeline import positions
from moldau.pipeline.backfill import Backfills
from moldau.pipeline.beginning import begins_at
from moldau.pipeline.books import BATCH, BookLine, BookTotals, Count
from moldau.pipeline.folder import PipelineFolder
from moldau.pipeline.reading import load
from moldau.spark.losses import LossKind
from moldau.spark.offsets import Positions
from moldau.spark.planner import Planner
from moldau.spark.start import EARLIEST, Start

OLD, NEW = b"o" * 16, b"n" * 16
SOURCE = TopicPartition("t", 0)


class Asked(Planner):
    """A planner that knows one partition: the id of its topic, where its log begins, and where it ends."""

    def __init__(self, id: bytes, start: int, end: int, to: int | None = None) -> None:
        self._id, self._start, self._end, self._to = id, start, end, start if to is None else to
        self.line = self  # type: ignore[assignment]  # only closed here

    def close(self) -> None:
        """Nothing is open."""

    def existing(self) -> Positions:
        return Positions({SOURCE: 0}, {"t": self._id})

    def edge(self, which: int, there: Positions) -> Positions:
        return Positions({SOURCE: self._start if which == EARLIEST else self._end}, there.topic_ids)

    def resolve(self, start: Start, there: Positions, option: str) -> Positions:
        return Positions({SOURCE: self._to}, there.topic_ids)

    def committed(self, group_id: str, there: Positions) -> Mapping[TopicPartition, int]:
        return {SOURCE: self._to} if group_id == "there" else {}

    def diverged(self, before: Positions, after: Positions) -> Mapping[TopicPartition, int]:
        return {}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A pipeline that has read 51 records of a topic."""
    from moldau.model import uuid_text

    found = tmp_path / "a.yaml"
    found.write_text("pipeline: a\ncluster: 127.0.0.1:1\nfolder: state\nsource: {topics: t}\nsinks: [{table: tab}]\n")
    ends = [json.dumps({"t": {"0": at}, "#topicIds": {"t": uuid_text(OLD)}}) for at in (0, 51)]
    folder = PipelineFolder(load(found, {}))
    folder.store.write("checkpoint/metadata", b'{"id": "q"}')
    folder.store.write("checkpoint/offsets/0", b'v1\n{}\n{"t": {"0": 51}}')
    folder.books.add(
        BookLine(sequence=-1, kind=BATCH, batch=0, query="q", at_ms=0, took_ms=1, start=ends[:1], end=ends[1:],
             counts=[Count("t", "ok", None, 51, "t-0@0")], drift=[], rows_out=51, late=0, sinks={}, dead=0,
             totals=BookTotals())
    )  # fmt: skip
    return found


def lag(
    file: Path, monkeypatch: pytest.MonkeyPatch, id: bytes, start: int, end: int
) -> tuple[positions.PipelineLag, int, str]:
    """The only partition's lag, and what the command says of it."""
    monkeypatch.setattr(positions, "_planner", lambda *_: Asked(id, start, end))
    pipeline = load(file, {})
    (found,) = positions.lags(pipeline, PipelineFolder(pipeline))
    told = CliRunner().invoke(commands, ["lag", str(file)])
    return found, told.exit_code, told.output


def test_a_log_that_goes_on_is_behind_by_what_came(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, code, _ = lag(file, monkeypatch, OLD, 0, 60)
    assert (found.lag, found.loss, code) == (9, None, 0)


def test_a_topic_that_was_made_anew_is_unread_from_its_beginning(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, code, text = lag(file, monkeypatch, NEW, 0, 60)
    assert found.loss is not None
    assert (found.lag, found.next, found.loss.kind, code) == (60, 0, LossKind.TOPIC_RECREATED, 4)
    assert "the topic was deleted and made anew (position 51, found 0): 60 offsets are unread" in text
    assert "moldau pipeline reset FILE" in text
    assert "onDataLoss" in text
    pipeline = load(file, {})
    steps = [one.how for one in positions.plan(pipeline, PipelineFolder(pipeline)) if one.changes]
    assert steps[0] == "the topic was deleted and made anew: a run is refused"
    assert positions.reset_cost(pipeline, PipelineFolder(pipeline), "earliest")[1:] == (0, 0), "nothing of it was read"


@pytest.mark.parametrize(
    ("start", "end", "kind", "left"),
    [(0, 40, LossKind.LOG_WENT_BACK, 0), (55, 60, LossKind.RECORDS_EXPIRED, 5)],
)
def test_records_that_are_gone_are_told_and_no_lag_is_below_zero(
    file: Path, monkeypatch: pytest.MonkeyPatch, start: int, end: int, kind: LossKind, left: int
) -> None:
    found, code, text = lag(file, monkeypatch, OLD, start, end)
    assert found.loss is not None
    assert (found.loss.kind, found.lag, code) == (kind, left, 4)
    assert kind.value in text


def test_a_pipeline_that_leaves_out_what_is_lost_is_not_told_to_do_so(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(file.read_text().replace("{topics: t}", "{topics: t, on_loss: skip}"))
    _, code, text = lag(file, monkeypatch, NEW, 0, 60)
    assert (code, "refused" in text) == (4, False)


def test_a_plan_says_that_the_checkpoint_is_gone_as_the_run_does(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (file.parent / "state/checkpoint").rename(file.parent / "aside")
    lag(file, monkeypatch, OLD, 0, 60)
    pipeline = load(file, {})
    (said,) = [one.how for one in positions.plan(pipeline, PipelineFolder(pipeline)) if one.what == "checkpoint"]
    assert said.endswith("is gone, and the books end with its batch 0: a run is refused")


def test_a_plan_says_that_the_books_are_gone_as_the_run_does(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = PipelineFolder(load(file, {}))
    folder.store.write("checkpoint/commits/3", b"v1\n{}")
    folder.store.write("checkpoint/metadata", b'{"id": "q"}')
    lag(file, monkeypatch, OLD, 0, 60)
    pipeline = load(file, {})
    (said,) = [one.how for one in positions.plan(pipeline, PipelineFolder(pipeline)) if one.what == "books"]
    assert said == "the books end with batch 0, and the checkpoint has committed batch 3: a run is refused"


def test_a_topic_that_is_taken_out_of_the_file_is_planned_as_the_run_has_it(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = file.read_text()
    for on_loss, how in (("fail", "a run is refused"), ("skip", "a run goes on with what is there")):
        file.write_text(text.replace("{topics: t}", f"{{topics: other, on_loss: {on_loss}}}"))
        monkeypatch.setattr(positions, "_planner", lambda *_: Asked(OLD, 0, 60))
        monkeypatch.setattr(Asked, "existing", lambda self: Positions({TopicPartition("other", 0): 0}, {}))
        monkeypatch.setattr(Asked, "edge", lambda self, which, there: Positions(there.offsets, {}))
        pipeline = load(file, {})
        steps = {one.what: one.how for one in positions.plan(pipeline, PipelineFolder(pipeline))}
        assert steps["topic t"] == f"it is not in the list of what is read any more: {how}"


def test_a_reset_beyond_the_end_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "_planner", lambda *_: Asked(OLD, 0, 60, to=1000))
    told = CliRunner().invoke(commands, ["reset", str(file), "--to", '{"t": {"0": 1000}}', "--yes"])
    assert (told.exit_code, "that is beyond the end: t-0 ends at 60" in told.output) == (1, True), told.output
    assert not (file.parent / "state/start.json").exists()
    monkeypatch.setattr(positions, "_planner", lambda *_: Asked(OLD, 0, 60, to=60))
    assert CliRunner().invoke(commands, ["reset", str(file), "--to", "latest", "--yes"]).exit_code == 0


def test_a_reset_to_records_that_expired_is_refused_where_the_run_would_be(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It promised that they would be read again, set the checkpoint aside, and the run ended."""
    monkeypatch.setattr(positions, "_planner", lambda *_: Asked(OLD, 55, 60, to=1))
    words = ["reset", str(file), "--to", '{"t": {"0": 1}}', "--yes"]
    told = CliRunner().invoke(commands, words)
    assert (told.exit_code, "a run is refused: t-0 begins at 55" in told.output) == (1, True), told.output
    assert not (file.parent / "state/start.json").exists()
    file.write_text(file.read_text().replace("{topics: t}", "{topics: t, on_loss: skip}"))
    told = CliRunner().invoke(commands, words)
    text = 'a would begin at {"t": {"0": 55}}: 0 offsets would be read again, 4 would be left out'
    assert (told.exit_code, text in told.output) == (0, True), told.output


def test_a_group_that_committed_nothing_is_no_place_to_begin_at(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that was mistyped began at the oldest record, and everything was read again."""
    monkeypatch.setattr(positions, "_planner", lambda *_: Asked(OLD, 0, 60, to=20))
    monkeypatch.setattr(Backfills, "_planner", lambda *_: Asked(OLD, 0, 60, to=20))

    def told(*words: str) -> tuple[int, str]:
        said = CliRunner().invoke(commands, [words[0], str(file), *words[1:], "--dry-run"])
        return said.exit_code, said.output

    for words in (("reset", "--to", "group:ther"), ("replay", "--from", "group:ther", "--to", "latest")):
        code, text = told(*words)
        assert (code, "that group has committed nothing in what the pipeline reads" in text) == (1, True), text
    assert told("reset", "--to", "group:there")[0] == 0
    assert told("replay", "--from", "group:there", "--to", "latest")[0] == 0


def test_a_replay_says_what_of_its_range_has_expired(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It said that nothing would be read, as of a range that is empty."""
    monkeypatch.setattr(Backfills, "_planner", lambda *_: Asked(OLD, 55, 60, to=1))
    monkeypatch.setattr(Backfills, "_position", lambda self, text, *_: {SOURCE: int(text)})
    told = CliRunner().invoke(commands, ["replay", str(file), "--from", "1", "--to", "57", "--dry-run"])
    assert told.output.splitlines() == [
        "t-0: 55 to 57, 2 offsets",
        "t-0: 1 to 55, 54 offsets: expired, and read by nobody any more",
        "2 offsets would be read, 2 of them again",
    ]


def test_a_plan_names_the_file_of_the_checkpoint_that_is_damaged(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = load(file, {})
    PipelineFolder(pipeline).store.write("checkpoint/offsets/0", b"v1")
    lag(file, monkeypatch, OLD, 0, 60)
    (said,) = [one.how for one in positions.plan(pipeline, PipelineFolder(pipeline)) if one.what == "checkpoint"]
    assert "checkpoint/offsets/0 is damaged (it has 1 of 3 lines): restore it" in said


def test_the_lag_after_a_reset_is_what_lies_behind_the_position_that_it_told(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was that of a pipeline that begins at the oldest record, and so was what a rehearsal read."""
    monkeypatch.setattr(positions, "_planner", lambda *_: Asked(OLD, 0, 60, to=58))
    assert CliRunner().invoke(commands, ["reset", str(file), "--to", "latest", "--yes"]).exit_code == 0
    found, code, _ = lag(file, monkeypatch, OLD, 0, 60)
    assert (found.position, found.next, found.lag, code) == (58, 58, 2, 0)
    folder = PipelineFolder(load(file, {}))
    folder.begin_at("earliest")  # a word, as a program may give
    found, code, _ = lag(file, monkeypatch, OLD, 0, 60)
    assert (found.position, found.next, found.lag, code) == (None, 0, 60, 0)
    assert begins_at(load(file, {}), folder, "127.0.0.1:1") == "earliest"
    folder.begin_at('{"t": {"0": 58}}')
    assert begins_at(load(file, {}), folder, "127.0.0.1:1") == '{"t": {"0": 58}}', "nobody tells of more"


def test_a_reset_is_refused_where_more_was_read_while_somebody_was_asked(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that ended meanwhile would have its records read again, which nobody was told."""
    monkeypatch.setattr(positions, "_planner", lambda *_: Asked(OLD, 0, 90, to=51))
    folder, booked = PipelineFolder(load(file, {})), PipelineFolder.locked

    @contextmanager
    def locked(self: PipelineFolder, *, after_cut_off_reset: bool = False) -> Iterator[None]:
        last = folder.books.last()
        assert last is not None
        end = json.dumps({"t": {"0": 70}})
        counts = [Count("t", "ok", None, 19, "t-0@51")]
        folder.books.add(replace(last, batch=1, start=last.end, end=[end], counts=counts, rows_out=19))
        with booked(self, after_cut_off_reset=after_cut_off_reset):
            yield

    monkeypatch.setattr(PipelineFolder, "locked", locked)
    told = CliRunner().invoke(commands, ["reset", str(file), "--to", '{"t": {"0": 51}}', "--yes"])
    assert (told.exit_code, "has read more since this was looked at" in told.output) == (1, True), told.output
    assert not (file.parent / "state/start.json").exists()
