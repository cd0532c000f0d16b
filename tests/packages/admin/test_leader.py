"""Leader imbalance as the command counts it, and command lines that make no sense."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from moldau.admin import asking
from moldau.admin.cli import cli
from moldau.admin.leader import imbalances
from moldau.client.view import Partition, Topic


def topic(*parts: tuple[int, list[int]]) -> Topic:
    """(leader, replicas) of each partition."""
    numbered = {n: Partition(n, leader, 0, replicas, replicas, []) for n, (leader, replicas) in enumerate(parts)}
    return Topic("t", bytes(16), numbered)


def test_a_broker_that_leads_one_of_its_five_is_out_of_balance_by_eighty_per_cent() -> None:
    mine = [(2, [2, 0]), *[(0, [2, 0])] * 4]
    rows = imbalances({"t": topic(*mine, *[(0, [0, 1])] * 5, *[(1, [1, 2])] * 5)}, [0, 1, 2])
    assert [(r["broker"], r["preferred"], r["leads"], r["astray"], r["imbalance_percent"]) for r in rows] == [
        (0, 5, 9, 0, 0.0),
        (1, 5, 5, 0, 0.0),
        (2, 5, 1, 4, 80.0),
    ]


def test_a_dead_broker_and_a_partition_without_a_leader_are_counted_too() -> None:
    rows = imbalances({"t": topic((-1, [3, 0]))}, [0])
    assert [(r["broker"], r["alive"], r["replicas"], r["imbalance_percent"]) for r in rows] == [
        (0, True, 1, 0.0),
        (3, False, 1, 100.0),
    ]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("leader elect", "for what?"),
        ("leader elect --all --topic t", "for what?"),
        ("leader elect --all --partition 1", "--partition needs --topic"),
        ("reassign generate --brokers 1,2", "which topics?"),
        ("reassign generate --topic t --brokers 1;2", "ids with commas"),
        ("reassign verify --plan {bad}", "expected"),
        ("reassign list --bootstrap-server nowhere", "nowhere"),
        ("reassign execute --plan /nowhere.json", "does not exist"),
    ],
)
def test_a_command_line_that_makes_no_sense_ends_with_two_and_says_why(words: str, says: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("nonsense")
    done = CliRunner().invoke(cli, words.format(bad=bad).split())
    assert done.exit_code == 2
    assert says in done.output


def test_a_cluster_that_does_not_answer_ends_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "PATIENCE_MS", 200)
    monkeypatch.setattr(asking, "NOBODY_S", 0.2)
    done = CliRunner().invoke(cli, ["leader", "elect", "--topic", "t", "--bootstrap-server", "127.0.0.1:9"])
    assert done.exit_code == 1
    assert "127.0.0.1:9" in done.output
