"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""

from __future__ import annotations

import asyncio
import zlib
from pathlib import Path
from typing import Any

import pytest

from moldau.model import Code
from moldau.wire.crc import crc32c
from moldau.wire.messages.k02_list_offsets import ListOffsetsRequest
from moldau.wire.messages.k21_delete_records import DeleteRecordsRequest
from moldau.wire.messages.k23_offset_for_leader_epoch import OffsetForLeaderEpochRequest
from tests.packages.broker.data_cluster import TOPIC, DataCluster, batch, run, until


async def list_offset(
    cluster: DataCluster, timestamp: int, version: int = 10, id: int = 0, epoch: int = -1
) -> tuple[int, int, int, int]:
    part = ListOffsetsRequest.ListOffsetsPartition(timestamp=timestamp, current_leader_epoch=epoch)
    topic = ListOffsetsRequest.ListOffsetsTopic(name=TOPIC, partitions=[part])
    response = await cluster.ask(id, ListOffsetsRequest(replica_id=-1, topics=[topic]), version)
    slot = response.topics[0].partitions[0]
    return slot.error_code, slot.timestamp, slot.offset, slot.leader_epoch


async def delete(cluster: DataCluster, offset: int, timeout_ms: int = 20_000) -> tuple[int, int]:
    part = DeleteRecordsRequest.DeleteRecordsPartition(offset=offset)
    topic = DeleteRecordsRequest.DeleteRecordsTopic(name=TOPIC, partitions=[part])
    response = await cluster.ask(0, DeleteRecordsRequest(topics=[topic], timeout_ms=timeout_ms))
    slot = response.topics[0].partitions[0]
    return slot.error_code, slot.low_watermark


def test_earliest_latest_newest_and_by_time(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1)
            await cluster.produce(0, batch(10))
            assert await list_offset(cluster, -1) == (0, -1, 10, 0)
            assert await list_offset(cluster, -2) == (0, -1, 0, 0)
            assert await list_offset(cluster, -3) == (0, 1_700_000_000_009, 9, 0)
            assert await list_offset(cluster, -4) == (0, -1, 0, 0)
            assert await list_offset(cluster, -5) == (0, -1, -1, -1)
            assert await list_offset(cluster, 1_700_000_000_004) == (0, 1_700_000_000_004, 4, 0)
            assert await list_offset(cluster, 1_800_000_000_000) == (0, -1, -1, -1)
            assert (await list_offset(cluster, -3, version=6))[0] == Code.UNSUPPORTED_VERSION
            assert (await list_offset(cluster, -1, epoch=3))[0] == Code.UNKNOWN_LEADER_EPOCH
            assert (await list_offset(cluster, -1, id=1))[0] == Code.NOT_LEADER_OR_FOLLOWER

    run(work)


@pytest.mark.parametrize(("version", "code"), [(4, Code.LEADER_NOT_AVAILABLE), (5, Code.OFFSET_NOT_AVAILABLE)])
def test_a_new_leader_shows_no_end_before_its_watermark_covers_its_epoch(
    tmp_path: Path, version: int, code: Code
) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1)
            await cluster.produce(0, batch(4))
            cluster.kill(1)
            await cluster.produce(0, batch(2), acks=1)
            cluster.elect(0, (0, 1))
            assert (await list_offset(cluster, -1, version))[0] == code
            await cluster.boot(1)
            await until(lambda: cluster.brokers[0].replica().machine.high_watermark == 6)
            assert (await list_offset(cluster, -1, version))[2] == 6

    run(work)


def test_the_end_of_an_epoch_is_told(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1)
            await cluster.produce(0, batch(4))
            cluster.elect(1, (0, 1))
            await cluster.produce(1, batch(3))
            ask = OffsetForLeaderEpochRequest

            async def end(id: int, current: int, epoch: int) -> tuple[Any, ...]:
                part = ask.OffsetForLeaderPartition(current_leader_epoch=current, leader_epoch=epoch)
                topic = ask.OffsetForLeaderTopic(topic=TOPIC, partitions=[part])
                slot = (await cluster.ask(id, ask(replica_id=-1, topics=[topic]))).topics[0].partitions[0]
                return slot.error_code, slot.leader_epoch, slot.end_offset

            assert await end(1, 1, 0) == (0, 0, 4)
            assert await end(1, 1, 1) == (0, 1, 7)
            assert await end(1, 0, 0) == (Code.FENCED_LEADER_EPOCH, -1, -1)
            assert await end(0, 1, 0) == (Code.NOT_LEADER_OR_FOLLOWER, -1, -1)

    run(work)


def test_deleted_records_are_gone_from_every_replica_when_it_is_answered(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 3) as cluster:
            cluster.create(0, 1, 2)
            for _ in range(4):
                await cluster.produce(0, batch(5))
            assert await delete(cluster, 7) == (0, 7)
            assert [broker.replica().log.log_start_offset for broker in cluster.live.values()] == [7, 7, 7]
            assert (await cluster.fetch(0, 6)).error_code == Code.OFFSET_OUT_OF_RANGE
            assert (await cluster.fetch(0, 7)).log_start_offset == 7
            assert await delete(cluster, -1) == (0, 20)
            assert (await delete(cluster, 21))[0] == Code.OFFSET_OUT_OF_RANGE
            cluster.configure(cleanup_policy="compact")
            assert (await delete(cluster, 20))[0] == Code.POLICY_VIOLATION

    run(work)


def test_a_deletion_that_a_follower_does_not_follow_times_out(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1)
            await cluster.produce(0, batch(5))
            cluster.kill(1)
            assert (await delete(cluster, 5, timeout_ms=30))[0] == Code.REQUEST_TIMED_OUT
            assert not len(cluster.brokers[0].replicas.purgatory)

    run(work)


@pytest.mark.parametrize("was_in_sync", [True, False])
def test_a_deletion_waits_no_longer_for_a_follower_that_is_fenced(tmp_path: Path, was_in_sync: bool) -> None:
    """It waited for its whole timeout, and its client was told that it had failed."""

    async def work() -> None:
        async with DataCluster(tmp_path, 3) as cluster:
            cluster.create(0, 1, 2)
            await cluster.produce(0, batch(5))
            cluster.kill(1)
            if not was_in_sync:
                cluster.change(isr=[0, 2])
            asked = asyncio.ensure_future(delete(cluster, 5, timeout_ms=100_000))
            await until(lambda: cluster.brokers[2].replica().log.log_start_offset == 5, "the other has deleted")
            deletions = cluster.brokers[0].replica()
            await until(lambda: deletions.machine.followers[2].log_start == 5, "and has told so")
            assert not asked.done()
            cluster.commit(cluster.dead(1))
            if was_in_sync:
                cluster.change(isr=[0, 2])
            await until(asked.done, "it is answered")
            assert await asked == (0, 5)

    run(work)


def test_a_follower_that_was_away_while_the_log_start_passed_it_starts_over(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1)
            await cluster.produce(0, batch(5))
            cluster.kill(1)
            cluster.commit(cluster.dead(1))
            cluster.change(isr=[0])
            for _ in range(3):
                await cluster.produce(0, batch(5))
            log = cluster.brokers[0].replica().log
            log.roll()
            await cluster.produce(0, batch(5))
            assert log.advance_log_start(20) is Code.NONE
            await cluster.boot(1)
            key = cluster.brokers[0].replica().key
            await until(lambda: set(cluster.image.at(key).isr) == {0, 1})
            copy = cluster.brokers[1].replica().log
            assert (copy.log_start_offset, copy.log_end_offset) == (20, 25)
            await asyncio.sleep(0)

    run(work)


def forged(payload: bytes, count: int, codec: int = 0) -> bytes:
    """A batch under a good checksum whose payload is whatever it is: what another program may have left in a log."""
    data = bytearray(batch()[:61]) + payload
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    data[21:23] = codec.to_bytes(2, "big")
    data[23:27] = (count - 1).to_bytes(4, "big")
    data[57:61] = count.to_bytes(4, "big")
    data[17:21] = crc32c(memoryview(data)[21:]).to_bytes(4, "big")
    return bytes(data)


@pytest.mark.parametrize("timestamp", [1, -3])
@pytest.mark.parametrize("stored", [forged(b"\xff" * 40, 1), forged(b"no gzip", 3, codec=1), forged(bytes(9), 1)])
def test_a_batch_that_cannot_be_read_costs_its_own_partition_its_answer(
    tmp_path: Path, stored: bytes, timestamp: int
) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0, partitions=3)
            for number in (0, 2):
                await cluster.produce(0, batch(2), number=number)
            broken = cluster.brokers[0].replica(1)
            assert broken.log.append_follower(stored).code is Code.NONE
            parts = [ListOffsetsRequest.ListOffsetsPartition(partition_index=n, timestamp=timestamp) for n in range(3)]
            topic = ListOffsetsRequest.ListOffsetsTopic(name=TOPIC, partitions=parts)
            response = await cluster.ask(0, ListOffsetsRequest(replica_id=-1, topics=[topic]), 10)
            codes = [(slot.error_code, slot.offset) for slot in response.topics[0].partitions]
            told = (Code.NONE, 0 if timestamp == 1 else 1)
            assert codes == [told, (Code.CORRUPT_MESSAGE, -1), told]

    run(work)


def test_a_search_by_time_through_a_stored_bomb_keeps_nobody_waiting(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0, partitions=2)
            record = bytes([12, 0, 0, 0, 1, 1, 0])
            bomb = bytearray(forged(zlib.compress(record * 100_000, wbits=31), 100_000, codec=1))
            bomb[35:43] = (2**62).to_bytes(8, "big")  # it says that it reaches far; none of its records does
            bomb[17:21] = crc32c(memoryview(bomb)[21:]).to_bytes(4, "big")
            assert cluster.brokers[0].replica(0).log.append_follower(bytes(bomb)).code is Code.NONE
            search = asyncio.ensure_future(list_offset(cluster, 1_900_000_000_000))
            await until(lambda: cluster.lines.get(0), "the search is under way")
            first_line = cluster.lines.pop(0)
            answered = 0
            while not search.done():
                await cluster.produce(0, batch(), number=1)
                answered += 1
            assert (await search)[:3] == (Code.NONE, -1, -1)
            assert answered > 10
            first_line.close()

    run(work)
