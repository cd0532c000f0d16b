"""A plan carried out beside a cluster that does not answer, which is a double; and one that nobody carries out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import pytest

from moldau.admin import directories
from moldau.admin.plans import Directories
from moldau.admin.reassignment import journal as journals
from moldau.admin.reassignment.apply_command import _applied
from moldau.admin.reassignment.carrying import LEAST_MS, Carrier, OutOfTime
from moldau.admin.reassignment.journal import RUNNING, Journal
from moldau.admin.reassignment.waves import Shown
from moldau.client.sync import Cluster
from moldau.model import TopicPartition

PLAN = {TopicPartition("t", 0): [2]}


class Silent:
    """A conversation with a cluster in which nobody knows what moves."""

    def __init__(self) -> None:
        self.cluster = Cluster("127.0.0.1:1")
        self.limits_ms: list[tuple[int, int]] = []

    def ask(self, *_: object) -> NoReturn:
        client = self.cluster.client
        self.limits_ms.append((client.options.api_timeout_ms, client.lines.options.request_timeout_ms))
        raise TimeoutError("nobody answered in time")


def carrier(talk: Any, path: Path, timeout_s: float, placed: Directories | None = None) -> Carrier:
    path.write_text("{}")
    journal = Journal(cluster="c", plan=PLAN, before={TopicPartition("t", 0): [1]})
    journal.state = RUNNING
    journals.write(path, journal)
    return Carrier(talk, path, journal, placed or {}, timeout_s)


def test_a_limit_of_time_is_kept_while_no_controller_answers(tmp_path: Path) -> None:
    """Three minutes, and more, were spent on one question, whatever the limit."""
    talk = Silent()
    with pytest.raises(OutOfTime):
        carrier(talk, tmp_path / "plan.json", 0.05).wait_for_the_moves()
    assert set(talk.limits_ms) == {(LEAST_MS, LEAST_MS)}


def test_who_resumes_a_plan_whose_process_was_killed_is_told_how_it_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """He was sent to `status`, as if somebody carried it out."""
    path = tmp_path / "plan.json"
    path.write_text('{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2]}]}')
    journal = Journal(cluster="c", plan=PLAN, before={})
    journal.state = RUNNING
    monkeypatch.setattr("moldau.admin.reassignment.apply_command.known", lambda *_: journal)
    talk: Any = Silent()
    with pytest.raises(SystemExit):
        _applied(path, talk, (journals.PAUSED,))
    said = capsys.readouterr().err
    assert f"nobody carries it out: `moldau reassign apply --plan {path}` does" in said
    with journals.held(path), pytest.raises(SystemExit):
        _applied(path, talk, (journals.PAUSED,))
    assert "`moldau reassign status" in capsys.readouterr().err


def test_a_replica_that_does_not_go_to_its_log_directory_is_told_though_its_broker_is_the_planned_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All partitions were said to be as planned, with exit 0; `reassign verify` then told of one that was not."""
    p = TopicPartition("t", 0)
    monkeypatch.setattr(directories, "ask_once", lambda *_: ({}, {(p, 2): "LOG_DIR_NOT_FOUND"}))
    monkeypatch.setattr(Carrier, "_look", lambda _: ({p: Shown([2], 2, [2])}, {}))
    monkeypatch.setattr(Carrier, "_tell", lambda *_: None)
    talk: Any = Silent()
    one = carrier(talk, tmp_path / "plan.json", 10.0, {(p, 2): "/nowhere"})
    assert one.carry_out(journals.DONE) == 1
    said = capsys.readouterr().err
    assert "t-0: broker 2 does not move it to its directory: LOG_DIR_NOT_FOUND" in said
    assert "0 of 1 partitions are as planned" in said
    assert one.rows()[0]["status"] == "refused"
