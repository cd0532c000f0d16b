"""Decisions in znodes: an image written, read again, and the same; versions, orders, notes, what tools left."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.image import Image, Partition
from moldau.image.partition import Key
from moldau.ports.zookeeper import BadVersion, Create, Delete, Set
from moldau.wire.records import metadata as records
from moldau.zookeeper import laws, paths
from moldau.zookeeper.known_znodes import KnownZnodes
from moldau.zookeeper.notes import config_json
from moldau.zookeeper.reading import read
from moldau.zookeeper.writing import operations
from moldau.zookeeper.znodes import ReplicaAssignment, TopicZnode, parse_state, parse_topic, topic_json
from tests.packages.zookeeper.tree import Tree

EPOCH = 7
NAMES = ("a", "b", "with.dots_and-more")


def topic_id(n: int) -> bytes:
    return n.to_bytes(16)


class Pen:
    """An image, the tree that it is written to, and the controller's book-keeping."""

    def __init__(self) -> None:
        self.tree = Tree()
        self.image = Image()
        self.known_znodes = read(self.tree.survey(), lambda: topic_id(99)).known_znodes

    def write(self, *batch: Any) -> list[Any]:
        ops = operations(batch, self.image, self.known_znodes, EPOCH)
        self.tree.apply(ops)
        self.known_znodes.applied(ops)
        for record in batch:
            self.image.apply(record)
        return ops

    def again(self) -> list[Any]:
        return read(self.tree.survey(), lambda: topic_id(99)).records

    def check(self) -> None:
        """The laws, and that the controller's book-keeping is what another would make anew."""
        survey = self.tree.survey()
        for law in laws.LAWS:
            law(self.image, survey)
        known_znodes = read(survey, lambda: topic_id(99)).known_znodes
        assert known_znodes.settings == self.known_znodes.settings
        assert known_znodes.new_partitions == self.known_znodes.new_partitions
        for path in self.tree.nodes:
            if path.startswith((paths.TOPICS + "/", paths.CONFIG + "/")) and "/changes/" not in path:
                assert path in self.known_znodes, path


def new_topic(name: str, id: bytes, *replicas: list[int]) -> list[Any]:
    made: list[Any] = [records.TopicRecord(name=name, topic_id=id)]
    for number, each in enumerate(replicas):
        made.append(
            records.PartitionRecord(
                topic_id=id,
                partition_id=number,
                replicas=each,
                isr=each,
                leader=each[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=[bytes(15) + bytes([9])] * len(each),
            )
        )
    return made


brokers = st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True)


@st.composite
def change_of(draw: st.DrawFn, partition: Partition) -> records.PartitionChangeRecord:
    """A change after which law C2 holds: what breaks it is no controller's, and is read as damage."""
    record = records.PartitionChangeRecord(topic_id=partition.topic_id, partition_id=partition.id)
    replicas = draw(st.none() | brokers)
    record.replicas = replicas
    now = replicas or list(partition.replicas)
    record.isr = draw(st.none() | st.lists(st.sampled_from(now), min_size=1, unique=True))
    if record.isr is None and not set(partition.isr) <= set(now):
        record.isr = [r for r in partition.isr if r in now] or now[:1]
    isr = list(partition.isr) if record.isr is None else record.isr
    if partition.leader not in (-1, *isr) or draw(st.booleans()):
        record.leader = draw(st.sampled_from([-1, *isr]))
    if replicas is not None or draw(st.booleans()):
        record.adding_replicas = draw(st.lists(st.sampled_from(now), unique=True))
        record.removing_replicas = draw(st.lists(st.sampled_from(now), unique=True))
    if draw(st.booleans()) or (partition.recovery and len(isr) > 1):
        record.leader_recovery_state = draw(st.sampled_from([0, 1])) if len(isr) == 1 else 0
    if draw(st.booleans()):
        record.directories = [bytes(15) + bytes([draw(st.integers(3, 9))])] * len(now)
    return record


@st.composite
def decision(draw: st.DrawFn, image: Image, fresh: int) -> list[Any]:
    """Records that a controller might make of an image."""
    kinds = ["create", "config", "feature", "ids", "quota"]
    if image.topics:
        kinds += ["change", "change", "change", "delete", "grow", "recreate"]
    kind = draw(st.sampled_from(kinds))
    keys: list[Key] = [(t.id, n) for t in image.topics.values() for n in t.partitions]
    topic = image.topics[draw(st.sampled_from(sorted(image.topics)))] if image.topics else None
    match kind:
        case "create" if name := draw(st.sampled_from([n for n in NAMES if n not in image.names] or [""])):
            made = new_topic(name, topic_id(fresh), *draw(st.lists(brokers, min_size=1, max_size=14)))
            if draw(st.booleans()):
                made[1:1] = [records.ConfigRecord(resource_type=2, resource_name=name, name="k", value="v")]
            return made
        case "recreate" if topic:
            made = new_topic(topic.name, topic_id(fresh), *draw(st.lists(brokers, min_size=1, max_size=3)))
            return [records.RemoveTopicRecord(topic_id=topic.id), *made]
        case "delete" if topic:
            return [records.RemoveTopicRecord(topic_id=topic.id)]
        case "grow" if topic:
            more = new_topic(topic.name, topic.id, draw(brokers))[1]
            more.partition_id = len(topic.partitions)
            return [more]
        case "change":
            work = image.copy()
            batch = []
            for key in draw(st.lists(st.sampled_from(keys), min_size=1, max_size=4)):
                record = draw(change_of(work.at(key)))
                work.apply(record)
                batch.append(record)
            return batch
        case "config":
            where = [(4, ""), (4, "1"), (32, "group/*"), *((2, name) for name in image.names)]
            resource, name = draw(st.sampled_from(where))
            value = draw(st.none() | st.text(max_size=3))
            return [
                records.ConfigRecord(resource_type=resource, resource_name=name, name=key, value=value)
                for key in draw(st.lists(st.sampled_from("klm"), min_size=1))
            ]
        case "feature":
            return [records.FeatureLevelRecord(name=draw(st.sampled_from("fg")), feature_level=draw(st.integers(0, 3)))]
        case "quota":
            who = draw(st.sampled_from([["user"], ["user", "client-id"], ["client-id"], ["ip"]]))
            entity = [
                records.ClientQuotaRecord.EntityData(entity_type=kind, entity_name=draw(st.sampled_from([None, "ä b"])))
                for kind in who
            ]
            return [records.ClientQuotaRecord(entity=entity, key="request_percentage", value=2.5, remove=False)]
    return [records.ProducerIdsRecord(broker_id=1, broker_epoch=5, next_producer_id=image.next_producer_id + 1000)]


@given(st.data())
def test_what_a_controller_writes_another_reads_as_the_same_image(data: st.DataObject) -> None:
    pen = Pen()
    for n in range(data.draw(st.integers(1, 8))):
        pen.write(*data.draw(decision(pen.image, n + 1)))
        pen.check()
    for id in list(pen.image.topics):
        pen.write(records.RemoveTopicRecord(topic_id=id))
    assert not pen.tree.below(paths.TOPICS)
    assert not pen.tree.below(paths.CONFIG + "/topics")


def test_a_change_of_replicas_alone_sets_the_state_once_and_the_topic_too() -> None:
    pen = Pen()
    pen.write(*new_topic("t", topic_id(1), [1, 2]))
    ops = pen.write(
        records.PartitionChangeRecord(topic_id=topic_id(1), partition_id=0, replicas=[1, 2, 3], adding_replicas=[3])
    )
    assert [(type(op), op.path) for op in ops] == [(Set, paths.topic("t")), (Set, paths.state("t", 0))]
    assert parse_topic("t", ops[0].data).partitions == {0: ReplicaAssignment((1, 2, 3), adding=(3,))}
    assert ops[1].version == 0
    assert json.loads(ops[1].data)["controller_epoch"] == EPOCH
    assert pen.image.at((topic_id(1), 0)).partition_epoch == 1


def test_directories_alone_move_the_version_with_the_partition_epoch() -> None:
    pen = Pen()
    pen.write(*new_topic("t", topic_id(1), [1]))
    ops = pen.write(
        records.PartitionChangeRecord(topic_id=topic_id(1), partition_id=0, directories=[bytes(15) + bytes([7])])
    )
    assert [op.path for op in ops] == [paths.state("t", 0)]


def test_a_state_that_somebody_else_wrote_is_not_overwritten() -> None:
    pen = Pen()
    pen.write(*new_topic("t", topic_id(1), [1, 2]))
    pen.tree.apply([Set(path=paths.state("t", 0), data=b"{}")])
    with pytest.raises(BadVersion):
        pen.write(records.PartitionChangeRecord(topic_id=topic_id(1), partition_id=0, isr=[1]))


def test_two_changes_of_one_partition_in_one_decision_follow_each_other() -> None:
    pen = Pen()
    pen.write(*new_topic("t", topic_id(1), [1, 2]))
    change = records.PartitionChangeRecord(topic_id=topic_id(1), partition_id=0, isr=[1])
    ops = pen.write(change, records.PartitionChangeRecord(topic_id=topic_id(1), partition_id=0, isr=[1, 2]))
    assert [op.version for op in ops] == [0, 1]


def test_changed_settings_are_told_of_but_those_of_a_new_topic_are_not() -> None:
    pen = Pen()
    made = new_topic("t", topic_id(1), [1])
    made.insert(1, records.ConfigRecord(resource_type=2, resource_name="t", name="k", value="v"))
    assert not any(isinstance(op, Create) and op.sequential for op in pen.write(*made))
    ops = pen.write(records.ConfigRecord(resource_type=4, resource_name="", name="k", value="v"))
    assert ops[-1] == Create(
        path="/config/changes/config_change_", data=b'{"version":2,"entity_path":"brokers/<default>"}', sequential=True
    )
    assert ops[0] == Create(path="/config/brokers/<default>", data=b'{"version":1,"config":{"k":"v"}}')


def test_a_key_that_means_nothing_here_stays_in_its_znode() -> None:
    pen = Pen()
    entity = "users/alice"
    pen.tree.apply([Create(path=paths.config(entity), data=config_json({"who.knows": "1"}))])
    found = read(pen.tree.survey(), lambda: topic_id(99))
    assert found.records == []
    quota = records.ClientQuotaRecord(
        entity=[records.ClientQuotaRecord.EntityData(entity_type="user", entity_name="alice")],
        key="consumer_byte_rate",
        value=1024.0,
        remove=False,
    )
    (op, _) = operations([quota], Image(), found.known_znodes, EPOCH)
    assert isinstance(op, Set)
    assert json.loads(op.data)["config"] == {"who.knows": "1", "consumer_byte_rate": "1024"}


def test_a_topic_that_a_tool_made_is_born_where_it_stands() -> None:
    pen = Pen()
    written = TopicZnode("t", None, {0: ReplicaAssignment((1, 2)), 1: ReplicaAssignment((3,))})
    config = config_json({"retention.ms": "5"})
    pen.tree.apply([Create(path=paths.config("topics/t"), data=config)])
    pen.tree.apply([Create(path=paths.topic("t"), data=topic_json(written))])
    pen.known_znodes.saw(paths.config("topics/t"), config)
    pen.known_znodes.saw(paths.topic("t"), topic_json(written))
    assert pen.known_znodes.new_partitions["t"] == written.partitions
    topic, first, second = new_topic("t", topic_id(1), [1, 2], [3])
    first.isr, first.leader = [2], 2
    ops = pen.write(
        topic, records.ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="5"), first
    )
    assert not any(isinstance(op, Create) and op.path in (paths.topic("t"), paths.config("topics/t")) for op in ops)
    # The partition without a live replica is still asked for.
    assert parse_topic("t", pen.tree.nodes[paths.topic("t")][0]).partitions == written.partitions
    again = read(pen.tree.survey(), lambda: topic_id(99)).known_znodes
    assert again.new_partitions == pen.known_znodes.new_partitions == {"t": {1: ReplicaAssignment((3,))}}
    pen.write(second)
    assert pen.known_znodes.new_partitions == {}
    ops = pen.write(records.RemoveTopicRecord(topic_id=topic_id(1)))
    assert all(isinstance(op, Delete) for op in ops)
    assert not pen.tree.below(paths.TOPICS)


def test_a_topic_without_an_id_gets_one_that_is_written_before_anything_else() -> None:
    tree = Tree()
    old = b'{"version":1,"partitions":{"0":[1,2]}}'
    tree.apply([Create(path=paths.topic("old"), data=old)])
    found = read(tree.survey(), lambda: topic_id(5))
    assert found.records == [records.TopicRecord(name="old", topic_id=topic_id(5))]
    tree.apply(found.repairs)
    assert parse_topic("old", tree.nodes[paths.topic("old")][0]).id == topic_id(5)
    assert read(tree.survey(), lambda: topic_id(6)).repairs == []


def test_a_replica_that_left_while_a_controller_died_has_left_the_isr() -> None:
    pen = Pen()
    pen.write(*new_topic("t", topic_id(1), [1, 2]))
    pen.tree.apply(
        [Set(path=paths.topic("t"), data=topic_json(TopicZnode("t", topic_id(1), {0: ReplicaAssignment((1,))})))]
    )
    assert pen.again()[1].isr == [1]


def test_settings_of_a_topic_that_is_gone_are_nobodys() -> None:
    pen = Pen()
    pen.tree.apply([Create(path=paths.config("topics/ghost"), data=config_json({"k": "v"}))])
    found = read(pen.tree.survey(), lambda: topic_id(99))
    assert found.records == []
    pen.known_znodes = found.known_znodes
    pen.write(*new_topic("ghost", topic_id(1), [1]))
    assert pen.image.config(2, "ghost") == {}
    pen.check()


def test_a_znode_that_is_gone_is_not_known_any_more() -> None:
    known_znodes = KnownZnodes()
    known_znodes.saw(paths.topic("t"), b'{"version":1,"partitions":{"0":[1]}}')
    known_znodes.gone(paths.topic("t"))
    assert paths.topic("t") not in known_znodes
    assert known_znodes.new_partitions == {}


def test_a_law_finds_a_state_that_was_written_behind_the_controller_s_back() -> None:
    pen = Pen()
    pen.write(*new_topic("t", topic_id(1), [1, 2]))
    state = pen.tree.nodes[paths.state("t", 0)][0]
    pen.tree.apply([Set(path=paths.state("t", 0), data=state)])
    with pytest.raises(AssertionError, match="t-0: version 1"):
        laws.z4_versions_are_partition_epochs(pen.image, pen.tree.survey())
    with pytest.raises(AssertionError, match="the znodes say"):
        laws.z7_znodes_rebuild_the_image(pen.image, pen.tree.survey())


@pytest.mark.parametrize(
    "ops",
    [
        [Create(path=paths.topic("more"), data=b'{"version":3,"partitions":{},"topic_id":"AAAAAAAAAAAAAAAAAAAABw"}')],
        [Create(path=paths.config("topics/ghost"), data=b"")],
        [Create(path=paths.topic("old"), data=b'{"version":1,"partitions":{}}')],
        [Set(path=paths.config("topics/t"), data=b'{"version":1,"config":{"k":"v"}}')],
    ],
)
def test_a_law_finds_what_the_controller_does_not_know_of(ops: list[Any]) -> None:
    pen = Pen()
    pen.write(*new_topic("t", topic_id(1), [1, 2]))
    pen.tree.apply(ops)
    with pytest.raises(AssertionError):
        laws.z7_znodes_rebuild_the_image(pen.image, pen.tree.survey())


def test_a_state_says_under_which_epochs_its_isr_was_known_when_it_was_decided() -> None:
    pen = Pen()
    for id, epoch in ((1, 11), (2, 12)):
        pen.write(records.RegisterBrokerRecord(broker_id=id, broker_epoch=epoch, incarnation_id=topic_id(id)))
    pen.write(*new_topic("a", topic_id(1), [1, 2, 3]))
    state = parse_state("a", 0, pen.tree.nodes[paths.state("a", 0)][0])
    assert (state.isr, state.isr_epochs) == ((1, 2, 3), (11, 12, 0))
    shrunk = records.PartitionChangeRecord(topic_id=topic_id(1), partition_id=0, isr=[1, 2], leader=1)
    pen.write(shrunk, records.RegisterBrokerRecord(broker_id=2, broker_epoch=22, incarnation_id=topic_id(9)))
    state = parse_state("a", 0, pen.tree.nodes[paths.state("a", 0)][0])
    assert (state.isr, state.isr_epochs) == ((1, 2), (11, 12)), "who was in sync is who was known before"
    pen.check()


@pytest.mark.parametrize("inner_first", [True, False])
def test_a_user_and_a_client_of_his_get_their_first_settings_in_one_decision(inner_first: bool) -> None:
    """A user's znode is the folder that his clients' lie in: it is made once, whoever is named first."""
    pen = Pen()
    quota = records.ClientQuotaRecord
    user = quota.EntityData(entity_type="user", entity_name="alice")
    client = quota.EntityData(entity_type="client-id", entity_name=None)
    both = [
        quota(entity=[user], key="request_percentage", value=2.5),
        quota(entity=[user, client], key="request_percentage", value=5.0),
    ]
    pen.write(*both[::-1] if inner_first else both)
    pen.check()
