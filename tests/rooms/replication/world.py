"""Three replicas of one partition, a model controller and a lossy network: seeded, and judged by the laws at each step.

Everything is a list of messages under way; a step delivers, loses or delays one, or lets somebody act. Crashes keep
the log (a killed process, not a lost power supply) and restart from a stale watermark checkpoint.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from moldau.replication import laws
from moldau.replication.effects import AdvanceLogStart, AlterIsr, AssignEpoch, Effects, Follow, Restart, Truncate
from moldau.replication.epochs import EpochTable
from moldau.replication.facts import Assignment, FetchAnswer, FollowerFetch, IsrAnswer
from moldau.replication.follower import Next
from moldau.replication.partition import Partition
from moldau.replication.roles import Limits, Role
from moldau.terms import Code

BROKERS = (0, 1, 2)


class Broken(AssertionError):
    """A law does not hold."""


class ModelLog:
    """A log as a list of (epoch, value)."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, object]] = []
        self.log_start_offset = 0
        self.epochs = EpochTable()

    @property
    def log_end_offset(self) -> int:
        return len(self.entries)

    def entry(self, offset: int) -> tuple[int, object]:
        return self.entries[offset]

    def append(self, epoch: int, value: object) -> None:
        self.epochs.assign(epoch, len(self.entries))
        self.entries.append((epoch, value))

    def truncate(self, offset: int) -> None:
        del self.entries[offset:]
        self.epochs.truncate_from_end(offset)


class Brokers:
    """What one broker's image says of the others: it may be older than the truth."""

    def __init__(self) -> None:
        self.registered: dict[int, int] = dict.fromkeys(BROKERS, 1)
        self.fenced: frozenset[int] = frozenset()

    def broker_epoch(self, broker_id: int) -> int | None:
        return self.registered.get(broker_id)

    def may_join_isr(self, broker_id: int) -> bool:
        return broker_id in self.registered and broker_id not in self.fenced


class Controller:
    """The committed state, and the rules of AlterPartition and of elections without unclean ones."""

    def __init__(self) -> None:
        self.state = Assignment(0, 0, 0, BROKERS, BROKERS)
        self.brokers = Brokers()
        self.history: list[tuple[Assignment, dict[int, int], frozenset[int]]] = []
        self.publish()

    def publish(self) -> None:
        self.history.append((self.state, dict(self.brokers.registered), self.brokers.fenced))

    def change(self, **fields: Any) -> None:
        self.state = self.state._replace(partition_epoch=self.state.partition_epoch + 1, **fields)
        self.publish()

    def alter(self, sender: int, ask: AlterIsr) -> IsrAnswer:
        state = self.state
        members = tuple(broker for broker, _ in ask.isr)
        if ask.leader_epoch < state.leader_epoch or sender != state.leader:
            return IsrAnswer(ask.serial, Code.FENCED_LEADER_EPOCH)
        if ask.leader_epoch > state.leader_epoch or ask.partition_epoch > state.partition_epoch:
            return IsrAnswer(ask.serial, Code.NOT_CONTROLLER)
        if ask.partition_epoch < state.partition_epoch:
            if set(members) == set(state.isr):
                return IsrAnswer(ask.serial, Code.NONE, state.leader_epoch, state.partition_epoch, state.isr)
            return IsrAnswer(ask.serial, Code.INVALID_UPDATE_VERSION)
        for broker, epoch in ask.isr:
            if broker in self.brokers.fenced or epoch not in (-1, self.brokers.registered[broker]):
                return IsrAnswer(ask.serial, Code.INELIGIBLE_REPLICA)
        if members != state.isr:
            self.change(isr=members)
        return IsrAnswer(ask.serial, Code.NONE, state.leader_epoch, self.state.partition_epoch, members)

    def fence(self, broker: int) -> None:
        self.brokers.fenced |= {broker}
        isr = tuple(b for b in self.state.isr if b != broker) or self.state.isr
        if self.state.leader == broker:
            self.elect(isr)
        elif isr != self.state.isr:
            self.change(isr=isr)
        else:
            self.publish()

    def elect(self, isr: tuple[int, ...], among: tuple[int, ...] | None = None) -> None:
        live = [b for b in among or isr if b not in self.brokers.fenced]
        self.change(leader=live[0] if live else -1, leader_epoch=self.state.leader_epoch + 1, isr=isr)

    def register(self, broker: int) -> None:
        """A restarted broker: a new broker epoch; it is not to be trusted in the ISR unless it is the last member."""
        self.brokers.registered[broker] = self.brokers.registered[broker] + 1
        self.fence(broker)

    def unfence(self, broker: int) -> None:
        self.brokers.fenced -= {broker}
        if self.state.leader == -1 and broker in self.state.isr:
            self.elect(self.state.isr)
        else:
            self.publish()


class Node:
    """One broker: a machine, its log, the image as far as it has come, and a follower's single fetch under way."""

    def __init__(self, me: int, log: ModelLog, checkpoint: int, machine: type[Partition], min_isr: int) -> None:
        self.me = me
        self.log = log
        self.brokers = Brokers()
        self.machine = machine(me, log, self.brokers, Limits(min_isr, 100), checkpoint)
        self.seen = 0  # how much of the controller's history is applied
        self.first = 0  # a starting broker acts on nothing older than its own registration
        self.broker_epoch = 1


class World:
    """Run ``steps`` random steps; Broken names the law."""

    def __init__(self, seed: int, machine: type[Partition] = Partition, min_isr: int = 2) -> None:
        self.chance = random.Random(seed)
        self.kind = machine
        self.min_isr = min_isr
        self.now_ms = 1000
        self.controller = Controller()
        self.nodes = {b: Node(b, ModelLog(), 0, machine, min_isr) for b in BROKERS}
        self.down: dict[int, Node] = {}
        self.mail: list[tuple[str, int, Any]] = []
        self.memory = laws.Memory()
        self.produced = 0
        self.acked: list[tuple[int, object]] = []
        self.parked: list[tuple[int, int, object]] = []
        self.proposed: dict[int, object] = {}
        self.marks: set[str] = set()

        self.moves, self.weights = self.climate()

    def climate(self) -> tuple[list[Callable[[], None]], list[float]]:
        """Every seed has its own weather (swarm testing): some see no crash, some hardly anything else."""
        moves: list[tuple[float, Callable[[], None]]] = [
            (20, self.produce), (40, self.fetch), (70, self.deliver), (16, self.learn), (4, self.sweep),
            (1, self.crash), (3, self.restart), (2, self.move_leader), (3, self.unfence), (1, self.lose),
            (1, self.bump_epoch),
        ]  # fmt: skip
        weights, total = [], 0.0
        for weight, _ in moves:
            total += weight * self.chance.choice([0.2, 1, 1, 4])
            weights.append(total)
        return [move for _, move in moves], weights

    # ---- judging

    def sight(self) -> laws.Sight:
        replicas = {b: laws.ReplicaSight(n.machine, n.log) for b, n in self.nodes.items()}
        return laws.Sight(self.controller.state, replicas, self.memory)

    def judge(self, wrong: str | None = None) -> None:
        wrong = wrong or laws.broken(self.sight())
        if wrong:
            raise Broken(wrong)

    # ---- what happens

    def step(self) -> None:
        before = {b: (n.machine.high_watermark, n.machine.leader_epoch) for b, n in self.nodes.items()}
        self.now_ms += self.chance.randrange(6)
        self.chance.choices(self.moves, cum_weights=self.weights)[0]()
        self.judge(laws.watermark_needs_min_isr(self.sight(), before))
        self.acknowledge()

    def some_node(self) -> Node | None:
        return self.chance.choice(sorted(self.nodes.values(), key=lambda n: n.me)) if self.nodes else None

    def produce(self) -> None:
        node = self.some_node()
        if node is None or node.machine.admit(-1) is not Code.NONE:
            return
        epoch = node.machine.leader_epoch
        for _ in range(self.chance.randrange(1, 4)):
            self.produced += 1
            node.log.append(epoch, self.produced)
        self.judge(laws.one_writer(node.me, epoch, self.memory))
        self.parked.append((node.me, node.log.log_end_offset, self.produced))
        self.act(node, node.machine.appended(self.now_ms))

    def acknowledge(self) -> None:
        waiting = []
        for me, end, value in self.parked:
            node = self.nodes.get(me)
            code = Code.NOT_LEADER_OR_FOLLOWER if node is None else node.machine.acknowledged(end)
            if code is None:
                waiting.append((me, end, value))
            elif code is Code.NONE and node is not None and node.log.log_end_offset >= end:
                self.acked.append((end - 1, value))
        self.parked = waiting

    def fetch(self) -> None:
        node = self.some_node()
        if node is None or node.machine.role is not Role.FOLLOWER or node.machine.leader == -1:
            return
        if sum(kind == "fetch" and who == node.me for kind, who, _ in self.mail) > 1:
            return
        offset, epoch = node.machine.position()
        fetch = FollowerFetch(node.me, node.broker_epoch, offset, epoch, node.machine.leader_epoch, 0, 0)
        self.mail.append(("fetch", node.machine.leader, fetch))

    def deliver(self) -> None:
        if not self.mail:
            return
        kind, to, what = self.mail.pop(self.chance.randrange(len(self.mail)))
        if self.chance.random() < 0.06:
            self.marks.add(f"lost {kind}")
            if kind == "alter":
                self.hear_isr(what[0], IsrAnswer(what[1].serial, Code.NETWORK_EXCEPTION))
            elif kind == "altered":
                self.hear_isr(to, IsrAnswer(what.serial, Code.NETWORK_EXCEPTION))
            return
        getattr(self, f"on_{kind}")(to, what)

    def on_fetch(self, to: int, fetch: FollowerFetch) -> None:
        node = self.nodes.get(to)
        if node is None:
            return
        verdict = node.machine.follower_fetched(fetch._replace(now_ms=self.now_ms))
        entries = []
        if verdict.code is Code.NONE and verdict.diverging is None:
            count = self.chance.randrange(1, 6)
            entries = node.log.entries[fetch.fetch_offset : fetch.fetch_offset + count]
        answer = FetchAnswer(
            fetch.current_leader_epoch, (fetch.fetch_offset, fetch.last_fetched_epoch), verdict.code, verdict.diverging,
            node.machine.high_watermark, 0,
        )  # fmt: skip
        self.mail.append(("fetched", fetch.replica_id, (answer, entries, node.log.log_end_offset)))
        self.act(node, verdict.effects)  # type: ignore[arg-type]

    def on_fetched(self, to: int, what: tuple[FetchAnswer, list[tuple[int, object]], int]) -> None:
        node = self.nodes.get(to)
        if node is None:
            return
        answer, entries, leader_end = what
        then, effects = node.machine.fetch_answered(answer)
        self.marks.add(then.name)
        self.act(node, effects)
        if then is Next.APPEND:
            for epoch, value in entries:
                node.log.append(epoch, value)
            self.act(node, node.machine.appended_from_leader(answer.high_watermark, answer.log_start_offset))
        elif then is Next.ASK_RANGE:
            self.act(node, node.machine.out_of_range(0, leader_end))

    def on_alter(self, to: int, what: tuple[int, AlterIsr]) -> None:
        sender, ask = what
        before, leader = self.controller.state, self.nodes.get(sender)
        answer = self.controller.alter(sender, ask)
        self.marks.add(f"alter {answer.code.name}")
        for joiner in set(self.controller.state.isr) - set(before.isr):
            if leader is not None and joiner in self.nodes:
                node = self.nodes[joiner]
                self.judge(laws.isr_join_rule(laws.ReplicaSight(node.machine, node.log), leader.machine))
        self.mail.append(("altered", sender, answer))

    def on_altered(self, to: int, answer: IsrAnswer) -> None:
        self.hear_isr(to, answer)

    def hear_isr(self, to: int, answer: IsrAnswer) -> None:
        node = self.nodes.get(to)
        if node is not None:
            self.act(node, node.machine.isr_answered(answer, self.now_ms))

    def learn(self) -> None:
        """One broker's image moves on by one or several of the controller's changes."""
        node = self.some_node()
        if node is None or node.seen == len(self.controller.history):
            return
        node.seen = self.chance.randrange(max(node.seen + 1, node.first), len(self.controller.history) + 1)
        state, node.brokers.registered, node.brokers.fenced = self.controller.history[node.seen - 1]
        _, effects = node.machine.assign(state, self.now_ms)
        self.act(node, effects)
        self.act(node, node.machine.brokers_changed(self.now_ms))

    def act(self, node: Node, effects: Effects) -> None:
        """Effects in order, the laws after each."""
        for effect in effects:
            match effect:
                case AssignEpoch(epoch, start):
                    node.log.epochs.assign(epoch, start)
                case Truncate(offset) | Restart(offset):
                    self.judge(laws.leader_keeps_its_log(node.machine))
                    self.judge(laws.truncation_bound(node.log, offset, self.memory))
                    self.judge()
                    node.log.truncate(offset)
                    self.marks.add("truncated")
                case AlterIsr():
                    if self.proposed.get(node.me) != effect.isr:
                        self.judge(laws.isr_ask_rule(node.machine, node.brokers, effect))
                    self.proposed[node.me] = effect.isr
                    self.mail.append(("alter", -1, (node.me, effect)))
                case Follow() | AdvanceLogStart():
                    pass
                case _:
                    self.marks.add(type(effect).__name__)
            self.judge()

    def sweep(self) -> None:
        node = self.some_node()
        if node is not None:
            self.act(node, node.machine.sweep(self.now_ms))

    def crash(self) -> None:
        if len(self.nodes) > 1:
            node = self.some_node()
            assert node is not None
            del self.nodes[node.me]
            self.down[node.me] = node
            self.controller.fence(node.me)

    def restart(self) -> None:
        if not self.down:
            return
        old = self.down.pop(self.chance.choice(sorted(self.down)))
        checkpoint = self.chance.choice([0, old.machine.high_watermark])
        node = Node(old.me, old.log, checkpoint, self.kind, self.min_isr)
        self.controller.register(old.me)
        node.broker_epoch = self.controller.brokers.registered[old.me]
        node.first = len(self.controller.history)
        self.nodes[old.me] = node
        self.mail = [m for m in self.mail if m[:2] not in (("fetched", old.me), ("altered", old.me))]

    def unfence(self) -> None:
        for broker in sorted(self.controller.brokers.fenced & self.nodes.keys()):
            if self.nodes[broker].seen > 0:
                self.controller.unfence(broker)
                return

    def move_leader(self) -> None:
        """A fast leader change: any live member of the ISR."""
        isr = self.controller.state.isr
        live = [b for b in isr if b not in self.controller.brokers.fenced]
        if len(live) > 1:
            for _ in range(self.chance.randrange(1, 3)):
                self.controller.elect(isr, (self.chance.choice(live),))

    def bump_epoch(self) -> None:
        """The same leader under a new epoch."""
        state = self.controller.state
        if state.leader != -1:
            self.controller.elect(state.isr, (state.leader,))

    def lose(self) -> None:
        self.mail = [m for m in self.mail if m[0] in ("alter", "altered") or self.chance.random() < 0.5]

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    def settle(self) -> None:
        """No more faults: everybody up and informed, every message delivered, until nothing is left to do."""
        while self.down:
            self.restart()
        for broker in BROKERS:
            self.controller.unfence(broker)
        for _ in range(60 + max(node.log.log_end_offset for node in self.nodes.values())):
            for node in self.nodes.values():
                if node.seen < len(self.controller.history):
                    node.seen = len(self.controller.history) - 1
                    state, node.brokers.registered, node.brokers.fenced = self.controller.history[-1]
                    node.seen += 1
                    self.act(node, node.machine.assign(state, self.now_ms)[1])
                self.act(node, node.machine.sweep(self.now_ms))
                if node.machine.role is Role.FOLLOWER:
                    offset, epoch = node.machine.position()
                    fetch = FollowerFetch(node.me, node.broker_epoch, offset, epoch, node.machine.leader_epoch, 0, 0)
                    self.mail.append(("fetch", node.machine.leader, fetch))
            self.now_ms += 10
            while self.mail:
                kind, to, what = self.mail.pop(0)
                getattr(self, f"on_{kind}")(to, what)
            self.judge()
            self.acknowledge()
            if not self.mail and not laws.proposals_resolve(self.sight()):
                break
        wrong = laws.proposals_resolve(self.sight())
        if wrong:
            raise Broken(f"after quiet: {wrong}")
        final = self.nodes[self.controller.state.leader].log
        for offset, value in self.acked:
            if final.entries[offset][1] != value:
                raise Broken(f"S1: acked {value} at {offset} is lost")
