"""A controller's requests as metadata records: what LeaderAndIsr, StopReplica and UpdateMetadata change here.

Pure: this broker's image and a request in, records out; the image's listeners then act as on any other record. Of the
partitions that this broker holds, LeaderAndIsr speaks; of everything else UpdateMetadata does. What is older than what
is known changes nothing; a repeated request changes nothing either. Fences are in ``controller_requests.py``.
Source: protocol guide; KIP-516 (topic ids).
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Iterator, Mapping

from moldau.broker.zookeeper.batch import DURING_DELETE, FULL
from moldau.broker.zookeeper.outcomes import RoleOutcome, StopOutcome
from moldau.image import Endpoint, Image, Partition
from moldau.image.partition import NO_LEADER, Key
from moldau.image.registration import Broker, broker_record
from moldau.model import NO_UUID, Code
from moldau.model.ids import is_topic_name
from moldau.wire.messages.k04_leader_and_isr import LeaderAndIsrRequest
from moldau.wire.messages.k05_stop_replica import StopReplicaRequest
from moldau.wire.messages.k06_update_metadata import UpdateMetadataRequest
from moldau.wire.records.metadata import (
    BrokerRegistrationChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from moldau.wire.schema import Message

PLAINTEXT = 0
Role = LeaderAndIsrRequest.LeaderAndIsrPartitionState
Shown = UpdateMetadataRequest.UpdateMetadataPartitionState
State = Role | Shown


class Draft:
    """Records in the making, and the names and ids of topics as they will be after them."""

    def __init__(self, image: Image) -> None:
        self.image = image
        self.records: list[Message] = []
        self._ids: dict[str, bytes | None] = {}
        self._owners: dict[bytes, str] = {}

    def id_of(self, name: str) -> bytes | None:
        """The id under which a topic is known; None for one that is not."""
        return self._ids[name] if name in self._ids else self.image.names.get(name)

    def is_anothers(self, name: str, id: bytes) -> bool:
        """Whether an id is that of a topic of another name: whoever says so is no controller to be believed."""
        topic = self.image.topics.get(id)
        owner = self._owners.get(id) or (None if topic is None else topic.name)
        return owner not in (None, name) and self.id_of(str(owner)) == id

    def known(self, name: str, number: int) -> Partition | None:
        """A partition as the image has it; None when it, or this life of its topic, is not there."""
        id = self.id_of(name)
        return None if id is None else self.image.partition(id, number)

    def topic(self, name: str, id: bytes) -> bytes:
        """Make a topic known; another that had its name is gone. Its id, made from the name when it has none."""
        known = self.id_of(name)
        if id == NO_UUID:  # before KIP-516; ``controller_requests.py`` lets nobody through who says it
            id = known or hashlib.sha256(name.encode()).digest()[:16]
        if known != id:
            if known is not None:
                self.remove(name)
            self.records.append(TopicRecord(name=name, topic_id=id))
            self._ids[name] = id
            self._owners[id] = name
        return id

    def remove(self, name: str) -> None:
        """Forget a topic; nothing when it is not known."""
        id = self.id_of(name)
        if id is not None:
            self.records.append(RemoveTopicRecord(topic_id=id))
            self._ids[name] = None


# ---- LeaderAndIsr


def leader_and_isr(
    image: Image, me: int, request: LeaderAndIsrRequest, stopped: Container[Key] = ()
) -> tuple[list[Message], list[RoleOutcome]]:
    """Records, and the outcome of each partition: STALE_CONTROLLER_EPOCH for an old leader epoch, and for another
    leader in the same; INCONSISTENT_TOPIC_ID for an id that is another topic's; UNKNOWN_TOPIC_OR_PARTITION when this
    broker is not among the replicas.
    ``stopped``: replicas that begin anew with whatever part is given to them, also the one that they had.
    """
    draft = Draft(image)
    outcomes: list[RoleOutcome] = []
    for name, given, state in roles_in(request):
        code = Code.NONE
        before = draft.known(name, state.partition_index)
        if given != NO_UUID and draft.id_of(name) not in (None, given):
            before = None
        if not _is_a_partition(state) or not is_topic_name(name):
            code = Code.INVALID_REQUEST
        elif draft.is_anothers(name, given):
            code = Code.INCONSISTENT_TOPIC_ID
        elif me not in state.replicas:
            code = Code.UNKNOWN_TOPIC_OR_PARTITION
        elif before is not None and (state.leader_epoch < before.leader_epoch or _leads_beside(before, state)):
            code = Code.STALE_CONTROLLER_EPOCH
        elif before is None or state.partition_epoch >= before.partition_epoch:
            after = partition_record(
                draft.topic(name, given), state, (state.adding_replicas, state.removing_replicas), before
            )
            after.leader_recovery_state = state.leader_recovery_state
            if before is None or before.key in stopped or _differs(before, after):
                draft.records.append(after)
        outcomes.append(RoleOutcome(name, given, state.partition_index, code))
    return draft.records, outcomes


def roles_in(
    request: LeaderAndIsrRequest,
) -> Iterator[tuple[str, bytes, LeaderAndIsrRequest.LeaderAndIsrPartitionState]]:
    """Each partition's state with its topic's name and id (NO_UUID where a version has none)."""
    for state in request.ungrouped_partition_states:
        yield state.topic_name, NO_UUID, state
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield topic.topic_name, bytes(topic.topic_id), state


def topic_without_id(request: LeaderAndIsrRequest | UpdateMetadataRequest) -> str | None:
    """Return the name of a topic that a request names without its id, None if there is none."""
    named = roles_in(request) if isinstance(request, LeaderAndIsrRequest) else shown_in(request)
    return next((name for name, id, _ in named if id == NO_UUID), None)


def _is_a_partition(state: State) -> bool:
    """Whether a state is one that a partition can have. Any client may send it, and no image holds anything else."""
    return state.partition_index >= 0 and state.leader_epoch >= 0 and bool(state.replicas)


def _leads_beside(before: Partition, state: State) -> bool:
    """Whether a state names another leader than the one that is known under the same epoch: there is one in each."""
    return state.leader_epoch == before.leader_epoch and len({before.leader, state.leader} - {NO_LEADER}) > 1


def partition_record(
    topic_id: bytes, state: State, moving: tuple[list[int], list[int]], before: Partition | None
) -> PartitionRecord:
    epoch = state.partition_epoch if isinstance(state, Role) else state.zk_version
    replicas = list(dict.fromkeys(state.replicas))  # nobody twice, whoever sent it
    same = before is not None and list(before.replicas) == replicas
    # While a move ends, two writes may cross (KAFKA-9672).
    isr = [id for id in dict.fromkeys(state.isr) if id in replicas]
    return PartitionRecord(
        topic_id=topic_id,
        partition_id=state.partition_index,
        replicas=replicas,
        isr=isr,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        partition_epoch=epoch,
        adding_replicas=list(moving[0]),
        removing_replicas=list(moving[1]),
        directories=list(before.directories) if same and before is not None else [],
    )


def _differs(before: Partition, after: PartitionRecord) -> bool:
    return (
        before.leader_epoch != after.leader_epoch
        or before.partition_epoch != after.partition_epoch
        or before.leader != after.leader
        or before.replicas != tuple(after.replicas)
        or before.isr != tuple(after.isr)
        or before.adding != tuple(after.adding_replicas)
        or before.removing != tuple(after.removing_replicas)
        or before.recovery != after.leader_recovery_state
    )


# ---- UpdateMetadata


def unnamed(image: Image, request: UpdateMetadataRequest) -> list[str]:
    """Topics that are known here, and that a complete request does not name."""
    if request.type != FULL:
        return []
    return sorted(image.names.keys() - {name for name, _, _ in shown_in(request)})


def update_metadata(
    image: Image, me: int, request: UpdateMetadataRequest, epochs: Mapping[int, int], gone: Iterable[str] = ()
) -> list[Message]:
    """Records. ``epochs``: broker id -> epoch of its registration, for those that ``newly_live`` names. ``gone``: those
    of the ``unnamed`` topics that nobody knows any more."""
    draft = Draft(image)
    draft.records += _brokers(image, request, epochs)
    for name, given, state in shown_in(request):
        if state.leader == DURING_DELETE:
            # Whoever holds replicas is told to delete them by StopReplica, which is to come.
            if given in (NO_UUID, draft.id_of(name)) and not _holds(image, draft.id_of(name), me):
                draft.remove(name)
            continue
        _show(draft, me, name, given, state)
    for name in gone:
        draft.remove(name)
    return draft.records


def shown_in(
    request: UpdateMetadataRequest,
) -> Iterator[tuple[str, bytes, UpdateMetadataRequest.UpdateMetadataPartitionState]]:
    """Each partition that a broker is shown, with its topic's name and id."""
    for state in request.ungrouped_partition_states:
        yield state.topic_name, NO_UUID, state
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield topic.topic_name, bytes(topic.topic_id), state


def _show(draft: Draft, me: int, name: str, given: bytes, state: Shown) -> None:
    if not _is_a_partition(state) or not is_topic_name(name) or draft.is_anothers(name, given):
        return
    before = draft.known(name, state.partition_index)
    if given != NO_UUID and draft.id_of(name) not in (None, given):
        before = None
    if me in state.replicas and (before is None or before.leader_epoch != state.leader_epoch):
        return  # our own: LeaderAndIsr gives us our part
    if me in state.replicas and before is not None and before.leader == NO_LEADER != state.leader:
        return  # nobody begins to lead within an epoch: the role was held back here (own_logs.py)
    if before is not None and (state.leader_epoch, state.zk_version) <= (before.leader_epoch, before.partition_epoch):
        return
    kept = before is not None and list(before.replicas) == list(state.replicas)
    moving = (list(before.adding), list(before.removing)) if kept and before is not None else ([], [])
    after = partition_record(draft.topic(name, given), state, moving, before)
    after.leader_recovery_state = before.recovery if before is not None else 0
    draft.records.append(after)


def _holds(image: Image, topic_id: bytes | None, me: int) -> bool:
    topic = None if topic_id is None else image.topics.get(topic_id)
    return topic is not None and any(me in p.replicas for p in topic.partitions.values())


def names_replica(request: UpdateMetadataRequest, me: int) -> bool:
    """Whether a replica of this broker is among the partitions that a request shows."""
    return any(me in state.replicas for _, _, state in shown_in(request))


def names_broker(request: UpdateMetadataRequest, me: int, own: Iterable[Endpoint]) -> bool:
    """Whether this broker is among those that a request shows as live, at one of its own addresses: a controller tells
    nobody else."""
    mine = {(e.host, e.port) for e in own}
    return any(
        shown.id == me and any((e.host, e.port) in mine for e in endpoints_of(shown)) for shown in request.live_brokers
    )


def endpoints_of(broker: UpdateMetadataRequest.UpdateMetadataBroker) -> tuple[Endpoint, ...]:
    """A broker's addresses; the first versions know one only, and listeners have no names before 3."""
    if broker.v0_host:
        return (Endpoint("PLAINTEXT", broker.v0_host, broker.v0_port, PLAINTEXT),)
    return tuple(Endpoint(e.listener or "PLAINTEXT", e.host, e.port, e.security_protocol) for e in broker.endpoints)


def newly_live(image: Image, request: UpdateMetadataRequest) -> list[int]:
    """Brokers in the request whose epoch must be looked up: not known here, fenced, or somewhere else than they were;
    and all of them in a complete request, since who was away has missed who else was.

    The request does not say epochs, and without one nobody may join an ISR (KIP-903).
    """
    if request.type == FULL:
        return [shown.id for shown in request.live_brokers]
    found = []
    for shown in request.live_brokers:
        known = image.brokers.get(shown.id)
        if known is None or known.fenced or known.epoch < 0 or known.endpoints != endpoints_of(shown):
            found.append(shown.id)
    return found


def _brokers(image: Image, request: UpdateMetadataRequest, epochs: Mapping[int, int]) -> list[Message]:
    records: list[Message] = []
    live = {shown.id: shown for shown in request.live_brokers}
    for id, known in image.brokers.items():
        if id not in live and not known.fenced:
            records.append(BrokerRegistrationChangeRecord(broker_id=id, broker_epoch=known.epoch, fenced=1))
    for id, shown in live.items():
        before = image.brokers.get(id)
        if id not in epochs and before is not None:
            continue
        after = Broker(
            id, epochs.get(id, -1), incarnation(epochs.get(id, -1)), endpoints_of(shown), rack=shown.rack, fenced=False
        )
        if before != after:
            records.append(broker_record(after))
    return records


def with_epochs(image: Image, epochs: Mapping[int, int]) -> list[Message]:
    """Records that give live brokers their epochs, now that they are known."""
    known = ((image.brokers.get(id), epoch) for id, epoch in epochs.items() if epoch >= 0)
    found = ((broker, epoch) for broker, epoch in known if broker is not None and not broker.fenced)
    return [broker_record(b._replace(epoch=epoch, incarnation_id=incarnation(epoch))) for b, epoch in found]


def incarnation(broker_epoch: int) -> bytes:
    """A registration's identity in this mode: no two have the same epoch, which is a transaction id."""
    return broker_epoch.to_bytes(16, "big", signed=True)


# ---- StopReplica


def stop_replica(image: Image, me: int, request: StopReplicaRequest) -> tuple[list[Message], list[StopOutcome]]:
    """Records, and the outcome of each partition: FENCED_LEADER_EPOCH for an old leader epoch.

    Deletion of a topic deletes it here whole. Which replicas only stop says ``stops``.
    """
    draft = Draft(image)
    outcomes: list[StopOutcome] = []
    for name, number, leader_epoch, delete in stopped_in(request):
        known = draft.known(name, number)
        code = Code.NONE
        if known is not None and 0 <= leader_epoch < known.leader_epoch:
            code = Code.FENCED_LEADER_EPOCH
        elif known is not None and delete:
            if leader_epoch == DURING_DELETE:
                draft.remove(name)
            elif me in known.replicas and len(known.replicas) > 1:
                draft.records.append(_without(known, me))
        outcomes.append(StopOutcome(name, number, code))
    return draft.records, outcomes


def stops(image: Image, me: int, request: StopReplicaRequest) -> list[Key]:
    """Replicas here that a request stops and leaves on disk."""
    found = []
    for name, number, leader_epoch, delete in stopped_in(request):
        topic = image.topic(name)
        known = None if topic is None else topic.partitions.get(number)
        if known is None or delete or me not in known.replicas or 0 <= leader_epoch < known.leader_epoch:
            continue
        found.append(known.key)
    return found


def stopped_in(request: StopReplicaRequest) -> Iterator[tuple[str, int, int, bool]]:
    """Each replica that a broker is told to stop: (topic, partition, leader epoch or -1, delete)."""
    for old in request.ungrouped_partitions:
        yield old.topic_name, old.partition_index, -1, request.delete_partitions
    for older in request.topics:
        for number in older.partition_indexes:
            yield older.name, number, -1, request.delete_partitions
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield topic.topic_name, state.partition_index, state.leader_epoch, state.delete_partition


def _without(partition: Partition, me: int) -> PartitionRecord:
    """A partition whose replica here has moved away."""
    replicas = [r for r in partition.replicas if r != me]
    return PartitionRecord(
        topic_id=partition.topic_id,
        partition_id=partition.id,
        replicas=replicas,
        isr=[r for r in partition.isr if r != me],
        leader=partition.leader if partition.leader != me else -1,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        adding_replicas=[r for r in partition.adding if r != me],
        removing_replicas=[r for r in partition.removing if r != me],
    )
