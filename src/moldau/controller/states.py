"""The partition and replica state machines of Kafka's ZooKeeper controller, as tables; what is not in them is refused.

A partition's states are not stored but seen: ``state_of`` reads them from the image, and the state-change log tells
each step between two of them. Those of replicas are kept in ZooKeeper mode, by ``replica_states``. Diagrams and the
exhaustive test are made from the tables.
"""

from __future__ import annotations

from enum import Enum

from moldau.image.partition import NO_LEADER, Partition


class PartitionState(Enum):
    """Kafka's names, as the state-change log has them."""

    NON_EXISTENT = "NonExistentPartition"
    NEW = "NewPartition"
    ONLINE = "OnlinePartition"
    OFFLINE = "OfflinePartition"


class ReplicaState(Enum):
    """Kafka's names, as the state-change log has them."""

    NON_EXISTENT = "NonExistentReplica"
    NEW = "NewReplica"
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"


_P, _R = PartitionState, ReplicaState

PARTITION_MOVES: dict[PartitionState, frozenset[PartitionState]] = {
    _P.NON_EXISTENT: frozenset({_P.NEW}),
    _P.NEW: frozenset({_P.ONLINE, _P.OFFLINE}),
    _P.ONLINE: frozenset({_P.ONLINE, _P.OFFLINE}),
    _P.OFFLINE: frozenset({_P.ONLINE, _P.OFFLINE, _P.NON_EXISTENT}),
}
"""From -> where a partition may go."""

REPLICA_MOVES: dict[ReplicaState, frozenset[ReplicaState]] = {
    _R.NON_EXISTENT: frozenset({_R.NEW}),
    _R.NEW: frozenset({_R.ONLINE, _R.OFFLINE}),
    _R.ONLINE: frozenset({_R.ONLINE, _R.OFFLINE}),
    _R.OFFLINE: frozenset({_R.ONLINE, _R.OFFLINE, _R.DELETION_STARTED, _R.DELETION_INELIGIBLE}),
    _R.DELETION_STARTED: frozenset({_R.DELETION_SUCCESSFUL, _R.DELETION_INELIGIBLE}),
    _R.DELETION_SUCCESSFUL: frozenset({_R.NON_EXISTENT}),
    _R.DELETION_INELIGIBLE: frozenset({_R.ONLINE, _R.OFFLINE}),
}
"""From -> where a replica may go."""


def state_of(partition: Partition | None) -> PartitionState:
    """A partition's state as the image shows it."""
    if partition is None:
        return PartitionState.NON_EXISTENT
    return PartitionState.OFFLINE if partition.leader == NO_LEADER else PartitionState.ONLINE


def path(before: PartitionState, after: PartitionState) -> list[PartitionState]:
    """The states that a partition goes through from one that was seen to the next that was, by legal moves only."""
    if before is PartitionState.NON_EXISTENT:
        return [PartitionState.NEW, after] if after is not before else []
    if after is PartitionState.NON_EXISTENT:
        return [PartitionState.OFFLINE, after] if before is not PartitionState.OFFLINE else [after]
    return [after]
