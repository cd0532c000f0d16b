"""Payloads of every version of Kafka, and data that Kafka would not have written: named, never guessed at."""
# ruff: noqa: E501 - a payload is one line

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.image import Endpoint, FeatureRange
from moldau.model import TopicPartition
from moldau.zookeeper import notes, paths, znodes
from moldau.zookeeper.connect import parse_connect
from moldau.zookeeper.payload import BadZnode, in_table_order
from moldau.zookeeper.znodes import BrokerZnode, FeatureZnode, MigrationZnode, ReplicaAssignment, StateZnode, TopicZnode

PLAIN = Endpoint("PLAINTEXT", "h", 9092, 0)

BROKERS = [
    (b'{"version":1,"host":"h","port":9092,"jmx_port":9999,"timestamp":"5"}', BrokerZnode(7, (PLAIN,), None, (), 5, 9999)),
    (
        b'{"jmx_port":-1,"timestamp":"5","host":"h","version":2,"port":9092,"endpoints":["PLAINTEXT://h:9092","SSL://h:9"]}',
        BrokerZnode(7, (PLAIN, Endpoint("SSL", "h", 9, 1)), None, (), 5),
    ),
    (
        b'{"version":3,"host":"h","port":9092,"jmx_port":-1,"timestamp":"5","endpoints":["PLAINTEXT://h:9092"],"rack":"a"}',
        BrokerZnode(7, (PLAIN,), "a", (), 5),
    ),
    (
        b'{"version":4,"host":null,"port":-1,"jmx_port":-1,"timestamp":"5","endpoints":["CLIENT://[::1]:9092"],"rack":null,'
        b'"listener_security_protocol_map":{"CLIENT":"SASL_SSL"},"later":{"a":1}}',
        BrokerZnode(7, (Endpoint("CLIENT", "::1", 9092, 3),), None, (), 5),
    ),
    (
        b'{"version":5,"host":"h","port":9092,"jmx_port":-1,"timestamp":"5","endpoints":["PLAINTEXT://h:9092"],'
        b'"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"features":{"f":{"min_version":1,"max_version":3}}}',
        BrokerZnode(7, (PLAIN,), None, (FeatureRange("f", 1, 3),), 5),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("data", "broker"), BROKERS)
def test_a_broker_s_registration_is_read_in_all_its_versions(data: bytes, broker: BrokerZnode) -> None:
    assert znodes.parse_broker(7, data) == broker
    assert znodes.parse_broker(7, znodes.broker_json(broker)) == broker


def test_a_registration_without_a_plaintext_listener_has_no_old_address() -> None:
    only = BrokerZnode(1, (Endpoint("IN", "h", 9, 1),), incarnation_id=bytes(range(16)), first_epoch=1 << 40)
    written = znodes.broker_json(only)
    assert b'"port":-1,"host":null' in written
    assert znodes.parse_broker(1, written) == only


@pytest.mark.parametrize(
    ("data", "topic"),
    [
        (b'{"version":1,"partitions":{"1":[2],"0":[1,2]}}', TopicZnode("t", None, {0: ReplicaAssignment((1, 2)), 1: ReplicaAssignment((2,))})),
        (
            b'{"version":2,"partitions":{"0":[3,1,2]},"adding_replicas":{"0":[3]},"removing_replicas":{"0":[2]}}',
            TopicZnode("t", None, {0: ReplicaAssignment((3, 1, 2), (3,), (2,))}),
        ),
        (
            b'{"version":3,"partitions":{"0":[1]},"adding_replicas":{},"removing_replicas":{},'
            b'"topic_id":"AAAAAAAAAAAAAAAAAAAAAQ"}',
            TopicZnode("t", bytes(15) + b"\x01", {0: ReplicaAssignment((1,))}),
        ),
    ],
)  # fmt: skip
def test_a_topic_is_read_in_all_its_versions(data: bytes, topic: TopicZnode) -> None:
    assert znodes.parse_topic("t", data) == topic
    assert znodes.parse_topic("t", znodes.topic_json(topic)) == topic


def test_a_recovering_partition_says_so_where_kafka_does() -> None:
    state = StateZnode(leader=1, leader_epoch=2, isr=(1,), controller_epoch=3, recovery=1)
    written = znodes.state_json(state)
    assert written == (
        b'{"controller_epoch":3,"leader":1,"version":1,"leader_recovery_state":1,"leader_epoch":2,"isr":[1]}'
    )
    assert znodes.parse_state("t", 0, written) == state


def test_the_other_payloads_come_back() -> None:
    partitions = [TopicPartition("t", 1), TopicPartition("u", 0)]
    assert notes.parse_isr_note("/n", notes.preferred_election_json(partitions)) == partitions, "written alike"
    assert notes.parse_preferred_election(notes.preferred_election_json(partitions)) == partitions
    moves = {partitions[0]: (1, 2)}
    assert notes.parse_reassignment(notes.reassignment_json(moves)) == moves
    assert notes.reassignment_json(moves) == (
        b'{"version":1,"partitions":[{"topic":"t","partition":1,"replicas":[1,2]}]}'
    )
    event = notes.LogDirEvent(3)
    assert notes.parse_log_dir_event("/e", notes.log_dir_event_json(event)) == event
    migration = MigrationZnode(3000, 5, 77, 4)
    assert znodes.parse_migration(znodes.migration_json(migration)) == migration
    assert znodes.parse_feature(b'{"version":1,"status":0,"features":{"f":{"min_version_level":1,"max_version_level":2}}}') == (
        FeatureZnode({"f": 2}, enabled=False)
    )  # fmt: skip
    assert znodes.parse_controller(b'{"version":1,"brokerid":0,"timestamp":"9"}').broker_id == 0
    assert notes.parse_config_change("/c", b'{"version":1,"entity_type":"topics","entity_name":"foo"}') == "topics/foo"
    assert notes.parse_config("topics/t", b"") == {}
    assert znodes.parse_producer_ids(b"") is None


BAD: list[tuple[Callable[[Any], Any], str, list[bytes]]] = [
    (lambda d: znodes.parse_broker(1, d), "/brokers/ids/1", [
        b"", b"x", b"[]", b"{}", b'{"version":0}', b'{"version":true}', b'{"version":1,"host":"h"}',
        b'{"version":1,"host":"h","port":70000}', b'{"version":2,"endpoints":["nonsense"]}', b'{"version":2,"endpoints":[1]}',
        b'{"version":4,"endpoints":["A://h:1"],"listener_security_protocol_map":{"A":"MAGIC"}}', b'{"version":2,"endpoints":{}}',
        b'{"version":2,"endpoints":["SSL://h:99999"]}', b'{"version":2,"endpoints":["FOO://h:1"]}', b"\xff\xfe",
        b'{"version":2,"endpoints":["SSL://h:1"],"timestamp":"now"}', b'{"version":2,"endpoints":["SSL://h:1"],"incarnation_id":"x"}',
    ]),
    (lambda d: znodes.parse_topic("t", d), "/brokers/topics/t", [
        b"", b'{"version":1,"partitions":{"a":[1]}}', b'{"version":1,"partitions":{"0":[]}}', b'{"version":1,"partitions":{"0":[1,1]}}',
        b'{"version":1,"partitions":{"0":["1"]}}', b'{"version":1,"partitions":{"0":[-1]}}', b'{"version":1,"partitions":[]  ,"topic_id":1}',
        b'{"version":1,"partitions":{"-1":[1]}}', b'{"version":3,"partitions":{},"topic_id":"short"}', b"[" * 100_000,
    ]),
    (lambda d: znodes.parse_state("t", 0, d), "/brokers/topics/t/partitions/0/state", [
        b"", b"{}", b'{"leader":1,"leader_epoch":0,"isr":"1"}', b'{"leader":1,"leader_epoch":0,"isr":[1],"leader_recovery_state":2}',
    ]),
    (znodes.parse_controller, "/controller", [b"", b"{}", b'{"brokerid":"1"}']),
    (znodes.parse_controller_epoch, "/controller_epoch", [b"", b"x", b"-1", b"\xff"]),
    (znodes.parse_feature, "/feature", [b"", b'{"version":3,"status":1}', b'{"version":2,"status":2}', b'{"version":2}',
                                        b'{"version":2,"status":1,"features":{"f":{"max_version_level":0}}}']),
    (znodes.parse_producer_ids, "/latest_producer_id_block", [b"{}", b'{"broker":1,"block_start":"9","block_end":"1"}',
                                                              b'{"broker":1,"block_start":0,"block_end":1}']),
    (znodes.parse_cluster_id, "/cluster/id", [b"", b'{"id":1}']),
    (znodes.parse_migration, "/migration", [b'{"version":1}']),
    (notes.parse_reassignment, "/admin/reassign_partitions", [b"", b"{}", b'{"partitions":[1]}', b'{"partitions":[{"topic":"t"}]}']),
    (notes.parse_preferred_election, "/admin/preferred_replica_election", [b"null", b'{"partitions":[{"topic":1,"partition":0}]}']),
    (lambda d: notes.parse_config("topics/t", d), "/config/topics/t", [b"x", b'{"config":{"k":1}}', b'{"config":[1]}']),
    (lambda d: notes.parse_config_change("/c", d), "/c", [b'{"version":3}', b'{"version":2,"entity_path":"x"}',
                                                          b'{"version":1,"entity_type":"users","entity_name":"u"}']),
]  # fmt: skip


@pytest.mark.parametrize(("parse", "path", "data"), [(p, path, each) for p, path, many in BAD for each in many])
def test_what_kafka_would_not_have_written_is_refused_by_name(parse: Any, path: str, data: bytes) -> None:
    with pytest.raises(BadZnode) as caught:
        parse(data)
    assert caught.value.path == path
    assert path in str(caught.value)
    assert len(str(caught.value)) < 400


@given(st.text(min_size=1))
def test_a_name_comes_back_from_its_place_in_a_path(name: str) -> None:
    part = paths.sanitized(name)
    assert "/" not in part
    assert paths.plain(part) == name


@given(st.sets(st.text(max_size=4), max_size=40))
def test_table_order_loses_no_key(keys: set[str]) -> None:
    assert sorted(in_table_order(keys)) == sorted(keys)


@pytest.mark.parametrize(
    "text",
    ["", "/chroot", "host:0", "host:x", "host:99999", "a:1,,b:2", "a:1//x", "a:1/x/../y", ":2181", "a b:1", "a:1,"],
)
def test_a_wrong_connect_string_is_explained(text: str) -> None:
    with pytest.raises(ValueError, match="zookeeper.connect"):
        parse_connect(text)


def test_a_connect_string_is_taken_apart() -> None:
    assert parse_connect("a , b:1,[::1]/") == ((("a", 2181), ("b", 1), ("::1", 2181)), "")
