"""Everything that a node says it serves, it answers: each request in each version, in both modes and every listener.

One request per version, filled from the schema with names and numbers that exist, so that most are valid: an answer
that cannot be read, a connection that is closed, silence, or UNKNOWN_SERVER_ERROR fails. What the answers mean is
tested elsewhere; random requests are in test_fuzz.py.
"""

from __future__ import annotations

import itertools
import socket
import struct
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest
from kafka_peer import wait_until

from moldau import Cluster
from moldau.broker.api import ANSWERS, BROKER, CONTROLLER, ZOOKEEPER
from moldau.model import Code
from moldau.wire.apis import APIS
from moldau.wire.batch import build
from moldau.wire.frames import read_response_body, request_frame
from moldau.wire.messages.k06_update_metadata import UpdateMetadataRequest
from moldau.wire.messages.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from moldau.wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.wire.schema import Field, Message, Struct

TOPIC = "answered"
NOBODY = 99
"""A broker, or voter, that is not there."""
PATIENCE_S = 60
AT_CONTROLLER = frozenset({7, 56, 67})
"""What in ZooKeeper mode goes to the controller; what it sends itself (4, 5, 6) goes to the other broker."""
FROM_CONTROLLER = frozenset({4, 5, 6})

COMMON: dict[str, Any] = {
    **dict.fromkeys(("name", "topic", "topic_name"), TOPIC),
    **dict.fromkeys(("group_id", "groups", "coordinator_keys", "groups_names"), "answered-group"),
    "timeout_ms": 5_000,
    "session_timeout_ms": 10_000,
    "partition_max_bytes": 1 << 20,
    "max_bytes": 1 << 20,
    "transaction_timeout_ms": 60_000,
    "protocol_type": "consumer",
    "acks": -1,
    "timestamp": -1,
    "resource_type": 2,
    "resource_name": TOPIC,
    "host": "127.0.0.1",
    "host_name": "127.0.0.1",
    "port": 9,
    "listener": "PLAINTEXT",
    "records": build([(1_700_000_000_000, b"key", b"value", [])]),
    "voter_id": NOBODY,
    "new_isr": 1,
    "broker_ids": 1,
    "client_software_name": "answers",
    "client_software_version": "1",
}
"""Field name -> what every request has there; anything else has the schema's default, lists one element."""

NOBODYS = {"broker_id": NOBODY}
QUORUM = dict.fromkeys(("name", "topic", "topic_name"), "__cluster_metadata")
GROUPS = frozenset({8, 9, 11, 12, 13, 14, 15, 42, 47})
"""What only a group's coordinator answers well."""
SPECIAL: dict[int, dict[str, Any]] = {
    7: NOBODYS,
    16: {"states_filter": (), "types_filter": ()},
    22: {"transactional_id": None},
    19: {"num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()},
    32: {"configuration_keys": None},
    33: {"name": "retention.ms", "value": "60000"},
    37: {"count": 3, "assignments": None, "validate_only": True},
    44: {"name": "retention.ms", "value": "60000"},
    52: QUORUM,
    53: QUORUM,
    54: QUORUM,
    55: QUORUM,
    57: {"feature_updates": ()},
    59: QUORUM,
    62: NOBODYS,
    63: NOBODYS,
    64: NOBODYS,
    67: NOBODYS,
    70: {"controller_id": NOBODY},
    73: NOBODYS,
    74: {"resource_types": ()},
    75: {"cursor": None},
}
"""What only one request needs, by api key."""


class Line:
    """A connection on which requests are answered one by one."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, PATIENCE_S)
        self._stream = self._socket.makefile("rb")
        self._ids = itertools.count(1)

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self._socket.close()

    def ask(self, message: Message, version: int) -> Message:
        """The answer; an error of the socket when it does not come."""
        id = next(self._ids)
        self._socket.sendall(b"".join(request_frame(message, version, id, "answers")))
        head = self._stream.read(4)
        if len(head) < 4:
            raise ConnectionError("the connection was closed")
        frame = memoryview(self._stream.read(struct.unpack(">i", head)[0]))
        assert struct.unpack_from(">i", frame)[0] == id
        return read_response_body(frame, message.api_key, version)


class Place(NamedTuple):
    """A listener, and what requests to it are filled with."""

    kind: str
    address: tuple[str, int]
    values: dict[str, Any]
    keys: frozenset[int]


def filled(cls: type[Struct], version: int, values: Mapping[str, Any]) -> Any:
    """A message, or a part of one, with one element in every list."""
    return cls(**{f.name: _value(f, version, values) for f in cls.fields if f.present(version)})


def _value(field: Field, version: int, values: Mapping[str, Any]) -> Any:
    given = values.get(field.name, field)
    if isinstance(given, tuple):
        return list(given)
    if isinstance(field.element, type):
        return None if given is None else [filled(field.element, version, values)]
    if given is not field:
        return given if field.element is None or given is None else [given]
    if isinstance(field.type, type):
        return filled(field.type, version, values)
    if field.element is not None:
        return [{"string": TOPIC, "uuid": bytes(16)}.get(field.element, 0)]
    return field.default


def codes(part: Any) -> Iterator[int]:
    """Every error code in an answer."""
    for field in part.fields:
        found = getattr(part, field.name)
        for each in found if isinstance(found, list) else [found]:
            if isinstance(each, Struct):
                yield from codes(each)
        if field.name in ("error_code", "partition_error_code") and isinstance(found, int):
            yield found


@pytest.fixture(scope="module", params=["quorum", "zookeeper"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    config = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}
    folder = tmp_path_factory.mktemp("answers") / "cluster"
    with Cluster(2, mode=request.param, data=folder, config=config) as running:
        running.create_topic(TOPIC, partitions=1, replication_factor=2)
        yield running


def places(cluster: Cluster) -> list[Place]:
    """All kinds of listener, each with the keys that are to be tried there."""
    (topic,) = (each for name, each in cluster.client().topics().items() if name == TOPIC)
    controller = cluster.controller()
    (other,) = {1, 2} - {controller}
    partition = topic.partitions[0]
    facts = COMMON | {
        "topic_id": topic.topic_id,
        "cluster_id": cluster.cluster_id,
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "replicas": tuple(partition.replicas),
        "isr": tuple(partition.isr),
    }
    lead = ("127.0.0.1", cluster.node(partition.leader).port)
    coordinator = ("127.0.0.1", cluster.node(coordinating(lead)).port)
    if cluster.mode == "kraft":
        listener = ("127.0.0.1", cluster.node(controller).controller_port)
        return [
            Place(BROKER, lead, facts, frozenset(ANSWERS[BROKER]) - GROUPS),
            Place(BROKER, coordinator, facts, GROUPS),
            Place(CONTROLLER, listener, facts, frozenset(ANSWERS[CONTROLLER])),
        ]
    # A controller's own requests are those of the present one, which say what is so already.
    speaking = facts | {"controller_id": controller, "controller_epoch": 1, "live_brokers": everybody(cluster)}
    return [
        Place(ZOOKEEPER, lead, facts, frozenset(ANSWERS[ZOOKEEPER]) - FROM_CONTROLLER - AT_CONTROLLER - GROUPS),
        Place(ZOOKEEPER, coordinator, facts, GROUPS),
        Place(ZOOKEEPER, ("127.0.0.1", cluster.node(controller).port), facts, AT_CONTROLLER),
        Place(ZOOKEEPER, ("127.0.0.1", cluster.node(other).port), speaking, FROM_CONTROLLER),
        Place(ZOOKEEPER, ("127.0.0.1", cluster.node(controller).port), speaking, FROM_CONTROLLER),
    ]


def coordinating(address: tuple[str, int]) -> int:
    """The coordinator of the group, once there is one."""
    found: list[int] = []

    def named() -> bool:
        with Line(address) as line:
            answer = line.ask(FindCoordinatorRequest(key=COMMON["group_id"]), 0)
        assert isinstance(answer, FindCoordinatorResponse)
        found[:] = [answer.node_id] if answer.error_code == Code.NONE else []
        return bool(found)

    wait_until(named, "the group has a coordinator", PATIENCE_S)
    return found[0]


def everybody(cluster: Cluster) -> tuple[Any, ...]:
    """All brokers, as UpdateMetadata has them."""
    kind = UpdateMetadataRequest
    found = []
    for id in (1, 2):
        where = ("127.0.0.1", cluster.node(id).port)
        listener = kind.UpdateMetadataEndpoint(host=where[0], port=where[1], listener="PLAINTEXT")
        found.append(kind.UpdateMetadataBroker(id=id, v0_host=where[0], v0_port=where[1], endpoints=[listener]))
    return tuple(found)


def tried(place: Place, key: int, version: int) -> dict[str, Any]:
    """What a request is filled with."""
    values = place.values | SPECIAL.get(key, {})
    if key == 19:
        values["name"] = f"made-{place.kind}-{version}"
    if key == 11:
        values["group_id"] = f"joined-{version}"  # alone: others would be waited for
    if place.kind == CONTROLLER and key == 60:
        values["endpoint_type"] = 2
    if key == 20:
        values["name"] = values["topic_names"] = "never-made"
        values["topic_id"] = bytes(16)
    return values


def test_every_request_that_is_advertised_is_answered_in_every_version(cluster: Cluster) -> None:
    pids = [cluster.pid(id) for id in (1, 2)]
    wrong: list[str] = []
    for place in places(cluster):
        for key in sorted(place.keys):
            answer = ANSWERS[place.kind][key]
            for version in range(answer.low, answer.high + 1):
                request = filled(APIS[key].request, version, tried(place, key, version))
                try:
                    with Line(place.address) as line:
                        found = line.ask(request, version)
                except (OSError, ValueError) as error:
                    wrong.append(f"{APIS[key].name} v{version}, {place.kind}: {error!r} after {request}")
                    continue
                if Code.UNKNOWN_SERVER_ERROR in codes(found):
                    wrong.append(f"{APIS[key].name} v{version}, {place.kind}: {found} after {request}")
    assert not wrong, "\n".join(wrong)
    assert [cluster.pid(id) for id in (1, 2)] == pids
    said = "".join((cluster.node(id).logs / "out.log").read_text() for id in (1, 2))
    assert "Traceback" not in said, said[-3000:]


def test_what_is_advertised_is_what_is_tried(cluster: Cluster) -> None:
    for place in places(cluster):
        with Line(place.address) as line:
            answer = line.ask(ApiVersionsRequest(), 0)
        assert isinstance(answer, ApiVersionsResponse)
        told = {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
        assert told == {one.key: (one.shown, one.high) for one in ANSWERS[place.kind].values()}
