"""A data disk that hangs holds up its own directory: the other's logs are flushed and cleaned, and the quorum commits.

The disk here holds whatever a worker asks of one directory. What the loop itself asks of it is noted, and must be no
change: files that are there are opened to be read, or written to.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from moldau.broker import data
from moldau.broker.lifecycle import Stage
from moldau.broker.replicas import examinations, folder_work
from moldau.client.connection import Connection, connect
from moldau.model import Code
from moldau.storage.checkpoints import parse_offsets
from moldau.storage.names import LOG_STARTS, RECOVERY_POINTS
from moldau.storage.removal import leaving
from moldau.wire.messages.k00_produce import ProduceRequest
from moldau.wire.messages.k19_create_topics import CreateTopicsRequest
from moldau.wire.messages.k20_delete_topics import DeleteTopicsRequest
from moldau.wire.messages.k21_delete_records import DeleteRecordsRequest
from tests.packages.broker.data_cluster import TOPIC, batch, run, until
from tests.packages.broker.held_disk import HeldDisk
from tests.packages.broker.whole_node import whole_node

CALLS = ("sync", "sync_dir", "make_dirs", "rename", "remove", "remove_tree", "write_atomic", "open")
SOON: dict[str, Any] = {
    "log_flush_interval_ms": 1, "log_retention_check_interval_ms": 10, "log_segment_delete_delay_ms": 0,
    "replica_high_watermark_checkpoint_interval_ms": 10,
    # The records here are of 2023: a log would be emptied, and roll, whenever retention looks.
    "log_retention_ms": -1,
}  # fmt: skip


class Scene:
    """A node whose topic has a partition in each of two directories."""

    def __init__(self, one: Any, line: Connection, disk: HeldDisk) -> None:
        self.node, self.line, self.disk = one.node, line, disk
        logs = {Path(log.dir.path).name: log for log in self.node.data.log_dirs.logs.values()}
        self.hung, self.other = logs["two"], logs["one"]

    async def produce(self, log: Any, count: int) -> None:
        for _ in range(count):
            part = ProduceRequest.PartitionProduceData(index=log.partition.partition, records=batch())
            topics = [ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[part])]
            answer = await self.line.ask(ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=topics), version=9)
            assert answer.responses[0].partition_responses[0].error_code == Code.NONE

    async def delete_records(self, log: Any) -> None:
        """Of all that was written so far."""
        part = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=log.partition.partition, offset=-1)
        topics = [DeleteRecordsRequest.DeleteRecordsTopic(name=TOPIC, partitions=[part])]
        answer = await self.line.ask(DeleteRecordsRequest(topics=topics, timeout_ms=60_000))
        assert answer.topics[0].partitions[0].error_code == Code.NONE

    async def delete(self, topic: str) -> None:
        answer = await self.line.ask(DeleteTopicsRequest(topic_names=[topic], timeout_ms=60_000), version=5)
        assert answer.responses[0].error_code == Code.NONE

    async def append(self, topic: str, partition: int, over: Connection | None = None) -> Code:
        """What a produce request of one batch is answered."""
        part = ProduceRequest.PartitionProduceData(index=partition, records=batch())
        topics = [ProduceRequest.TopicProduceData(name=topic, partition_data=[part])]
        line = self.line if over is None else over
        answer = await line.ask(ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=topics), version=9)
        return Code(answer.responses[0].partition_responses[0].error_code)

    async def create(self, topic: str, partitions: int) -> None:
        await create(self.line, topic, partitions)


async def create(line: Connection, topic: str, partitions: int) -> None:
    made = CreateTopicsRequest.CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
    answer = await line.ask(CreateTopicsRequest(topics=[made]))
    assert answer.topics[0].error_code == Code.NONE


@asynccontextmanager
async def scene(folder: Path, *more: str, calls: Sequence[str] = CALLS) -> AsyncIterator[Scene]:
    disk = HeldDisk(*calls)
    paths = [f"{folder}/{name}" for name in ("one", "two", *more)]
    dirs: dict[str, Any] = {"log_dirs": ",".join(paths), "metadata_log_dir": f"{folder}/quorum"}
    async with whole_node(folder, disk=disk, **dirs, **SOON) as one:
        line = await connect(one.node.world, "127.0.0.1", one.node.bound["PLAINTEXT"].port)
        await create(line, TOPIC, 2)
        await until(lambda: one.node.data is not None and len(one.node.data.log_dirs.logs) == 2, "two logs")
        logs = one.node.data.log_dirs.logs.values()
        await until(lambda: not any(log.awaits_folder for log in logs), "with their folders")
        try:
            yield Scene(one, line, disk)
        finally:
            disk.release()


def recorded(log: Any, name: str) -> int:
    return parse_offsets(Path(log.dir.path, name).read_bytes(), "").get(log.partition, 0)


def of_the_loop(disk: HeldDisk) -> list[str]:
    """What the loop asked of the directory that hangs, but for files that are opened: a new log's, and one that is
    open no more."""
    return [call for call in disk.on_loop if not call.startswith("open ")]


def names(folder: Path, pattern: str) -> list[str]:
    return [path.name for path in folder.glob(pattern)]


def test_a_directory_that_hangs_leaves_flushes_checkpoints_and_removals_of_another_alone(tmp_path: Path) -> None:
    async def work() -> None:
        async with scene(tmp_path) as its:
            for log in (its.hung, its.other):
                await its.produce(log, 3)
                await until(lambda log=log: log.recovery_point == 3, "it is flushed")
            its.disk.hold("/two/")
            await its.produce(its.hung, 3)
            its.hung.roll()
            await until(lambda: its.disk.held, "a call that hangs")
            for turn in (1, 2):
                await its.produce(its.other, 3)
                end = its.other.log_end_offset
                await until(lambda end=end: its.other.recovery_point == end, "the other log is flushed")
                await until(lambda end=end: recorded(its.other, RECOVERY_POINTS) == end, "and its checkpoint written")
                its.other.roll()
                await its.delete_records(its.other)
                await until(lambda: len(its.other.segments) == 1, "its segments are removed")
                await until(lambda: len(names(tmp_path, f"one/{TOPIC}-*/*.log")) == 1, "their files are renamed")
                await until(lambda: not names(tmp_path, "one/*/*.deleted"), "and removed")
                assert recorded(its.other, LOG_STARTS) == end
                await its.create(f"later-{turn}", 1)
            line = await connect(its.node.world, "127.0.0.1", its.node.bound["PLAINTEXT"].port)
            late = asyncio.ensure_future(its.append(TOPIC, its.hung.partition.partition, over=line))
            await until(lambda: its.hung.log_end_offset == 7, "a batch for the segment that has no file yet")
            assert its.hung.recovery_point == 3
            assert its.disk.on_loop == []
            assert not late.done()
            its.disk.release()
            assert await late is Code.NONE
            await until(lambda: its.hung.recovery_point == 7, "it is flushed when its disk is back")
            assert its.node.data.log_dirs.offline == []

    run(work)


def test_segments_are_removed_off_the_loop_and_a_log_that_starts_over_comes_after_them(tmp_path: Path) -> None:
    """The file of a segment that it begins again under the same name must not be renamed with the old one's."""

    async def work() -> None:
        async with scene(tmp_path) as its:
            log = its.hung
            for _ in range(2):
                await its.produce(log, 2)
                log.roll()
            await until(lambda: log.recovery_point == 4, "it is flushed")
            await its.delete_records(log)
            await until(lambda: recorded(log, LOG_STARTS) == 4, "its start is on the disk")
            if log.taken or len(log.segments) > 1:
                its.disk.hold("/two/")
            await until(lambda: len(log.segments) == 1, "its segments are taken away")
            log.truncate_fully_at(2)
            its.disk.release()
            await until(lambda: not log.awaits_cut, "its files are those of the log that starts over")
            await until(lambda: not log.taken and not log.dir.taken, "nothing is to be renamed")
            assert names(tmp_path, f"two/{TOPIC}-*/*.log") == [f"{2:020}.log"]
            assert of_the_loop(its.disk) == []

    run(work)


def test_topics_come_and_go_while_a_directory_hangs_and_its_partitions_alone_are_not_ready(tmp_path: Path) -> None:
    async def work() -> None:
        async with scene(tmp_path) as its:
            logs = its.node.data.log_dirs
            its.disk.hold("/two/")
            for turn in (1, 2):
                await its.create("later", 2)
                await until(lambda turn=turn: len(logs.logs) == 4, "they are told")
                there = {Path(log.dir.path).name: log for log in logs.logs.values() if log.partition.topic == "later"}
                await until(lambda there=there: not there["one"].awaits_folder, "the folder in the other directory")
                assert await its.append("later", there["one"].partition.partition) is Code.NONE
                assert await its.append("later", there["two"].partition.partition) is Code.NOT_LEADER_OR_FOLLOWER
                if turn == 1:
                    await its.delete("later")
                    await until(lambda: len(logs.logs) == 2, "they are gone")
            assert of_the_loop(its.disk) == []
            new = there["two"]
            its.disk.release()
            await until(lambda: not new.awaits_folder, "the folder is made when the disk is back")
            assert await its.append("later", new.partition.partition) is Code.NONE
            await until(lambda: names(tmp_path, "two/later-?") == [str(new.partition)], "one folder of the name")
            assert logs.offline == []

    run(work)


def test_a_directory_that_hangs_holds_up_moves_into_itself_alone(tmp_path: Path) -> None:
    async def work() -> None:
        async with scene(tmp_path, "three", calls=("sync",)) as its:
            await its.produce(its.hung, 3)
            moves, logs = its.node.data.replicas.alter_log_dirs, its.node.data.log_dirs
            its.disk.hold("/three/")
            assert moves.alter(its.other.partition, f"{tmp_path}/three") is Code.NONE
            await until(lambda: len(its.disk.held) > 0, "its copy is made durable")
            assert moves.alter(its.hung.partition, f"{tmp_path}/one") is Code.NONE
            await until(lambda: logs.logs[its.hung.partition].dir.path == f"{tmp_path}/one", "the other has moved")
            its.disk.release()
            await until(lambda: logs.logs[its.other.partition].dir.path == f"{tmp_path}/three", "and so has the first")
            await until(lambda: not moves._copying, "nothing is left to do")

    run(work)


def test_who_has_logs_deleted_hears_of_it_when_their_folders_have_other_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with scene(tmp_path) as its:
            folders, gone = its.node.data.replicas.folders, [its.hung.partition, its.other.partition]
            its.disk.hold("/two/")
            await its.delete(TOPIC)
            await until(lambda: len(its.disk.held) > 0, "a rename waits for its disk")
            await until(lambda: not leaving(its.node.data.log_dirs, its.other.partition), "the other one is made")
            monkeypatch.setattr(folder_work, "RENAME_WAIT_MS", 30)
            assert await folders.given_up(gone) == [its.hung.partition]
            assert names(tmp_path, f"two/{its.hung.partition}"), "the disk takes too long to wait for"
            monkeypatch.setattr(folder_work, "RENAME_WAIT_MS", 60_000)
            waiting = asyncio.ensure_future(folders.given_up(gone))
            its.disk.release()
            assert await waiting == []
            assert not names(tmp_path, f"*/{TOPIC}-?")

    run(work)


def test_first_batches_wait_for_their_partitions_folder_and_stay_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examinations, "FOLDER_WAIT_MS", 600_000)

    async def work() -> None:
        async with scene(tmp_path) as its:
            logs, waiting = its.node.data.log_dirs, its.node.replicas.examinations
            its.disk.hold("/two/")
            await its.create("later", 2)
            await until(lambda: len(logs.logs) == 4, "they are told")
            new = next(log for log in logs.logs.values() if "/two" in log.dir.path and log.partition.topic == "later")
            sent = []
            for turn in range(3):
                sent.append(asyncio.ensure_future(its.append("later", new.partition.partition)))
                await until(lambda turn=turn: len(waiting) == turn + 1, "it waits")
            assert new.awaits_folder
            its.disk.release()
            done: list[int] = []
            for number, one in enumerate(sent):
                one.add_done_callback(lambda _, number=number: done.append(number))
            assert await asyncio.gather(*sent) == [Code.NONE] * 3
            assert done == [0, 1, 2]
            assert new.log_end_offset == 3

    run(work)


def test_batches_that_have_waited_too_long_for_a_folder_are_refused_all_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with scene(tmp_path) as its:
            logs, waiting = its.node.data.log_dirs, its.node.replicas.examinations
            its.disk.hold("/two/")
            await its.create("later", 2)
            await until(lambda: len(logs.logs) == 4, "they are told")
            new = next(log for log in logs.logs.values() if "/two" in log.dir.path and log.partition.topic == "later")
            replica = its.node.replicas.by_partition[new.partition]
            codes: list[object] = []
            for sequence in range(3):
                data = batch(1, producer_id=4, producer_epoch=0, base_sequence=sequence)
                assert waiting.examine(replica, data, lambda outcome: codes.append(outcome.code)) is None
            await until(lambda: codes, "their time is up")
            assert codes == [Code.NOT_LEADER_OR_FOLLOWER] * 3
            assert len(waiting) == 0
            its.disk.release()
            await until(lambda: not new.awaits_folder, "the folder is made when the disk is back")

    monkeypatch.setattr(examinations, "FOLDER_WAIT_MS", 50)
    run(work)


@pytest.fixture
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory hangs when it was silent for a second beside one that answers."""
    monkeypatch.setattr(data, "PROBE_MS", 20)
    monkeypatch.setattr(data, "LOOK_MS", 100)


@pytest.mark.usefixtures("looks_often")
def test_a_directory_that_hangs_goes_offline_and_the_broker_lives_on_without_it(tmp_path: Path) -> None:
    async def work() -> None:
        async with scene(tmp_path) as its:
            node, part = its.node, its.hung.partition.partition
            epoch = node.lifecycle.epoch
            its.disk.hold("/two/")
            line = await connect(node.world, "127.0.0.1", node.bound["PLAINTEXT"].port)
            first = asyncio.ensure_future(its.append(TOPIC, part, over=line))
            await until(lambda: its.hung.log_end_offset == 1, "the first batch of a log, which has no file yet")
            await its.produce(its.other, 1)
            assert not first.done()
            await until(lambda: its.hung.dir.offline, "it is found to hang")
            assert await first in (Code.KAFKA_STORAGE_ERROR, Code.NOT_LEADER_OR_FOLLOWER)
            assert node.data.log_dirs.offline == [its.hung.dir]
            await until(lambda: leader(node, part) == -1, "the controller takes its partitions' leaders away")
            assert await its.append(TOPIC, part) in (Code.KAFKA_STORAGE_ERROR, Code.NOT_LEADER_OR_FOLLOWER)
            await its.produce(its.other, 2)
            await until(lambda: its.other.recovery_point == 3, "the other log is flushed")
            await its.create("later", 2)
            await until(lambda: len(node.data.log_dirs.logs) == 4, "and made in the other directory")
            assert {log.dir.path for log in node.data.log_dirs.logs.values() if log.partition.topic == "later"} == {
                its.other.dir.path
            }
            # The device of the other may be busy, and take a second for a probe: then it is that which is waited for.
            assert node.healthy() or node.data._probes.silent(node.data.log_dirs.online) == [its.other.dir]
            await until(node.healthy, "the node is well")
            assert node.lifecycle.stage is Stage.RUNNING
            assert its.disk.on_loop == []
            its.disk.release()
            await its.produce(its.other, 1)
            await until(lambda: its.other.recovery_point == 4, "flushes go on")
            assert its.hung.dir.offline, "until a restart, as any directory that failed"
            assert node.lifecycle.epoch == epoch, "it was never registered anew"

    run(work)


def leader(node: Any, partition: int) -> int:
    known = node.metadata.image.topic(TOPIC).partitions[partition]
    return int(known.leader)


@pytest.mark.usefixtures("looks_often")
def test_a_node_whose_only_directory_hangs_is_silent_until_it_answers(tmp_path: Path) -> None:
    async def work() -> None:
        disk = HeldDisk(*CALLS)
        dirs: dict[str, Any] = {"log_dirs": f"{tmp_path}/one", "metadata_log_dir": f"{tmp_path}/quorum"}
        async with whole_node(tmp_path, disk=disk, **dirs, **SOON) as one:
            await until(lambda: one.node.lifecycle is not None and one.node.lifecycle.stage is Stage.RUNNING, "it runs")
            await until(one.node.healthy, "it is well")
            disk.hold("/one/")
            await until(lambda: not one.node.healthy(), "it is silent")
            assert one.node.data.log_dirs.offline == []
            disk.release()
            await until(one.node.healthy, "and well when its disk is back")
            assert one.node.data.log_dirs.offline == []
            assert one.ended == []

    run(work)
