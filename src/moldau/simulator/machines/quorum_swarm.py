"""Random runs of the quorum, drawn by the seed: a fault phase, then a core that must converge, then quiescence.

Safety: any faults, every law after every event. Liveness: a random majority is healed and the rest cut off for good; it
elects one leader and keeps it (L8). Quiescence: the rest comes back and deposes no leader (KIP-996); a killed or
leaving leader is replaced in no time. Read next: quorum_world.py, quorum_coverage.py.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from moldau.quorum import Leader, Timing
from moldau.quorum import events as on
from moldau.simulator.machines.quorum_coverage import COVERAGE_POINTS
from moldau.simulator.machines.quorum_world import QuorumSimulation
from moldau.simulator.machines.record import Broken, RunRecord

__all__ = ["COVERAGE_POINTS", "play"]

BRISK = Timing(election_timeout_ms=300, election_backoff_max_ms=300, fetch_timeout_ms=600, retry_backoff_ms=10)


def play(seed: int, record: RunRecord) -> None:
    """One run. Raises ``Broken``, or whatever the machine raised."""
    rng = Random(f"quorum {seed}")
    world = made(seed, rng, record)
    fault_phase(world, rng)
    core = heal(world, rng)
    newest = newest_epoch(world, core)
    converge(world, core)
    come_back(world, newest)
    lose_the_leader(world, rng)


def made(seed: int, rng: Random, record: RunRecord) -> QuorumSimulation:
    """Return a simulation of any size, with any net and any disks."""
    delay_ms = rng.choice([(1, 6), (1, 6), (0, 2), (1, 30), (5, 60)])
    return QuorumSimulation(
        seed,
        voters=rng.choice([1, 2, 3, 3, 3, 3, 4, 5, 5]),
        observers=rng.choice([0, 0, 1, 2]),
        loss=rng.choice([0.0, 0.0, 0.02, 0.05, 0.15]),
        crash=rng.choice([0.0, 0.0, 0.0005, 0.002, 0.01]),
        delay_ms=delay_ms,
        propose_ms=rng.choice([5, 20, 60, 60, 200, 500]),
        sync_ms=rng.choice([1, 5, 5, 20, 60]),
        snapshot_every=rng.choice([0, 0, 3, 8]),
        fetch_batches=rng.choice([1, 8, 8, 64]),
        chunk=rng.choice([3, 100, 1000]),
        timing=BRISK if delay_ms[1] < 10 and rng.random() < 0.3 else Timing(),
        record=record,
    )


# ---- what may befall it


def kill_one(world: QuorumSimulation, rng: Random) -> None:
    die(world, rng, rng.randrange(len(world.nodes)), rng.randrange(3000))


def kill_the_leader(world: QuorumSimulation, rng: Random) -> None:
    leader = world.leader()
    if leader is not None:
        die(world, rng, leader, rng.randrange(2000))


def flap(world: QuorumSimulation, rng: Random) -> None:
    """The leader loses power and is back before anybody has noticed, more than once."""
    for _ in range(rng.randrange(1, 6)):
        leader = world.leader()
        if leader is not None:
            die(world, rng, leader, rng.randrange(3), power=True)
        world.run_for(rng.randrange(1, 400))


def kill_all(world: QuorumSimulation, rng: Random) -> None:
    for id in world.nodes:
        die(world, rng, id, rng.randrange(1500))


def die(world: QuorumSimulation, rng: Random, id: int, down_ms: int, *, power: bool | None = None) -> None:
    world.kill(id, power=rng.random() < 0.5 if power is None else power)
    world.after(down_ms, lambda: world.boot(id))


def pause(world: QuorumSimulation, rng: Random) -> None:
    world.pause(rng.randrange(len(world.nodes)), rng.randrange(4000))


def pause_the_leader(world: QuorumSimulation, rng: Random) -> None:
    leader = world.leader()
    if leader is not None:
        world.pause(leader, rng.randrange(6000))


def part(world: QuorumSimulation, rng: Random) -> None:
    """Cut the nodes into two sides that do not reach each other."""
    few = {id for id in world.nodes if rng.random() < 0.4}
    world.blocked = lambda source, target: (source in few) != (target in few)


def mute(world: QuorumSimulation, rng: Random) -> None:
    """Cut one node off one way: it receives and reaches no other, or reaches all and receives nothing."""
    victim, deaf = rng.randrange(len(world.nodes)), rng.random() < 0.5
    world.blocked = lambda source, target: (target if deaf else source) == victim


def ring(world: QuorumSimulation, rng: Random) -> None:
    """Let each node reach its neighbours only (KIP-996's ring)."""
    count = len(world.nodes)
    world.blocked = lambda source, target: (source - target) % count not in (1, count - 1)


def mend(world: QuorumSimulation, rng: Random) -> None:
    world.blocked = lambda source, target: False


def hand_over(world: QuorumSimulation, rng: Random) -> None:
    leader = world.leader()
    if leader is not None:
        world.shut_down(leader)
        world.after(rng.randrange(500, 3000), lambda: world.boot(leader))


def give_up(world: QuorumSimulation, rng: Random) -> None:
    leader = world.leader()
    if leader is not None:
        quorum = world.nodes[leader].quorum
        assert quorum is not None
        world.feed(leader, on.Resign(quorum.role.epoch))


FAULTS: tuple[Callable[[QuorumSimulation, Random], None], ...] = (
    kill_one, kill_the_leader, flap, kill_all, pause, pause_the_leader, part, mute, ring, mend, hand_over, give_up,
)  # fmt: skip


def fault_phase(world: QuorumSimulation, rng: Random) -> None:
    """A few of the faults, again and again, at any moment."""
    allowed = [fault for fault in FAULTS if rng.random() < 0.5] or [kill_the_leader]
    for _ in range(rng.randrange(2, 9)):
        world.run_for(rng.choice([30, 300, 1500]) * rng.randrange(1, 4) // 2)
        fault = rng.choice(allowed)
        world.record.event(world.now, f"-- {fault.__name__.replace('_', ' ')}")
        fault(world, rng)
    world.run_for(rng.randrange(2000))


# ---- what must follow


def heal(world: QuorumSimulation, rng: Random) -> set[int]:
    """Faults end in a core: a majority of the voters and who else is lucky. The others are cut off, alive or not."""
    voters = list(range(world.voters))
    rng.shuffle(voters)
    core = set(voters[: world.voters // 2 + 1]) | {id for id in world.nodes if rng.random() < 0.3}
    world.loss = world.crash = 0.0
    # A net and disks that can carry the load: in the fault phase no node has to keep up.
    world.propose_ms, world.snapshot_every, world.fetch_batches, world.chunk = 200, 0, 64, 1000
    world.blocked = lambda source, target: source not in core or target not in core
    for id in sorted(core):
        world.boot(id)
    world.record.event(world.now, f"-- only {sorted(core)} are healed")
    return core


def converge(world: QuorumSimulation, core: set[int]) -> None:
    """L8: the core elects, commits, and changes its mind no more."""
    world.run_for(7000)  # pauses end, nodes that were shutting down are gone
    for id in sorted(core):
        world.boot(id)
    goal = world.most_committed() + 10
    world.run(lambda: world.all_reached(goal, core), 30_000)
    world.run(lambda: agreed(world, core) is not None, 10_000)
    stays(world, core, 3000, "a healed core changes its leader")


def agreed(world: QuorumSimulation, ids: set[int]) -> tuple[int, int] | None:
    """(leader, epoch) when all of these agree on it."""
    known = {(quorum.leader, quorum.role.epoch) for quorum in world.running(ids)}
    if len(known) != 1:
        return None
    ((leader, epoch),) = known
    return None if leader is None else (leader, epoch)


def stays(world: QuorumSimulation, ids: set[int], span_ms: int, wrong: str) -> None:
    before = agreed(world, ids)
    world.run_for(span_ms)
    if agreed(world, ids) != before:
        raise Broken("L8", f"{wrong}: {before} -> {agreed(world, ids)}; {world.describe()}")


def newest_epoch(world: QuorumSimulation, core: set[int]) -> int:
    """The newest epoch that those outside the core may come back with, if none of them stands without being let.

    Whoever stood before it was cut off has its vote on disk; whoever led will have resigned, and begins anew.
    """
    outside = [node for node in world.nodes.values() if node.id not in core]
    return max((node.disk.election.epoch + int(node.disk.election.leader == node.id) for node in outside), default=0)


def come_back(world: QuorumSimulation, newest: int) -> None:
    """L8: the rest is back and catches up. A node that asks for pre-votes first deposes no leader (KIP-996)."""
    leader = world.leader()
    assert leader is not None
    before = world.nodes[leader].quorum
    assert before is not None
    world.blocked = lambda source, target: False
    world.record.event(world.now, "-- the rest is back")
    for id in world.nodes:
        world.boot(id)
    goal = world.most_committed() + 10
    world.run(lambda: world.all_reached(goal) and world.consistent_leader(), 30_000)
    if newest <= before.role.epoch and agreed(world, set(world.nodes)) != (leader, before.role.epoch):
        now = agreed(world, set(world.nodes))
        raise Broken("L8", f"voters back from isolation made {now} of {leader, before.role.epoch}")


def lose_the_leader(world: QuorumSimulation, rng: Random) -> None:
    """L8 with refused connections and the hand-over: another decides long before any timeout."""
    if world.voters < 3:
        return
    world.run_for(rng.randrange(500))
    world.run(lambda: world.all_reached(world.most_committed()), 10_000)
    leader = world.leader()
    assert leader is not None
    slow_ms = world.delay_ms[1] + world.sync_ms
    leaving = rng.random() < 0.5
    at = world.now
    world.record.event(at, f"-- leader {leader} {'leaves' if leaving else 'is killed'}")
    if leaving:
        world.shut_down(leader)
    else:
        world.kill(leader, power=False)
    limit_ms = (150 if leaving else 500) + 12 * slow_ms
    world.run(lambda: decides(world, leader), limit_ms)


def decides(world: QuorumSimulation, but: int) -> bool:
    """Whether another node may decide."""
    return any(
        node.active is not None and node.quorum is not None and isinstance(node.quorum.role, Leader)
        for node in world.nodes.values()
        if node.id != but
    )
