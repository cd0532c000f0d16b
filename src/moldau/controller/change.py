"""One partition's change: from its state and the desired one to the record that says so, or to nothing.

The only place where leader, ISR, ELR, epochs' bumps and the end of a reassignment are put together; every decision that
touches a partition comes through ``change``. Who desires what: the subject files (``failures.py``, ``isr.py`` ...).
Rules: KIP-631, KIP-455 (reassignment), KIP-841, KIP-858 (directories), KIP-966 (eligible leader replicas).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from moldau.controller.facts import DecisionContext
from moldau.controller.selectors import (
    Candidates,
    ElectionResult,
    Live,
    Refusal,
    elect,
    elect_for_shutdown,
    elect_offline,
    elect_preferred,
    elect_reassigned,
    no_op,
)
from moldau.image.partition import NO_LEADER, Partition, Recovery
from moldau.model.named import NamedTuple
from moldau.wire.records.metadata import PartitionChangeRecord

Replicas = tuple[int, ...]

_AFTER_EPOCHS = Partition._fields.index("adding")
_BEFORE = ("topic_id", "id", "replicas", "isr", "leader", "leader_epoch", "partition_epoch")
assert Partition._fields[:_AFTER_EPOCHS] == _BEFORE, "a field more belongs into the key of worked_out, or behind epochs"


class ElectionMode(Enum):
    """The kind of election that a change may hold."""

    ONLINE = "keep it online from the ISR"
    PREFERRED = "give it its preferred leader, else keep it online"
    UNCLEAN = "keep it online even from outside the ISR"


class DesiredState(NamedTuple):
    """What should become of a partition; None leaves a thing as it is."""

    isr: Replicas | None = None
    replicas: Replicas | None = None
    adding: Replicas | None = None
    removing: Replicas | None = None
    recovery: int | None = None
    directories: Mapping[int, bytes] | None = None
    mode: ElectionMode | None = None
    """None: ONLINE, or UNCLEAN where the topic allows it."""


ChangedFields = dict[str, Any]  # Any: a field of a record, each of its own type
"""What a change record says besides whose it is: field -> value, lists as tuples."""


class LeaderEligibility:
    """Who may lead, as a decision sees it that is itself about to fence, unfence or distrust brokers.

    Ten thousand partitions of a broker that dies are in a dozen different states: what becomes of each state is worked
    out once (``worked_out``).
    """

    __slots__ = ("_active", "arriving", "context", "leaving", "lost_tail", "shutting_down", "worked_out")

    def __init__(
        self,
        context: DecisionContext,
        *,
        leaving: frozenset[int] = frozenset(),
        arriving: frozenset[int] = frozenset(),
        lost_tail: frozenset[int] = frozenset(),
        shutting_down: bool = False,
    ) -> None:
        """``lost_tail``: brokers back from an unclean shutdown, whose last records may be gone (KIP-966).
        ``shutting_down``: who is leaving is there still, in a controlled shutdown."""
        self.context = context
        self.leaving = leaving
        self.arriving = arriving
        self.lost_tail = lost_tail
        self.shutting_down = shutting_down
        self._active: dict[int, bool] = {}
        self.worked_out: dict[tuple[object, ...], ChangedFields | None] = {}
        """Everything that a change is made from -> what it changes."""

    def at(self, context: DecisionContext) -> LeaderEligibility:
        """The same in another look at the world: this one, where it is the look that this one has."""
        if context is self.context:
            return self
        return LeaderEligibility(
            context,
            leaving=self.leaving,
            arriving=self.arriving,
            lost_tail=self.lost_tail,
            shutting_down=self.shutting_down,
        )

    def active(self, broker_id: int) -> bool:
        known = self._active.get(broker_id)
        if known is None:
            gone = broker_id in self.leaving or broker_id in self.lost_tail
            known = not gone and (broker_id in self.arriving or self.context.image.is_active(broker_id))
            self._active[broker_id] = known
        return known

    def counts(self, partition: Partition, broker_id: int) -> bool:
        """Whether a replica may be in the ISR: its broker is active, or leads the partition until another can."""
        if self.active(broker_id):
            return True
        gone = broker_id in self.leaving or broker_id in self.lost_tail
        return broker_id == partition.leader and not gone and self.context.leads_on(broker_id)

    def live(self, partition: Partition) -> Live:
        """The test whether a broker may lead this partition: it is active, and its replica's directory is online."""
        brokers = self.context.image.brokers

        def may_lead(broker_id: int) -> bool:
            return self.counts(partition, broker_id) and brokers[broker_id].has_online_dir(
                partition.directory(broker_id)
            )

        return may_lead


class _Target(NamedTuple):
    """Where a change leads to, while it is worked out."""

    replicas: Replicas
    isr: Replicas
    adding: Replicas
    removing: Replicas
    elr: Replicas
    last_known: Replicas
    leader: int
    recovery: int


def change(
    partition: Partition, topic: str, desired: DesiredState, eligibility: LeaderEligibility
) -> PartitionChangeRecord | None:
    """The record that makes ``desired`` come true for a partition of ``topic``, or None when nothing changes."""
    context, worked_out = eligibility.context, eligibility.worked_out
    min_isr, unclean = context.min_isr(topic) if context.elr else 0, context.unclean(topic)
    if desired.directories is None:
        # All that a change depends on: every field of the partition but its ids and epochs.
        leader, after_epochs = partition.leader, partition[_AFTER_EPOCHS:]
        key = (partition.replicas, partition.isr, leader, after_epochs, desired, min_isr, unclean)
        if key not in worked_out:
            worked_out[key] = _work_out(partition, desired, eligibility, min_isr, unclean=unclean)
        changed = worked_out[key]
    else:
        changed = _work_out(partition, desired, eligibility, min_isr, unclean=unclean)
    if changed is None:
        return None
    record = PartitionChangeRecord(partition_id=partition.id, topic_id=partition.topic_id)
    for field, value in changed.items():
        setattr(record, field, list(value) if isinstance(value, tuple) else value)
    return record


def _work_out(
    partition: Partition, desired: DesiredState, eligibility: LeaderEligibility, min_isr: int, *, unclean: bool
) -> ChangedFields | None:
    """What a change does, whatever partition it is that stands this way. Reads neither id nor epochs of it."""
    context = eligibility.context
    target = _target_of(partition, desired)
    if eligibility.shutting_down and context.settings.zookeeper_mode and partition.leader in eligibility.leaving:
        live, leaving = eligibility.live(partition), eligibility.leaving
        if isinstance(elect_for_shutdown(partition.replicas, partition.isr, live, leaving=leaving), Refusal):
            return None  # it leads on: the broker asks again, and goes in the end all the same (CS-1)
    active_isr = tuple(r for r in target.isr if eligibility.counts(partition, r))
    # An ISR of the dead is all we know without an ELR: it is kept, so that one of its members may lead on return.
    if active_isr or context.elr:
        target = target._replace(isr=active_isr)
    else:
        # Not all of the dead are equal: who came back without its tail must not lead while another may still return.
        whole = tuple(r for r in target.isr if r not in eligibility.lost_tail)
        target = target._replace(isr=whole or target.isr)
    if active_isr:
        target = _completed(target)
    target = _with_elr(partition, target, min_isr, eligibility.lost_tail)
    mode = desired.mode or (ElectionMode.UNCLEAN if unclean else ElectionMode.ONLINE)
    if context.settings.zookeeper_mode:
        target = _selected(partition, target, eligibility, mode)
    else:
        target = _elected(partition, target, eligibility.live(partition), mode)
    if target.leader != NO_LEADER:
        target = _completed(target)  # an unclean leader alone may be all that the move wanted
    if _suffices(target, min_isr):
        # A leader from the ELR may make the ISR large enough to commit: nobody outside has that any more.
        target = target._replace(elr=()) if target.elr else target
    if context.elr and (target.last_known or target.leader == NO_LEADER):
        target = _with_last_known(partition, target)
    directories = _directories(partition, target.replicas, desired, context)
    # Where states are znodes, a change of nothing else raises the partition epoch too, which the leader has to name.
    placed = context.settings.zookeeper_mode and directories != partition.directories
    bump = context.settings.epoch_for_each_change and (placed or _must_be_told(partition, target, desired))
    return _difference(partition, target, directories, bump=bump)


def _target_of(partition: Partition, desired: DesiredState) -> _Target:
    return _Target(
        replicas=partition.replicas if desired.replicas is None else desired.replicas,
        isr=partition.isr if desired.isr is None else desired.isr,
        adding=partition.adding if desired.adding is None else desired.adding,
        removing=partition.removing if desired.removing is None else desired.removing,
        elr=partition.elr,
        last_known=partition.last_known_elr,
        leader=partition.leader,
        recovery=partition.recovery if desired.recovery is None else desired.recovery,
    )


def _completed(target: _Target) -> _Target:
    """End a reassignment once every replica that stays is in the ISR, and not before (KAFKA-15665, C10)."""
    if not (target.adding or target.removing):
        return target
    replicas = tuple(r for r in target.replicas if r not in target.removing)
    isr = tuple(r for r in target.isr if r not in target.removing)
    if not replicas or not set(replicas) <= set(isr):
        return target
    elr = tuple(r for r in target.elr if r in replicas)
    return target._replace(replicas=replicas, isr=isr, adding=(), removing=(), elr=elr)


def _with_elr(partition: Partition, target: _Target, min_isr: int, lost_tail: frozenset[int]) -> _Target:
    """Below min ISR, those who leave the ISR stay eligible: nothing was committed without them since (KIP-966).

    A ``min_isr`` of 0 means that no ELR is kept.
    """
    if _suffices(target, min_isr):
        return target._replace(elr=(), last_known=())
    known = [*target.elr, *(r for r in partition.isr if r not in target.elr)]
    elr = tuple(r for r in known if r not in target.isr and r not in lost_tail and r in target.replicas)
    return target._replace(elr=elr)


def _newcomers(partition: Partition, target: _Target) -> Replicas:
    return tuple(r for r in target.replicas if r not in partition.replicas or r in partition.adding)


def _suffices(target: _Target, min_isr: int) -> bool:
    """Whether the ISR can commit: as large as asked for, or as there are replicas at all."""
    return len(target.isr) >= min(min_isr, len(target.replicas))


def _elected(partition: Partition, target: _Target, live: Callable[[int], bool], mode: ElectionMode) -> _Target:
    among = Candidates(
        current=partition.leader,
        elr=target.elr,
        last_known=partition.last_known_elr,
        empty=() if target.replicas == partition.replicas and not partition.adding else _newcomers(partition, target),
    )
    if mode is ElectionMode.PREFERRED:
        among = among._replace(current=target.replicas[0])
        result = elect(target.replicas, target.isr, live, unclean=False, among=among)
        if isinstance(result, ElectionResult) and result.leader != target.replicas[0]:
            among = among._replace(current=partition.leader)  # no preferred one to be had: do not move it elsewhere
            result = elect(target.replicas, target.isr, live, unclean=False, among=among)
    else:
        result = elect(target.replicas, target.isr, live, unclean=mode is ElectionMode.UNCLEAN, among=among)
    if not isinstance(result, ElectionResult):
        return target._replace(leader=NO_LEADER)
    if result.unclean:
        return target._replace(
            leader=result.leader, isr=result.isr, elr=(), last_known=(), recovery=Recovery.RECOVERING.value
        )
    elr = tuple(r for r in target.elr if r not in result.isr) if target.elr else ()
    return target._replace(leader=result.leader, isr=result.isr, elr=elr)


def _selected(partition: Partition, target: _Target, eligibility: LeaderEligibility, mode: ElectionMode) -> _Target:
    """The target with the leader that Kafka's ZooKeeper controller chooses, by the selector for what happened."""
    result = _select(partition, target, eligibility, mode)
    if isinstance(result, Refusal):
        return target._replace(leader=NO_LEADER)
    recovery = Recovery.RECOVERING.value if result.unclean else target.recovery
    isr = result.isr
    if result.leader != partition.leader:  # who wants to shut down was in the ISR as the leader only
        isr = tuple(filter(eligibility.active, isr))
    return target._replace(leader=result.leader, isr=isr, recovery=recovery)


def _select(
    partition: Partition, target: _Target, eligibility: LeaderEligibility, mode: ElectionMode
) -> ElectionResult | Refusal:
    live, leader = eligibility.live(partition), partition.leader
    if mode is ElectionMode.PREFERRED:
        result = elect_preferred(target.replicas, target.isr, live, current=leader)
        if isinstance(result, ElectionResult):
            return result
    if leader in target.isr and live(leader):
        return no_op(leader, target.isr)
    if eligibility.shutting_down and leader in eligibility.leaving:
        return elect_for_shutdown(target.replicas, target.isr, live, leaving=eligibility.leaving)
    if leader != NO_LEADER and leader not in target.replicas:
        result = elect_reassigned(target.replicas, target.isr, live)
        if isinstance(result, ElectionResult):
            return result
    empty = () if target.replicas == partition.replicas and not partition.adding else _newcomers(partition, target)
    return elect_offline(
        [r for r in target.replicas if r in target.isr or r not in empty],
        target.isr,
        live,
        unclean=mode is ElectionMode.UNCLEAN,
    )


def _with_last_known(partition: Partition, target: _Target) -> _Target:
    """Remember who led when a partition loses its whole ISR; forget it once somebody leads."""
    if target.leader != NO_LEADER:
        return target._replace(last_known=())
    if partition.leader != NO_LEADER and not target.isr:
        return target._replace(last_known=(partition.leader,))
    return target._replace(last_known=partition.last_known_elr)


def _directories(
    partition: Partition, replicas: Replicas, desired: DesiredState, context: DecisionContext
) -> tuple[bytes, ...]:
    if desired.directories is None and replicas == partition.replicas:
        return partition.directories
    placed = dict(zip(partition.replicas, partition.directories, strict=True))
    placed.update(desired.directories or {})
    return tuple(placed[r] if r in placed else context.default_directory(r) for r in replicas)


def _must_be_told(partition: Partition, target: _Target, desired: DesiredState) -> bool:
    """Whether a leader that goes by the leader epoch alone would not learn of this change without a new one.

    It knows the ISR that it asked for itself (KAFKA-15109), but never which replicas there are (KIP-455).
    """
    moved = partition.replicas, partition.adding, partition.removing
    if moved != (target.replicas, target.adding, target.removing):
        return True
    return desired.isr is None and not set(partition.isr) <= set(target.isr)


def _difference(
    partition: Partition, target: _Target, directories: tuple[bytes, ...], *, bump: bool
) -> ChangedFields | None:
    """What differs, if anything. A replica that goes bumps the leader epoch, to be known stray (KAFKA-13972)."""
    changed: ChangedFields = {}
    if target.leader != partition.leader or bump or not set(partition.replicas) <= set(target.replicas):
        changed["leader"] = target.leader
    for field, now, then in (
        ("isr", target.isr, partition.isr),
        ("replicas", target.replicas, partition.replicas),
        ("adding_replicas", target.adding, partition.adding),
        ("removing_replicas", target.removing, partition.removing),
        ("eligible_leader_replicas", target.elr, partition.elr),
        ("last_known_elr", target.last_known, partition.last_known_elr),
        ("directories", directories, partition.directories),
    ):
        if now != then:
            changed[field] = now
    if target.recovery != partition.recovery:
        changed["leader_recovery_state"] = target.recovery
    return changed or None
