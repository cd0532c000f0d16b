"""``run_seed("quorum", 417)`` runs one seed of one machine and returns its outcome. The table of machines is here.

``moldau sim --tier a --machine quorum --seed 417`` calls it and prints the trace; the campaign (``make sim``) and the
hunt for mutants call it by the thousand.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

from moldau.simulator.machines.record import Broken, RunRecord, verdict

MACHINES = ("quorum", "voters", "replication", "controller", "active_controller", "groups")


class SeedOutcome(NamedTuple):
    """``broken`` is the law that did not hold, ``trace`` the last things that happened."""

    machine: str
    seed: int
    digest: str
    events: int
    checks: int
    virtual_ms: int
    coverage: frozenset[str]
    broken: Broken | None
    trace: tuple[str, ...]

    @property
    def reproduce(self) -> str:
        return f"moldau sim --tier a --machine {self.machine} --seed {self.seed}"


def play_of(machine: str) -> Callable[[int, RunRecord], None]:
    """The whole run of a machine: faults, healing, convergence. Raises what it finds."""
    play: Callable[[int, RunRecord], None] = import_module(f"moldau.simulator.machines.{machine}_swarm").play
    return play


def coverage_points_of(machine: str) -> frozenset[str]:
    """Return the coverage points that a night of seeds must reach."""
    coverage: frozenset[str] = import_module(f"moldau.simulator.machines.{machine}_swarm").COVERAGE_POINTS
    return coverage


def run_seed(machine: str, seed: int) -> SeedOutcome:
    """Run one seed to its end, or to the first law that breaks."""
    record = RunRecord()
    broken = None
    try:
        play_of(machine)(seed, record)
    except Exception as error:
        broken = verdict(error)
    return SeedOutcome(
        machine, seed, record.digest, record.events, record.checks, record.virtual_ms, frozenset(record.coverage),
        broken, tuple(record.trace),
    )  # fmt: skip
