"""Replicas of one partition, a model controller and a net that loses, delays and reorders; laws run after effects.

Everything in flight is a list of messages. What may be done takes its choices as arguments, so that a seed may draw
them (replication_swarm.py) or a search try all (small_replication.py). A killed process keeps its log; a power cut
takes what was not flushed. Read next: replication_model.py.
"""

from __future__ import annotations

from typing import Any

from moldau.model import Code
from moldau.replication import laws
from moldau.replication.effects import AdvanceLogStart, AlterIsr, AssignEpoch, Effects, Follow, Restart, Truncate
from moldau.replication.facts import FetchAnswer, FollowerFetch, IsrAnswer
from moldau.replication.follower import Next
from moldau.replication.partition import Partition
from moldau.replication.progress import Progress
from moldau.replication.roles import NOBODY, Limits, Proposal, Role
from moldau.simulator.machines.record import Broken, RunRecord
from moldau.simulator.machines.replication_model import Brokers, ModelController, ModelLog

LAG_MAX_MS = 100


class ReplicationNode:
    """One broker: a machine, its log, the image as far as it has come, and a follower's single fetch in flight."""

    def __init__(self, me: int, log: ModelLog, brokers: Brokers, machine: Partition) -> None:
        self.me = me
        self.log = log
        self.brokers = brokers
        self.machine = machine
        self.seen = 0  # how much of the controller's history is applied
        self.first = 0  # a starting broker acts on nothing older than its own registration
        self.broker_epoch = 1

    def copy(self) -> ReplicationNode:
        log, brokers, old = self.log.copy(), self.brokers.copy(), self.machine
        machine = object.__new__(type(old))
        for kind in type(old).__mro__:
            for slot in getattr(kind, "__slots__", ()):
                if hasattr(old, slot):
                    setattr(machine, slot, getattr(old, slot))
        machine._log, machine._brokers = log, brokers
        machine.followers = {broker: _same_progress(progress) for broker, progress in old.followers.items()}
        if old.proposal is not None:
            machine.proposal = Proposal(old.proposal.isr, old.proposal.asked_ms)
            machine.proposal.waiting = old.proposal.waiting
        other = ReplicationNode(self.me, log, brokers, machine)
        other.seen, other.first, other.broker_epoch = self.seen, self.first, self.broker_epoch
        return other


def _same_progress(progress: Progress) -> Progress:
    other = Progress(None)
    for slot in Progress.__slots__:
        setattr(other, slot, getattr(progress, slot))
    return other


class ReplicationSimulation:
    """``brokers`` replicas of one partition. ``machine`` may be a wrong one (a mutant's)."""

    machine: type[Partition] = Partition

    def __init__(self, brokers: int = 3, min_isr: int = 2, record: RunRecord | None = None) -> None:
        self.min_isr = min_isr
        self.now_ms = 1000
        self.record = record or RunRecord()
        self.controller = ModelController(range(brokers))
        self.nodes = {b: self.node(b, ModelLog(), 0) for b in range(brokers)}
        self.down: dict[int, ReplicationNode] = {}
        self.in_flight: list[tuple[str, int, Any]] = []
        self.memory = laws.Memory()
        self.produced = 0
        self.acked: list[tuple[int, object]] = []
        self.parked: list[tuple[int, int, object]] = []
        self.proposed: dict[int, object] = {}

    def node(self, me: int, log: ModelLog, checkpoint: int) -> ReplicationNode:
        brokers = self.controller.brokers.copy()
        return ReplicationNode(
            me, log, brokers, self.machine(me, log, brokers, Limits(self.min_isr, LAG_MAX_MS), checkpoint)
        )

    def copy(self) -> ReplicationSimulation:
        """Return a copy that goes on by itself."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.record = RunRecord()
        other.controller = self.controller.copy()
        other.nodes = {b: node.copy() for b, node in self.nodes.items()}
        other.down = dict(self.down)
        memory = self.memory
        other.memory = laws.Memory(
            memory.true_hw, memory.committed.copy(), memory.shown, dict(memory.writers), dict(memory.leader_hw)
        )
        other.in_flight, other.acked, other.parked = self.in_flight.copy(), self.acked.copy(), self.parked.copy()
        other.proposed = dict(self.proposed)
        return other

    # ---- checking

    def sight(self) -> laws.Sight:
        replicas = {b: laws.ReplicaSight(n.machine, n.log, n.broker_epoch) for b, n in self.nodes.items()}
        return laws.Sight(self.controller.state, replicas, self.memory)

    def check(self) -> None:
        """Check all laws of state."""
        sight, record = self.sight(), self.record
        record.check(laws.watermark_in_log, sight)
        self.memory.note(sight.replicas)
        record.check_all(laws.LOOKS, sight)

    def done(self, what: str, before: dict[int, tuple[int, int]]) -> None:
        """Check the laws after an action as a whole, and note which produces it acknowledges."""
        sight = self.sight()
        self.check()
        self.record.check(laws.watermark_needs_min_isr, sight, before)
        self.acknowledge()
        state = self.controller.state
        ends = " ".join(
            f"{b}:{n.machine.role.value[0]}{n.machine.leader_epoch}/{n.machine.high_watermark}/{n.log.log_end_offset}"
            for b, n in self.nodes.items()
        )
        self.record.event(
            self.now_ms, f"{what} -> leader {state.leader} epoch {state.leader_epoch} isr {state.isr} | {ends}"
        )

    def watermarks(self) -> dict[int, tuple[int, int]]:
        return {b: (n.machine.high_watermark, n.machine.leader_epoch) for b, n in self.nodes.items()}

    # ---- clients

    def produce(self, me: int, count: int) -> None:
        """A client writes to a broker with acks=all, if it is let."""
        node = self.nodes[me]
        if node.machine.check_append(-1) is not Code.NONE:
            return
        epoch = node.machine.leader_epoch
        for _ in range(count):
            self.produced += 1
            node.log.append(epoch, self.produced)
        self.record.check(laws.one_writer, node.me, epoch, self.memory)
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

    # ---- brokers

    def may_fetch(self, me: int) -> bool:
        """Whether this broker follows a leader and has not too much in flight."""
        machine = self.nodes[me].machine
        if machine.role is not Role.FOLLOWER or machine.leader == NOBODY:
            return False
        return sum(1 for kind, _, what in self.in_flight if kind == "fetch" and what.replica_id == me) <= 1

    def fetch(self, me: int) -> None:
        node = self.nodes[me]
        offset, epoch = node.machine.position()
        ask = FollowerFetch(node.me, node.broker_epoch, offset, epoch, node.machine.leader_epoch, 0, 0)
        self.in_flight.append(("fetch", node.machine.leader, ask))

    def deliver(self, at: int, *, batches: int = 100) -> None:
        """A message arrives; a fetch is answered with at most ``batches`` records."""
        kind, to, what = self.in_flight.pop(at)
        if kind == "fetch":
            self._on_fetch(to, what, batches)
        elif kind == "fetched":
            self._on_fetched(to, what)
        elif kind == "alter":
            self._on_alter(what)
        else:
            self._hear_isr(to, what)

    def lose(self, at: int) -> None:
        """A message is lost. A request to the controller then fails; a fetcher just asks again."""
        kind, to, what = self.in_flight.pop(at)
        self.record.coverage.add(f"lost {kind}")
        if kind == "alter":
            self._hear_isr(what[0], IsrAnswer(what[1].serial, Code.NETWORK_EXCEPTION))
        elif kind == "altered":
            self._hear_isr(to, IsrAnswer(what.serial, Code.NETWORK_EXCEPTION))

    def _on_fetch(self, to: int, fetch: FollowerFetch, batches: int) -> None:
        node = self.nodes.get(to)
        if node is None:
            return
        verdict = node.machine.follower_fetched(fetch._replace(now_ms=self.now_ms))
        entries = []
        if verdict.code is Code.NONE and verdict.diverging is None:
            entries = node.log.entries[fetch.fetch_offset : fetch.fetch_offset + batches]
        answer = FetchAnswer(
            fetch.current_leader_epoch, (fetch.fetch_offset, fetch.last_fetched_epoch), verdict.code, verdict.diverging,
            node.machine.high_watermark, 0,
        )  # fmt: skip
        self.in_flight.append(("fetched", fetch.replica_id, (answer, entries, node.log.log_end_offset)))
        self.act(node, verdict.effects)

    def _on_fetched(self, to: int, what: tuple[FetchAnswer, list[tuple[int, object]], int]) -> None:
        node = self.nodes.get(to)
        if node is None:
            return
        answer, entries, leader_end = what
        then, effects = node.machine.fetch_answered(answer)
        self.record.coverage.add(then.name)
        self.act(node, effects)
        if then is Next.APPEND:
            for epoch, value in entries:
                node.log.append(epoch, value)
            self.act(node, node.machine.appended_from_leader(answer.high_watermark, answer.log_start_offset))
        elif then is Next.ASK_RANGE:
            self.act(node, node.machine.out_of_range(0, leader_end))

    def _on_alter(self, what: tuple[int, AlterIsr]) -> None:
        sender, ask = what
        before, leader = self.controller.state, self.nodes.get(sender)
        answer = self.controller.alter(sender, ask)
        self.record.coverage.add(f"alter {answer.code.name}")
        for joiner in sorted(set(self.controller.state.isr) - set(before.isr)):
            if leader is not None and joiner in self.nodes:
                node = self.nodes[joiner]
                self.record.check(laws.isr_join_rule, laws.ReplicaSight(node.machine, node.log), leader.machine)
        self.in_flight.append(("altered", sender, answer))

    def _hear_isr(self, to: int, answer: IsrAnswer) -> None:
        node = self.nodes.get(to)
        if node is not None:
            self.act(node, node.machine.isr_answered(answer, self.now_ms))

    def learn(self, me: int, upto: int) -> None:
        """One broker's image moves on to the controller's ``upto``-th change, maybe over several at once."""
        node = self.nodes[me]
        node.seen = upto
        state, node.brokers.registered, node.brokers.fenced = self.controller.history[upto - 1]
        if me not in state.replicas:
            self._leave(node)
            return
        _, effects = node.machine.assign(state, self.now_ms)
        self.act(node, effects)
        self.act(node, node.machine.brokers_changed(self.now_ms))

    def _leave(self, node: ReplicationNode) -> None:
        """A replica that is no more: its log goes. Should it come back, it begins empty."""
        if node.machine.role is not Role.IDLE or node.log.log_end_offset:
            self.act(node, node.machine.remove())
            self.record.coverage.add("a replica was removed")
            empty = self.node(node.me, ModelLog(), 0)
            empty.seen, empty.first, empty.broker_epoch = node.seen, node.first, node.broker_epoch
            empty.brokers.registered, empty.brokers.fenced = node.brokers.registered, node.brokers.fenced
            self.nodes[node.me] = empty

    def sweep(self, me: int) -> None:
        node = self.nodes[me]
        self.act(node, node.machine.sweep(self.now_ms))

    def act(self, node: ReplicationNode, effects: Effects) -> None:
        """Effects in order, the laws after each."""
        check = self.record.check
        for effect in effects:
            match effect:
                case AssignEpoch(epoch, start):
                    node.log.epochs.assign(epoch, start)
                case Truncate(offset) | Restart(offset):
                    check(laws.leader_keeps_its_log, node.machine)
                    check(laws.truncation_bound, node.log, offset, self.memory)
                    self.check()
                    if offset < node.log.log_end_offset:
                        self.record.coverage.add("truncated")
                    node.log.truncate(offset)
                case AlterIsr():
                    # The same request again is not decided anew: only how its members are known may have changed since.
                    members = tuple(broker for broker, _ in effect.isr)
                    if self.proposed.get(node.me) != members:
                        check(laws.isr_ask_rule, node.machine, node.brokers, effect)
                    self.proposed[node.me] = members
                    self.in_flight.append(("alter", NOBODY, (node.me, effect)))
                case Follow() | AdvanceLogStart():
                    pass
                case _:
                    self.record.coverage.add(type(effect).__name__)
            self.check()

    # ---- what befalls them

    def crash(self, me: int, *, keep: int | None = None, noticed: bool = True) -> None:
        """Kill a broker; with ``keep`` it loses power, and its log ends there. Not ``noticed``: no other knows yet."""
        node = self.nodes.pop(me)
        self.down[me] = node
        if keep is not None:
            node.log.truncate(keep)
            self.record.coverage.add("a tail was lost")
        if noticed:
            self.controller.fence(me)

    def restart(self, me: int, checkpoint: int) -> None:
        old = self.down.pop(me)
        old.log.flushed = old.log.log_end_offset
        self.controller.register(me)
        node = self.node(me, old.log, checkpoint)
        node.broker_epoch = self.controller.brokers.registered[me]
        node.first = len(self.controller.history)
        self.nodes[me] = node
        self.in_flight = [m for m in self.in_flight if m[:2] not in (("fetched", me), ("altered", me))]

    def unfence(self, me: int) -> None:
        self.controller.unfence(me)


def after_quiet(world: ReplicationSimulation) -> list[str]:
    """L3, L4: what is still wrong when nothing is left to do."""
    wrong = list(laws.proposals_resolve(world.sight()))
    leader = world.sight().valid_leader()
    if leader is not None and len(leader.machine.isr) < leader.machine.effective_min_isr:
        wrong = [one for one in wrong if "at watermark" not in one]  # too few: nothing new is committed, as promised
    return wrong


def nothing_acknowledged_is_lost(world: ReplicationSimulation) -> None:
    """S1: every value acknowledged is at its offset on the leader."""
    leader = world.sight().valid_leader()
    assert leader is not None
    for offset, value in world.acked:
        held = leader.log.entry(offset)[1] if offset < leader.log.log_end_offset else None
        if held != value:
            raise Broken("S1", f"acked {value} at {offset} is lost: {held} is there")
