"""Laws of one partition: invariants after every event, over all its replicas and the controller's committed state.

Each law is a function that returns None, or the sentence that says how it was broken; ``broken`` runs those that need
state only. ``Memory`` keeps what was promised earlier, for laws about time. Law ids (S2, S4 ...) are those of
docs/laws.md. Used by tests, the simulator, and nothing in a running broker.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from moldau.model.protocol import Protocol
from moldau.replication.effects import AlterIsr
from moldau.replication.epochs import EpochTable
from moldau.replication.facts import Assignment, BrokerFacts, LogFacts
from moldau.replication.partition import Partition
from moldau.replication.roles import Role


class LogSight(LogFacts, Protocol):
    """A log whose entries can be read too."""

    def entry(self, offset: int) -> tuple[int, object]:
        """(leader epoch, content) of a present offset."""


@dataclass(frozen=True, slots=True)
class ReplicaSight:
    """One running replica. ``broker_epoch``: of its present process, -1 where it is not known."""

    machine: Partition
    log: LogSight
    broker_epoch: int = -1


@dataclass(slots=True)
class Memory:
    """What has been promised so far: the true high watermark, its entries, and who wrote in which epoch."""

    true_hw: int = 0
    committed: list[tuple[int, object]] = field(default_factory=list)
    shown: int = 0
    writers: dict[int, int] = field(default_factory=dict)
    leader_hw: dict[tuple[int, int], int] = field(default_factory=dict)

    def note(self, replicas: Mapping[int, ReplicaSight]) -> None:
        """Remember every watermark: a consumer may have read up to it, from the leader or from a follower."""
        for sight in replicas.values():
            high = sight.machine.high_watermark
            if sight.machine.role in (Role.LEADER, Role.FOLLOWER) and high > self.true_hw:
                self.committed += [sight.log.entry(offset) for offset in range(self.true_hw, high)]
                self.true_hw = high


@dataclass(frozen=True, slots=True)
class Sight:
    """One instant: the controller's committed state, the running replicas, and the memory."""

    controller: Assignment
    replicas: Mapping[int, ReplicaSight]
    memory: Memory

    def valid_leader(self) -> ReplicaSight | None:
        """Return the replica that leads in the committed leader epoch, once it knows."""
        sight = self.replicas.get(self.controller.leader)
        if sight is None or sight.machine.role is not Role.LEADER:
            return None
        return sight if sight.machine.leader_epoch == self.controller.leader_epoch else None


def _min_isr(machine: Partition) -> int:
    """Return the effective min.insync.replicas, computed here: a checker does not ask the machine that it checks."""
    return min(machine.limits.min_insync_replicas, len(machine.replicas))


def _holds_committed(broker: int, sight: ReplicaSight, memory: Memory) -> str | None:
    if sight.log.log_end_offset < memory.true_hw:
        return f"broker {broker} ends at {sight.log.log_end_offset}, below the true watermark {memory.true_hw}"
    for offset in range(sight.log.log_start_offset, memory.true_hw):
        if sight.log.entry(offset) != memory.committed[offset]:
            return f"broker {broker} holds {sight.log.entry(offset)} at {offset}, not {memory.committed[offset]}"
    return None


def leader_completeness(sight: Sight) -> str | None:
    """S2: the committed leader, when it runs, holds everything that was ever committed."""
    leader = sight.replicas.get(sight.controller.leader)
    return None if leader is None else _holds_committed(sight.controller.leader, leader, sight.memory)


def candidate_completeness(sight: Sight) -> str | None:
    """S3: so does every running member of the committed ISR, for each may be elected next."""
    for broker in sight.controller.isr:
        replica = sight.replicas.get(broker)
        wrong = None if replica is None else _holds_committed(broker, replica, sight.memory)
        if wrong:
            return wrong
    return None


def log_matching(sight: Sight) -> str | None:
    """S4: two replicas agree below both their watermarks, and below any offset where (offset, epoch) agree."""
    replicas = sorted(sight.replicas.items())
    for at, (left_id, left) in enumerate(replicas):
        for right_id, right in replicas[at + 1 :]:
            start = max(left.log.log_start_offset, right.log.log_start_offset)
            end = min(left.log.log_end_offset, right.log.log_end_offset)
            promised = min(left.machine.high_watermark, right.machine.high_watermark)
            same = [left.log.entry(offset) == right.log.entry(offset) for offset in range(start, end)]
            epochs = [left.log.entry(offset)[0] == right.log.entry(offset)[0] for offset in range(start, end)]
            matched = max([offset + 1 for offset, agree in enumerate(epochs, start) if agree], default=start)
            for offset in range(start, min(end, max(promised, matched))):
                if not same[offset - start]:
                    return f"brokers {left_id} and {right_id} differ at {offset}"
    return None


def watermark_in_log(sight: Sight) -> str | None:
    """S8 (all roles): a watermark lies within its own log."""
    for broker, replica in sight.replicas.items():
        high, log = replica.machine.high_watermark, replica.log
        if not log.log_start_offset <= high <= log.log_end_offset:
            return f"broker {broker}: watermark {high} outside [{log.log_start_offset}, {log.log_end_offset}]"
    return None


def shown_never_goes_back(sight: Sight) -> str | None:
    """S7: what a valid leader answers for "latest" is never below what was answered before."""
    leader = sight.valid_leader()
    if leader is None:
        return None
    latest = leader.machine.latest()
    if latest is None:
        return None
    if latest < sight.memory.shown:
        return f"latest went back from {sight.memory.shown} to {latest}"
    sight.memory.shown = latest
    return None


def _lives_anew(replica: ReplicaSight, leader: Partition) -> bool:
    """Return whether a replica restarted and the leader does not know it yet: what it held before may be gone."""
    progress = leader.followers.get(replica.machine.me)
    return progress is not None and replica.broker_epoch not in (-1, progress.broker_epoch)


def watermark_rule(sight: Sight) -> str | None:
    """S8: a valid leader's watermark moves up only to what all of the maximal ISR holds, under an ISR large enough."""
    leader = sight.valid_leader()
    if leader is None:
        return None
    machine, memory = leader.machine, sight.memory
    key = machine.me, machine.leader_epoch
    before = memory.leader_hw.get(key, machine.high_watermark)
    memory.leader_hw[key] = machine.high_watermark
    if machine.high_watermark < before:
        return f"leader {machine.me} lowered its watermark from {before} to {machine.high_watermark}"
    if machine.high_watermark == before:
        return None
    maximal = set(machine.isr) | set(machine.proposal.isr if machine.proposal is not None else ())
    for broker in maximal:
        replica = sight.replicas.get(broker)
        if replica is None or _lives_anew(replica, machine):
            continue
        if replica.log.log_end_offset < machine.high_watermark:
            return f"watermark {machine.high_watermark} is beyond broker {broker} of the maximal ISR"
    return None


def watermark_needs_min_isr(sight: Sight, before: Mapping[int, tuple[int, int]]) -> str | None:
    """S8: no leader advances its watermark in a step that ends with an ISR below min.insync.replicas.

    ``before`` has (watermark, leader epoch) of each leader before the step.
    """
    for broker, replica in sight.replicas.items():
        machine = replica.machine
        high, epoch = before.get(broker, (machine.high_watermark, -1))
        if machine.role is not Role.LEADER or epoch != machine.leader_epoch or machine.high_watermark <= high:
            continue
        if len(machine.isr) < _min_isr(machine):
            return f"leader {broker} moved its watermark to {machine.high_watermark} with ISR {machine.isr}"
    return None


def quorum_superset(sight: Sight) -> str | None:
    """S9: a valid leader's maximal ISR contains the committed ISR; without a proposal it is the ISR."""
    leader = sight.valid_leader()
    if leader is None:
        return None
    machine = leader.machine
    if len(machine.isr) >= _min_isr(machine) and not machine.maximal_isr >= set(sight.controller.isr):
        return f"maximal ISR {sorted(machine.maximal_isr)} lacks some of the committed {sight.controller.isr}"
    if machine.proposal is None and machine.maximal_isr != set(machine.isr):
        return f"maximal ISR {sorted(machine.maximal_isr)} differs from {machine.isr} and nothing is proposed"
    return None


def epoch_cache(sight: Sight) -> str | None:
    """S14: the epoch table increases strictly, is not ahead of the replica, and equals a rebuild from the log."""
    for broker, replica in sight.replicas.items():
        entries, log = replica.log.epochs.entries(), replica.log
        for older, newer in itertools.pairwise(entries):
            if not (older[0] < newer[0] and older[1] < newer[1]):
                return f"broker {broker}: epoch table {entries} does not increase"
        rebuilt = EpochTable()
        for offset in range(log.log_start_offset, log.log_end_offset):
            rebuilt.assign(log.entry(offset)[0], offset)
        empty_last = entries[:-1] if entries and entries[-1][1] == log.log_end_offset else entries
        if empty_last != rebuilt.entries():
            return f"broker {broker}: epoch table {entries}, but the log says {rebuilt.entries()}"
        if log.epochs.latest > replica.machine.leader_epoch >= 0:
            return f"broker {broker}: epoch table {entries} is ahead of epoch {replica.machine.leader_epoch}"
    return None


LOOKS = (
    watermark_in_log, log_matching, epoch_cache, leader_completeness, candidate_completeness, shown_never_goes_back,
    watermark_rule, quorum_superset,
)  # fmt: skip


def broken(sight: Sight) -> str | None:
    """The first law broken at this instant, by name, or None. Notes the watermarks in the memory first."""
    wrong = watermark_in_log(sight)
    if wrong:
        return f"watermark_in_log: {wrong}"
    sight.memory.note(sight.replicas)
    for law in LOOKS:
        wrong = law(sight)
        if wrong:
            return f"{law.__name__}: {wrong}"
    return None


def isr_join_rule(joiner: ReplicaSight, leader: Partition) -> str | None:
    """S10: checked at a committed expansion by ``joiner``."""
    end = joiner.log.log_end_offset
    if end < leader.high_watermark or end < leader.epoch_start:
        return f"joined at {end}: watermark {leader.high_watermark}, epoch start {leader.epoch_start}"
    return None


def isr_ask_rule(machine: Partition, brokers: BrokerFacts, ask: AlterIsr) -> str | None:
    """S10: checked at a leader's request: those it adds are live and fetched under their present registration."""
    for broker, epoch in ask.isr:
        if broker in machine.isr:
            continue
        if not brokers.may_join_isr(broker):
            return f"leader {machine.me} asks for {broker}, which is fenced or shutting down"
        if epoch == -1 or brokers.broker_epoch(broker) not in (-1, epoch):  # the leader may know none (KIP-866)
            return f"leader {machine.me} asks for {broker} of broker epoch {epoch}, not {brokers.broker_epoch(broker)}"
    return None


def truncation_bound(log: LogSight, offset: int, memory: Memory) -> str | None:
    """S12: checked before a truncation to ``offset``: nothing committed is removed."""
    for at in range(max(offset, log.log_start_offset), min(log.log_end_offset, memory.true_hw)):
        if log.entry(at) == memory.committed[at]:
            return f"truncation to {offset} cuts committed offset {at}"
    return None


def one_writer(broker: int, epoch: int, memory: Memory) -> str | None:
    """S13: checked at a leader's append: one broker writes in an epoch."""
    writer = memory.writers.setdefault(epoch, broker)
    return None if writer == broker else f"brokers {writer} and {broker} both wrote in epoch {epoch}"


def leader_keeps_its_log(machine: Partition) -> str | None:
    """S13: checked at a truncation: a leader never truncates its own log in its epoch."""
    return f"leader {machine.me} truncates" if machine.role is Role.LEADER else None


def proposals_resolve(sight: Sight) -> Sequence[str]:
    """L3, L4, checked at quiescence: no proposal open, ISR is all live replicas, everything committed on every one."""
    leader = sight.valid_leader()
    if leader is None:
        return ["no valid leader"]
    wrong = []
    if leader.machine.proposal is not None:
        wrong.append("an ISR proposal is still open")
    if set(leader.machine.isr) != set(sight.controller.isr) or set(sight.controller.isr) < set(sight.replicas):
        wrong.append(f"ISR {leader.machine.isr} / {sight.controller.isr}, live {sorted(sight.replicas)}")
    for broker, replica in sight.replicas.items():
        if replica.machine.high_watermark != leader.log.log_end_offset:
            wrong.append(
                f"broker {broker} at watermark {replica.machine.high_watermark} of {leader.log.log_end_offset}"
            )
    return wrong
