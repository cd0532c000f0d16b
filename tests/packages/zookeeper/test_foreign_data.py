"""What stands in a znode is somebody else's input: any bytes are read, or refused by name, and what is read can be
carried by every request and record that it goes into."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from moldau.image import Endpoint, Image, image_from
from moldau.ports.zookeeper import Stat
from moldau.wire.messages.k04_leader_and_isr import LeaderAndIsrRequest
from moldau.wire.messages.k06_update_metadata import UpdateMetadataRequest
from moldau.zookeeper import notes, paths, znodes
from moldau.zookeeper.known_znodes import KnownZnodes
from moldau.zookeeper.payload import EPOCH_MAX, INT_MAX, BadZnode
from moldau.zookeeper.reading import Survey, SurveyResult, read
from moldau.zookeeper.settings import judged, records_of, setting_of
from moldau.zookeeper.writing import operations

WORDS = """
version host port endpoints listener_security_protocol_map features timestamp rack jmx_port incarnation_id first_epoch
brokerid kraftControllerEpoch partitions adding_replicas removing_replicas topic_id leader leader_epoch isr isr_epochs
controller_epoch leader_recovery_state status max_version_level min_version max_version broker block_start block_end id
event config entity_path entity_type entity_name topic partition replicas 0 1 PLAINTEXT kraft_controller_id
kraft_controller_epoch kraft_metadata_offset kraft_metadata_epoch retention.ms
segment.bytes SCRAM-SHA-256 request_percentage
"""
KEYS = tuple(WORDS.split())
SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 5),
    st.sampled_from((INT_MAX, INT_MAX + 1, -INT_MAX - 2, 1 << 40, 1 << 63, EPOCH_MAX, EPOCH_MAX + 1)),
    st.floats(),
    st.text(max_size=6),
    st.sampled_from(
        ("PLAINTEXT", "PLAINTEXT://h:1", "SSL://[::1]:9", "9" * 5000, "\u0663", "\ud800", "x" * 40_000, "7")
    ),
    st.sampled_from(("AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAQ", "topics/t", "a/../b", "t", "..", "1_0")),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=12).map(lambda o: {"version": 1} | o)
ANY_DATA = st.one_of(
    st.none(),
    st.binary(max_size=40),
    OBJECTS.map(lambda o: json.dumps(o).encode()),
    VALUES.map(lambda v: json.dumps(v).encode()),
)

PARSERS: list[Callable[[bytes | None], Any]] = [
    lambda data: znodes.parse_broker(1, data),
    lambda data: znodes.parse_topic("t", data),
    lambda data: znodes.parse_state("t", 0, data),
    znodes.parse_controller,
    znodes.parse_controller_epoch,
    znodes.parse_feature,
    znodes.parse_producer_ids,
    znodes.parse_cluster_id,
    znodes.parse_migration,
    notes.parse_reassignment,
    notes.parse_preferred_election,
    lambda data: notes.parse_isr_note("/n", data),
    lambda data: notes.parse_log_dir_event("/n", data),
    lambda data: notes.parse_config("topics/t", data),
    lambda data: notes.parse_config_change("/n", data),
]


@given(data=ANY_DATA)
@example(b'{"brokerid":' + b"9" * 5000 + b"}")
@example(b"[" * 100_000)
def test_any_bytes_are_read_or_refused_by_name(data: bytes | None) -> None:
    for parse in PARSERS:
        refused: BadZnode | None = None
        try:
            parse(data)
        except BadZnode as error:
            refused = error
        assert refused is None or (refused.path.startswith("/") and len(str(refused)) < 600)


def stat(n: int) -> Stat:
    return Stat(czxid=n, mzxid=n, version=1, ephemeral_owner=1)


def surveyed(broker: bytes, topic: bytes, state: bytes, config: bytes, rest: bytes) -> SurveyResult:
    """A cluster of which these znodes are as somebody wrote them, beside a broker and a topic that are well."""
    good = znodes.TopicZnode(
        "good", bytes(15) + b"\1", {0: znodes.ReplicaAssignment((1,)), 1: znodes.ReplicaAssignment((1,))}
    )
    well = znodes.state_json(znodes.StateZnode(1, 0, (1,), 1))
    return read(
        Survey(
            brokers={
                1: (znodes.broker_json(znodes.BrokerZnode(1, (Endpoint("PLAINTEXT", "h", 1),))), stat(5)),
                2: (broker, stat(6)),
            },
            topics={"good": (znodes.topic_json(good), stat(7)), "t": (topic, stat(8))},
            states={("good", 0): (well, stat(9)), ("good", 1): (state, stat(10)), ("t", 0): (state, stat(11))},
            configs={"topics/good": config, "brokers/2": config, "users/u": config, "groups/g": config},
            feature=rest,
            producer_ids=(rest, stat(12)),
            foreign=("/brokers/topics/" + "x" * 300,),
        ),
        lambda: bytes(15) + b"\7",
    )


SOME_DATA = ANY_DATA.map(lambda data: data or b"")


@given(SOME_DATA, SOME_DATA, SOME_DATA, SOME_DATA, SOME_DATA)
def test_whatever_stands_there_costs_itself_and_can_be_carried(
    broker: bytes, topic: bytes, state: bytes, config: bytes, rest: bytes
) -> None:
    reading = surveyed(broker, topic, state, config, rest)
    image = image_from(reading.records)
    assert image.brokers[1].active
    assert image.topic("good") is not None
    assert image.topics[image.names["good"]].partitions[0].leader == 1
    assert "t" in image.names, "nobody else may take its name"
    for record in reading.records:
        record.encode(record.versions[1])
    carried(image)


def carried(image: Image) -> None:
    """Everything fits into what the controller tells brokers."""
    for topic in image.topics.values():
        for partition in topic.partitions.values():
            state = LeaderAndIsrRequest.LeaderAndIsrPartitionState(
                topic_name=topic.name,
                partition_index=partition.id,
                controller_epoch=1,
                leader=partition.leader,
                leader_epoch=partition.leader_epoch + 1000,
                isr=list(partition.isr),
                partition_epoch=partition.partition_epoch,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding),
                removing_replicas=list(partition.removing),
            )
            told = LeaderAndIsrRequest.LeaderAndIsrTopicState(topic_name=topic.name, partition_states=[state])
            LeaderAndIsrRequest(controller_id=1, controller_epoch=1, topic_states=[told]).encode(5)
    for broker in image.brokers.values():
        endpoints = [
            UpdateMetadataRequest.UpdateMetadataEndpoint(
                listener=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol
            )
            for e in broker.endpoints
        ]
        shown = UpdateMetadataRequest.UpdateMetadataBroker(id=broker.id, endpoints=endpoints, rack=broker.rack)
        UpdateMetadataRequest(controller_id=1, controller_epoch=1, live_brokers=[shown]).encode(5)


@given(SOME_DATA)
def test_settings_and_quotas_that_were_read_can_be_written_again(config: bytes) -> None:
    for entity in ("topics/t", "brokers/<default>", "users/u", "users/u/clients/<default>", "ips/1.2.3.4"):
        try:
            settings = notes.parse_config(entity, config)
        except BadZnode:
            continue
        found = records_of(entity, judged(entity, settings)[0])
        for record in found:
            setting_of(record)
        operations(found, Image(), KnownZnodes(), 1)


def test_a_state_that_cannot_be_read_costs_its_partition_and_keeps_its_replicas() -> None:
    reading = surveyed(b"{}", b"{}", b"", b"{}", b"")
    image = image_from(reading.records)
    assert list(image.topics[image.names["good"]].partitions) == [0]
    assert reading.known_znodes.set_apart == {"good": {1: znodes.ReplicaAssignment((1,))}}
    assert set(reading.known_znodes.unread) == {paths.topic("t"), paths.state("good", 1)}


NUMBERS = st.integers(-2, 4)
SOME_NUMBERS = st.lists(NUMBERS, max_size=3)


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=3, unique=True), SOME_NUMBERS, SOME_NUMBERS, NUMBERS, SOME_NUMBERS,
    st.integers(0, 1),
)  # fmt: skip
@example([4], [], [], -1, [99], 0)  # seed 319 of damaged-znodes
def test_values_that_may_stand_there_make_a_partition_that_a_controller_could_have_made(
    replicas: list[int], adding: list[int], removing: list[int], leader: int, isr: list[int], recovery: int
) -> None:
    """Or none: each number could stand there, and only all of them together could not (law C2)."""
    topic = {
        "version": 3, "partitions": {"0": replicas}, "adding_replicas": {"0": adding},
        "removing_replicas": {"0": removing},
    }  # fmt: skip
    state = {
        "version": 1, "leader": leader, "leader_epoch": 1, "controller_epoch": 1, "isr": isr,
        "leader_recovery_state": recovery,
    }  # fmt: skip
    reading = surveyed(b"{}", json.dumps(topic).encode(), json.dumps(state).encode(), b"{}", b"")
    image = image_from(reading.records)
    read_ones = [p for topic in image.topics.values() for p in topic.partitions.values()]
    for p in read_ones:
        for group in (p.isr, p.adding, p.removing):
            assert set(group) <= set(p.replicas)
            assert len(set(group)) == len(group)
        assert p.leader in (-1, *p.isr)
        assert not p.recovery or len(p.isr) <= 1
        assert p.isr or not isr, "an ISR of nobody is no damage only where it stands so (Kafka before 1.1)"
    left_out = {one.path for one in reading.bad} & set(reading.known_znodes.unread)
    assert len(read_ones) + len(left_out & {paths.topic("t"), paths.state("t", 0), paths.state("good", 1)}) >= 3


def test_who_left_the_replicas_leads_no_more() -> None:
    reading = surveyed(
        b"{}", b'{"version":1,"partitions":{"0":[2,3]}}',
        b'{"version":1,"leader":1,"leader_epoch":4,"controller_epoch":1,"isr":[1,2]}', b"{}", b"",
    )  # fmt: skip
    partition = image_from(reading.records).topics[image_from(reading.records).names["t"]].partitions[0]
    assert (partition.leader, partition.isr, partition.leader_epoch) == (-1, (2,), 4)


def test_no_producer_id_is_given_out_while_nobody_knows_which_is_next() -> None:
    reading = surveyed(b"{}", b"{}", b"", b"{}", b"nonsense")
    assert image_from(reading.records).next_producer_id == 2**63 - 1
    assert paths.PRODUCER_IDS in reading.known_znodes.unread


def test_one_bad_setting_costs_itself_and_names_entity_key_and_value() -> None:
    good, complaints = judged(
        "topics/t", {"retention.ms": "abc", "segment.bytes": "100000", "segment.ms": "5", "of.another.release": "x"}
    )
    assert good == {"segment.bytes": "100000", "segment.ms": "5", "of.another.release": "x"}
    assert complaints == ["topics/t has 'retention.ms' = 'abc': a whole number (64 bits) of at least -1 is expected"]
    assert judged("topics/t", {"segment.bytes": "13"})[0] == {}
    assert judged("brokers/<default>", {"log.segment.bytes": "14", "message.max.bytes": "nan"})[0] == {
        "log.segment.bytes": "14"
    }
    assert judged("topics/t", {"leader.replication.throttled.replicas": "9" * 5000 + ":1"})[0] == {}


def test_of_topics_with_one_id_the_decided_one_counts_and_else_the_oldest() -> None:
    """No controller gives two topics one id: the others are copies that somebody made by hand."""
    id = bytes(range(16))
    topic = znodes.topic_json(znodes.TopicZnode("t", id, {0: znodes.ReplicaAssignment((1,))}))
    state = znodes.state_json(znodes.StateZnode(1, 3, (1,), 1, 0, (1,)))
    older, newer = Stat(czxid=5, mzxid=9, version=0, ephemeral_owner=0), Stat(7, 7, 0, 0)
    for states, stats, owner in (
        ((), {"a": newer, "t": older}, "t"),
        ((), {"a": older, "t": newer}, "a"),
        (("t",), {"a": older, "t": newer}, "t"),
        (("a", "t"), {"a": newer, "t": older}, "t"),
    ):
        found = read(
            Survey(
                topics={name: (topic, stat) for name, stat in stats.items()},
                states={(name, 0): (state, older) for name in states},
            ),
            lambda: bytes(16),
        )
        (copy,) = {"a", "t"} - {owner}
        assert image_from(found.records).names[owner] == id
        assert image_from(found.records).names[copy] != id
        assert [error.path for error in found.bad] == [paths.topic(copy)]
        assert f"topic {owner}" in str(found.bad[0])
        assert paths.topic(copy) in found.known_znodes.unread
