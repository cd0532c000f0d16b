"""Hunts a mutant: runs seed after seed until a law does not hold, from several starts; counts these seeds.

A hunt leaves nothing behind: the patch is in force while its seeds run, in this process only. Read next: table.py.
"""

from __future__ import annotations

from statistics import median
from typing import NamedTuple

from moldau.simulator.machines.record import Broken
from moldau.simulator.machines.seeds import run_seed
from moldau.simulator.mutants.mutant import Mutant, Patches
from moldau.simulator.scenes import ZOOKEEPER

FAR = 100_000
"""Seeds between two hunts of the same mutant, so that they are independent."""


class Catch(NamedTuple):
    """A seed at which a law objected."""

    seed: int
    seeds: int
    broken: Broken


def hunt(mutant: Mutant, first: int, limit: int) -> Catch | None:
    """The first catch from seed ``first`` on, within ``limit`` seeds."""
    with Patches() as patches:
        mutant.patch(patches)
        for seed in range(first, first + limit):
            broken = _broken(mutant.machine, seed)
            if broken is not None:
                return Catch(seed, seed - first + 1, broken)
    return None


def _broken(machine: str, seed: int) -> Broken | None:
    plane, _, scene = machine.partition(" ")  # of whole clusters: the plane, and what breaks there if not everything
    if plane != ZOOKEEPER:
        return run_seed(machine, seed).broken
    from moldau.simulator.run import first_broken

    found = first_broken(seed, scene or None, plane)
    return None if found is None else Broken(found.partition(":")[0], found)


class Hunted(NamedTuple):
    """What several hunts came to; ``seeds`` (the median) is None when one of them found nothing."""

    name: str
    laws: tuple[str, ...]
    seeds: float | None
    catches: tuple[tuple[int, str], ...]


def hunted(mutant: Mutant, *, hunts: int, limit: int) -> Hunted:
    """Hunt several times, from independent starts. ``catches`` are (seed, what was broken)."""
    found = [hunt(mutant, number * FAR, limit) for number in range(hunts)]
    caught = [catch for catch in found if catch is not None]
    laws = tuple(sorted({catch.broken.law for catch in caught}))
    seeds = median(catch.seeds for catch in caught) if len(caught) == hunts else None
    return Hunted(mutant.name, laws, seeds, tuple((catch.seed, str(catch.broken)) for catch in caught))
