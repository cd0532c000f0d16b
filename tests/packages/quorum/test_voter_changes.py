"""Voters added, removed and moved (KIP-853), in peace and under faults drawn by Hypothesis; all laws, at every event.

``MOLDAU_EXAMPLES=2000`` for a long night.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moldau.model import Code
from moldau.quorum import At, Leader, LogView, Progress, Quorum, ReplicaKey, VoterSet
from moldau.quorum.leader import _note
from moldau.quorum.state import StepContext
from moldau.simulator.machines.voters_world import VoterSimulation, voter

EXAMPLES = int(os.environ.get("MOLDAU_EXAMPLES", "12"))
SEEDS = range(int(os.environ.get("MOLDAU_SEEDS", "4")))


def peaceful(seed: int, voters: int, observers: int, **more: int) -> VoterSimulation:
    world = VoterSimulation(seed, voters=voters, observers=observers, **more)  # type: ignore[arg-type]
    world.run(lambda: world.any_reached(10))
    return world


def changed(world: VoterSimulation, what: str, id: int, limit_ms: int = 20_000) -> Code:
    """Ask for a change and wait for its answer."""
    before = len(world.answers)
    (world.add if what == "add" else world.remove)(id)
    world.run(lambda: len(world.answers) > before, limit_ms)
    return world.answers[-1]


@pytest.mark.parametrize("seed", SEEDS)
def test_one_controller_grows_to_three_and_shrinks_to_another_one(seed: int) -> None:
    world = peaceful(seed, 1, 2)
    world.run(lambda: world.all_reached(10))
    assert {quorum.voters.ids for quorum in world.running()} == {(0,)}, "the others know it from the log"
    assert changed(world, "add", 1) is Code.NONE
    assert changed(world, "add", 2) is Code.NONE
    assert world.voting() == (0, 1, 2)
    assert changed(world, "remove", 0) is Code.NONE  # it leads
    world.run(lambda: world.leader() in (1, 2) and world.nodes[world.leader()].active is not None)  # type: ignore[index]
    assert world.voting() == (1, 2)
    leader = world.leader()
    assert leader is not None
    world.run(world.consistent_leader)
    assert changed(world, "remove", leader) is Code.NONE
    rest = 3 - leader
    world.run(lambda: world.leader() == rest and world.nodes[rest].active is not None)
    assert world.voting() == (rest,)
    goal = world.most_committed() + 20
    world.run(lambda: world.all_reached(goal))


@pytest.mark.parametrize("seed", SEEDS)
def test_voters_that_nobody_of_today_knows_find_the_quorum_again(seed: int) -> None:
    """All that its log knows are gone: the list of addresses is the way back."""
    world = peaceful(seed, 1, 3)
    assert changed(world, "add", 1) is Code.NONE
    world.run(lambda: world.all_reached(20))
    world.kill(0)
    world.run_for(100)
    world.boot(0)
    world.run(lambda: world.leader() is not None)
    for id in (2, 3):
        world.run(lambda: world.nodes[world.leader() or 0].active is not None)
        assert changed(world, "add", id) is Code.NONE
    sleeper = 1 if world.leader() == 0 else 0
    world.kill(sleeper)
    for id in (0, 1):
        if id != world.leader():
            assert changed(world, "remove", id) is Code.NONE
    leader = world.leader()
    if leader in (0, 1):
        assert changed(world, "remove", leader) is Code.NONE
    world.run(lambda: world.leader() in (2, 3) and world.voting() == (2, 3))
    world.kill(1 - sleeper)
    world.boot(sleeper)
    goal = world.most_committed() + 10
    world.run(lambda: world.all_reached(goal, {sleeper, 2, 3}))


def test_what_cannot_be_is_refused_by_name() -> None:
    world = peaceful(1, 2, 1)
    assert changed(world, "add", 1) is Code.DUPLICATE_VOTER
    assert changed(world, "remove", 2) is Code.VOTER_NOT_FOUND
    world.kill(2)
    world.run_for(100)
    world.add(2, 1000)
    world.remove(1)
    assert world.answers[-1] is Code.REQUEST_TIMED_OUT, "one change at a time"
    world.run(lambda: len(world.answers) == 4, 3000)
    assert world.answers[-1] is Code.REQUEST_TIMED_OUT, "it never caught up"
    assert world.voting() == (0, 1)
    leader = world.leader()
    assert leader is not None
    assert changed(world, "remove", 1 - leader) is Code.NONE
    assert changed(world, "remove", leader) is Code.INVALID_REQUEST, "somebody must vote"


def test_the_living_are_not_removed_while_the_rest_is_dead() -> None:
    """It could not be committed, and would stop what runs."""
    world = peaceful(5, 3, 0)
    leader = world.leader()
    assert leader is not None
    dead, alive = (leader + 1) % 3, (leader + 2) % 3
    world.kill(dead)
    world.run_for(world.timing.fetch_timeout_ms + 100)
    assert changed(world, "remove", alive) is Code.INVALID_REQUEST
    assert changed(world, "remove", dead) is Code.NONE
    assert changed(world, "remove", alive) is Code.NONE
    assert world.voting() == (leader,)


def test_a_voter_that_moved_is_known_at_its_new_address() -> None:
    world = peaceful(2, 3, 0)
    world.update(1, 19093)
    assert world.answers == [Code.NONE]
    goal = world.most_committed() + 10
    world.run(lambda: world.all_reached(goal))
    assert all(quorum.voters.voter(1) == voter(1, 19093) for quorum in world.running())


def test_a_change_over_the_head_of_a_majority_is_taken_back() -> None:
    """The leader of three, cut off, appends a set that nobody else has; back again, it forgets it."""
    world = peaceful(3, 3, 2)
    leader = world.leader()
    assert leader is not None
    world.add(4, 1500)
    world.run(lambda: world.answered(1))
    assert world.voting() == (0, 1, 2, 4)
    world.blocked = lambda source, target: leader in (source, target)
    world.remove(4, 1000)
    alone = world.nodes[leader].quorum
    assert alone is not None
    assert alone.voters.ids == (0, 1, 2), "it counts at once"
    world.run(lambda: world.leader() not in (leader, None))
    world.run(lambda: not isinstance(world.nodes[leader].quorum.role, Leader))  # type: ignore[union-attr]
    world.blocked = lambda source, target: False
    goal = world.most_committed() + 20
    world.run(lambda: world.all_reached(goal))
    assert all(quorum.voters.ids == (0, 1, 2, 4) for quorum in world.running())


def test_two_voters_of_whom_the_removed_leader_dies_with_the_news() -> None:
    """Only its own log says that it is removed, and no election is won without it: it stands once more (and goes)."""
    world = peaceful(4, 2, 0)
    leader = world.leader()
    assert leader is not None
    world.blocked = lambda source, target: True
    world.remove(leader)
    world.run_for(50)
    world.kill(leader, power=False)
    world.run_for(1000)
    world.blocked = lambda source, target: False
    world.boot(leader)
    world.run(lambda: world.leader() == 1 - leader and world.voting() == (1 - leader,))
    goal = world.most_committed() + 10
    world.run(lambda: world.all_reached(goal))


NODE = st.integers(0, 5)
STEP = st.one_of(
    st.tuples(st.sampled_from(["add", "remove", "add", "remove", "update", "kill", "power", "pause"]), NODE),
    st.tuples(st.sampled_from(["kill the leader", "remove the leader", "part", "cut the leader off", "mend"]), NODE),
)


def act(world: VoterSimulation, what: str, node: int) -> None:
    id = node % len(world.nodes)
    leader = world.leader()
    if what.endswith("leader") or what.startswith("cut"):
        if leader is None:
            return
        id = leader
    match what.split()[0]:
        case "add":
            world.add(id, 1500)
        case "remove":
            world.remove(id, 1500)
        case "update":
            world.update(id, 9093 + node)
        case "kill" | "power":
            world.kill(id, power=what == "power")
            world.after(world.rng.randrange(2500), lambda: world.boot(id))
        case "pause":
            world.pause(id, world.rng.randrange(3000))
        case "part":
            few = {id, (id + 1) % len(world.nodes)}
            world.blocked = lambda source, target: (source in few) != (target in few)
        case "cut":
            world.blocked = lambda source, target: id in (source, target)
        case "mend":
            world.blocked = lambda source, target: False


def play(seed: int, voters: int, steps: list[tuple[tuple[str, int], int]], crash: float) -> None:
    world = VoterSimulation(
        seed, voters=voters, observers=5 - voters, propose_ms=40, crash=crash, snapshot_every=seed % 3 * 8
    )
    for (what, node), pause_ms in steps:
        world.run_for(pause_ms)
        act(world, what, node)
    world.blocked = lambda source, target: False
    world.crash = 0.0
    world.run_for(4000)
    for id in world.nodes:
        world.boot(id)
    goal = world.most_committed() + 20
    world.run(lambda: world.all_reached(goal), 40_000)
    world.run(world.consistent_leader, 10_000)


@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 10_000),
    voters=st.integers(1, 4),
    steps=st.lists(st.tuples(STEP, st.sampled_from([3, 20, 100, 400, 1500])), min_size=1, max_size=14),
    crash=st.sampled_from([0.0, 0.0, 0.001, 0.005]),
)
def test_no_law_breaks_while_voters_come_and_go_and_the_quorum_recovers(
    seed: int, voters: int, steps: list[tuple[tuple[str, int], int]], crash: float
) -> None:
    play(seed, voters, steps, crash)


def test_an_upgrade_writes_down_the_disk_that_a_voter_has_now() -> None:
    """Set by hand it has no directory id of its own in the set, and may be back with another disk."""
    log = LogView(end=5, flushed=5)
    seen = Progress(ReplicaKey(2), 0, directory_id=b"2" * 16)
    role = Leader(3, ReplicaKey(1), 1, 0, {2: seen})
    context = StepContext(Quorum(me=ReplicaKey(1, b"1" * 16), voters=VoterSet.of(1, 2), role=role, log=log), At(7, 0))
    _note(context, ReplicaKey(2, b"9" * 16))
    assert isinstance(context.role, Leader)
    assert context.role.voters[2].directory_id == b"9" * 16
    _note(context, ReplicaKey(2))
    assert context.role.voters[2].directory_id == b"9" * 16, "who says nothing is taken for who spoke last"
