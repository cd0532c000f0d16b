"""Folding records into an image: what each record changes, what is refused, and that look-ups keep up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from moldau.image import NO_LEADER, Delta, Image, Partition, image_from, image_hash, snapshot_records
from moldau.image.index import PartitionIndex
from moldau.image.partition import LOST, MIGRATING, UNASSIGNED, to_record
from moldau.image.prepared import MANY
from moldau.image.registration import Broker
from moldau.wire.records import metadata as records
from moldau.wire.records.framing import pack_metadata, unpack_metadata

TOPIC = bytes(range(16))
DIR = b"d" * 16


def broker(id: int, *, epoch: int = 1, fenced: bool = False, dirs: tuple[bytes, ...] = (DIR,)) -> Any:
    return records.RegisterBrokerRecord(
        broker_id=id,
        broker_epoch=epoch,
        incarnation_id=bytes([id]) * 16,
        end_points=[
            records.RegisterBrokerRecord.BrokerEndpoint(name="PLAINTEXT", host="h", port=9092, security_protocol=0)
        ],
        features=[],
        rack=f"r{id % 2}",
        fenced=fenced,
        log_dirs=list(dirs),
        is_migrating_zk_broker=False,
    )


def partition(number: int, replicas: list[int], *, leader: int | None = None, isr: list[int] | None = None) -> Any:
    return records.PartitionRecord(
        topic_id=TOPIC,
        partition_id=number,
        replicas=replicas,
        isr=replicas if isr is None else isr,
        removing_replicas=[],
        adding_replicas=[],
        leader=replicas[0] if leader is None else leader,
        leader_recovery_state=0,
        leader_epoch=0,
        partition_epoch=0,
        directories=[DIR] * len(replicas),
    )


def change(number: int, **fields: Any) -> Any:
    return records.PartitionChangeRecord(topic_id=TOPIC, partition_id=number, **fields)


def cluster() -> Image:
    image = Image()
    image.apply_all([broker(0), broker(1), broker(2)], 2)
    image.apply_all(
        [records.TopicRecord(name="test", topic_id=TOPIC), partition(0, [0, 1, 2]), partition(1, [1, 2, 0])], 5
    )
    return image


def rebuilt_index(image: Image) -> PartitionIndex:
    index = PartitionIndex()
    for topic in image.topics.values():
        for each in topic.partitions.values():
            index.update(None, each)
    return index


def assert_index_is_true(image: Image) -> None:
    again = rebuilt_index(image)
    for name in PartitionIndex.LOOK_UPS:
        assert getattr(image.index, name) == getattr(again, name), name


def test_a_change_of_leader_bumps_both_epochs_and_a_change_of_isr_only_the_partition_epoch() -> None:
    image = cluster()
    image.apply(change(0, isr=[0, 2]))
    assert (image.at((TOPIC, 0)).leader_epoch, image.at((TOPIC, 0)).partition_epoch) == (0, 1)
    image.apply(change(0, leader=2))
    after = image.at((TOPIC, 0))
    assert (after.leader, after.isr, after.leader_epoch, after.partition_epoch) == (2, (0, 2), 1, 2)
    image.apply(change(0, leader=2))
    assert image.at((TOPIC, 0)).leader_epoch == 2, "the same leader named again starts a new epoch"


def test_look_ups_follow_every_change() -> None:
    image = cluster()
    assert {p.id for p in image.partitions_on_broker(2)} == {0, 1}
    assert {p.id for p in image.partitions_led_by(1)} == {1}
    image.apply(change(1, leader=NO_LEADER))
    assert {p.id for p in image.leaderless()} == {1}
    assert set(image.index.astray) == {(TOPIC, 1)}
    image.apply(change(0, replicas=[3, 1, 2], adding_replicas=[3], removing_replicas=[]))
    assert set(image.index.moving) == {(TOPIC, 0)}
    assert image.at((TOPIC, 0)).directories == (UNASSIGNED, DIR, DIR), "a newcomer has no directory yet"
    assert_index_is_true(image)
    image.apply(records.RemoveTopicRecord(topic_id=TOPIC))
    assert image.topic("test") is None
    assert image.index.assigned == {}
    assert_index_is_true(image)


@pytest.mark.parametrize("changed", [0, 1])
def test_of_two_copies_neither_sees_what_becomes_of_the_other(changed: int) -> None:
    image = cluster()
    image.apply(records.ConfigRecord(resource_type=2, resource_name="test", name="retention.ms", value="1"))
    before = image_hash(image)
    pair = image, image.copy()
    one, other = pair[changed], pair[1 - changed]
    one.apply(change(0, leader=2, isr=[0, 2]))
    one.apply(partition(2, [2, 3]))
    one.apply(records.ConfigRecord(resource_type=2, resource_name="test", name="retention.ms", value="2"))
    one.apply(records.ConfigRecord(resource_type=2, resource_name="test", name="segment.ms", value="3"))
    assert image_hash(other) == before != image_hash(one)
    assert_index_is_true(one)
    assert_index_is_true(other)
    one.apply(records.RemoveTopicRecord(topic_id=TOPIC))
    assert image_hash(other) == before
    assert_index_is_true(one)
    assert_index_is_true(other)


def test_a_copy_shares_every_topic_that_neither_changed() -> None:
    image = cluster()
    image.apply(records.TopicRecord(name="other", topic_id=b"o" * 16))
    image.apply(records.PartitionRecord(partition_id=0, topic_id=b"o" * 16, replicas=[1, 2], isr=[1, 2], leader=1))
    third = image.copy()
    twin = image.copy()
    assert all(twin.topics[id] is topic for id, topic in image.topics.items())
    assert all(twin.index.assigned[id] is keys for id, keys in image.index.assigned.items())
    twin.apply(change(0, leader=2))
    assert twin.topics[TOPIC] is not image.topics[TOPIC]
    assert twin.topics[b"o" * 16] is image.topics[b"o" * 16] is third.topics[b"o" * 16]
    assert twin.index.assigned[2] is image.index.assigned[2]
    own = twin.topics[TOPIC]
    twin.apply(change(0, leader=0))
    assert twin.topics[TOPIC] is own, "copied once, not with every change"


def test_a_deleted_topic_takes_its_settings_with_it() -> None:
    image = cluster()
    image.apply(records.ConfigRecord(resource_type=2, resource_name="test", name="retention.ms", value="1"))
    image.apply(records.ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value="2"))
    image.apply(records.RemoveTopicRecord(topic_id=TOPIC))
    assert image.config(2, "test") == {}
    assert image.config(4, "") == {"log.retention.ms": "2"}


def test_fencing_and_shutdown_change_a_registration_only_under_its_epoch() -> None:
    image = cluster()
    change_ = records.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, fenced=1)
    image.apply(change_)
    assert image.brokers[1].fenced
    assert not image.is_active(1)
    image.apply(
        records.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, fenced=-1, in_controlled_shutdown=1)
    )
    assert not image.brokers[1].fenced
    assert image.brokers[1].in_controlled_shutdown
    with pytest.raises(AssertionError, match="epoch 1"):
        image.apply(records.FenceBrokerRecord(id=1, epoch=7))


@pytest.mark.parametrize(
    "record",
    [
        records.PartitionChangeRecord(topic_id=bytes(16), partition_id=0, leader=1),
        records.PartitionChangeRecord(topic_id=TOPIC, partition_id=9, leader=1),
        records.RemoveTopicRecord(topic_id=bytes(16)),
        records.TopicRecord(name="test", topic_id=bytes(16)),
        records.TopicRecord(name="other", topic_id=TOPIC),
        records.UnregisterBrokerRecord(broker_id=9, broker_epoch=0),
        records.RemoveAccessControlEntryRecord(id=bytes(16)),
        records.EndTransactionRecord(),
        object(),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_record_that_makes_no_sense_stops_the_node(record: Any) -> None:
    image = cluster()
    with pytest.raises(AssertionError):
        image.apply(record)


def test_offsets_must_grow() -> None:
    image = cluster()
    with pytest.raises(AssertionError, match="record 5 after 5"):
        image.apply(records.NoOpRecord(), 5)


def test_records_of_a_transaction_count_at_its_end_and_never_when_aborted() -> None:
    image = cluster()
    image.apply(records.BeginTransactionRecord(name="t"))
    image.apply(records.FeatureLevelRecord(name="metadata.version", feature_level=25))
    assert image.features == {}
    image.apply(records.AbortTransactionRecord(reason="r"))
    assert image.features == {}
    image.apply_all(
        [
            records.BeginTransactionRecord(name="t"),
            records.FeatureLevelRecord(name="metadata.version", feature_level=25),
            records.EndTransactionRecord(),
        ]
    )
    assert image.features == {"metadata.version": 25}


def test_a_copy_goes_its_own_way() -> None:
    image = cluster()
    before = image_hash(image)
    twin = image.copy()
    assert image_hash(twin) == before
    twin.apply(change(0, leader=1, isr=[1, 2]))
    twin.apply(records.ConfigRecord(resource_type=2, resource_name="test", name="retention.ms", value="1"))
    twin.apply(records.RemoveTopicRecord(topic_id=TOPIC))
    twin.apply(records.FenceBrokerRecord(id=1, epoch=1))
    assert image_hash(image) == before
    assert_index_is_true(image)
    assert_index_is_true(twin)


def opaque_records() -> list[Any]:
    entity = records.ClientQuotaRecord.EntityData(entity_type="user", entity_name=None)
    return [
        records.AccessControlEntryRecord(
            id=b"a" * 16, resource_type=2, resource_name="t", pattern_type=3, principal="User:a", host="*", operation=3,
            permission_type=3,
        ),
        records.UserScramCredentialRecord(
            name="u", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
        ),
        records.ClientQuotaRecord(entity=[entity], key="producer_byte_rate", value=1.5, remove=False),
        records.DelegationTokenRecord(
            owner="o", requester="r", renewers=[], issue_timestamp=1, max_timestamp=2, expiration_timestamp=3,
            token_id="t",
        ),
    ]  # fmt: skip


def test_records_that_are_only_kept_are_kept_whole_and_can_be_removed() -> None:
    image = cluster()
    kept = opaque_records()
    image.apply_all(kept)
    assert sorted(map(repr, image.opaque.values())) == sorted(map(repr, kept))
    again = image_from(list(snapshot_records(image)))
    assert again.opaque == image.opaque
    image.apply(records.RemoveAccessControlEntryRecord(id=b"a" * 16))
    image.apply(records.RemoveUserScramCredentialRecord(name="u", mechanism=1))
    image.apply(records.RemoveDelegationTokenRecord(token_id="t"))
    kept[2].remove = True
    image.apply(kept[2])
    assert image.opaque == {}


def test_a_snapshot_through_bytes_gives_the_same_image() -> None:
    image = cluster()
    image.apply_all(
        [
            records.FeatureLevelRecord(name="metadata.version", feature_level=25),
            records.FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1),
            change(
                0, isr=[], leader=NO_LEADER, eligible_leader_replicas=[1], last_known_elr=[0], leader_recovery_state=1
            ),
            records.ConfigRecord(resource_type=2, resource_name="test", name="retention.ms", value="1"),
            records.ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=3000),
            records.ZkMigrationStateRecord(zk_migration_state=3),
            records.RegisterControllerRecord(
                controller_id=3, incarnation_id=b"c" * 16, zk_migration_ready=False, end_points=[], features=[]
            ),
            *opaque_records(),
        ]
    )
    through_bytes = [unpack_metadata(pack_metadata(record)) for record in snapshot_records(image)]
    assert through_bytes[0].name == "metadata.version", "readers look for it first (KIP-778)"  # type: ignore[attr-defined]
    again = image_from(through_bytes, offset=99)
    assert image_hash(again) == image_hash(image)
    assert again.at((TOPIC, 0)) == image.at((TOPIC, 0))
    assert again.brokers == image.brokers
    assert again.next_producer_id == 3000
    assert again.registered_at == {0: 99, 1: 99, 2: 99}
    assert_index_is_true(again)


def test_a_hash_tells_any_difference() -> None:
    image = cluster()
    hashes = {image_hash(image)}
    for record in (
        change(0, isr=[0]),
        records.FeatureLevelRecord(name="f", feature_level=1),
        records.ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=1),
        records.FenceBrokerRecord(id=1, epoch=1),
        records.ConfigRecord(resource_type=4, resource_name="1", name="k", value="v"),
    ):
        image.apply(record)
        hashes.add(image_hash(image))
    assert len(hashes) == 6


def many(numbers: Iterable[int], **fields: Any) -> list[records.PartitionRecord]:
    wheel = [(0, 1, 2), (1, 2, 0), (2, 0, 1)]
    return [
        to_record(Partition(TOPIC, n, wheel[n % 3], wheel[n % 3], leader=n % 3)._replace(**fields)) for n in numbers
    ]


@pytest.mark.parametrize("fields", [{}, {"leader": 2}, {"isr": (1,), "leader": 1, "elr": (2,)}, {"adding": (2,)}])
def test_many_new_partitions_folded_together_are_those_that_are_folded_one_by_one(fields: dict[str, Any]) -> None:
    topic = records.TopicRecord(name="many", topic_id=TOPIC)
    together, alone = Image(), Image()
    deltas = Delta(), Delta()
    batches: list[list[Any]] = [[topic, *many(range(MANY + 20))], many(range(MANY + 20, 4 * MANY), **fields)]
    offset = -1
    for batch in batches:
        for n, record in enumerate(batch, offset + 1):
            alone.apply(record, n, deltas[1])
        offset += len(batch)
        together.apply_all(batch, offset, deltas[0])
    assert image_hash(together) == image_hash(alone)
    assert (together.offset, deltas[0].partitions) == (alone.offset, deltas[1].partitions)
    for name in PartitionIndex.LOOK_UPS:
        assert getattr(together.index, name) == getattr(alone.index, name), name
    assert_index_is_true(together)


def test_many_new_partitions_of_a_shared_topic_are_only_on_the_image_that_has_heard_of_them() -> None:
    image = Image()
    image.apply_all([records.TopicRecord(name="many", topic_id=TOPIC), *many(range(MANY))])
    twin = image.copy()
    twin.apply_all(many(range(MANY, 3 * MANY)))
    assert (image.partition_count(), twin.partition_count()) == (MANY, 3 * MANY)
    for one in (image, twin):
        assert_index_is_true(one)


def test_many_records_that_replace_partitions_are_folded_one_by_one() -> None:
    image = Image()
    image.apply_all(
        [records.TopicRecord(name="many", topic_id=TOPIC), *many(range(MANY)), *many(range(MANY), leader=1)]
    )
    image.apply_all([*many([MANY] * MANY), *many(range(1, MANY), leader=2)])
    assert len(image.index.led[2]) == MANY - 1 + (MANY % 3 == 2)
    assert_index_is_true(image)


def test_many_new_partitions_within_a_transaction_wait_for_its_end() -> None:
    image = Image()
    image.apply_all([records.TopicRecord(name="many", topic_id=TOPIC), records.BeginTransactionRecord(name=None)])
    image.apply_all(many(range(MANY)))
    assert not image.partition_count()
    image.apply(records.EndTransactionRecord())
    assert image.partition_count() == MANY


def test_a_delta_tells_before_and_after() -> None:
    image = cluster()
    delta = Delta()
    assert not delta
    other = b"o" * 16
    image.apply_all(
        [
            change(0, isr=[0, 1]),
            change(0, leader=1, isr=[1]),
            records.FenceBrokerRecord(id=0, epoch=1),
            records.TopicRecord(name="other", topic_id=other),
            records.ConfigRecord(resource_type=2, resource_name="test", name="retention.ms", value="1"),
        ],
        delta=delta,
    )
    assert delta
    (only,) = delta.partition_changes(image)
    assert only.before is not None
    assert only.after is not None
    assert (only.topic, only.before.isr, only.after.isr) == ("test", (0, 1, 2), (1,))
    assert delta.topics == {other: ("other", False)}
    assert delta.configs == {(2, "test"): {}}
    before = delta.brokers[0]
    assert before is not None
    assert not before.fenced


def test_a_topic_deleted_and_made_again_in_one_batch_is_both() -> None:
    image = cluster()
    delta = Delta()
    fresh = b"n" * 16
    image.apply_all(
        [records.RemoveTopicRecord(topic_id=TOPIC), records.TopicRecord(name="test", topic_id=fresh)], delta=delta
    )
    assert delta.deleted_topics(image) == {TOPIC: "test"}
    assert delta.topics == {TOPIC: ("test", True), fresh: ("test", False)}
    assert [(c.topic, c.after) for c in delta.partition_changes(image)] == [("test", None), ("test", None)]


def test_a_topic_made_and_deleted_within_a_batch_leaves_no_trace() -> None:
    image = Image()
    delta = Delta()
    image.apply_all(
        [
            records.TopicRecord(name="test", topic_id=TOPIC),
            partition(0, [1]),
            records.RemoveTopicRecord(topic_id=TOPIC),
        ],
        delta=delta,
    )
    assert delta.deleted_topics(image) == {}
    assert not image.topics
    assert delta.partition_changes(image) == []


@pytest.mark.parametrize(
    ("directory", "online"), [(DIR, True), (b"x" * 16, False), (MIGRATING, True), (UNASSIGNED, True), (LOST, False)]
)
def test_a_directory_is_online_when_registered_or_not_yet_chosen(directory: bytes, online: bool) -> None:
    assert Broker(id=1, epoch=1, incarnation_id=DIR, log_dirs=(DIR,)).has_online_dir(directory) is online


def test_one_hundred_thousand_partitions_stay_small() -> None:
    import sys

    values = {Partition.__sizeof__(Partition(TOPIC, n, (1, 2, 3), (1, 2, 3))) for n in range(10)}
    assert max(values) <= 160
    image = Image()
    image.apply(records.TopicRecord(name="test", topic_id=TOPIC))
    for n in range(50):
        image.apply(partition(n, [1, 2, 3]))
    held = {id(p.replicas) for p in image.topics[TOPIC].partitions.values()}
    assert len(held) == 1, "equal replica lists are one tuple"
    assert sys.getsizeof(image.at((TOPIC, 0)).replicas) < 100


@pytest.mark.parametrize("name", ["test", ""])
def test_a_cleared_elr_is_a_change_of_each_partition_that_had_one(name: str) -> None:
    """Kafka's controller writes it whenever a topic's min.insync.replicas is set: it ended every node that read it."""
    image = cluster()
    image.apply(change(0, isr=[], leader=-1, eligible_leader_replicas=[0], last_known_elr=[1]))
    delta, before = Delta(), dict(image.topics[TOPIC].partitions)
    image.apply(unpack_metadata(pack_metadata(records.ClearElrRecord(topic_name=name))), -1, delta)
    first, second = (image.topics[TOPIC].partitions[number] for number in (0, 1))
    assert (first.elr, first.last_known_elr, first.partition_epoch) == ((), (), 2)
    assert second == before[1], "nothing of it was there to clear"
    assert set(delta.partitions) == {(TOPIC, 0)}
    assert not image.index.eligible


def test_cordoned_directories_are_kept_and_written_in_the_version_that_has_them() -> None:
    image = cluster()
    assert pack_metadata(broker(1))[2] == 3, "what Kafka 4.0 reads, as long as nothing is cordoned"
    said = records.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, cordoned_log_dirs=[DIR])
    assert pack_metadata(said)[2] == 3
    image.apply(unpack_metadata(pack_metadata(said)))
    assert image.brokers[1].cordoned_log_dirs == (DIR,)
    assert not image.brokers[1].takes_replicas
    assert image.brokers[0].takes_replicas
    again = image_from([unpack_metadata(pack_metadata(one)) for one in snapshot_records(image)])
    assert image_hash(again) == image_hash(image)


@pytest.mark.parametrize("value", [b"\x01\x7f\x00", b"\x01\x00\x09"], ids=["type", "version"])
def test_a_record_of_a_newer_level_says_which_level_is_read(value: bytes) -> None:
    with pytest.raises(Exception, match="newer metadata.version than this version of Moldau reads"):
        unpack_metadata(value)
