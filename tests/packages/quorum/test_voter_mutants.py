"""Testing the laws of voter changes: each mutant is a known mistake, and a law or a bounded time catches it.

Most are also hunted by ``make mutants`` under drawn faults; the others need what only a scenario does.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moldau.model.value import replace
from moldau.quorum import LogView, VoterLog, changes
from moldau.quorum.state import Quorum
from moldau.simulator.machines.voters_world import VoterSimulation
from moldau.simulator.mutants import voters as mutants
from moldau.simulator.mutants.mutant import Patches
from tests.packages.quorum.test_voter_changes import (
    test_a_change_over_the_head_of_a_majority_is_taken_back as take_back,
)
from tests.packages.quorum.test_voter_changes import (
    test_one_controller_grows_to_three_and_shrinks_to_another_one as grow_and_shrink,
)
from tests.packages.quorum.test_voter_changes import (
    test_two_voters_of_whom_the_removed_leader_dies_with_the_news as die_with_the_news,
)
from tests.packages.quorum.test_voter_changes import (
    test_what_cannot_be_is_refused_by_name as refuse,
)

Patch = Callable[[Patches], None]


def the_formatted_set_is_not_copied(patches: Patches) -> None:
    """Only those that were formatted with it would ever know it."""
    real = VoterLog.offset.fget  # type: ignore[attr-defined]
    patches.set(VoterLog, "offset", property(lambda self: max(real(self), 0)))


def the_removed_never_stand(patches: Patches) -> None:
    patches.set(Quorum, "may_stand", property(lambda self: self.is_voter))


def a_new_voter_need_not_catch_up(patches: Patches) -> None:
    patches.set(changes, "_caught_up", lambda role, key, asked_ms: True)


def the_snapshot_at_the_start_of_the_log_goes(patches: Patches) -> None:
    """Nothing is left that says what the records below the start were."""
    real = LogView.trimmed

    def trimmed(self: LogView, start: int) -> LogView:
        log = real(self, start)
        return replace(log, snapshots=tuple(point for point in log.snapshots if point.offset > start))

    patches.set(LogView, "trimmed", trimmed)


def with_snapshots(seed: int) -> None:
    world = VoterSimulation(seed, voters=1, observers=2, snapshot_every=5)
    world.run(lambda: world.any_reached(10))
    world.add(1)
    world.run(lambda: all(node.disk.start > 20 for node in world.nodes.values()))
    world.kill(2)
    world.wipe(2)
    world.boot(2)
    goal = world.most_committed() + 20
    world.run(lambda: world.all_reached(goal))
    assert {quorum.voters.ids for quorum in world.running()} == {(0, 1)}, "a snapshot says who votes"


def hasty(seed: int) -> None:
    """Changes are asked of whoever is elected, at once and all at once."""
    world = VoterSimulation(seed, voters=3, observers=2)
    world.run(lambda: world.any_reached(10))
    for context in range(4):
        leads = world.leader()
        if leads is not None:
            world.kill(leads, power=False)
        world.run(lambda: world.leader() is not None)
        for id in (context % 5, (context + 1) % 5):
            world.remove(id, 50)
        for id in world.nodes:
            world.boot(id)
        world.run_for(300)


def at_once(seed: int) -> None:
    """Two voters are removed in the same moment."""
    world = VoterSimulation(seed, voters=3, observers=0)
    world.run(lambda: world.any_reached(10))
    leads = world.leader()
    assert leads is not None
    world.remove((leads + 1) % 3)
    world.remove((leads + 2) % 3)
    world.run_for(500)


def shrink_while_one_is_away(seed: int) -> None:
    """Of three, one is down and the leader removes itself: what it commits must be on both that remain."""
    world = VoterSimulation(seed, voters=3, observers=0)
    world.run(lambda: world.any_reached(10))
    leads = world.leader()
    assert leads is not None
    world.kill((leads + 1) % 3)
    world.remove(leads, 500)
    world.run_for(1500)
    world.boot((leads + 1) % 3)
    goal = world.most_committed() + 20
    world.run(lambda: world.all_reached(goal))


MUTANTS: list[tuple[Patch, Callable[..., None], str]] = [
    (mutants.changes_before_its_own_epoch_is_committed, hasty, "R9.*too early"),
    (mutants.changes_two_voters_at_once, at_once, "R9.*uncommitted"),
    (mutants.ignores_an_uncommitted_set, grow_and_shrink, "R8|R9"),
    (mutants.takes_no_set_back, take_back, "R9.*beyond"),
    (mutants.counts_itself_though_removed, shrink_while_one_is_away, "R5|R9"),
    (mutants.leads_on_though_removed, grow_and_shrink, "R9.*still leads"),
    (the_formatted_set_is_not_copied, grow_and_shrink, "from the log"),
    (the_removed_never_stand, die_with_the_news, "L8"),
    (a_new_voter_need_not_catch_up, refuse, "one change at a time|caught up"),
    (the_snapshot_at_the_start_of_the_log_goes, with_snapshots, "R7"),
    (mutants.learns_no_voters_from_snapshots, with_snapshots, "a snapshot says|not within"),
    (mutants.counts_a_removed_voter_on, take_back, "R8|R9"),
]


def try_all(scenario: Callable[..., None]) -> None:
    takes_seed = scenario.__code__.co_argcount > 0
    for seed in range(20 if takes_seed else 1):
        scenario(*([seed] if takes_seed else []))


@pytest.mark.parametrize(("mutant", "scenario", "by"), MUTANTS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_known_mistake_with_voters_is_caught(mutant: Patch, scenario: Callable[..., None], by: str) -> None:
    with Patches() as patches:
        mutant(patches)
        with pytest.raises(AssertionError, match=by):
            try_all(scenario)


@pytest.mark.parametrize("scenario", [hasty, at_once, shrink_while_one_is_away, with_snapshots])
def test_the_same_without_a_mistake_is_not(scenario: Callable[[int], None]) -> None:
    for seed in range(3):
        scenario(seed)
