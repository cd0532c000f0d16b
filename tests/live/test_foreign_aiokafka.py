"""aiokafka against a live cluster: the oldest request versions of all the clients here."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from foreign import PATIENCE_S, create_topic, read_aiokafka, write_aiokafka

Fresh = Callable[[str], str]


def run(work: Awaitable[None]) -> None:
    """Run a test's coroutine, for a minute at most."""

    async def bounded() -> None:
        await asyncio.wait_for(work, PATIENCE_S)

    asyncio.run(bounded())


@asynccontextmanager
async def started(client: Any) -> Any:
    """A client that is started here and stopped at the end."""
    await client.start()
    try:
        yield client
    finally:
        await (client.stop() if hasattr(client, "stop") else client.close())


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Ask again until it holds; run() bounds it."""
    while not await condition():  # noqa: ASYNC110 - the cluster has no event to wait for
        await asyncio.sleep(0.05)


def member(bootstrap: str, group: str, topic: str, **more: Any) -> AIOKafkaConsumer:
    options = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "heartbeat_interval_ms": 200}
    options |= {"session_timeout_ms": 30_000, **more}  # its own 10 s are less than a slow machine may take
    return AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=group, **options)


def test_a_record_comes_back_with_its_key_headers_and_timestamp(bootstrap_servers: str, fresh: Fresh) -> None:
    topic = fresh("whole")
    create_topic(bootstrap_servers, topic)

    async def work() -> None:
        async with started(AIOKafkaProducer(bootstrap_servers=bootstrap_servers)) as producer:
            await producer.send_and_wait(
                topic, b"value", b"key", timestamp_ms=1_700_000_000_123, headers=[("who", b"me")]
            )
        async with started(member(bootstrap_servers, fresh("g"), topic)) as consumer:
            record = await consumer.getone()
        assert (record.key, record.value, record.headers) == (b"key", b"value", (("who", b"me"),))
        assert (record.timestamp, record.offset) == (1_700_000_000_123, 0)

    run(work())


def test_its_idempotent_producer_keeps_order(bootstrap_servers: str, fresh: Fresh) -> None:
    topic = fresh("idempotent")
    create_topic(bootstrap_servers, topic)

    async def work() -> None:
        options = {"enable_idempotence": True, "max_batch_size": 200}
        async with started(AIOKafkaProducer(bootstrap_servers=bootstrap_servers, **options)) as producer:
            await asyncio.gather(*[await producer.send(topic, str(turn).encode()) for turn in range(1000)])

    run(work())
    values = [int(value) for _, value in read_aiokafka(bootstrap_servers, topic, 1000)]
    assert values == list(range(1000))


def test_a_group_resumes_where_it_committed(bootstrap_servers: str, fresh: Fresh) -> None:
    topic, group = fresh("resumed"), fresh("resumers")
    create_topic(bootstrap_servers, topic)
    write_aiokafka(bootstrap_servers, topic, [(b"k", str(turn).encode()) for turn in range(10)])
    part = TopicPartition(topic, 0)

    async def work() -> None:
        async with started(member(bootstrap_servers, group, topic)) as consumer:
            for _ in range(10):
                await consumer.getone()
            await consumer.commit({part: (6, "after six")})
        async with started(member(bootstrap_servers, group, topic)) as consumer:
            assert [(await consumer.getone()).value for _ in range(4)] == [b"6", b"7", b"8", b"9"]
            assert await consumer.committed(part) == 6

    run(work())


def test_two_sticky_members_share_and_one_inherits(bootstrap_servers: str, fresh: Fresh) -> None:
    topic, group = fresh("shared"), fresh("sharers")
    create_topic(bootstrap_servers, topic, partitions=4)
    how = {"partition_assignment_strategy": [StickyPartitionAssignor]}

    async def work() -> None:
        async with started(member(bootstrap_servers, group, topic, **how)) as first:
            async with started(member(bootstrap_servers, group, topic, **how)) as second:

                async def shared() -> bool:
                    owned = [*first.assignment(), *second.assignment()]
                    return len(first.assignment()) == 2 and sorted(one.partition for one in owned) == [0, 1, 2, 3]

                await until(shared)

            async def inherited() -> bool:
                return len(first.assignment()) == 4

            await until(inherited)

    run(work())


def test_a_static_member_keeps_its_part_while_it_is_away(bootstrap_servers: str, fresh: Fresh) -> None:
    topic, group = fresh("static"), fresh("statics")
    create_topic(bootstrap_servers, topic, partitions=2)

    async def work() -> None:
        async with started(member(bootstrap_servers, group, topic, group_instance_id="one")) as first:
            async with started(member(bootstrap_servers, group, topic, group_instance_id="two")) as second:

                async def shared() -> bool:
                    return len(first.assignment()) == len(second.assignment()) == 1

                await until(shared)
                kept = second.assignment()
            async with started(member(bootstrap_servers, group, topic, group_instance_id="two")) as again:

                async def back() -> bool:
                    return bool(again.assignment() == kept)

                await until(back)
            assert len(first.assignment()) == 1

    run(work())


def test_offsets_are_found_by_time_and_at_both_ends(bootstrap_servers: str, fresh: Fresh) -> None:
    topic = fresh("times")
    create_topic(bootstrap_servers, topic)
    base = int(time.time() * 1000) - 100_000
    part = TopicPartition(topic, 0)

    async def work() -> None:
        async with started(AIOKafkaProducer(bootstrap_servers=bootstrap_servers, acks="all")) as producer:
            for turn in range(30):
                await producer.send(topic, b"v", timestamp_ms=base + turn * 1000)
            await producer.flush()
        async with started(AIOKafkaConsumer(bootstrap_servers=bootstrap_servers)) as consumer:
            assert (await consumer.offsets_for_times({part: base + 10_500}))[part].offset == 11
            assert (await consumer.beginning_offsets([part]), await consumer.end_offsets([part])) == (
                {part: 0},
                {part: 30},
            )

    run(work())


def test_a_topic_lives_from_creation_to_deletion(bootstrap_servers: str, fresh: Fresh) -> None:
    topic = fresh("life")

    async def work() -> None:
        async with started(AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)) as admin:
            await admin.create_topics([NewTopic(topic, 2, 3)])

            async def partitions() -> int:
                return len((await admin.describe_topics([topic]))[0]["partitions"])

            async def grown() -> bool:
                return await partitions() == 4

            async def gone() -> bool:
                return topic not in await admin.list_topics()

            await admin.create_partitions({topic: NewPartitions(4)})
            await until(grown)
            await admin.delete_topics([topic])
            await until(gone)

    run(work())


def test_configurations_and_records_are_administered(bootstrap_servers: str, fresh: Fresh) -> None:
    topic = fresh("administered")
    create_topic(bootstrap_servers, topic, retention_ms="90000")
    write_aiokafka(bootstrap_servers, topic, [(b"k", str(turn).encode()) for turn in range(10)])
    part = TopicPartition(topic, 0)

    async def work() -> None:
        async with started(AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)) as admin:

            async def told() -> bool:
                answers = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
                entries = {entry[0]: entry[1] for entry in answers[0].resources[0][4]}
                return bool(entries.get("retention.ms") == "90000")

            await until(told)
            await admin.delete_records({part: RecordsToDelete(before_offset=8)})
            shown = await admin.describe_cluster()
            assert len(shown["brokers"]) == 3

    run(work())
    assert [value for _, value in read_aiokafka(bootstrap_servers, topic, 2)] == [b"8", b"9"]


def test_a_group_is_listed_described_and_its_offsets_shown(bootstrap_servers: str, fresh: Fresh) -> None:
    topic, group = fresh("owned"), fresh("owners")
    create_topic(bootstrap_servers, topic)
    write_aiokafka(bootstrap_servers, topic, [(b"k", b"v")] * 3)

    async def work() -> None:
        async with started(AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)) as admin:
            async with started(member(bootstrap_servers, group, topic)) as consumer:
                for _ in range(3):
                    await consumer.getone()
                await consumer.commit()
                described = (await admin.describe_consumer_groups([group]))[0].groups[0]
                assert (described[1], described[2]) == (group, "Stable")
            assert group in [name for name, _ in await admin.list_consumer_groups()]
            offsets = await admin.list_consumer_group_offsets(group)
            assert offsets[TopicPartition(topic, 0)].offset == 3

    run(work())
