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
"""Seeds from the first on; after a change of a world the search goes on from there."""
SHOWN_BY = {
    "a_creation_that_comes_again_is_answered_from_memory": 17,
    "a_deleted_group_leaves_offsets_under_way_behind": 50,
    "a_deleted_partition_was_never_offline": 3,
    "a_deleted_replica_was_never_offline": 12,
    "a_deletion_does_not_wait": 12,
    "a_late_append_is_never_answered": 8,
    "a_leader_that_lives_is_replaced": 12,
    "a_move_ends_when_its_newcomers_are_in_sync": 5,
    "a_move_never_ends": 8,
    "a_name_made_again_is_the_old_topic": 2,
    "a_refused_deletion_forgets_the_group": 8,
    "a_replica_of_a_dead_broker_is_taken_for_online": 12,
    "a_replica_stays_offline_when_its_broker_is_back": 12,
    "a_static_members_new_id_is_not_stored": 48,
    "an_append_is_answered_when_late_and_again_when_committed": 8,
    "an_assignment_is_taken_whatever_has_happened_meanwhile": 22,
    "an_older_incarnation_may_join_an_isr": 5,
    "anybody_may_join_an_isr": 5,
    "changes_two_voters_at_once": 20,
    "counts_a_removed_voter_on": 3,
    "counts_itself_though_removed": 8,
    "counts_observers": 5,
    "elects_whoever_lives": 2,
    "keeps_leading_alone": 3,
    "leads_on_though_removed": 5,
    "learns_no_voters_from_snapshots": 5,
    "leaves_at_a_cut_what_is_known_of_producers": 2,
    "lets_observers_stand": 1,
    "members_commit_before_they_sync": 21,
    "names_snapshots_off_by_one": 5,
    "replicas_are_replaced_outright": 5,
    "resigns_for_others": 1,
    "serves_any_epoch": 12,
    "stands_without_asking_first": 2,
    "takes_any_numbers_for_a_state": 1,
    "takes_no_set_back": 3,
    "the_controllers_own_sleep_fences_all": 2,
    "the_offline_selector_asks_no_isr": 12,
    "the_offline_selector_takes_the_last_in_sync": 12,
    "the_preferred_selector_asks_no_isr": 16,
    "the_reassigned_selector_takes_the_last_in_sync": 22,
    "the_shutdown_selector_takes_the_last_who_stays": 22,
    "trims_without_a_snapshot": 2,
    "truncates_below_its_watermark": 3,
    "truncates_by_end_alone": 14,
    "trusts_a_tail_that_is_gone": 16,
    "votes_for_short_logs": 3,
    "votes_twice_in_an_epoch": 2,
    "waits_for_a_dead_leader": 3,
    "whoever_goes_is_not_told": 5,
}
"""Mutant -> the seed that shows it, where that is not the first of its hunt: two thirds of the time went into the seeds
before. It costs time only where a world has changed since."""


@pytest.mark.timeout(900)  # as many seeds as it takes, on a machine that others may use
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_known_mistake_is_caught_by_its_law(mutant: Mutant) -> None:
    catch = hunt(mutant, SHOWN_BY.get(mutant.name, mutant.first), FAR_ENOUGH)
    assert catch is not None, f"{mutant.name} ({mutant.bug}) breaks no law: {mutant.what}"
    assert catch.broken.law in mutant.laws, catch.broken


def test_seeds_are_of_mutants_that_there_are() -> None:
    assert SHOWN_BY.keys() <= {mutant.name for mutant in MUTANTS}


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
