"""The history of a partition out of logs: who led when and why, in both modes; and clocks that are apart."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from click.testing import CliRunner

from moldau.admin.log import log
from moldau.clusterdata.state_changes.eras import parse
from moldau.clusterdata.state_changes.skew import Skew, skews

LOGGER = "(state.change.logger)"


def line(second: float, text: str, level: str = "INFO") -> str:
    return f"[2026-11-22 10:00:{int(second):02d},{round(second % 1 * 1000):03d}] {level} {text} {LOGGER}\n"


def decided(
    second: float,
    leader: int,
    epoch: int,
    isr: str,
    before: str = "Online",
    number: int = 0,
    change: int | None = None,
    recovery: str = "RECOVERED",
) -> str:
    """``change`` is the partition epoch; without one it is the leader epoch."""
    change = epoch if change is None else change
    return line(
        second,
        f"[Controller id=1 epoch=5] Changed partition orders-{number} from {before}Partition to OnlinePartition with"
        f" state LeaderAndIsr(leader={leader}, leaderEpoch={epoch}, isr=List({isr}), leaderRecoveryState={recovery},"
        f" partitionEpoch={change})",
    )


def follows(second: float, node: int, epoch: int, leader: int, number: int = 0) -> str:
    return line(
        second,
        f"[Broker id={node}] Follower orders-{number} starts at leader epoch {epoch} from offset 7 with partition epoch"
        f" {epoch} and high watermark 7. Current leader is {leader}. Previous leader None and previous leader epoch was"
        " -1.",
    )


def leads(second: float, node: int, epoch: int, isr: str) -> str:
    return line(
        second,
        f"[Broker id={node}] Leader orders-0 with topic id Some(IXlBGhIoTUaimuoYjPyNRQ) starts at leader epoch {epoch}"
        f" from offset 0 with partition epoch {epoch}, high watermark 0, ISR [{isr}], adding replicas [] and removing"
        f" replicas [] . Previous leader None and previous leader epoch was -1.",
    )


CONTROLLER = (
    line(
        0,
        "[Controller id=1 epoch=5] Changed partition orders-0 state from NonExistentPartition to NewPartition with"
        " assigned replicas 2,3,1",
    )
    + decided(0.1, 2, 0, "2, 3, 1", "New")
    + decided(10, 3, 1, "3, 1")
    + decided(20, 3, 1, "3, 1, 2")
    + decided(30, 2, 2, "3, 1, 2")
    + decided(40, -1, 3, "2")
    + decided(50, 1, 4, "1", "Offline")
)


def timeline(folder: Path, *arguments: str) -> list[dict[str, object]]:
    done = CliRunner().invoke(log, ["timeline", *arguments, "--logs", str(folder), "-o", "json"])
    assert done.exit_code == 0, done.output
    rows: list[dict[str, object]] = json.loads(done.stdout)
    return rows


def test_a_timeline_tells_each_leader_isr_and_reason_once(tmp_path: Path) -> None:
    (tmp_path / "state-change.log").write_text(CONTROLLER)
    other = tmp_path / "2"
    other.mkdir()
    (other / "state-change.log").write_text(leads(0.3, 2, 0, "2,3,1") + follows(30.1, 3, 2, 2))
    rows = timeline(tmp_path, "orders-0")
    assert [(row["epoch"], row["leader"], row["in_sync"]) for row in rows] == [
        (0, 2, [2, 3, 1]),
        (1, 3, [3, 1]),
        (1, 3, [3, 1, 2]),
        (2, 2, [3, 1, 2]),
        (3, "none", [2]),
        (4, 1, [1]),
    ]
    assert [row["why"] for row in rows] == [
        "created",
        "broker 2 left",
        "broker 2 is in sync again",
        "preferred election: broker 2 is the first replica",
        "offline: broker 2 left, and nobody in sync is alive",
        "online again: broker 1 is alive",
    ]
    assert [row["isr"] for row in rows] == ["█▒▒", "·█▒", "▒█▒", "█▒▒", "▒··", "··█"]
    assert rows[0]["time"] == "2026-11-22 10:00:00,100", "when it was decided, not when a broker heard of it"
    assert {row["controller"] for row in rows} == {"1 (epoch 5)"}


def test_a_terminal_without_these_marks_is_shown_others(tmp_path: Path) -> None:
    """`log timeline` ended with a traceback where the locale's encoding is ASCII."""
    (tmp_path / "state-change.log").write_text(CONTROLLER)
    words = [sys.executable, "-m", "moldau", "log", "timeline", "orders-0", "--logs", str(tmp_path)]
    env = os.environ | {"PYTHONIOENCODING": "ascii"}
    said = subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout
    assert "#++" in said
    assert "..#" in said


def test_without_a_controllers_lines_brokers_tell(tmp_path: Path) -> None:
    (tmp_path / "state-change.log").write_text(leads(1, 2, 4, "2,3") + leads(9, 3, 5, "3"))
    rows = timeline(tmp_path, "orders-0")
    assert [(row["epoch"], row["leader"], row["why"], row["controller"]) for row in rows] == [
        (4, 2, "first that these logs tell", None),
        (5, 3, "broker 2 left", None),
    ]


def test_an_election_of_a_replica_that_was_not_in_sync_is_named(tmp_path: Path) -> None:
    text = decided(1, 2, 1, "2") + decided(2, 3, 2, "3", recovery="RECOVERING")
    (tmp_path / "state-change.log").write_text(text)
    assert timeline(tmp_path, "orders-0")[-1]["why"] == "unclean election: broker 3 was not in sync"


BACK = (
    decided(0, 1, 0, "1, 2, 3", "New", change=0)
    + decided(1, 1, 0, "1, 2", change=1)
    + decided(2, 1, 0, "1, 2, 3", change=2)
    + decided(3, 3, 1, "3", change=3)
)
"""A follower lags, comes back and leads."""


@pytest.mark.parametrize("partition_epochs", [True, False])
def test_an_isr_that_comes_back_within_a_leader_epoch_is_a_row_of_its_own(
    tmp_path: Path, partition_epochs: bool
) -> None:
    """The third row was thrown into the first, and the clean election after it was called unclean."""
    text = BACK if partition_epochs else re.sub(r", partitionEpoch=\d", "", BACK)
    (tmp_path / "state-change.log").write_text(text)
    rows = timeline(tmp_path, "orders-0")
    assert [(row["epoch"], row["in_sync"], row["why"]) for row in rows] == [
        (0, [1, 2, 3], "created"),
        (0, [1, 2], "broker 3 fell out of sync"),
        (0, [1, 2, 3], "broker 3 is in sync again"),
        (1, [3], "broker 1 left"),
    ]


def test_the_end_of_a_move_is_told_without_a_reason_of_its_own(tmp_path: Path) -> None:
    """It was told as "broker 1 left", which had never stopped: the broker that comes tells it, in the same step."""
    moved = decided(0, 1, 0, "1, 3", "New", change=0) + decided(9, 3, 1, "3, 4", change=1)
    (tmp_path / "state-change.log").write_text(moved)
    assert timeline(tmp_path, "orders-0")[-1]["why"] == "reassignment completed: broker 1 is no replica any more"


def test_each_decision_of_one_state_has_its_own_reason(tmp_path: Path) -> None:
    """A topic's creation was told as "reassignment began", which had the same leader, epoch and ISR."""
    (tmp_path / "state-change.log").write_text(
        decided(0, 2, 0, "2, 3", "New", change=0)
        + follows(0.1, 3, 0, 2)
        + decided(9, 2, 0, "2, 3", change=1)
        + decided(20, 1, 1, "3, 1", change=2)
        + decided(30, 1, 1, "3, 1", change=3)
    )
    whys = ["created", "reassignment began", "reassignment completed", "reassignment began"]
    facts = [
        {
            "topic": "orders",
            "partition": 0,
            "leaderEpoch": epoch,
            "partitionEpoch": change,
            "isr": isr,
            "why": whys[change],
        }
        for change, (epoch, isr) in enumerate([(0, [2, 3]), (0, [2, 3]), (1, [3, 1]), (1, [3, 1])])
    ]
    (tmp_path / "state-change.jsonl").write_text("\n".join(map(json.dumps, facts)))
    rows = timeline(tmp_path, "orders-0")
    assert [row["why"] for row in rows] == whys
    assert rows[1]["time"] == "2026-11-22 10:00:09,000"


def test_an_unclean_election_is_claimed_only_where_no_decision_before_it_is_missing(tmp_path: Path) -> None:
    """One controller's log that was rotated away was enough for a false alarm of lost data."""
    log_file = tmp_path / "state-change.log"
    log_file.write_text(decided(1, 1, 3, "1, 3", change=7) + decided(9, 2, 4, "1, 2", change=10))
    missing = "not known: decisions between partition epoch 7 and 10 are not in these logs"
    assert timeline(tmp_path, "orders-0")[-1]["why"] == missing
    unclean = decided(1, 1, 3, "1, 3", change=7) + decided(9, 2, 4, "2", change=8, recovery="RECOVERING")
    log_file.write_text(unclean)
    assert timeline(tmp_path, "orders-0")[-1]["why"] == "unclean election: broker 2 was not in sync"
    log_file.write_text(unclean.replace("RECOVERING", "RECOVERED"))
    assert str(timeline(tmp_path, "orders-0")[-1]["why"]).startswith("not known whether broker 2 was in sync")
    log_file.write_text(re.sub(r", partitionEpoch=\d", "", log_file.read_text()))
    assert str(timeline(tmp_path, "orders-0")[-1]["why"]).startswith("not known: perhaps an unclean election, broker 2")


def test_reasons_that_moldau_wrote_go_before_guesses(tmp_path: Path) -> None:
    (tmp_path / "state-change.log").write_text(CONTROLLER)
    fact = {"topic": "orders", "partition": 0, "leaderEpoch": 1, "isr": [3, 1], "why": "broker 2 was fenced"}
    (tmp_path / "state-change.jsonl").write_text(json.dumps(fact) + '\n{"why": "cut o')
    assert timeline(tmp_path, "orders-0")[1]["why"] == "broker 2 was fenced"


def test_a_timeline_of_the_oldest_era(tmp_path: Path) -> None:
    (tmp_path / "state-change.log").write_text(
        line(
            1,
            "Broker 2 received LeaderAndIsr request (LeaderAndIsrInfo:(Leader:2,ISR:2,1,LeaderEpoch:3,"
            "ControllerEpoch:5),ReplicationFactor:2),AllReplicas:2,1) correlation id 7 from controller 9 epoch 5"
            " for partition [orders,0]",
            "TRACE",
        )
    )
    (row,) = timeline(tmp_path, "orders-0")
    assert (row["leader"], row["epoch"], row["in_sync"], row["controller"]) == (2, 3, [2, 1], "9 (epoch 5)")


def test_why_tells_what_counted_at_a_time_and_what_came_next(tmp_path: Path) -> None:
    (tmp_path / "state-change.log").write_text(CONTROLLER + follows(10.2, 1, 1, 3))
    arguments = ["why", "orders-0", "--logs", str(tmp_path), "--at"]
    said = CliRunner().invoke(log, [*arguments, "2026-11-22 10:00:15"])
    assert said.output.splitlines() == [
        "orders-0: broker 3 led in leader epoch 1, in sync 3,1",
        "  since 2026-11-22 10:00:10,000: broker 2 left",
        "  decided by controller 1 of epoch 5",
        "  2026-11-22 10:00:10,000  told by node 1",
        "  until 2026-11-22 10:00:20,000: broker 2 is in sync again",
    ]
    early = CliRunner().invoke(log, [*arguments, "2026-11-22 09:00"])
    assert (early.exit_code, early.output) == (1, "moldau: orders-0 is first told of at 2026-11-22 10:00:00,100\n")


def test_what_no_log_tells_of_is_said(tmp_path: Path) -> None:
    (tmp_path / "state-change.log").write_text(CONTROLLER)
    done = CliRunner().invoke(log, ["timeline", "other-0", "--logs", str(tmp_path)])
    assert (done.exit_code, done.output) == (1, "moldau: no log tells of other-0\n")


def test_a_clock_that_is_behind_is_found_by_what_it_told_too_early() -> None:
    lines = [decided(n + 0.5, 2, n, "2, 3", number=n) for n in range(5)]
    lines += [follows(n + 0.2, 3, n, 2, number=n) for n in range(5)]
    events = [event for entry in lines if (event := parse(entry.encode())) is not None]
    (found,) = skews(events)
    assert (found.broker, found.controller, found.high_ms, found.low_ms) == (3, 1, -300, None)
    assert found.verdict == "behind by at least 300 ms"


def test_answers_bound_a_clock_that_is_ahead() -> None:
    cached = (
        "[Broker id=3] Add 1 partitions and deleted 0 partitions from metadata cache in response to UpdateMetadata"
        " request sent by controller 1 epoch 5 with correlation id 7"
    )
    answered = (
        "[Controller id=1 epoch=5] Received response UpdateMetadataResponseData(errorCode=0) for request"
        " UPDATE_METADATA with correlation id 7 sent to broker kafka:29092 (id: 3 rack: null)"
    )
    lines = [decided(1, 2, 0, "2, 3"), line(3.4, cached), line(1.5, answered), follows(3.3, 3, 0, 2)]
    events = [event for entry in lines if (event := parse(entry.encode())) is not None]
    assert skews(events) == [Skew(broker=3, controller=1, low_ms=1900, high_ms=2300, pairs=1)]
    assert skews(events)[0].verdict == "ahead by at least 1900 ms"


def test_a_time_may_be_so_long_ago_or_name_a_zone_as_for_other_commands(tmp_path: Path) -> None:
    (tmp_path / "state-change.log").write_text(CONTROLLER)
    ms = round(datetime(2026, 11, 22, 10, 0, 15).timestamp() * 1000)
    zoned = datetime.fromtimestamp(ms / 1000).astimezone(timezone(timedelta(hours=5))).isoformat()
    whole = CliRunner().invoke(log, ["why", "orders-0", "--logs", str(tmp_path), "--at", "2026-11-22 10:00:15"])
    for same in (f"@{ms}", zoned, "2026-11-22T10:00:15.0"):
        said = CliRunner().invoke(log, ["why", "orders-0", "--logs", str(tmp_path), "--at", same])
        assert (said.exit_code, said.output) == (0, whole.output), same
    ago = CliRunner().invoke(log, ["why", "orders-0", "--logs", str(tmp_path), "--at", "-999w"])
    assert (ago.exit_code, ago.output) == (1, "moldau: orders-0 is first told of at 2026-11-22 10:00:00,100\n")
    merged = CliRunner().invoke(log, ["merge", str(tmp_path), "--end-time", "-999w"])
    assert (merged.exit_code, merged.output) == (0, "")


@pytest.mark.parametrize("text", ["2026-02-30 10:00", "noon", "10 m ago", "@999999999999999999"])
def test_what_is_no_time_is_refused(tmp_path: Path, text: str) -> None:
    done = CliRunner().invoke(log, ["why", "orders-0", "--logs", str(tmp_path), "--at", text])
    assert (done.exit_code, text in done.output) == (2, True), done.output
