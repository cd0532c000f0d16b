"""Many partitions: what a new one and an idle one cost, counted in calls to the disk."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from moldau.model import TopicPartition
from moldau.storage import Log, LogDirs
from tests.packages.storage.faulty_disk import FaultyDisk
from tests.packages.storage.test_log import SMALL, TOPIC_ID, batch, offsets

MANY = 50


class CountingDisk(FaultyDisk):
    """Counts the steps by kind."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def step(self, what: str, path: str, size: int = 0) -> int:
        self.counts[what] += 1
        return super().step(what, path, size)


class LookedAt(CountingDisk):
    """Counts how often a partition's folder is listed, and a file in it read."""

    def __init__(self) -> None:
        super().__init__()
        self.looks: Counter[str] = Counter()

    def list_dir(self, path: str) -> list[str]:
        self.looks["list"] += path.startswith("/d/t-")
        return super().list_dir(path)

    def read(self, path: str) -> bytes:
        self.looks["read"] += path.startswith("/d/t-")
        return super().read(path)


def many(disk: CountingDisk, open_files: int = 1000) -> LogDirs:
    dirs = LogDirs(disk, ["/d"], open_files=open_files)
    dirs.load(lambda _: SMALL)
    disk.counts.clear()
    for number in range(MANY):
        dirs.create(TopicPartition("t", number), TOPIC_ID, SMALL)
    return dirs


@pytest.mark.parametrize("open_files", [1000, 5])
def test_a_new_log_is_a_folder_with_its_topic_s_id_and_nothing_else(open_files: int) -> None:
    disk = CountingDisk()
    many(disk, open_files)
    assert disk.counts["mkdir"] == disk.counts["create"] == MANY
    assert disk.counts["sync"] == disk.counts["sync_dir"] == 0
    assert disk.list_dir("/d/t-7") == ["partition.metadata"]


def test_a_stop_with_idle_logs_waits_for_the_disk_no_more_often_than_with_one() -> None:
    disk = CountingDisk()
    dirs = many(disk)
    disk.counts.clear()
    dirs.close()
    assert disk.counts["sync"] + disk.counts["sync_dir"] < 20
    assert disk.counts["create"] < 10, "checkpoints and the marker only"


def test_the_first_batch_makes_the_file_and_a_power_cut_after_its_flush_keeps_it() -> None:
    disk = CountingDisk()
    log = many(disk).logs[TopicPartition("t", 3)]
    log.append_leader(batch(2), 1, 77)
    held = offsets(log)
    assert held
    log.flush()
    assert log.active.created_ms == 77
    for seed in range(20):
        after = LogDirs(disk.power_cut(seed), ["/d"])
        after.load(lambda _: SMALL)
        assert offsets(after.logs[TopicPartition("t", 3)]) == held


def test_idle_logs_come_back_as_they_were_and_take_records() -> None:
    disk = CountingDisk()
    many(disk).close()
    dirs = LogDirs(disk, ["/d"])
    dirs.load(lambda _: SMALL)
    assert len(dirs.logs) == MANY
    assert not dirs.findings
    log = dirs.logs[TopicPartition("t", 0)]
    assert (log.topic_id, log.log_start_offset, log.log_end_offset, log.active.file) == (TOPIC_ID, 0, 0, None)
    log.append_leader(batch(1), 1, 0)
    dirs.close()
    assert {f"{0:020d}{kind}" for kind in (".log", ".index", ".timeindex")} <= set(disk.list_dir("/d/t-0"))


def test_a_start_reads_logs_in_batches_that_may_run_at_once_and_in_the_end_has_all() -> None:
    disk = CountingDisk()
    many(disk).close(broker_epoch=3)
    dirs = LogDirs(disk, ["/d"])
    (loading,) = loads = dirs.begin_load(lambda _: SMALL, 0)
    loading.begin()
    batches = []
    while (batch := loading.next_batch(7)) is not None:
        batches.append(batch)
    assert len(batches) == -(-MANY // 7)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda batch: batch.run(), batches))
    assert not dirs.logs
    for number, batch in enumerate(reversed(batches), 1):
        loading.end(batch)
        assert len(dirs.logs) <= 7 * number
        assert dirs.previous_broker_epoch == -1, "not before all are there"
    dirs.end_load(loads, 0)
    assert len(dirs.logs) == MANY
    assert dirs.previous_broker_epoch == 3


def test_a_log_without_records_costs_a_start_one_look_and_one_small_read() -> None:
    disk = LookedAt()
    many(disk)
    for clean in (False, True):
        dirs = LogDirs(disk, ["/d"])
        disk.looks.clear()
        dirs.load(lambda _: SMALL)
        assert disk.looks == Counter(list=MANY, read=MANY), clean
        assert all(log.topic_id == TOPIC_ID for log in dirs.logs.values())
        assert all(log.recovery_point == log.log_end_offset == 0 for log in dirs.logs.values())
        assert not dirs.findings
        dirs.close()


def test_many_folders_go_in_pieces_so_that_who_stops_need_not_wait_for_all() -> None:
    disk = CountingDisk()
    dirs = many(disk)
    for number in range(MANY, 250):
        dirs.create(TopicPartition("t", number), TOPIC_ID, SMALL)
    dirs.delete_all(list(dirs.logs), 0)
    due = dirs.deletions_due(SMALL.file_delete_delay_ms)
    assert [len(one.paths) for one in due] == [100, 100, 50]
    due[0].run()
    dirs.end_deletion(due[0])
    again = LogDirs(disk, ["/d"])
    again.load(lambda _: SMALL)
    assert not again.logs
    assert again.deletion_pass(0) == 150, "what was left is found by its name"
    assert not [name for name in disk.list_dir("/d") if name.startswith("t-")]


class Looked(dict[TopicPartition, Log]):
    """Counts how often all logs are looked at."""

    times = 0

    def values(self) -> Any:
        self.times += 1
        return super().values()


def test_many_new_logs_are_shared_out_without_a_look_at_all_of_them_for_each() -> None:
    dirs = LogDirs(FaultyDisk(), ["/a", "/b", "/c"])
    dirs.load(lambda _: SMALL)
    looked = dirs.logs = Looked()
    for number in range(3 * MANY):
        dirs.create(TopicPartition("t", number), TOPIC_ID, SMALL)
    assert looked.times <= 1
    assert Counter(log.dir.path for log in looked.values()) == {"/a": MANY, "/b": MANY, "/c": MANY}

    for partition in [one.partition for one in looked.values() if one.dir.path == "/b"]:
        dirs.delete(partition, 0)
    for number in range(MANY):
        assert dirs.create(TopicPartition("u", number), TOPIC_ID, SMALL).dir.path == "/b", "it holds the fewest"


def test_a_roll_after_a_cut_that_was_flushed_waits_for_no_sync() -> None:
    disk = CountingDisk()
    dirs = many(disk)
    log = dirs.logs[TopicPartition("t", 0)]
    for _ in range(3):
        log.append_leader(batch(1), 1, 0)
    log.flush()
    log.truncate_to(2)
    log.append_leader(batch(1), 1, 0)
    log.flush()
    disk.counts.clear()
    log.roll()
    assert disk.counts["sync"] == 0
