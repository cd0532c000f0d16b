"""Lines of the state-change log about requests of the ZooKeeper plane: what the controller sends, what a broker hears.

The words and levels are those of Apache Kafka 3.9: a summary of each request at INFO, each of its partitions at TRACE,
what is refused at WARN. Everything is an iterator: a request may name ten thousand partitions, and whoever writes the
lines (``moldau.broker.metadata.state_change_log``) asks for some hundred in a turn of the loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from logging import INFO, WARNING
from typing import overload

from moldau.broker.metadata.state_change_log import TRACE, Line
from moldau.broker.zookeeper.batch import DURING_DELETE
from moldau.controller.state_change import Author
from moldau.image import Image
from moldau.model import Code
from moldau.model.ids import is_topic_name
from moldau.wire.messages.k04_leader_and_isr import LeaderAndIsrRequest
from moldau.wire.messages.k05_stop_replica import StopReplicaRequest
from moldau.wire.messages.k06_update_metadata import UpdateMetadataRequest
from moldau.wire.schema import Message

NAME_CHARS_MAX = 250
Request = LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest
Led = LeaderAndIsrRequest.LeaderAndIsrPartitionState | UpdateMetadataRequest.UpdateMetadataPartitionState
"""The states that name a leader."""
State = Led | StopReplicaRequest.StopReplicaPartitionState

_NAMES: dict[type[Message], str] = {
    LeaderAndIsrRequest: "LeaderAndIsr",
    StopReplicaRequest: "StopReplica",
    UpdateMetadataRequest: "UpdateMetadata",
}


# ---- the controller


def sent(author: Author, told: Mapping[int, Iterable[Message]], *, traced: bool) -> Iterator[Line]:
    """What the controller sends: broker id -> requests, as one committed batch makes them. ``traced``: each partition
    too."""
    shown: dict[int, list[int]] = {}
    for broker_id, messages in told.items():
        for message in messages:
            if isinstance(message, LeaderAndIsrRequest):
                yield from _roles_sent(author, broker_id, message, traced)
            elif isinstance(message, StopReplicaRequest):
                yield from _stops_sent(author, broker_id, message, traced)
            elif isinstance(message, UpdateMetadataRequest):
                shown.setdefault(_count(message), []).append(broker_id)
    for partitions, brokers in shown.items():
        ids = ", ".join(map(str, sorted(brokers)))
        yield INFO, f"{author} Sending UpdateMetadata request to brokers HashSet({ids}) for {partitions} partitions"


def _roles_sent(author: Author, broker_id: int, request: LeaderAndIsrRequest, traced: bool) -> Iterator[Line]:
    for topic, state in _partitions(request) if traced else ():
        kind = "become-leader" if state.leader == broker_id else "become-follower"
        yield (
            TRACE,
            f"{author} Sending {kind} LeaderAndIsr request {_text(topic, state)} to broker {broker_id}"
            f" for partition {topic}-{state.partition_index}",
        )
    leaders = sum(state.leader == broker_id for topic in request.topic_states for state in topic.partition_states)
    yield (
        INFO,
        f"{author} Sending LeaderAndIsr request to broker {broker_id} with {leaders} become-leader"
        f" and {_count(request) - leaders} become-follower partitions",
    )


def _stops_sent(author: Author, broker_id: int, request: StopReplicaRequest, traced: bool) -> Iterator[Line]:
    for topic, state in _partitions(request) if traced else ():
        yield (
            TRACE,
            f"{author} Sending StopReplica request {_text(topic, state)} to broker {broker_id}"
            f" for partition {topic}-{state.partition_index}",
        )
    yield INFO, f"{author} Sending StopReplica request for {_count(request)} replicas to broker {broker_id}"


# ---- the broker


def received(me: int, request: Request, correlation_id: int, *, traced: bool) -> Iterator[Line]:
    """What a broker hears, before it acts on it. UpdateMetadata is told of when it is done (``cached``)."""
    if isinstance(request, UpdateMetadataRequest):
        return
    name = _NAMES[type(request)]
    yield (
        INFO,
        f"[Broker id={me}] Handling {name} request correlationId {correlation_id} from controller"
        f" {request.controller_id} for {_count(request)} partitions",
    )
    whose = f"correlation id {correlation_id} from controller {request.controller_id} epoch {request.controller_epoch}"
    for topic, state in _partitions(request) if traced else ():
        text = f"[Broker id={me}] Received {name} request {_text(topic, state)} {whose}"
        if isinstance(request, StopReplicaRequest):
            text += f" for partition {topic}-{state.partition_index}"
        yield TRACE, text


def finished(me: int, request: Request, correlation_id: int, elapsed_ms: int, *, traced: bool) -> Iterator[Line]:
    """The line that says that a broker did what LeaderAndIsr or UpdateMetadata asks."""
    if isinstance(request, UpdateMetadataRequest):
        yield from _cached(me, request, correlation_id, traced)
    elif isinstance(request, LeaderAndIsrRequest):
        yield (
            INFO,
            f"[Broker id={me}] Finished LeaderAndIsr request in {elapsed_ms}ms correlationId {correlation_id}"
            f" from controller {request.controller_id} for {_count(request)} partitions",
        )


def _cached(me: int, request: UpdateMetadataRequest, correlation_id: int, traced: bool) -> Iterator[Line]:
    whose = (
        f"UpdateMetadata request sent by controller {request.controller_id} epoch {request.controller_epoch}"
        f" with correlation id {correlation_id}"
    )
    for topic, state in _partitions(request) if traced else ():
        name = f"{topic}-{state.partition_index}"
        if state.leader == DURING_DELETE:
            yield TRACE, f"[Broker id={me}] Deleted partition {name} from metadata cache in response to {whose}"
        else:
            text = f"[Broker id={me}] Cached leader info {_text(topic, state)} for partition {name}"
            yield TRACE, f"{text} in response to {whose}"
    deleted = sum(s.leader == DURING_DELETE for topic in request.topic_states for s in topic.partition_states)
    yield (
        INFO,
        f"[Broker id={me}] Add {_count(request) - deleted} partitions and deleted {deleted} partitions"
        f" from metadata cache in response to {whose}",
    )


def fenced(me: int, request: Request, correlation_id: int, known_epoch: int, *, traced: bool) -> Iterator[Line]:
    """The line that says that a controller of an older epoch is refused."""
    yield (
        WARNING,
        f"[Broker id={me}] Ignoring {_NAMES[type(request)]} request from controller {request.controller_id}"
        f" with correlation id {correlation_id} since its controller epoch {request.controller_epoch} is old."
        f" Latest known controller epoch is {known_epoch}",
    )


def refused(
    me: int,
    request: Request,
    correlation_id: int,
    codes: Mapping[tuple[str, int], Code],
    image: Image,
    *,
    traced: bool,
) -> Iterator[Line]:
    """Which partitions of a request are refused, and why; the image is looked at as the lines are asked for."""
    if not any(codes.values()):
        return
    begin = (
        f"[Broker id={me}] Ignoring {_NAMES[type(request)]} request from controller {request.controller_id}"
        f" with correlation id {correlation_id} epoch {request.controller_epoch} for partition"
    )
    for topic, state in _partitions(request):
        code = codes.get((topic, state.partition_index), Code.NONE)
        if code is not Code.NONE:
            yield WARNING, f"{begin} {topic}-{state.partition_index} {_why(code, topic, state, image)}"


def _why(code: Code, topic: str, state: State, image: Image) -> str:
    if code in (Code.STALE_CONTROLLER_EPOCH, Code.FENCED_LEADER_EPOCH):
        known = image.topic(topic)
        partition = None if known is None else known.partitions.get(state.partition_index)
        now = -1 if partition is None else partition.leader_epoch
        return f"since its associated leader epoch {state.leader_epoch} is smaller than the current leader epoch {now}"
    if code is Code.UNKNOWN_TOPIC_OR_PARTITION and hasattr(state, "replicas"):
        return f"as itself is not in assigned replica list {','.join(map(str, state.replicas))}"
    if code is Code.KAFKA_STORAGE_ERROR:
        return "as the local replica for the partition is in an offline log directory"
    return f"since it cannot be carried out: {code.name}"


# ---- what requests name


@overload
def _partitions(request: LeaderAndIsrRequest | UpdateMetadataRequest) -> Iterator[tuple[str, Led]]: ...
@overload
def _partitions(request: Request) -> Iterator[tuple[str, State]]: ...
def _partitions(request: Request) -> Iterator[tuple[str, State]]:
    """Topic and state of every partition, whatever the version of the request. What is no name of a topic is escaped:
    any client may send it, and a line is a line."""
    for topic, state in _as_sent(request):
        yield topic if is_topic_name(topic) else ascii(topic)[:NAME_CHARS_MAX], state


def _as_sent(request: Request) -> Iterator[tuple[str, State]]:
    if isinstance(request, StopReplicaRequest):
        state_of = StopReplicaRequest.StopReplicaPartitionState
        for one in request.ungrouped_partitions:
            yield one.topic_name, state_of(partition_index=one.partition_index)
        for old in request.topics:
            for number in old.partition_indexes:
                yield old.name, state_of(partition_index=number)
    else:
        for ungrouped in request.ungrouped_partition_states:
            yield ungrouped.topic_name, ungrouped
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield topic.topic_name, state


def _count(request: Request) -> int:
    grouped = sum(len(topic.partition_states) for topic in request.topic_states)
    if isinstance(request, StopReplicaRequest):
        return grouped + len(request.ungrouped_partitions) + sum(len(t.partition_indexes) for t in request.topics)
    return grouped + len(request.ungrouped_partition_states)


def _text(topic: str, state: State) -> str:
    """A partition's state as Kafka prints one: its class, and its fields in order."""
    if isinstance(state, LeaderAndIsrRequest.LeaderAndIsrPartitionState):
        return (
            f"LeaderAndIsrPartitionState(topicName='{topic}', partitionIndex={state.partition_index},"
            f" controllerEpoch={state.controller_epoch}, leader={state.leader}, leaderEpoch={state.leader_epoch},"
            f" isr={list(state.isr)}, partitionEpoch={state.partition_epoch}, replicas={list(state.replicas)},"
            f" addingReplicas={list(state.adding_replicas)}, removingReplicas={list(state.removing_replicas)},"
            f" isNew={str(state.is_new).lower()}, leaderRecoveryState={state.leader_recovery_state})"
        )
    if isinstance(state, UpdateMetadataRequest.UpdateMetadataPartitionState):
        return (
            f"UpdateMetadataPartitionState(topicName='{topic}', partitionIndex={state.partition_index},"
            f" controllerEpoch={state.controller_epoch}, leader={state.leader}, leaderEpoch={state.leader_epoch},"
            f" isr={list(state.isr)}, zkVersion={state.zk_version}, replicas={list(state.replicas)},"
            f" offlineReplicas={list(state.offline_replicas)})"
        )
    return (
        f"StopReplicaPartitionState(partitionIndex={state.partition_index}, leaderEpoch={state.leader_epoch},"
        f" deletePartition={str(state.delete_partition).lower()})"
    )
