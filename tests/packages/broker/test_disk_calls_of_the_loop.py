"""Which calls to a disk the loop itself makes: a list that may only become shorter.

A call that hangs, or takes 100 ms, holds up a node if it is one of these, and its own partition if a worker makes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from moldau.model import Code, TopicPartition
from moldau.model.value import replace
from moldau.ports import pools
from moldau.storage import index_saves
from moldau.storage.compaction import plan
from moldau.storage.names import RESTARTED
from moldau.wire.batch import build, control_key
from moldau.wire.records import metadata as records
from tests.packages.broker.counting_disk import CountingDisk
from tests.packages.broker.data_cluster import TOPIC, DataCluster, batch, run, until

P = TopicPartition(TOPIC, 0)
LOOPS_OWN: dict[str, dict[str, int]] = {
    "a new partition": {},
    "its first batch": {},
    "a partition that goes": {},
    "a roll": {},
    "a roll after a cut": {},
    "a cut below a segment": {"read": 2},
    "a new start": {},
    "a checkpoint after it": {},
    "a swap of directories": {"rename": 2},
    "compacted segments that take their places": {},
}
"""All that the loop's thread calls in each step. Who moves one of them to a worker takes it out here."""


def abort(log: Any, producer: int) -> None:  # Any: a Log, as the cluster gives it
    """One transaction that was aborted, as a follower is sent it."""
    for number, control in enumerate((False, True)):
        record = (0, control_key(0) if control else b"k", b"\0\0\0\0\0\0", [])
        log.append_follower(
            build([record], base_offset=log.log_end_offset, producer_id=producer, producer_epoch=0,
                  base_sequence=-number, leader_epoch=0, transactional=True, control=control)
        )  # fmt: skip


def follow(log: Any, batches: int) -> None:  # Any: a Log
    for _ in range(batches):
        log.append_follower(batch(3, 2000, base_offset=log.log_end_offset, leader_epoch=0))


def _alike(one: Any, other: Any) -> bool:  # Any: Logs
    return bool(one.log_end_offset == other.log_end_offset)


def scene(folder: Path, act: Callable[[DataCluster, CountingDisk, Any], Awaitable[None]], **settings: str) -> None:
    """One broker with a log of which half is flushed, on a disk that counts."""

    async def work() -> None:
        disk = CountingDisk()
        cluster = DataCluster(folder, 1, **settings)
        cluster.world = replace(cluster.world, disk=disk)
        async with cluster:
            cluster.create(0)
            log = cluster.brokers[0].replica().log
            follow(log, 5)
            abort(log, 7)
            log.flush()
            follow(log, 5)
            await act(cluster, disk, log)

    run(work)


def test_a_partition_comes_and_goes_in_memory_and_its_folder_follows(tmp_path: Path) -> None:
    async def act(cluster: DataCluster, disk: CountingDisk, log: Any) -> None:
        cluster.folders_at_once = False
        with disk.counting() as calls:
            cluster.create(0, topic="new", id=bytes([8] * 16))
        assert calls == LOOPS_OWN["a new partition"]
        new = TopicPartition("new", 0)
        made = cluster.brokers[0].replicas.by_partition[new]
        assert made.log.awaits_folder
        append = cluster.brokers[0].replicas.append
        assert append(made, bytearray(batch()), 1).code is Code.NOT_LEADER_OR_FOLLOWER
        assert append(made, bytearray(batch()), 1, internal=True).code is Code.KAFKA_STORAGE_ERROR
        await until(lambda: not made.log.awaits_folder, "its folder is made")
        with disk.counting() as calls:
            assert append(made, bytearray(batch()), 1).code is Code.NONE
        assert calls == LOOPS_OWN["its first batch"]
        await until(lambda: not made.log.awaits_file, "the file of its first segment is made")
        assert set(disk.list_dir(made.log.folder.path)) == {"partition.metadata", f"{0:020}.log"}
        assert disk.size(made.log.active.path()) == len(batch())
        with disk.counting() as calls:
            cluster.commit(records.RemoveTopicRecord(topic_id=bytes([8] * 16)))
        assert calls == LOOPS_OWN["a partition that goes"]
        await until(lambda: not disk.exists(f"{made.log.dir.path}/{new}"), "its folder is renamed")

    scene(tmp_path, act)


def test_a_roll_opens_the_new_segment_and_leaves_the_rest_to_the_flush(tmp_path: Path) -> None:
    async def act(cluster: DataCluster, disk: CountingDisk, log: Any) -> None:
        abort(log, 8)
        with disk.counting() as calls:
            log.roll()
        assert calls == LOOPS_OWN["a roll"]
        follow(log, 4)
        log.truncate_to(log.log_end_offset - 3)
        await until(lambda: not log.awaits_cut, "the file is cut")
        follow(log, 1)
        with disk.counting() as calls:
            log.roll()
        assert calls == LOOPS_OWN["a roll after a cut"]
        log.flush()
        names = set(disk.list_dir(log.folder.path))
        assert {f"{0:020}.txnindex", f"{0:020}.index", f"{log.bases[1]:020}.snapshot"} <= names

    scene(tmp_path, act)


def test_a_cut_is_made_in_memory_and_its_files_follow(tmp_path: Path) -> None:
    async def act(cluster: DataCluster, disk: CountingDisk, log: Any) -> None:
        for _ in range(3):
            log.roll()
            follow(log, 3)
        log.flush()
        before = set(disk.list_dir(log.folder.path))
        with disk.counting() as calls:
            log.truncate_to(10)
        assert calls == LOOPS_OWN["a cut below a segment"]
        assert log.awaits_cut
        assert set(disk.list_dir(log.folder.path)) == before
        await until(lambda: not log.awaits_cut, "the files are cut")
        left = set(disk.list_dir(log.folder.path))
        assert {name for name in left if name.endswith(".log")} == {f"{0:020}.log"}
        assert not [name for name in left if name.endswith(".snapshot") and int(name[:20]) > log.log_end_offset]
        assert disk.size(log.active.path()) == log.active.size
        with disk.counting() as calls:
            log.truncate_fully_at(40)
        assert calls == LOOPS_OWN["a new start"]
        await until(lambda: not log.awaits_cut, "the log starts over")
        assert [name for name in disk.list_dir(log.folder.path) if name.endswith(".log")] == [f"{40:020}.log"]

    scene(tmp_path, act)


def test_who_leads_at_once_after_a_cut_has_its_files_cut_before_it_appends(tmp_path: Path) -> None:
    async def act(cluster: DataCluster, disk: CountingDisk, log: Any) -> None:
        log.roll()
        follow(log, 3)
        log.truncate_to(9)
        with disk.counting() as calls:
            assert log.append_leader(bytearray(batch()), 1, 1_700_000_000_000).code is Code.NONE
        assert calls["sync"], "nobody else has done it yet"
        assert log.log_end_offset == 10
        assert [name for name in disk.list_dir(log.folder.path) if name.endswith(".log")] == [f"{0:020}.log"]
        assert disk.size(log.active.path()) == log.active.size

    scene(tmp_path, act)


def test_the_mark_of_a_log_that_started_over_goes_by_a_worker(tmp_path: Path) -> None:
    async def act(cluster: DataCluster, disk: CountingDisk, log: Any) -> None:
        logs = cluster.brokers[0].replicas.logs
        logs.checkpoint()
        log.truncate_fully_at(40)
        await until(lambda: not log.awaits_cut, "the log starts over")
        mark = log.folder.file(RESTARTED)
        assert log.restarted
        assert disk.exists(mark)
        follow(log, 1)
        (checkpoint,) = logs.checkpoints_due()
        checkpoint.run()
        with disk.counting() as calls:
            logs.end_checkpoint(checkpoint)
        assert calls == LOOPS_OWN["a checkpoint after it"]
        await until(lambda: not log.dir.changes, "a worker has removed the mark")
        assert not disk.exists(mark)
        assert not log.restarted

    scene(tmp_path, act)


def test_a_swap_of_directories_renames_and_waits_for_nothing(tmp_path: Path) -> None:
    async def act(cluster: DataCluster, disk: CountingDisk, log: Any) -> None:
        logs = cluster.brokers[0].replicas.logs
        other = next(dir for dir in logs.dirs if dir is not log.dir)
        future = logs.futures.create(P, other, "0f" * 16)
        await until(lambda: not logs.futures.copy(P, 1 << 20, 0) and _alike(future.log, log), "all of it is copied")
        future.log.flush()
        log.flush()
        with disk.counting() as calls:
            assert logs.futures.swap(P, 0) is future.log
        assert calls == LOOPS_OWN["a swap of directories"]
        assert {sync.dir.path for sync in logs.name_syncs_due()} == {log.dir.path, other.path}

    scene(tmp_path, act, log_dirs=f"{tmp_path}/one,{tmp_path}/two")


def test_compacted_segments_take_their_places_and_a_worker_renames_their_files(tmp_path: Path) -> None:
    async def act(cluster: DataCluster, disk: CountingDisk, log: Any) -> None:
        log.reconfigure(replace(log.config, cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0))
        for _ in range(2):
            log.roll()
            follow(log, 3)
        log.flush()
        log.high_watermark = log.restart_point = log.log_end_offset
        compaction = plan(log, 0)
        assert compaction is not None
        compaction.run()
        compactions = cluster.brokers[0].replicas.logs.compactions
        steps, calls, saved = compactions.end(log, compaction, 0), Counter[str](), None
        while saved is None:
            try:
                with disk.counting() as some:
                    step = next(steps)
            except StopIteration as over:
                saved = over.value
            calls += some
            if saved is None:
                await cluster.world.tasks.off_loop(step.run, pools.cleaner(0))
        assert saved > 0
        assert calls == LOOPS_OWN["compacted segments that take their places"]
        assert not [name for name in disk.list_dir(log.folder.path) if name.endswith((".swap", ".cleaned"))]

    scene(tmp_path, act)


def test_closing_a_file_for_another_writes_no_index(tmp_path: Path) -> None:
    async def act(cluster: DataCluster, disk: CountingDisk, log: Any) -> None:
        logs = cluster.brokers[0].replicas.logs
        log.roll()
        log.flush()
        follow(log, 6)
        active, sealed = log.active, log.segments[0]
        assert active.index.is_dirty
        sealed.close()
        for segment in (active, sealed):
            segment.recent = False
        logs.files.limit = 0
        with disk.counting() as calls:
            assert log.read(0, 100)
            logs.files.trim()
        assert {name: count for name, count in calls.items() if name in ("write", "create", "sync", "truncate")} == {}
        assert active.file is None
        assert active.kept_index is not None, "it is written before it is forgotten"
        for saves in index_saves.due(logs.online):
            saves.run()
            saves.end()
        assert active.kept_index is None
        assert len(active.index.offsets) == active.entries > 0
        logs.files.limit = 100

    scene(tmp_path, act)
