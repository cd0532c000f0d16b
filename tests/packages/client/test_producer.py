"""The producer against scripted brokers: batching, order, and exactly once through every kind of mischief."""

from __future__ import annotations

import asyncio
import gc
import random
import warnings

import kafka.partitioner.default as kafka_default
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client.client import Client, ClientOptions
from moldau.client.partitioner import murmur2, partition_of
from moldau.client.producer import BufferFull, Producer, ProducerOptions
from moldau.client.world_lines import WorldLines
from moldau.model import Code, TopicPartition
from moldau.ports import World
from moldau.wire import batch
from moldau.wire.compression import Codec
from moldau.wire.messages.k00_produce import ProduceRequest, ProduceResponse
from tests.packages.client.fake_broker import HANG_UP, run, until
from tests.packages.client.mini_cluster import MiniCluster

QUICK = ClientOptions(api_timeout_ms=60_000, retry_backoff_ms=2, retry_backoff_max_ms=10)


def scene_with(nodes, topics, play, **options):
    async def scene(world):
        cluster = await MiniCluster(nodes, topics).start()
        client = Client(WorldLines(world), cluster.bootstrap, QUICK)
        producer = Producer(client, ProducerOptions(**options))
        assert await producer.prepare("t") is Code.NONE
        await play(cluster, producer)
        await producer.close()
        client.close()
        await cluster.stop()

    run(scene)


@given(st.binary(max_size=60))
def test_keys_hash_as_in_other_clients(key):
    theirs = kafka_default.murmur2(key)
    assert murmur2(key) == theirs & 0xFFFFFFFF


def test_keys_hash_to_what_kafkas_own_tests_expect():
    known = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536, b"": 275646681}
    assert {key: (murmur2(key) ^ 1 << 31) - (1 << 31) for key in known} == known
    assert all(0 <= partition_of(key, 7) < 7 for key in known)


def test_records_are_batched_ordered_and_told_their_offsets():
    async def play(cluster, producer):
        sent = [producer.send("t", b"%d" % i, partition=i % 3, headers=[("h", b"x")]) for i in range(600)]
        await producer.flush()
        for i, delivery in enumerate(sent):
            written = await delivery
            assert (written.code, written.base_offset) == (Code.NONE, i // 3)
        for p in range(3):
            assert cluster.logs[TopicPartition("t", p)].values == [b"%d" % i for i in range(600) if i % 3 == p]
        assert len([name for _, name in cluster.asked if name == "Produce"]) <= 9

    scene_with(3, {"t": 3}, play, linger_ms=1)


def test_lingering_sends_without_anybody_waiting():
    async def play(cluster, producer):
        written = await producer.send("t", b"alone", b"key", timestamp_ms=5)
        assert written.code is Code.NONE
        partition = partition_of(b"key", 2)
        (record,) = batch.records(cluster.logs[TopicPartition("t", partition)].batches[0])
        assert (record.timestamp, record.key, record.value) == (5, b"key", b"alone")

    scene_with(1, {"t": 2}, play, linger_ms=3)


class NeverBegin:
    """Tasks that end before their first step, as when a loop stops."""

    def __init__(self, tasks):
        self.call_soon, self.call_later, self.off_loop = tasks.call_soon, tasks.call_later, tasks.off_loop
        self.spawned = []

    def spawn(self, work, name):
        self.spawned.append(name)
        work.close()


def test_a_delivery_that_never_begins_leaves_no_coroutine_behind():
    async def scene(world):
        cluster = await MiniCluster(1, {"t": 1}).start()
        client = Client(WorldLines(world), cluster.bootstrap, QUICK)
        producer = Producer(client, ProducerOptions(linger_ms=0))
        assert await producer.prepare("t") is Code.NONE
        tasks = NeverBegin(world.tasks)
        producer._world = World(clock=world.clock, random=world.random, disk=world.disk, net=world.net, tasks=tasks)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            producer.send("t", b"x")
            await until(lambda: tasks.spawned == ["produce"])
            gc.collect()
        assert [one for one in told if "never awaited" in str(one.message)] == []
        client.close()
        await cluster.stop()

    run(scene)


@pytest.mark.parametrize("codec", Codec)
def test_batches_are_closed_when_full_and_packed_as_asked(codec):
    async def play(cluster, producer):
        for i in range(100):
            producer.send("t", b"%03d" % i * 100, partition=0)
        await producer.flush()
        log = cluster.logs[TopicPartition("t", 0)]
        assert [value[:3] for value in log.values] == [b"%03d" % i for i in range(100)]
        assert len(log.batches) >= 7
        assert {batch.read_header(data).codec for data in log.batches} == {codec}

    scene_with(1, {"t": 1}, play, batch_bytes=4_000, codec=codec)


def test_records_without_a_key_stay_together_and_move_on():
    async def play(cluster, producer):
        for _ in range(40):
            one = {producer.send("t", b"x").partition for _ in range(20)}
            assert len(one) == 1
            await producer.flush()
        used = [p for p in range(8) if cluster.logs[TopicPartition("t", p)].values]
        assert len(used) > 3

    scene_with(1, {"t": 8}, play, linger_ms=50)


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_each_record_is_in_the_log_once_and_in_order(seed):
    rng = random.Random(seed)
    calm = False

    def mischief(node, message, serve):
        if calm or not isinstance(message, ProduceRequest) or rng.random() < 0.5:
            if not calm and rng.random() < 0.05:
                return HANG_UP
            return None
        how = rng.choice(["lost before", "lost after", "moved", "late", "few", "stale"])
        if how == "lost before":
            return HANG_UP
        if how == "moved":
            for topic in message.topic_data:
                for part in topic.partition_data:
                    cluster.move(TopicPartition("t", part.index), rng.randrange(3))
            return None
        if how == "stale":
            return _all_say(message, Code.NOT_LEADER_OR_FOLLOWER)
        serve()
        if how == "lost after":
            return HANG_UP
        return _all_say(message, Code.REQUEST_TIMED_OUT if how == "late" else Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    async def play(mini, producer):
        nonlocal calm, cluster
        cluster = mini
        cluster.mischief = mischief
        sent = []
        for i in range(400):
            sent.append(producer.send("t", b"%d" % i, partition=i % 4))
            if not rng.randrange(20):
                await asyncio.sleep(0.002)
        await asyncio.sleep(0.2)
        calm = True
        await producer.flush()
        for delivery in sent:
            assert (await delivery).code is Code.NONE
        for p in range(4):
            assert cluster.logs[TopicPartition("t", p)].values == [b"%d" % i for i in range(400) if i % 4 == p]

    cluster = None
    scene_with(3, {"t": 4}, play, linger_ms=0, batch_bytes=300)


def _all_say(message, code):
    kind = ProduceResponse
    return kind(
        responses=[
            kind.TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id,
                partition_responses=[
                    kind.PartitionProduceResponse(index=p.index, error_code=code) for p in topic.partition_data
                ],
            )
            for topic in message.topic_data
        ]
    )  # fmt: skip


def test_a_refused_batch_tells_its_records_and_the_next_goes_on_under_a_new_id():
    async def play(cluster, producer):
        assert (await producer.send("t", b"one", partition=0)).code is Code.NONE
        cluster.mischief = lambda n, m, s: (
            _all_say(m, Code.MESSAGE_TOO_LARGE) if isinstance(m, ProduceRequest) else None
        )
        assert (await producer.send("t", b"too large", partition=0)).code is Code.MESSAGE_TOO_LARGE
        cluster.mischief = lambda n, m, s: None
        assert (await producer.send("t", b"two", partition=0)).code is Code.NONE
        log = cluster.logs[TopicPartition("t", 0)]
        assert log.values == [b"one", b"two"]
        ids = [batch.read_header(data).producer_id for data in log.batches]
        assert ids[0] != ids[1]

    scene_with(1, {"t": 1}, play, linger_ms=0)


def test_a_batch_of_a_deposed_leader_is_not_written_again_under_a_new_id():
    async def play(cluster, producer):
        await producer.send("t", b"first", partition=1)
        refused = []

        def mischief(node, message, serve):
            if not isinstance(message, ProduceRequest):
                return None
            if message.topic_data[0].partition_data[0].index == 1 and not refused:
                refused.append(message)
                return _all_say(message, Code.MESSAGE_TOO_LARGE)  # for which the producer takes another id
            if not refused:
                serve()  # appended: the next leader has it
                return _all_say(message, Code.NOT_LEADER_OR_FOLLOWER)
            return None

        cluster.mischief = mischief
        zero = producer.send("t", b"zero", partition=0)
        await until(lambda: cluster.logs[TopicPartition("t", 0)].values)
        assert (await producer.send("t", b"large", partition=1)).code is Code.MESSAGE_TOO_LARGE
        assert (await zero).code is Code.NONE
        assert cluster.logs[TopicPartition("t", 0)].values == [b"zero"]

    scene_with(2, {"t": 2}, play, linger_ms=0)


def test_a_producer_the_broker_forgot_goes_on_under_a_new_id_without_losing_a_record():
    async def play(cluster, producer):
        for i in range(3):
            await producer.send("t", b"%d" % i, partition=0)
        cluster.logs[TopicPartition("t", 0)].sequences.clear()
        written = await producer.send("t", b"3", partition=0)
        assert (written.code, written.base_offset) == (Code.NONE, 3)
        assert cluster.logs[TopicPartition("t", 0)].values == [b"0", b"1", b"2", b"3"]

    scene_with(1, {"t": 1}, play, linger_ms=0)


def test_a_batch_whose_time_is_over_is_given_up():
    async def play(cluster, producer):
        cluster.mischief = lambda n, m, s: HANG_UP if isinstance(m, ProduceRequest) else None
        written = await producer.send("t", b"late", partition=0)
        assert written.code is Code.NETWORK_EXCEPTION

    scene_with(1, {"t": 1}, play, linger_ms=0, delivery_timeout_ms=60)


def test_too_much_waiting_is_refused_until_there_is_room():
    async def play(cluster, producer):
        gate = asyncio.get_running_loop().create_future()

        async def later(serve):
            await gate
            return serve()

        cluster.mischief = lambda n, m, s: later(s) if isinstance(m, ProduceRequest) else None
        for _ in range(28):
            producer.send("t", bytes(100), partition=0)
        with pytest.raises(BufferFull):
            producer.send("t", bytes(100), partition=0)
        waiting = asyncio.ensure_future(producer.room())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        gate.set_result(None)
        await waiting
        producer.send("t", b"fits", partition=0)
        await producer.flush()
        assert cluster.logs[TopicPartition("t", 0)].values[-1] == b"fits"

    scene_with(1, {"t": 1}, play, buffer_bytes=3_000)


@pytest.mark.parametrize("acks", [0, 1])
def test_a_producer_that_is_not_idempotent_sends_without_an_id(acks):
    async def play(cluster, producer):
        written = await producer.send("t", b"x", partition=0)
        assert written.code is Code.NONE
        log = cluster.logs[TopicPartition("t", 0)]
        await until(lambda: log.batches)
        head = batch.read_header(log.batches[0])
        assert (head.producer_id, head.base_sequence) == (-1, -1)
        assert ("InitProducerId") not in [name for _, name in cluster.asked]

    scene_with(1, {"t": 1}, play, idempotent=False, acks=acks, linger_ms=0)


def test_without_an_id_a_doubtful_batch_is_not_sent_twice():
    async def play(cluster, producer):
        def lose(n, m, serve):
            if isinstance(m, ProduceRequest):
                serve()
                return HANG_UP
            return None

        cluster.mischief = lose
        assert (await producer.send("t", b"x", partition=0)).code is Code.NETWORK_EXCEPTION
        assert cluster.logs[TopicPartition("t", 0)].values == [b"x"]

    scene_with(1, {"t": 1}, play, idempotent=False, linger_ms=0)


def test_a_producer_that_is_abandoned_begins_nothing_more():
    """Another one, begun later, has written by the time that this one would have sent."""

    async def play(cluster, producer):
        left = Producer(producer.client, producer.options)
        assert await left.prepare("t") is Code.NONE
        left.send("t", b"waits")
        left.abandon()
        left.send("t", b"comes late")
        assert (await producer.send("t", b"told")).code is Code.NONE
        assert cluster.logs[TopicPartition("t", 0)].values == [b"told"]

    scene_with(1, {"t": 1}, play, linger_ms=5)


def test_sending_to_a_topic_never_prepared_is_an_error_of_the_caller():
    async def play(cluster, producer):
        with pytest.raises(KeyError):
            producer.send("unknown", b"x")
        assert await producer.prepare("unknown") is Code.UNKNOWN_TOPIC_OR_PARTITION

    scene_with(1, {"t": 1}, play)
