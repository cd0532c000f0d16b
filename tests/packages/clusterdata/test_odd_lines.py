"""Lines of logs that nobody should have written: a date that is none, a number that no cluster has. They are told as
they stand there, or counted; no command ends by them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from moldau.admin.cli import cli
from tests.packages.clusterdata.state_lines import by_controller, by_follower, line

ODD_DATES = (
    "2026-02-30 13:41:05", "2026-13-01 13:41:05", "2026-11-27 25:41:05", "2026-11-27 13:41:60", "0000-01-01 13:41:05",
    "0001-01-01 13:41:05",
)  # fmt: skip
LEADS = by_controller(4, (1, 1), 2, [1, 2])
FOLLOWS = by_follower(5, (1, 1), 1, 2)
COMMANDS = (
    "log timeline orders-0 -l", "log why orders-0 -l", "log skew -l", "log merge -o json", "job timeline", "job splits",
)  # fmt: skip


def at(date: str, entry: str) -> str:
    return f"[{date},000{entry[24:]}"


def twin(partition_epoch: int, **facts: object) -> str:
    """What a controller's JSON line says of a decision under leader epoch 1, at 2026-11-27 13:41 of some zone."""
    told = {
        "time_ms": 1_795_786_864_000, "controller": 1, "controllerEpoch": 3, "topic": "orders", "partition": 0,
        "from": "OnlinePartition", "to": "OnlinePartition", "leader": 2, "leaderEpoch": 1, "isr": [1, 2],
        "replicas": [1, 2], "partitionEpoch": partition_epoch, "why": "as told",
    }  # fmt: skip
    return json.dumps(told | facts)


def said(command: str, *folders: Path) -> str:
    done = CliRunner().invoke(cli, [*command.split(), *map(str, folders)])
    assert done.exception is None, (command, done.exception, done.output)
    return done.output


@pytest.mark.parametrize("odd", ODD_DATES)
def test_a_date_that_is_none_ends_no_command(tmp_path: Path, odd: str) -> None:
    """`log skew`, `timeline` and whatever compared a line with its JSON line ended with a ValueError."""
    texts = "\n".join(
        (LEADS, FOLLOWS, at(odd, by_controller(4, (1, 2), 2, [2])), at(odd, by_follower(5, (1, 2), 1, 2)))
    )
    (tmp_path / "state-change.log").write_text(texts + "\n")
    twins = (twin(1), twin(2, isr=[2]), twin(3, isr=[2, 3]))  # of the last there is no line
    for beside in ("", "\n".join(twins) + "\n"):
        (tmp_path / "state-change.jsonl").write_text(beside)
        told = {command: said(command, tmp_path) for command in COMMANDS}
        assert all(odd in told[one] for one in COMMANDS if "merge" in one or "timeline" in one), told
        no_dates = f"2 entries have a time that is no date, as {odd},000: "
        assert f"{no_dates}left out" in told["log skew -l"] or odd < "0002"
        for one in ("log timeline orders-0 -l", "log why orders-0 -l"):
            assert f"{no_dates}taken in by its text" in told[one] or odd < "0002"


@pytest.mark.parametrize("number", ["7" * 5_000, "70000000000"])
def test_a_number_that_no_cluster_has_ends_no_command(tmp_path: Path, number: str) -> None:
    huge = [
        line(6, f"[Broker id={number}] Leader orders-0 starts at leader epoch 2"),
        line(7, f"[Controller id=1 epoch=3] Sending LeaderAndIsr request for partition orders-{number}"),
    ]
    (tmp_path / "state-change.log").write_text("\n".join((LEADS, FOLLOWS, *huge)) + "\n")
    (tmp_path / "state-change.jsonl").write_text(twin(1) + "\n" + twin(2).replace('"leader": 2', f'"leader": {number}'))
    told = {command: said(command, tmp_path) for command in COMMANDS}
    assert "2 lines are no entries" in told["job splits"]
    assert number not in told["log timeline orders-0 -l"]


def test_a_row_of_a_timeline_has_the_replicas_of_its_time(tmp_path: Path) -> None:
    """Each row had those that were assigned at the end."""
    moved = [twin(1), twin(2, replicas=[1, 2, 3], isr=[1, 2]), twin(3, replicas=[2, 3], isr=[2, 3])]
    (tmp_path / "state-change.jsonl").write_text("\n".join(moved) + "\n")
    rows = json.loads(said("job timeline -o json", tmp_path))
    assert [row["replicas"] for row in rows] == [[1, 2], [1, 2, 3], [2, 3]]
    assert "replicas 2,3" in said("log timeline orders-0 -l", tmp_path)
