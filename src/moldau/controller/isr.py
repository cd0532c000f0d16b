"""AlterPartition: a leader asks to change its ISR. All the fences of KIP-497, KIP-841 and KIP-903, in Kafka's order.

Taking a change may end a reassignment and elect another leader; the asker is then told NEW_LEADER_ELECTED. What the
leader itself may ask is decided in ``moldau.replication``.
"""

from __future__ import annotations

from moldau.controller.change import DesiredState, LeaderEligibility, change
from moldau.controller.facts import Decision, DecisionContext
from moldau.controller.replies import IsrResult, PartitionsAltered, Refused
from moldau.controller.requests import AlterPartition, IsrChange
from moldau.image.partition import NO_LEADER_CHANGE, Key, Partition, Recovery, merged
from moldau.model import Code
from moldau.wire.schema import Message

_BY_TOPIC_ID = 2
"""Version of AlterPartition from which topics go by id; the codes changed with it."""


def alter_partition(context: DecisionContext, request: AlterPartition) -> Decision:
    """Check each change against the partition as it is now, and take those that stand."""
    if context.stale(request.broker_id, request.broker_epoch):
        return Decision([], Refused(Code.STALE_BROKER_EPOCH, "The broker is not registered under that epoch."))
    records: list[Message] = []
    results = []
    eligibility = LeaderEligibility(context)
    done: set[Key] = set()
    for requested in request.changes:
        code = Code.INVALID_REQUEST if requested.key in done else _refusal(context, request, requested)
        done.add(requested.key)
        if code is not Code.NONE:
            results.append(IsrResult(key=requested.key, code=code))
            continue
        partition = context.image.at(requested.key)
        if requested.partition_epoch < partition.partition_epoch:
            results.append(IsrResult(key=requested.key, code=Code.NONE, partition=partition))
            continue
        isr = tuple(broker_id for broker_id, _ in requested.isr)
        topic = context.image.topics[requested.key[0]].name
        record = change(partition, topic, DesiredState(isr=isr, recovery=requested.recovery), eligibility)
        if record is None:
            results.append(IsrResult(key=requested.key, code=Code.NONE, partition=partition))
            continue
        records.append(record)
        if record.leader not in (request.broker_id, NO_LEADER_CHANGE):
            # The change ended a reassignment that the asker is no longer part of, or must not lead.
            code = Code.NEW_LEADER_ELECTED if request.version >= _BY_TOPIC_ID else Code.FENCED_LEADER_EPOCH
            results.append(IsrResult(key=requested.key, code=code))
        else:
            results.append(IsrResult(key=requested.key, code=Code.NONE, partition=merged(partition, record)))
    return Decision(records, PartitionsAltered(partitions=tuple(results)))


def _refusal(context: DecisionContext, request: AlterPartition, requested: IsrChange) -> Code:
    """The first fence that the change runs into. The order matters: an asker ahead of us means that we are deposed."""
    topic = context.image.topics.get(requested.key[0])
    if topic is None:
        return Code.UNKNOWN_TOPIC_ID if request.version >= _BY_TOPIC_ID else Code.UNKNOWN_TOPIC_OR_PARTITION
    partition = topic.partitions.get(requested.key[1])
    if partition is None:
        return Code.UNKNOWN_TOPIC_OR_PARTITION
    if requested.leader_epoch > partition.leader_epoch or requested.partition_epoch > partition.partition_epoch:
        return Code.NOT_CONTROLLER  # KAFKA-14154: FENCED would make a leader that is ahead of us give up
    if requested.leader_epoch < partition.leader_epoch:
        return Code.FENCED_LEADER_EPOCH
    if request.broker_id != partition.leader:
        return Code.INVALID_REQUEST
    if requested.partition_epoch < partition.partition_epoch:
        return Code.NONE if _is_so_already(context, partition, requested) else Code.INVALID_UPDATE_VERSION
    if not _well_formed(partition, requested):
        return Code.INVALID_REQUEST
    if not all(_eligible(context, partition, *member) for member in requested.isr):
        return Code.INELIGIBLE_REPLICA if request.version >= _BY_TOPIC_ID else Code.OPERATION_NOT_ATTEMPTED
    return Code.NONE


def _is_so_already(context: DecisionContext, partition: Partition, requested: IsrChange) -> bool:
    """Whether a leader asks for what it was given, and did not hear of it. In KRaft mode the log tells it; in ZooKeeper
    mode a broker of Apache Kafka asks no more once it is refused, and no new leader epoch comes of its own request."""
    same = {id for id, _ in requested.isr} == set(partition.isr) and requested.recovery == partition.recovery
    return context.settings.zookeeper_mode and same


def _well_formed(partition: Partition, requested: IsrChange) -> bool:
    isr = [broker_id for broker_id, _ in requested.isr]
    if len(set(isr)) != len(isr) or not set(isr) <= set(partition.replicas) or partition.leader not in isr:
        return False
    if requested.recovery not in (Recovery.RECOVERED, Recovery.RECOVERING):
        return False
    if requested.recovery == Recovery.RECOVERING:
        # Recovering alone, and never again once recovered (KIP-704).
        return len(isr) == 1 and partition.recovery == Recovery.RECOVERING
    return True


def _eligible(context: DecisionContext, partition: Partition, broker_id: int, epoch: int) -> bool:
    """Active, the very incarnation that the leader saw fetch, for another one may have an empty disk (KIP-903); and
    with its directory online (KIP-858)."""
    broker = context.image.brokers.get(broker_id)
    if broker is None or epoch not in (-1, broker.epoch):
        return False
    if not broker.active and not (broker_id == partition.leader and context.leads_on(broker_id)):
        return False
    return broker.has_online_dir(partition.directory(broker_id))
