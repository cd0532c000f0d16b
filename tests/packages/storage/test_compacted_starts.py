"""Unclean starts of compacted logs: the gaps that compaction leaves are no lost tails, whoever has compacted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moldau.model.value import replace
from moldau.storage import Log, LogConfig, LogDirs
from moldau.storage.checkpoints import format_offsets
from moldau.storage.compaction import plan
from moldau.storage.names import CLEANED_TO, LOG_STARTS, RECOVERY_POINTS
from tests.packages.storage.faulty_disk import FaultyDisk
from tests.packages.storage.test_cleaning import COMPACT, begin, put_in_place, read_all, settle, write
from tests.packages.storage.test_log import P

PLAIN = LogConfig(internal_segment_bytes=700, index_interval_bytes=100)
FILES = {name: f"/d/{name}" for name in (RECOVERY_POINTS, CLEANED_TO, LOG_STARTS)}
KEPT = replace(COMPACT, file_delete_delay_ms=60_000)


def compacted(config: LogConfig = COMPACT) -> tuple[FaultyDisk, list[tuple[int, bytes | None, bytes | None, int]]]:
    """A log of several compacted segments, of which each ends with a gap, as a killed process leaves it."""
    disk = FaultyDisk()
    dirs, log = begin(config, disk)
    for number in range(6):
        for key in range(4):
            write(log, [(b"u%d-%d" % (number, key), bytes(40))])
        write(log, [(b"same", b"%d" % number)])
        log.roll()
    settle(dirs, log)
    compaction = plan(log, 0)
    assert compaction is not None
    compaction.order = compaction.order._replace(segment_bytes=1)  # none is joined with another
    compaction.run()
    put_in_place(log, compaction, 0)
    dirs.checkpoint()
    kept = read_all(log)
    ends = [list(segment.walk(0))[-1][1].next_offset for segment in log.segments[:-1]]
    assert sum(end < after for end, after in zip(ends, log.bases[1:], strict=True)) >= 4
    return disk.process_killed(), kept


def start(disk: FaultyDisk, config: LogConfig = PLAIN) -> tuple[LogDirs, Log]:
    """What a node does before it knows the settings of topics."""
    dirs = LogDirs(disk, ["/d"])
    dirs.load(lambda _: config)
    return dirs, dirs.logs[P]


def put(disk: FaultyDisk, name: str, data: bytes) -> None:
    disk.write_atomic(FILES[name], data)


def lose(disk: FaultyDisk) -> None:
    disk.remove(FILES[RECOVERY_POINTS])


def empty(disk: FaultyDisk) -> None:
    put(disk, RECOVERY_POINTS, b"")


def garble(disk: FaultyDisk) -> None:
    put(disk, RECOVERY_POINTS, b"\x00\xffgarbage")


def zero(disk: FaultyDisk) -> None:
    """Apache Kafka compacts above its recovery point, and writes that file once a minute."""
    put(disk, RECOVERY_POINTS, format_offsets({P: 0}))


def no_line(disk: FaultyDisk) -> None:
    put(disk, RECOVERY_POINTS, format_offsets({}))


@pytest.mark.parametrize("damage", [lose, empty, garble, zero, no_line])
def test_no_record_is_cut_off_however_often_the_node_is_killed(damage: Callable[[FaultyDisk], None]) -> None:
    disk, kept = compacted()
    damage(disk)
    for _ in range(3):
        dirs, log = start(disk)
        log.reconfigure(COMPACT)
        assert read_all(log) == kept
        dirs.checkpoint()
        disk = disk.process_killed()


@pytest.mark.parametrize("cleaned", [b"", b"\x00\xff"], ids=["empty", "garbage"])
def test_a_checkpoint_of_the_cleaner_that_cannot_be_read_is_no_proof_that_nothing_was_compacted(cleaned: bytes) -> None:
    disk, kept = compacted()
    zero(disk)
    put(disk, CLEANED_TO, cleaned)
    _, log = start(disk)
    log.reconfigure(COMPACT)
    assert read_all(log) == kept


@pytest.mark.parametrize("config", [COMPACT, KEPT], ids=["old files gone", "old files waiting"])
def test_a_kill_before_the_cleaner_s_checkpoint_cuts_nothing(config: LogConfig) -> None:
    disk, kept = compacted(config)
    zero(disk)
    put(disk, CLEANED_TO, format_offsets({}))
    _, log = start(disk)
    log.reconfigure(COMPACT)
    assert read_all(log) == kept


def test_a_tail_lost_by_a_log_that_was_never_compacted_is_still_found() -> None:
    disk = FaultyDisk()
    dirs, log = begin(PLAIN, disk)
    for number in range(12):
        write(log, [(b"%d" % number, bytes(60)), (b"x", b"")])
    log.flush()
    dirs.checkpoint()
    assert len(log.segments) > 2
    last = list(log.segments[0].walk(0))[-1][0]
    disk = disk.process_killed()
    zero(disk)
    file = disk.open(f"/d/t-0/{0:020d}.log")
    file.truncate(last)
    file.close()
    _, log = start(disk)
    assert log.findings
    assert len(log.segments) == 1


def test_what_a_start_has_read_and_checked_is_flushed_soon_and_need_not_be_read_again() -> None:
    disk, _ = compacted()
    lose(disk)
    dirs, log = start(disk)
    assert log.recovery_point == 0
    dirs.flush_pass(0)
    assert log.recovery_point == log.active.base_offset > 0
    dirs.checkpoint()
    assert b"t 0 %d" % log.active.base_offset in disk.read(FILES[RECOVERY_POINTS])


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_whose_policy_is_another_now_is_read_over_its_gaps_without_the_cleaner_s_checkpoint(clean: bool) -> None:
    disk, kept = compacted()
    if clean:
        dirs, _ = start(disk)
        dirs.close()
    disk.remove(FILES[CLEANED_TO])
    _, log = start(disk)
    assert not log.config.compact
    assert read_all(log) == kept
