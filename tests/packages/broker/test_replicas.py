"""Replicas come and go with the image, outlive lost sessions, and fall with their disk and not with another's."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from moldau.broker.metrics.damage_figures import damage_figures
from moldau.broker.replicas.lost import flush_failed
from moldau.model import Code, TopicPartition
from moldau.storage import DirOffline
from moldau.storage.checkpoints import format_partition_metadata
from moldau.storage.errors import UnusableFile
from moldau.wire.records import metadata as records
from tests.packages.broker.data_cluster import TOPIC, TOPIC_ID, DataCluster, batch, records_of, run, until


def test_a_follower_goes_on_when_its_leader_forgets_the_session(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1)
            assert (await cluster.produce(0, batch())).error_code == 0
            cluster.brokers[0].replicas.sessions.close()
            assert (await cluster.produce(0, batch())).error_code == 0
            assert cluster.image.at((TOPIC_ID, 0)).isr == (0, 1)

    run(work)


def test_a_leader_that_keeps_no_sessions_is_followed_without_one_and_without_haste(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 2, max_incremental_fetch_session_cache_slots="0") as cluster:
            cluster.create(0, 1)
            for _ in range(3):
                assert (await cluster.produce(0, batch())).error_code == 0
            assert not cluster.altered
            clock = cluster.world.clock
            before, began_ms = cluster.brokers[0].socket_listener.requests, clock.monotonic_ms()
            await asyncio.sleep(0.3)
            assert cluster.brokers[0].socket_listener.requests - before < 4 + (clock.monotonic_ms() - began_ms) / 200

    run(work)


def test_a_moved_partition_is_copied_there_and_deleted_here(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path) as cluster:
            cluster.create(0, 1)
            await cluster.produce(0, batch(50))
            cluster.change(replicas=[0, 1, 2], adding_replicas=[2], removing_replicas=[1])
            await until(lambda: 2 in cluster.image.at((TOPIC_ID, 0)).isr)
            cluster.change(replicas=[0, 2], isr=[0, 2], adding_replicas=[], removing_replicas=[])
            left = cluster.brokers[1].replicas
            assert not left.by_key
            assert TopicPartition(TOPIC, 0) not in left.logs.logs
            names = [path.name for path in (tmp_path / "broker-1").iterdir() if path.name.startswith(TOPIC)]
            assert len(names) == 1
            assert names[0].endswith("-delete")
            assert (await cluster.produce(0, batch())).error_code == 0
            assert (await cluster.fetch(1, 0)).error_code == Code.NOT_LEADER_OR_FOLLOWER

    run(work)


def test_a_topic_created_again_under_its_name_is_another_topic(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1)
            await cluster.produce(0, batch(5))
            other = bytes([8] * 16)
            cluster.commit(
                records.RemoveTopicRecord(topic_id=TOPIC_ID),
                records.TopicRecord(name=TOPIC, topic_id=other),
                records.PartitionRecord(
                    topic_id=other, partition_id=0, replicas=[0, 1], isr=[0, 1], leader=0, leader_epoch=0,
                    partition_epoch=0,
                ),
            )  # fmt: skip
            assert (await cluster.produce(0, batch(2), version=9)).base_offset == 0
            assert (await cluster.produce(0, batch(2), version=13)).error_code == Code.UNKNOWN_TOPIC_ID
            for broker in cluster.live.values():
                log = broker.replicas.by_key[(other, 0)].log
                await until(lambda log=log: log.log_end_offset == 2)

    run(work)


def test_a_log_whose_topic_was_deleted_meanwhile_is_set_aside_at_the_start(tmp_path: Path) -> None:
    """Nobody but an operator removes it: a broker that was away cannot tell a deletion from lost metadata."""

    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1)
            await cluster.produce(0, batch(5))
            cluster.kill(1)
            cluster.create(0, topic="another", id=bytes([8] * 16))
            cluster.commit(records.RemoveTopicRecord(topic_id=TOPIC_ID))
            broker = await cluster.boot(1)
            assert not broker.replicas.by_key
            left = [path.name for path in (tmp_path / "broker-1").iterdir() if path.name.startswith(TOPIC)]
            assert [name.rpartition("-")[2] for name in left] == ["stray"]
            broker.replicas.logs.deletion_pass(broker.world.clock.wall_ms() + 60_000)
            assert [path.name for path in (tmp_path / "broker-1").iterdir() if path.name.startswith(TOPIC)] == left

    run(work)


def test_a_log_of_an_earlier_topic_of_the_name_makes_room_at_the_start(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1)
            await cluster.produce(0, batch(5))
            cluster.kill(1)
            cluster.commit(records.RemoveTopicRecord(topic_id=TOPIC_ID))
            again = bytes([9] * 16)
            cluster.create(0, 1, id=again)
            broker = await cluster.boot(1)
            assert broker.replicas.by_key[(again, 0)].log.log_end_offset == 0
            left = [path.name for path in (tmp_path / "broker-1").iterdir() if path.name.startswith(TOPIC)]
            assert sorted(name.rpartition("-")[2] for name in left) == ["0", "stray"]

    run(work)


def test_a_topic_of_many_partitions_goes_without_a_sync_on_the_loop(tmp_path: Path) -> None:
    """A sync takes as long as the renames of forty folders, and the loop stood still meanwhile. The directory's own
    thread does it later: tests/packages/storage/test_log_dirs.py."""

    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0, partitions=120)
            replicas = cluster.brokers[0].replicas
            disk = cluster.brokers[0].world.disk
            synced: list[str] = []
            sync_dir = disk.sync_dir

            def noted(path: str) -> None:
                synced.append(path)
                sync_dir(path)

            disk.sync_dir = noted
            cluster.commit(records.RemoveTopicRecord(topic_id=TOPIC_ID))
            assert not replicas.by_key
            assert not replicas.logs.logs
            assert not synced
            left = [path.name for path in (tmp_path / "broker-0").iterdir() if path.name.startswith(TOPIC)]
            assert len(left) == 120
            assert all(name.endswith("-delete") for name in left)

    run(work)


def test_a_failed_disk_takes_its_replicas_and_no_others(tmp_path: Path) -> None:
    async def work() -> None:
        dirs = f"{tmp_path}/one,{tmp_path}/two"
        async with DataCluster(tmp_path, 1, log_dirs=dirs) as cluster:
            cluster.create(0, partitions=2)
            one, two = (cluster.brokers[0].replica(number) for number in (0, 1))
            assert one.log.dir is not two.log.dir
            cluster.brokers[0].replicas.failed(one.log.dir.fail(OSError(5, "Input/output error")))
            assert (await cluster.produce(0, batch(), number=0)).error_code == Code.KAFKA_STORAGE_ERROR
            assert (await cluster.fetch(0, 0, number=0)).error_code == Code.KAFKA_STORAGE_ERROR
            assert (await cluster.produce(0, batch(), number=1)).error_code == 0

    run(work)


@pytest.mark.parametrize(("isr", "least", "leaves"), [(3, 2, True), (2, 1, True), (2, 2, False), (1, 1, False)])
def test_a_leader_that_meets_damage_as_it_reads_lets_others_lead_where_writes_need_it_not(
    tmp_path: Path, isr: int, least: int, leaves: bool
) -> None:
    """It led on, and nobody could read what the others had whole."""

    async def work() -> None:
        async with DataCluster(tmp_path, isr) as cluster:
            cluster.create(*range(isr))
            for _ in range(3):
                await cluster.produce(0, batch(5), acks=-1)
            replicas = cluster.brokers[0].replicas
            replica = cluster.brokers[0].replica()
            replica.machine.limits.min_insync_replicas = least
            lost: list[str] = []
            replicas.on_lost = lambda: lost.append("told")
            replica.log.roll(now_ms=0)
            replicas.logs.files.close_all()
            (segment, *_) = sorted((tmp_path / f"broker-0/{TOPIC}-0").glob("*.log"))
            data = bytearray(segment.read_bytes())
            data[8:12] = b"\xff\xff\xff\xff"  # the length of the first batch
            segment.write_bytes(data)
            assert (await cluster.fetch(0, 0)).error_code == Code.CORRUPT_MESSAGE
            assert lost == ["told"] * leaves
            assert replicas.offline_keys() == [(TOPIC_ID, 0)] * leaves
            unused, _ = damage_figures(replicas.logs)
            expected = (("reason", "damaged"), ("logDirectory", str(tmp_path / "broker-0")))
            assert unused.samples == [("", expected, 1)] * leaves
            if leaves:
                cluster.elect(1, tuple(range(1, isr)))
                assert len(records_of(await cluster.fetch(1, 0))) > 0
            else:
                assert (await cluster.produce(0, batch())).error_code == 0

    run(work)


@pytest.mark.parametrize("isr", [2, 1])
def test_a_leader_whose_folder_was_removed_lets_others_lead(tmp_path: Path, isr: int) -> None:
    """It refused every write for as long as it lived, though other replicas had all that it had."""

    async def work() -> None:
        async with DataCluster(tmp_path, isr) as cluster:
            cluster.create(*range(isr))
            await cluster.produce(0, batch(5))
            replicas = cluster.brokers[0].replicas
            lost: list[str] = []
            replicas.on_lost = lambda: lost.append("told")
            shutil.rmtree(tmp_path / f"broker-0/{TOPIC}-0")
            replicas.logs.files.close_all()
            code = (await cluster.produce(0, batch())).error_code
            assert code in (Code.CORRUPT_MESSAGE, Code.KAFKA_STORAGE_ERROR)
            if isr == 1:
                assert replicas.by_key
                assert not lost
                return
            assert lost == ["told"]
            assert not replicas.by_key
            assert list(replicas.unreachable) == [(TOPIC_ID, 0)]
            assert replicas.offline_keys() == [(TOPIC_ID, 0)]
            assert (await cluster.fetch(0, 0)).error_code == Code.KAFKA_STORAGE_ERROR
            cluster.elect(1, (1,))
            assert (await cluster.produce(1, batch())).error_code == 0
            cluster.kill(0)
            broker = await cluster.boot(0)
            end = cluster.brokers[1].replica().log.log_end_offset
            await until(lambda: broker.replica().log.log_end_offset == end, "it was fetched anew")

    run(work)


def test_a_follower_whose_folder_was_removed_is_offline_at_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It tried again every second, a line each, and writes with acks=all waited until it was dropped from the ISR."""

    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1)
            await cluster.produce(0, batch(5))
            replicas = cluster.brokers[1].replicas
            lost: list[str] = []
            replicas.on_lost = lambda: lost.append("told")
            shutil.rmtree(tmp_path / f"broker-1/{TOPIC}-0")
            replicas.logs.files.close_all()
            assert (await cluster.produce(0, batch(), acks=1)).error_code == 0
            await until(lambda: lost, "the broker tells of it")
            assert not replicas.by_key
            assert replicas.offline_keys() == [(TOPIC_ID, 0)]
            assert len([one for one in caplog.records if one.levelname == "ERROR"]) == 1
            cluster.kill(1)
            broker = await cluster.boot(1)
            await until(lambda: broker.replica().log.log_end_offset == 6, "it was fetched anew")

    run(work)


@pytest.mark.parametrize("id", [0, 1])
def test_a_replica_whose_folder_was_removed_is_offline_with_the_next_flush(tmp_path: Path, id: int) -> None:
    """It went on in files without names, in sync by its own word, and doctor said that all is well."""

    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1)
            assert (await cluster.produce(0, batch(5))).error_code == 0
            broker = cluster.brokers[id]
            replicas, partition_log = broker.replicas, broker.replica().log
            shutil.rmtree(tmp_path / f"broker-{id}/{TOPIC}-0")
            flush = partition_log.begin_flush()
            assert flush is not None
            flush.run()
            trouble = replicas.logs.end_flush(partition_log, flush)
            assert trouble is not None
            flush_failed(replicas, partition_log, trouble)
            assert not replicas.by_key
            assert replicas.offline_keys() == [(TOPIC_ID, 0)]

    run(work)


def test_a_replica_in_whose_folder_another_topic_lies_is_offline_with_the_next_flush(tmp_path: Path) -> None:
    """Its flush wrote whose folder that is to be, and the next start served the other's records under its name."""

    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1)
            assert (await cluster.produce(0, batch(5))).error_code == 0
            replicas, partition_log = cluster.brokers[1].replicas, cluster.brokers[1].replica().log
            says = tmp_path / f"broker-1/{TOPIC}-0/partition.metadata"
            says.write_bytes(format_partition_metadata(bytes(range(100, 116))))
            flush = partition_log.begin_flush(whole=True)
            assert flush is not None
            flush.run()
            trouble = replicas.logs.end_flush(partition_log, flush)
            assert trouble is not None
            flush_failed(replicas, partition_log, trouble)
            assert replicas.offline_keys() == [(TOPIC_ID, 0)]
            assert says.read_bytes() == format_partition_metadata(bytes(range(100, 116)))

    run(work)


def test_a_flush_that_failed_for_another_reason_leaves_the_replica_as_it_is(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1)
            assert (await cluster.produce(0, batch(5))).error_code == 0
            replicas = cluster.brokers[0].replicas
            flush_failed(replicas, cluster.brokers[0].replica().log, UnusableFile("a name too long"))
            assert replicas.by_key

    run(work)


def test_a_replica_on_a_disk_that_is_away_is_not_born_again_elsewhere(tmp_path: Path) -> None:
    """KAFKA-16234: an empty log in the other directory would join the ISR in place of the real one."""

    async def work() -> None:
        dirs = f"{tmp_path}/one,{tmp_path}/two"
        async with DataCluster(tmp_path, 1, log_dirs=dirs) as cluster:
            replicas = cluster.brokers[0].replicas
            away = replicas.logs.dirs[0].fail(OSError(5, "Input/output error"))
            assert isinstance(away, DirOffline)
            replicas._started = False  # as at the start, when the image names partitions that it held all along
            cluster.create(0)
            assert not replicas.by_key
            assert (await cluster.produce(0, batch())).error_code == Code.KAFKA_STORAGE_ERROR
            cluster.create(0, topic="new", id=bytes([4] * 16))
            assert (bytes([4] * 16), 0) in replicas.by_key

    run(work)


def test_settings_reach_logs_and_replication_at_once(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.create(0)
            replica = cluster.brokers[0].replica()
            cluster.configure(segment_bytes="2000000", min_insync_replicas="3")
            assert replica.log.config.segment_bytes == 2_000_000
            assert replica.machine.limits.min_insync_replicas == 3
            cluster.commit(
                records.ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value="777")
            )
            assert replica.log.config.retention_ms == 777
            cluster.commit(records.ConfigRecord(resource_type=2, resource_name=TOPIC, name="segment.bytes", value=None))
            assert replica.log.config.segment_bytes == 1 << 30

    run(work)
