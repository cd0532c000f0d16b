"""The znodes that say what the cluster is: brokers, topics, partition states, controller, features, ids.

``parse_*`` reads every version that Kafka has written since 0.8 and raises BadZnode; ``*_json`` writes what Kafka 3.9
writes, key order included. Requests and notices are in ``notes``, the way to records in ``reading`` and ``writing``.
Source: Kafka's znodes, KIP-455 (adding, removing), KIP-516 (topic ids), KIP-584 (features), KIP-866 (migration).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from moldau.image import Endpoint, FeatureRange
from moldau.model import NO_UUID, uuid_bytes, uuid_text
from moldau.model.named import NamedTuple
from moldau.zookeeper import paths
from moldau.zookeeper.payload import (
    EPOCH_MAX,
    INT_MAX,
    BadZnode,
    Payload,
    as_digits,
    as_integers,
    as_text,
    in_order,
    parsed,
    written,
)

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""Kafka's security protocols; the place is the number."""
LEVEL_MAX = 2**15 - 1
"""The highest level of a feature that a request can carry."""

_WHOLE = {int}
_ENDPOINT = re.compile(r"([\w.-]+)://(?:\[([0-9a-fA-F:.%]+)\]|([^\[\]/]*)):(-?[0-9]{1,5})\Z")


class BrokerZnode(NamedTuple):
    """A broker's registration, an ephemeral znode; the broker epoch is the id of the transaction that made it.

    Our additions, which others ignore: ``incarnation_id`` says whose it is, when a broker finds its own after a lost
    answer; ``first_epoch`` is the epoch under which the same process registered first, -1 in that very registration.
    """

    id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    features: tuple[FeatureRange, ...] = ()
    timestamp_ms: int = 0
    jmx_port: int = -1
    incarnation_id: bytes | None = None
    first_epoch: int = -1

    def lives_since(self, czxid: int) -> int:
        """The epoch from which on the process lives that was registered by transaction ``czxid``."""
        return self.first_epoch if self.first_epoch >= 0 else czxid


class ControllerZnode(NamedTuple):
    """Who is controller, an ephemeral znode. Kafka's brokers write version 2 since 3.4."""

    broker_id: int
    timestamp_ms: int = 0
    kraft_controller_epoch: int = -1
    incarnation_id: bytes | None = None
    version: int = 2


class ReplicaAssignment(NamedTuple):
    """Where the replicas of one partition are, and are going."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


class TopicZnode(NamedTuple):
    """A topic's assignments, by partition. ``id`` is None before Kafka 2.8."""

    name: str
    id: bytes | None
    partitions: dict[int, ReplicaAssignment]


class StateZnode(NamedTuple):
    """A partition's leader and ISR. The partition epoch is the znode's version.

    ``isr_epochs`` (ours alone): beside each of the ISR, under which broker epoch its writer knew it; 0 if it did not,
    and empty when nobody said.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    recovery: int = 0
    isr_epochs: tuple[int, ...] = ()


class FeatureZnode(NamedTuple):
    """Finalized features; ``enabled`` False means that they do not count."""

    levels: dict[str, int]
    enabled: bool = True


class ProducerIdBlock(NamedTuple):
    """The newest block of producer ids, both ends included."""

    broker_id: int
    start: int
    end: int


class MigrationZnode(NamedTuple):
    """How far a KRaft controller has written to ZooKeeper (KIP-866)."""

    controller_id: int
    controller_epoch: int
    metadata_offset: int
    metadata_epoch: int


# ---- brokers


def parse_broker(id: int, data: bytes | None) -> BrokerZnode:
    path = paths.broker(id)
    found = parsed(path, data)
    version = found.version(1)
    if version == 1:
        endpoints: tuple[Endpoint, ...] = (Endpoint("PLAINTEXT", found.text("host"), _port(found), 0),)
    else:
        named = found.inner("listener_security_protocol_map").values
        endpoints = tuple(_endpoint(path, text, named) for text in found.items("endpoints"))
    return BrokerZnode(
        id=id,
        endpoints=endpoints,
        rack=found.text("rack") if found.has("rack") else None,
        features=_ranges(found.inner("features")),
        timestamp_ms=found.digits("timestamp") if found.has("timestamp") else 0,
        jmx_port=found.integer("jmx_port", -1),
        incarnation_id=_id(found, "incarnation_id"),
        first_epoch=found.digits("first_epoch") if found.has("first_epoch") else -1,
    )


def broker_json(broker: BrokerZnode) -> bytes:
    first = next((e for e in broker.endpoints if e.security_protocol == 0), None)
    values: dict[str, object] = {
        "features": {f.name: {"min_version": f.low, "max_version": f.high} for f in broker.features},
        "listener_security_protocol_map": {e.name: SECURITY_PROTOCOLS[e.security_protocol] for e in broker.endpoints},
        "endpoints": [_endpoint_text(e) for e in broker.endpoints],
        "jmx_port": broker.jmx_port,
        "port": -1 if first is None else first.port,
        "host": None if first is None else first.host,
        "version": 5,
        "timestamp": str(broker.timestamp_ms),
    }
    if broker.rack is not None:
        values = _with_after("endpoints", "rack", broker.rack, values)
    if broker.incarnation_id is not None:
        values["incarnation_id"] = uuid_text(broker.incarnation_id)
    if broker.first_epoch >= 0:
        values["first_epoch"] = str(broker.first_epoch)
    return written(values)


def _endpoint(path: str, text: object, named: Mapping[str, object]) -> Endpoint:
    match = _ENDPOINT.match(as_text(path, "an endpoint", text)) if isinstance(text, str) else None
    if match is None:
        raise BadZnode(path, f"{text!r:.100} is no endpoint; LISTENER://host:port is expected")
    name = match[1].upper()
    protocol = named.get(match[1], named.get(name)) if named else name
    if not isinstance(protocol, str) or protocol not in SECURITY_PROTOCOLS:
        raise BadZnode(path, f"listener {name} has security protocol {protocol!r:.100}, which is not known")
    port = int(match[4])
    if not 0 <= port <= 65535:
        raise BadZnode(path, f"port {port} of listener {name} is none")
    return Endpoint(name, match[2] or match[3], port, SECURITY_PROTOCOLS.index(protocol))


def _endpoint_text(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{endpoint.name}://{host}:{endpoint.port}"


def _port(found: Payload) -> int:
    port = found.integer("port")
    if not 0 <= port <= 65535:
        raise BadZnode(found.path, f"port {port} is none")
    return port


def _ranges(features: Payload) -> tuple[FeatureRange, ...]:
    ranges = []
    for name in features.values:
        levels = features.inner(name)
        low, high = levels.integer("min_version"), levels.integer("max_version")
        if not 0 <= low <= high <= LEVEL_MAX:
            raise BadZnode(features.path, f"levels {low} to {high} of feature {name!r:.100} are none")
        ranges.append(FeatureRange(as_text(features.path, "a feature", name), low, high))
    return tuple(ranges)


# ---- the controller


def parse_controller(data: bytes | None) -> ControllerZnode:
    found = parsed(paths.CONTROLLER, data)
    return ControllerZnode(
        broker_id=found.integer("brokerid"),
        timestamp_ms=found.digits("timestamp") if found.has("timestamp") else 0,
        kraft_controller_epoch=found.integer("kraftControllerEpoch", -1),
        incarnation_id=_id(found, "incarnation_id"),
        version=found.integer("version", 1),
    )


def controller_json(controller: ControllerZnode) -> bytes:
    values: dict[str, object] = {
        "version": controller.version,
        "brokerid": controller.broker_id,
        "timestamp": str(controller.timestamp_ms),
        "kraftControllerEpoch": controller.kraft_controller_epoch,
    }
    if controller.incarnation_id is not None:
        values["incarnation_id"] = uuid_text(controller.incarnation_id)
    return written(values)


def parse_controller_epoch(data: bytes | None) -> int:
    epoch = as_digits(paths.CONTROLLER_EPOCH, "the epoch", (data or b"").decode("latin-1"))
    if epoch < 0:
        raise BadZnode(paths.CONTROLLER_EPOCH, f"{epoch} is no epoch")
    if epoch > EPOCH_MAX:
        raise BadZnode(
            paths.CONTROLLER_EPOCH, f"{epoch} is so near to the last epoch that there is that none can follow"
        )
    return epoch


def controller_epoch_text(epoch: int) -> bytes:
    return str(epoch).encode()


# ---- topics and partitions


def parse_topic(name: str, data: bytes | None) -> TopicZnode:
    path = paths.topic(name)
    found = parsed(path, data)
    found.version(1)
    placed = _replica_lists(found, "partitions")
    adding, removing = _replica_lists(found, "adding_replicas"), _replica_lists(found, "removing_replicas")
    partitions = {}
    for number, replicas in sorted(placed.items()):
        if not replicas or len(set(replicas)) != len(replicas) or min(replicas) < 0:
            raise BadZnode(path, f"partition {number} has replicas {list(replicas)}: different brokers are expected")
        if number in adding or number in removing:
            partitions[number] = _moving(path, number, replicas, adding.get(number, ()), removing.get(number, ()))
        else:
            partitions[number] = ReplicaAssignment(replicas)
    id = _id(found, "topic_id")
    if id == NO_UUID:
        raise BadZnode(path, "topic_id is the one that means no topic")
    return TopicZnode(name, id, partitions)


def topic_json(topic: TopicZnode) -> bytes:
    numbers = {str(number): each for number, each in topic.partitions.items()}
    numbers = in_order(numbers)
    values: dict[str, object] = {"partitions": {n: list(each.replicas) for n, each in numbers.items()}}
    if topic.id is not None:
        values["topic_id"] = uuid_text(topic.id)
    values["adding_replicas"] = {n: list(each.adding) for n, each in numbers.items() if each.adding}
    values["removing_replicas"] = {n: list(each.removing) for n, each in numbers.items() if each.removing}
    values["version"] = 3
    return written(values)


def parse_state(topic: str, partition: int, data: bytes | None) -> StateZnode:
    found = parsed(paths.state(topic, partition), data)
    recovery = found.integer("leader_recovery_state", 0)
    if recovery not in (0, 1):
        raise BadZnode(found.path, f"leader_recovery_state {recovery} is not known here")
    isr = tuple(dict.fromkeys(found.integers("isr")))
    epochs = found.longs("isr_epochs") if found.has("isr_epochs") else ()
    return StateZnode(
        leader=found.integer("leader"),
        leader_epoch=found.epoch("leader_epoch"),
        isr=isr,
        controller_epoch=found.integer("controller_epoch", 0),
        recovery=recovery,
        isr_epochs=epochs if len(epochs) == len(isr) else (),
    )


def state_json(state: StateZnode) -> bytes:
    values: dict[str, object] = {
        "controller_epoch": state.controller_epoch,
        "leader": state.leader,
        "version": 1,
        "leader_epoch": state.leader_epoch,
        "isr": list(state.isr),
    }
    if state.recovery:
        values = _with_after("version", "leader_recovery_state", state.recovery, values)
    if state.isr_epochs:
        values["isr_epochs"] = list(state.isr_epochs)
    return written(values)


# ---- the rest


def parse_feature(data: bytes | None) -> FeatureZnode:
    found = parsed(paths.FEATURE, data)
    found.version(1, 2)
    status = found.integer("status")
    if status not in (0, 1):
        raise BadZnode(found.path, f"status {status} is neither disabled (0) nor enabled (1)")
    features = found.inner("features")
    levels = {name: features.inner(name).integer("max_version_level") for name in features.values}
    for name, level in levels.items():
        if not 1 <= level <= LEVEL_MAX:
            raise BadZnode(found.path, f"feature {name!r:.100} is at level {level}; 1 to {LEVEL_MAX} is expected")
        as_text(found.path, "a feature", name)
    return FeatureZnode(levels, enabled=status == 1)


def feature_json(feature: FeatureZnode) -> bytes:
    levels = {name: {"max_version_level": level} for name, level in feature.levels.items()}
    return written({"features": levels, "version": 2, "status": int(feature.enabled)})


def parse_producer_ids(data: bytes | None) -> ProducerIdBlock | None:
    """None when no block was ever handed out: the znode is there from the start, empty."""
    if not data:
        return None
    found = parsed(paths.PRODUCER_IDS, data)
    block = ProducerIdBlock(found.integer("broker"), found.digits("block_start"), found.digits("block_end"))
    if block.start < 0 or block.end < block.start or block.end >= 1 << 63:
        raise BadZnode(found.path, f"{block.start} to {block.end} is no block")
    return block


def producer_ids_json(block: ProducerIdBlock) -> bytes:
    return written(
        {"version": 1, "broker": block.broker_id, "block_start": str(block.start), "block_end": str(block.end)}
    )


def parse_cluster_id(data: bytes | None) -> str:
    """The cluster's id as it stands there. Kafka's are 22 characters, but it takes any text."""
    return parsed(paths.CLUSTER_ID, data).text("id")


def cluster_id_json(id: str) -> bytes:
    return written({"version": "1", "id": id})


def parse_migration(data: bytes | None) -> MigrationZnode:
    found = parsed(paths.MIGRATION, data)
    found.version(0, 0)
    return MigrationZnode(
        controller_id=found.integer("kraft_controller_id"),
        controller_epoch=found.integer("kraft_controller_epoch"),
        metadata_offset=found.long("kraft_metadata_offset"),
        metadata_epoch=found.integer("kraft_metadata_epoch"),
    )


def migration_json(migration: MigrationZnode) -> bytes:
    return written(
        {
            "version": 0,
            "kraft_controller_id": migration.controller_id,
            "kraft_controller_epoch": migration.controller_epoch,
            "kraft_metadata_offset": migration.metadata_offset,
            "kraft_metadata_epoch": migration.metadata_epoch,
        }
    )


def _id(found: Payload, key: str) -> bytes | None:
    if not found.has(key):
        return None
    try:
        return uuid_bytes(found.text(key))
    except ValueError as error:
        raise BadZnode(found.path, f"{key}: {error}") from None


def _replica_lists(found: Payload, key: str) -> dict[int, tuple[int, ...]]:
    """What stands under a key of a topic's znode: lists of broker ids by partition."""
    lists: dict[int, tuple[int, ...]] = {}
    for number, listed in found.inner(key).values.items():
        if type(listed) is list and {*map(type, listed)} == _WHOLE and max(listed) <= INT_MAX >= -min(listed):
            lists[_number(found.path, number)] = tuple(listed)
        else:
            lists[_number(found.path, number)] = as_integers(found.path, f"{key} {number}", listed)
    return lists


def _moving(
    path: str, number: int, replicas: tuple[int, ...], adding: tuple[int, ...], removing: tuple[int, ...]
) -> ReplicaAssignment:
    """The assignment of a partition whose replicas move."""
    for key, some in (("adding_replicas", adding), ("removing_replicas", removing)):
        if len(set(some)) != len(some) or not set(some) <= set(replicas):
            raise BadZnode(path, f"{key} {number}: {list(some)!r:.100} are not some of {list(replicas)!r:.100}")
    return ReplicaAssignment(replicas, adding, removing)


def _number(path: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise BadZnode(path, f"{text!r} is no partition number")
    return int(text)


def _with_after(place: str, key: str, value: object, values: dict[str, object]) -> dict[str, object]:
    """The same with one more key, right after another."""
    result: dict[str, object] = {}
    for name, each in values.items():
        result[name] = each
        if name == place:
            result[key] = value
    return result
