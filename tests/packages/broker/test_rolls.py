"""A log that rolls, or is new, in a directory that hangs or fails: the loop makes no file there, and nobody is told
too much."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from moldau.model import Code, TopicPartition
from moldau.model.value import replace
from moldau.replication.roles import Role
from moldau.storage import Log, opening
from moldau.wire.records import metadata as records
from tests.packages.broker.data_cluster import TOPIC, TOPIC_ID, DataCluster, batch, records_of, run, until
from tests.packages.broker.held_disk import HeldDisk

FIRST = f"{TOPIC}-0/"


class Scene:
    """A cluster whose topic has two partitions, with a batch in each, on a disk on which opening a file may hang."""

    def __init__(self, cluster: DataCluster, disk: HeldDisk) -> None:
        self.cluster, self.disk = cluster, disk

    def log(self, broker: int = 0, number: int = 0) -> Any:  # Any: a Log
        return self.cluster.brokers[broker].replica(number).log

    async def produce(self, acks: int = -1, number: int = 0, **fields: Any) -> asyncio.Future[Any]:
        """A batch on its way over a connection of its own, in the log of the leader, or refused by it."""
        leader = self.cluster.brokers[0].replicas
        before, failed = self.log(0, number).log_end_offset, leader.failed_produces
        line = await self.cluster.connect_another(0)
        sent = asyncio.ensure_future(self.cluster.produce(0, batch(**fields), acks, number, over=line))
        await until(lambda: self.log(0, number).log_end_offset > before or leader.failed_produces > failed, "it came")
        return sent

    def loop_opened(self, broker: int = 0) -> bool:
        """Whether the loop itself has opened the file of a new segment."""
        made = (f"{0:020}.log", f"{1:020}.log")
        return any(call.startswith("open ") and call.endswith(made) for call in self.disk.on_loop)

    def files(self, broker: int = 0) -> list[str]:
        return sorted(path.name for path in Path(self.log(broker).folder.path).glob("*.log"))


@asynccontextmanager
async def scene(
    folder: Path, brokers: int = 1, filled: Sequence[int] = (0, 1), **settings: str
) -> AsyncIterator[Scene]:
    disk = HeldDisk("open")
    cluster = DataCluster(folder, brokers, **settings)
    cluster.world = replace(cluster.world, disk=disk)
    async with cluster:
        cluster.create(*range(brokers), partitions=2)
        for number in filled:
            assert (await cluster.produce(0, batch(), number=number)).error_code == Code.NONE
        try:
            yield Scene(cluster, disk)
        finally:
            disk.release()


@pytest.mark.parametrize("acks", [1, -1])
def test_a_roll_that_hangs_delays_the_answers_of_its_partition_alone(tmp_path: Path, acks: int) -> None:
    async def work() -> None:
        async with scene(tmp_path) as its:
            its.disk.hold(FIRST)
            its.log().roll()
            sent = [await its.produce(acks) for _ in range(3)]
            await until(lambda: its.disk.held, "the file that is made")
            assert (await its.cluster.produce(0, batch(), acks, 1)).error_code == Code.NONE
            assert not any(one.done() for one in sent)
            assert (await its.cluster.fetch(0, 1)).records == b"", "nobody reads what may be lost"
            assert its.log().settled_end == 1
            its.disk.release()
            assert [(await one).base_offset for one in sent] == [1, 2, 3]
            assert len(records_of(await its.cluster.fetch(0, 1))) == 3 * len(batch())
            assert its.files() == [f"{0:020}.log", f"{1:020}.log"]
            assert its.log().dir.unwritten == 0
            assert not its.loop_opened()

    run(work)


@pytest.mark.parametrize("acks", [1, -1])
def test_the_first_batches_of_a_log_whose_directory_hangs_wait_and_others_go_on(tmp_path: Path, acks: int) -> None:
    async def work() -> None:
        async with scene(tmp_path, filled=(1,)) as its:
            its.disk.hold(FIRST)
            sent = [await its.produce(acks) for _ in range(3)]
            await until(lambda: its.disk.held, "the file that is made")
            assert (await its.cluster.produce(0, batch(), acks, 1)).error_code == Code.NONE
            assert not any(one.done() for one in sent)
            assert (await its.cluster.fetch(0, 0)).records == b"", "nobody reads what may be lost"
            assert its.log().settled_end == 0
            its.disk.release()
            assert [(await one).base_offset for one in sent] == [0, 1, 2]
            assert len(records_of(await its.cluster.fetch(0, 0))) == 3 * len(batch())
            assert its.files() == [f"{0:020}.log"]
            assert its.log().dir.unwritten == 0
            assert not its.loop_opened()

    run(work)


def test_a_follower_whose_first_file_hangs_is_not_counted(tmp_path: Path) -> None:
    async def work() -> None:
        async with scene(tmp_path, 2, filled=(1,)) as its:
            its.disk.hold(f"broker-1/{FIRST}")
            sent = await its.produce()
            await until(lambda: its.disk.held, "the follower's file")
            assert (await its.cluster.produce(0, batch(), number=1)).error_code == Code.NONE
            assert its.cluster.brokers[0].replica().machine.high_watermark == 0
            assert not sent.done()
            its.disk.release()
            assert (await sent).error_code == Code.NONE
            assert its.files(1) == [f"{0:020}.log"]
            assert not its.loop_opened()

    run(work)


def test_a_log_that_starts_over_has_its_next_file_made_by_a_worker(tmp_path: Path) -> None:
    async def work() -> None:
        async with scene(tmp_path) as its:
            log = its.log()
            log.truncate_fully_at(1)
            await until(lambda: not log.awaits_cut, "its files are cut")
            its.disk.hold(FIRST)
            sent = await its.produce(1)
            await until(lambda: its.disk.held, "the file that is opened")
            assert log.settled_end == 1
            its.disk.release()
            assert (await sent).base_offset == 1
            assert its.files() == [f"{1:020}.log"]
            assert not its.loop_opened()

    run(work)


async def made_anew_before_the_file_is_made(its: Scene, sent: asyncio.Future[Any]) -> Log:
    """The log of a topic that was deleted while a worker made a file of it, and made again: it has a folder, and in it
    nothing of the old one. ``sent`` is a produce that waits for the file."""
    await until(lambda: its.disk.held, "the file that is made")
    its.cluster.folders_at_once = False  # else the rename is made here, which waits for who makes the file
    its.cluster.commit(records.RemoveTopicRecord(topic_id=TOPIC_ID))
    assert (await sent).error_code != Code.NONE
    its.cluster.create(0, id=bytes([8] * 16))
    new = its.cluster.brokers[0].replicas.logs.logs[TopicPartition(TOPIC, 0)]
    its.disk.release()
    await until(lambda: not new.awaits_folder, "the new topic has a folder")
    await until(lambda: not its.cluster.brokers[0].replicas.flushes, "whoever made the file is through")
    assert its.cluster.world.disk.list_dir(new.folder.path) == ["partition.metadata"]
    return new


def test_a_new_topic_that_is_deleted_before_its_first_file_is_made_leaves_nothing(tmp_path: Path) -> None:
    async def work() -> None:
        async with scene(tmp_path, filled=(1,)) as its:
            its.disk.hold(f"{FIRST}{0:020}.log")
            sent = await its.produce(1)
            new = await made_anew_before_the_file_is_made(its, sent)
            assert new.dir.unwritten == 0

    run(work)


def test_a_segment_that_is_full_is_followed_by_one_whose_file_the_loop_does_not_make(tmp_path: Path) -> None:
    async def work() -> None:
        async with scene(tmp_path) as its:
            its.cluster.configure(segment_bytes="100", internal_segment_bytes="100")
            its.disk.hold(FIRST)
            sent = await its.produce(1)
            await until(lambda: its.disk.held, "the file that is made")
            assert its.log().bases == [0, 1]
            its.disk.release()
            assert (await sent).error_code == Code.NONE
            assert not its.loop_opened()

    run(work)


def test_a_follower_whose_roll_hangs_is_not_counted_and_follows_others_meanwhile(tmp_path: Path) -> None:
    async def work() -> None:
        async with scene(tmp_path, 2) as its:
            await until(lambda: its.log(1).log_end_offset == 1, "the follower has the first batch")
            its.disk.hold(f"broker-1/{FIRST}")
            its.log(1).roll()
            sent = await its.produce()
            await until(lambda: its.disk.held, "the follower's file")
            assert (await its.cluster.produce(0, batch(), number=1)).error_code == Code.NONE
            assert its.cluster.brokers[0].replica().machine.high_watermark == 1
            assert not sent.done()
            its.disk.release()
            assert (await sent).error_code == Code.NONE
            assert its.files(1) == [f"{0:020}.log", f"{1:020}.log"]
            assert not its.loop_opened()

    run(work)


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_file_that_a_leader_cannot_make_refuses_whoever_waits_and_takes_the_directory_offline(
    tmp_path: Path, error: int
) -> None:
    async def work() -> None:
        async with scene(tmp_path) as its:
            its.disk.hold(FIRST)
            its.log().roll()
            sent = await its.produce(1)
            await until(lambda: its.disk.held, "the file that is made")
            its.disk.error = OSError(error, "not made")
            its.disk.release()
            assert (await sent).error_code == Code.KAFKA_STORAGE_ERROR
            assert its.log().dir.offline
            assert its.cluster.brokers[0].replica().machine.role is Role.OFFLINE

    run(work)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EMFILE])
def test_a_follower_tries_again_until_the_file_can_be_made(tmp_path: Path, error: int) -> None:
    async def work() -> None:
        async with scene(tmp_path, 2) as its:
            await until(lambda: its.log(1).log_end_offset == 1, "the follower has the first batch")
            its.disk.hold(f"broker-1/{FIRST}")
            its.log(1).roll()
            sent = await its.produce()
            await until(lambda: its.disk.held, "the follower's file")
            its.disk.error = OSError(error, "for the moment")
            its.disk.release()
            await until(lambda: its.log(1).opening is None or its.log(1).opening.error is not None, "it has failed")
            its.disk.error = None
            assert (await sent).error_code == Code.NONE
            assert its.log(1).dir.offline is None
            assert its.log(1).settled_end == 2

    run(work)


def test_a_leader_takes_nothing_while_the_file_cannot_be_made_for_want_of_descriptors(tmp_path: Path) -> None:
    async def work() -> None:
        async with scene(tmp_path) as its:
            its.disk.hold(FIRST)
            its.log().roll()
            sent = await its.produce(1)
            await until(lambda: its.disk.held, "the file that is made")
            its.disk.error = OSError(errno.EMFILE, "too many open files")
            its.log().dir.files.close_all()  # no other file can be closed for it
            its.disk.release()
            assert (await sent).error_code == Code.KAFKA_STORAGE_ERROR
            its.disk.hold(FIRST)
            its.disk.error = None
            assert (await its.cluster.produce(0, batch())).error_code == Code.KAFKA_STORAGE_ERROR
            its.disk.release()
            await until(lambda: not its.log().awaits_file, "it is made after all")
            assert (await its.cluster.produce(0, batch())).base_offset == 2

    run(work)


def test_for_want_of_descriptors_idle_files_are_closed_and_the_file_is_made_at_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        async with scene(tmp_path) as its:
            files = its.log().dir.files
            its.disk.hold(FIRST)
            its.log().roll()
            sent = await its.produce(1)
            await until(lambda: its.disk.held, "the file that is made")
            before = len(files)
            its.disk.error = OSError(errno.EMFILE, "too many open files")
            its.disk.release()
            assert (await sent).error_code == Code.NONE
            assert len(files) == before, "one was closed, and one is new"
            assert not its.loop_opened()

    run(work)
    assert "too many open files" not in caplog.text


def test_a_log_that_is_cut_below_its_roll_meanwhile_has_no_file_of_it(tmp_path: Path) -> None:
    async def work() -> None:
        async with scene(tmp_path, 2) as its:
            await until(lambda: its.log(1).log_end_offset == 1, "the follower has the first batch")
            its.disk.hold(f"broker-1/{FIRST}")
            log = its.log(1)
            log.roll()
            await its.produce(1)
            await until(lambda: log.log_end_offset == 2 and its.disk.held, "it has the second, and its file hangs")
            log.truncate_to(0)
            assert (log.settled_end, log.awaits_file, log.dir.unwritten) == (0, False, 0)
            its.disk.release()
            await until(lambda: not log.awaits_cut, "its files are cut")
            await until(lambda: log.settled_end == 2, "it follows on")
            assert its.files(1) == [f"{0:020}.log"]
            assert not its.loop_opened()

    run(work)


def test_a_topic_that_is_deleted_meanwhile_leaves_nothing_to_the_next_of_its_name(tmp_path: Path) -> None:
    async def work() -> None:
        async with scene(tmp_path) as its:
            its.disk.hold(f"{FIRST}{1:020}.log")
            log = its.log()
            log.roll()
            sent = await its.produce(1)
            new = await made_anew_before_the_file_is_made(its, sent)
            assert log.folder.path != new.folder.path

    run(work)


def test_no_more_than_some_megabytes_wait_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moldau.broker.replicas.lost.UNWRITTEN_MAX", 1000)
    assert opening.UNWRITTEN_MAX > 1000

    async def work() -> None:
        async with scene(tmp_path) as its:
            its.disk.hold(FIRST)
            its.log().roll()
            first = await its.produce(1, size=2000)
            second = await its.produce(1)
            assert (await second).error_code == Code.KAFKA_STORAGE_ERROR
            its.disk.release()
            assert (await first).error_code == Code.NONE
            assert (await its.cluster.produce(0, batch())).error_code == Code.NONE

    run(work)


def test_a_broker_that_stops_meanwhile_writes_what_waits(tmp_path: Path) -> None:
    async def work() -> None:
        async with scene(tmp_path) as its:
            log, other, replicas = its.log(), its.log(0, 1), its.cluster.brokers[0].replicas
            its.disk.hold(FIRST)
            log.roll()
            await its.produce(1)
            await until(lambda: its.disk.held, "the file that is made")
            replicas.flushes.stop()
            other.roll()  # nobody has this file made any more
            await its.produce(0, number=1)
            assert other.settled_end == 1
            its.disk.release()
            await replicas.flushes.ended()
            replicas.logs.close()
            assert other.recovery_point == other.log_end_offset == 2
            assert log.recovery_point == log.log_end_offset == 2
            assert its.files() == [f"{0:020}.log", f"{1:020}.log"]

    run(work)
