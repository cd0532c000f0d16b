"""One seed of one machine: ``run_seed("quorum", 417)``. The table of machines is here, and what a run came to.

``moldau sim --tier a --machine quorum --seed 417`` calls it and tells the story; the campaign (``make sim``) and the
bug zoo call it by the thousand.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

from moldau.simulator.machines.record import Broken, Record, verdict

MACHINES = ("quorum", "voters", "replication", "controller", "active_controller", "groups")


class Outcome(NamedTuple):
    """``broken`` is the law that did not hold, ``story`` the last things that happened."""

    machine: str
    seed: int
    digest: str
    events: int
    checks: int
    virtual_ms: int
    marks: frozenset[str]
    broken: Broken | None
    story: tuple[str, ...]

    @property
    def reproduce(self) -> str:
        return f"moldau sim --tier a --machine {self.machine} --seed {self.seed}"


def play_of(machine: str) -> Callable[[int, Record], None]:
    """The whole run of a machine: faults, healing, convergence. Raises what it finds."""
    play: Callable[[int, Record], None] = import_module(f"moldau.simulator.machines.{machine}_swarm").play
    return play


def marks_of(machine: str) -> frozenset[str]:
    """The marks that a night of seeds must hit."""
    marks: frozenset[str] = import_module(f"moldau.simulator.machines.{machine}_swarm").MARKS
    return marks


def run_seed(machine: str, seed: int) -> Outcome:
    """Run one seed to its end, or to the first law that breaks."""
    record = Record()
    broken = None
    try:
        play_of(machine)(seed, record)
    except Exception as error:
        broken = verdict(error)
    return Outcome(
        machine, seed, record.digest, record.events, record.checks, record.virtual_ms, frozenset(record.marks), broken,
        tuple(record.story),
    )  # fmt: skip
