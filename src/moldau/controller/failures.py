"""Brokers that go and come: what it means for every partition they have a part in: in one decision, or
several where they are many (``parts.py``).

Fencing takes brokers out of ISRs and leads; unfencing gives leaderless partitions another chance. Who must be fenced is
decided in ``brokers.py``. Cost is linear in the partitions of the brokers concerned (``Image.index``).
Rules: KIP-631, KIP-841 (who is fenced or leaves is in no ISR), KIP-858 (lost directories), KIP-966 (unclean shutdown).
"""

from __future__ import annotations

from collections.abc import Iterable

from moldau.controller.change import DesiredState, LeaderEligibility, change
from moldau.controller.facts import DecisionContext
from moldau.image.partition import NO_LEADER, Key
from moldau.wire.records.metadata import BrokerRegistrationChangeRecord
from moldau.wire.schema import Message

FENCE, UNFENCE = 1, -1
_AS_IS = DesiredState()


def fence(context: DecisionContext, broker_ids: Iterable[int]) -> list[Message]:
    """Records that fence brokers: first their partitions move, then their registrations change."""
    gone = frozenset(broker_ids)
    records = leave(context, gone)
    for id in sorted(gone):
        records.append(_mark(context, id, fenced=FENCE))
    return records


def reconcile_on_failover(context: DecisionContext, dead: Iterable[int], back: Iterable[int]) -> list[Message]:
    """Records that fence brokers, elect for partitions that nobody leads, and end moves whose target is in sync: a
    cluster that was just read.

    Who is ``back`` from a death that nobody saw may have lost its last records, as after any unclean shutdown.
    """
    lost_tail = frozenset(back)
    gone = lost_tail.union(dead)
    return [*reconcile(context, gone, lost_tail), *(_mark(context, id, fenced=FENCE) for id in sorted(gone))]


def reconcile(context: DecisionContext, gone: frozenset[int], lost_tail: frozenset[int] = frozenset()) -> list[Message]:
    """Changes that take brokers out of ISRs and leads, elect for partitions that nobody leads, and end moves: of a
    controller that dies after the last change of an ISR, its successor hears of no other."""
    index = context.image.index
    keys = {**index.led.get(NO_LEADER, {}), **index.moving, **concerned(context, gone)}
    return changes(LeaderEligibility(context, leaving=gone, lost_tail=lost_tail), keys)


def unfence(context: DecisionContext, broker_id: int) -> list[Message]:
    """Records that unfence a broker, and elect for partitions that had nobody."""
    records: list[Message] = [mark_unfenced(context, broker_id)]
    eligibility = LeaderEligibility(context, arriving=frozenset({broker_id}))
    records += changes(eligibility, context.image.index.led.get(NO_LEADER, ()))
    return records


def mark_unfenced(context: DecisionContext, broker_id: int) -> BrokerRegistrationChangeRecord:
    """The record that unfences a broker; elections follow."""
    return _mark(context, broker_id, fenced=UNFENCE)


def begin_shutdown(context: DecisionContext, broker_id: int) -> list[Message]:
    """Records that put a broker into controlled shutdown: it leaves every ISR, and others lead."""
    return [_mark(context, broker_id, leaving=True), *hand_over(context, broker_id)]


def hand_over(context: DecisionContext, broker_id: int) -> list[Message]:
    """Changes that take a broker in controlled shutdown out of ISRs and leads: of all partitions in KRaft mode, of
    those that another can lead in ZooKeeper mode."""
    gone = frozenset({broker_id})
    return changes(LeaderEligibility(context, leaving=gone, shutting_down=True), concerned(context, gone))


def still_led(context: DecisionContext, broker_id: int) -> list[Key]:
    """Partitions that a broker in controlled shutdown still leads. In ZooKeeper mode those of which there is one
    replica only do not count: nobody else can ever lead them (KafkaController.doControlledShutdown)."""
    led = context.image.index.led.get(broker_id, {})
    if not context.settings.zookeeper_mode:
        return list(led)
    return [key for key in led if len(context.image.at(key).replicas) > 1]


def leave(context: DecisionContext, gone: frozenset[int]) -> list[Message]:
    """Changes that take brokers out of the ISRs that they are in and the leads that they hold."""
    return changes(LeaderEligibility(context, leaving=gone), concerned(context, gone))


def concerned(context: DecisionContext, gone: Iterable[int], *, lost_tail: bool = False) -> dict[Key, None]:
    """Partitions that change when brokers go, each once: those with one of them in the ISR, or in the lead; with a lost
    tail, in the ELR too. Taken from the index as they are: of a hundred thousand none is looked at."""
    image = context.image
    found: dict[Key, None] = {}
    for id in gone:
        found.update(image.index.in_sync.get(id, {}))
        found.update(image.index.led.get(id, {}))
        if lost_tail:
            found.update(dict.fromkeys(key for key in image.index.eligible if id in image.at(key).elr))
    return found


def still_concerned(
    context: DecisionContext, gone: Iterable[int], keys: Iterable[Key], *, lost_tail: bool
) -> list[Key]:
    """The partitions among some that exist and change when brokers go."""
    found = []
    for key in keys:
        p = context.image.partition(*key)
        if p is not None and any(id in p.isr or id == p.leader or (lost_tail and id in p.elr) for id in gone):
            found.append(key)
    return found


def handle_unclean_shutdown(context: DecisionContext, broker_id: int) -> list[Message]:
    """Changes after an unclean shutdown: its last records may be gone, so it is in no ISR and in no ELR (KIP-966).

    Without an ELR the sole member of an ISR stays in it, being all there is.
    """
    gone = frozenset({broker_id})
    return changes(LeaderEligibility(context, leaving=gone, lost_tail=gone), concerned(context, gone, lost_tail=True))


def handle_log_dir_failure(context: DecisionContext, broker_id: int, offline: Iterable[bytes]) -> list[Message]:
    """Records for log directories that failed: their replicas leave ISRs and leads, the registration forgets them."""
    broker = context.image.brokers[broker_id]
    lost = frozenset(offline) & frozenset(broker.log_dirs)
    if not lost:
        return []
    records = changes(
        LeaderEligibility(context, leaving=frozenset({broker_id})), in_directories(context, broker_id, lost)
    )
    left = [d for d in broker.log_dirs if d not in lost]
    if left:  # with none left the broker stops itself; an empty list means "no change" in this record
        records.append(_mark(context, broker_id, log_dirs=left))
    return records


def in_directories(context: DecisionContext, broker_id: int, lost: Iterable[bytes]) -> list[Key]:
    """Partitions that change when a broker loses directories."""
    at, gone = context.image.at, frozenset(lost)
    return [key for key in concerned(context, [broker_id]) if at(key).directory(broker_id) in gone]


def elect_leaderless(context: DecisionContext, keys: Iterable[Key]) -> list[Message]:
    """Changes for leaderless partitions among ``keys``, by whatever election their topics allow now."""
    return changes(LeaderEligibility(context), (key for key in keys if context.image.at(key).leader == NO_LEADER))


def restate(context: DecisionContext, keys: Iterable[Key]) -> list[Message]:
    """Changes that bring partitions into line with settings that are about to change."""
    return changes(LeaderEligibility(context), keys)


def _mark(
    context: DecisionContext, broker_id: int, *, fenced: int = 0, leaving: bool = False, log_dirs: Iterable[bytes] = ()
) -> BrokerRegistrationChangeRecord:
    """A change of a registration under its epoch; what is not named stays."""
    return BrokerRegistrationChangeRecord(
        broker_id=broker_id,
        broker_epoch=context.image.brokers[broker_id].epoch,
        fenced=fenced,
        in_controlled_shutdown=int(leaving),
        log_dirs=list(log_dirs),
    )


def changes(eligibility: LeaderEligibility, keys: Iterable[Key]) -> list[Message]:
    """The changes that bring partitions into line with who may lead."""
    image = eligibility.context.image
    records: list[Message] = []
    for key in sorted(keys):  # sets have no order that two processes share, and a decision must be repeatable
        record = change(image.at(key), image.topics[key[0]].name, _AS_IS, eligibility)
        if record is not None:
            records.append(record)
    return records
