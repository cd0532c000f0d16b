"""What the kill suite prints and how it exits: anomalies beat doubts, doubts beat success, and nothing is left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.cluster.kills.checking import CheckedScenario, RunVerdict, keep, worst_of
from moldau.cluster.kills.command import main
from moldau.cluster.kills.killing import BOTH, CONTROLLER, LEADER, KillPlan, placement
from moldau.cluster.kills.load import LoadPlan
from moldau.cluster.kills.report import problems, table
from moldau.history.checks import LOST, Anomaly
from moldau.history.rows import OK, History, Read, Send, read_lines, write_lines
from tests.packages.cluster.histories import kill

GOOD = History([Send("p0", 0, 0, "a", 0, 1_100_000_000, OK, 0)], [], [Read("final", 0, 0, "a")], {0: 1}, [kill()])


def checked(anomalies: int = 0, doubts: int = 0) -> CheckedScenario:
    found = [Anomaly(LOST, f"number {n}") for n in range(anomalies)]
    return CheckedScenario(KillPlan(LEADER, LoadPlan("t", 1)), GOOD, found, [f"doubt {n}" for n in range(doubts)])


def test_an_anomaly_beats_a_doubt_and_a_doubt_beats_success() -> None:
    assert [checked().verdict, checked(doubts=1).verdict, checked(1, 1).verdict] == [
        RunVerdict.PASS, RunVerdict.UNKNOWN, RunVerdict.FAIL,
    ]  # fmt: skip
    assert worst_of([checked().verdict, checked(doubts=1).verdict]) is RunVerdict.UNKNOWN
    assert worst_of([checked(doubts=1).verdict, checked(1).verdict]) is RunVerdict.FAIL
    assert worst_of([checked().verdict]) is RunVerdict.PASS
    assert [int(verdict) for verdict in (RunVerdict.PASS, RunVerdict.FAIL, RunVerdict.UNKNOWN)] == [0, 1, 3]


def test_the_table_counts_and_spans() -> None:
    rows = {line[:40].strip().split("  ")[0]: line.split()[-1] for line in table([checked(3)]).splitlines()}

    assert rows["kills"] == "1"
    assert rows["acknowledged"] == "1"
    assert rows["lost"] == "3"
    assert rows["duplicated"] == "0"
    assert rows["verdict"] == "FAIL"
    assert "100 ms / 100 ms" in table([checked()])


def test_many_problems_are_shortened_on_the_screen_and_whole_in_the_folder(tmp_path: Path) -> None:
    one = checked(20, 1)

    assert "and 13 more" in problems([one])
    path = keep(one, tmp_path)

    assert len((tmp_path / "leader.anomalies.txt").read_text().splitlines()) == 21
    assert read_lines(path.read_text().splitlines()) == GOOD


def test_a_kept_history_is_judged_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    with good.open("w") as file:
        write_lines(GOOD, file)
    with bad.open("w") as file:
        write_lines(GOOD._replace(final=[]), file)

    assert main(["--check", str(good)]) == 0
    assert main(["--check", str(bad)]) == 1
    assert "lost: a of p0 to partition 0" in capsys.readouterr().out


def test_leaders_are_placed_so_that_the_scenarios_differ() -> None:
    nodes, controller = [1, 2, 3], 2
    leaders = {
        scenario: [order[0] for order in placement(scenario, nodes, controller, 6).values()]
        for scenario in (LEADER, CONTROLLER, BOTH)
    }
    assert sorted(leaders[LEADER]) == [1, 1, 2, 2, 3, 3]
    assert sorted(leaders[CONTROLLER]) == [1, 1, 1, 3, 3, 3]
    assert leaders[BOTH] == [2] * 6
    for scenario in leaders:
        assert all(sorted(order) == nodes for order in placement(scenario, nodes, controller, 6).values())
