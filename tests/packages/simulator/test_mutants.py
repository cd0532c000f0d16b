"""Mutants: every known mistake is caught by a law that is named for it, and leaves nothing behind."""

from __future__ import annotations

import pytest

from moldau.replication.partition import Partition
from moldau.simulator.machines.replication_world import ReplicationSimulation
from moldau.simulator.machines.seeds import run_seed
from moldau.simulator.mutants import replication
from moldau.simulator.mutants.hunt import hunt
from moldau.simulator.mutants.mutant import Mutant, Patches
from moldau.simulator.mutants.table import MUTANTS

FAR_ENOUGH = 150
"""Seeds from ``first`` on; after a change of a world the search goes on from there."""


@pytest.mark.timeout(900)  # as many seeds as it takes, on a machine that others may use
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_known_mistake_is_caught_by_its_law(mutant: Mutant) -> None:
    catch = hunt(mutant, mutant.first, FAR_ENOUGH)
    assert catch is not None, f"{mutant.name} ({mutant.bug}) breaks no law: {mutant.what}"
    assert catch.broken.law in mutant.laws, catch.broken


def test_there_are_as_many_as_promised_and_each_has_a_name_of_its_own() -> None:
    assert len(MUTANTS) >= 40
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert sum("KAFKA-" in mutant.bug or "KIP-" in mutant.bug for mutant in MUTANTS) >= 40


def test_a_mutant_is_in_force_only_inside_its_block() -> None:
    sound = run_seed("replication", 3)
    with Patches() as patches:
        patches.set(ReplicationSimulation, "machine", replication.TruncatesToWatermark)
        assert run_seed("replication", 3).digest != sound.digest
    assert ReplicationSimulation.machine is Partition
    assert run_seed("replication", 3) == sound


def test_a_patch_of_what_is_not_there_is_refused() -> None:
    with Patches() as patches, pytest.raises(AssertionError, match="changes nothing"):
        patches.set(ReplicationSimulation, "no_such_thing", 1)
