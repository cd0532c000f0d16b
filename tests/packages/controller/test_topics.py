"""Creating, deleting and growing topics: items stand for themselves, bounds and names are Kafka's, ids never return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moldau.controller.requests import (
    AlterPartitionReassignments,
    BrokerRefused,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectionType,
    ElectLeaders,
    MorePartitions,
    Move,
    NewTopic,
)
from moldau.image import image_hash
from moldau.image.configs import ConfigSource
from moldau.model import NO_UUID, Code
from moldau.simulator.machines.controller_harness import ControllerHarness
from moldau.wire.records import metadata as records


def codes(harness: ControllerHarness, *topics: NewTopic, **fields: Any) -> list[Code]:
    return [result.problem.code for result in harness.submit(CreateTopics(topics=topics, **fields)).topics]


def test_three_partitions_on_three_brokers_get_three_leaders_and_full_isrs() -> None:
    """Topic test on brokers 0, 1, 2."""
    harness = ControllerHarness(3)
    id = harness.create("test", (0, 1, 2), (1, 2, 0), (2, 0, 1))
    assert [type(record) for record in harness.records] == [records.TopicRecord] + [records.PartitionRecord] * 3
    for number, leader in enumerate((0, 1, 2)):
        partition = harness.partition("test", number)
        assert partition.leader == leader
        assert partition.isr == partition.replicas
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
        assert partition.topic_id == id
        assert partition.directories == tuple(bytes([100 + r]) * 16 for r in partition.replicas)


def test_defaults_come_from_the_settings() -> None:
    harness = ControllerHarness(3, static={"num.partitions": "4", "default.replication.factor": "2"})
    (result,) = harness.submit(CreateTopics(topics=(NewTopic(name="t"),))).topics
    assert (result.partitions, result.replication_factor) == (4, 2)
    assert [len(p.replicas) for p in harness.image.topics[result.topic_id].partitions.values()] == [2] * 4


def test_nobody_creates_a_topic_over_the_metadata_log() -> None:
    harness = ControllerHarness(1)
    assert codes(harness, NewTopic(name="__cluster_metadata", partitions=1, replication_factor=1)) == [
        Code.INVALID_REQUEST
    ]
    assert harness.records == []


def test_a_bad_item_harms_no_other() -> None:
    harness = ControllerHarness(1)
    harness.create("there", (0,))
    result = codes(
        harness,
        NewTopic(name="good"),
        NewTopic(name="there"),
        NewTopic(name="bad/name"),
        NewTopic(name="twice"),
        NewTopic(name="twice"),
        NewTopic(name="too.many", replication_factor=2),
        NewTopic(name="fine", partitions=3, replication_factor=1),
    )
    assert result == [
        Code.NONE,
        Code.TOPIC_ALREADY_EXISTS,
        Code.INVALID_TOPIC_EXCEPTION,
        Code.INVALID_REQUEST,
        Code.INVALID_REQUEST,
        Code.INVALID_REPLICATION_FACTOR,
        Code.NONE,
    ]
    assert sorted(harness.image.names) == ["fine", "good", "there"]


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ({"partitions": 0}, Code.INVALID_PARTITIONS),
        ({"partitions": -2}, Code.INVALID_PARTITIONS),
        ({"replication_factor": 0}, Code.INVALID_REPLICATION_FACTOR),
        ({"replication_factor": -2}, Code.INVALID_REPLICATION_FACTOR),
        ({"replication_factor": 4}, Code.INVALID_REPLICATION_FACTOR),
        ({"partitions": 10_001}, Code.POLICY_VIOLATION),
        ({"partitions": 10_000}, Code.POLICY_VIOLATION),  # with its topic record one too many
        ({"assignments": ((0, (0, 1)),), "partitions": 1}, Code.INVALID_REQUEST),
        ({"assignments": ((0, (0, 1)),), "replication_factor": 2}, Code.INVALID_REQUEST),
        ({"assignments": ((0, (0, 1)), (0, (1, 2)))}, Code.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": ((0, (0, 1)), (2, (1, 2)))}, Code.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": ((0, (0, 1)), (1, (1,)))}, Code.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": ((0, (0, 0)),)}, Code.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": ((0, (0, 9)),)}, Code.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": ((0, ()),)}, Code.INVALID_REPLICA_ASSIGNMENT),
        ({"configs": (("retention.ms", None),)}, Code.INVALID_CONFIG),
        ({"configs": (("retention.ms", "soon"),)}, Code.INVALID_CONFIG),
        ({"configs": (("retention.sm", "1"),)}, Code.INVALID_CONFIG),
        ({"configs": (("min.compaction.lag.ms", "2"), ("max.compaction.lag.ms", "1"))}, Code.INVALID_CONFIG),
    ],
)
def test_a_topic_that_cannot_be_is_refused(topic: dict[str, Any], code: Code) -> None:
    harness = ControllerHarness(3)
    assert codes(harness, NewTopic(name="t", **topic)) == [code]
    assert harness.records == []


@pytest.mark.parametrize("name", ["", ".", "..", "a" * 250, "a b", "ä", "a\n", "a:b"])
def test_a_name_that_cannot_be_is_refused(name: str) -> None:
    assert codes(ControllerHarness(1), NewTopic(name=name)) == [Code.INVALID_TOPIC_EXCEPTION]


def test_names_that_metrics_could_not_tell_apart_are_refused() -> None:
    harness = ControllerHarness(1)
    assert codes(harness, NewTopic(name="a.b"), NewTopic(name="a_b")) == [Code.NONE, Code.INVALID_TOPIC_EXCEPTION]
    assert codes(harness, NewTopic(name="a_b")) == [Code.INVALID_TOPIC_EXCEPTION]
    assert codes(harness, NewTopic(name="a-b"), NewTopic(name="a.c")) == [Code.NONE, Code.NONE]


def test_a_topic_needs_brokers_that_are_not_fenced() -> None:
    harness = ControllerHarness()
    assert codes(harness, NewTopic(name="t")) == [Code.INVALID_REPLICATION_FACTOR]
    harness.register(0)
    assert codes(harness, NewTopic(name="t")) == [Code.INVALID_REPLICATION_FACTOR]
    assert codes(harness, NewTopic(name="t", assignments=((0, (0,)),))) == [Code.INVALID_REPLICA_ASSIGNMENT]
    harness.heartbeat(0)
    assert codes(harness, NewTopic(name="t")) == [Code.NONE]


def test_a_replica_on_a_fenced_broker_is_assigned_but_not_in_sync() -> None:
    harness = ControllerHarness(2)
    harness.submit(BrokerRefused(broker_id=0, broker_epoch=harness.broker(0).epoch))
    harness.create("t", (0, 1))
    assert (harness.partition("t").leader, harness.partition("t").isr) == (1, (1,))


def test_validate_only_says_what_would_be_and_does_nothing() -> None:
    harness = ControllerHarness(1)
    before = image_hash(harness.image)
    assert codes(harness, NewTopic(name="t"), NewTopic(name="?"), validate_only=True) == [
        Code.NONE,
        Code.INVALID_TOPIC_EXCEPTION,
    ]
    assert image_hash(harness.image) == before


def test_settings_are_kept_with_the_topic_and_told_with_their_sources() -> None:
    harness = ControllerHarness(1, static={"log.retention.hours": "2"})
    topic = NewTopic(name="t", configs=(("cleanup.policy", "compact"),))
    (result,) = harness.submit(CreateTopics(topics=(topic,))).topics
    assert harness.image.config(2, "t") == {"cleanup.policy": "compact"}
    told = dict(result.configs)
    assert (told["cleanup.policy"].value, told["cleanup.policy"].source) == ("compact", ConfigSource.DYNAMIC_TOPIC)
    assert (told["retention.ms"].value, told["retention.ms"].source) == ("7200000", ConfigSource.STATIC_BROKER)
    assert (told["segment.bytes"].value, told["segment.bytes"].source) == ("1073741824", ConfigSource.DEFAULT)
    assert "internal.segment.bytes" not in told


def test_topics_go_by_name_and_by_id_and_their_ids_never_come_back() -> None:
    harness = ControllerHarness(1)
    first = harness.create("a", (0,))
    harness.create("b", (0,))
    results = harness.submit(DeleteTopics(topics=("a", harness.image.names["b"], "c", b"?" * 16))).topics
    assert [(r.name, r.problem.code) for r in results] == [
        ("a", Code.NONE),
        ("b", Code.NONE),
        ("c", Code.UNKNOWN_TOPIC_OR_PARTITION),
        (None, Code.UNKNOWN_TOPIC_ID),
    ]
    assert results[2].topic_id == NO_UUID
    assert harness.image.topics == {}
    assert harness.create("a", (0,)) != first


def test_deleting_the_same_topic_twice_in_one_ask_is_refused_twice() -> None:
    harness = ControllerHarness(1)
    id = harness.create("a", (0,))
    results = harness.submit(DeleteTopics(topics=("a", id))).topics
    assert [r.problem.code for r in results] == [Code.INVALID_REQUEST] * 2
    assert "a" in harness.image.names


def test_deletion_can_be_turned_off() -> None:
    harness = ControllerHarness(1, delete_topic_enable=False)
    harness.create("a", (0,))
    assert harness.submit(DeleteTopics(topics=("a",))).topics[0].problem.code == Code.TOPIC_DELETION_DISABLED


def grow(harness: ControllerHarness, *topics: MorePartitions, **fields: Any) -> list[Code]:
    return [problem.code for _, problem in harness.submit(CreatePartitions(topics=topics, **fields)).topics]


def test_partitions_are_added_behind_those_there_are() -> None:
    harness = ControllerHarness(3)
    harness.create("t", (0, 1))
    assert grow(harness, MorePartitions(name="t", count=3)) == [Code.NONE]
    assert sorted(harness.image.topics[harness.image.names["t"]].partitions) == [0, 1, 2]
    assert all(len(harness.partition("t", n).replicas) == 2 for n in (1, 2))
    assert grow(harness, MorePartitions(name="t", count=5, assignments=((2, 1), (1, 0)))) == [Code.NONE]
    assert [harness.partition("t", n).replicas for n in (3, 4)] == [(2, 1), (1, 0)]


@pytest.mark.parametrize(
    ("item", "code"),
    [
        ({"count": 2}, Code.INVALID_PARTITIONS),
        ({"count": 1}, Code.INVALID_PARTITIONS),
        ({"count": 3, "assignments": ((0, 1), (1, 0))}, Code.INVALID_REPLICA_ASSIGNMENT),
        ({"count": 3, "assignments": ((0,),)}, Code.INVALID_REPLICA_ASSIGNMENT),
        ({"count": 3, "assignments": ((0, 7),)}, Code.INVALID_REPLICA_ASSIGNMENT),
        ({"count": 20_000}, Code.POLICY_VIOLATION),
        ({"count": 3, "name": "unknown"}, Code.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_partitions_that_cannot_be_are_refused(item: dict[str, Any], code: Code) -> None:
    harness = ControllerHarness(2)
    harness.create("t", (0, 1), (1, 0))
    assert grow(harness, MorePartitions(**{"name": "t", **item})) == [code]
    assert harness.records == []


def test_growing_one_topic_twice_in_one_ask_is_refused_and_validation_does_nothing() -> None:
    harness = ControllerHarness(1)
    harness.create("t", (0,))
    harness.create("u", (0,))
    result = grow(
        harness,
        MorePartitions(name="t", count=2),
        MorePartitions(name="t", count=3),
        MorePartitions(name="u", count=2),
    )
    assert result == [Code.INVALID_REQUEST, Code.INVALID_REQUEST, Code.NONE]
    assert grow(harness, MorePartitions(name="t", count=2), validate_only=True) == [Code.NONE]
    assert harness.records == []


def dead(harness: ControllerHarness) -> None:
    """Broker 2 leaves."""
    harness.heartbeat(2, want_shut_down=True)


def moving(harness: ControllerHarness) -> None:
    """The topic's partition gets a replica on broker 2."""
    harness.submit(AlterPartitionReassignments(moves=(Move(topic="t", partition=0, replicas=(2, 3)),)))


@pytest.mark.parametrize(
    ("replicas", "cause", "why"),
    [
        ((1, 2), dead, "broker 2 is not alive, which has a replica of partition 0"),
        ((0, 1), moving, "partition 0 is being reassigned"),
    ],
)
@pytest.mark.parametrize("waits", [True, False], ids=["zookeeper", "kraft"])
def test_a_topic_is_not_deleted_while_a_replica_is_dead_or_a_partition_moves_in_zookeeper_mode(
    replicas: tuple[int, ...], cause: Callable[[ControllerHarness], None], why: str, waits: bool
) -> None:
    """TD-1: Kafka's ZooKeeper controller waits, KRaft's deletes at once."""
    harness = ControllerHarness(4, deletions_wait=waits)
    harness.create("t", replicas)
    cause(harness)
    (result,) = harness.submit(DeleteTopics(topics=("t",))).topics
    if waits:
        marked = f"Topic t is marked for deletion, which waits: {why}."
        assert result.problem == (Code.REQUEST_TIMED_OUT, marked)
        assert harness.records == []
    else:
        assert result.problem.code is Code.NONE
    assert ("t" in harness.image.names) is waits


def test_in_zookeeper_mode_replicas_go_first_once_the_topic_is_marked_and_nothing_of_it_moves() -> None:
    """TD-2: and the topic with its znodes last, when all of them are deleted."""
    harness = ControllerHarness(4, deletions_wait=True)
    id = harness.create("t", (1, 2))

    def requested(*deleted: bytes) -> tuple[Code, bool]:
        (result,) = harness.submit(DeleteTopics(topics=("t",), deleted=frozenset(deleted))).topics
        return result.problem.code, result.may_begin

    assert requested() == (Code.REQUEST_TIMED_OUT, False), "a move could begin yet"
    moving(harness)
    harness.controller.mark_for_deletion(frozenset({id}))
    assert requested() == requested(id) == (Code.REQUEST_TIMED_OUT, False), "one has begun"
    harness.submit(AlterPartitionReassignments(moves=(Move(topic="t", partition=0, replicas=None),)))
    dead(harness)
    assert requested() == (Code.REQUEST_TIMED_OUT, True), "who is dead keeps only its own replica"
    assert "t" in harness.image.names
    assert requested(id) == (Code.NONE, False)
    assert "t" not in harness.image.names


def test_a_topic_that_is_marked_for_deletion_is_not_grown_moved_elected_for_or_made_again() -> None:
    """As in Kafka's ZooKeeper mode: it goes as soon as it may, and nothing is begun with it before."""
    harness = ControllerHarness(4, deletions_wait=True)
    id = harness.create("t", (1, 2))
    harness.controller.mark_for_deletion(frozenset({id}))
    assert grow(harness, MorePartitions(name="t", count=2)) == [Code.INVALID_TOPIC_EXCEPTION]
    move = AlterPartitionReassignments(moves=(Move(topic="t", partition=0, replicas=(2, 3)),))
    assert [problem.code for *_, problem in harness.submit(move).partitions] == [Code.UNKNOWN_TOPIC_OR_PARTITION]
    elect = ElectLeaders(election_type=ElectionType.PREFERRED, partitions=(("t", 0),))
    assert [problem.code for *_, problem in harness.submit(elect).partitions] == [Code.INVALID_TOPIC_EXCEPTION]
    (made,) = harness.submit(CreateTopics(topics=(NewTopic(name="t", partitions=1, replication_factor=1),))).topics
    assert made.problem == (Code.TOPIC_ALREADY_EXISTS, "Topic 't' is marked for deletion.")
    harness.controller.mark_for_deletion(frozenset())
    assert grow(harness, MorePartitions(name="t", count=2)) == [Code.NONE]
