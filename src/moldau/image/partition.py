"""One partition as the cluster agreed on it, and what a change record makes of it. Values only; nothing is kept here.

``Partition`` is a frozen value of shared tuples, so that 100,000 of them stay small. The fold is ``image.py``; what
changes a partition is decided in ``moldau.controller.change``.
Source: KIP-631, KIP-704 (recovery), KIP-858 (directories), KIP-966 (ELR).
"""

from __future__ import annotations

from enum import IntEnum

from moldau.model.named import NamedTuple
from moldau.wire.records.metadata import PartitionChangeRecord, PartitionRecord

NO_LEADER = -1
NO_LEADER_CHANGE = -2
"""Value of ``PartitionChangeRecord.leader`` for "as it is"; any other value also bumps the leader epoch."""

MIGRATING, UNASSIGNED, LOST = (bytes(15) + bytes([n]) for n in range(3))
"""Reserved directory ids: moving into KRaft, not yet placed, on a disk that failed (KIP-858)."""

Key = tuple[bytes, int]
"""(topic id, partition number)."""


class Recovery(IntEnum):
    """Whether the leader was elected cleanly, or must first make good for an unclean election (KIP-704)."""

    RECOVERED = 0
    RECOVERING = 1


class Partition(NamedTuple):
    """State of one partition. ``replicas[0]`` is the preferred replica; ``directories`` lies beside ``replicas``."""

    topic_id: bytes
    id: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int = NO_LEADER
    leader_epoch: int = 0
    partition_epoch: int = 0
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    directories: tuple[bytes, ...] = ()
    recovery: int = 0

    @property
    def key(self) -> Key:
        return (self.topic_id, self.id)

    @property
    def reassigning(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def original_replicas(self) -> tuple[int, ...]:
        """Where a reassignment came from."""
        return tuple(r for r in self.replicas if r not in self.adding) if self.adding else self.replicas

    def directory(self, broker_id: int) -> bytes:
        """The log directory of a replica; UNASSIGNED when it has none here."""
        if broker_id in self.replicas and self.directories:
            return self.directories[self.replicas.index(broker_id)]
        return UNASSIGNED


def from_record(record: PartitionRecord) -> Partition:
    """The partition that a PartitionRecord creates or replaces."""
    replicas = tuple(record.replicas)
    directories = tuple(map(bytes, record.directories)) or (UNASSIGNED,) * len(replicas)
    assert len(directories) == len(replicas), f"{len(directories)} directories for {len(replicas)} replicas"
    return Partition(
        bytes(record.topic_id), record.partition_id, replicas, tuple(record.isr), record.leader, record.leader_epoch,
        record.partition_epoch, tuple(record.adding_replicas), tuple(record.removing_replicas),
        tuple(record.eligible_leader_replicas or ()), tuple(record.last_known_elr or ()), directories,
        record.leader_recovery_state,
    )  # fmt: skip


def to_record(partition: Partition) -> PartitionRecord:
    """The record that rebuilds this partition."""
    return PartitionRecord(
        topic_id=partition.topic_id,
        partition_id=partition.id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        adding_replicas=list(partition.adding),
        removing_replicas=list(partition.removing),
        eligible_leader_replicas=list(partition.elr) or None,
        last_known_elr=list(partition.last_known_elr) or None,
        directories=list(partition.directories),
        leader_recovery_state=partition.recovery,
    )


def merged(partition: Partition, record: PartitionChangeRecord) -> Partition:
    """The partition after a change: every change bumps the partition epoch, a set leader the leader epoch too."""
    leader, leader_epoch = partition.leader, partition.leader_epoch
    if record.leader != NO_LEADER_CHANGE:
        leader, leader_epoch = record.leader, leader_epoch + 1
    replicas = partition.replicas if record.replicas is None else tuple(record.replicas)
    directories = _directories(partition, replicas, record.directories)
    return Partition(
        topic_id=partition.topic_id,
        id=partition.id,
        replicas=replicas,
        isr=partition.isr if record.isr is None else tuple(record.isr),
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=partition.partition_epoch + 1,
        adding=partition.adding if record.adding_replicas is None else tuple(record.adding_replicas),
        removing=partition.removing if record.removing_replicas is None else tuple(record.removing_replicas),
        elr=partition.elr if record.eligible_leader_replicas is None else tuple(record.eligible_leader_replicas),
        last_known_elr=partition.last_known_elr if record.last_known_elr is None else tuple(record.last_known_elr),
        directories=directories,
        recovery=partition.recovery if record.leader_recovery_state < 0 else record.leader_recovery_state,
    )


def _directories(partition: Partition, replicas: tuple[int, ...], given: list[bytes] | None) -> tuple[bytes, ...]:
    """Directories beside ``replicas``: as given, else those kept, with UNASSIGNED for newcomers."""
    if given is not None:
        assert len(given) == len(replicas), f"{len(given)} directories for {len(replicas)} replicas"
        return tuple(bytes(d) for d in given)
    if replicas == partition.replicas:
        return partition.directories
    return tuple(partition.directory(replica) for replica in replicas)
