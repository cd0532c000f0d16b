"""A plan carried out beside a cluster that does not answer, which is a double; and one that nobody carries out."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any, NoReturn

import pytest

from moldau.admin import directories
from moldau.admin.plans import Directories
from moldau.admin.reassignment import journal as journals
from moldau.admin.reassignment.apply_command import _applied
from moldau.admin.reassignment.carrying import LEAST_MS, Carrier, OutOfTime
from moldau.admin.reassignment.journal import RUNNING, Journal
from moldau.admin.reassignment.waves import ObservedPartition
from moldau.client.admin import Reassignment
from moldau.client.refusals import Refused
from moldau.client.sync import Cluster
from moldau.client.view import Outcome
from moldau.model import Code, TopicPartition

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


def lies_in(directory: str, state: str = directories.OTHERWISE) -> dict[TopicPartition, list[directories.Misplaced]]:
    """What a look for log directories finds, where broker 2 is to have the partition in /nowhere."""
    why = "2.0 kB are free there, and it takes 8.0 kB"
    one: directories.Misplaced = {
        "broker": 2, "wanted": "/nowhere", "directory": directory, "state": state, "why": why,
    }  # fmt: skip
    return {TopicPartition("t", 0): [one]}


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
    monkeypatch.setattr(directories, "misplaced", lambda *_: lies_in("/here"))
    monkeypatch.setattr(Carrier, "_look", lambda _: ({p: ObservedPartition([2], 2, [2])}, {}))
    monkeypatch.setattr(Carrier, "_tell", lambda *_: None)
    talk: Any = Silent()
    one = carrier(talk, tmp_path / "plan.json", 10.0, {(p, 2): "/nowhere"})
    assert one.carry_out(journals.DONE) == 1
    said = capsys.readouterr().err
    assert "t-0: broker 2 does not move it to its directory: LOG_DIR_NOT_FOUND" in said
    assert "0 of 1 partition is as planned" in said
    assert one.rows()[0]["status"] == "refused"


def looks(monkeypatch: pytest.MonkeyPatch, *replicas: list[int], moving: int = -1) -> None:
    """What looks at the cluster show, one after the other; the last one again and again."""
    left = [({TopicPartition("t", 0): ObservedPartition(one, one[0], one)}, {}) for one in replicas]
    if moving >= 0:
        left[moving][1][TopicPartition("t", 0)] = Reassignment([3], [3], [1])
    monkeypatch.setattr("moldau.admin.reassignment.carrying.LONGEST_S", 0.1)
    monkeypatch.setattr(Carrier, "_look", lambda _: left.pop(0) if len(left) > 1 else left[0])
    monkeypatch.setattr(Carrier, "_tell", lambda *_: None)


class Brokers:
    """A cluster's brokers at each look, those of the last one again and again."""

    def __init__(self, *alive: set[int]) -> None:
        self._alive = list(alive)

    def brokers(self) -> dict[int, object]:
        return dict.fromkeys(self._alive.pop(0) if len(self._alive) > 1 else self._alive[0])

    def limit(self, _: int) -> bool:
        return False  # as it is already


class Refusing:
    """A conversation with a cluster that refuses every move, or moves but for the last one."""

    def __init__(self, *answers: Outcome, alive: Brokers | None = None) -> None:
        self.cluster = alive or Brokers({1, 2, 3})
        self.asked = 0
        self._answers = list(answers)

    def ask(self, _: object, wish: dict[TopicPartition, object]) -> Any:
        self.asked += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return Outcome(Code.NONE), dict.fromkeys(wish, answer)


REFUSED = Outcome(Code.INVALID_REPLICATION_FACTOR, "not now")
DEAD = Outcome(Code.INVALID_REPLICA_ASSIGNMENT, "Broker 2 is to get a replica, and it is not alive.")


@pytest.mark.parametrize(("after", "code", "status"), [([2], 0, "done"), ([3], 4, "otherwise")])
def test_a_partition_that_was_refused_and_moved_by_somebody_else_counts_as_refused_no_more(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    after: list[int],
    code: int,
    status: str,
) -> None:
    """It was told as refused, with exit 1, though all was as planned."""
    looks(monkeypatch, [1], [1], after, moving=1)
    talk: Any = Refusing(REFUSED)
    one = carrier(talk, tmp_path / "plan.json", 10.0)
    assert one.carry_out(journals.DONE) == code
    said = capsys.readouterr().err
    assert "not now" not in said
    assert ("somebody else has moved it meanwhile" in said) == (code == 4)
    assert one.rows()[0]["status"] == status
    assert talk.asked == 1


def test_a_partition_that_was_refused_and_stays_as_it_was_is_told_as_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks(monkeypatch, [1])
    talk: Any = Refusing(REFUSED)
    one = carrier(talk, tmp_path / "plan.json", 10.0)
    assert one.carry_out(journals.DONE) == 1
    assert "t-0: INVALID_REPLICATION_FACTOR: not now" in capsys.readouterr().err
    assert (one.rows()[0]["status"], talk.asked) == ("refused", 1)


def test_a_move_that_was_refused_while_its_new_broker_was_restarted_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan went on without it, and ended with exit 1: the broker was down for the controller, and for it alone."""
    looks(monkeypatch, [1], [1], [1], [2])
    talk: Any = Refusing(DEAD, DEAD, Outcome(Code.NONE))
    one = carrier(talk, tmp_path / "plan.json", 10.0)
    assert one.carry_out(journals.DONE) == 0
    assert talk.asked == 3


def test_a_move_waits_for_its_new_broker_to_come_back_and_is_not_asked_for_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks(monkeypatch, [1], [1], [1], [2])
    talk: Any = Refusing(Outcome(Code.NONE), alive=Brokers({1}, {1}, {1, 2}))
    one = carrier(talk, tmp_path / "plan.json", 10.0)
    assert one.carry_out(journals.DONE) == 0
    assert talk.asked == 1


def test_a_broker_that_is_back_has_the_rate_before_a_move_to_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The move began first, and copied as fast as it could until the rate was set."""
    looks(monkeypatch, [1], [1], [2])
    talk: Any = Refusing(Outcome(Code.NONE), alive=Brokers({1}, {1, 2}))
    asked_before: list[int] = []
    monkeypatch.setattr(Carrier, "_throttle", lambda _: asked_before.append(talk.asked))
    one = carrier(talk, tmp_path / "plan.json", 10.0)
    one._without_rate = {2}
    assert one.carry_out(journals.DONE) == 0
    assert (asked_before[0], talk.asked) == (0, 1)


@pytest.mark.parametrize(
    ("alive", "why"), [({1}, "broker 2 is not alive"), ({1, 2}, "INVALID_REPLICA_ASSIGNMENT: Broker 2 is to get")]
)
def test_a_move_whose_new_broker_does_not_come_back_counts_as_refused_in_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, alive: set[int], why: str
) -> None:
    looks(monkeypatch, [1])
    monkeypatch.setattr("moldau.admin.reassignment.carrying.PATIENCE_S", 0.3)
    talk: Any = Refusing(DEAD, alive=Brokers(alive))
    one = carrier(talk, tmp_path / "plan.json", 60.0)
    assert one.carry_out(journals.DONE) == 1
    assert f"t-0: {why}" in capsys.readouterr().err
    assert one.rows()[0]["status"] == "refused"


def test_a_copy_that_its_broker_gave_up_for_want_of_space_ends_the_wait_and_is_told_with_the_space(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was waited for without end: the broker had said yes, and tells nobody that it dropped the copy."""
    looks(monkeypatch, [2])
    monkeypatch.setattr(directories, "ask_once", lambda *_: ({}, {}))
    found = [lies_in("/here", directories.MOVING)]
    monkeypatch.setattr(directories, "misplaced", lambda *_: found.pop() if found else lies_in("/here"))
    talk: Any = Silent()
    one = carrier(talk, tmp_path / "plan.json", 10.0, {(TopicPartition("t", 0), 2): "/nowhere"})
    assert one.carry_out(journals.DONE) == 1
    said = capsys.readouterr().err
    assert "t-0: broker 2 does not move it to its directory: /nowhere: 2.0 kB are free there" in said
    assert one.rows()[0]["status"] == "refused"


def test_a_replica_that_somebody_else_brought_to_its_log_directory_counts_as_refused_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks(monkeypatch, [2])
    monkeypatch.setattr(directories, "ask_once", lambda *_: ({}, {(TopicPartition("t", 0), 2): "KAFKA_STORAGE_ERROR"}))
    monkeypatch.setattr(directories, "misplaced", lambda *_: {})
    talk: Any = Silent()
    one = carrier(talk, tmp_path / "plan.json", 10.0, {(TopicPartition("t", 0), 2): "/nowhere"})
    assert one.carry_out(journals.DONE) == 0
    assert one.rows()[0]["status"] == "done"


def test_a_plan_ends_whose_partition_somebody_else_took_away_from_the_broker_with_its_log_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replica that never came to the broker was waited for without end."""
    looks(monkeypatch, [3])
    unplaced = {(TopicPartition("t", 0), 2): "/nowhere"}
    monkeypatch.setattr(directories, "ask_once", lambda *_: (unplaced, {}))
    monkeypatch.setattr(directories, "misplaced", lambda talk, wanted: lies_in("/here") if wanted else {})
    talk: Any = Silent()
    assert carrier(talk, tmp_path / "plan.json", 10.0, unplaced).carry_out(journals.DONE) == 4


def test_a_rate_that_cannot_be_set_yet_where_a_broker_came_back_is_told_once_and_ends_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[Exception] = [Refused(Code.REQUEST_TIMED_OUT, "broker 2")] * 2
    errors.append(OSError(errno.ENOSPC, "full", "plan.json.journal"))

    def fails(_: Carrier) -> NoReturn:
        raise errors.pop(0)

    monkeypatch.setattr(Carrier, "_throttle", fails)
    talk: Any = Silent()
    one = carrier(talk, tmp_path / "plan.json", 10.0)
    one._without_rate = {2, 3}
    for _ in range(2):
        one._throttle_the_returned({1, 2})
    assert capsys.readouterr().err == "no rate is set yet at broker 2, which came back: broker 2: REQUEST_TIMED_OUT\n"
    with pytest.raises(OSError, match="full"):
        one._throttle_the_returned({1, 2})
