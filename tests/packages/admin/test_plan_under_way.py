"""Plans that are made while partitions move, or where a plan lies that has not ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.admin.reassignment import journal as journals
from moldau.admin.reassignment.cluster import origins, targets
from moldau.admin.reassignment.plan_command import _demand_over
from moldau.client.admin import Reassignment
from moldau.model import TopicPartition

MOVED, LEFT = TopicPartition("t", 0), TopicPartition("t", 1)


def test_what_a_partition_holds_while_it_moves_is_not_taken_for_what_it_is_to_hold() -> None:
    """A plan to drain a broker, made while a move was under way, gave the partition a replica more for ever."""
    held = {MOVED: [2, 5, 4, 3], LEFT: [1, 2]}
    moving = {MOVED: Reassignment([2, 5, 4, 3], [5], [3])}
    assert targets(held, moving) == {MOVED: [2, 5, 4], LEFT: [1, 2]}
    assert origins(held, moving) == {MOVED: [2, 4, 3], LEFT: [1, 2]}


@pytest.mark.parametrize("state", journals.STATES)
def test_a_plan_is_not_written_over_one_that_has_not_ended(
    tmp_path: Path, state: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was being applied could then neither be paused nor called off: its plan was another one."""
    out = tmp_path / "plan.json"
    _demand_over(out)
    journals.write(out, journals.Journal(cluster="c", plan={MOVED: [1]}, before={MOVED: [2]}, state=state))
    if state in journals.ENDED:
        _demand_over(out)
        return
    with pytest.raises(SystemExit) as ended:
        _demand_over(out)
    assert ended.value.code == 1
    assert f"holds a plan that is {state}" in capsys.readouterr().err
