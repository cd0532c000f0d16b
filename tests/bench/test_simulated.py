"""The bench on simulated brokers runs, and every action of it has taken time."""

from __future__ import annotations

from pathlib import Path

import pytest


def test_each_action_is_measured_on_simulated_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2]))
    from bench.simulated import Watch, measure

    from moldau.simulator.many import ManyPartitions

    many = ManyPartitions(100, in_a_topic=50)
    with Watch({"n1", "n2", "n3"}) as watch:
        actions = list(measure(many, watch))
    many.close()

    assert [action.action.partition(" ")[0] for action in actions] == ["create,", "a", "a", "controlled", "the"]
    for action in actions:
        assert 0 < action.largest_step_ms <= 1000 * action.seconds
        assert action.step[:2] in ("n1", "n2", "n3")
