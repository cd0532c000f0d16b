"""A follower that was cut below its recovery point on file: a disk that does not return costs that partition only."""

from __future__ import annotations

from pathlib import Path

from moldau.model import Code, TopicPartition
from moldau.model.value import replace
from moldau.storage.checkpoints import parse_offsets
from moldau.storage.names import RECOVERY_POINTS
from tests.packages.broker.data_cluster import TOPIC, DataCluster, batch, run, until
from tests.packages.broker.held_disk import HeldDisk

P = TopicPartition(TOPIC, 0)


async def diverged(cluster: DataCluster) -> None:
    """Broker 1 has three records on disk and in its checkpoint that broker 0, the leader from now on, never had."""
    cluster.create(0, 1, partitions=2)
    cluster.kill(0)
    cluster.elect(1, (1,))
    assert (await cluster.produce(1, batch(3), 1)).error_code == Code.NONE
    cluster.brokers[1].replica().log.flush()
    cluster.brokers[1].replicas.logs.checkpoint()
    cluster.elect(0, (0,))


def test_a_follower_that_was_cut_waits_for_its_checkpoint_and_others_do_not(tmp_path: Path) -> None:
    async def work() -> None:
        disk = HeldDisk("write_atomic")
        cluster = DataCluster(tmp_path, 2)
        cluster.world = replace(cluster.world, disk=disk)
        async with cluster:
            await diverged(cluster)
            log = cluster.brokers[1].replica().log
            file = tmp_path / "broker-1" / RECOVERY_POINTS
            assert parse_offsets(file.read_bytes(), "")[P] == log.log_end_offset == 3
            disk.hold(f"broker-1/{RECOVERY_POINTS}")
            await cluster.boot(0)
            await until(lambda: disk.held or disk.on_loop, "the checkpoint is written")
            assert log.log_end_offset == 0
            for number in (0, 1):
                assert (await cluster.produce(0, batch(), 1, number)).error_code == Code.NONE
            await until(lambda: cluster.brokers[1].replica(1).log.log_end_offset == 1, "the other partition follows")
            assert log.log_end_offset == 0, "what is fetched next replaces what the file vouches for"
            assert not disk.on_loop
            disk.release()
            await until(lambda: log.log_end_offset == 1, "the partition follows, too")
            assert parse_offsets(file.read_bytes(), "")[P] == 0
        assert not disk.on_loop

    run(work)


def test_a_follower_that_was_cut_and_leads_at_once_takes_nothing_before_its_checkpoint_is_written(
    tmp_path: Path,
) -> None:
    async def work() -> None:
        disk = HeldDisk("write_atomic")
        cluster = DataCluster(tmp_path, 2)
        cluster.world = replace(cluster.world, disk=disk)
        async with cluster:
            await diverged(cluster)
            replica = cluster.brokers[1].replica()
            disk.hold(f"broker-1/{RECOVERY_POINTS}")
            replica.log.truncate_to(1)
            cluster.elect(1, (1,))
            cluster.elect(1, (1,), 1)
            await until(lambda: disk.held, "the checkpoint is written")
            append = cluster.brokers[1].replicas.append
            assert append(replica, bytearray(batch()), 1).code is Code.KAFKA_STORAGE_ERROR
            assert (await cluster.produce(1, batch(), 1, 1)).error_code == Code.NONE, "of another partition"
            disk.release()
            await until(lambda: append(replica, bytearray(batch()), 1).code is Code.NONE, "it takes batches")
            assert not disk.on_loop
            found = parse_offsets((tmp_path / "broker-1" / RECOVERY_POINTS).read_bytes(), "")
            assert found[P] == 0, "the batch that held offset 1 went whole"

    run(work)
