"""A roll takes the active controller last, goes on where it was cut off, and fills in commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.admin.rolling import Rolled, filled, run_command, safe_order
from moldau.cluster.nodes import is_alive


def test_brokers_go_first_and_the_active_controller_last() -> None:
    assert safe_order([1, 2, 3], [1, 2, 3], 2) == [1, 3, 2]
    assert safe_order([1, 2], [7, 8, 9], 8) == [1, 2, 7, 9, 8]
    assert safe_order([2, 1], [], -1) == [1, 2]


def test_a_roll_that_was_cut_off_knows_who_was_restarted(tmp_path: Path) -> None:
    state = tmp_path / "roll.json"
    Rolled(state, "c").restarted(3)
    again = Rolled(state, "c")
    assert again.done == [3]
    again.restarted(1)
    assert Rolled(state, "c").done == [3, 1]
    again.finished()
    assert not state.exists()
    assert Rolled(state, "c").done == []


def test_a_state_of_another_cluster_or_none_at_all_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "roll.json"
    Rolled(state, "c").restarted(3)
    with pytest.raises(SystemExit, match="1"):
        Rolled(state, "d")
    state.write_text("{")
    with pytest.raises(SystemExit, match="2"):
        Rolled(state, "c")
    assert capsys.readouterr().err.count("\n") == 2


def test_only_what_is_named_is_filled_in_and_hosts_are_quoted() -> None:
    command = "ssh {host} 'kill $(cat /run/kafka-{id}.pid) && echo ${HOME} {port} {}'"
    assert filled(command, 7, "h;rm", 9) == "ssh 'h;rm' 'kill $(cat /run/kafka-7.pid) && echo ${HOME} 9 {}'"


def test_a_roll_by_another_command_is_another_roll(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kafka's nodes replaced in part, and then the way back in the same folder: the replaced ones were passed over."""
    state = tmp_path / "roll.json"
    Rolled(state, "c", "to-moldau {id}").restarted(1)
    assert Rolled(state, "c", "to-moldau {id}").done == [1]
    with pytest.raises(SystemExit):
        Rolled(state, "c", "to-kafka {id}")
    said = capsys.readouterr().err
    assert "`to-moldau {id}`, which restarted 1" in said


def test_a_command_that_does_not_end_is_told_to_when_time_is_up(tmp_path: Path) -> None:
    """`roll --command` waited for as long as an ssh that hangs."""
    began = tmp_path / "began"
    assert run_command("exit 3", 60) == 3
    assert run_command(f"echo $$ > {began}; exec sleep 600", 1) is None
    assert not is_alive(int(began.read_text()))
