"""Decisions as requests: from what a committed batch changed to LeaderAndIsr, UpdateMetadata, StopReplica.

Pure: an image, its delta and the sender's epochs in, messages per broker out, in the order in which they must be sent.
One request of each kind per broker carries all partitions. A broker that has just come gets everything (``full``).
Who sends them, and again, is ``channels.py``; what a broker makes of them is ``translation.py``.
Source: protocol guide; KIP-380 (broker epochs), KIP-516 (topic ids), KIP-704 (recovery), KIP-866 (types).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from moldau.image import Broker, Delta, Image, Partition, Topic
from moldau.image.delta import PartitionDelta
from moldau.image.partition import LOST, Key
from moldau.model.value import field, value
from moldau.wire.messages.k04_leader_and_isr import LeaderAndIsrRequest
from moldau.wire.messages.k05_stop_replica import StopReplicaRequest
from moldau.wire.messages.k06_update_metadata import UpdateMetadataRequest
from moldau.wire.schema import Message

UNKNOWN, INCREMENTAL, FULL = 0, 1, 2
"""Values of ``type``: not said, as by Apache Kafka's controllers in ZooKeeper mode; some partitions changed; or these
are all there are."""
DURING_DELETE = -2
"""Leader, and leader epoch, of a partition whose topic is being deleted."""


@value(kw_only=True)
class SendingController:
    """Who speaks: the controller, under its epoch; ``listener`` is where brokers reach each other.

    ``to_migrating``: only to brokers in ZooKeeper mode; the others read the quorum's log (KIP-866). Requests say then
    that a KRaft controller sends them, or Kafka's brokers would look for it among the brokers. ``sends_type``: requests
    say their type, other than those of Apache Kafka's controllers in ZooKeeper mode. ``written_by``: partition -> epoch
    of the controller that wrote its state, where it is not this one: each partition is sent with its own, as by Apache
    Kafka's controllers in ZooKeeper mode. Those of KRaft send their own with all.
    """

    controller_id: int
    controller_epoch: int
    listener: str
    to_migrating: bool = False
    sends_type: bool = True
    written_by: Mapping[Key, int] = field(default_factory=dict)

    def epoch_of(self, key: Key) -> int:
        """The epoch of the controller that wrote a partition's state last."""
        return self.written_by.get(key, self.controller_epoch)


def reachable(image: Image, sender: SendingController) -> list[Broker]:
    """Live brokers that can be told anything; the sender itself needs no telling."""
    return [
        broker
        for broker in image.live_brokers()
        if broker.id != sender.controller_id
        and broker.endpoint(sender.listener) is not None
        and (broker.is_migrating or not sender.to_migrating)
    ]


def newly_registered(image: Image, delta: Delta) -> set[int]:
    """Brokers that are live now and were not, or live another life: they know nothing yet."""
    found = set()
    for id, before in delta.brokers.items():
        after = image.brokers.get(id)
        lived = None if before is None or before.fenced else before.epoch
        if after is not None and not after.fenced and after.epoch != lived:
            found.add(id)
    return found


def begin_shutdown(image: Image, delta: Delta) -> set[int]:
    """Brokers that want to stop, and did not before (CS-1)."""
    found = set()
    for id, before in delta.brokers.items():
        after = image.brokers.get(id)
        if before is not None and after is not None and after.in_controlled_shutdown and not after.fenced:
            found |= set() if before.in_controlled_shutdown else {id}
    return found


def _stops_at_shutdown(image: Image, broker_id: int) -> list[tuple[str, int, int]]:
    """What a broker that wants to stop need not follow any longer: it is in no ISR, and others are there."""
    return [
        (image.topics[p.topic_id].name, p.id, p.leader_epoch)
        for p in image.partitions_on_broker(broker_id)
        if p.leader != broker_id and len(p.replicas) > 1
    ]


def requests(
    image: Image, delta: Delta, sender: SendingController, deleting: Container[bytes] = ()
) -> dict[int, list[Message]]:
    """Broker id -> what it must be told of a committed batch, in order; nothing for who need not be told.
    ``deleting``: topics whose replicas were told to go already, and that are nobody's to lead or follow any more."""
    changes = [change for change in delta.changes(image) if change.key[0] not in deleting]
    if not changes and not delta.brokers:
        return {}
    new = newly_registered(image, delta)
    shutting_down = set() if sender.to_migrating else begin_shutdown(image, delta)
    shown = _partition_states(image, (c.after for c in changes if c.after is not None), sender)
    shown += _deleted_states(sender, changes)
    live = live_brokers(image)
    told: dict[int, list[Message]] = {}
    for broker in reachable(image, sender):
        if broker.id in new:
            told[broker.id] = full(image, broker, sender)
            continue
        # Who is alive comes first: a leader that still believes in a dead follower lets its watermark wait for it.
        messages: list[Message] = [_update_metadata(broker, shown, live, sender)]
        changed = [c for c in changes if c.after is not None and broker.id in c.after.replicas]
        if changed:
            messages.append(_leader_and_isr(image, broker, changed, sender))
        gone = [c for c in changes if c.before is not None and _is_taken_off(c, broker.id)]
        stops = [(c.topic, c.key[1], DURING_DELETE if c.after is None else c.after.leader_epoch) for c in gone]
        messages += deletion(broker, stops, sender)
        stops_at_shutdown = _stops_at_shutdown(image, broker.id) if broker.id in shutting_down else []
        if stops_at_shutdown:
            messages.append(stop_replica(broker, stops_at_shutdown, sender, delete=False))
        told[broker.id] = messages
    return told


def deletion(broker: Broker, stops: Sequence[tuple[str, int, int]], sender: SendingController) -> list[Message]:
    """The requests by which a broker deletes replicas: they go offline first, and are deleted then, as Kafka's do
    (RA-1, TD-2)."""
    return [stop_replica(broker, stops, sender, delete=delete) for delete in (False, True)] if stops else []


def topic_deletions(image: Image, broker: Broker, topics: Iterable[Topic], sender: SendingController) -> list[Message]:
    """The requests that say which topics are being deleted: no broker shows them to clients any more."""
    gone = [PartitionDelta(topic.name, p.key, p, None) for topic in topics for p in topic.partitions.values()]
    states = _deleted_states(sender, gone)
    return [_update_metadata(broker, states, live_brokers(image), sender)] if states else []


def full(image: Image, broker: Broker, sender: SendingController, deleted: Container[Key] = ()) -> list[Message]:
    """Everything: the whole cluster, then every replica of this broker, but those that it ``deleted`` already."""
    all_of_it = (p for topic in image.topics.values() for p in topic.partitions.values())
    metadata = _update_metadata(broker, _partition_states(image, all_of_it, sender), live_brokers(image), sender)
    metadata.type = FULL if sender.sends_type else UNKNOWN
    all_roles = roles(image, broker, sender, deleted)
    all_roles.type = metadata.type
    return [metadata, all_roles]


def roles(image: Image, broker: Broker, sender: SendingController, deleted: Container[Key] = ()) -> LeaderAndIsrRequest:
    """What a broker leads and follows, all of it, but what it ``deleted`` of topics that go."""
    mine = [p for p in image.partitions_on_broker(broker.id) if p.key not in deleted]
    here = [PartitionDelta(image.topics[p.topic_id].name, p.key, p, p) for p in mine]
    return _leader_and_isr(image, broker, sorted(here, key=lambda c: (c.topic, c.key)), sender)


def live_brokers(image: Image) -> list[UpdateMetadataRequest.UpdateMetadataBroker]:
    """Live brokers at their addresses, as UpdateMetadata lists them."""
    return [
        UpdateMetadataRequest.UpdateMetadataBroker(
            id=broker.id,
            rack=broker.rack,
            endpoints=[
                UpdateMetadataRequest.UpdateMetadataEndpoint(
                    host=e.host, port=e.port, listener=e.name, security_protocol=e.security_protocol
                )
                for e in broker.endpoints
            ],
        )
        for broker in image.live_brokers()
        if broker.endpoints
    ]


def _is_taken_off(change: PartitionDelta, broker_id: int) -> bool:
    """Whether a change takes a replica off a broker: its topic is deleted, or it moved away."""
    assert change.before is not None
    return broker_id in change.before.replicas and (change.after is None or broker_id not in change.after.replicas)


def is_written(change: PartitionDelta) -> bool:
    """Whether a change wrote a partition's state, whose version is the partition epoch."""
    before, after = change.before, change.after
    return after is not None and (before is None or before.partition_epoch != after.partition_epoch)


def _partition_states(
    image: Image, partitions: Iterable[Partition], sender: SendingController
) -> list[UpdateMetadataRequest.UpdateMetadataTopicState]:
    """Topic states of UpdateMetadata; all brokers are sent the same."""
    live = {broker.id for broker in image.live_brokers()}
    states: dict[bytes, UpdateMetadataRequest.UpdateMetadataTopicState] = {}
    for p in partitions:
        topic = states.get(p.topic_id)
        if topic is None:
            name = image.topics[p.topic_id].name
            topic = states[p.topic_id] = UpdateMetadataRequest.UpdateMetadataTopicState(
                topic_name=name, topic_id=p.topic_id
            )
        topic.partition_states.append(
            UpdateMetadataRequest.UpdateMetadataPartitionState(
                partition_index=p.id,
                controller_epoch=sender.epoch_of(p.key),
                leader=p.leader,
                leader_epoch=p.leader_epoch,
                isr=list(p.isr),
                zk_version=p.partition_epoch,
                replicas=list(p.replicas),
                offline_replicas=[r for r in p.replicas if r not in live or p.directory(r) == LOST],
            )
        )
    return list(states.values())


def _deleted_states(
    sender: SendingController, changes: Sequence[PartitionDelta]
) -> list[UpdateMetadataRequest.UpdateMetadataTopicState]:
    """Topic states that say: forget it."""
    states: dict[bytes, UpdateMetadataRequest.UpdateMetadataTopicState] = {}
    for c in changes:
        if c.after is None and c.before is not None:
            topic = states.setdefault(
                c.key[0], UpdateMetadataRequest.UpdateMetadataTopicState(topic_name=c.topic, topic_id=c.key[0])
            )
            topic.partition_states.append(
                UpdateMetadataRequest.UpdateMetadataPartitionState(
                    partition_index=c.key[1],
                    controller_epoch=sender.epoch_of(c.key),
                    leader=DURING_DELETE,
                    leader_epoch=c.before.leader_epoch,
                    isr=list(c.before.isr),
                    zk_version=c.before.partition_epoch,
                    replicas=list(c.before.replicas),
                )
            )
    return list(states.values())


def _update_metadata(
    broker: Broker,
    shown: list[UpdateMetadataRequest.UpdateMetadataTopicState],
    live: list[UpdateMetadataRequest.UpdateMetadataBroker],
    sender: SendingController,
) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(
        controller_id=sender.controller_id,
        controller_epoch=sender.controller_epoch,
        broker_epoch=broker.epoch,
        type=INCREMENTAL if sender.sends_type else UNKNOWN,
        is_k_raft_controller=sender.to_migrating,
        topic_states=shown,
        live_brokers=live,
    )


def _leader_and_isr(
    image: Image, broker: Broker, roles: Sequence[PartitionDelta], sender: SendingController
) -> LeaderAndIsrRequest:
    request = LeaderAndIsrRequest(
        controller_id=sender.controller_id,
        controller_epoch=sender.controller_epoch,
        broker_epoch=broker.epoch,
        type=INCREMENTAL if sender.sends_type else UNKNOWN,
        is_k_raft_controller=sender.to_migrating,
    )
    topics: dict[bytes, LeaderAndIsrRequest.LeaderAndIsrTopicState] = {}
    leaders: set[int] = set()
    for c in roles:
        p = c.after
        assert p is not None
        topic = topics.get(p.topic_id)
        if topic is None:
            topic = topics[p.topic_id] = LeaderAndIsrRequest.LeaderAndIsrTopicState(
                topic_name=c.topic, topic_id=p.topic_id
            )
        leaders.add(p.leader)
        topic.partition_states.append(
            LeaderAndIsrRequest.LeaderAndIsrPartitionState(
                partition_index=p.id,
                controller_epoch=sender.epoch_of(p.key),
                leader=p.leader,
                leader_epoch=p.leader_epoch,
                isr=list(p.isr),
                partition_epoch=p.partition_epoch,
                replicas=list(p.replicas),
                adding_replicas=list(p.adding),
                removing_replicas=list(p.removing),
                is_new=c.before is None or broker.id not in c.before.replicas,
                leader_recovery_state=p.recovery,
            )
        )
    request.topic_states = list(topics.values())
    request.live_leaders = _addresses(image, leaders, sender)
    return request


def _addresses(
    image: Image, leaders: set[int], sender: SendingController
) -> list[LeaderAndIsrRequest.LeaderAndIsrLiveLeader]:
    found = []
    for id in sorted(leaders):
        broker = image.brokers.get(id)
        where = None if broker is None or broker.fenced else broker.endpoint(sender.listener)
        if where is not None:
            found.append(
                LeaderAndIsrRequest.LeaderAndIsrLiveLeader(broker_id=id, host_name=where.host, port=where.port)
            )
    return found


def stop_replica(
    broker: Broker, stops: Sequence[tuple[str, int, int]], sender: SendingController, *, delete: bool
) -> StopReplicaRequest:
    """The request by which a broker stops replicas, each (topic, partition, leader epoch), and deletes them if so."""
    topics: dict[str, StopReplicaRequest.StopReplicaTopicState] = {}
    for name, number, leader_epoch in stops:
        topic = topics.setdefault(name, StopReplicaRequest.StopReplicaTopicState(topic_name=name))
        topic.partition_states.append(
            StopReplicaRequest.StopReplicaPartitionState(
                partition_index=number, leader_epoch=leader_epoch, delete_partition=delete
            )
        )
    return StopReplicaRequest(
        controller_id=sender.controller_id,
        controller_epoch=sender.controller_epoch,
        broker_epoch=broker.epoch,
        is_k_raft_controller=sender.to_migrating,
        topic_states=list(topics.values()),
    )
