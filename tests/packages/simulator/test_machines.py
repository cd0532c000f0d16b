"""Tier A: the machines' worlds keep every law, hit their marks, and are the same history in any process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from moldau.simulator.machines.record import Broken, RunRecord, law_id, verdict
from moldau.simulator.machines.seeds import MACHINES, coverage_points_of, run_seed

SEEDS = {"quorum": 25, "voters": 25, "replication": 120, "controller": 20, "active_controller": 30, "groups": 40}
FOUND = {
    (
        "controller",
        52,
    ): "a broker back from a crash kept its place in an ISR of the dead, and could lead before the whole",
}


@pytest.mark.parametrize("machine", MACHINES)
def test_no_law_breaks_under_any_faults(machine: str) -> None:
    coverage: set[str] = set()
    for seed in range(SEEDS[machine]):
        outcome = run_seed(machine, seed)
        assert outcome.broken is None, "\n".join(
            [*outcome.trace, str(outcome.broken), f"reproduce: {outcome.reproduce}"]
        )
        assert outcome.events
        assert outcome.checks >= outcome.events
        coverage |= outcome.coverage
    # a world in which next to nothing happens proves nothing; all of them are asked for in a whole campaign only
    assert len(coverage & coverage_points_of(machine)) > 0.7 * len(coverage_points_of(machine)), sorted(
        coverage_points_of(machine) - coverage
    )


@pytest.mark.parametrize(("machine", "seed"), FOUND, ids=lambda value: str(value))
def test_what_a_seed_once_found_stays_mended(machine: str, seed: int) -> None:
    assert run_seed(machine, seed).broken is None


def test_the_same_seed_is_the_same_history_in_another_process() -> None:
    code = "from moldau.simulator.machines.seeds import MACHINES, run_seed\n"
    code += "print([run_seed(machine, 7).digest for machine in MACHINES])"
    said = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": number}, capture_output=True, check=True
        ).stdout
        for number in ("1", "2")
    }
    here = [run_seed(machine, 7).digest for machine in MACHINES]
    assert said == {f"{here}\n".encode()}


@pytest.mark.parametrize("machine", MACHINES)
def test_seeds_differ(machine: str) -> None:
    assert len({run_seed(machine, seed).digest for seed in range(6)}) == 6


def test_a_broken_law_is_named_by_its_id() -> None:
    def law(ok: bool) -> str | None:
        """S99: it is so."""
        return None if ok else "it is not so"

    def asserted(ok: bool) -> None:
        """By R98, and others."""
        assert ok, "it is not"

    record = RunRecord()
    record.check(law, True)
    with pytest.raises(Broken, match="S99: it is not so"):
        record.check(law, False)
    with pytest.raises(Broken, match="R98: it is not"):
        record.check(asserted, False)
    assert record.checks == 3
    assert law_id(asserted) == "R98"


def test_a_machine_that_raises_has_broken_a_law_too() -> None:
    assert verdict(KeyError("x")).law == "X7"
    assert verdict(AssertionError("R2: twice")).law == "R2"
    assert verdict(AssertionError("my own check")).law == "X7"
