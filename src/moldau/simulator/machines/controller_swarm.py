"""Random runs of the controller: any requests in any order, drawn by the seed; then a core of brokers, and quiescence.

Quiescence: the core's brokers send heartbeats, leaders report all replicas in sync, the background passes run. Then
every partition that the core can serve has a leader (L1), no broker of the core is fenced (L5), moves have ended (L7),
and a broker that asks to shut down soon may (L12). Read next: controller_play.py.
"""

from __future__ import annotations

from random import Random

from moldau.controller.requests import ElectUncleanLeaders, RebalanceLeaders, Tick
from moldau.image import NO_LEADER, Partition, Recovery, image_hash
from moldau.simulator.machines.controller_play import ACTIONS, Action, Play
from moldau.simulator.machines.record import Broken, RunRecord

COVERAGE_POINTS = frozenset(
    {
        "a move ended",
        "a move was cancelled",
        "a partition recovers from an unclean election",
        "a topic was deleted",
        "an ELR was kept",
        "an empty ISR",
        "brokers were fenced",
        "controlled shutdown",
        "nobody leads",
        "replicas outside the ISR",
    }
)


def play(seed: int, record: RunRecord) -> None:
    """One run. Raises ``Broken``, or whatever the controller raised."""
    rng = Random(f"controller {seed}")
    kind = rng.random()
    world = Play(elr=kind < 0.6, zookeeper_mode=kind >= 0.8, brokers=rng.choice([3, 4, 5, 5, 6]), record=record)
    weights = [rng.choice([0.1, 1, 1, 3]) for _ in ACTIONS]
    for _ in range(rng.choice([30, 80, 160])):
        action = rng.choices(ACTIONS, weights)[0]
        before = len(world.harness.image.topics), len(world.harness.image.index.moving)
        world.do(action, rng.randrange(256), rng.randrange(256), rng.randrange(256))
        notice(world, action, before)
    same_state(world)
    quiescence(world, core_of(world, rng), rng)
    same_state(world)


def notice(world: Play, action: Action, before: tuple[int, int]) -> None:
    """Coverage: what the image shows now."""
    image, hit = world.harness.image, world.harness.record.coverage
    topics, moving = before
    if len(image.topics) < topics:
        hit.add("a topic was deleted")
    elif len(image.index.moving) < moving:
        hit.add("a move was cancelled" if action is Play.move else "a move ended")
    if any(broker.fenced for broker in image.brokers.values()):
        hit.add("brokers were fenced")
    if any(broker.in_controlled_shutdown for broker in image.brokers.values()):
        hit.add("controlled shutdown")
    for topic in image.topics.values():
        for p in topic.partitions.values():
            hit |= _coverage_of(p)


def _coverage_of(p: Partition) -> set[str]:
    return {
        point
        for point, holds in (
            ("nobody leads", p.leader == NO_LEADER),
            ("an empty ISR", not p.isr),
            ("an ELR was kept", bool(p.elr)),
            ("replicas outside the ISR", len(p.isr) < len(p.replicas)),
            ("a partition recovers from an unclean election", p.recovery == Recovery.RECOVERING),
        )
        if holds
    }


def same_state(world: Play) -> None:
    """C3: what the controller decides on is what has been committed."""
    working = world.harness.controller.working
    assert working is not None
    if image_hash(working) != image_hash(world.harness.image):
        raise Broken("C3", "the working image is not the committed one")


# ---- quiescence


def core_of(world: Play, rng: Random) -> list[int]:
    return [id for id in range(world.brokers) if rng.random() < 0.7] or [rng.randrange(world.brokers)]


def quiescence(world: Play, core: list[int], rng: Random) -> None:
    """End the faults; only ``core`` lives. Brokers outside it send nothing any more."""
    harness = world.harness
    harness.record.event(harness.now_ms - 1_000_000, f"-- only {core} live on")
    for id in core:
        broker = harness.image.brokers.get(id)
        if broker is None or broker.in_controlled_shutdown:
            world.incarnations[id] += 1
            harness.register(id, world.incarnations[id] % 256, previous_is_gone=True)
    for _ in range(5):
        for _ in range(10):
            harness.now_ms += 300
            harness.submit(Tick())
        for id in core:
            # It has read its own registration, and no more: the log is busy (KAFKA-13959).
            harness.heartbeat(id, metadata_offset=harness.image.registered_at.get(id, 0))
    harness.record.check(brokers_of_the_core_serve, world, core)
    for _ in range(3):
        harness.submit(ElectUncleanLeaders())
        report_all_in_sync(world)
        harness.submit(RebalanceLeaders())
        for id in core:
            harness.heartbeat(id)
    harness.record.check(partitions_have_leaders, world, core)
    harness.record.check(moves_have_ended, world, core)
    leave(world, core, rng)


def report_all_in_sync(world: Play) -> None:
    """Every leader has seen all live replicas catch up."""
    harness = world.harness
    for name in sorted(harness.image.names):
        for number in sorted(harness.image.topics[harness.image.names[name]].partitions):
            p = harness.partition(name, number)
            if p.leader != NO_LEADER:
                harness.set_isr(name, number, *(r for r in p.replicas if harness.image.is_active(r)), recovery=0)


def partitions(world: Play) -> list[tuple[str, Partition]]:
    image = world.harness.image
    return [(name, p) for name in sorted(image.names) for p in image.topics[image.names[name]].partitions.values()]


def brokers_of_the_core_serve(world: Play, core: list[int]) -> None:
    """L5: a broker that lives and reads its own registration is unfenced."""
    image = world.harness.image
    fenced = [id for id in core if not image.is_active(id)]
    assert not fenced, f"{fenced} send heartbeats, and are not let in: {[image.brokers.get(id) for id in fenced]}"


def partitions_have_leaders(world: Play, core: list[int]) -> None:
    """L1, L3: where a live replica may lead one does, and every live replica is in the ISR."""
    for name, p in partitions(world):
        may = [r for r in p.isr or p.elr if r in core]
        assert p.leader != NO_LEADER or not may, f"{name}-{p.id} has no leader, and {may} could: {p}"
        if p.leader != NO_LEADER:
            assert p.leader in core, f"{name}-{p.id} is led by one who never says a word: {p}"
            assert set(p.isr) == set(p.replicas) & set(core), f"{name}-{p.id}: ISR {p.isr} of {p.replicas}, live {core}"


def moves_have_ended(world: Play, core: list[int]) -> None:
    """L7: a move whose target lives has ended."""
    for name, p in partitions(world):
        target = set(p.replicas) - set(p.removing)
        stuck = p.reassigning and p.leader != NO_LEADER and target and target <= set(core)
        assert not stuck, f"{name}-{p.id}: a move that never ends: {p}"


def leave(world: Play, core: list[int], rng: Random) -> None:
    """L12: a broker that asks to shut down may, as soon as the others know who leads in its place (KAFKA-14292)."""
    harness = world.harness
    leaver = rng.choice(core)
    offset = 0
    for _ in range(6):
        reply = harness.heartbeat(leaver, want_shut_down=True)
        if reply.should_shut_down:
            return
        offset = offset or harness.next_offset - 1
        for id in core:
            if id != leaver:
                harness.heartbeat(id, metadata_offset=offset)
        report_all_in_sync(world)
    if any(p.leader == leaver for _, p in partitions(world)):
        return  # no other can lead what it leads; it may not shut down
    raise Broken("L12", f"broker {leaver} leads nothing, everybody knows, and it may not go")
