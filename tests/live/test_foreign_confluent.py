"""confluent-kafka (librdkafka) against a live cluster: producing, consuming, offsets by time, administration.

Groups and rebalances of this client are in test_foreign_groups.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_CREATE_TIME,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from foreign import (
    PATIENCE_S,
    consumer_of,
    create_topic,
    poll_messages,
    poll_records,
    read_confluent,
    write_confluent,
)
from kafka_peer import wait_until

Fresh = Callable[[str], str]


@pytest.fixture
def admin(bootstrap_servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap_servers})


def error_of(call: Callable[[], object]) -> int:
    """The error code that a call is refused with."""
    with pytest.raises(KafkaException) as refused:
        call()
    return int(refused.value.args[0].code())


def test_a_record_comes_back_with_its_key_headers_and_timestamp(bootstrap_servers: str, fresh: Fresh) -> None:
    topic = fresh("whole")
    create_topic(bootstrap_servers, topic)
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    headers: list[tuple[str, str | bytes | None]] = [("who", b"me"), ("who", b"again"), ("empty", b""), ("none", None)]

    producer.produce(topic, b"value", b"key", headers=headers, timestamp=1_700_000_000_123)
    producer.produce(topic, None, b"tombstone")
    assert producer.flush(PATIENCE_S) == 0

    with consumer_of(bootstrap_servers, fresh("g")) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        first, second = poll_messages(consumer, 2)
    assert (first.key(), first.value(), first.headers(), first.offset()) == (b"key", b"value", headers, 0)
    assert first.timestamp() == (TIMESTAMP_CREATE_TIME, 1_700_000_000_123)
    assert (second.key(), second.value(), second.offset()) == (b"tombstone", None, 1)


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_written_with_any_acks_are_all_there(acks: str, bootstrap_servers: str, fresh: Fresh) -> None:
    topic = fresh(f"acks-{acks}")
    create_topic(bootstrap_servers, topic, partitions=2)
    producer = Producer({"bootstrap.servers": bootstrap_servers, "acks": acks})
    for turn in range(500):
        producer.produce(topic, str(turn).encode(), partition=turn % 2)
    assert producer.flush(PATIENCE_S) == 0

    values = [int(value) for _, value in read_confluent(bootstrap_servers, topic, 500)]

    assert sorted(values) == list(range(500))


def test_an_idempotent_producer_writes_once_and_in_order(bootstrap_servers: str, fresh: Fresh) -> None:
    topic = fresh("idempotent")
    create_topic(bootstrap_servers, topic)
    # Tiny batches, five in flight: order now hangs on the broker's sequence check.
    producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "batch.num.messages": 3})
    for turn in range(2000):
        producer.produce(topic, str(turn).encode())
    assert producer.flush(PATIENCE_S) == 0

    values = [int(value) for _, value in read_confluent(bootstrap_servers, topic, 2000)]

    assert values == list(range(2000))


def test_a_record_of_almost_a_megabyte_passes_and_a_larger_one_is_refused(bootstrap_servers: str, fresh: Fresh) -> None:
    topic = fresh("large")
    create_topic(bootstrap_servers, topic)
    refused: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": bootstrap_servers, "message.max.bytes": 8_000_000})

    producer.produce(topic, b"a" * 1_040_000)
    producer.flush(PATIENCE_S)
    producer.produce(topic, b"b" * 3_000_000, on_delivery=lambda error, _: refused.append(error))
    producer.flush(PATIENCE_S)

    assert [error and error.code() for error in refused] == [KafkaError.MSG_SIZE_TOO_LARGE]
    assert [len(value) for _, value in read_confluent(bootstrap_servers, topic, 1)] == [1_040_000]


def test_offsets_are_found_by_time_and_at_both_ends(bootstrap_servers: str, fresh: Fresh) -> None:
    topic = fresh("times")
    create_topic(bootstrap_servers, topic)
    base = int(time.time() * 1000) - 100_000
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for turn in range(100):
        producer.produce(topic, str(turn).encode(), timestamp=base + turn * 1000)
    assert producer.flush(PATIENCE_S) == 0

    with consumer_of(bootstrap_servers, fresh("g")) as consumer:
        asked = [TopicPartition(topic, 0, base + 41_500)]
        assert [one.offset for one in consumer.offsets_for_times(asked, PATIENCE_S)] == [42]
        late = consumer.offsets_for_times([TopicPartition(topic, 0, base + 1_000_000)], PATIENCE_S)
        assert [one.offset for one in late] == [-1]  # librdkafka's OFFSET_END: nothing is that young
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), PATIENCE_S) == (0, 100)


def test_a_pattern_subscription_finds_topics_made_before_it(bootstrap_servers: str, fresh: Fresh) -> None:
    stem = fresh("pattern")
    for suffix in ("a", "b"):
        create_topic(bootstrap_servers, f"{stem}-{suffix}")
        write_confluent(bootstrap_servers, f"{stem}-{suffix}", [(b"k", suffix.encode())])

    with consumer_of(bootstrap_servers, fresh("g")) as consumer:
        consumer.subscribe([f"^{stem}-.*"])
        values = sorted(value for _, value in poll_records(consumer, 2))

    assert values == [b"a", b"b"]


def test_the_cluster_describes_itself(bootstrap_servers: str, admin: AdminClient) -> None:
    shown = admin.describe_cluster(request_timeout=PATIENCE_S).result()

    assert sorted(f"{node.host}:{node.port}" for node in shown.nodes) == sorted(bootstrap_servers.split(","))
    assert shown.controller.id in [node.id for node in shown.nodes]
    assert shown.cluster_id == admin.list_topics(timeout=PATIENCE_S).cluster_id


def test_a_topic_is_described_grown_and_deleted(bootstrap_servers: str, admin: AdminClient, fresh: Fresh) -> None:
    topic = fresh("life")
    create_topic(bootstrap_servers, topic, partitions=2, rf=2)

    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(PATIENCE_S)

    def grown() -> bool:
        partitions = admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
        return sorted(partitions) == [0, 1, 2, 3, 4] and {len(one.replicas) for one in partitions.values()} == {2}

    wait_until(grown, "5 partitions of two replicas")

    admin.delete_topics([topic])[topic].result(PATIENCE_S)
    wait_until(lambda: topic not in admin.list_topics(timeout=PATIENCE_S).topics, "the topic is gone")


def test_impossible_topics_are_refused_with_the_right_error(
    bootstrap_servers: str, admin: AdminClient, fresh: Fresh
) -> None:
    topic = fresh("taken")
    create_topic(bootstrap_servers, topic)

    def create(name: str, partitions: int = 1, rf: int = 1, **more: Any) -> object:
        return admin.create_topics([NewTopic(name, partitions, rf, **more)])[name].result(PATIENCE_S)

    def shrink() -> object:
        return admin.create_partitions([NewPartitions(topic, 1)])[topic].result(PATIENCE_S)

    assert error_of(lambda: create(topic)) == KafkaError.TOPIC_ALREADY_EXISTS
    assert error_of(lambda: create("not a name")) == KafkaError.TOPIC_EXCEPTION
    assert error_of(lambda: create(fresh("wide"), rf=9)) == KafkaError.INVALID_REPLICATION_FACTOR
    assert error_of(lambda: create(fresh("odd"), config={"no.such.key": "1"})) == KafkaError.INVALID_CONFIG
    assert error_of(shrink) == KafkaError.INVALID_PARTITIONS
    gone = fresh("gone")
    unknown = KafkaError.UNKNOWN_TOPIC_OR_PART
    assert error_of(lambda: admin.delete_topics([gone])[gone].result(PATIENCE_S)) == unknown


def test_a_topics_configuration_is_set_changed_and_reset(
    bootstrap_servers: str, admin: AdminClient, fresh: Fresh
) -> None:
    topic = fresh("configured")
    create_topic(bootstrap_servers, topic, retention_ms="60000")

    def alter(name: str, value: str | None, how: AlterConfigOpType) -> None:
        entry = ConfigEntry(name, value, incremental_operation=how)
        wish = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        admin.incremental_alter_configs([wish])[wish].result(PATIENCE_S)

    def shown(name: str) -> tuple[str, bool]:
        asked = ConfigResource(ResourceType.TOPIC, topic)
        entry = admin.describe_configs([asked])[asked].result(PATIENCE_S)[name]
        return entry.value, entry.is_default

    wait_until(lambda: shown("retention.ms") == ("60000", False), "retention is a minute")
    assert shown("cleanup.policy") == ("delete", True)
    alter("cleanup.policy", "compact", AlterConfigOpType.APPEND)
    wait_until(lambda: shown("cleanup.policy") == ("delete,compact", False), "the policy is both")
    alter("retention.ms", "120000", AlterConfigOpType.SET)
    wait_until(lambda: shown("retention.ms") == ("120000", False), "retention is two minutes")
    alter("retention.ms", None, AlterConfigOpType.DELETE)
    wait_until(lambda: shown("retention.ms") == ("604800000", True), "retention is a week again")
    assert error_of(lambda: alter("retention.ms", "soon", AlterConfigOpType.SET)) == KafkaError.INVALID_CONFIG


def test_a_brokers_configuration_is_described(admin: AdminClient) -> None:
    node = admin.describe_cluster(request_timeout=PATIENCE_S).result().nodes[0]
    asked = ConfigResource(ResourceType.BROKER, str(node.id))

    entries = admin.describe_configs([asked])[asked].result(PATIENCE_S)

    assert int(entries["node.id"].value) == node.id
    assert entries["log.dirs"].is_read_only


def test_deleted_records_are_gone_from_the_start(bootstrap_servers: str, admin: AdminClient, fresh: Fresh) -> None:
    topic = fresh("cut")
    create_topic(bootstrap_servers, topic)
    write_confluent(bootstrap_servers, topic, [(b"k", str(turn).encode()) for turn in range(10)])
    cut = TopicPartition(topic, 0, 6)

    done = admin.delete_records([cut])[cut].result(PATIENCE_S)

    assert done.low_watermark == 6
    assert [value for _, value in read_confluent(bootstrap_servers, topic, 4)] == [b"6", b"7", b"8", b"9"]
    asked = {cut: OffsetSpec.earliest()}
    assert admin.list_offsets(asked)[cut].result(PATIENCE_S).offset == 6


def test_a_groups_offsets_are_listed_altered_and_deleted_with_it(
    bootstrap_servers: str, admin: AdminClient, fresh: Fresh
) -> None:
    topic, group = fresh("owned"), fresh("owners")
    create_topic(bootstrap_servers, topic)
    write_confluent(bootstrap_servers, topic, [(b"k", b"v")] * 5)
    with consumer_of(bootstrap_servers, group, enable_auto_commit=False) as consumer:
        consumer.subscribe([topic])
        poll_records(consumer, 5)
        consumer.commit(asynchronous=False)
        assert error_of(lambda: admin.delete_consumer_groups([group])[group].result()) == KafkaError.NON_EMPTY_GROUP

    def committed() -> int:
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
        listed = admin.list_consumer_group_offsets([asked])[group].result(PATIENCE_S)
        return int(listed.topic_partitions[0].offset)

    assert committed() == 5
    # A member that closes says so, and waits for no answer.
    wait_until(
        lambda: admin.describe_consumer_groups([group])[group].result(PATIENCE_S).state.name == "EMPTY",
        "the member has left",
    )
    wish = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 2)])
    admin.alter_consumer_group_offsets([wish])[group].result(PATIENCE_S)
    assert committed() == 2
    described = admin.describe_consumer_groups([group])[group].result(PATIENCE_S)
    assert (described.state.name, list(described.members)) == ("EMPTY", [])
    assert group in [one.group_id for one in admin.list_consumer_groups().result(PATIENCE_S).valid]
    admin.delete_consumer_groups([group])[group].result(PATIENCE_S)
    assert group not in [one.group_id for one in admin.list_consumer_groups().result(PATIENCE_S).valid]


def test_a_transactional_producer_is_told_no_instead_of_being_left_to_wait(
    bootstrap_servers: str, fresh: Fresh
) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": fresh("txn")})
    with pytest.raises(KafkaException) as refusal:
        producer.init_transactions(PATIENCE_S)
    assert refusal.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
