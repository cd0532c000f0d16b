"""Random runs of voter changes: controllers are added, removed, moved and get new disks during faults.

Safety: the quorum's faults, with an operator among them. The fault model: no voter is removed, and no disk dies, where
that would leave a voter set that any log may still hold without a majority of replicas that exist. Then all heals, the
operator puts the voters in order, and each request is answered in time (L8). Read next: voters_world.py,
quorum_swarm.py.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from moldau.model import Code
from moldau.quorum import Leader, Timing, VoterSet
from moldau.quorum.messages import AddVoterRequest
from moldau.quorum.tally import won
from moldau.simulator.machines import quorum_swarm as quorum
from moldau.simulator.machines.quorum_world import QuorumDisk
from moldau.simulator.machines.record import Broken, RunRecord
from moldau.simulator.machines.voters_world import VoterSimulation

__all__ = ["COVERAGE_POINTS", "play"]

COVERAGE_POINTS = frozenset(
    {
        "a change was refused",
        "a disk was replaced",
        "a replaced disk votes again",
        "a set was taken back",
        "a snapshot said who votes",
        "a voter moved",
        "a voter was added",
        "a voter was removed",
        "the leader removed itself",
        "the removed leader resigned",
    }
)


def play(seed: int, record: RunRecord) -> None:
    """One run. Raises ``Broken``, or whatever the machine raised."""
    rng = Random(f"voters {seed}")
    world = made(seed, rng, record)
    world.run(lambda: world.any_reached(3))
    fault_phase(world, rng)
    heal(world)
    put_in_order(world, rng)


def made(seed: int, rng: Random, record: RunRecord) -> VoterSimulation:
    """One to five voters, up to four more who may become voters."""
    voters = rng.choice([1, 2, 3, 3, 3, 4, 5])
    return VoterSimulation(
        seed,
        voters=voters,
        observers=rng.choice([1, 2, 2, 3]),
        loss=rng.choice([0.0, 0.0, 0.02, 0.1]),
        crash=rng.choice([0.0, 0.0, 0.0005, 0.003]),
        delay_ms=rng.choice([(1, 6), (1, 6), (0, 2), (1, 30), (5, 60)]),
        propose_ms=rng.choice([20, 60, 200]),
        sync_ms=rng.choice([1, 5, 20, 60]),
        snapshot_every=rng.choice([0, 0, 3, 8]),
        timing=quorum.BRISK if rng.random() < 0.2 else Timing(),
        record=record,
    )


# ---- what the operator must not do


def sets_known(world: VoterSimulation) -> list[VoterSet]:
    """Every voter set that may count yet: the newest of each log, and the one before it, for that may be cut."""
    logs = [world.voter_log(node) for node in world.nodes.values()]
    return [found for log in logs for found in (log.current, log.before) if found.voters]


def majority_exists(world: VoterSimulation, voters: VoterSet, but: int = -1) -> bool:
    """Whether a majority of a set are replicas whose disks exist."""
    there = [one for one in voters.voters if one.key.id != but and one.key == world.entry_of(one.key.id).key]
    return 2 * len(there) > len(voters.voters)


def may_remove(world: VoterSimulation, id: int) -> bool:
    sets = sets_known(world)
    return all(majority_exists(world, one.without(id)) for one in sets if len(one.voters) > 1)


def may_lose(world: VoterSimulation, id: int) -> bool:
    """Whether no request adds it now, every set has a majority without it, and so has what is committed."""
    for node in world.nodes.values():
        role = None if node.quorum is None else node.quorum.role
        change = role.change if isinstance(role, Leader) else None
        if change is not None and isinstance(change.request, AddVoterRequest) and change.request.voter.key.id == id:
            return False
    holding = {one for one, node in world.nodes.items() if one != id and _holds_all(world, node.disk)}
    return all(majority_exists(world, one, id) and won(holding, one.ids) for one in sets_known(world))


def _holds_all(world: VoterSimulation, disk: QuorumDisk) -> bool:
    """Whether all that is committed has been flushed here (and not other records in its place)."""
    committed = world.history.committed
    end = len(committed)
    return disk.flushed >= end and (end <= disk.start or disk.entry(end - 1) == committed[end - 1])


# ---- what may befall it


def add(world: VoterSimulation, rng: Random) -> None:
    world.add(rng.randrange(len(world.nodes)), rng.choice((300, 1500, 5000)))


def remove(world: VoterSimulation, rng: Random) -> None:
    id = rng.randrange(len(world.nodes))
    if may_remove(world, id):
        world.remove(id, rng.choice((300, 1500, 5000)))


def remove_the_leader(world: VoterSimulation, rng: Random) -> None:
    leader = world.leader()
    if leader is not None and may_remove(world, leader):
        world.remove(leader, 1500)


def change_at_once(world: VoterSimulation, rng: Random) -> None:
    """The new leader is asked at once, and for more than one change."""
    quorum.kill_the_leader(world, rng)
    for _ in range(100):
        world.run_for(10)
        if world.leader() is not None:
            break
    for _ in range(3):
        (add if rng.random() < 0.4 else remove)(world, rng)


def remove_over_the_head(world: VoterSimulation, rng: Random) -> None:
    """The leader is cut off, asked for a change, and comes back to a majority that does not know it."""
    leader = world.leader()
    if leader is None:
        return
    world.blocked = lambda source, target: leader in (source, target)
    (add if rng.random() < 0.3 else remove)(world, rng)
    world.run_for(rng.choice((100, 2500)))
    if rng.random() < 0.3:
        world.kill(leader, power=False)
    quorum.mend(world, rng)
    world.boot(leader)


def move(world: VoterSimulation, rng: Random) -> None:
    world.update(rng.randrange(len(world.nodes)), 9093 + rng.randrange(3))


def new_disk(world: VoterSimulation, rng: Random) -> None:
    id = rng.randrange(len(world.nodes))
    if may_lose(world, id):
        world.replace_disk(id)
        world.record.coverage.add("a disk was replaced")
        world.after(rng.randrange(3000), lambda: world.boot(id))


CHANGES: tuple[Callable[[VoterSimulation, Random], None], ...] = (
    add, add, remove, remove, remove_the_leader, change_at_once, remove_over_the_head, move, new_disk,
)  # fmt: skip
FAULTS: tuple[Callable[[VoterSimulation, Random], None], ...] = (
    quorum.kill_one, quorum.kill_the_leader, quorum.kill_all, quorum.pause_the_leader, quorum.part, quorum.mute,
    quorum.mend, quorum.hand_over, quorum.give_up,
)  # fmt: skip


def fault_phase(world: VoterSimulation, rng: Random) -> None:
    """Changes all the time, and a few of the faults among them."""
    allowed = [fault for fault in FAULTS if rng.random() < 0.4]
    for _ in range(rng.randrange(4, 12)):
        world.run_for(rng.choice([3, 30, 300, 1500]))
        fault = rng.choice(CHANGES if not allowed or rng.random() < 0.6 else allowed)
        world.record.event(world.now, f"-- {fault.__name__.replace('_', ' ')}")
        fault(world, rng)
    world.run_for(rng.randrange(2000))


# ---- what must follow


def heal(world: VoterSimulation) -> None:
    """L8: with all nodes back, whatever the set has become, one leader commits and all follow it."""
    world.record.event(world.now, "-- all is healed")
    world.loss = world.crash = 0.0
    world.propose_ms, world.snapshot_every, world.fetch_batches, world.chunk = 200, 0, 64, 1000
    world.blocked = lambda source, target: False
    world.run_for(7000)  # pauses end, nodes that were shutting down are gone, changes under way are answered
    for id in world.nodes:
        world.boot(id)
    follow(world)


def follow(world: VoterSimulation) -> None:
    goal = world.most_committed() + 10
    world.run(lambda: world.all_reached(goal), 40_000)
    world.run(world.consistent_leader, 10_000)


def put_in_order(world: VoterSimulation, rng: Random) -> None:
    """L8, R9: entries of disks that are gone are removed, and one more change is made; each is answered, and is so."""
    for id in sorted(world.disks):
        leader = world.leader()
        assert leader is not None
        at = world.nodes[leader].quorum
        assert at is not None
        listed = at.voters.voter(id)
        if listed is not None and listed.key != world.entry_of(id).key:
            answered(world, "remove", id)
            answered(world, "add", id)
            world.record.coverage.add("a replaced disk votes again")
    id = rng.randrange(len(world.nodes))
    if id not in world.voting():
        answered(world, "add", id)
    elif len(world.voting()) > 1:
        answered(world, "remove", id)


def answered(world: VoterSimulation, what: str, id: int) -> None:
    """Request a change until it is made; it is answered, and the set is the requested one."""
    world.run(lambda: world.leader() is not None and decides(world), 10_000)
    world.answers.clear()
    (world.add if what == "add" else world.remove)(id)
    world.run(lambda: bool(world.answers), 10_000)
    if world.answers[-1] is not Code.NONE:
        raise Broken("L8", f"to {what} {id} is answered {world.answers[-1].name}; {world.describe()}")
    follow(world)
    if (id in world.voting()) != (what == "add"):
        raise Broken("R9", f"asked to {what} {id}, and {world.voting()} vote")


def decides(world: VoterSimulation) -> bool:
    leader = world.leader()
    return leader is not None and world.nodes[leader].active is not None
