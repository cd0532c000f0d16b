"""Groups through the death of their coordinator: what was acknowledged is still committed, and members go on (S18).

Runs a cluster of its own, because it kills nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka_peer import wait_until

import moldau
from moldau.cluster.cluster import NoLeader
from moldau.groups import partition_for

PATIENCE_S = 120
GROUP = "survivors"


@pytest.fixture(scope="module")
def cluster() -> Iterator[moldau.Cluster]:
    with moldau.Cluster(brokers=3) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.create_topics([NewTopic("work", 4, 3)])["work"].result(PATIENCE_S)
        yield cluster


@pytest.fixture(autouse=True)
def everybody_lives(cluster: moldau.Cluster) -> None:
    """A test that failed half-way leaves its victim dead; the next one shall not fail for that."""
    for id in {1, 2, 3} - set(cluster.alive()):
        cluster.restart(id)
    cluster.wait_until_in_sync()


def consumer(cluster: moldau.Cluster, group: str, **more: object) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 120_000,  # no machine takes so long for another coordinator
            **more,
        }
    )


def coordinator(cluster: moldau.Cluster, group: str) -> int:
    """The broker that coordinates a group now; -1 while there is none."""
    try:
        return int(cluster.leader("__consumer_offsets", partition_for(group, 50)))
    except NoLeader:
        return -1


def moved(cluster: moldau.Cluster, group: str, victim: int) -> bool:
    """Whether a group's coordinator is another broker than `victim`."""
    return coordinator(cluster, group) not in (victim, -1)


class Committing:
    """Commits whose outcome is polled for: nothing interrupts a synchronous commit of librdkafka, however long."""

    def __init__(self) -> None:
        self.outcomes: list[bool] = []

    def note(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        """librdkafka's callback."""
        self.outcomes.append(error is None and all(each.error is None for each in partitions))

    def commit(self, member: Consumer, where: TopicPartition) -> bool:
        """Try once; whether it was acknowledged."""
        self.outcomes.clear()

        def known() -> bool:
            message = member.poll(0.01)  # an error is news of a broker that died, not the outcome
            assert message is None or message.error() is not None, f"nothing was produced, and {message.value()!r} came"
            return bool(self.outcomes)

        try:
            member.commit(offsets=[where], asynchronous=True)
        except KafkaException:
            return False
        wait_until(known, "the outcome of a commit", PATIENCE_S)
        return self.outcomes[0]


def test_an_acknowledged_offset_survives_coordinator_after_coordinator(cluster: moldau.Cluster) -> None:
    committing = Committing()
    member = consumer(cluster, GROUP, on_commit=committing.note)
    member.assign([TopicPartition("work", 0)])
    offset = acknowledged = 0

    def committed() -> bool:
        """Try the next offset; whether it was acknowledged."""
        nonlocal offset, acknowledged
        offset += 1
        if committing.commit(member, TopicPartition("work", 0, offset)):
            acknowledged = offset
        return acknowledged == offset

    for _ in range(3):
        wait_until(committed, "a commit that this coordinator acknowledges")
        wait_until(lambda: coordinator(cluster, GROUP) != -1, "a coordinator")
        victim = coordinator(cluster, GROUP)
        cluster.kill(victim)
        for _ in range(20):
            committed()
        wait_until(partial(moved, cluster, GROUP, victim), "another coordinator")
        reader = consumer(cluster, GROUP)
        found = reader.committed([TopicPartition("work", 0)], timeout=PATIENCE_S)[0].offset
        reader.close()
        assert acknowledged <= found <= offset
        cluster.restart(victim)
        cluster.wait_until_in_sync()
    member.close()


def test_members_keep_their_partitions_when_the_coordinator_dies(cluster: moldau.Cluster) -> None:
    group = "workers"
    assigned: list[str] = []
    committing = Committing()
    settings = {"heartbeat.interval.ms": 200, "partition.assignment.strategy": "roundrobin"}
    members = [
        consumer(cluster, group, on_commit=committing.note, **settings, **{"client.id": f"m{n}"}) for n in range(2)
    ]

    def note(n: int, _: Consumer, parts: list[TopicPartition]) -> None:
        assigned.append(f"{n}: {len(parts)}")

    for n, member in enumerate(members):
        member.subscribe(["work"], on_assign=partial(note, n))

    def poll() -> None:
        for member in members:
            member.poll(0.02)

    def shared() -> bool:
        poll()
        return [len(member.assignment()) for member in members] == [2, 2]

    wait_until(shared, "two partitions each")
    rounds = len(assigned)
    wait_until(lambda: coordinator(cluster, group) != -1, "the coordinator is known")
    victim = coordinator(cluster, group)
    cluster.kill(victim)

    def committed_again() -> bool:
        poll()
        own = members[0].assignment()
        if not own:
            return False
        own[0].offset = 7
        return committing.commit(members[0], own[0])

    wait_until(committed_again, "a commit under the new coordinator")
    assert shared()
    assert len(assigned) == rounds, f"the coordinator knew its group, so nobody had to join again: {assigned}"
    cluster.restart(victim)
    cluster.wait_until_in_sync()
    for member in members:
        member.close()


def test_members_read_everything_once_through_a_restart_of_every_broker(cluster: moldau.Cluster) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True})
    total, came = 300, set[int]()
    member = consumer(cluster, "rolling")
    member.subscribe(["work"])

    def read_up_to(count: int) -> bool:
        message = member.poll(0.05)
        if message is not None and message.error() is None and (value := message.value()) is not None:
            came.add(int(value))
        return len(came) >= count

    for turn, broker in enumerate((1, 2, 3), start=1):
        for n in range((turn - 1) * total // 3, turn * total // 3):
            producer.produce("work", str(n).encode())
        assert producer.flush(PATIENCE_S) == 0
        cluster.kill(broker)
        wait_until(partial(read_up_to, turn * total // 3), f"records of turn {turn}")
        cluster.restart(broker)
        cluster.wait_until_in_sync()
    assert came == set(range(total))
    member.close()
