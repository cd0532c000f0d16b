"""kafka-python 3 against a live cluster: it guesses the broker's release from its API versions, then uses them all."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from foreign import PATIENCE_S, create_topic, read_kafka_python, write_kafka_python
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions, NewTopic, OffsetSpec
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.errors import InvalidReplicationFactorError, MessageSizeTooLargeError, TopicAlreadyExistsError
from kafka_peer import wait_until

Fresh = Callable[[str], str]


@pytest.fixture
def admin(bootstrap_servers: str) -> Iterator[KafkaAdminClient]:
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=bootstrap_servers.split(","))) as client:
        yield client


def poll_values(consumer: KafkaConsumer, count: int) -> list[bytes]:
    """Poll until `count` records came.

    Each poll may take as long as all of them: a member of kafka-python 3.0.12 that joins again, since metadata of its
    topics changed, and whose poll() ends before the coordinator has answered, forgets the assignment when it comes. It
    never reads, and sends no heartbeats.
    """
    came: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(came) < count:
        left = deadline - time.monotonic()
        assert left > 0, f"{len(came)} of {count} records came"
        for batch in consumer.poll(timeout_ms=left * 1000).values():
            came.extend(one.value for one in batch)
    return came


def member(bootstrap: str, group: str, topic: str, **more: object) -> contextlib.closing[KafkaConsumer]:
    """A member of a group, to be used in a with statement."""
    options = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "heartbeat_interval_ms": 200, **more}
    return contextlib.closing(KafkaConsumer(topic, bootstrap_servers=bootstrap.split(","), group_id=group, **options))


def test_a_record_comes_back_with_its_key_headers_and_timestamp(bootstrap_servers: str, fresh: Fresh) -> None:
    topic = fresh("whole")
    create_topic(bootstrap_servers, topic)
    with contextlib.closing(KafkaProducer(bootstrap_servers=bootstrap_servers.split(","))) as producer:
        sent = producer.send(topic, b"value", b"key", headers=[("who", b"me")], timestamp_ms=1_700_000_000_123)
        where = sent.get(PATIENCE_S)
    assert (where.partition, where.offset, where.timestamp) == (0, 0, 1_700_000_000_123)

    with member(bootstrap_servers, fresh("g"), topic) as consumer:
        record = next(consumer)

    assert (record.key, record.value, record.headers) == (b"key", b"value", [("who", b"me")])
    assert record.timestamp == 1_700_000_000_123


def test_its_producer_is_idempotent_and_keeps_order(bootstrap_servers: str, fresh: Fresh) -> None:
    topic = fresh("idempotent")
    create_topic(bootstrap_servers, topic)
    options = {"enable_idempotence": True, "acks": "all", "batch_size": 200}
    with contextlib.closing(KafkaProducer(bootstrap_servers=bootstrap_servers.split(","), **options)) as producer:
        for turn in range(1000):
            producer.send(topic, str(turn).encode())
        producer.flush(PATIENCE_S)

    values = [int(value) for _, value in read_kafka_python(bootstrap_servers, topic, 1000)]

    assert values == list(range(1000))


def test_a_batch_larger_than_the_topic_allows_is_refused(bootstrap_servers: str, fresh: Fresh) -> None:
    topic = fresh("small")
    create_topic(bootstrap_servers, topic, max_message_bytes="1000")
    with (
        contextlib.closing(KafkaProducer(bootstrap_servers=bootstrap_servers.split(","))) as producer,
        pytest.raises(MessageSizeTooLargeError),
    ):
        producer.send(topic, b"x" * 2000).get(PATIENCE_S)


def test_a_group_resumes_where_it_committed(bootstrap_servers: str, fresh: Fresh) -> None:
    topic, group = fresh("resumed"), fresh("resumers")
    create_topic(bootstrap_servers, topic)
    write_kafka_python(bootstrap_servers, topic, [(b"k", str(turn).encode()) for turn in range(10)])
    part = TopicPartition(topic, 0)
    with member(bootstrap_servers, group, topic) as consumer:
        poll_values(consumer, 10)
        consumer.commit({part: OffsetAndMetadata(6, "after six", -1)})

    with member(bootstrap_servers, group, topic) as consumer:
        assert poll_values(consumer, 4) == [b"6", b"7", b"8", b"9"]
        assert consumer.committed(part, metadata=True).metadata == "after six"


def test_cooperative_members_share_and_a_static_one_keeps_its_part(bootstrap_servers: str, fresh: Fresh) -> None:
    topic, group = fresh("cooperative"), fresh("cooperators")
    create_topic(bootstrap_servers, topic, partitions=4)
    how = {"partition_assignment_strategy": [CooperativeStickyAssignor]}
    with member(bootstrap_servers, group, topic, group_instance_id="one", **how) as first:
        with member(bootstrap_servers, group, topic, group_instance_id="two", **how) as second:
            poll_until_shared(bootstrap_servers, topic, first, second)
            kept = second.assignment()
        # A static member that closes has not left: nothing moves to the first.
        with member(bootstrap_servers, group, topic, group_instance_id="two", **how) as again:
            poll_until_shared(bootstrap_servers, topic, first, again)
            assert again.assignment() == kept


def poll_until_shared(bootstrap: str, topic: str, first: KafkaConsumer, second: KafkaConsumer) -> None:
    """Until the two own two of the four partitions each, and both have read.

    A poll of each lasts through all the joins (see poll_values()), so that each has a thread; records end it.
    """

    def shared() -> bool:
        owned = [*first.assignment(), *second.assignment()]
        return len(first.assignment()) == 2 and sorted(one.partition for one in owned) == [0, 1, 2, 3]

    with ThreadPoolExecutor(2) as threads:
        polls = [threads.submit(one.poll, PATIENCE_S * 1000) for one in (first, second)]
        wait_until(shared, "two partitions each", PATIENCE_S)
        with contextlib.closing(KafkaProducer(bootstrap_servers=bootstrap.split(","))) as producer:
            for partition in range(4):
                producer.send(topic, b"read", partition=partition)
        assert all(poll.result() for poll in polls)


def test_offsets_are_found_by_time_and_at_both_ends(bootstrap_servers: str, fresh: Fresh) -> None:
    topic = fresh("times")
    create_topic(bootstrap_servers, topic)
    base = int(time.time() * 1000) - 100_000
    with contextlib.closing(KafkaProducer(bootstrap_servers=bootstrap_servers.split(","))) as producer:
        for turn in range(50):
            producer.send(topic, str(turn).encode(), timestamp_ms=base + turn * 1000)
    part = TopicPartition(topic, 0)

    with contextlib.closing(KafkaConsumer(bootstrap_servers=bootstrap_servers.split(","))) as consumer:
        assert consumer.offsets_for_times({part: base + 20_500})[part].offset == 21
        assert consumer.offsets_for_times({part: base + 1_000_000})[part] is None
        assert (consumer.beginning_offsets([part])[part], consumer.end_offsets([part])[part]) == (0, 50)


def test_the_cluster_describes_itself(bootstrap_servers: str, admin: KafkaAdminClient) -> None:
    shown = admin.describe_cluster()

    assert sorted(f"{one['host']}:{one['port']}" for one in shown["brokers"]) == sorted(bootstrap_servers.split(","))
    assert shown["controller_id"] in [one["broker_id"] for one in shown["brokers"]]


def test_a_topic_lives_from_creation_to_deletion(admin: KafkaAdminClient, fresh: Fresh) -> None:
    topic = fresh("life")
    admin.create_topics([NewTopic(topic, 2, 3)])
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([NewTopic(topic, 2, 3)])
    with pytest.raises(InvalidReplicationFactorError):
        admin.create_topics([NewTopic(fresh("wide"), 1, 9)])

    admin.create_partitions({topic: NewPartitions(4)})

    def grown() -> bool:
        shown = admin.describe_topics([topic])[0]["partitions"]
        return [sorted(one["replica_nodes"]) for one in shown] == [[1, 2, 3]] * 4

    wait_until(grown, "4 partitions")

    admin.delete_topics([topic])
    wait_until(lambda: topic not in admin.list_topics(), "the topic is gone")


def test_a_topics_configuration_is_changed(bootstrap_servers: str, admin: KafkaAdminClient, fresh: Fresh) -> None:
    topic = fresh("configured")
    create_topic(bootstrap_servers, topic)

    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs={"retention.ms": "5000"})])

    def shown() -> object:
        asked = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])["topic"][topic]
        return asked.get("retention.ms", {}).get("value")

    wait_until(lambda: shown() == "5000", "retention is five seconds")


def test_deleted_records_are_gone_from_the_start(bootstrap_servers: str, admin: KafkaAdminClient, fresh: Fresh) -> None:
    topic = fresh("cut")
    create_topic(bootstrap_servers, topic)
    write_kafka_python(bootstrap_servers, topic, [(b"k", str(turn).encode()) for turn in range(10)])
    part = TopicPartition(topic, 0)

    admin.delete_records({part: 7})

    assert admin.list_partition_offsets({part: OffsetSpec.EARLIEST})[part].offset == 7
    assert [value for _, value in read_kafka_python(bootstrap_servers, topic, 3)] == [b"7", b"8", b"9"]


def test_a_group_is_listed_described_and_deleted(bootstrap_servers: str, admin: KafkaAdminClient, fresh: Fresh) -> None:
    topic, group = fresh("owned"), fresh("owners")
    create_topic(bootstrap_servers, topic, partitions=2)
    write_kafka_python(bootstrap_servers, topic, [(b"k", b"v")] * 3)
    with member(bootstrap_servers, group, topic) as consumer:
        poll_values(consumer, 3)
        consumer.commit()
        described = admin.describe_groups([group])[group]
        assert (described["group_state"], described["protocol_data"]) == ("Stable", "range")
        owned = described["members"][0]["member_assignment"]["assigned_partitions"]
        assert [(one["topic"], one["partitions"]) for one in owned] == [(topic, [0, 1])]

    assert group in [one["group_id"] for one in admin.list_groups()]
    offsets = admin.list_group_offsets({group: None})[group]
    assert sum(one.offset for one in offsets.values()) == 3
    admin.delete_groups([group])
    assert group not in [one["group_id"] for one in admin.list_groups()]
