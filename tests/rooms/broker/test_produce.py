"""Produce: what is taken, what is refused and in which words, and what retries of idempotent producers get."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from moldau.terms import Code
from moldau.wire.batch import headers
from moldau.wire.messages.k00_produce import ProduceRequest
from moldau.wire.messages.k22_init_producer_id import InitProducerIdRequest
from tests.rooms.broker.data_cluster import TOPIC, DataCluster, batch, run, until


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


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", Code.INVALID_RECORD),
        (batch() + batch(), Code.INVALID_RECORD),
        (batch(transactional=True, producer_id=1, producer_epoch=0, base_sequence=0), Code.INVALID_TXN_STATE),
        (batch()[:-1], Code.CORRUPT_MESSAGE),
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
            await until(lambda: cluster.brokers[0].replica().promises)
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
            ((_, header),) = headers(data.records)
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
            assert refused.error_code == Code.UNSUPPORTED_VERSION

    run(work)
