"""A log that moves to another directory: ended at every step of the disk, it is whole in one of the two, never in none.

Also what a start makes of copies it finds: goes on, finishes the swap, or removes what nobody needs.
"""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from moldau.model import Code
from moldau.storage import DirOffline, Log, LogConfig, LogDirs
from moldau.storage.names import future_folder
from moldau.wire.batch import headers
from tests.packages.storage.faulty_disk import Crash, FaultyDisk
from tests.packages.storage.test_log import TOPIC_ID, P, batch, check_files

CONFIG = LogConfig(internal_segment_bytes=1500, index_interval_bytes=300, file_delete_delay_ms=10)
UNIQUE = "0f" * 16


def start(disk: FaultyDisk) -> LogDirs:
    dirs = LogDirs(disk, ["/a", "/b"])
    dirs.load(lambda _: CONFIG)
    dirs.remove_strays({P: TOPIC_ID}, 0)
    return dirs


def filled(dirs: LogDirs, batches: int = 8) -> Log:
    dirs.preferred[P] = "/a"
    log = dirs.create(P, TOPIC_ID, CONFIG)
    assert log.dir.path == "/a"
    for number in range(batches):
        append(log, number // 3)
    log.high_watermark = log.log_end_offset
    return log


def append(log: Log, epoch: int) -> None:
    sequence = log.log_end_offset
    data = batch(2, producer_id=9, producer_epoch=0, base_sequence=sequence, size=150)
    assert log.append_leader(data, epoch, 0).code is Code.NONE


def content(log: Log) -> list[tuple[int, bytes]]:
    found, offset = [], log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1000)
        for position, header in headers(data):
            found.append((header.base_offset, data[position : position + header.size]))
            offset = header.next_offset
    return found


def copy_all(dirs: LogDirs, size: int = 500) -> None:
    while dirs.futures.copy(P, size, 0):
        pass


def move(dirs: LogDirs) -> Log:
    """As the broker does it: copy, make durable, copy what came meanwhile, swap."""
    if P not in dirs.futures.logs:
        dirs.futures.create(P, dirs.dirs[1], UNIQUE)
    copy_all(dirs)
    dirs.futures.logs[P].log.flush(whole=True)
    for checkpoint in dirs.checkpoints_due(dirs.futures.logs[P].log.dir):
        checkpoint.run()
        dirs.end_checkpoint(checkpoint)
    append(dirs.logs[P], 9)
    copy_all(dirs)
    return dirs.futures.swap(P, 0)


def test_a_log_moves_with_its_records_epochs_producers_and_marks() -> None:
    disk = FaultyDisk()
    dirs = start(disk)
    log = filled(dirs)
    log.assign_epoch(7, 16)
    log.advance_log_start(3)
    before = dirs.futures.create(P, dirs.dirs[1], UNIQUE)
    assert not disk.exists("/b/" + str(P))
    copy_all(dirs)
    log.flush()
    now = dirs.futures.swap(P, 0)
    assert now is before.log is dirs.logs[P]
    assert now.recovery_point == 16, "what was durable stays durable"
    assert now.dir.path == "/b"
    assert content(now) == content(log)[: len(content(now))]
    assert (now.log_start_offset, now.log_end_offset, now.high_watermark) == (3, 16, 16)
    assert now.epochs == log.epochs
    assert now.producers.get(9).last_sequence == 15
    assert now.topic_id == TOPIC_ID
    assert not disk.exists(f"/a/{P}")
    append(now, 8)
    check_files(now)
    assert dirs.deletion_pass(10**9) == 0, "a power cut might undo the rename that took its place"
    for sync in dirs.name_syncs_due():
        sync.run()
        sync.finish()
    assert dirs.deletion_pass(10**9) == 1
    assert disk.list_dir("/a") == [name for name in disk.list_dir("/a") if not name.startswith(P.topic)]
    dirs.close()
    again = start(disk)
    assert content(again.logs[P]) == content(now)
    assert not again.futures.logs


def test_a_copy_follows_what_its_log_cuts_and_begins_again_above_a_moved_start() -> None:
    dirs = start(FaultyDisk())
    log = filled(dirs)
    future = dirs.futures.create(P, dirs.dirs[1], UNIQUE)
    copy_all(dirs)
    log.truncate_to(10)
    append(log, 6)
    append(log, 6)
    copy_all(dirs)
    assert content(future.log) == content(log)
    log.truncate_fully_at(40)
    append(log, 7)
    copy_all(dirs)
    assert content(future.log) == content(log)
    assert future.log.log_start_offset == 40


def test_a_copy_that_a_start_finds_is_cut_where_it_differs_and_goes_on() -> None:
    disk = FaultyDisk()
    dirs = start(disk)
    log = filled(dirs)
    dirs.futures.create(P, dirs.dirs[1], UNIQUE)
    copy_all(dirs)
    log.truncate_to(8)  # and the process ends before the copy hears of it
    for _ in range(5):
        append(log, 6)
    dirs = start(disk)
    assert set(dirs.futures.logs) == {P}
    assert dirs.futures.logs[P].log.log_end_offset == 16
    now = move(dirs)
    assert now.dir.path == "/b"
    assert content(now) == content(log) + content(now)[-1:]
    assert now.epochs.entries() == [(0, 0), (1, 6), (6, 8), (9, 18)]


def test_a_copy_called_off_or_of_a_deleted_topic_is_gone_and_stays_gone() -> None:
    for end in ("drop", "delete"):
        disk = FaultyDisk()
        dirs = start(disk)
        filled(dirs)
        dirs.futures.create(P, dirs.dirs[1], UNIQUE)
        copy_all(dirs)
        if end == "drop":
            dirs.futures.drop(P, 0)
        else:
            dirs.delete(P, 0)
        again = start(disk)
        assert not again.futures.logs
        assert (P in again.logs) == (end == "drop")
        assert not disk.exists(f"/b/{future_folder(P, UNIQUE)}")


def test_a_copy_waits_while_its_log_may_be_in_a_directory_that_is_away() -> None:
    disk = FaultyDisk()
    dirs = start(disk)
    log = filled(dirs)
    dirs.futures.create(P, dirs.dirs[1], UNIQUE)
    dirs.futures.copy(P, 500, 0)
    away = LogDirs(disk, ["/a", "/b"])
    away.dirs[0].fail(OSError(5, "away"))
    away.load(lambda _: CONFIG)
    assert P not in away.logs
    assert not away.futures.logs
    back = start(disk)
    assert content(back.logs[P]) == content(log)
    assert set(back.futures.logs) == {P}


def life(disk: FaultyDisk) -> Any:
    dirs = start(disk)
    yield filled(dirs)
    dirs.logs[P].flush()
    dirs.checkpoint()
    yield dirs.logs[P]
    now = move(dirs)
    yield now
    append(now, 9)
    yield now
    dirs.close()


def steps() -> int:
    disk = FaultyDisk()
    for _ in life(disk):
        pass
    return disk.steps


@pytest.mark.parametrize("power", [False, True])
def test_ended_at_any_step_the_log_is_whole_in_exactly_one_directory(power: bool) -> None:
    everything = steps()
    moved = 0
    for at in range(everything):
        disk = FaultyDisk(crash_at=at)
        sure: list[tuple[int, bytes]] = []
        told = 0
        with contextlib.suppress(Crash):
            for log in life(disk):
                told += 1
                if told == 2:
                    sure = content(log)
        if power:
            disk = disk.power_cut(at)
        disk.crash_at = -1
        dirs = start(disk)
        found = dirs.logs.get(P)
        if found is None:
            assert told < 2, f"the log is nowhere after step {at}"
            continue
        assert content(found)[: len(sure)] == sure, f"flushed records are missing after step {at}: {disk.log[-3:]}"
        moved += found.dir.path == "/b"
        assert (P in dirs.futures.logs) <= (found.dir.path == "/a")
        check_files(found)
        if found.dir.path == "/a":
            assert move(dirs).dir.path == "/b"
        assert [name for name in disk.list_dir("/b") if name == str(P)]
    assert 0 < moved < everything


def test_a_directory_that_fails_in_the_middle_of_a_swap_leaves_the_log_to_the_next_start() -> None:
    disk = FaultyDisk()
    dirs = start(disk)
    log = filled(dirs)
    dirs.futures.create(P, dirs.dirs[1], UNIQUE)
    copy_all(dirs)
    before = disk.steps
    probe = FaultyDisk()
    twin = start(probe)
    filled(twin)
    twin.futures.create(P, twin.dirs[1], UNIQUE)
    copy_all(twin)
    assert probe.steps == before
    twin.futures.swap(P, 0)
    renames = [int(line.split()[0]) for line in probe.log[before:] if " rename " in line]
    disk.fail_at = renames[-1]
    with pytest.raises(DirOffline):
        dirs.futures.swap(P, 0)
    assert dirs.logs[P].dir.path == "/b"
    assert dirs.logs[P].dir.offline is not None
    disk.fail_at = -1
    again = start(disk)
    assert again.logs[P].dir.path == "/b"
    assert content(again.logs[P]) == content(log)


def test_nobody_waits_for_the_file_of_a_segment_that_was_dropped_with_its_log() -> None:
    """A swap gave the log up and failed: whoever has files made went round and round for it."""
    disk = FaultyDisk()
    dirs = start(disk)
    log = filled(dirs)
    for dir in dirs.dirs:
        dir.on_file_wanted = lambda log: None
    log.roll()
    append(log, 9)
    opening = log.opening
    assert opening is not None
    for segment in log.segments:
        segment.drop()
    opening.run()
    opening.end()
    assert not log.awaits_file
    assert log.dir.unwritten == 0
