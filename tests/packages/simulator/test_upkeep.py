"""What operators do to controllers in whole clusters: disks replaced, levels raised, the groups' own log compacted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from moldau.controller import facts, features
from moldau.quorum.voters import ReplicaKey
from moldau.simulator.controller_replacement import VOTES_AGAIN
from moldau.simulator.feature_upgrades import IN_THE_LOG, RAISED
from moldau.simulator.laws import rest
from moldau.simulator.laws.quorum import QuorumLaws
from moldau.simulator.mutants.mutant import Patches
from moldau.simulator.planes import plan_of
from moldau.simulator.run import RunOutcome, simulate
from moldau.simulator.scenes import COMPACTION, QUORUM, REPLACED, UPGRADE, UPKEEP, ZOOKEEPER
from tests.packages.simulator.doubles import ObservedCluster, Observer


def told(outcome: RunOutcome) -> str:
    return "\n".join([*outcome.trace, *outcome.broken, *outcome.doubts])


def test_some_plans_have_work_for_operators_and_those_of_older_seeds_have_none() -> None:
    plans = [plan_of(seed, None, QUORUM) for seed in range(100)]
    for scene in UPKEEP:
        assert 4 <= sum(scene in plan.faults for plan in plans) <= 30
        assert not any(scene in plan_of(seed, None, ZOOKEEPER).faults for seed in range(50))
        assert not any(scene in plan_of(seed, None, QUORUM, buggify=False).faults for seed in range(50))
    assert all(bool(plan.levels) == (UPGRADE in plan.faults) for plan in plans)
    assert {len(plan.first_voters) for plan in plans if REPLACED in plan.faults} <= {0, 3, 4}


def test_controllers_that_lose_their_disks_vote_again() -> None:
    outcome = simulate(1, REPLACED)
    assert outcome.verdict == "passed", told(outcome)
    assert VOTES_AGAIN in outcome.coverage


def test_levels_are_raised_while_clients_write() -> None:
    outcome = simulate(2, UPGRADE)
    assert outcome.verdict == "passed", told(outcome)
    assert {RAISED, IN_THE_LOG} <= outcome.coverage


def test_a_downgrade_that_calls_itself_an_upgrade_is_seen() -> None:
    with Patches() as patches:
        patches.set(features, "_refusal", lambda view, update: facts.FINE)
        broken = [law for seed in (1, 2, 4) for law in simulate(seed, UPGRADE).broken[:1]]
    assert any("C13" in law or "nobody asked for it" in law for law in broken), broken


def test_what_a_lost_disk_had_said_is_no_word_of_the_next_one() -> None:
    directories = {1: b"a" * 16, 2: b"b" * 16}
    plan = replace(plan_of(0, None, QUORUM), first_voters=(1, 2))
    laws = QuorumLaws(Observer(cluster=ObservedCluster(plan=plan, directories=directories)))
    laws._forget_replaced()
    history = laws._history
    history.votes |= {(1, 7): ReplicaKey(2), (2, 7): ReplicaKey(2)}
    history.epochs |= {1: 7, 2: 7}
    history.flushed |= {1: 30, 2: 30}
    directories[1] = b"c" * 16
    laws._forget_replaced()
    assert (history.votes, history.epochs, history.flushed) == ({(2, 7): ReplicaKey(2)}, {2: 7}, {1: 0, 2: 30})


@dataclass(frozen=True)
class Committer:
    """A member of a group, and what it committed."""

    commits: list[tuple[int, int, int, int, int]]


@pytest.mark.parametrize(
    ("told", "broken"),
    [
        ([(20, {0: 5})], 0),
        ([(9, {})], 0),  # asked before it was answered
        ([(20, {0: 4})], 1),
        ([(20, {})], 1),
        ([(20, {0: 5}), (40, {0: 5})], 1),  # 8 was answered at 30
        ([(20, {0: 5}), (40, {0: 9})], 0),
    ],
)
def test_a_position_that_was_committed_is_told_to_whoever_asks_later(told: Any, broken: int) -> None:
    found = rest.positions([Committer([(5, 10, 1, 0, 5), (25, 30, 1, 0, 8)])], told)
    assert len(found) == broken
    assert all(law.startswith("S18: ") for law in found)


def test_positions_survive_compactions_of_the_groups_log() -> None:
    outcome = simulate(4, COMPACTION)
    assert outcome.verdict == "passed", told(outcome)
    assert "a log of groups was compacted" in outcome.coverage
