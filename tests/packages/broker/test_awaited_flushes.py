"""flush.messages: a sync that does not return costs the answers that need it, and nobody else."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from moldau.model import Code
from moldau.model.value import replace
from tests.packages.broker.data_cluster import TOPIC, DataCluster, batch, run, until
from tests.packages.broker.held_disk import HeldDisk

FIRST = f"{TOPIC}-0/"


@asynccontextmanager
async def cluster_on(disk: HeldDisk, folder: Path, brokers: int, **settings: str) -> AsyncIterator[DataCluster]:
    """A cluster on this disk, whose topic has two partitions and wants each record flushed."""
    cluster = DataCluster(folder, brokers, **settings)
    cluster.world = replace(cluster.world, disk=disk)
    async with cluster:
        cluster.create(*range(brokers), partitions=2)
        cluster.configure(flush_messages="1")
        try:
            yield cluster
        finally:
            disk.release()


def log_of(cluster: DataCluster, broker: int, number: int = 0) -> Any:
    return cluster.brokers[broker].replica(number).log


@pytest.mark.parametrize("acks", [1, -1])
def test_a_sync_that_hangs_delays_only_the_answer_that_needs_it(tmp_path: Path, acks: int) -> None:
    async def work() -> None:
        disk = HeldDisk("sync")
        async with cluster_on(disk, tmp_path, 1) as cluster:
            disk.hold(FIRST)
            waits = asyncio.ensure_future(cluster.produce(0, batch(), acks))
            await until(lambda: disk.held, "a sync")
            second = await cluster.connect_another(0)
            assert (await cluster.produce(0, batch(), acks, 1, over=second)).error_code == Code.NONE
            assert (await cluster.fetch(0, 0, over=second)).records == b"", "it is not durable, and nobody reads it"
            assert not waits.done()
            disk.release()
            assert (await waits).error_code == Code.NONE
            assert log_of(cluster, 0).recovery_point == 1
            assert (await cluster.fetch(0, 0)).records, "now it is"
        assert not disk.on_loop

    run(work)


def test_what_is_sent_twice_waits_for_the_same_flush(tmp_path: Path) -> None:
    async def work() -> None:
        disk = HeldDisk("sync")
        async with cluster_on(disk, tmp_path, 1) as cluster:
            disk.hold(FIRST)
            data = batch(producer_id=4, producer_epoch=0, base_sequence=0)
            first = asyncio.ensure_future(cluster.produce(0, data, 1))
            await until(lambda: disk.held, "a sync")
            line = await cluster.connect_another(0)
            again = asyncio.ensure_future(cluster.produce(0, data, 1, over=line))
            await until(lambda: len(cluster.brokers[0].replica().unflushed) == 2, "both wait")
            assert not first.done()
            assert not again.done()
            disk.release()
            assert [one.base_offset for one in await asyncio.gather(first, again)] == [0, 0]

    run(work)


def test_a_follower_is_counted_when_it_has_flushed_and_follows_others_meanwhile(tmp_path: Path) -> None:
    async def work() -> None:
        disk = HeldDisk("sync")
        async with cluster_on(disk, tmp_path, 2) as cluster:
            disk.hold(f"broker-1/{FIRST}")
            waits = asyncio.ensure_future(cluster.produce(0, batch()))
            await until(lambda: disk.held, "the follower's sync")
            line = await cluster.connect_another(0)
            for _ in range(3):
                assert (await cluster.produce(0, batch(), number=1, over=line)).error_code == Code.NONE
            assert log_of(cluster, 1).log_end_offset == 1
            assert cluster.brokers[0].replica().machine.high_watermark == 0
            assert not waits.done()
            disk.release()
            assert (await waits).error_code == Code.NONE
            assert [log_of(cluster, id).recovery_point for id in (0, 1)] == [1, 1]
        assert not disk.on_loop

    run(work)


def test_a_flush_whose_small_files_hang_holds_up_no_other_partition_of_the_directory(tmp_path: Path) -> None:
    async def work() -> None:
        disk = HeldDisk("sync")
        async with cluster_on(disk, tmp_path, 1) as cluster:
            disk.hold(f"{FIRST}leader-epoch-checkpoint")
            waits = asyncio.ensure_future(cluster.produce(0, batch(), 1))
            await until(lambda: disk.held, "a small file")
            second = await cluster.connect_another(0)
            assert (await cluster.produce(0, batch(), 1, 1, over=second)).error_code == Code.NONE
            assert not waits.done()
            disk.release()
            assert (await waits).error_code == Code.NONE

    run(work)


def test_a_leader_that_is_deposed_while_it_flushes_acknowledges_nothing(tmp_path: Path) -> None:
    async def work() -> None:
        disk = HeldDisk("sync")
        async with cluster_on(disk, tmp_path, 2) as cluster:
            disk.hold(f"broker-0/{FIRST}")
            waits = asyncio.ensure_future(cluster.produce(0, batch(), 1))
            await until(lambda: disk.held, "a sync")
            cluster.elect(1, (0, 1))
            assert (await waits).error_code == Code.NOT_LEADER_OR_FOLLOWER
            disk.release()
            assert (await cluster.produce(1, batch())).error_code == Code.NONE

    run(work)


def test_a_sync_that_fails_refuses_whoever_waits_and_takes_the_directory_offline(tmp_path: Path) -> None:
    async def work() -> None:
        disk = HeldDisk("sync")
        async with cluster_on(disk, tmp_path, 1) as cluster:
            disk.hold(FIRST)
            waits = asyncio.ensure_future(cluster.produce(0, batch(), 1))
            await until(lambda: disk.held, "a sync")
            disk.error = OSError(errno.EIO, "broken")
            disk.release()
            assert (await waits).error_code == Code.KAFKA_STORAGE_ERROR
            assert log_of(cluster, 0).dir.offline

    run(work)


def test_more_records_than_flush_messages_says_wait_and_fewer_do_not(tmp_path: Path) -> None:
    async def work() -> None:
        disk = HeldDisk("sync")
        async with cluster_on(disk, tmp_path, 1) as cluster:
            cluster.configure(flush_messages="3")
            log = log_of(cluster, 0)
            disk.hold(FIRST)
            assert (await cluster.produce(0, batch(2), 1)).error_code == Code.NONE
            assert (log.awaits_flush, disk.held) == (False, [])
            waits = asyncio.ensure_future(cluster.produce(0, batch(1), 1))
            await until(lambda: disk.held, "a sync")
            assert log.settled_end == 2
            disk.release()
            assert (await waits).error_code == Code.NONE
            assert log.recovery_point == 3

    run(work)
