"""The demo's sums, reasons and story, with a scripted cluster: books that do not balance are seen not to."""

from __future__ import annotations

import contextlib
import io
import json
import time
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from rich.console import Console

from moldau.admin.demo import report, story
from moldau.admin.demo.chart import paint, spans
from moldau.admin.demo.checking import FlightCounts
from moldau.admin.demo.data import delays, flights, id_of
from moldau.admin.demo.pipeline import DemoPipeline, DemoPipelineError
from moldau.admin.demo.producing import Acks
from moldau.admin.demo.watching import Happening, LeaderAndIsr, LeaderChange, back_in_sync, explained
from moldau.cluster.nodes import is_alive
from moldau.pipeline.lint import lint_file
from moldau.pipeline.reading import load
from moldau.pipeline.spec import OnError
from tests.packages.doubles import TimeModule


def books(
    produced: list[int], in_log: list[int], in_table: list[int], commits: int = 3, batches: int = 3
) -> FlightCounts:
    return FlightCounts(np.array(produced), np.array(in_log), np.array(in_table), commits, batches, True)


def test_books_balance_only_when_every_flight_is_everywhere_once():
    assert books([1, 1], [1, 1], [1, 1]).balance
    assert not books([1, 1], [1, 1], [1, 1], commits=4).balance
    assert not books([1, 1], [1, 1], [1, 1])._replace(totals_right=False).balance
    lost = books([1, 1, 1], [1, 0, 1], [1, 0, 0])
    assert (lost.lost, lost.duplicated, lost.balance) == (2, 0, False)
    doubled = books([1, 1], [1, 3], [2, 1])
    assert (doubled.lost, doubled.duplicated, doubled.balance) == (0, 3, False)
    never_acknowledged = books([1, 0], [1, 0], [1, 0])
    assert (never_acknowledged.lost, never_acknowledged.balance) == (0, False)


def test_a_flight_carries_its_number_first_and_sums_come_from_the_data():
    found = flights(50)
    assert [id_of(message.value) for message in found] == list(range(50))
    assert json.loads(found[0].value)["carrier"].encode() == found[0].key
    sums = delays(found)
    assert sum(count for count, _, _ in sums.values()) == 50
    assert sums["B6", 6][2] == sum(
        json.loads(message.value)["dep_delay"] or 0
        for message in found
        if message.key == b"B6" and json.loads(message.value)["hour"] == 6
    )


def test_the_longest_gap_is_between_two_neighbouring_acks(monkeypatch):
    acks = Acks(10)
    for id, (at, partition) in enumerate([(100.0, 0), (100.5, 1), (103.0, 1), (103.1, 0), (103.2, 1)]):
        monkeypatch.setattr(time, "time", lambda at=at: at)
        acks.take(id, partition, 10)
    acks.take(4, 1, 10)
    assert acks.gap == (2.5, 100.5)
    assert acks.worst_partition() == (0, pytest.approx(3.1))
    assert (acks.count, acks.bytes, dict(acks.by_second)) == (5, 60, {100: 2, 103: 4})


A, B, GONE, BACK = (
    LeaderAndIsr(1, 0, (1, 2, 3)),
    LeaderAndIsr(2, 1, (2, 3)),
    LeaderAndIsr(-1, 1, (1,)),
    LeaderAndIsr(2, 1, (1, 2, 3)),
)
STORY = [Happening(10.0, "killed", 1), Happening(20.0, "restarted", 1)]


def reasons(changes: list[LeaderChange], logs: list[Path]) -> list[str]:
    return [change.why for change in explained(changes, STORY, logs, "flights")]


def test_changes_are_explained_by_the_log_and_else_by_the_story(tmp_path):
    changes = [
        LeaderChange(1.0, 0, None, A),
        LeaderChange(11.0, 0, A, B),
        LeaderChange(11.0, 1, A, GONE),
        LeaderChange(21.0, 0, B, BACK),
        LeaderChange(22.0, 0, BACK, LeaderAndIsr(1, 2, (1, 2, 3))),
    ]
    assert reasons(changes, []) == [
        "the topic was created",
        "broker 1 was killed; 2 was in sync",
        "broker 1 went away and nobody in sync could take over",
        "broker 1 caught up",
        "broker 1 is back in sync and is the preferred leader",
    ]
    log = tmp_path / "state-change.jsonl"
    event = {"event": "partition", "topic": "flights", "partition": 0, "leaderEpoch": 1, "isr": [3, 2], "why": "fenced"}
    log.write_text(json.dumps(event) + "\n" + json.dumps({**event, "topic": "others", "leaderEpoch": 0}) + '\n{"cut')
    assert reasons(changes[:2], [log]) == ["the topic was created", "fenced"]
    assert back_in_sync(changes, 1, 20.0) == 21.0
    assert back_in_sync(changes, 3, 20.0) is None


class Stage:
    """A cluster that only remembers what was done to it."""

    def __init__(self) -> None:
        self.done: list[tuple[str, int]] = []

    def kill(self, id: int) -> None:
        self.done.append(("kill", id))

    def restart(self, id: int, *, wait: bool = True) -> None:
        self.done.append(("restart", id))


class Watch:
    def leads_most(self) -> int:
        return 0

    def led_by(self, broker: int) -> list[int]:
        return [2, 4]


class ProgressReporter:
    def say(self, what: str) -> None: ...

    def progress(self, sent: int, acked: int, in_table: int) -> None: ...


def test_the_busiest_broker_is_killed_once_at_half_and_restarted_ten_seconds_later(monkeypatch):
    stage, now = Stage(), [100.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    hand = story._FaultMaker(stage, Watch(), ProgressReporter(), story.Script())  # type: ignore[arg-type]
    for sent, at in ((0, 100), (49, 110), (50, 111), (60, 112), (90, 120.9), (91, 121), (99, 140)):
        now[0] = at
        hand.poll(sent, 100)
    assert stage.done == [("kill", 0), ("restart", 0)]
    assert [happening.at for happening in hand.happenings] == [111, 121]


def test_the_report_says_what_was_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "mean_delays", lambda folder: {("UA", 5): 3.0})
    acks = Acks(2)
    acks.take(0, 0, 100)
    acks.take(1, 0, 100)
    changes = explained([LeaderChange(1.0, 0, None, A), LeaderChange(11.0, 0, A, B)], STORY, [], "flights")
    outcome = story.DemoOutcome(books([1, 1], [1, 1], [1, 0]), acks, changes, STORY, [(2.0, 1)], 0.0, 1.0, 2.0, 23.0)
    told = io.StringIO()
    report.tell(Console(file=told, width=150), outcome, tmp_path)
    for words in ("do NOT balance", "1 -> 2", "broker 1 was killed; 2 was in sync", "again 3.0 s after", "UA"):
        assert words in told.getvalue()


def test_what_the_stream_has_started_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream, started = tmp_path / "stream", tmp_path / "pid"
    stream.write_text(f"#!/bin/sh\nsleep 1000 &\necho $! > {started}.new\nmv {started}.new {started}\nwait\n")
    stream.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(stream))
    pipeline = DemoPipeline("nowhere:1", "flights", tmp_path / "tables")
    deadline = time.monotonic() + 120
    while not started.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    pid = int(started.read_text())
    assert is_alive(pid)
    pipeline.kill()
    while is_alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


class RunningProcess:
    """A process that has not ended."""

    def poll(self) -> int | None:
        return None


@pytest.mark.parametrize(("batches", "finishes"), [(5, True), (0, False)])
def test_a_pipeline_is_waited_for_as_long_as_batches_come(
    batches: int, finishes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look takes 100 seconds of a clock that is ours, and finds another batch or none; the sixth finds the end."""
    looks, clock = 0, TimeModule()
    pipeline = DemoPipeline.__new__(DemoPipeline)
    pipeline.log, pipeline.batches = tmp_path / "pipeline.log", []
    pipeline.log.write_text("its last words")

    def is_done() -> bool:
        nonlocal looks
        looks += 1
        clock.now_s += 100
        pipeline.batches.extend([cast("Any", None)] if looks <= batches else [])
        return looks > 5

    pipeline._process = RunningProcess()  # type: ignore[assignment]
    monkeypatch.setattr("moldau.admin.demo.pipeline.time", clock)
    with (
        contextlib.nullcontext()
        if finishes
        else pytest.raises(DemoPipelineError, match="within 180 s:\nits last words")
    ):
        pipeline._wait(is_done, 180.0, "finish")


def test_a_pipeline_that_ended_by_itself_is_told_with_its_last_words(tmp_path: Path) -> None:
    pipeline = DemoPipeline("nowhere:1", "flights", tmp_path)
    pipeline.kill()
    with pytest.raises(DemoPipelineError, match="did not start"):
        pipeline.wait_ready()


def test_the_demos_file_is_a_pipeline_without_a_mistake(tmp_path: Path) -> None:
    pipeline = DemoPipeline("nowhere:1", "flights", tmp_path)
    pipeline.kill()
    assert lint_file(pipeline.file) == []
    assert load(pipeline.file).decode.on_error is OnError.FAIL, "a record that is no flight is not counted as one"


def an_outcome(*, killed: bool = True) -> story.DemoOutcome:
    """Two partitions; broker 1 leads the first, is killed after 2 s, and 3 leads it 0.1 s later."""
    ones = np.ones(1200, np.int64)
    acks = Acks(1200)
    acks.by_second.update({100 + second: 300 for second in range(4)})
    first, second = LeaderAndIsr(1, 0, (1, 2, 3)), LeaderAndIsr(2, 0, (1, 2, 3))
    changes = [LeaderChange(99.0, 0, None, first), LeaderChange(99.0, 1, None, second)]
    changes += [LeaderChange(102.1, 0, first, LeaderAndIsr(3, 1, (2, 3)))] if killed else []
    happenings = [Happening(102.0, "killed", 1), Happening(103.0, "restarted", 1)] if killed else []
    batches = [(101.0, 600), (104.5, 600)]
    books = FlightCounts(ones, ones, ones, 2, 2, True)
    return story.DemoOutcome(books, acks, changes, happenings, batches, 100.0, 104.0, 105.0, 104.8)


def test_a_killed_broker_leads_nothing_from_then_on_whoever_was_told_so_when() -> None:
    rounded = [one._replace(start=round(one.start, 3), end=round(one.end, 3)) for one in spans(an_outcome())]
    assert rounded == [(0, 0.0, 2.0, 1), (0, 2.0, 2.1, -1), (0, 2.1, 5.0, 3), (1, 0.0, 5.0, 2)]


@pytest.mark.parametrize("killed", [True, False])
def test_plots_over_time_are_aligned_and_the_gap_is_told_in_milliseconds(
    tmp_path: Path, killed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib import pyplot

    drawn: list[Any] = []
    monkeypatch.setattr(pyplot, "close", drawn.append)
    means = {(carrier, hour): 10.0 for carrier in ("AA", "B6") for hour in (5, 6)}
    paint(an_outcome(killed=killed), means, tmp_path / "demo.png")
    monkeypatch.undo()
    (figure,) = drawn
    pace, total, leaders, close, heat, _ = figure.axes
    edges = [(one.get_position().x0, one.get_position().x1) for one in (pace, total, leaders, close, heat)]
    assert all(np.allclose(one, edges[0]) for one in edges)
    assert pace.get_xlim() == total.get_xlim() == leaders.get_xlim() == (0.0, 5.0)
    assert "1,200" in total.get_title(loc="left")
    assert [one.get_text() for one in close.texts] == (["100 ms"] if killed else [])
    told = [one.get_text() for one in pace.texts]
    assert told == (["broker 1 killed, 2.0 s", "broker 1 restarted, 3.0 s", "all in sync, 4.8 s"] if killed else [])
    figure.canvas.draw()
    frames = [one.get_window_extent() for one in pace.texts]
    assert all(one.y0 >= pace.get_window_extent().y1 for one in frames), "above the data"
    assert not any(one.overlaps(other) for at, one in enumerate(frames) for other in frames[at + 1 :])
    pyplot.close(figure)
