"""A broker's log directories: starting, stopping, checkpoints, failures, strays, and ten thousand idle partitions."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from pathlib import Path
from typing import Any

import pytest

from moldau.model import Code, TopicPartition
from moldau.runtime.disk import RealDisk, RealFile
from moldau.storage import CorruptLog, DirOffline, DiskFull, Log, LogConfig, LogDirs, LogError
from moldau.storage.checkpoints import parse_meta, parse_offsets
from moldau.storage.names import RECOVERY_POINTS
from moldau.storage.producers import Producers
from moldau.wire.batch import build, read_header
from tests.packages.storage.faulty_disk import Crash, FaultyDisk
from tests.packages.storage.test_log import SMALL, TOPIC_ID, P, again, batch, check_files, fresh, offsets

OTHER_ID = bytes(range(1, 17))


class FixedRandom:
    """A Random that counts."""

    def __init__(self) -> None:
        self.count = 0

    def below(self, n: int) -> int:
        self.count += 1
        return self.count % n

    def uuid(self) -> bytes:
        self.count += 1
        return self.count.to_bytes(16, "big")


def loaded(disk: FaultyDisk, *paths: str, config: LogConfig = SMALL) -> LogDirs:
    dirs = LogDirs(disk, paths or ("/d",), random=FixedRandom())
    dirs.load(lambda _: config)
    return dirs


class Unsynced(RealDisk):
    """A real disk that does not wait for the hardware: here only open files are of interest."""

    def open(self, path: str, *, create: bool = False) -> RealFile:
        file = super().open(path, create=create)
        file.sync = lambda: None
        return file

    def sync_dir(self, path: str) -> None:
        pass


def open_fds(folder: Path) -> int:
    """How many files below the folder this process has open: those of other tests go when they are collected."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the one that lists them
            count += os.readlink(f"/proc/self/fd/{name}").startswith(f"{folder}/")
    return count


@pytest.mark.slow
def test_ten_thousand_idle_partitions_cost_no_open_file(tmp_path: Path) -> None:
    disk = Unsynced()
    for number in range(10_000):
        folder = tmp_path / f"topic-{number}"
        folder.mkdir()
        (folder / f"{0:020d}.log").write_bytes(b"")
        (folder / "partition.metadata").write_bytes(b"version: 0\ntopic_id: oYc3ba5JRYKYtZWqQ5kHbw")
    before = open_fds(tmp_path)
    dirs = LogDirs(disk, [str(tmp_path)], open_files=100)
    dirs.load(lambda _: SMALL)
    assert len(dirs.logs) == 10_000
    assert open_fds(tmp_path) == before
    for log in dirs.logs.values():
        log.append_leader(batch(1), 0, 0)
    assert open_fds(tmp_path) <= before + 101
    dirs.close()
    assert open_fds(tmp_path) == before
    dirs = LogDirs(disk, [str(tmp_path)], open_files=100)
    dirs.load(lambda _: SMALL)
    assert {log.log_end_offset for log in dirs.logs.values()} == {1}
    assert dirs.findings == []
    assert open_fds(tmp_path) == before


def test_a_directory_belongs_to_one_node_and_one_process(tmp_path: Path) -> None:
    mine = RealDisk()
    dirs = LogDirs(mine, [str(tmp_path)], random=FixedRandom())
    dirs.claim("cluster-a", 3)
    assert dirs.dirs[0].id == (1).to_bytes(16, "big")
    assert parse_meta((tmp_path / "meta.properties").read_bytes(), "x")[:2] == ("cluster-a", 3)
    with pytest.raises(ValueError, match="in use by another process"):
        LogDirs(RealDisk(), [str(tmp_path)], random=FixedRandom()).claim("cluster-a", 3)
    mine.unlock(str(tmp_path / ".lock"))
    with pytest.raises(ValueError, match="belongs to node 3 of cluster cluster-a"):
        LogDirs(RealDisk(), [str(tmp_path)], random=FixedRandom()).claim("cluster-a", 4)


def test_two_directories_of_one_id_are_named_before_anything_is_loaded(tmp_path: Path) -> None:
    """A folder was copied: the controller refused the broker, and nobody said why."""
    first, second = tmp_path / "first", tmp_path / "second"
    disk = RealDisk()
    LogDirs(disk, [str(first)], random=FixedRandom()).claim("cluster-a", 3)
    second.mkdir()
    (second / "meta.properties").write_bytes((first / "meta.properties").read_bytes())
    disk.unlock(str(first / ".lock"))
    with pytest.raises(ValueError, match=f"{second} has the directory.id of {first}"):
        LogDirs(RealDisk(), [str(first), str(second)], random=FixedRandom()).claim("cluster-a", 3)


def test_the_clean_marker_is_gone_before_anything_is_loaded() -> None:
    """KAFKA-10471: a crash while loading must not look like a clean stop."""
    disk = FaultyDisk()
    dirs = loaded(disk)
    dirs.create(P, TOPIC_ID, SMALL).append_leader(batch(), 0, 0)
    dirs.close(broker_epoch=5)
    for step in range(20):
        copy = FaultyDisk(crash_at=step)
        copy.names = dict(disk.names.items())
        copy.durable_names = dict(copy.names)
        with contextlib.suppress(Crash):
            loaded(copy)
        assert any("remove /d/.kafka_cleanshutdown" in line for line in copy.log[:1])


def test_a_marker_is_left_only_where_all_went_well() -> None:
    disk = FaultyDisk()
    dirs = loaded(disk, "/a", "/b")
    dirs.create(P, TOPIC_ID, SMALL).append_leader(batch(), 0, 0)
    dirs.create(TopicPartition("u", 0), TOPIC_ID, SMALL)
    assert {log.dir.path for log in dirs.logs.values()} == {"/a", "/b"}
    failed = dirs.logs[P].dir
    failed.fail(OSError(errno.EIO, "dead"))
    dirs.close(broker_epoch=5)
    assert not disk.exists(f"{failed.path}/.kafka_cleanshutdown")
    assert disk.exists(f"{'/a' if failed.path == '/b' else '/b'}/.kafka_cleanshutdown")
    dirs = loaded(disk.process_killed(), "/a", "/b")
    assert dirs.previous_broker_epoch == -1


def test_a_failed_directory_is_named_and_the_other_goes_on() -> None:
    disk = FaultyDisk()
    dirs = loaded(disk, "/a", "/b")
    one, two = dirs.create(P, TOPIC_ID, SMALL), dirs.create(TopicPartition("u", 0), TOPIC_ID, SMALL)
    told: list[str] = []
    for dir in dirs.dirs:
        dir.on_offline = lambda dir: told.append(dir.path)
    disk.fail_at = disk.steps
    with pytest.raises(DirOffline, match=one.dir.path) as error:
        one.append_leader(batch(), 0, 0)
    assert error.value.code is Code.KAFKA_STORAGE_ERROR
    assert told == [one.dir.path] == [dir.path for dir in dirs.offline]
    for call in (
        lambda: one.append_leader(batch(), 0, 0),
        lambda: one.truncate_to(0),
        lambda: one.append_follower(b""),
    ):
        with pytest.raises(DirOffline):
            call()
    assert two.append_leader(batch(), 0, 0).code is Code.NONE
    assert dirs.create(TopicPartition("v", 0), TOPIC_ID, SMALL).dir is two.dir
    with pytest.raises(DirOffline):  # it may be on the dead one (KAFKA-16234)
        dirs.create(TopicPartition("w", 0), TOPIC_ID, SMALL, is_new=False)


def test_a_failed_sync_is_never_tried_again() -> None:
    disk = FaultyDisk()
    dirs = loaded(disk)
    log = dirs.create(P, TOPIC_ID, SMALL)
    log.append_leader(batch(), 0, 0)
    flush = log.begin_flush()
    assert flush is not None
    disk.fail_at = disk.steps
    flush.run()
    with pytest.raises(DirOffline):
        log.end_flush(flush)
    assert log.recovery_point == 0
    syncs = [line for line in disk.log if "sync" in line]
    with pytest.raises(DirOffline):
        log.flush()
    dirs.checkpoint()
    dirs.close()
    assert [line for line in disk.log if "sync" in line] == syncs


def test_a_full_disk_refuses_an_append_and_the_next_one_succeeds() -> None:
    disk = FaultyDisk()
    dirs = loaded(disk)
    log = dirs.create(P, TOPIC_ID, SMALL)
    log.append_leader(batch(), 0, 0)
    size = log.size
    disk.error, disk.fail_at = errno.ENOSPC, disk.steps
    with pytest.raises(DiskFull):
        log.append_leader(batch(), 0, 0)
    assert log.size == size == disk.size("/d/t-0/00000000000000000000.log")
    assert log.append_leader(batch(), 0, 0).first_offset == 3
    assert offsets(log) == [0, 3]


# -- what a start makes again


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    "harm",
    ["no index", "no time index", "index of garbage", "index of ones", "no epochs", "broken epochs", "no snapshots",
     "broken snapshots", "no checkpoints", "broken checkpoints", "kafka index"],
)  # fmt: skip
def test_what_is_derived_from_the_log_is_made_again(tmp_path: Path, harm: str, clean: bool) -> None:
    dirs, log = fresh(tmp_path)
    for number in range(30):
        data = batch(3, timestamp=number * 10, producer_id=7, producer_epoch=0, base_sequence=3 * number)
        log.append_leader(data, number // 10, 0)
    log.high_watermark = 80
    if clean:
        dirs.close()
    else:
        log.flush()
        dirs.checkpoint()
    damage(tmp_path, harm)
    dirs, log = again(tmp_path)
    assert offsets(log) == list(range(0, 90, 3))
    assert log.read(46, 1) == log.read(45, 1)
    assert log.epochs.entries() == [(0, 0), (1, 30), (2, 60)]
    found = log.offset_for_timestamp(151)
    assert found is not None
    assert found[:2] == (151, 46)
    assert log.append_leader(batch(3, producer_id=7, producer_epoch=0, base_sequence=87), 2, 0).duplicate
    assert log.append_leader(batch(3, producer_id=7, producer_epoch=0, base_sequence=90), 2, 0).first_offset == 90
    log.truncate_to(60)
    assert offsets(log) == list(range(0, 60, 3))


def damage(path: Path, harm: str) -> None:
    what, kind = harm.split(" ", 1)[0], harm.split(" ")[-1]
    patterns = {"index": "t-0/*.index", "epochs": "t-0/leader-epoch-checkpoint", "snapshots": "t-0/*.snapshot",
                "checkpoints": "*-offset-checkpoint", "garbage": "t-0/*index", "ones": "t-0/*.index"}  # fmt: skip
    pattern = "t-0/*.timeindex" if harm == "no time index" else patterns[kind]
    for file in path.glob(pattern):
        if what == "no":
            file.unlink()
        elif what == "kafka":
            file.write_bytes(file.read_bytes() + bytes(800))  # reserved and not cut: the broker was killed
        elif kind == "ones":
            file.write_bytes(b"".join(n.to_bytes(4, "big") * 2 for n in range(1, 9)))  # rising, and wrong
        else:
            file.write_bytes(b"\x07garbage" * 3)


def test_a_closed_segment_read_after_a_kill_keeps_its_largest_timestamp() -> None:
    """Its index is made again, and the entry that tells the largest timestamp comes only as it is closed."""
    disk = FaultyDisk()
    log = loaded(disk).create(P, TOPIC_ID, SMALL)
    log.append_leader(batch(1), 0, 0)
    log.roll()
    killed = loaded(disk)
    stamp = read_header(killed.logs[P].read(0, 1000), 0).max_timestamp
    killed.close()
    found = loaded(disk).logs[P].offset_for_timestamp(stamp)
    assert found is not None
    assert found.offset == 0


def test_a_corrupt_middle_is_named_and_never_served(tmp_path: Path) -> None:
    dirs, log = fresh(tmp_path, LogConfig())
    for _ in range(10):
        log.append_leader(batch(3), 0, 0)
    size = len(batch(3))
    dirs.close()
    file = tmp_path / "t-0" / f"{0:020d}.log"
    data = bytearray(file.read_bytes())
    data[4 * size + 80] ^= 1
    file.write_bytes(data)
    dirs, log = again(tmp_path)
    assert log.log_end_offset == 30  # it was flushed: nothing is cut
    assert len(log.read(0, 4 * size)) == 4 * size
    for _ in range(2):
        with pytest.raises(CorruptLog, match=rf"{file} is corrupt at byte {4 * size}: the checksum"):
            log.read(12, 10)
        with pytest.raises(CorruptLog, match=f"byte {4 * size}"):
            log.read(0, 1 << 20)
    assert len(log.read(15, 1 << 20)) == 5 * size


def test_a_flushed_batch_that_is_missing_after_a_crash_is_reported(tmp_path: Path) -> None:
    dirs, log = fresh(tmp_path, LogConfig())
    for _ in range(10):
        log.append_leader(batch(3), 0, 0)
    log.flush()
    dirs.checkpoint()
    file = tmp_path / "t-0" / f"{0:020d}.log"
    file.write_bytes(file.read_bytes()[: -len(batch(3)) - 5])
    dirs, log = again(tmp_path)
    assert log.log_end_offset == 24
    assert any("though" in finding and str(file) in finding for finding in dirs.findings)


def test_only_what_was_not_known_to_be_flushed_is_read_after_a_crash() -> None:
    disk = FaultyDisk()
    dirs = loaded(disk, config=LogConfig(index_interval_bytes=0))
    log = dirs.create(P, TOPIC_ID, LogConfig(index_interval_bytes=0))
    for _ in range(2000):
        log.append_leader(batch(3), 0, 0)
    log.flush()
    dirs.checkpoint()
    for _ in range(5):
        log.append_leader(batch(3), 0, 0)
    disk = disk.process_killed()
    read = 0
    inode = disk.names["/d/t-0/00000000000000000000.log"]
    assert inode is not None

    class Counting(bytearray):
        def __getitem__(self, key: Any) -> Any:
            nonlocal read
            part = super().__getitem__(key)
            read += len(part)
            return part

    inode.data = Counting(inode.data)
    log = loaded(disk).logs[P]
    assert log.log_end_offset == 6015
    assert read < len(inode.data) // 10


# -- checkpoints, deletion, strays


def test_checkpoints_are_written_only_when_they_say_something_new() -> None:
    disk = FaultyDisk()
    dirs = loaded(disk)
    log = dirs.create(P, TOPIC_ID, SMALL)
    log.append_leader(batch(), 0, 0)
    log.flush()
    dirs.checkpoint()
    steps = disk.steps
    dirs.checkpoint()
    assert disk.steps == steps
    assert parse_offsets(disk.read(f"/d/{RECOVERY_POINTS}"), "") == {P: 3}
    log.high_watermark = 2
    dirs.checkpoint()
    assert parse_offsets(disk.read("/d/replication-offset-checkpoint"), "") == {P: 2}


def test_a_deleted_log_is_gone_at_once_and_its_files_later() -> None:
    disk = FaultyDisk()
    dirs = loaded(disk)
    config = LogConfig(file_delete_delay_ms=100)
    dirs.create(P, TOPIC_ID, config).append_leader(batch(), 0, 0)
    with pytest.raises(LogError, match="exists"):
        dirs.create(P, TOPIC_ID, config)
    dirs.delete(P, now_ms=5)
    assert P not in dirs.logs
    assert [name for name in disk.list_dir("/d") if name.endswith("-delete")]
    again = dirs.create(P, OTHER_ID, config, now_ms=5)
    assert (again.log_end_offset, again.topic_id) == (0, OTHER_ID)
    assert dirs.deletion_pass(104) == 0
    restarted = loaded(disk.process_killed())
    assert restarted.deletion_pass(0) == 1
    assert dirs.deletion_pass(105) == 1
    assert not [name for name in disk.list_dir("/d") if name.endswith("-delete")]


def test_logs_that_the_cluster_does_not_know_are_set_aside_and_stay() -> None:
    disk = FaultyDisk()
    dirs = loaded(disk)
    known, other, old = P, TopicPartition("other", 0), TopicPartition("old", 0)
    for partition in (known, other, old):
        dirs.create(partition, TOPIC_ID, SMALL).append_leader(batch(), 0, 0)
    dirs.close()
    disk.remove("/d/old-0/partition.metadata")
    dirs = loaded(disk)
    assert dirs.remove_strays({known: TOPIC_ID, other: OTHER_ID, old: TOPIC_ID}, 0) == [other]
    assert set(dirs.logs) == {known, old}
    assert dirs.logs[old].topic_id == TOPIC_ID  # flushed data without an id: a broker from before KIP-516
    (stray,) = (name for name in disk.list_dir("/d") if name.startswith("other"))
    assert re.fullmatch(r"other-0\.[0-9a-f]{32}-stray", stray)
    restarted = loaded(disk.process_killed())
    assert restarted.deletion_pass(1 << 60) == 0
    assert (restarted.strays, set(restarted.logs)) == ([f"/d/{stray}"], {known, old})
    dirs.close()
    disk.rename(f"/d/{stray}", "/d/other-0")
    assert loaded(disk).logs[other].read(0, 1000), "an operator has it back by giving it its name"
    assert disk.read("/d/old-0/partition.metadata").startswith(b"version: 0")


def test_what_was_never_flushed_and_says_no_topic_is_not_taken_for_another_topics() -> None:
    disk = FaultyDisk()
    dirs = loaded(disk)
    dirs.create(P, TOPIC_ID, SMALL).append_leader(batch(), 0, 0)
    disk = disk.process_killed()
    disk.remove("/d/t-0/partition.metadata")
    dirs = loaded(disk)
    assert dirs.remove_strays({P: OTHER_ID}, 0) == [P]
    assert len(dirs.strays) == 1
    assert loaded(disk.process_killed()).strays == dirs.strays


def test_an_empty_folder_that_a_kill_left_without_its_topic_says_it_once_it_is_known() -> None:
    disk = FaultyDisk()
    loaded(disk).create(P, TOPIC_ID, SMALL)
    disk = disk.process_killed()
    disk.remove("/d/t-0/partition.metadata")
    dirs = loaded(disk)
    assert dirs.remove_strays({P: TOPIC_ID}, 0) == []
    assert disk.read("/d/t-0/partition.metadata").startswith(b"version: 0")
    assert dirs.logs[P].topic_id == TOPIC_ID


@pytest.mark.parametrize("lost", ["its topic id", "its topic"])
def test_a_directory_that_fails_while_strays_are_looked_for_does_not_keep_from_the_others(lost: str) -> None:
    disk = FaultyDisk()
    dirs = loaded(disk, "/d", "/e")
    for topic in "wxyz":
        dirs.create(TopicPartition(topic, 0), TOPIC_ID, SMALL)
    dirs.close()
    for dir in ("/d", "/e"):
        for name in [name for name in disk.list_dir(dir) if name.endswith("-0")] if lost == "its topic id" else ():
            disk.remove(f"{dir}/{name}/partition.metadata")
    dirs = loaded(disk, "/d", "/e")
    wanted = {TopicPartition(topic, 0): TOPIC_ID for topic in "wxyz"} if lost == "its topic id" else {}
    disk.fail_at = disk.steps
    dirs.remove_strays(wanted, 0)
    (there,) = (dir.path for dir in dirs.online)
    names = [name for name in disk.list_dir(there) if name.startswith(tuple("wxyz"))]
    if wanted:
        assert all(disk.exists(f"{there}/{name}/partition.metadata") for name in names)
    else:
        assert all(name.endswith("-stray") for name in names)
    assert len(names) == 2


def test_flushes_follow_rolls_and_their_clock() -> None:
    disk = FaultyDisk()
    config = LogConfig(internal_segment_bytes=1000, flush_ms=100)
    dirs = loaded(disk, config=config)
    log = dirs.create(P, TOPIC_ID, config)
    for _ in range(5):
        log.append_leader(batch(), 0, 0)
    dirs.flush_pass(50)
    assert log.recovery_point == log.active.base_offset > 0
    dirs.flush_pass(100)
    assert log.recovery_point == log.log_end_offset
    every = dirs.create(TopicPartition("u", 0), TOPIC_ID, LogConfig(flush_messages=6))
    every.append_leader(batch(3), 0, 0)
    assert every.recovery_point == 0
    every.append_leader(batch(3), 0, 0)
    assert every.recovery_point == 6


@pytest.mark.parametrize("when", ["before the pass", "while it runs"])
def test_a_log_deleted_around_its_flush_does_not_take_the_directory_with_it(when: str) -> None:
    dirs = loaded(FaultyDisk())
    log = dirs.create(P, TOPIC_ID, SMALL)
    log.append_leader(batch(), 0, 0)
    log.roll(now_ms=0)
    flushes = [] if when == "before the pass" else dirs.flushes_due(0)
    dirs.delete(P, 0)
    assert dirs.deletion_pass(1 << 40) == 1
    flushes = flushes or dirs.flushes_due(0)
    for flushed, flush in flushes:
        flush.run()
        assert flush.error is not None, "without its folder, it cannot have worked"
        dirs.end_flush(flushed, flush)
    assert bool(flushes) == (when == "while it runs")
    assert dirs.online


def syncs(disk: FaultyDisk, path: str) -> int:
    """How often the names in a directory were made durable so far."""
    return sum(step.partition(" ")[2] == f"sync_dir {path}" for step in disk.log)


def test_many_logs_go_without_a_sync_on_the_loop_and_for_good_with_one_of_each_directory() -> None:
    disk = FaultyDisk()
    dirs = loaded(disk, "/a", "/b")
    many = [TopicPartition("t", number) for number in range(300)]
    for partition in many:
        dirs.create(partition, TOPIC_ID, SMALL)
    before = syncs(disk, "/a"), syncs(disk, "/b")
    dirs.delete_all(many, 0)
    assert (syncs(disk, "/a"), syncs(disk, "/b")) == before
    assert not dirs.logs
    due = dirs.name_syncs_due()
    for sync in due:
        sync.run()
    dirs.create(many[0], OTHER_ID, SMALL)  # meanwhile, in the directory that comes first
    for sync in due:
        sync.finish()
    assert (syncs(disk, "/a"), syncs(disk, "/b")) == (before[0] + 1, before[1] + 1)
    assert not loaded(disk.power_cut(seed=1), "/a", "/b").logs, "they are gone for good"
    assert [sync.dir.path for sync in dirs.name_syncs_due()] == ["/a"], "what changed meanwhile is still to be synced"


def test_a_directory_whose_names_cannot_be_synced_is_offline() -> None:
    disk = FaultyDisk()
    dirs = loaded(disk, "/a", "/b")
    for number in range(6):
        dirs.create(TopicPartition("t", number), TOPIC_ID, SMALL)
    dirs.delete_all(list(dirs.logs), 0)
    disk.fail_at = disk.steps
    for sync in dirs.name_syncs_due():
        sync.run()
        sync.finish()
    assert [dir.path for dir in dirs.offline] == ["/a"]


def gone_for_good(dirs: LogDirs, partitions: list[TopicPartition]) -> None:
    dirs.delete_all(partitions, 0)
    for sync in dirs.name_syncs_due():
        sync.run()


def test_a_power_cut_while_many_logs_go_leaves_each_as_it_was_or_gone() -> None:
    """What came back belongs to no partition, or to one of another topic id, and is set aside at the start."""
    many = [TopicPartition("t", number) for number in range(12)]
    came_back = 0
    for seed in range(40):
        disk = FaultyDisk()
        dirs = loaded(disk)
        for partition in many:
            log = dirs.create(partition, TOPIC_ID, SMALL)
            log.append_leader(batch(), 0, 0)
            log.flush()
        disk.crash_at = disk.steps + 1 + seed % len(many)
        with pytest.raises(Crash):
            gone_for_good(dirs, many)
        again = loaded(disk.power_cut(seed))
        came_back += len(again.logs)
        assert all((log.topic_id, log.log_end_offset) == (TOPIC_ID, 3) for log in again.logs.values())
        left = dict.fromkeys(again.logs, OTHER_ID)
        assert set(again.remove_strays(left, 0)) == set(left)
        assert not again.logs
        assert len(again.strays) == len(left)
    assert came_back, "no cut came while there was something to lose"


def test_a_failed_directory_does_not_keep_the_logs_of_others() -> None:
    disk = FaultyDisk()
    dirs = loaded(disk, "/a", "/b")
    many = [TopicPartition("t", number) for number in range(6)]
    for partition in many:
        dirs.create(partition, TOPIC_ID, SMALL)
    disk.fail_at = disk.steps + 2
    with pytest.raises(DirOffline):
        dirs.delete_all(many, 0)
    assert [dir.path for dir in dirs.offline] == ["/a"]
    assert not dirs.logs
    assert sum(name.endswith("-delete") for name in disk.list_dir("/b")) == 3


def test_idle_files_are_closed_to_open_others() -> None:
    disk = FaultyDisk()
    dirs = LogDirs(disk, ["/d"], open_files=3)
    dirs.load(lambda _: SMALL)
    logs = [dirs.create(TopicPartition("t", n), TOPIC_ID, SMALL) for n in range(10)]
    for turn in range(3):
        for log in logs:
            assert log.append_leader(batch(), 0, 0).first_offset == 3 * turn
            assert disk.open_files <= 4
    for log in logs:
        assert offsets(log) == [0, 3, 6]
        assert disk.open_files <= 4
    dirs.close()
    assert disk.open_files == 0


def test_segments_roll_by_time_with_a_jitter_of_their_own() -> None:
    config = LogConfig(segment_ms=1000, segment_jitter_ms=300)
    dirs = loaded(FaultyDisk(), config=config)
    log = dirs.create(P, TOPIC_ID, config)

    def bases(log: Log) -> list[int]:
        return [segment.base_offset for segment in log.segments]

    jitters = set()
    for number in range(3):
        log.append_leader(batch(1, timestamp=number * 5000), 0, 0)
        jitters.add(log.limits.jitter_ms)
        limit = number * 5000 + 1000 - log.limits.jitter_ms
        log.append_leader(batch(1, timestamp=limit), 0, 0)
        assert bases(log)[-1] == 3 * number
        log.append_leader(batch(1, timestamp=limit + 1), 0, 0)
        assert bases(log)[-1] == 3 * number + 2
        log.roll()
    assert len(jitters) == 3
    assert jitters < set(range(300))


def test_offsets_that_do_not_fit_an_index_begin_another_segment(tmp_path: Path) -> None:
    _, log = fresh(tmp_path, LogConfig())
    log.append_follower(bytes(batch(3, base_offset=0, leader_epoch=0)))
    far = 3 + 2**31
    log.append_follower(bytes(batch(3, base_offset=far, leader_epoch=0)))
    assert [segment.base_offset for segment in log.segments] == [0, far]
    assert offsets(log) == [0, far]


def test_index_entries_of_a_cut_tail_do_not_come_back(tmp_path: Path) -> None:
    config = LogConfig(index_interval_bytes=0)
    dirs, log = fresh(tmp_path, config)
    for number in range(10):
        log.append_leader(batch(1, timestamp=number), 0, 0)
    dirs.close()
    dirs, log = again(tmp_path, config)
    log.truncate_to(5)
    log.append_leader(batch(1, timestamp=5, size=5000), 0, 0)
    dirs.close()
    check_files(again(tmp_path, config)[1])


def test_a_log_that_was_opened_written_and_closed_again_is_as_whole_as_a_new_one(tmp_path: Path) -> None:
    dirs, log = fresh(tmp_path, LogConfig())
    log.append_leader(batch(timestamp=5), 0, 0)
    dirs.close()
    dirs, log = again(tmp_path, LogConfig())
    log.append_leader(batch(timestamp=900, producer_id=3, producer_epoch=0, base_sequence=0), 0, 0)
    dirs.close()
    assert (tmp_path / "t-0" / f"{6:020d}.snapshot").exists()
    newest = again(tmp_path, LogConfig())[1].offset_of_max_timestamp()
    assert newest is not None
    assert newest[:2] == (902, 5)


def test_a_full_index_begins_another_segment() -> None:
    config = LogConfig(index_interval_bytes=0, segment_index_bytes=60)
    log = loaded(FaultyDisk(), config=config).create(P, TOPIC_ID, config)
    for number in range(20):
        log.append_leader(batch(1, timestamp=number), 0, 0)
    assert [segment.base_offset for segment in log.segments] == [0, 6, 12, 18]


def test_bytes_of_a_tail_that_was_cut_are_no_batches_though_they_look_sound() -> None:
    """A truncation that did not reach the disk before what was written after it."""
    disk = FaultyDisk()
    log = loaded(disk).create(P, TOPIC_ID, LogConfig())
    for epoch in (1, 1, 5):
        log.append_leader(batch(), epoch, 0)
    stale = batch(base_offset=9, leader_epoch=2)
    inode = disk.names["/d/t-0/00000000000000000000.log"]
    assert inode is not None
    inode.data += stale
    dirs = loaded(disk.process_killed())
    assert dirs.logs[P].log_end_offset == 9
    assert "leader epoch 2 follows 5" in dirs.findings[0]


def test_a_producer_snapshot_above_the_recovery_point_is_not_believed() -> None:
    """A truncation removed it, and a power cut brought it back: it tells of batches that were cut."""
    disk = FaultyDisk()
    dirs = loaded(disk)
    log = dirs.create(P, TOPIC_ID, SMALL)
    log.append_leader(batch(3, producer_id=7, producer_epoch=0, base_sequence=0), 0, 0)
    log.flush()
    dirs.checkpoint()
    log.append_leader(batch(3, producer_id=7, producer_epoch=0, base_sequence=3), 0, 0)
    file = disk.open("/d/t-0/00000000000000000006.snapshot", create=True)
    stale = Producers()
    stale.record(read_header(batch(3, producer_id=8, producer_epoch=0, base_sequence=0)), 3, 0)
    file.pwrite((stale.snapshot(),), 0)
    log = loaded(disk.process_killed()).logs[P]
    assert [id for id, _ in log.producers] == [7]


@pytest.mark.parametrize("stop", ["clean", "killed", "killed after a clean one"])
def test_all_batches_that_a_client_had_on_the_way_are_recognised_after_a_start(stop: str) -> None:
    """A snapshot names the last one alone. A leader that was started anew refused the others as out of order, and
    librdkafka's producers ended with a fatal error: all five are still sent again."""
    disk = FaultyDisk()
    dirs = loaded(disk)
    log = dirs.create(P, TOPIC_ID, SMALL)
    for number in range(8):
        for id in (7, 9):
            log.append_leader(batch(3, producer_id=id, producer_epoch=0, base_sequence=3 * number), 0, 0)
    if stop == "killed":
        log.flush()
        dirs.checkpoint()
    else:
        dirs.close()
    if stop == "killed after a clean one":
        loaded(disk)
    log = loaded(disk.process_killed()).logs[P]
    for number in range(3, 8):
        again = log.append_leader(batch(3, producer_id=7, producer_epoch=0, base_sequence=3 * number), 0, 0)
        assert (again.duplicate, again.first_offset) == (True, 6 * number)
    sixth = log.append_leader(batch(3, producer_id=7, producer_epoch=0, base_sequence=6), 0, 0)
    assert sixth.code is Code.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_index_entry_is_due_when_more_than_its_interval_was_written() -> None:
    size = len(batch(1))
    config = LogConfig(index_interval_bytes=size)
    log = loaded(FaultyDisk(), config=config).create(P, TOPIC_ID, config)
    for _ in range(7):
        log.append_leader(batch(1), 0, 0)
    assert list(log.active.index.offsets) == [2, 4, 6]


# -- a flush that runs elsewhere while the log goes on


def test_what_is_written_after_a_truncation_is_not_covered_by_a_flush_that_began_before() -> None:
    dirs = loaded(FaultyDisk())
    log = dirs.create(P, TOPIC_ID, SMALL)
    for _ in range(4):
        log.append_leader(batch(), 0, 0)
    flush = log.begin_flush()
    assert flush is not None
    flush.run()
    log.truncate_to(3)
    for _ in range(4):
        log.append_leader(batch(), 1, 0)
    log.end_flush(flush)
    assert log.recovery_point <= 3
    log.flush()
    assert log.recovery_point == 15


@pytest.mark.parametrize("what", ["deleted", "truncated", "retained away", "closed"])
def test_a_file_in_a_running_flush_is_not_closed_under_it(what: str) -> None:
    disk = FaultyDisk()
    config = LogConfig(internal_segment_bytes=700)
    dirs = loaded(disk, config=config)
    log = dirs.create(P, TOPIC_ID, config)
    for _ in range(4):
        log.append_leader(batch(), 0, 0)
    log.high_watermark = log.log_end_offset
    flushes = [log.begin_flush(), log.begin_flush()]
    if what == "deleted":
        dirs.delete(P, 0)
    elif what == "truncated":
        log.truncate_fully_at(50)
    elif what == "retained away":
        log.advance_log_start(log.log_end_offset)
        dirs.retention_pass(0)
    else:
        log.close()
    for flush in flushes:
        assert flush is not None
        flush.run()
        assert flush.error is None
        log.end_flush(flush)
    log.close()
    assert dirs.offline == []
    assert disk.open_files == 0


def test_a_file_made_while_a_flush_runs_is_not_taken_for_durable() -> None:
    dirs = loaded(FaultyDisk())
    log = dirs.create(P, TOPIC_ID, SMALL)
    log.append_leader(batch(), 0, 0)
    flush = log.begin_flush()
    assert flush is not None
    log.roll()
    flush.run()
    log.end_flush(flush)
    assert log.folder.names.dirty
    assert not log.dir.names.dirty


def test_the_last_index_entries_of_a_flushed_and_closed_segment_are_made_durable_too() -> None:
    """Retention goes by the last time entry: a torn one could delete records before their time."""
    disk = FaultyDisk()
    dirs = loaded(disk)
    log = dirs.create(P, TOPIC_ID, SMALL)
    log.append_leader(batch(), 0, 0)
    log.flush()
    log.roll()
    assert dirs.disk is disk
    dirs.flush_pass(0)
    for kind in ("index", "timeindex"):
        inode = disk.names[f"/d/t-0/00000000000000000000.{kind}"]
        assert inode is not None
        assert not inode.pending
    assert log.begin_flush() is None


def test_an_older_flush_does_not_overwrite_the_epochs_of_a_newer_one() -> None:
    disk = FaultyDisk()
    dirs = loaded(disk)
    log = dirs.create(P, TOPIC_ID, SMALL)
    log.append_leader(batch(), 3, 0)
    older = log.begin_flush()
    log.append_leader(batch(), 4, 0)
    newer = log.begin_flush()
    for flush in (newer, older):
        assert flush is not None
        flush.run()
        log.end_flush(flush)
    assert disk.read("/d/t-0/leader-epoch-checkpoint") == b"0\n2\n3 0\n4 3\n"


def test_what_is_cut_while_another_directorys_producers_are_read_again_is_read_as_well() -> None:
    dirs = LogDirs(FaultyDisk(), ["/one", "/two"])
    config = LogConfig()
    dirs.load(lambda _: config)
    first, second = sorted(
        (dirs.create(TopicPartition("t", number), bytes([number + 1] * 16), config) for number in range(2)),
        key=lambda log: log.dir.path,
    )
    for dir in dirs.dirs:
        dir.on_cut = lambda: None  # somebody reads them already
    for log in (first, second):
        for sequence in range(700):
            data = build([(0, b"k", b"v", [])], producer_id=4, producer_epoch=0, base_sequence=sequence)
            log.append_leader(bytearray(data), 0, 0)
    second.truncate_to(650)
    reading = dirs.producers_in_slices()
    next(reading)
    first.truncate_to(650)
    for _ in reading:
        pass
    assert first.known_producers is not None
    assert second.known_producers is not None
