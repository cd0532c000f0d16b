"""Seeded worlds with every law on: Kafka's own raft scenarios, and chaos. ``MOLDAU_SEEDS=2000`` for a long night."""

from __future__ import annotations

import os
from typing import Any

import pytest

from moldau.model import Code
from moldau.quorum import (
    At,
    ElectionState,
    LogView,
    OffsetAndEpoch,
    Quorum,
    ReplicaKey,
    Unattached,
    VoterSet,
    election,
    start,
    step,
)
from moldau.quorum import effects as do
from moldau.quorum import events as on
from moldau.quorum.follower import CommittedMetadataLost
from moldau.quorum.messages import RaftFetchResponse
from moldau.simulator.machines.quorum_world import QuorumSimulation

SEEDS = int(os.environ.get("MOLDAU_SEEDS", "6"))


def seeded(seed: int, **kind: Any) -> QuorumSimulation:
    """A world whose size follows from its seed, unless said otherwise."""
    return QuorumSimulation(seed, **{"voters": (3, 4, 5)[seed % 3], "observers": seed % 4, **kind})


def warmed_up(world: QuorumSimulation) -> int:
    world.run(world.consistent_leader)
    world.run(lambda: world.any_reached(10))
    leader = world.leader()
    assert leader is not None
    return leader


@pytest.mark.parametrize("seed", range(SEEDS))
def test_an_initial_leader_is_elected(seed: int) -> None:
    world = seeded(seed, voters=1 + seed % 5)
    world.run(world.consistent_leader)
    world.run(lambda: world.all_reached(10))


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("graceful", [True, False])
def test_a_new_leader_is_elected_after_the_old_one_is_gone(seed: int, graceful: bool) -> None:
    world = seeded(seed)
    leader = warmed_up(world)
    if graceful:
        world.shut_down(leader)
    else:
        world.kill(leader)
    world.run(lambda: world.all_reached(20))
    goal = world.most_committed() + 10
    world.boot(leader)
    world.run(lambda: world.all_reached(goal))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_majority_recovers_after_all_were_killed(seed: int) -> None:
    world = seeded(seed, voters=1 + seed % 5)
    warmed_up(world)
    goal = world.most_committed() + 10
    for id in world.nodes:
        world.kill(id)
    for id in range(world.voters // 2 + 1):
        world.boot(id)
    world.run(lambda: world.all_reached(goal))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_leader_cut_off_is_replaced(seed: int) -> None:
    world = seeded(seed)
    leader = warmed_up(world)
    world.blocked = lambda source, target: leader in (source, target)
    rest = set(world.nodes) - {leader}
    goal = world.most_committed() + 20
    world.run(lambda: world.all_reached(goal, rest))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_progress_is_made_where_a_majority_is_reachable(seed: int) -> None:
    world = seeded(seed, voters=5, observers=seed % 4)
    warmed_up(world)
    few = {0, 1}
    world.blocked = lambda source, target: (source in few) != (target in few)
    goal = world.most_committed() + 50
    world.run(lambda: world.any_reached(goal))
    assert world.most_committed({2, 3, 4}) > world.most_committed(few)
    world.blocked = lambda source, target: False
    goal = world.most_committed() + 50
    world.run(lambda: world.all_reached(goal))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_progress_goes_on_after_leaders_fail_back_to_back(seed: int) -> None:
    world = seeded(seed)
    first = warmed_up(world)
    world.blocked = lambda source, target: first in (source, target)
    world.run(lambda: world.leader() not in (None, first))
    second = world.leader()
    world.blocked = lambda source, target: second in (source, target)
    goal = world.most_committed() + 10
    world.run(lambda: world.any_reached(goal))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_one_voter_that_lost_its_disk_is_healed_once_a_leader_exists(seed: int) -> None:
    world = seeded(seed, check_majority=False)
    warmed_up(world)
    victim = world.rng.randrange(world.voters)
    world.wipe(victim)
    world.run(lambda: world.leader() not in (None, victim) and world.consistent_leader())
    goal = world.most_committed() + 10
    world.boot(victim)
    world.run(lambda: world.all_reached(goal))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_majority_that_lost_its_logs_waits_for_one_that_has_them(seed: int) -> None:
    """What was committed is on record beside the log: they elect none of themselves, and lose nothing."""
    world = seeded(seed, voters=3, check_majority=False)
    warmed_up(world)
    goal = world.most_committed()
    world.run(lambda: world.all_reached(goal))
    kept = world.rng.randrange(3)
    for id in world.nodes:
        world.kill(id)
    lost = [id for id in range(3) if id != kept]
    for id in lost:
        world.lose_log(id)
        world.boot(id)
    world.run_for(20_000)
    assert world.leader() is None
    assert not any(world.nodes[id].disk.entries for id in lost)
    world.boot(kept)
    goal = world.most_committed() + 10
    world.run(lambda: world.all_reached(goal))


def test_a_law_catches_voters_that_lost_their_logs_and_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Quorum, "lacks_committed", property(lambda self: False))
    monkeypatch.setattr(election, "_log_is_as_new", lambda quorum, request: request.last >= (0, 0))
    with pytest.raises(AssertionError, match="R1|R3"):
        test_a_majority_that_lost_its_logs_waits_for_one_that_has_them(0)


def test_what_is_on_record_as_committed_is_not_cut_after_a_start() -> None:
    """The watermark is not known again until a leader says it; the note beside the log is."""
    log = LogView().appended(5, 1).flushed_to(5)
    voters = VoterSet.of(1, 2, 3)
    blank = Quorum(me=ReplicaKey(1), voters=voters, role=Unattached(0), log=log, committed_before=4)
    for end, lost in ((4, False), (2, True)):
        quorum, effects = start(blank, ElectionState(3, 2), At(0, 0))
        (request,) = [effect.request for effect in effects if isinstance(effect, do.SendRequest)]
        answer = RaftFetchResponse(Code.NONE, 3, 2, diverging=OffsetAndEpoch(end, 1))
        if lost:
            with pytest.raises(CommittedMetadataLost, match="up to 4 it was committed"):
                step(quorum, on.ResponseReceived(2, request, answer), At(1, 0))
            continue
        _, effects = step(quorum, on.ResponseReceived(2, request, answer), At(1, 0))
        assert do.Truncate(end) in effects


@pytest.mark.parametrize("seed", range(SEEDS * 4))
def test_chaos_breaks_no_law_and_the_quorum_recovers(seed: int) -> None:
    """Loss, crashes between effects, kills, pauses, partitions, snapshots; then peace, and everybody catches up."""
    world = seeded(
        seed, propose_ms=60, loss=0.02 * (seed % 3), crash=0.0004 * (seed % 4), snapshot_every=(0, 8)[seed % 2]
    )
    rng = world.rng
    for _ in range(6):
        world.run_for(rng.randrange(100, 1500))
        victim = rng.randrange(len(world.nodes))
        match rng.randrange(5):
            case 0:
                world.kill(victim)
                world.after(rng.randrange(3000), lambda id=victim: world.boot(id))
            case 1:
                world.pause(victim, rng.randrange(4000))
            case 2:
                few = {victim, rng.randrange(len(world.nodes))}
                world.blocked = lambda source, target, few=few: (source in few) != (target in few)
            case 3:
                world.blocked = lambda source, target, cut=victim: source == cut
            case 4:
                leader = world.leader()
                if leader is not None:
                    world.kill(leader, power=bool(rng.randrange(2)))
                    world.after(rng.randrange(2000), lambda id=leader: world.boot(id))
    world.blocked = lambda source, target: False
    world.loss = world.crash = 0.0
    world.run_for(5000)
    for id in world.nodes:
        world.boot(id)
    goal = world.most_committed() + 20
    world.run(lambda: world.all_reached(goal), 30_000)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_follower_far_behind_loads_a_snapshot(seed: int) -> None:
    world = seeded(seed, voters=3, observers=1, snapshot_every=10)
    leader = warmed_up(world)
    victim = next(id for id in (3, 2, 1, 0) if id != leader and (id == 3) == (seed % 2 == 0))
    world.kill(victim)
    world.run(lambda: all(node.disk.start > 20 for node in world.nodes.values() if node.id != victim))
    behind = world.nodes[victim].disk.end
    world.boot(victim)
    goal = world.most_committed() + 10
    world.run(lambda: world.all_reached(goal))
    assert world.nodes[victim].disk.start > behind


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_dead_leader_is_replaced_long_before_any_timeout(seed: int) -> None:
    """Refused connections are news enough; the fetch timeout would be two seconds."""
    world = seeded(seed, voters=3)
    world.run_for(3000)
    leader = world.leader()
    assert leader is not None
    killed_at = world.now
    world.kill(leader, power=False)
    world.run(lambda: any(node.active is not None for node in world.nodes.values() if node.quorum is not None))
    assert world.now - killed_at < 500


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_voter_back_from_isolation_deposes_nobody(seed: int) -> None:
    """KIP-996: it asks before it stands, so the epoch is where it was (L8)."""
    world = seeded(seed, voters=3)
    leader = warmed_up(world)
    epoch = world.history.exposed[0]
    alone = next(id for id in range(3) if id != leader)
    world.blocked = lambda source, target: alone in (source, target)
    world.run_for(10_000)
    world.blocked = lambda source, target: False
    goal = world.most_committed() + 20
    world.run(lambda: world.all_reached(goal))
    assert (world.leader(), world.history.exposed[0]) == (leader, epoch)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_leadership_is_handed_over_in_a_few_round_trips(seed: int) -> None:
    """The first successor stands at once; nobody waits for a timeout."""
    world = seeded(seed, voters=3)
    leader = warmed_up(world)
    at = world.now
    world.shut_down(leader)
    world.run(lambda: any(node.active is not None for node in world.nodes.values() if node.id != leader))
    assert world.now - at < 150


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_leader_that_loses_its_tail_and_comes_right_back_hurts_nobody(seed: int) -> None:
    """It may have exposed what only the others had flushed; it must not write its epoch a second time."""
    world = seeded(seed, voters=3, observers=0, propose_ms=5, sync_ms=60)
    for _ in range(12):
        world.run(lambda: any(node.active is not None for node in world.nodes.values()))
        leader = world.leader()
        assert leader is not None
        world.run_for(world.rng.randrange(30))
        world.kill(leader)
        world.run_for(world.rng.randrange(3))
        world.boot(leader)
    goal = world.most_committed() + 10
    world.run(lambda: world.all_reached(goal))
