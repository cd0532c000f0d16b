"""Consumer groups as foreign clients live in them: sharing, leaving, cooperating, coming back, mixing makes.

The rebalance protocol is the client's and the coordinator's together, so these tests watch what members are told
(assigned, revoked, lost) and never how long it took.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AsyncRangeAssignor
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from foreign import PATIENCE_S, create_topic, write_confluent
from kafka import KafkaConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka_peer import wait_until

Fresh = Callable[[str], str]


class Member:
    """A librdkafka member of a group that remembers what it was told. Call poll() often, as any member must."""

    def __init__(self, bootstrap: str, group: str, topic: str, **more: object):
        base = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 200,
            "session.timeout.ms": 45_000,  # no machine is so slow
        }
        self.consumer = Consumer({**base, **{key.replace("_", "."): value for key, value in more.items()}})
        self.assigned: list[list[int]] = []
        self.revoked: list[list[int]] = []
        self.lost: list[list[int]] = []
        self.came: list[int] = []
        self.consumer.subscribe(
            [topic],
            on_assign=lambda _, parts: self.assigned.append([one.partition for one in parts]),
            on_revoke=lambda _, parts: self.revoked.append([one.partition for one in parts]),
            on_lost=lambda _, parts: self.lost.append([one.partition for one in parts]),
        )

    def poll(self) -> None:
        message = self.consumer.poll(0.02)
        if message is not None and not message.error():
            self.came.append(int(message.value() or b""))

    def owns(self) -> list[int]:
        return sorted(one.partition for one in self.consumer.assignment())


@pytest.fixture
def join(bootstrap_servers: str) -> Iterator[Callable[..., Member]]:
    """Makes members and closes those that the test left open."""
    members: list[Member] = []

    def make(group: str, topic: str, **more: object) -> Member:
        members.append(Member(bootstrap_servers, group, topic, **more))
        return members[-1]

    yield make
    for member in members:
        with contextlib.suppress(RuntimeError):  # closed by the test
            member.consumer.close()


def poll_until(condition: Callable[[], bool], what: str, *members: Member) -> None:
    """Let the members live until the condition holds."""

    def turn() -> bool:
        for member in members:
            member.poll()
        return condition()

    wait_until(turn, what, PATIENCE_S, pause_s=0)


def share(partitions: int, *members: Member) -> bool:
    """Whether the members own each partition exactly once, and none owns nothing."""
    owned = [member.owns() for member in members]
    return all(owned) and sorted(one for some in owned for one in some) == list(range(partitions))


def write_numbers(bootstrap: str, topic: str, start: int, stop: int) -> None:
    write_confluent(bootstrap, topic, [(str(turn).encode(), str(turn).encode()) for turn in range(start, stop)])


def test_two_members_share_the_partitions_and_one_inherits_when_the_other_leaves(
    bootstrap_servers: str, fresh: Fresh, join: Callable[..., Member]
) -> None:
    topic, group = fresh("shared"), fresh("sharers")
    create_topic(bootstrap_servers, topic, partitions=4)
    first, second = join(group, topic), join(group, topic)
    poll_until(lambda: share(4, first, second), "both own a part", first, second)

    second.consumer.close()
    poll_until(lambda: first.owns() == [0, 1, 2, 3], "the first owns all", first)

    write_numbers(bootstrap_servers, topic, 0, 50)
    poll_until(lambda: len(first.came) == 50, "all 50 come to the first", first)
    assert sorted(first.came) == list(range(50))


def test_a_new_member_goes_on_where_the_group_committed(
    bootstrap_servers: str, fresh: Fresh, join: Callable[..., Member]
) -> None:
    topic, group = fresh("resumed"), fresh("resumers")
    create_topic(bootstrap_servers, topic)
    write_numbers(bootstrap_servers, topic, 0, 30)
    first = join(group, topic)
    poll_until(lambda: len(first.came) == 30, "30 records", first)
    first.consumer.commit(offsets=[TopicPartition(topic, 0, 20, metadata="after twenty")], asynchronous=False)
    first.consumer.close()

    second = join(group, topic)
    poll_until(lambda: len(second.came) == 10, "the ten that were not committed", second)

    assert second.came == list(range(20, 30))
    committed = second.consumer.committed([TopicPartition(topic, 0)], PATIENCE_S)[0]
    assert (committed.offset, committed.metadata) == (20, "after twenty")


def test_a_cooperative_newcomer_takes_only_what_moves(
    bootstrap_servers: str, fresh: Fresh, join: Callable[..., Member]
) -> None:
    topic, group = fresh("cooperative"), fresh("cooperators")
    create_topic(bootstrap_servers, topic, partitions=6)
    how = {"partition_assignment_strategy": "cooperative-sticky"}
    first = join(group, topic, **how)
    poll_until(lambda: first.owns() == [0, 1, 2, 3, 4, 5], "the first owns all", first)

    second = join(group, topic, **how)
    poll_until(lambda: share(6, first, second) and len(first.owns()) == 3, "three each", first, second)

    given_up = sorted(one for some in first.revoked for one in some)
    assert given_up == second.owns()
    assert first.lost == []


def test_a_static_member_comes_back_without_a_rebalance(
    bootstrap_servers: str, fresh: Fresh, join: Callable[..., Member]
) -> None:
    topic, group = fresh("static"), fresh("statics")
    create_topic(bootstrap_servers, topic, partitions=4)
    first = join(group, topic, group_instance_id="one")
    second = join(group, topic, group_instance_id="two")
    poll_until(lambda: share(4, first, second), "both own a part", first, second)
    told_before = (len(first.assigned), len(first.revoked))
    owned_before = second.owns()

    second.consumer.close()  # a static member leaves without saying so
    again = join(group, topic, group_instance_id="two")
    poll_until(lambda: again.owns() == owned_before, "it owns what it owned", first, again)

    write_numbers(bootstrap_servers, topic, 0, 50)
    poll_until(lambda: len(first.came) + len(again.came) == 50, "both read on", first, again)
    assert (len(first.assigned), len(first.revoked)) == told_before


def test_a_second_holder_of_a_static_name_fences_the_first(
    bootstrap_servers: str, fresh: Fresh, join: Callable[..., Member]
) -> None:
    topic, group = fresh("twins"), fresh("twin")
    create_topic(bootstrap_servers, topic, partitions=2)
    first = join(group, topic, group_instance_id="one")
    poll_until(lambda: first.owns() == [0, 1], "the first owns all", first)
    fenced: list[str] = []

    def listen() -> bool:
        message = first.consumer.poll(0.02)
        if message is not None and (error := message.error()) and "fenced" in error.str():
            fenced.append(error.str())
        return bool(fenced)

    second = join(group, topic, group_instance_id="one")
    poll_until(lambda: listen() and second.owns() == [0, 1], "the first is fenced", second)


def test_a_member_that_dies_is_replaced_after_its_session(
    bootstrap_servers: str, fresh: Fresh, join: Callable[..., Member]
) -> None:
    topic, group = fresh("mortal"), fresh("mortals")
    create_topic(bootstrap_servers, topic, partitions=4)
    # A static member that is gone says nothing, as a dead process does: only the session's end can tell.
    first = join(group, topic)
    second = join(group, topic, group_instance_id="gone", session_timeout_ms=6000)
    poll_until(lambda: share(4, first, second), "both own a part", first, second)

    second.consumer.close()
    poll_until(lambda: first.owns() == [0, 1, 2, 3], "the first owns all", first)


def test_one_that_left_the_group_cannot_commit_into_it(
    bootstrap_servers: str, fresh: Fresh, join: Callable[..., Member]
) -> None:
    topic, group = fresh("left"), fresh("leavers")
    create_topic(bootstrap_servers, topic, partitions=2)
    first = join(group, topic)
    poll_until(lambda: first.owns() == [0, 1], "the first owns all", first)
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})

    def members() -> int:
        return len(admin.describe_consumer_groups([group])[group].result(PATIENCE_S).members)

    poll_until(lambda: members() == 1, "the coordinator says so", first)
    first.consumer.unsubscribe()
    poll_until(lambda: members() == 0, "the first has left", first)
    second = join(group, topic)
    poll_until(lambda: second.owns() == [0, 1], "the second owns all", second)
    second.consumer.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=False)

    with pytest.raises(KafkaException):
        first.consumer.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)
    assert second.consumer.committed([TopicPartition(topic, 0)], PATIENCE_S)[0].offset == 7


def test_three_clients_of_different_make_share_one_group(
    bootstrap_servers: str, fresh: Fresh, join: Callable[..., Member]
) -> None:
    topic, group = fresh("mixed"), fresh("mixture")
    create_topic(bootstrap_servers, topic, partitions=6)
    native = join(group, topic, partition_assignment_strategy="range")

    with (
        python_member(bootstrap_servers, group, topic) as python,
        async_member(bootstrap_servers, group, topic) as other,
    ):

        def shared() -> bool:
            owned = [native.owns(), python(), other()]
            return all(owned) and sorted(one for some in owned for one in some) == [0, 1, 2, 3, 4, 5]

        poll_until(shared, "each of the three owns a part", native)


@contextlib.contextmanager
def python_member(bootstrap: str, group: str, topic: str) -> Iterator[Callable[[], list[int]]]:
    """A kafka-python member on a thread of its own; gives what it owns."""
    owned: list[int] = []
    over = threading.Event()

    def live() -> None:
        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap.split(","),
            group_id=group,
            partition_assignment_strategy=[RangePartitionAssignor],
            heartbeat_interval_ms=200,
            session_timeout_ms=45_000,
        )
        with contextlib.closing(consumer):
            while not over.is_set():
                consumer.poll(timeout_ms=500)  # shorter ones end in the middle of a join on a busy machine
                owned[:] = sorted(one.partition for one in consumer.assignment())

    thread = threading.Thread(target=live)
    thread.start()
    try:
        yield lambda: list(owned)
    finally:
        over.set()
        thread.join(PATIENCE_S)


@contextlib.contextmanager
def async_member(bootstrap: str, group: str, topic: str) -> Iterator[Callable[[], list[int]]]:
    """An aiokafka member on a thread and loop of its own; gives what it owns."""
    owned: list[int] = []
    over = threading.Event()

    async def live() -> None:

        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            partition_assignment_strategy=[AsyncRangeAssignor],
            heartbeat_interval_ms=200,
            session_timeout_ms=45_000,
        )
        await consumer.start()
        try:
            while not over.is_set():
                await consumer.getmany(timeout_ms=50)
                owned[:] = sorted(one.partition for one in consumer.assignment())
        finally:
            await consumer.stop()

    thread = threading.Thread(target=lambda: asyncio.run(live()))
    thread.start()
    try:
        yield lambda: list(owned)
    finally:
        over.set()
        thread.join(PATIENCE_S)
