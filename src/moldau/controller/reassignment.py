"""Reassignment of replicas, KRaft style: union first, then the target once it is in sync; cancel restores.

The steps after the first follow from ISR changes: ``change.py`` ends a reassignment when every replica that stays is in
the ISR. Law C10: current -> union -> target, or back. Source: KIP-455, KIP-860 (changing the replication factor).
"""

from __future__ import annotations

from moldau.controller.batched import Work, batched
from moldau.controller.change import DesiredState, LeaderEligibility, change
from moldau.controller.facts import FINE, Decision, DecisionContext, Problem
from moldau.controller.placement import bad_assignment
from moldau.controller.replies import DirsAssigned, ReassignmentsAltered, ReassignmentsListed, Refused
from moldau.controller.requests import (
    AlterPartitionReassignments,
    AssignReplicasToDirs,
    ListPartitionReassignments,
    Move,
)
from moldau.image.partition import Key, Partition
from moldau.model import Code
from moldau.wire.schema import Message


def alter_reassignments(context: DecisionContext, request: AlterPartitionReassignments) -> Work:
    """Begin, change or cancel moves; each item stands for itself."""
    done: set[tuple[str, int]] = set()

    def alter(context: DecisionContext, move: Move) -> tuple[list[Message], tuple[str, int, Problem]]:
        name = (move.topic, move.partition)
        if name in done:
            return [], (*name, Problem(Code.INVALID_REQUEST, "The partition is named twice in one request."))
        done.add(name)
        records: list[Message] = []
        problem = _move(context, move, records, request.allow_replication_factor_change)
        return records, (*name, problem)

    records, results = yield from batched(context, request.moves, alter)
    return Decision(records, ReassignmentsAltered(partitions=tuple(results)))


def _move(context: DecisionContext, move: Move, records: list[Message], any_factor: bool) -> Problem:
    topic = context.image.topic(move.topic)
    partition = None if topic is None else topic.partitions.get(move.partition)
    if partition is None:
        return Problem(Code.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {move.topic}:{move.partition}.")
    if move.replicas is None:
        return _cancel(context, move.topic, partition, records)
    if partition.topic_id in context.soft_state.marked_for_deletion:
        return Problem(Code.UNKNOWN_TOPIC_OR_PARTITION, f"The topic {move.topic} is queued for deletion.")
    problem = bad_assignment(context.image, move.replicas)
    if problem is None and not any_factor and len(move.replicas) != len(partition.original_replicas):
        problem = Problem(
            Code.INVALID_REPLICATION_FACTOR,
            f"The replication factor would change from {len(partition.original_replicas)} to {len(move.replicas)}.",
        )
    problem = problem or _dead_newcomer(context, partition, move.replicas)
    if problem is not None:
        return problem
    desired = _desired_state(partition, move.replicas, zookeeper_mode=context.settings.zookeeper_mode)
    record = change(partition, move.topic, desired, LeaderEligibility(context))
    if record is not None:
        records.append(record)
    return FINE


def _dead_newcomer(context: DecisionContext, partition: Partition, replicas: tuple[int, ...]) -> Problem | None:
    """Why a move cannot begin: a broker that is fenced would have to copy the partition, and the move would hang.

    A replica that is there already may be down: it stays where it is, and comes back by itself.
    """
    dead = next((r for r in replicas if r not in partition.replicas and context.image.brokers[r].fenced), None)
    if dead is None:
        return None
    return Problem(Code.INVALID_REPLICA_ASSIGNMENT, f"Broker {dead} is to get a replica, and it is not alive.")


def _desired_state(partition: Partition, target: tuple[int, ...], *, zookeeper_mode: bool = False) -> DesiredState:
    """Union of target and what is there. Whom an earlier move was adding and this one does not want just leaves, unless
    it has what is committed: it may be the only one that has.

    ``zookeeper_mode``: those who come and go keep their order, as with Kafka's ZooKeeper controller, and a cancelled
    move restores it; KRaft's sorts them.
    """
    removing = tuple(r for r in partition.replicas if r not in target)
    adding = tuple(r for r in target if r not in partition.replicas or r in partition.adding)
    if not zookeeper_mode:
        removing, adding = tuple(sorted(removing)), tuple(sorted(adding))
    needed = (*partition.isr, *partition.elr, *partition.last_known_elr)
    dropped = tuple(r for r in removing if r in partition.adding and r not in needed)
    removing = tuple(r for r in removing if r not in dropped)
    return DesiredState(replicas=(*target, *removing), adding=adding, removing=removing)


def _cancel(context: DecisionContext, topic: str, partition: Partition, records: list[Message]) -> Problem:
    """Back to the original replicas; refused when none of them is in sync and the topic does not allow the loss."""
    if not partition.reassigning:
        return Problem(Code.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
    replicas = partition.original_replicas
    eligibility = LeaderEligibility(context)
    isr = tuple(r for r in partition.isr if r in replicas)
    if not isr and not (context.unclean(topic) and any(map(eligibility.live(partition), replicas))):
        return Problem(
            Code.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert {topic}:{partition.id}: it would require an unclean leader election.",
        )
    record = change(partition, topic, DesiredState(isr=isr, replicas=replicas, adding=(), removing=()), eligibility)
    if record is not None:
        records.append(record)
    return FINE


def list_reassignments(context: DecisionContext, request: ListPartitionReassignments) -> Work:
    """Moves under way, by topic name and partition."""

    def listed(context: DecisionContext, key: Key) -> tuple[list[Message], tuple[str, Partition] | None]:
        topic = context.image.topics.get(key[0])
        partition = None if topic is None else topic.partitions.get(key[1])
        if topic is None or partition is None or not partition.reassigning:
            return [], None
        return [], (topic.name, partition) if request.partitions is None or (
            topic.name,
            key[1],
        ) in request.partitions else None

    _, moving = yield from batched(context, tuple(context.image.index.moving), listed)
    return Decision([], ReassignmentsListed(partitions=tuple(sorted(moving))))


def assign_directories(context: DecisionContext, request: AssignReplicasToDirs) -> Work:
    """Note in which directories a broker's replicas lie; on a failed one a replica leaves ISR and lead (KIP-858)."""
    if context.stale(request.broker_id, request.broker_epoch):
        return Decision([], Refused(Code.STALE_BROKER_EPOCH, "The broker is not registered under that epoch."))
    done: set[Key] = set()
    eligibility = {online: _eligibility(context, request.broker_id, online) for online in (True, False)}

    def assign(context: DecisionContext, item: tuple[bytes, Key]) -> tuple[list[Message], tuple[bytes, Key, Code]]:
        directory, key = item
        if context.stale(request.broker_id, request.broker_epoch):
            return [], (directory, key, Code.STALE_BROKER_EPOCH)
        code = Code.INVALID_REQUEST if key in done else _not_there(context, key, request.broker_id)
        done.add(key)
        if code is not Code.NONE:
            return [], (directory, key, code)
        online = context.image.brokers[request.broker_id].has_online_dir(directory)
        eligibility[online] = eligibility[online].at(context)
        desired = DesiredState(directories={request.broker_id: directory})
        record = change(context.image.at(key), context.image.topics[key[0]].name, desired, eligibility[online])
        return [] if record is None else [record], (directory, key, code)

    named = ((directory, key) for directory, keys in request.directories.items() for key in keys)
    records, results = yield from batched(context, named, assign)
    return Decision(records, DirsAssigned(partitions=tuple(results)))


def _eligibility(context: DecisionContext, broker_id: int, online: bool) -> LeaderEligibility:
    """As partitions stand whose replica on a broker lies in a directory that is online, or not."""
    return LeaderEligibility(context, leaving=frozenset() if online else frozenset({broker_id}))


def _not_there(context: DecisionContext, key: Key, broker_id: int) -> Code:
    if key[0] not in context.image.topics:
        return Code.UNKNOWN_TOPIC_ID
    partition = context.image.partition(*key)
    if partition is None:
        return Code.UNKNOWN_TOPIC_OR_PARTITION
    return Code.NONE if broker_id in partition.replicas else Code.NOT_LEADER_OR_FOLLOWER
