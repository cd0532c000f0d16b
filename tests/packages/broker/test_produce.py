"""Produce: what is taken, what is refused and in which words, and what retries of idempotent producers get."""

from __future__ import annotations

import asyncio
import logging
import threading
from functools import cache, partial
from pathlib import Path

import pytest

from moldau.broker.replicas.examinations import WAITING_COST
from moldau.model import Code
from moldau.storage.truncation import Cutting
from moldau.wire.batch import build, headers, read_header
from moldau.wire.compression import Codec
from moldau.wire.messages.k00_produce import ProduceRequest
from moldau.wire.messages.k22_init_producer_id import InitProducerIdRequest
from tests.packages.broker.data_cluster import TOPIC, DataCluster, batch, records_of, run, until

NOW = 1_700_000_000_000


def test_a_retried_batch_gets_its_first_offsets_again(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1)
            first = batch(3, producer_id=4, producer_epoch=0, base_sequence=0)
            second = batch(2, producer_id=4, producer_epoch=0, base_sequence=3)
            assert (await cluster.produce(0, first)).base_offset == 0
            assert (await cluster.produce(0, second)).base_offset == 3
            assert (await cluster.produce(0, first)).base_offset == 0
            assert (await cluster.produce(0, second)).base_offset == 3
            gap = batch(1, producer_id=4, producer_epoch=0, base_sequence=9)
            assert (await cluster.produce(0, gap)).error_code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
            old = batch(1, producer_id=4, producer_epoch=1, base_sequence=0)
            assert (await cluster.produce(0, old)).base_offset == 5
            assert (await cluster.produce(0, second)).error_code == Code.INVALID_PRODUCER_EPOCH
            assert cluster.brokers[0].replica().log.log_end_offset == 6
            cluster.elect(1, (0, 1))
            assert (await cluster.produce(1, old)).base_offset == 5, "the new leader knows it too"

    run(work)


def test_a_refused_producer_is_named_in_the_brokers_log_a_few_times(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0)
            await cluster.produce(0, batch(3, producer_id=4, producer_epoch=1, base_sequence=0))
            for sequence in range(9, 29):
                await cluster.produce(0, batch(1, producer_id=4, producer_epoch=1, base_sequence=sequence))

    with caplog.at_level(logging.WARNING, "moldau.broker.replicas"):
        run(work)
    assert [one.getMessage() for one in caplog.records if "producer 4" in one.getMessage()] == [
        f"{TOPIC}-0: OUT_OF_ORDER_SEQUENCE_NUMBER for producer 4: epoch 1 and sequence {sequence} came,"
        " epoch 1 and sequence 2 are the last in the log, which ends at 3"
        for sequence in range(9, 14)
    ]


def numbered(sequence: int, producer_id: int = 4) -> bytes:
    """A batch of two records."""
    return batch(2, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)


async def told(cluster: DataCluster, *batches: bytes, node: int = 1) -> list[int]:
    """The codes of batches that are sent one after the other, over one connection."""
    return [(await cluster.produce(node, data)).error_code for data in batches]


def test_batches_behind_one_that_came_before_its_leader_led_are_sent_back_with_it_once(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1)
            assert await told(cluster, numbered(0), node=0) == [0]
            assert await told(cluster, numbered(2)) == [Code.NOT_LEADER_OR_FOLLOWER]
            cluster.elect(1, (0, 1))
            behind = numbered(4), numbered(6)
            assert await told(cluster, *behind) == [Code.NOT_LEADER_OR_FOLLOWER] * 2
            assert await told(cluster, *behind) == [Code.OUT_OF_ORDER_SEQUENCE_NUMBER] * 2, "without what they lack"
            assert await told(cluster, numbered(2), *behind) == [0, 0, 0]
            assert await told(cluster, numbered(10)) == [Code.OUT_OF_ORDER_SEQUENCE_NUMBER]
            assert cluster.brokers[1].replica().log.log_end_offset == 8

    run(work)


def test_it_does_not_matter_over_which_connection_the_batches_behind_come(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1)
            assert await told(cluster, numbered(0)) == [Code.NOT_LEADER_OR_FOLLOWER]
            cluster.elect(1, (0, 1))
            line = await cluster.connect_another(1)
            assert (await cluster.produce(1, numbered(2), over=line)).error_code == Code.NOT_LEADER_OR_FOLLOWER
            assert await told(cluster, numbered(0), numbered(2)) == [0, 0]

    run(work)


def test_a_batch_behind_one_that_was_sent_back_is_not_taken_though_its_producer_is_new(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1)
            assert await told(cluster, numbered(0), numbered(0, 5)) == [Code.NOT_LEADER_OR_FOLLOWER] * 2
            cluster.elect(1, (0, 1))
            behind = numbered(2), numbered(4)
            assert await told(cluster, *behind, numbered(2, 5)) == [Code.NOT_LEADER_OR_FOLLOWER] * 3
            assert await told(cluster, numbered(0), *behind) == [0, 0, 0]
            assert await told(cluster, numbered(2, 5)) == [0], (
                "without the one ahead it is judged as a producer's first"
            )
            assert cluster.brokers[1].replica().log.log_end_offset == 8

    run(work)


def test_a_batch_is_sent_back_behind_one_sent_back_though_the_one_between_was_refused_for_itself(
    tmp_path: Path,
) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1)
            first, second, third = numbered(0), numbered(2), numbered(4)
            assert await told(cluster, first) == [Code.NOT_LEADER_OR_FOLLOWER]
            cluster.elect(1, (0, 1))
            assert await told(cluster, second[:70] + b"?" + second[71:]) == [Code.CORRUPT_MESSAGE]
            assert await told(cluster, third) == [Code.NOT_LEADER_OR_FOLLOWER]
            assert await told(cluster, first, second, third) == [0, 0, 0]

    run(work)


def test_a_later_leader_takes_a_producer_that_it_does_not_know_from_the_middle_only_when_told_twice(
    tmp_path: Path,
) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1)
            first = "before there is no leader that the one ahead may have gone to"
            assert await told(cluster, numbered(7, 3), node=0) == [0], first
            cluster.elect(1, (0, 1))
            assert await told(cluster, numbered(0), node=0) == [Code.NOT_LEADER_OR_FOLLOWER]
            behind = numbered(2), numbered(4)
            assert await told(cluster, *behind) == [Code.NOT_LEADER_OR_FOLLOWER] * 2
            assert await told(cluster, numbered(0), *behind) == [0, 0, 0]
            assert await told(cluster, numbered(9, 5), numbered(9, 5)) == [Code.NOT_LEADER_OR_FOLLOWER, 0]
            assert not cluster.brokers[1].replicas.sequence_gaps

    run(work)


def test_a_batch_behind_one_sent_back_is_not_taken_while_producers_are_not_read_again_after_a_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut, goes_on = Cutting.run, threading.Event()

    def held(cutting: Cutting) -> None:
        assert goes_on.wait(60)
        cut(cutting)

    monkeypatch.setattr(Cutting, "run", held)

    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1)
            assert await told(cluster, numbered(0, 9), node=0) == [0]
            assert await told(cluster, numbered(0)) == [Code.NOT_LEADER_OR_FOLLOWER]
            log = cluster.brokers[1].replica().log
            log.truncate_to(log.log_end_offset - 1)
            cluster.elect(1, (0, 1))
            assert await told(cluster, numbered(0)) == [Code.KAFKA_STORAGE_ERROR], "its files are not cut yet"
            goes_on.set()
            await until(lambda: not log.awaits_cut, "the files are cut")
            assert log.known_producers is None
            assert await told(cluster, numbered(2), numbered(0)) == [Code.KAFKA_STORAGE_ERROR, 0]

    run(work)


def test_batches_that_come_to_a_new_leader_before_what_they_lack_are_sent_back_once(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1)
            assert await told(cluster, numbered(0), node=0) == [0]
            cluster.elect(1, (0, 1))
            early = numbered(4), numbered(6), numbered(10)
            assert await told(cluster, *early) == [Code.NOT_LEADER_OR_FOLLOWER] * 3
            assert await told(cluster, *early) == [Code.OUT_OF_ORDER_SEQUENCE_NUMBER] * 3, "they come alone again"
            assert await told(cluster, numbered(2), numbered(4)) == [0, 0]
            assert await told(cluster, numbered(20)) == [Code.OUT_OF_ORDER_SEQUENCE_NUMBER], (
                "the producer is known here"
            )
            assert cluster.brokers[1].replica().log.log_end_offset == 6

    run(work)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", Code.INVALID_RECORD),
        (batch() + batch(), Code.INVALID_RECORD),
        (batch(transactional=True, producer_id=1, producer_epoch=0, base_sequence=0), Code.INVALID_TXN_STATE),
        (batch()[:-1], Code.INVALID_RECORD),  # to Apache Kafka there is no batch then
        (batch()[:70] + b"?" + batch()[71:], Code.CORRUPT_MESSAGE),
        (batch(1, 2000), Code.MESSAGE_TOO_LARGE),
    ],
    ids=["nothing", "two batches", "transactional", "cut short", "flipped", "too large"],
)
def test_what_is_not_one_sound_batch_is_refused_and_leaves_nothing(tmp_path: Path, data: bytes, code: Code) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0)
            cluster.configure(max_message_bytes="1500")
            slot = await cluster.produce(0, data)
            assert (slot.error_code, slot.base_offset) == (code, -1)
            assert cluster.brokers[0].replica().log.log_end_offset == 0

    run(work)


def test_a_follower_refuses_and_names_the_leader(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1)
            slot = await cluster.produce(1, batch(), version=10)
            assert slot.error_code == Code.NOT_LEADER_OR_FOLLOWER
            assert (slot.current_leader.leader_id, slot.current_leader.leader_epoch) == (0, 0)

    run(work)


def test_too_few_in_sync_replicas_refuse_before_the_append(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1)
            cluster.configure(min_insync_replicas="2")
            cluster.kill(1)
            cluster.commit(cluster.dead(1))
            cluster.change(isr=[0])
            assert (await cluster.produce(0, batch())).error_code == Code.NOT_ENOUGH_REPLICAS
            assert (await cluster.produce(0, batch(), acks=1)).error_code == 0

    run(work)


def test_losing_the_lead_answers_who_waits_for_acknowledgement(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 3) as cluster:
            cluster.create(0, 1, 2)
            cluster.kill(2)
            waiting = asyncio.ensure_future(cluster.produce(0, batch(), timeout_ms=30_000))
            await until(lambda: cluster.brokers[0].replica().commit_waiters)
            cluster.elect(1, (0, 1))
            assert (await waiting).error_code == Code.NOT_LEADER_OR_FOLLOWER

    run(work)


def test_append_time_is_stamped_and_told(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0)
            cluster.configure(message_timestamp_type="LogAppendTime")
            slot = await cluster.produce(0, batch())
            data = await cluster.fetch(0, 0)
            ((_, header),) = headers(records_of(data))
            assert header.is_log_append_time
            assert header.max_timestamp == slot.log_append_time_ms > 1_700_000_001_000

    run(work)


def test_an_unheard_producer_is_told_of_failure_by_a_closed_connection(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0)
            line = await cluster.line(0)
            part = ProduceRequest.PartitionProduceData(index=0, records=batch())
            topic = ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[part])
            line.tell(ProduceRequest(acks=0, topic_data=[topic]), version=9)
            await until(lambda: cluster.brokers[0].replica().log.log_end_offset == 1)
            part.index = 5
            line.tell(ProduceRequest(acks=0, topic_data=[topic]), version=9)
            await until(lambda: line.closed)

    run(work)


def test_producer_ids_are_never_given_twice(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
            lines = [await cluster.line(id) for id in (0, 1)]
            answers = await asyncio.gather(*(lines[n % 2].ask(request) for n in range(2500)))
            ids = [answer.producer_id for answer in answers]
            assert len(set(ids)) == 2500
            assert {answer.producer_epoch for answer in answers} == {0}
            refused = await lines[0].ask(InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1000))
            assert refused.error_code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    run(work)


def packed(count: int, codec: Codec = Codec.GZIP) -> bytes:
    """A batch of the smallest records there are, without keys, which packs to next to nothing."""
    return build(((NOW, None, None, ()) for _ in range(count)), codec=codec)


def uneven(count: int) -> bytes:
    return build((NOW, None, b"v" * (number % 7), ()) for number in range(count))


FIRST = {
    "packed": partial(packed, 200_000),
    "uneven": partial(uneven, 20_000),
    "packed with zstd": partial(packed, 200_000, Codec.ZSTD),
}
"""Built by the tests: that takes a second and a half, which each process that collects them would take as well."""


@cache
def first_batch(kind: str) -> bytes:
    """Return one of ``FIRST``, which is built once."""
    return FIRST[kind]()


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("kind", FIRST)
def test_batches_of_a_partition_keep_their_order_while_one_is_examined(tmp_path: Path, kind: str, acks: int) -> None:
    first = first_batch(kind)

    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0)
            examinations = cluster.brokers[0].replicas.examinations
            count = read_header(first).count
            one = asyncio.ensure_future(cluster.produce(0, first, acks=acks))
            await until(lambda: len(examinations) == 1, "the first batch is examined in parts")
            memory = cluster.brokers[0].request_memory
            assert memory.request_bytes >= len(first), "what waits counts: else 256 MB did, of clients that pipeline"
            two = asyncio.ensure_future(cluster.produce(0, batch(2), acks=acks))
            assert (await one).base_offset == 0
            assert (await two).base_offset == count
            assert len(examinations) == 0
            assert memory.request_bytes == 0
            assert cluster.brokers[0].replica().log.log_end_offset == count + 2

    run(work)


def test_a_long_batch_is_refused_after_it_was_examined_and_names_its_records(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0)
            cluster.configure(cleanup_policy="compact")
            slot = await cluster.produce(0, uneven(20_000), version=9)
            assert slot.error_code == Code.INVALID_RECORD
            assert [error.batch_index for error in slot.record_errors] == list(range(1000))
            keyed = build([(NOW, b"k", b"", ()), (NOW, None, b"", ())])
            slot = await cluster.produce(0, keyed, version=9)
            assert [error.batch_index for error in slot.record_errors] == [1]
            assert "without key" in slot.record_errors[0].batch_index_error_message

    run(work)


def test_a_replica_that_no_longer_leads_takes_nothing_that_was_examined_meanwhile(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1)
            examinations = cluster.brokers[0].replicas.examinations
            one = asyncio.ensure_future(cluster.produce(0, uneven(60_000)))
            await until(lambda: len(examinations) == 1, "the batch is examined in parts")
            cluster.elect(1, (0, 1))
            assert (await one).error_code == Code.NOT_LEADER_OR_FOLLOWER
            assert cluster.brokers[0].replica().log.log_end_offset == 0

    run(work)


def test_nobody_else_waits_while_a_bomb_is_taken_apart(tmp_path: Path) -> None:
    """Another client's requests are answered between the parts of a batch that is examined."""

    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0, partitions=2)
            one = asyncio.ensure_future(cluster.produce(0, uneven(60_000)))
            await until(lambda: len(cluster.brokers[0].replicas.examinations) == 1, "the first batch is examined")
            first_line = cluster.lines.pop(0)  # answers of one connection keep their order: another one asks
            answered = 0
            while not one.done():
                assert (await cluster.produce(0, batch(), number=1)).error_code == Code.NONE
                answered += 1
            assert (await one).error_code == Code.NONE
            assert answered > 10
            first_line.close()

    run(work)


def test_many_long_batches_of_one_client_hold_up_no_long_batch_of_another(tmp_path: Path) -> None:
    """All waited in one line, whosever they were: sixty of 0.8 s each held up all others for half a minute and more."""

    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0, partitions=2)
            examinations = cluster.brokers[0].replicas.examinations
            greedy = await cluster.connect_another(0)
            long = uneven(60_000)
            many = [asyncio.ensure_future(cluster.produce(0, long, over=greedy)) for _ in range(8)]
            await until(lambda: len(examinations) == 8, "they wait")
            assert (await cluster.produce(0, uneven(20_000), number=1)).error_code == Code.NONE
            assert not many[2].done(), "two of the other's may have been examined meanwhile"
            assert [(await one).base_offset for one in many] == [60_000 * number for number in range(8)]

    run(work)


@pytest.mark.parametrize("acks", [0, 1])
def test_what_a_lost_connection_left_to_be_examined_is_appended_only_where_nobody_was_to_be_told(
    tmp_path: Path, acks: int
) -> None:
    """Batches of clients that were gone kept others from being taken for half a minute."""

    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0)
            broker = cluster.brokers[0]
            examinations = broker.replicas.examinations
            line = await cluster.connect_another(0)
            long = uneven(60_000)
            many = [asyncio.ensure_future(cluster.produce(0, long, acks=acks, over=line)) for _ in range(4)]
            await until(lambda: len(examinations) == 4, "they wait")
            line.close()
            await until(lambda: len(examinations) == 0, "none is left")
            assert broker.request_memory.request_bytes == 0
            taken = broker.replica().log.log_end_offset // 60_000
            assert taken == 4 if acks == 0 else taken < 2, "the one that was being examined"
            await asyncio.gather(*many, return_exceptions=True)

    run(work)


def test_small_batches_behind_a_long_one_are_counted_with_what_each_takes_beside_its_bytes(tmp_path: Path) -> None:
    """180,000 of 69 bytes took half a gigabyte, and counted as 28 MB."""

    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0)
            broker = cluster.brokers[0]
            examinations = broker.replicas.examinations
            first = asyncio.ensure_future(cluster.produce(0, uneven(60_000)))
            await until(lambda: len(examinations) == 1, "the first batch is examined")
            before = broker.request_memory.request_bytes
            others = [asyncio.ensure_future(cluster.produce(0, batch())) for _ in range(20)]
            await until(lambda: len(examinations) == 21 or first.done(), "the others wait behind it")
            if not first.done():
                assert broker.request_memory.request_bytes - before > 20 * WAITING_COST
            await asyncio.gather(first, *others)
            assert broker.request_memory.request_bytes == 0

    run(work)
