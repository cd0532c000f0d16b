"""Mistakes in the controller: epochs, ISR and ELR, elections, reassignment, registration, shutdown, failover.

Facts about Kafka's bugs are from its issues by number; the code is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Any

from moldau.controller import (
    active,
    brokers,
    change,
    failures,
    isr,
    ledger,
    reassignment,
    replica_states,
    replies,
    requests,
    selectors,
    state_change,
    topics,
)
from moldau.controller.change import DesiredState, LeaderEligibility
from moldau.controller.facts import BrokerSession, Decision, DecisionContext, Problem, SoftState
from moldau.controller.selectors import ElectionResult, Live, Refusal
from moldau.controller.states import PartitionState, ReplicaState, path
from moldau.image import image as image_module
from moldau.image.index import PartitionIndex
from moldau.image.partition import Partition, merged
from moldau.image.registration import Broker
from moldau.model.value import replace
from moldau.simulator.mutants.mutant import Mutant, Patches
from moldau.wire.records.metadata import RegisterBrokerRecord
from moldau.wire.schema import Message


def leaders_change_within_an_epoch(patches: Patches) -> None:
    def no_bump(partition: Partition, record: Any) -> Partition:
        return merged(partition, record)._replace(leader_epoch=partition.leader_epoch)

    patches.set(image_module, "merged", no_bump)


def changes_are_not_counted(patches: Patches) -> None:
    def no_count(partition: Partition, record: Any) -> Partition:
        return merged(partition, record)._replace(partition_epoch=partition.partition_epoch)

    patches.set(image_module, "merged", no_count)


def a_fenced_broker_keeps_its_place(patches: Patches) -> None:
    patches.set(failures, "leave", lambda context, gone: [])


def anybody_may_join_an_isr(patches: Patches) -> None:
    patches.set(isr, "_eligible", lambda context, partition, broker_id, epoch: True)


def an_older_incarnation_may_join_an_isr(patches: Patches) -> None:
    real = isr._eligible
    patches.set(isr, "_eligible", lambda context, partition, broker_id, epoch: real(context, partition, broker_id, -1))


def an_isr_exceeds_its_replicas(patches: Patches) -> None:
    patches.set(isr, "_well_formed", lambda partition, requested: True)


def a_move_ends_when_its_newcomers_are_in_sync(patches: Patches) -> None:
    def ends_early(target: Any) -> Any:
        if not (target.adding or target.removing) or not set(target.adding) <= set(target.isr):
            return target
        replicas = tuple(r for r in target.replicas if r not in target.removing)
        left = tuple(r for r in target.isr if r not in target.removing)
        if not left:
            return target
        return target._replace(replicas=replicas, isr=left, adding=(), removing=())

    patches.set(change, "_completed", ends_early)


def a_move_never_ends(patches: Patches) -> None:
    patches.set(change, "_completed", lambda target: target)


def replicas_are_replaced_outright(patches: Patches) -> None:
    def outright(partition: Partition, target: tuple[int, ...], *, zookeeper_mode: bool) -> DesiredState:
        return DesiredState(replicas=target, adding=(), removing=())

    patches.set(reassignment, "_desired_state", outright)


def whoever_goes_is_not_told(patches: Patches) -> None:
    real = change._difference

    def difference(partition: Any, target: Any, directories: Any, *, bump: bool) -> Any:
        changed = real(partition, target, directories, bump=bump)
        if changed and target.leader == partition.leader:
            changed.pop("leader", None)
        return changed

    patches.set(change, "_difference", difference)


def any_live_replica_is_elected(patches: Patches) -> None:
    def elect(assigned: Any, isr_: Any, live: Any, *, unclean: bool, among: Any = None) -> Any:
        for replica in assigned:
            if live(replica):
                return ElectionResult(replica, tuple(isr_) if replica in isr_ else (*isr_, replica))
        return None

    patches.set(change, "elect", elect)


def the_offline_selector_asks_no_isr(patches: Patches) -> None:
    real = selectors.elect_offline

    def elect(assigned: Sequence[int], isr_: Sequence[int], live: Live, *, unclean: bool) -> ElectionResult | Refusal:
        first = next((replica for replica in assigned if live(replica)), None)
        if first is None:
            return real(assigned, isr_, live, unclean=unclean)
        return ElectionResult(first, tuple(dict.fromkeys((first, *filter(live, isr_)))))

    patches.set(change, "elect_offline", elect)


def the_offline_selector_takes_the_last_in_sync(patches: Patches) -> None:
    real = selectors.elect_offline
    patches.set(change, "elect_offline", lambda assigned, *more, **allowed: real(assigned[::-1], *more, **allowed))


def the_reassigned_selector_takes_the_last_in_sync(patches: Patches) -> None:
    real = selectors.elect_reassigned
    patches.set(change, "elect_reassigned", lambda target, *more: real(target[::-1], *more))


def the_preferred_selector_asks_no_isr(patches: Patches) -> None:
    real = selectors.elect_preferred

    def elect(assigned: Sequence[int], isr_: Sequence[int], live: Live, *, current: int) -> ElectionResult | Refusal:
        return real(assigned, tuple(dict.fromkeys((*isr_, assigned[0]))), live, current=current)

    patches.set(change, "elect_preferred", elect)


def the_shutdown_selector_takes_the_last_who_stays(patches: Patches) -> None:
    real = selectors.elect_for_shutdown
    patches.set(change, "elect_for_shutdown", lambda assigned, *more, **gone: real(assigned[::-1], *more, **gone))


def a_leader_that_lives_is_replaced(patches: Patches) -> None:
    patches.set(change, "no_op", lambda leader, isr_: ElectionResult(isr_[-1], tuple(isr_)))


def unclean_elections_are_not_told(patches: Patches) -> None:
    real = selectors.elect

    def elect(assigned: Any, isr_: Any, live: Any, *, unclean: bool, among: Any = None) -> Any:
        result = real(assigned, isr_, live, unclean=True, among=among)
        return result._replace(unclean=False) if isinstance(result, ElectionResult) else result

    patches.set(change, "elect", elect)


def an_elr_is_never_cleared(patches: Patches) -> None:
    real = change._difference

    def difference(partition: Any, target: Any, directories: Any, *, bump: bool) -> Any:
        kept = tuple(r for r in partition.elr if r not in target.isr and r in target.replicas)
        return real(partition, target._replace(elr=target.elr or kept), directories, bump=bump)

    patches.set(change, "_difference", difference)


def the_elr_repeats_the_isr(patches: Patches) -> None:
    real = change._elected

    def elected(partition: Any, target: Any, live: Any, how: Any) -> Any:
        result = real(partition, target, live, how)
        return result._replace(elr=tuple(dict.fromkeys((*target.elr, *result.isr))))

    patches.set(change, "_elected", elected)


def a_crash_is_forgiven(patches: Patches) -> None:
    patches.set(
        failures, "handle_unclean_shutdown", lambda context, broker_id: failures.leave(context, frozenset({broker_id}))
    )


def the_last_isr_trusts_who_lost_its_tail(patches: Patches) -> None:
    def handle_unclean_shutdown(context: DecisionContext, broker_id: int) -> list[Message]:
        return real(context, broker_id) if context.elr else failures.leave(context, frozenset({broker_id}))

    real = failures.handle_unclean_shutdown
    patches.set(failures, "handle_unclean_shutdown", handle_unclean_shutdown)


def a_broker_may_always_go(patches: Patches) -> None:
    patches.set(brokers, "_may_go", lambda context, broker, session, *, emptied: True)


def a_leaver_waits_for_the_dead(patches: Patches) -> None:
    def may_go(context: DecisionContext, broker: Broker, session: BrokerSession, *, emptied: bool) -> bool:
        if context.image.index.led.get(broker.id):
            return False
        heard = [context.soft_state.sessions.get(id) for id in context.image.brokers if id != broker.id]
        return all(one is not None and one.metadata_offset >= context.facts.next_offset - 1 for one in heard)

    patches.set(brokers, "_may_go", may_go)


def _changed_registration(patches: Patches, alter: Callable[[DecisionContext, RegisterBrokerRecord], None]) -> None:
    real = brokers.register_broker

    def register(context: DecisionContext, ask: requests.RegisterBroker) -> Decision:
        decision = real(context, ask)
        for record in decision.records:
            if isinstance(record, RegisterBrokerRecord):
                alter(context, record)
        return decision

    patches.put(ledger.DECIDERS, requests.RegisterBroker, register)


def a_restart_takes_an_older_epoch(patches: Patches) -> None:
    def older(context: DecisionContext, record: RegisterBrokerRecord) -> None:
        record.broker_epoch = max(0, record.broker_epoch - 1000)

    _changed_registration(patches, older)


def the_same_process_gets_another_epoch(patches: Patches) -> None:
    def bumped(context: DecisionContext, record: RegisterBrokerRecord) -> None:
        record.broker_epoch = context.facts.next_offset

    _changed_registration(patches, bumped)


def a_new_process_is_let_in_at_once(patches: Patches) -> None:
    def unfenced(context: DecisionContext, record: RegisterBrokerRecord) -> None:
        record.fenced = False

    _changed_registration(patches, unfenced)


def a_living_broker_is_replaced(patches: Patches) -> None:
    """An equal address was taken for a proof of death, and a copied file has it as well."""
    real = brokers.register_broker

    def register(context: DecisionContext, ask: requests.RegisterBroker) -> Decision:
        return real(context, replace(ask, previous_is_gone=True))

    patches.put(ledger.DECIDERS, requests.RegisterBroker, register)


def a_busy_log_keeps_brokers_out(patches: Patches) -> None:
    real = brokers.heartbeat

    def heartbeat(context: DecisionContext, ask: requests.BrokerHeartbeat) -> Decision:
        broker = context.image.brokers.get(ask.broker_id)
        if broker is not None and broker.fenced and ask.metadata_offset < context.facts.next_offset - 1:
            ask = replace(ask, metadata_offset=-1)
        return real(context, ask)

    patches.put(ledger.DECIDERS, requests.BrokerHeartbeat, heartbeat)


def the_controllers_own_sleep_fences_all(patches: Patches) -> None:
    patches.set(active.ActiveController, "_forgive_own_sleep", lambda self, now_ms: None)


def brokers_that_fall_silent_together_are_fenced_one_by_one(patches: Patches) -> None:
    def fence(context: DecisionContext, broker_ids: Iterable[int]) -> list[Message]:
        return [record for id in sorted(broker_ids) for record in real(context, [id])]

    real = failures.fence
    patches.set(failures, "fence", fence)


def an_unfenced_broker_elects_nobody(patches: Patches) -> None:
    real = failures.unfence
    patches.set(failures, "unfence", lambda context, broker_id: real(context, broker_id)[:1])


def a_partition_changes_twice_in_a_decision(patches: Patches) -> None:
    real = failures.changes

    def twice(eligibility: LeaderEligibility, keys: Any) -> list[Any]:  # Any: a mutant takes whatever it stands for
        keys = list(keys)
        return [*real(eligibility, keys), *real(eligibility, keys)]

    patches.set(failures, "changes", twice)


def new_partitions_count_the_fenced_in(patches: Patches) -> None:
    real = topics._new_partitions

    def made(
        context: DecisionContext, topic_id: bytes, first: int, placed: Sequence[tuple[int, ...]]
    ) -> list[Partition] | Problem:
        done = real(context, topic_id, first, placed)
        return [p._replace(isr=p.replicas) for p in done] if isinstance(done, list) else done

    patches.set(topics, "_new_partitions", made)


def a_name_made_again_is_the_old_topic(patches: Patches) -> None:
    real = topics._create

    def create(context: DecisionContext, topic: requests.NewTopic, *rest: Any) -> Any:  # Any: as ``_create`` has it
        outcome = real(context, topic, *rest)
        if isinstance(outcome[0], list):
            for record in outcome[0]:
                if hasattr(record, "topic_id"):
                    record.topic_id = sha256(topic.name.encode()).digest()[:16]
        return outcome

    patches.set(topics, "_create", create)


def a_deletion_does_not_wait(patches: Patches) -> None:
    patches.set(topics, "_must_wait", lambda context, topic, deleted, moving: False)


def a_lookup_is_not_kept(patches: Patches) -> None:
    patches.set(PartitionIndex, "_relead", lambda self, key, before, after: None)


def a_reply_leaves_before_its_commit(patches: Patches) -> None:
    real = active.ActiveController._take

    def hasty(self: Any, decision: Any, facts: Any, rest: Any = None) -> Any:  # Any: in place of a method
        answer = real(self, decision, facts, rest)
        self._waiting.clear()
        return answer._replace(token=None, reply=decision.reply)

    patches.set(active.ActiveController, "_take", hasty)


def a_refusal_tells_of_what_is_not_committed(patches: Patches) -> None:
    real = active.ActiveController._take

    def hasty(self: Any, decision: Any, facts: Any, rest: Any = None) -> Any:  # Any: in place of a method
        answer = real(self, decision, facts, rest)
        if decision.records or answer.token is None:
            return answer
        self._waiting.pop()
        return answer._replace(token=None, reply=decision.reply)

    patches.set(active.ActiveController, "_take", hasty)


def a_deposed_controller_goes_on(patches: Patches) -> None:
    def lose(self: Any) -> list[Any]:
        lost = [(waiting.token, active._DEPOSED) for waiting in self._waiting]
        self._waiting.clear()
        self.epoch = None
        return lost

    patches.set(active.ActiveController, "renounce", lose)


def a_controller_resigns_and_leaves_callers_waiting(patches: Patches) -> None:
    def lose(self: Any) -> list[Any]:
        self._waiting.clear()
        self.epoch = self.working = None
        self.soft_state = SoftState(self.settings)
        return []

    patches.set(active.ActiveController, "renounce", lose)


def a_reelected_controller_keeps_its_old_image(patches: Patches) -> None:
    take, lose = active.ActiveController.claim, active.ActiveController.renounce
    kept: dict[int, Any] = {}

    def keeps(self: Any) -> Any:
        if self.working is not None:
            kept[id(self)] = self, self.working
        return lose(self)

    def takes(self: Any, epoch: int, image: Any, facts: Any, bootstrap: Any = None) -> Any:
        answer = take(self, epoch, image, facts, bootstrap)
        if not answer.records and id(self) in kept and kept[id(self)][0] is self:
            self.working = kept[id(self)][1]
        return answer

    patches.set(active.ActiveController, "renounce", keeps)
    patches.set(active.ActiveController, "claim", takes)


def a_deletion_is_answered_and_not_written(patches: Patches) -> None:
    def forgetful(image: Any, soft: Any, ask: Any, facts: Any) -> Decision:
        decision = ledger.decide(image, soft, ask, facts)
        return replace(decision, records=[]) if isinstance(decision.reply, replies.TopicsDeleted) else decision

    patches.set(active, "decide", forgetful)


def a_creation_that_comes_again_is_answered_from_memory(patches: Patches) -> None:
    """Lost or not: what was promised in a controller role before is not in the log that a new one decides on."""
    real, take = active.ActiveController.decide, active.ActiveController._take
    kept: dict[int, tuple[Any, dict[str, Any]]] = {}

    def asked(self: Any, ask: Any, facts: Any) -> Any:
        if self.working is None or not isinstance(ask, requests.CreateTopics):
            return real(self, ask, facts)
        memory = kept.setdefault(id(self), (self, {}))[1]
        if repr(ask) in memory:
            return take(self, Decision([], memory[repr(ask)]), facts)
        answer = real(self, ask, facts)
        if answer.records:
            memory[repr(ask)] = self._waiting[-1].reply
        return answer

    patches.set(active.ActiveController, "decide", asked)


def a_deleted_partition_was_never_offline(patches: Patches) -> None:
    patches.set(
        state_change,
        "path",
        lambda before, after: [after] if after is PartitionState.NON_EXISTENT else path(before, after),
    )


def a_deleted_replica_was_never_offline(patches: Patches) -> None:
    real = replica_states._apart
    patches.set(replica_states, "_apart", lambda was, now: [] if now is ReplicaState.OFFLINE else real(was, now))


def a_replica_stays_offline_when_its_broker_is_back(patches: Patches) -> None:
    patches.set(replica_states.ReplicaStates, "_with_broker", lambda states, *about: [])


def a_replica_of_a_dead_broker_is_taken_for_online(patches: Patches) -> None:
    patches.set(replica_states, "_seen", lambda broker, partition, replica: ReplicaState.ONLINE)


def _entry(bug: str, laws: str, patch: Any, machine: str = "controller", first: int = 0) -> Mutant:
    return Mutant(bug, patch.__name__.replace("_", " "), machine, tuple(laws.split()), patch, first)


MUTANTS = (
    _entry("KAFKA-15109", "C1", leaders_change_within_an_epoch),
    _entry("KAFKA-12367", "C1", changes_are_not_counted),
    _entry("KIP-841", "C2", a_fenced_broker_keeps_its_place),
    _entry("KAFKA-13916", "S10 C2", anybody_may_join_an_isr),
    _entry("KIP-903 KAFKA-14617", "S10", an_older_incarnation_may_join_an_isr),
    _entry("KAFKA-9672", "C2", an_isr_exceeds_its_replicas),
    _entry("KAFKA-15665", "C10 C2", a_move_ends_when_its_newcomers_are_in_sync),
    _entry("KAFKA-4214's kind", "L7", a_move_never_ends),
    _entry("KIP-455", "C10 C2", replicas_are_replaced_outright),
    _entry("KAFKA-13972", "C10", whoever_goes_is_not_told),
    _entry("Jepsen 2013", "C11 C10 C2", any_live_replica_is_elected),
    _entry("own (SE-1)", "C11 C2 C10", the_offline_selector_asks_no_isr),
    _entry("own (SE-1)", "C11", the_offline_selector_takes_the_last_in_sync),
    _entry("own (SE-1)", "C11", the_reassigned_selector_takes_the_last_in_sync),
    _entry("own (SE-1)", "C11 C2", the_preferred_selector_asks_no_isr),
    _entry("own (SE-1)", "C11", the_shutdown_selector_takes_the_last_who_stays),
    _entry("own (SE-1)", "C11", a_leader_that_lives_is_replaced),
    _entry("KIP-704", "C11 C2", unclean_elections_are_not_told),
    _entry("KIP-966", "C2", an_elr_is_never_cleared),
    _entry("KIP-966", "C2", the_elr_repeats_the_isr),
    _entry("KIP-966", "S11", a_crash_is_forgiven),
    _entry("own (seed 52)", "S11", the_last_isr_trusts_who_lost_its_tail, first=52),
    _entry("KAFKA-14296's kind", "C12 C2", a_broker_may_always_go),
    _entry("KAFKA-14292", "L12", a_leaver_waits_for_the_dead),
    _entry("KAFKA-7235", "C1 C7", a_restart_takes_an_older_epoch),
    _entry("KAFKA-16952", "C7", the_same_process_gets_another_epoch),
    _entry("KAFKA-7235", "C7 C2", a_new_process_is_let_in_at_once),
    _entry("own (C7)", "C7", a_living_broker_is_replaced),
    _entry("KAFKA-13959", "L5", a_busy_log_keeps_brokers_out),
    _entry("KAFKA-15019", "L11", the_controllers_own_sleep_fences_all),
    _entry("KAFKA-13173", "C1 C2", brokers_that_fall_silent_together_are_fenced_one_by_one),
    _entry("KAFKA-7837's kind", "L1 C2", an_unfenced_broker_elects_nobody),
    _entry("own (C1)", "C1", a_partition_changes_twice_in_a_decision),
    _entry("KAFKA-13083", "C2", new_partitions_count_the_fenced_in),
    _entry("own (C6)", "C6", a_deleted_partition_was_never_offline),
    _entry("own (RS-1)", "C6", a_deleted_replica_was_never_offline),
    _entry("own (RS-1)", "C6", a_replica_stays_offline_when_its_broker_is_back),
    _entry("own (RS-1)", "C6", a_replica_of_a_dead_broker_is_taken_for_online),
    _entry("KAFKA-14616's kind", "C8", a_name_made_again_is_the_old_topic),
    _entry("own (TD-1)", "C8", a_deletion_does_not_wait),
    _entry("KAFKA-12403's kind", "C3", a_lookup_is_not_kept),
    _entry("KAFKA-9089", "C4 C13", a_reply_leaves_before_its_commit, "active_controller"),
    _entry("KAFKA-14457's kind", "C4", a_refusal_tells_of_what_is_not_committed, "active_controller"),
    _entry("KAFKA-4447", "C5", a_deposed_controller_goes_on, "active_controller"),
    _entry("KAFKA-13104's kind", "L2", a_controller_resigns_and_leaves_callers_waiting, "active_controller"),
    _entry("KAFKA-13100 KAFKA-5310", "C3", a_reelected_controller_keeps_its_old_image, "active_controller"),
    _entry("own (C13)", "C13", a_deletion_is_answered_and_not_written, "active_controller"),
    _entry("own (C13)", "C13", a_creation_that_comes_again_is_answered_from_memory, "active_controller"),
)
