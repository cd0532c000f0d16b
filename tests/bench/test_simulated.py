"""The bench on simulated brokers runs, and every deed of it has taken time."""

from __future__ import annotations

from pathlib import Path

import pytest


def test_each_deed_is_measured_on_simulated_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2]))
    from bench.simulated import Watch, measure

    from moldau.simulator.many import ManyPartitions

    many = ManyPartitions(100, in_a_topic=50)
    with Watch({"n1", "n2", "n3"}) as watch:
        deeds = list(measure(many, watch))
    many.close()

    assert [deed.deed.partition(" ")[0] for deed in deeds] == ["create,", "a", "a", "controlled", "the"]
    for deed in deeds:
        assert 0 < deed.largest_step_ms <= 1000 * deed.seconds
        assert deed.step[:2] in ("n1", "n2", "n3")
