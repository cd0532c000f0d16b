"""Whole runs of real nodes: no law breaks, the same seed is the same history, and a mutant is caught."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from moldau.replication.partition import Partition
from moldau.simulator.run import SCENES, simulate


@pytest.mark.parametrize("scene", SCENES)
def test_one_kind_of_trouble_breaks_no_law(scene: str) -> None:
    outcome = simulate(1, scene)
    assert not outcome.broken, "\n".join([*outcome.story, *outcome.broken])
    assert outcome.acked > 20


@pytest.mark.parametrize("seed", range(1, 7))
def test_mixed_troubles_break_no_law(seed: int) -> None:
    outcome = simulate(seed)
    assert not outcome.broken, "\n".join([*outcome.story, *outcome.broken, f"reproduce: moldau sim --seed {seed}"])


def test_the_same_seed_is_the_same_history_in_another_process() -> None:
    said = {
        subprocess.run(
            [sys.executable, "-m", "moldau", "sim", "--seed", "4"],
            env={**os.environ, "PYTHONHASHSEED": number},
            capture_output=True,
            check=False,
        ).stdout
        for number in ("1", "2")
    }
    assert len(said) == 1
    assert b"trace" in said.pop()


def test_a_watermark_that_waits_for_nobody_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def hasty(self: Partition, now_ms: int) -> object:
        from moldau.replication.effects import HighWatermark

        end = self._log.log_end_offset
        if self.role.name != "LEADER" or end <= self.high_watermark:
            return ()
        self.high_watermark = end
        return (HighWatermark(end),)

    monkeypatch.setattr(Partition, "_advance", hasty)
    monkeypatch.setattr(Partition, "appended", hasty)
    broken = [law for seed in (5, 7, 8) for law in simulate(seed, "one-way").broken]
    assert any(law.startswith("S1:") for law in broken), broken
