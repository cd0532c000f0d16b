"""Checkpoints written off the loop: taken without touching the disk, never older than what was written meanwhile."""

from __future__ import annotations

import pytest

from moldau.model import TopicPartition
from moldau.storage import DirOffline, Log, LogDirs
from moldau.storage.checkpoints import parse_offsets
from moldau.storage.names import RECOVERY_POINTS, RESTARTED
from moldau.storage.offset_files import GATHERED_AT_ONCE
from tests.packages.storage.faulty_disk import FaultyDisk
from tests.packages.storage.test_log import SMALL, TOPIC_ID, P, batch


def written(count: int) -> tuple[FaultyDisk, LogDirs, Log]:
    """A log of so many batches, all flushed."""
    disk = FaultyDisk()
    dirs = LogDirs(disk, ["/d"])
    dirs.load(lambda _: SMALL)
    log = dirs.create(P, TOPIC_ID, SMALL)
    for _ in range(count):
        log.append_leader(batch(1), 1, 0)
    log.flush()
    return disk, dirs, log


def on_file(disk: FaultyDisk) -> int:
    return parse_offsets(disk.read(f"/d/{RECOVERY_POINTS}"), "")[P]


def test_taking_a_checkpoint_does_not_touch_the_disk() -> None:
    disk, dirs, log = written(3)
    steps = disk.steps
    (checkpoint,) = dirs.checkpoints_due()
    assert disk.steps == steps
    checkpoint.run()
    dirs.end_checkpoint(checkpoint)
    assert on_file(disk) == log.restart_point == log.recovery_point


def test_a_late_checkpoint_does_not_bring_back_what_a_truncation_took() -> None:
    disk, dirs, log = written(6)
    (late,) = dirs.checkpoints_due()
    cut = log.log_end_offset // 2
    assert log.truncate_to(cut)
    end = log.log_end_offset
    log.append_leader(batch(1), 2, 0)
    assert on_file(disk) == end, "the log says so before it writes what replaces the cut"
    late.run()
    dirs.end_checkpoint(late)
    assert on_file(disk) == log.restart_point == end


def test_a_log_cut_while_its_checkpoint_is_under_way_says_so_before_it_goes_on() -> None:
    disk, dirs, log = written(2)
    dirs.checkpoint()
    before = on_file(disk)
    for _ in range(2, 6):
        log.append_leader(batch(1), 1, 0)
    log.flush()
    (under_way,) = dirs.checkpoints_due()
    log.truncate_to((before + log.log_end_offset) // 2 + 1)
    end = log.log_end_offset
    assert before < end < under_way.offsets[RECOVERY_POINTS][P], "the file holds less than what is left, and soon more"
    log.append_leader(batch(1), 2, 0)
    under_way.run()
    dirs.end_checkpoint(under_way)
    assert on_file(disk) == end


def test_of_two_checkpoints_the_one_taken_later_stays() -> None:
    disk, dirs, log = written(2)
    (first,) = dirs.checkpoints_due()
    log.append_leader(batch(1), 1, 0)
    log.flush()
    (second,) = dirs.checkpoints_due()
    for checkpoint in (second, first):
        checkpoint.run()
        dirs.end_checkpoint(checkpoint)
    assert on_file(disk) == log.recovery_point == log.restart_point


def test_a_checkpoint_that_cannot_be_written_takes_its_directory_offline() -> None:
    disk, dirs, log = written(2)
    (checkpoint,) = dirs.checkpoints_due()
    disk.fail_at, disk.once = disk.steps, False
    checkpoint.run()
    assert dirs.dirs[0].offline is None, "a worker thread only keeps the error"
    dirs.end_checkpoint(checkpoint)
    assert dirs.dirs[0].offline is not None
    with pytest.raises(DirOffline):
        log.append_leader(batch(1), 1, 0)


def test_offsets_of_many_logs_are_gathered_in_slices() -> None:
    _, dirs, _ = written(1)
    for number in range(1, 2 * GATHERED_AT_ONCE + 1):
        dirs.create(TopicPartition("many", number), TOPIC_ID, SMALL)
    work = dirs.checkpoints_in_slices()
    for _ in range(2):
        next(work)  # a pause after each part but the last
    with pytest.raises(StopIteration) as end:
        next(work)
    (checkpoint,) = end.value.value
    assert len(checkpoint.offsets[RECOVERY_POINTS]) == 2 * GATHERED_AT_ONCE + 1


def test_a_log_cut_while_a_checkpoint_is_gathered_has_the_last_word() -> None:
    disk, dirs, log = written(6)
    for number in range(1, GATHERED_AT_ONCE + 1):
        dirs.create(TopicPartition("many", number), TOPIC_ID, SMALL)
    work = dirs.checkpoints_in_slices()
    next(work)
    assert log.truncate_to(log.log_end_offset // 2)
    end = log.log_end_offset
    log.append_leader(batch(1), 2, 0)
    assert on_file(disk) == end
    with pytest.raises(StopIteration) as over:
        next(work)
    (late,) = over.value.value
    late.run()
    dirs.end_checkpoint(late)
    assert on_file(disk) == end, "what was gathered first is not written over it"


def test_a_log_made_anew_while_recovery_points_are_written_is_not_taken_for_the_old_one() -> None:
    disk, dirs, _ = written(6)
    (dir,) = dirs.dirs
    work = dirs.recovery_points_in_slices(dir)
    with pytest.raises(StopIteration) as over:
        next(work)
    checkpoint = over.value.value
    dirs.delete(P, 0)
    dirs.create(P, bytes(16), SMALL)
    checkpoint.run()
    dirs.end_checkpoint(checkpoint)
    assert on_file(disk) == 6
    assert disk.exists(f"/d/{P}/{RESTARTED}"), "what the file says is outdated"
