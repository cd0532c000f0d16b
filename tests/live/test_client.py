"""Moldau's own client against a live cluster: administration, both ways of waiting, groups, once through a kill.

Read next: src/moldau/client/__init__.py, tests/packages/client (the same client against scripted brokers).
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer as ForeignProducer
from foreign import create_topic, read_confluent
from kafka_peer import KafkaPeer, wait_until
from test_foreign_groups import Member as ForeignMember

from moldau.client import admin, groups
from moldau.client.admin import AlterOp, NewTopic, Resource, ResourceType
from moldau.client.client import Client
from moldau.client.consumer import Consumer, ConsumerOptions
from moldau.client.membership import GroupOptions
from moldau.client.producer import Delivery, Producer, ProducerOptions
from moldau.client.reading import EARLIEST, LATEST, READ_COMMITTED, FetchOptions, visible
from moldau.client.sync import Cluster
from moldau.client.world_lines import WorldLines
from moldau.model import Code, TopicPartition
from moldau.runtime.world import new_loop, real_world
from moldau.wire import batch
from moldau.wire.compression import Codec

Fresh = Callable[[str], str]


@pytest.fixture
def cluster(bootstrap_servers: str) -> Iterator[Cluster]:
    with Cluster(bootstrap_servers) as cluster:
        yield cluster


def on_a_loop(bootstrap: str, scene: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
    loop = new_loop()
    failures: list[BaseException] = []

    async def play() -> None:
        client = Client(WorldLines(real_world(loop, lambda name, error: failures.append(error))), bootstrap)
        try:
            await asyncio.wait_for(scene(client), 240)
        finally:
            client.close()

    try:
        loop.run_until_complete(play())
    finally:
        loop.close()
    assert not failures, failures


def read_all(cluster: Cluster, topic: str, isolation: int = 0) -> list[bytes | None]:
    wait_until(lambda: cluster.topics([topic]), "the topic is known to the broker that we ask")
    partitions = [TopicPartition(topic, index) for index in cluster.topics([topic])[topic].partitions]
    ends = cluster.offsets(dict.fromkeys(partitions, LATEST), isolation=isolation)
    values = []
    for partition in partitions:
        for got in cluster.fetch_range(partition, 0, ends[partition].offset, FetchOptions(isolation=isolation)):
            assert got.code is Code.NONE
            values += [r.value for r in visible(got, 0, isolation=isolation)]
    return values


def test_topics_are_made_described_changed_and_deleted(cluster: Cluster, fresh: Fresh) -> None:
    name = fresh("made")
    run, client = cluster.run, cluster.client
    made = run(admin.create_topics(client, [
        NewTopic(name=name, partitions=2, replication_factor=3, configs={"retention.ms": "77000"}),
        NewTopic(name="not a name", partitions=1),
    ]))  # fmt: skip
    assert (made[name].code, made["not a name"].code) == (Code.NONE, Code.INVALID_TOPIC_EXCEPTION)
    wait_until(lambda: name in cluster.topics([name]), "the topic is known")
    assert cluster.topics([name])[name].topic_id == made[name].topic_id
    resource = Resource(ResourceType.TOPIC, name)
    changed = run(admin.alter_configs(client, {resource: [("retention.ms", AlterOp.SET, "88000")]}))
    assert changed[resource].ok
    wait_until(
        lambda: run(admin.describe_configs(client, [resource]))[resource][1]["retention.ms"].value == "88000",
        "the change is seen",
    )
    assert run(admin.create_partitions(client, {name: 3}))[name].ok
    wait_until(lambda: len(cluster.topics([name])[name].partitions) == 3, "there is a third partition")
    assert run(admin.delete_topics(client, [name]))[name].ok
    wait_until(lambda: not cluster.topics([name]), "the topic is gone")


@pytest.mark.of_quorum("it has none to tell of")
def test_a_cluster_tells_its_brokers_its_quorum_and_its_log_dirs(cluster: Cluster, live_cluster: KafkaPeer) -> None:
    def voters() -> set[int]:
        outcome, quorum = cluster.run(admin.describe_quorum(cluster.client))
        return {voter.replica_id for voter in quorum.current_voters} if outcome.ok and quorum is not None else set()

    wait_until(lambda: voters() == set(live_cluster.ports), "the quorum tells its voters")
    wait_until(lambda: set(cluster.brokers()) == set(live_cluster.ports), "all brokers live")
    dirs = cluster.run(admin.describe_log_dirs(cluster.client))
    assert set(dirs) == set(live_cluster.ports)
    shown = cluster.run(admin.describe_cluster(cluster.client))
    assert shown.cluster_id == cluster.cluster_id()


def test_records_are_deleted_up_to_an_offset(cluster: Cluster, bootstrap_servers: str, fresh: Fresh) -> None:
    partition = TopicPartition(fresh("shortened"), 0)
    create_topic(bootstrap_servers, partition.topic)
    cluster.produce(partition, batch.build([(1, None, b"%d" % i, []) for i in range(10)]))
    assert cluster.run(admin.delete_records(cluster.client, {partition: 4})) == {partition: (Code.NONE, 4)}
    assert cluster.offsets({partition: EARLIEST})[partition].offset == 4
    assert cluster.fetch(partition, 0).code is Code.OFFSET_OUT_OF_RANGE


def test_offsets_are_found_by_time(cluster: Cluster, bootstrap_servers: str, fresh: Fresh) -> None:
    partition = TopicPartition(fresh("timed"), 0)
    create_topic(bootstrap_servers, partition.topic)
    start = int(time.time() * 1000)
    for i in range(5):
        cluster.produce(partition, batch.build([(start + 10 * i + j, None, b"x", []) for j in range(3)]))
    for timestamp, offset in ((start, 0), (start + 11, 4), (start + 13, 6), (start + 1_000_000, -1), (LATEST, 15)):
        assert cluster.offsets({partition: timestamp})[partition].offset == offset


@pytest.mark.parametrize("codec", Codec)
def test_what_our_producer_writes_foreign_clients_and_we_read(
    cluster: Cluster, bootstrap_servers: str, fresh: Fresh, codec: Codec
) -> None:
    topic = fresh("ours")
    create_topic(bootstrap_servers, topic, partitions=3)
    sent = [(b"key %d" % (i % 50), b"value %d" % i) for i in range(3_000)]

    async def scene(client: Client) -> None:
        producer = Producer(client, ProducerOptions(codec=codec, batch_bytes=8_000))
        assert await producer.prepare(topic) is Code.NONE
        deliveries = [producer.send(topic, value, key) for key, value in sent]
        await producer.close()
        for delivery in deliveries:
            assert (await delivery).code is Code.NONE

    on_a_loop(bootstrap_servers, scene)
    assert Counter(read_all(cluster, topic)) == Counter(value for _, value in sent)
    assert Counter(read_confluent(bootstrap_servers, topic, len(sent))) == Counter(sent)


def test_aborted_records_are_not_visible_to_read_committed(fresh: Fresh) -> None:
    """On Apache Kafka whatever the system under test is: Moldau has no transactions to write them with."""
    with KafkaPeer(nodes=1) as peer, Cluster(peer.bootstrap_servers) as cluster:
        topic = fresh("transactional")
        create_topic(peer.bootstrap_servers, topic, rf=1)
        foreign = ForeignProducer({"bootstrap.servers": peer.bootstrap_servers, "transactional.id": topic})
        foreign.init_transactions(120)
        for name, keep in ((b"kept", True), (b"dropped", False), (b"last", True)):
            foreign.begin_transaction()
            for i in range(3):
                foreign.produce(topic, b"%s %d" % (name, i), partition=0)
            foreign.flush(120)
            if keep:
                foreign.commit_transaction(120)
            else:
                foreign.abort_transaction(120)
        kept = [b"%s %d" % (name, i) for name in (b"kept", b"last") for i in range(3)]
        partition = TopicPartition(topic, 0)
        wait_until(  # a commit is answered before its markers are in the log
            lambda: cluster.offsets({partition: LATEST}, isolation=READ_COMMITTED)[partition].offset == 12,
            "the last transaction is over",
        )
        assert read_all(cluster, topic, READ_COMMITTED) == kept
        assert len(read_all(cluster, topic)) == 9


class OurMember(threading.Thread):
    """A consumer on blocking lines in a thread of its own, as a script would run one."""

    def __init__(self, bootstrap: str, group: str, topic: str, assignor: str) -> None:
        super().__init__(daemon=True)
        self.values: list[bytes | None] = []
        self.assigned: frozenset[TopicPartition] = frozenset()
        self.revoked: list[frozenset[TopicPartition]] = []
        self.error: BaseException | None = None
        self._what = (bootstrap, group, topic, assignor)
        self._over = threading.Event()

    def run(self) -> None:
        bootstrap, group, topic, assignor = self._what
        options = GroupOptions(
            group_id=group, assignors=(assignor,), heartbeat_interval_ms=200, session_timeout_ms=45_000
        )
        try:
            with Cluster(bootstrap) as cluster:
                consumer = Consumer(cluster.client, ConsumerOptions(group=options, reset=EARLIEST, max_wait_ms=50))
                consumer.on_revoked = self.revoked.append
                cluster.run(consumer.subscribe([topic]))
                while not self._over.is_set():
                    for chunk in cluster.run(consumer.poll(100)):
                        self.values += [r.value for r in chunk.records()]
                    self.assigned = consumer.assignment
                cluster.run(consumer.close())
        except BaseException as error:
            self.error = error

    def finish(self) -> None:
        self._over.set()
        self.join(120)
        assert not self.is_alive()
        assert self.error is None, self.error


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky"])
def test_members_share_hand_over_and_lose_nothing(
    cluster: Cluster, bootstrap_servers: str, fresh: Fresh, assignor: str
) -> None:
    topic, group = fresh("shared"), fresh("group")
    create_topic(bootstrap_servers, topic, partitions=4)
    wanted = []
    for index in range(4):
        for i in range(5):
            wanted.append(b"%d-%d" % (index, i))
            cluster.produce(TopicPartition(topic, index), batch.build([(1, None, wanted[-1], [])]))
    first, second = (OurMember(bootstrap_servers, group, topic, assignor) for _ in range(2))
    first.start()
    wait_until(lambda: len(first.values) == 20, "the first reads everything")
    second.start()
    wait_until(lambda: (len(first.assigned), len(second.assigned)) == (2, 2), "both have a half")
    assert not first.assigned & second.assigned
    if assignor == "cooperative-sticky":
        assert first.revoked == [second.assigned]

    def described() -> tuple[str, str, int]:
        found = cluster.run(groups.describe_groups(cluster.client, [group]))[group]
        return found.group_state, found.protocol_data, len(found.members)

    wait_until(lambda: described() == ("Stable", assignor, 2), "the coordinator says so")
    first.finish()
    wait_until(lambda: len(second.assigned) == 4, "the second has everything")
    cluster.produce(TopicPartition(topic, 0), batch.build([(1, None, b"late", [])]))
    wait_until(lambda: b"late" in second.values, "the second reads on")
    second.finish()
    assert Counter(first.values + second.values) == Counter([*wanted, b"late"])
    assert {p.partition: c.offset for p, c in cluster.committed(group).items()} == {0: 6, 1: 5, 2: 5, 3: 5}
    assert cluster.run(groups.delete_groups(cluster.client, [group]))[group].ok


def test_we_share_a_group_with_librdkafka(bootstrap_servers: str, fresh: Fresh) -> None:
    topic, group = fresh("mixed"), fresh("mixed-group")
    create_topic(bootstrap_servers, topic, partitions=4)
    ours = OurMember(bootstrap_servers, group, topic, "range")
    ours.start()
    wait_until(lambda: len(ours.assigned) == 4, "we are alone")
    theirs = ForeignMember(bootstrap_servers, group, topic, partition_assignment_strategy="range")
    try:

        def shared() -> bool:
            theirs.consumer.poll(0.1)
            return (len(ours.assigned), len(theirs.consumer.assignment())) == (2, 2)

        wait_until(shared, "both have a half")
    finally:
        theirs.consumer.close()
    wait_until(lambda: len(ours.assigned) == 4, "we are alone again")
    ours.finish()


def test_every_acknowledged_record_is_there_once_after_its_leader_was_killed(
    cluster: Cluster, live_cluster: KafkaPeer, bootstrap_servers: str, fresh: Fresh
) -> None:
    topic = fresh("survivor")
    create_topic(bootstrap_servers, topic, partitions=3, min_insync_replicas="2")
    victim = cluster.topics([topic])[topic].partitions[0].leader
    sent: list[tuple[bytes, Delivery]] = []

    async def scene(client: Client) -> None:
        producer = Producer(client, ProducerOptions(batch_bytes=4_000))
        await producer.prepare(topic)
        loop = asyncio.get_running_loop()
        killed = None
        started = loop.time()
        while killed is None or loop.time() < started + 6:
            for _ in range(50):
                value = b"%d" % len(sent)
                sent.append((value, producer.send(topic, value, value)))
            await asyncio.sleep(0.01)
            if killed is None and loop.time() > started + 1.5:
                killed = loop.run_in_executor(None, live_cluster.kill, victim)
        assert killed is not None
        await killed
        await producer.close()
        for value, delivery in sent:
            assert (await delivery).code is Code.NONE, value

    try:
        on_a_loop(bootstrap_servers, scene)
        assert Counter(read_all(cluster, topic)) == Counter(value for value, _ in sent)
    finally:
        live_cluster.restart(victim)
