"""Whole runs of real nodes: no law breaks, the same seed is the same history, and mutants are caught."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from moldau.replication.partition import Partition
from moldau.simulator.faults import FAULTS
from moldau.simulator.plan import draw
from moldau.simulator.planes import plan_of
from moldau.simulator.run import SCENES, RunOutcome, simulate
from moldau.simulator.scenes import QUORUM
from tests.packages.admin import test_examples as shown_lines


def told(outcome: RunOutcome) -> str:
    again = f"reproduce: moldau sim --seed {outcome.seed}"
    return "\n".join([*outcome.trace, *outcome.broken, *outcome.doubts, again])


def test_every_scene_has_its_fault() -> None:
    assert set(FAULTS) == set(SCENES)
    for scene in SCENES:
        assert plan_of(3, scene, QUORUM).faults == (scene,)


@pytest.mark.parametrize("scene", ["stop", "disk-full"])  # power: EXAMPLES
def test_one_kind_of_fault_breaks_no_law(scene: str) -> None:
    outcome = simulate(11, scene)
    assert outcome.verdict == "passed", told(outcome)
    assert set(outcome.faults) == {scene}


EXAMPLES = [tuple(given) for _, line in shown_lines.shown() if (given := shown_lines.words(line) or [""])[0] == "sim"]
"""The words of each line that runs a simulation in README.md, CONTRIBUTING.md and testing-method.md."""


def test_the_pages_show_mixed_faults_a_fault_of_one_kind_and_both_modes() -> None:
    assert ("sim", "--seed", "7") in EXAMPLES
    assert any("--scene" in words for words in EXAMPLES)
    assert any("--mode" in words for words in EXAMPLES)
    assert any("--seeds" in words for words in EXAMPLES)


@pytest.mark.parametrize("words", EXAMPLES, ids=" ".join)
def test_a_simulation_that_a_page_shows_breaks_no_law_and_is_the_same_history_in_another_process(
    words: tuple[str, ...],
) -> None:
    """Mixed faults where none is named. A line is run twice that a page gives to begin with: each takes seconds."""
    said = set()
    for number in ("1", "2") if words == ("sim", "--seed", "7") else ("1",):
        run = subprocess.run(
            [sys.executable, "-m", "moldau", *words],
            env={**os.environ, "PYTHONHASHSEED": number},
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stdout + run.stderr
        said.add(run.stdout)
    assert len(said) == 1
    told = said.pop().splitlines()
    first = int(words[words.index("--seed") + 1])
    count = int(words[words.index("--seeds") + 1]) if "--seeds" in words else 1
    ends = [line for line in told if re.match(r"seed \d+: ", line)]
    assert [line.split(", ")[0] for line in ends] == [f"seed {one}: passed" for one in range(first, first + count)]
    assert all(", trace " in line for line in ends)
    assert any("rules" in line for line in told) == (count == 1), "a table of who lived and led, of a single run"


def test_another_seed_is_another_plan() -> None:
    plans = [draw(seed) for seed in range(60)]
    assert len({plan.text() for plan in plans}) > 50
    assert {len(plan.hosts) for plan in plans} == {3, 4, 6}
    assert {plan.at_once for plan in plans} == {1, 2, 3}


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
    # One seed drifts with everything that is drawn; a mistake like this bites within a few.
    laws = {"S8", "S1", "S2"}
    assert any(
        {law.split(":")[0] for law in simulate(seed, "kill", buggify=False).broken} & laws for seed in range(5, 15)
    )


def test_a_trace_ends_with_a_table_of_which_nodes_lived_and_led() -> None:
    outcome = simulate(4, "kill")
    head, *rows, legend = outcome.timeline
    assert head.split()[:4] == ["seconds", "n1", "n2", "n3"]
    assert "safe-0" in head
    assert any("dead" in row for row in rows)
    assert any("up*" in row for row in rows)
    assert "rules" in legend
    assert "faults: kill" in outcome.plan
