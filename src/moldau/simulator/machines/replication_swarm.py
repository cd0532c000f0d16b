"""Random runs of replication: everything is drawn by the seed; a fault phase, then a core that must converge.

Safety: crashes, power cuts (of brokers whose ISR has another member up), fast leader changes, lost and late messages,
replicas taken away and brought back. Liveness: some brokers stay dead; the rest, with a live member of the ISR among
it, must agree, hold all that was acknowledged, and have answered every produce. Read next: replication_world.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from moldau.replication.roles import NOBODY, Role
from moldau.simulator.machines.record import Broken, RunRecord
from moldau.simulator.machines.replication_world import ReplicationSimulation, after_quiet, nothing_acknowledged_is_lost

COVERAGE_POINTS = frozenset(
    {
        "APPEND",
        "AWAIT_IMAGE",
        "BACK_OFF",
        "DROP",
        "HighWatermark",
        "IsrChanged",
        "REFETCH",
        "StartedLeading",
        "StoppedLeading",
        "StopFollowing",
        "a bounce went unnoticed",
        "a core below min ISR",
        "a replica was removed",
        "a tail was lost",
        "alter FENCED_LEADER_EPOCH",
        "alter INELIGIBLE_REPLICA",
        "alter INVALID_UPDATE_VERSION",
        "alter NONE",
        "lost alter",
        "lost altered",
        "lost fetch",
        "lost fetched",
        "truncated",
    }
)


def play(seed: int, record: RunRecord) -> None:
    """One run. Raises ``Broken``, or whatever a machine raised."""
    Swarm(seed, record).run()


class Swarm:
    """A simulation and the rng that draws its actions. Weights are drawn too: some see no crash."""

    def __init__(self, seed: int, record: RunRecord) -> None:
        self.rng = rng = Random(f"replication {seed}")
        brokers = rng.choice([2, 3, 3, 3, 4])
        self.world = ReplicationSimulation(brokers, rng.choice([1, 2, 2, 2, 3, brokers]), record)
        self.steps = rng.choice([150, 600, 1000])
        self.loss = rng.choice([0.0, 0.03, 0.06, 0.2])
        self.batches = rng.choice([1, 3, 6])
        self.order = rng.choice(["any", "any", "oldest first", "newest first"])  # the last lets old ones linger
        actions: list[tuple[float, Callable[[], str | None]]] = [
            (20, self.produce), (40, self.fetch), (70, self.deliver), (16, self.learn), (4, self.sweep),
            (1, self.crash), (1, self.cut_power), (5, self.restart), (4, self.elect), (6, self.unfence),
            (0.5, self.drop_messages), (1, self.bump), (0.5, self.take_away), (2, self.bring_back), (1, self.notice),
            (6, self.flush), (0.5, self.rest),
        ]  # fmt: skip
        self.actions = [action for _, action in actions]
        self.weights = [weight * rng.choice([0.2, 1, 1, 3]) for weight, _ in actions]

    def run(self) -> None:
        for _ in range(self.steps):
            self.step(self.rng.choices(self.actions, self.weights)[0])
        settle(self.world, self.core())

    def step(self, action: Callable[[], str | None]) -> None:
        before = self.world.watermarks()
        self.world.now_ms += self.rng.randrange(6)
        what = action()
        if what is not None:
            self.world.done(what, before)

    def some(self) -> int:
        return self.rng.choice(sorted(self.world.nodes))

    # ---- actions: what happened, or None when there was nothing to do

    def produce(self) -> str:
        me = self.some()
        self.world.produce(me, self.rng.choice([1, 1, 2, 3]))
        return f"produce to {me}"

    def fetch(self) -> str | None:
        me = self.some()
        if not self.world.may_fetch(me):
            return None
        self.world.fetch(me)
        return f"{me} fetches"

    def deliver(self) -> str | None:
        in_flight = self.world.in_flight
        if not in_flight:
            return None
        at = self.rng.randrange(len(in_flight) if self.order == "any" else min(2, len(in_flight)))
        if self.order == "newest first":
            at = len(in_flight) - 1 - at
        kind, to, _ = in_flight[at]
        if self.rng.random() < self.loss:
            self.world.lose(at)
            return f"{kind} to {to} is lost"
        self.world.deliver(at, batches=self.rng.randrange(1, self.batches + 1))
        return f"{kind} to {to} arrives"

    def learn(self) -> str | None:
        node = self.world.nodes[self.some()]
        known, all_ = max(node.seen + 1, node.first), len(self.world.controller.history)
        if node.seen == all_:
            return None
        self.world.learn(node.me, self.rng.randrange(known, all_ + 1))
        return f"{node.me} learns"

    def sweep(self) -> str:
        me = self.some()
        self.world.sweep(me)
        return f"{me} sweeps"

    def flush(self) -> None:
        log = self.world.nodes[self.some()].log
        log.flushed = log.log_end_offset

    def crash(self) -> str | None:
        if len(self.world.nodes) == 1:
            return None
        me, noticed = self.some(), self.rng.random() < 0.7
        self.world.crash(me, noticed=noticed)
        return f"{me} is killed"

    def cut_power(self) -> str | None:
        world = self.world
        me = self.some()
        if not [b for b in world.controller.live_isr() if b in world.nodes and b != me]:
            return None  # the last that holds what was acknowledged: beyond what is promised
        log = world.nodes[me].log
        world.crash(me, keep=self.rng.randint(log.flushed, log.log_end_offset))
        return f"{me} loses power"

    def notice(self) -> str | None:
        unseen = sorted(self.world.down.keys() - self.world.controller.brokers.fenced)
        if not unseen:
            return None
        self.world.controller.fence(unseen[0])
        return f"{unseen[0]} is fenced"

    def restart(self) -> str | None:
        world = self.world
        if not world.down:
            return None
        me = self.rng.choice(sorted(world.down))
        if me not in world.controller.brokers.fenced:
            world.record.coverage.add("a bounce went unnoticed")
        world.restart(me, self.rng.choice([0, world.down[me].machine.high_watermark]))
        return f"{me} starts"

    def unfence(self) -> str | None:
        world = self.world
        for broker in sorted(world.controller.brokers.fenced & world.nodes.keys()):
            if world.nodes[broker].seen > 0:
                world.unfence(broker)
                return f"{broker} is unfenced"
        return None

    def elect(self) -> str | None:
        """A fast leader change, or two: any live member of the ISR."""
        controller = self.world.controller
        live = controller.live_isr()
        if len(live) < 2:
            return None
        for _ in range(self.rng.randrange(1, 3)):
            controller.elect(controller.state.isr, (self.rng.choice(live),))
        return "leaders change"

    def bump(self) -> str | None:
        """The same leader under a new epoch."""
        controller = self.world.controller
        if controller.state.leader == NOBODY:
            return None
        controller.elect(controller.state.isr, (controller.state.leader,))
        return "the leader's epoch is bumped"

    def take_away(self) -> str | None:
        me = self.some()
        if not self.world.controller.drop(me):
            return None
        if self.rng.random() < 0.4:  # and back, before anybody has seen it
            self.world.controller.add(me)
        return f"replica {me} is taken away"

    def bring_back(self) -> str | None:
        controller = self.world.controller
        gone = sorted(controller.brokers.registered.keys() - set(controller.state.replicas))
        if not gone:
            return None
        controller.add(gone[0])
        return f"replica {gone[0]} is brought back"

    def drop_messages(self) -> str:
        """Connections break: half of what is in flight between brokers is gone."""
        in_flight = self.world.in_flight
        in_flight[:] = [m for m in in_flight if m[0] in ("alter", "altered") or self.rng.random() < 0.5]
        return "connections break"

    def rest(self) -> str:
        """Nothing happens for longer than a follower may lag."""
        self.world.now_ms += self.rng.choice([60, 150, 1000])
        return "time passes"

    # ---- the end

    def core(self) -> set[int]:
        """Who is healed. The controller's ISR must have a member in it; the others stay dead for good."""
        world = self.world
        every = sorted(world.controller.brokers.registered)
        core = {b for b in every if self.rng.random() < 0.6}
        core.add(self.rng.choice(sorted(world.controller.state.isr)))
        for me in sorted(world.nodes.keys() - core):
            isr = [b for b in world.controller.state.isr if b != me]
            if isr and not set(isr) & core:
                core.add(me)  # what it holds no broker of the core does
            else:
                world.crash(me)
        for me in sorted(world.down.keys() - world.controller.brokers.fenced):
            world.controller.fence(me)
        if not set(world.controller.state.isr) & core:
            core |= set(world.controller.state.isr)
        world.record.event(world.now_ms, f"-- only {sorted(core)} are healed")
        return core


def settle(world: ReplicationSimulation, core: set[int]) -> None:
    """No more faults: the core is up and informed and every message arrives, until nothing is left to do."""
    controller = world.controller
    for me in sorted(world.down.keys() & core):
        world.restart(me, 0)
    for me in sorted(core):
        controller.unfence(me)
    for me in sorted(controller.brokers.registered.keys() - set(controller.state.replicas)):
        controller.add(me)
    for _ in range(60 + max(node.log.log_end_offset for node in world.nodes.values())):
        _round(world)
        if not world.in_flight and not after_quiet(world):
            break
    wrong = after_quiet(world)
    if wrong:
        raise Broken("L3", f"after quiet: {wrong}")
    leader = world.sight().valid_leader()
    assert leader is not None
    if len(leader.machine.isr) < leader.machine.effective_min_isr:
        world.record.coverage.add("a core below min ISR")
    elif world.parked:
        raise Broken("L2", f"after quiet: produces {world.parked} were never answered")
    nothing_acknowledged_is_lost(world)


def _round(world: ReplicationSimulation) -> None:
    history = world.controller.history
    for me in sorted(world.nodes):
        if world.nodes[me].seen < len(history):
            _do(world, f"{me} learns", partial(world.learn, me, len(history)))
        _do(world, f"{me} sweeps", partial(world.sweep, me))
        machine = world.nodes[me].machine
        if machine.role is Role.FOLLOWER and machine.leader != NOBODY:
            world.fetch(me)
    world.now_ms += 10
    while world.in_flight:
        _do(world, f"{world.in_flight[0][0]} arrives", partial(world.deliver, 0))


def _do(world: ReplicationSimulation, what: str, action: Callable[[], None]) -> None:
    before = world.watermarks()
    action()
    world.done(what, before)
