"""Rules of Apache Kafka 3.9's brokers in ZooKeeper mode, put into a real node in the place of Moldau's.

What Kafka does otherwise than our brokers: LeaderAndIsr of the leader epoch that a replica has is answered with
STALE_CONTROLLER_EPOCH and changes nothing, be its partition epoch newer; a leader whose AlterPartition was refused for
its epochs waits for a new leader epoch and asks no more; UpdateMetadata changes what clients are told and no replica,
and is believed in the order in which it comes; a replica is deleted by StopReplica alone; nothing says FULL. A stopped
replica begins again with a new leader epoch only. A controller sends nothing again that was answered.
Source: ReplicaManager.becomeLeaderOrFollower, stopReplicas; Partition.handleAlterPartitionError;
ZkMetadataCache.updateMetadata. Read next: cluster_zookeeper.py, plan_zookeeper.py.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from moldau.broker.zookeeper import translation
from moldau.broker.zookeeper.batch import DURING_DELETE
from moldau.broker.zookeeper.outcomes import RoleOutcome, StopOutcome
from moldau.broker.zookeeper.rules import Rules
from moldau.image import Image
from moldau.image.partition import Key
from moldau.model import NO_UUID, Code
from moldau.replication.effects import NOTHING, Effects
from moldau.replication.facts import Assignment
from moldau.replication.partition import Partition
from moldau.replication.roles import Role
from moldau.wire.messages.k04_leader_and_isr import LeaderAndIsrRequest
from moldau.wire.messages.k05_stop_replica import StopReplicaRequest
from moldau.wire.messages.k06_update_metadata import UpdateMetadataRequest
from moldau.wire.records.metadata import PartitionRecord
from moldau.wire.schema import Message


class KafkaPartition(Partition):
    """A replica that goes by leader epochs."""

    __slots__ = ()

    def assign(self, said: Assignment, now_ms: int) -> tuple[Code, Effects]:
        if said.leader_epoch == self.leader_epoch and self.role not in (Role.OFFLINE, Role.REMOVED):
            return Code.STALE_CONTROLLER_EPOCH, NOTHING
        return super().assign(said, now_ms)

    def sweep(self, now_ms: int) -> Effects:
        if self.role is Role.LEADER and self.proposal is not None and self.proposal.waiting:
            return self._advance(now_ms)
        return super().sweep(now_ms)


class KafkaRules(Rules):
    """One life of one broker's."""

    machine_class = KafkaPartition
    sends_type = False
    resends_when_stale = False

    def __init__(self) -> None:
        self._shown: dict[Key, PartitionRecord] = {}
        """Partitions of which UpdateMetadata says that a replica comes here or goes: the image has it when LeaderAndIsr
        or StopReplica says so too."""

    def leader_and_isr(
        self, image: Image, me: int, request: LeaderAndIsrRequest, stopped: Container[Key]
    ) -> tuple[list[Message], list[RoleOutcome]]:
        records, outcomes = super().leader_and_isr(image, me, request, ())
        epochs = {partition.key: partition.leader_epoch for partition in image.partitions_on_broker(me)}
        known = {
            key
            for name, given, state in translation.roles_in(request)
            if epochs.get(key := (given, state.partition_index)) == state.leader_epoch
        }
        outcomes = [
            one._replace(code=Code.STALE_CONTROLLER_EPOCH) if one.code is Code.NONE and one.key in known else one
            for one in outcomes
        ]
        for record in records:
            if isinstance(record, PartitionRecord):
                self._shown.pop(_key(record), None)
        return [one for one in records if not isinstance(one, PartitionRecord) or _key(one) not in known], outcomes

    def unnamed(self, image: Image, request: UpdateMetadataRequest) -> list[str]:
        return []

    def update_metadata(
        self, image: Image, me: int, request: UpdateMetadataRequest, epochs: Mapping[int, int], gone: Iterable[str]
    ) -> list[Message]:
        records = super().update_metadata(image, me, request, epochs, gone)
        believed: list[Message] = []
        for one in records:
            if isinstance(one, PartitionRecord):
                before = image.partition(one.topic_id, one.partition_id)
                if (before is not None and me in before.replicas) != (me in one.replicas):
                    self._shown[_key(one)] = one
                    continue
            believed.append(one)
        return believed + _older(image, me, request)

    def stop_replica(
        self, image: Image, me: int, request: StopReplicaRequest
    ) -> tuple[list[Message], list[StopOutcome]]:
        records, outcomes = super().stop_replica(image, me, request)
        return [self._as_shown(one) if isinstance(one, PartitionRecord) else one for one in records], outcomes

    def _as_shown(self, stopped: PartitionRecord) -> PartitionRecord:
        """A partition whose replica here is deleted, as UpdateMetadata has told of it."""
        shown = self._shown.pop(_key(stopped), None)
        return stopped if shown is None or shown.leader_epoch < stopped.leader_epoch else shown


def _key(record: PartitionRecord) -> Key:
    return record.topic_id, record.partition_id


def _older(image: Image, me: int, request: UpdateMetadataRequest) -> list[Message]:
    """Partitions of others of which older epochs are told than are known: what comes last is believed."""
    records: list[Message] = []
    for name, given, state in translation.shown_in(request):
        id = image.names.get(name, b"")
        before = image.partition(id, state.partition_index) if given in (NO_UUID, id) else None
        if before is None or state.leader == DURING_DELETE or me in state.replicas or me in before.replicas:
            continue
        if (state.leader_epoch, state.zk_version) < (before.leader_epoch, before.partition_epoch):
            records.append(translation.partition_record(id, state, ([], []), before))
    return records
