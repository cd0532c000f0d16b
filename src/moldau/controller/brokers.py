"""Registration, heartbeats, fencing by silence or refusal, controlled shutdown, unregistration. One broker at a time.

Decides who is registered, fenced or leaving; what that means for partitions is in ``failures.py``. Sessions are soft
state: what a decision remembers of them stands in ``Decision.sessions``.
Rules: KIP-631, KIP-841, KIP-858, KIP-966, KAFKA-16952; laws C7, C12.
"""

from __future__ import annotations

from typing import Any

from moldau.controller import failures, migration, parts
from moldau.controller.facts import BrokerSession, Decision, DecisionContext
from moldau.controller.replies import Done, Heartbeaten, Moved, Refused, Registered
from moldau.controller.requests import (
    BrokerHeartbeat,
    BrokerRefused,
    BrokersGone,
    Idle,
    ReconcileOnFailover,
    RegisterBroker,
    RegisterController,
    RemainingPartitions,
    Tick,
    UnregisterBroker,
)
from moldau.image.registration import Broker, Controller, broker_record, controller_record
from moldau.image.snapshot import METADATA_VERSION
from moldau.model import Code
from moldau.model.named import NamedTuple
from moldau.wire.records.metadata import BrokerRegistrationChangeRecord, NoOpRecord, UnregisterBrokerRecord
from moldau.wire.schema import Message

CORDONED_LEVEL = 30
"""metadata.version 4.3-IV0, whose registrations tell which directories take no new replicas (KIP-1066)."""


def register_broker(context: DecisionContext, request: RegisterBroker) -> Decision:
    """Take a broker in, fenced, under a new epoch; the same incarnation keeps epoch and standing (KAFKA-16952)."""
    problem = _refusal(context, request)
    if problem is not None:
        return Decision([], problem)
    existing = context.image.brokers.get(request.broker_id)
    again = existing is not None and existing.incarnation_id == request.incarnation_id
    records: list[Message] = []
    if existing is not None and not again:
        unclean = request.previous_broker_epoch != existing.epoch
        first = parts.in_parts(context, request, [request.broker_id], lost_tail=unclean)
        if first is not None:
            return first
        if request.previous_broker_epoch == existing.epoch:
            records += failures.leave(context, frozenset({request.broker_id}))
        else:
            records += failures.handle_unclean_shutdown(context, request.broker_id)
    # The epoch is the offset of its record: unique, growing, and known to all (KIP-631).
    epoch = existing.epoch if existing is not None and again else context.facts.next_offset + len(records)
    epoch = epoch if request.broker_epoch is None else request.broker_epoch
    broker = Broker(
        id=request.broker_id,
        epoch=epoch,
        incarnation_id=request.incarnation_id,
        endpoints=request.endpoints,
        features=request.features,
        rack=request.rack,
        fenced=existing.fenced if existing is not None and again else True,
        in_controlled_shutdown=existing.in_controlled_shutdown if existing is not None and again else False,
        log_dirs=request.log_dirs,
        is_migrating=request.is_migrating_zk_broker,
        cordoned_log_dirs=existing.cordoned_log_dirs if existing is not None and again else None,
    )
    records.append(broker_record(broker))
    session = context.soft_state.sessions.get(request.broker_id) if again else None
    renewed = (
        BrokerSession(context.facts.now_ms) if session is None else session._replace(contact_ms=context.facts.now_ms)
    )
    return Decision(records, Registered(broker_epoch=epoch), {request.broker_id: renewed})


def _refusal(context: DecisionContext, request: RegisterBroker) -> Refused | None:
    if request.cluster_id != context.settings.cluster_id:
        return Refused(
            Code.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {context.settings.cluster_id}, but got {request.cluster_id}",
        )
    misplaced = migration.wrong_mode(context.image, request)
    if misplaced is not None:
        return misplaced
    existing = context.image.brokers.get(request.broker_id)
    other = existing if existing is not None and existing.incarnation_id != request.incarnation_id else None
    if other is not None and not request.has_ended(other.epoch) and has_valid_session(context, other):
        return Refused(Code.DUPLICATE_BROKER_REGISTRATION, f"Another broker is registered with id {request.broker_id}.")
    return _bad_directories(context, request) or _bad_features(context, request)


def _bad_directories(context: DecisionContext, request: RegisterBroker) -> Refused | None:
    if len(set(request.log_dirs)) != len(request.log_dirs):
        return Refused(Code.INVALID_REGISTRATION, "A directory id is given twice.")
    for directory in request.log_dirs:
        if not any(directory[:15]):
            return Refused(Code.INVALID_REGISTRATION, "A reserved directory id cannot be registered.")
        for other in context.image.brokers.values():
            if other.id != request.broker_id and directory in other.log_dirs:
                return Refused(Code.INVALID_REGISTRATION, f"Broker {other.id} has registered that directory.")
    return None


def _bad_features(context: DecisionContext, request: RegisterBroker) -> Refused | None:
    offered = {feature.name: feature for feature in request.features}
    if not offered:
        return None  # a broker that says nothing of features takes what there is
    for name, level in context.image.features.items():
        range_ = offered.get(name)
        low, high = (range_.low, range_.high) if range_ is not None else (0, 0)
        if not low <= level <= high:
            return Refused(
                Code.UNSUPPORTED_VERSION,
                f"The cluster is at level {level} of {name}; the broker supports {low} to {high}.",
            )
    return None


def register_controller(context: DecisionContext, request: RegisterController) -> Decision:
    """Note a controller's addresses and features; the same again changes nothing."""
    controller = Controller(
        request.controller_id, request.incarnation_id, request.endpoints, request.features, request.zk_migration_ready
    )
    if context.image.controllers.get(request.controller_id) == controller:
        return Decision([], Done())
    return Decision([controller_record(controller)], Done())


def unregister_broker(context: DecisionContext, request: UnregisterBroker) -> Decision:
    """Forget a broker: out of every ISR and ELR, then out of the registrations."""
    broker = context.image.brokers.get(request.broker_id)
    if broker is None:
        return Decision(
            [], Refused(Code.BROKER_ID_NOT_REGISTERED, f"Broker ID {request.broker_id} is not currently registered")
        )
    first = parts.in_parts(context, request, [broker.id], lost_tail=True)
    if first is not None:
        return first
    records = failures.handle_unclean_shutdown(context, request.broker_id)
    records.append(UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch))
    return Decision(records, Done(), {broker.id: None})


def has_valid_session(context: DecisionContext, broker: Broker) -> bool:
    """Whether a broker was heard of within the session timeout, fenced or not: one that starts is alive as well."""
    session = context.soft_state.sessions.get(broker.id)
    if session is None:
        return False
    return session.contact_ms + context.settings.session_timeout_ms >= context.facts.now_ms


class _HeartbeatOutcome(NamedTuple):
    """What a heartbeat does to how its broker stands. ``then``: parts that come after it (``parts.py``)."""

    records: list[Message]
    reply: Heartbeaten
    session: BrokerSession
    then: RemainingPartitions | None = None


def heartbeat(context: DecisionContext, request: BrokerHeartbeat) -> Decision:
    """Renew a session; fence, unfence or let go as the broker wants and its state allows."""
    if context.stale(request.broker_id, request.broker_epoch):
        return Decision([], Refused(Code.STALE_BROKER_EPOCH, "The broker is not registered under that epoch."))
    broker = context.image.brokers[request.broker_id]
    caught_up = request.metadata_offset >= context.image.registered_at.get(broker.id, -1)
    session = BrokerSession(context.facts.now_ms, request.metadata_offset, _shutdown_offset(context, broker))
    if context.parts_done:  # it is from before its parts: the broker may have died since, and was not heard again now
        known = context.soft_state.sessions.get(broker.id)
        if broker.fenced or known is None:
            return Decision([], parts.NOTHING_MORE)
        session = known._replace(shutdown_offset=session.shutdown_offset)
    if broker.fenced and request.want_shut_down:
        return Decision([], _leaving(caught_up), {broker.id: session})
    heard = _heard_of_fenced if broker.fenced else _heard_of_unfenced
    records, reply, session, then = heard(context, broker, request, session, caught_up=caught_up)
    begun = not context.parts_done and parts.under_way(context, [broker.id])
    if request.offline_log_dirs and not records and then is None and not begun:
        lost = frozenset(request.offline_log_dirs).intersection(broker.log_dirs)
        then = parts.lost_directories(context, broker.id, lost, request)
        if then is None:
            records = failures.handle_log_dir_failure(context, broker.id, lost)
    records = [*records, *_cordoned(context, broker, request)]
    return Decision(records, reply, {broker.id: session}, None if begun else then)


def _heard_of_fenced(
    context: DecisionContext, broker: Broker, request: BrokerHeartbeat, session: BrokerSession, *, caught_up: bool
) -> _HeartbeatOutcome:
    """Unfence a broker that wants it and has read its own registration; it stays fenced in a controlled shutdown."""
    if request.want_fence or not caught_up or broker.in_controlled_shutdown:
        return _HeartbeatOutcome([], _as_it_stands(broker, caught_up), session)
    then = parts.arrival(context)
    records: list[Message] = []
    if then is None:
        records += failures.unfence(context, broker.id)
    else:
        records.append(failures.mark_unfenced(context, broker.id))
    return _HeartbeatOutcome(records, _heartbeat_reply(caught_up, fenced=False), session, then)


def _heard_of_unfenced(
    context: DecisionContext, broker: Broker, request: BrokerHeartbeat, session: BrokerSession, *, caught_up: bool
) -> _HeartbeatOutcome:
    """Fence a broker that wants it or may stop; begin the controlled shutdown of one that wants it; hand over what one
    on its way out leads."""
    emptied = context.parts_done or parts.under_way(context, [broker.id])
    if request.want_fence or (request.want_shut_down and _may_go(context, broker, session, emptied=emptied)):
        reply = _leaving(caught_up) if request.want_shut_down else _heartbeat_reply(caught_up, fenced=True)
        return _HeartbeatOutcome(failures.fence(context, [broker.id]), reply, session)
    if broker.in_controlled_shutdown:
        # A reassignment may have given it a lead since; it is on its way out all the same.
        return _HeartbeatOutcome(failures.hand_over(context, broker.id), _as_it_stands(broker, caught_up), session)
    if not request.want_shut_down:
        return _HeartbeatOutcome([], _as_it_stands(broker, caught_up), session)
    then = parts.shutdown(context, broker.id, request)
    if then is not None:
        return _HeartbeatOutcome([], _as_it_stands(broker, caught_up), session, then)
    records = failures.begin_shutdown(context, broker.id)
    session = session._replace(shutdown_offset=context.facts.next_offset + len(records) - 1)
    return _HeartbeatOutcome(records, _heartbeat_reply(caught_up, fenced=False, shutting_down=True), session)


def _cordoned(context: DecisionContext, broker: Broker, request: BrokerHeartbeat) -> list[Message]:
    """What changes of the directories that take no new replicas (KIP-1066); nothing below the level that has them."""
    if request.cordoned_log_dirs is None or context.image.features.get(METADATA_VERSION, 0) < CORDONED_LEVEL:
        return []
    if set(request.cordoned_log_dirs) == set(broker.cordoned_log_dirs or ()) and broker.cordoned_log_dirs is not None:
        return []
    change = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch)
    change.cordoned_log_dirs = sorted(request.cordoned_log_dirs)
    return [change]


def _shutdown_offset(context: DecisionContext, broker: Broker) -> int:
    """Where the log ended when the shutdown began; a new controller, which cannot know, takes where it ends now."""
    session = context.soft_state.sessions.get(broker.id)
    if session is not None and session.shutdown_offset >= 0:
        return session.shutdown_offset
    return context.facts.next_offset - 1 if broker.in_controlled_shutdown else -1


def _may_go(context: DecisionContext, broker: Broker, session: BrokerSession, *, emptied: bool) -> bool:
    """Whether a broker may stop (C12): it leads nothing, and every active broker has read who leads in its place.
    ``emptied``: it leads nothing because its partitions were given to others, in parts, and its shutdown begins then.

    What the quorum saw a broker fetch counts as well as its heartbeats, so that nobody waits for one (KAFKA-14292).
    """
    if failures.still_led(context, broker.id):
        return False
    if not broker.in_controlled_shutdown:
        return not emptied
    for other in context.image.brokers.values():
        if other.active and other.id != broker.id:
            heard = context.soft_state.sessions.get(other.id)
            read = max(-1 if heard is None else heard.metadata_offset, context.facts.observed.get(other.id, -1))
            if read < session.shutdown_offset:
                return False
    return True


def _heartbeat_reply(caught_up: bool, *, fenced: bool, shutting_down: bool = False) -> Heartbeaten:
    return Heartbeaten(
        is_caught_up=caught_up, is_fenced=fenced, in_controlled_shutdown=shutting_down, should_shut_down=False
    )


def _as_it_stands(broker: Broker, caught_up: bool) -> Heartbeaten:
    return _heartbeat_reply(caught_up, fenced=broker.fenced, shutting_down=broker.in_controlled_shutdown)


def _leaving(caught_up: bool) -> Heartbeaten:
    return Heartbeaten(is_caught_up=caught_up, is_fenced=True, in_controlled_shutdown=False, should_shut_down=True)


def broker_refused(context: DecisionContext, request: BrokerRefused) -> Decision:
    """Fence a broker whose address refuses connections, at once: a wrong guess costs one election."""
    broker = context.image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch or broker.fenced:
        return Decision([], Moved(count=0))
    fenced = _fence(context, request, [broker.id])
    # Its session ends with its process: the next one under the id need not wait for it. A heartbeat begins another.
    return Decision(fenced.records, fenced.reply, {**fenced.sessions, broker.id: None}, fenced.then)


def brokers_gone(context: DecisionContext, request: BrokersGone) -> Decision:
    """Fence brokers whose registrations have ended."""
    known = [
        id
        for id, epoch in request.brokers
        if (broker := context.image.brokers.get(id)) is not None and broker.epoch == epoch and not broker.fenced
    ]
    if not known:
        return Decision([], Moved(count=0))
    return _fence(context, request, known)


def reconcile_on_failover(context: DecisionContext, request: ReconcileOnFailover) -> Decision:
    """Fence who is dead or was, and lead whatever can be led."""
    return Decision(
        failures.reconcile_on_failover(context, request.dead, request.back),
        Moved(count=len(request.dead) + len(request.back)),
    )


def tick(context: DecisionContext, request: Tick) -> Decision:
    """Fence every broker whose session ran out, in one decision, so that none is elected that goes as well."""
    silent = [
        broker.id
        for broker in context.image.brokers.values()
        if not broker.fenced and not has_valid_session(context, broker)
    ]
    if not silent:
        return Decision([], Moved(count=0))
    return _fence(context, request, silent)


def _fence(context: DecisionContext, request: Any, ids: list[int]) -> Decision:  # Any: each request's own kind
    """Fence brokers, in parts when they have many partitions; once begun it is begun."""
    first = parts.in_parts(context, request, ids)
    if first is None:
        return Decision(failures.fence(context, ids), Moved(count=len(ids)))
    return first if not parts.ending(context, ids) else Decision([], Moved(count=0))


def idle(context: DecisionContext, request: Idle) -> Decision:
    return Decision([NoOpRecord()], Done())
