"""Laws of the control plane, one function each; tests and the simulator run them after every committed batch.

A law takes the images before and after (``CommittedBatch``) and raises AssertionError with what is wrong.
``LawChecker`` keeps the image before and runs them all. Here are C1, C2, C3, C7, C8, C10, C11 and C12 of the control
plane's invariants, and the controller's part of S10 and S11; C4, C5 and C13 are about nodes, and live with the
simulator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from moldau.controller.facts import DecisionContext, Facts, Settings, SoftState
from moldau.controller.failures import still_led
from moldau.controller.replica_states import ReplicaStates
from moldau.controller.requests import (
    AlterPartition,
    AlterPartitionReassignments,
    BrokerHeartbeat,
    BrokerRefused,
    BrokersGone,
    DeleteTopics,
    ElectionType,
    ElectLeaders,
    RegisterBroker,
    Tick,
    UpdateFeatures,
)
from moldau.controller.state_change import Author, state_changes
from moldau.controller.states import PARTITION_MOVES, REPLICA_MOVES, PartitionState, ReplicaState, state_of
from moldau.image import NO_LEADER, Delta, Image, Partition, Recovery, image_from, snapshot_records
from moldau.image.delta import PartitionDelta
from moldau.image.partition import Key
from moldau.model.ids import uuid_bytes
from moldau.model.named import NamedTuple
from moldau.wire.records.framing import pack_metadata

_NO_ELECTION = (
    AlterPartition, AlterPartitionReassignments, BrokerRefused, BrokersGone, BrokerHeartbeat, RegisterBroker, Tick
)  # fmt: skip
"""Asks that replace a leader only where it cannot lead any more."""


class ReplicaHistory:
    """Replicas' states as one controller of ZooKeeper mode drives them, and what was told of each last."""

    def __init__(self) -> None:
        self.states = ReplicaStates(-1)
        self.told: dict[tuple[Key, int], ReplicaState] = {}


class CommittedBatch(NamedTuple):
    """One committed batch: images around it, what it changed, the request behind it (where known), topic ids deleted,
    and the brokers of which this controller has heard within the session timeout (where that is known)."""

    before: Image
    after: Image
    delta: Delta
    request: object
    settings: Settings
    deleted: frozenset[bytes]
    heard: frozenset[int] = frozenset()
    replicas: ReplicaHistory | None = None
    """In ZooKeeper mode."""

    @property
    def changes(self) -> list[PartitionDelta]:
        return self.delta.partition_changes(self.after)

    def context(self) -> DecisionContext:
        return DecisionContext(self.after, SoftState(self.settings), Facts(now_ms=0, next_offset=0))

    def context_before(self) -> DecisionContext:
        return DecisionContext(self.before, SoftState(self.settings), Facts(now_ms=0, next_offset=0))


def c1_epochs_never_go_back(step: CommittedBatch) -> None:
    """C1: leader, partition and broker epochs never decrease; one leader per leader epoch; every change is counted."""
    for topic, key, before, after in step.changes:
        if before is None or after is None:
            continue
        where = f"{topic}-{key[1]}: {before} -> {after}"
        assert after.leader_epoch >= before.leader_epoch, f"leader epoch went back: {where}"
        assert after.partition_epoch >= before.partition_epoch, f"partition epoch went back: {where}"
        if after.leader_epoch == before.leader_epoch:
            assert after.leader == before.leader, f"two leaders in one epoch: {where}"
        if after != before:
            assert after.partition_epoch > before.partition_epoch, f"an uncounted change: {where}"
    for id, broker in step.delta.brokers.items():
        now = step.after.brokers.get(id)
        if broker is not None and now is not None:
            assert now.epoch >= broker.epoch, f"broker epoch went back: {broker} -> {now}"


def c2_partitions_are_well_formed(step: CommittedBatch) -> None:
    """C2: ISR and ELR are disjoint parts of the replicas; the leader is in the ISR; nobody fenced is in it."""
    touched = {key for key in step.delta.partitions if step.after.partition(*key) is not None}
    for id in step.delta.brokers:
        touched.update(step.after.index.assigned.get(id, ()))
    if step.delta.features or step.delta.configs:
        touched = {key for keys in step.after.index.led.values() for key in keys}
    context = step.context()
    for key in touched:
        _well_formed(step, context, step.after.at(key))


def _well_formed(step: CommittedBatch, context: DecisionContext, p: Partition) -> None:
    image = step.after
    topic = image.topics[p.topic_id].name
    where = f"{topic}-{p.id}: {p}"
    assert p.replicas, f"no replicas: {where}"
    for group in (p.replicas, p.isr, p.elr, p.adding, p.removing):
        assert len(set(group)) == len(group), f"a replica twice: {where}"
    assert set(p.isr) | set(p.elr) | set(p.adding) | set(p.removing) <= set(p.replicas), f"not a replica: {where}"
    assert not set(p.isr) & set(p.elr), f"in ISR and ELR: {where}"
    assert len(p.directories) == len(p.replicas), f"directories and replicas differ: {where}"
    if p.leader != NO_LEADER:
        assert p.leader in p.isr, f"a leader outside the ISR: {where}"
        assert image.is_active(p.leader) or context.leads_on(p.leader), f"a leader that is fenced or leaving: {where}"
    if p.recovery == Recovery.RECOVERING:
        assert len(p.isr) <= 1, f"recovering with company: {where}"
    inactive = [r for r in p.isr if not image.is_active(r) and not (r == p.leader and context.leads_on(r))]
    if context.elr:
        assert not inactive, f"fenced or leaving brokers in the ISR: {where}"
        assert not p.elr or len(p.isr) < min(context.min_isr(topic), len(p.replicas)), f"an ELR without need: {where}"
        assert p.isr or p.leader == NO_LEADER, f"a leader without an ISR: {where}"
    else:
        before = step.before.partition(p.topic_id, p.id)  # Kafka before 1.1 left ISRs of nobody in ZooKeeper
        assert p.isr or (before is not None and not before.isr), f"an ISR that was emptied: {where}"
        assert not p.elr, f"an ELR that is not kept: {where}"
        # One of an ISR of the dead is back, and parts.arrival has not come to this partition yet: L1 says that it does.
        awaits_election = p.leader == NO_LEADER
        assert not inactive or awaits_election, f"fenced brokers beside others in the ISR: {where}"


def c3_same_log_same_state(step: CommittedBatch) -> None:
    """C3: the image rebuilt from its own snapshot has the same one, which can be written, and its look-ups are those of
    a fresh fold."""
    snapshot = list(snapshot_records(step.after))
    again = image_from(snapshot, step.after.offset)
    assert list(snapshot_records(again)) == snapshot, "the snapshot rebuilds another image"
    for record in snapshot:
        pack_metadata(record)
    for name in again.index.LOOK_UPS:
        assert getattr(again.index, name) == getattr(step.after.index, name), f"look-up {name} is wrong"


def c6_states_move_by_the_table(step: CommittedBatch) -> None:
    """C6: what is told of each partition leads from the state it had to the one it has, by the table's moves only."""
    if all(state_of(before) is state_of(after) for _, _, before, after in step.changes):
        return  # every state leads to itself; words for thousands of ISR changes would cost more than all other laws
    at = {key: state_of(before) for _, key, before, _ in step.changes}
    for event in state_changes(step.delta, step.after, Author(0, 0)):
        told = event.facts
        assert not event.is_refusal, event.text
        if told["event"] == "partition":
            key = uuid_bytes(told["topicId"]), told["partition"]
            was, now = PartitionState(told["from"]), PartitionState(told["to"])
            assert was is at[key], f"partition {key} is told to leave {was.value}, and is {at[key].value}"
            assert now in PARTITION_MOVES[was], f"partition {key} goes from {was.value} to {now.value}"
            at[key] = now
    for _, key, _, after in step.changes:
        assert at[key] is state_of(after), f"partition {key} is {state_of(after).value}, and was told {at[key].value}"


def c6_replicas_move_by_the_table(step: CommittedBatch) -> None:
    """C6: what is told of each replica in ZooKeeper mode leads from the state that it had, by the table's moves only,
    to what its broker and its partition make of it: online, on the way in a move, offline, or gone."""
    if step.replicas is None:
        return
    states, told = step.replicas.states, step.replicas.told
    steps = states.follow(step.after, step.delta, also_healthy=True)
    for topic, key, broker, at, path, refused in steps:
        assert refused is None, f"replica {broker} of {topic}-{key[1]} cannot go from {at.value} to {refused.value}"
        was = told.get((key, broker), at)
        assert at is was, f"replica {broker} of {topic}-{key[1]} is told to leave {at.value}, and is {was.value}"
        for to in path:
            assert to in REPLICA_MOVES[at], f"replica {broker} of {topic}-{key[1]} goes from {at.value} to {to.value}"
            told[key, broker] = at = to
    touched = {key for key in step.delta.partitions if step.after.partition(*key) is not None}
    touched.update(key for id in step.delta.brokers for key in step.after.index.assigned.get(id, ()))
    for key in touched:
        _replicas_are_what_they_are_told(step.after, step.after.at(key), told)
    for step_ in steps:
        if step_.to[-1] is ReplicaState.DELETION_STARTED:
            for end in states.answered(step.after, step_.broker, step_.key, deleted=True):
                told.pop((end.key, end.broker), None)


def _replicas_are_what_they_are_told(image: Image, p: Partition, told: Mapping[tuple[Key, int], ReplicaState]) -> None:
    for replica in p.replicas:
        broker = image.brokers.get(replica)
        lives = broker is not None and not broker.fenced and broker.has_online_dir(p.directory(replica))
        stops = broker is not None and broker.in_controlled_shutdown and p.leader != replica
        state = told.get((p.key, replica))  # None: nothing has happened to it since the first look
        where = f"replica {replica} of {p} is told to be {state}"
        if not lives or stops:
            assert state in (None, ReplicaState.OFFLINE), f"its broker is gone, and {where}"
        elif state is ReplicaState.NEW:
            assert replica in p.adding, f"nothing is added, and {where}"
        else:
            assert state in (None, ReplicaState.ONLINE), f"it is there, and {where}"


def c7_one_incarnation(step: CommittedBatch) -> None:
    """C7: a registration passes to another process only fenced, and under a new epoch; the same one keeps its epoch.

    It never passes from a process that is heard, unless that is proven dead or stopped cleanly.
    """
    request = step.request
    for id, broker in step.delta.brokers.items():
        now = step.after.brokers.get(id)
        if broker is None or now is None:
            continue
        if now.incarnation_id == broker.incarnation_id:
            assert now.epoch == broker.epoch, f"the same process under another epoch: {broker} -> {now}"
        else:
            assert now.epoch > broker.epoch, f"two incarnations under one epoch: {broker} -> {now}"
            assert now.fenced, f"an incarnation that never had to catch up: {now}"
            if isinstance(request, RegisterBroker) and id in step.heard:
                proven = request.has_ended(broker.epoch)
                assert proven, f"a living broker is replaced: {broker} -> {now}"


def c8_deleted_topics_stay_deleted(step: CommittedBatch) -> None:
    """C8: a deleted topic id never returns, and its name's settings go with it."""
    for id, (name, _) in step.delta.topics.items():
        if id in step.after.topics:
            assert id not in step.deleted, f"topic id {id.hex()} ({name}) is back"
    for kind, name in step.delta.configs:
        if kind == 2:
            assert not step.after.config(2, name) or name in step.after.names, f"settings of no topic: {name}"


def c8_deletions_wait_in_zookeeper_mode(step: CommittedBatch) -> None:
    """C8: in ZooKeeper mode no topic is deleted while a partition of it moves, or before its replicas (TD-1, TD-2)."""
    if not step.settings.deletions_wait or not isinstance(step.request, DeleteTopics):
        return
    for id in step.delta.deleted_topics(step.after):
        topic = step.before.topics.get(id)
        for p in () if topic is None else topic.partitions.values():
            where = f"{step.before.topics[id].name} is deleted: {p}"
            assert not p.reassigning, f"it moves, and {where}"
            assert id in step.request.deleted, f"its replicas are there, and {where}"


def c10_reassignment_goes_through_the_union(step: CommittedBatch) -> None:
    """C10: replicas go from current to union to target, or back; ending a move leaves an ISR of all that stay.

    Whoever goes is told by a new leader epoch, or keeps its files for ever (KAFKA-13972).
    """
    for topic, key, before, after in step.changes:
        if before is None or after is None or before.replicas == after.replicas:
            continue
        where = f"{topic}-{key[1]}: {before} -> {after}"
        gone = set(before.replicas) - set(after.replicas)
        come = set(after.replicas) - set(before.replicas)
        if come:
            assert come <= set(after.adding) or come <= set(after.isr), f"a replica that is not being added: {where}"
            assert not come & set(after.isr), f"a newcomer in the ISR: {where}"
        assert not gone or after.leader_epoch > before.leader_epoch, f"replicas go, and are not told: {where}"
        if gone and not after.reassigning and gone == set(before.removing):
            assert set(after.replicas) <= set(after.isr), f"a move ended before all were in sync: {where}"
        within = set(after.replicas) <= set(after.isr)  # a move among replicas in sync has its union from the start
        assert within or gone <= {*before.removing, *before.adding}, f"a replica dropped without a move: {where}"
        in_sync = before.isr or before.elr
        assert after.isr or after.elr or not in_sync, f"a move that leaves nobody in sync: {where}"


def c11_elections_are_clean_or_told(step: CommittedBatch) -> None:
    """C11: a new leader was in ISR or ELR; else somebody allowed it, or it led last, and it is marked recovering."""
    context = step.context()
    for topic, key, before, after in step.changes:
        if before is None or after is None or after.leader in (before.leader, NO_LEADER):
            continue
        if after.leader in before.isr or after.leader in before.elr:
            continue
        if before.leader in before.isr and before.reassigning and set(after.replicas) <= set(after.isr):
            continue  # the old leader brought it into the ISR, which ended the move, which elected it
        where = f"{topic}-{key[1]}: {before} -> {after}"
        by_hand = isinstance(step.request, ElectLeaders) and step.request.election_type == ElectionType.UNCLEAN
        allowed = by_hand or context.unclean(topic) or before.last_known_elr == (after.leader,)
        assert allowed, f"an unclean election: {where}"
        assert after.recovery == Recovery.RECOVERING, f"an unclean election that is not told: {where}"
        assert after.isr == (after.leader,), f"an unclean leader with company: {where}"


def c11_the_selectors_choose_in_zookeeper_mode(step: CommittedBatch) -> None:
    """C11: in ZooKeeper mode the first live replica in sync is elected, in the order of the replicas, and a leader that
    can lead on is replaced by a preferred election only (SE-1)."""
    if not step.settings.zookeeper_mode:
        return
    for topic, key, before, after in step.changes:
        was = NO_LEADER if before is None else before.leader
        if after is None or after.leader in (was, NO_LEADER) or after.recovery == Recovery.RECOVERING:
            continue
        where = f"{topic}-{key[1]}: {before} -> {after}"
        may = [r for r in after.replicas if r in after.isr and _may_lead(step.after, after, r)]
        assert may[:1] == [after.leader], f"another replica came first: {where}"
        assert was not in may or not isinstance(step.request, _NO_ELECTION), f"a live leader is replaced: {where}"


def _may_lead(image: Image, p: Partition, replica: int) -> bool:
    return image.is_active(replica) and image.brokers[replica].has_online_dir(p.directory(replica))


def s10_isr_joins_are_of_this_incarnation(step: CommittedBatch) -> None:
    """S10, the controller's part: who joins an ISR is active, and is the very process that its leader saw fetch."""
    if not isinstance(step.request, AlterPartition):
        return
    requested = {change.key: dict(change.isr) for change in step.request.changes}
    for topic, key, before, after in step.changes:
        if before is None or after is None:
            continue
        for joined in set(after.isr) - set(before.isr):
            broker = step.before.brokers.get(joined)
            seen = requested.get(key, {}).get(joined, -1)
            assert broker is not None, f"{topic}-{key[1]}: broker {joined} is not registered"
            assert broker.active, f"{topic}-{key[1]}: {broker} is not active, and joins an ISR"
            assert seen in (-1, broker.epoch), f"{topic}-{key[1]}: the leader saw epoch {seen} of {broker}"


def s11_nobody_trusts_a_broker_back_from_a_crash(step: CommittedBatch) -> None:
    """S11: a broker back without a clean shutdown is in no ISR and no ELR: its last records may be gone (KIP-966).

    Where no ELR is kept, the sole member of an ISR stays in it: the documented limit.
    """
    request = step.request
    if not isinstance(request, RegisterBroker):
        return
    before, after = step.before.brokers.get(request.broker_id), step.after.brokers.get(request.broker_id)
    if before is None or after is None or before.incarnation_id == after.incarnation_id:
        return
    if request.previous_broker_epoch == before.epoch:
        return
    for p in step.after.partitions_on_broker(request.broker_id):
        assert p.leader != request.broker_id, f"{p} is led by a broker back from a crash"
        if step.context().elr:
            assert request.broker_id not in (*p.isr, *p.elr), (
                f"{p} trusts broker {request.broker_id}, back from a crash"
            )
        else:
            assert p.isr == (request.broker_id,) or request.broker_id not in p.isr, (
                f"{p} trusts broker {request.broker_id}"
            )


def c12_brokers_go_when_they_may(step: CommittedBatch) -> None:
    """C12: a broker that asked to go, and is told so by being fenced, led nothing when it was."""
    request = step.request
    if not isinstance(request, BrokerHeartbeat) or not request.want_shut_down or request.want_fence:
        return
    before, after = step.before.brokers.get(request.broker_id), step.after.brokers.get(request.broker_id)
    if before is not None and after is not None and not before.fenced and after.fenced:
        led = still_led(step.context_before(), request.broker_id)
        assert not led, f"broker {request.broker_id} may go although it leads {led}"


def c1_one_change_for_each_partition(step: CommittedBatch) -> None:
    """C1: a decision changes a partition at most once: two changes would each be made without sight of the other."""
    for _, key, before, after in step.changes:
        if before is not None and after is not None:
            assert after.partition_epoch <= before.partition_epoch + 1, f"changed twice: {key}: {before} -> {after}"


def c13_levels_go_down_only_when_asked(step: CommittedBatch) -> None:
    """C13: the level of a feature goes down only where somebody asked for a downgrade to that very level (KIP-584)."""
    for name, before in step.delta.features.items():
        level = step.after.features.get(name, 0)
        if level >= before or step.request is None:
            continue
        updates = step.request.updates if isinstance(step.request, UpdateFeatures) else ()
        asked = any(one.feature == name and one.level == level and one.upgrade_type > 1 for one in updates)
        assert asked, f"{name} goes from {before} to {level}, and nobody asked for it"


Law = Callable[[CommittedBatch], None]
LAWS: tuple[Law, ...] = (
    c1_epochs_never_go_back,
    c2_partitions_are_well_formed,
    c3_same_log_same_state,
    c6_states_move_by_the_table,
    c6_replicas_move_by_the_table,
    c7_one_incarnation,
    c8_deleted_topics_stay_deleted,
    c8_deletions_wait_in_zookeeper_mode,
    c10_reassignment_goes_through_the_union,
    c11_elections_are_clean_or_told,
    c11_the_selectors_choose_in_zookeeper_mode,
    c12_brokers_go_when_they_may,
    c13_levels_go_down_only_when_asked,
    s10_isr_joins_are_of_this_incarnation,
    s11_nobody_trusts_a_broker_back_from_a_crash,
    c1_one_change_for_each_partition,
)


def _raise(law: Law, step: CommittedBatch) -> None:
    law(step)


class LawChecker:
    """Runs the laws over one image as batches are committed to it; ``judge`` runs one (the simulator counts them)."""

    def __init__(self, image: Image, judge: Callable[[Law, CommittedBatch], None] = _raise) -> None:
        self._judge = judge
        self._before = image.copy()
        self._deleted: set[bytes] = set()
        self._replicas = ReplicaHistory()

    def after(
        self,
        image: Image,
        delta: Delta,
        request: object = None,
        settings: Settings | None = None,
        *,
        heard: frozenset[int] = frozenset(),
    ) -> None:
        """A batch was applied to ``image``; ``delta`` is what it changed."""
        settings = settings or Settings()
        replicas = self._replicas if settings.zookeeper_mode else None
        step = CommittedBatch(self._before, image, delta, request, settings, frozenset(self._deleted), heard, replicas)
        for law in LAWS:
            self._judge(law, step)
        self._deleted |= set(delta.deleted_topics(image))
        if delta:
            self._before = image.copy()
