"""Segments that are gone with all their files: a log never begins higher, or goes on behind a gap, by itself."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from moldau.model import TopicPartition
from moldau.runtime.disk import RealDisk
from moldau.storage import CorruptLog, Log, LogConfig, LogDirs, LogError
from moldau.storage.checkpoints import format_offsets, parse_offsets
from moldau.storage.names import LOG_STARTS, RECOVERY_POINTS
from tests.packages.storage.faulty_disk import Crash, FaultyDisk
from tests.packages.storage.test_damage import NOW_MS, read, stopped
from tests.packages.storage.test_log import TOPIC_ID, P, batch

SMALL = LogConfig(internal_segment_bytes=700, index_interval_bytes=100, retention_ms=-1, file_delete_delay_ms=0)


def remove(data: Path, *numbers: int) -> None:
    """Remove these segments of the damaged log with all their files."""
    logs = sorted(data.glob("t-0/*.log"))
    for number in numbers:
        for file in data.glob(f"t-0/{logs[number].stem}.*"):
            file.unlink()


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_log_that_lost_its_first_segments_is_out_of_use(tmp_path: Path, clean: bool, count: int) -> None:
    """Its start would move up, followers would delete what lay below, and nobody would hear of it."""
    world = stopped(tmp_path, clean=clean)
    remove(tmp_path, *range(count))
    left = sorted(file.name for file in tmp_path.glob("t-0/*"))
    world.start()
    assert P not in world.dirs.logs
    assert world.dirs.unusable == {P: str(tmp_path / "t-0")}
    (told,) = [sentence for sentence in world.told if "t-0" in sentence]
    assert "begins at" in told
    assert str(tmp_path / LOG_STARTS) in told
    with pytest.raises(LogError):
        world.dirs.create(P, TOPIC_ID, SMALL)
    world.is_innocent()
    for _ in range(2):
        world.dirs.checkpoint()
        world.dirs.close()
        world.start()
        assert P in world.dirs.unusable, "what was recorded of it stays"
    assert sorted(file.name for file in tmp_path.glob("t-0/*")) == left, "nothing of it is touched"


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_that_lost_all_its_segments_is_out_of_use(tmp_path: Path, clean: bool) -> None:
    world = stopped(tmp_path, clean=clean)
    remove(tmp_path, *range(len(list(tmp_path.glob("t-0/*.log")))))
    world.start()
    assert P in world.dirs.unusable
    world.is_innocent()


def test_a_log_without_its_first_segments_is_taken_once_its_recorded_start_is_removed(tmp_path: Path) -> None:
    """The way for an operator who has no other replica."""
    world = stopped(tmp_path)
    remove(tmp_path, 0)
    world.start()
    world.dirs.close()
    starts = tmp_path / LOG_STARTS
    lines = starts.read_text().splitlines(keepends=True)
    starts.write_text("".join(line for line in lines if not line.startswith((f"{P.topic} ", "#"))))
    world.start()
    log = world.dirs.logs[P]
    assert log.log_start_offset > 0
    assert read(log) == list(range(log.log_start_offset, 60))


@pytest.mark.parametrize("kept", [None, {}, {TopicPartition("innocent", 0): 0}])
def test_a_log_without_a_recorded_start_begins_where_its_first_segment_does(
    tmp_path: Path, kept: dict[TopicPartition, int] | None
) -> None:
    """Apache Kafka, and Moldau before, recorded only a start that lies within a segment."""
    world = stopped(tmp_path)
    if kept is None:
        (tmp_path / LOG_STARTS).unlink()
    else:
        (tmp_path / LOG_STARTS).write_bytes(format_offsets(kept))
    remove(tmp_path, 0)
    world.start()
    assert world.dirs.logs[P].log_start_offset > 0
    world.dirs.checkpoint()
    assert parse_offsets((tmp_path / LOG_STARTS).read_bytes(), "")[P] == world.dirs.logs[P].log_start_offset


def test_a_digit_that_became_another_is_not_believed_in_any_checkpoint(tmp_path: Path) -> None:
    """A wrong log start within the log cannot be told from DeleteRecords: acknowledged records would be gone."""
    world = stopped(tmp_path)
    starts = tmp_path / LOG_STARTS
    text = starts.read_text()
    assert f"{P.topic} {P.partition} 0\n" in text
    starts.write_text(text.replace(f"{P.topic} {P.partition} 0\n", f"{P.topic} {P.partition} 8\n"))
    world.start()
    assert read(world.dirs.logs[P]) == list(range(60))
    (told,) = [sentence for sentence in world.told if LOG_STARTS in sentence]
    assert "checksum" in told
    world.is_innocent()
    points = tmp_path / RECOVERY_POINTS
    points.write_text(points.read_text().replace(" 60\n", " 61\n"))
    world.told.clear()
    world.start()
    assert [sentence for sentence in world.told if RECOVERY_POINTS in sentence]
    assert read(world.dirs.logs[P]) == list(range(60))


def test_a_log_that_lost_its_end_after_a_clean_stop_makes_the_stop_count_as_none(tmp_path: Path) -> None:
    """The controller then takes this broker out of the ISRs, and it follows a leader before it can lead (KIP-966)."""
    world = stopped(tmp_path)
    world.dirs.close(7)
    world.start()
    assert world.dirs.previous_broker_epoch == 7
    world.dirs.close(8)
    remove(tmp_path, -1)
    world.told.clear()
    world.start()
    assert world.dirs.previous_broker_epoch == -1
    assert any("t-0" in sentence and "below 60" in sentence for sentence in world.told)


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_that_lost_its_last_segment_only_follows_from_there(tmp_path: Path, clean: bool) -> None:
    """Its index stayed, and the log could not be loaded for a file that was not there."""
    world = stopped(tmp_path, clean=clean)
    last = sorted(tmp_path.glob("t-0/*.log"))[-1]
    assert not clean or last.with_suffix(".index").stat().st_size
    last.unlink()
    world.start()
    log = world.dirs.logs[P]
    assert world.dirs.previous_broker_epoch == -1
    assert log.log_end_offset == int(last.stem)
    assert any("lost its end" in sentence for sentence in world.told) == clean
    log.append_leader(batch(2), 3, 0)
    assert read(log) == list(range(log.log_end_offset))
    world.dirs.close(5)
    world.told.clear()
    world.start()
    assert world.dirs.previous_broker_epoch == 5
    assert world.told == []


@pytest.mark.parametrize("clean", [True, False])
def test_a_folder_that_is_gone_makes_the_stop_count_as_none(tmp_path: Path, clean: bool) -> None:
    """Its replica would be in the ISR without one record, and might lead."""
    world = stopped(tmp_path)
    world.dirs.close(7)
    if not clean:
        (tmp_path / ".kafka_cleanshutdown").unlink()
    shutil.rmtree(tmp_path / "t-0")
    world.told.clear()
    world.start()
    assert world.dirs.previous_broker_epoch == -1
    assert any("t-0" in sentence for sentence in world.told) == clean
    world.dirs.close(8)
    world.start()
    assert world.dirs.previous_broker_epoch == 8
    world.is_innocent()


# -- what a crash leaves behind at any step


def deleting_records(dirs: LogDirs, log: Log) -> None:
    log.advance_log_start(30)
    dirs.retention_pass(0)


def starting_over_higher(dirs: LogDirs, log: Log) -> None:
    log.truncate_fully_at(500)
    log.append_leader(batch(3), 1, 0)


def starting_over_lower(dirs: LogDirs, log: Log) -> None:
    log.advance_log_start(30)
    dirs.retention_pass(0)
    log.truncate_fully_at(10)
    log.append_leader(batch(3), 1, 0)


def cutting_below_the_start(dirs: LogDirs, log: Log) -> None:
    log.advance_log_start(50)
    dirs.checkpoint()
    log.truncate_to(49)
    log.append_leader(batch(3), 1, 0)


def expiring(dirs: LogDirs, log: Log) -> None:
    log.reconfigure(LogConfig(internal_segment_bytes=700, retention_ms=1, file_delete_delay_ms=0))
    dirs.retention_pass(1 << 50)
    log.append_leader(batch(3), 1, 0)


def another_topic_of_the_name(dirs: LogDirs, log: Log) -> None:
    dirs.delete(P, 0)
    new = dirs.create(P, bytes(range(16)), SMALL)
    new.append_leader(batch(3), 0, 0)
    new.truncate_fully_at(100)
    new.append_leader(batch(3), 1, 0)
    new.flush()


def a_first_batch_far_away(dirs: LogDirs, log: Log) -> None:
    dirs.delete(P, 0)
    new = dirs.create(P, bytes(range(16)), SMALL)
    dirs.checkpoint()
    new.append_follower(batch(3, base_offset=1 << 33), 0)
    new.append_leader(batch(3), 1, 0)


LIVES = (
    deleting_records, starting_over_higher, starting_over_lower, cutting_below_the_start, expiring,
    another_topic_of_the_name, a_first_batch_far_away,
)  # fmt: skip


@pytest.mark.parametrize("later", [False, True], ids=["", "files cut after a checkpoint"])
@pytest.mark.parametrize("power", [True, False])
@pytest.mark.parametrize("live", LIVES)
def test_no_crash_leaves_a_log_that_looks_as_if_it_had_lost_its_beginning(
    live: Callable[[LogDirs, Log], None], power: bool, later: bool
) -> None:
    """The start is on the disk before the segments below it go; a log that starts over says so before it does."""
    crash_at = 0
    while True:
        disk = FaultyDisk()
        dirs = LogDirs(disk, ["/d"])
        dirs.load(lambda _: SMALL)
        log = dirs.create(P, TOPIC_ID, SMALL)
        for _ in range(20):
            log.append_leader(batch(3), 0, 0)
        log.high_watermark = log.log_end_offset
        log.flush()
        dirs.checkpoint()
        begun = disk.steps
        disk.crash_at = begun + crash_at
        if later:
            dirs.dirs[0].on_checkpoint_wanted = lambda _, dirs=dirs: dirs.checkpoint()  # type: ignore[misc]
        try:
            live(dirs, log)
            dirs.checkpoint()
            through = True
        except Crash:
            through = False
        start = dirs.logs[P].log_start_offset if P in dirs.logs else 0
        for seed in range(3 if power else 1):
            after = disk.power_cut(seed) if power else disk.process_killed()
            again = LogDirs(after, ["/d"])
            again.load(lambda _: SMALL)
            assert not again.unusable, (crash_at, again.findings)
            if through and not power:
                assert again.logs[P].log_start_offset == start
                assert "/d/t-0/restarted" not in after.names or again.logs[P].restarted
        crash_at += 1
        if through:
            break
    assert crash_at > 5


# -- in the middle


@pytest.mark.parametrize("clean", [True, False])
def test_a_segment_that_is_gone_from_the_middle_is_not_passed_over(tmp_path: Path, clean: bool) -> None:
    world = stopped(tmp_path, clean=clean)
    remove(tmp_path, 2)
    world.start()
    log = world.dirs.logs[P]
    base, after = log.segments[1].base_offset, log.segments[2].base_offset
    with pytest.raises(CorruptLog, match=f"to {after}"):
        read(log)
    assert log.read(base, 100)
    assert log.read(after, 100)
    world.is_innocent()


@pytest.mark.parametrize("pair", [(0, 1), (1, 2), (0, 3)])
@pytest.mark.parametrize("clean", [True, False])
def test_segments_whose_names_were_swapped_are_not_served(tmp_path: Path, clean: bool, pair: tuple[int, int]) -> None:
    world = stopped(tmp_path, clean=clean)
    one, other = (sorted(tmp_path.glob("t-0/*.log"))[number].stem for number in pair)
    for kind in ("log", "index", "timeindex"):
        paths = [tmp_path / f"t-0/{stem}.{kind}" for stem in (one, other)]
        data = [path.read_bytes() for path in paths]
        for path, held in zip(paths, reversed(data), strict=True):
            path.write_bytes(held)
    world.start()
    log = world.dirs.logs[P]
    for number in pair:
        with pytest.raises(CorruptLog):
            log.read(log.segments[number].base_offset, 100)
    world.is_innocent()


def test_the_gaps_of_a_compacted_log_are_read_over(tmp_path: Path) -> None:
    world = stopped(tmp_path)
    remove(tmp_path, 2)
    world.start()
    log = world.dirs.logs[P]
    log.reconfigure(LogConfig(cleanup_policy=("compact",), internal_segment_bytes=2000))
    gap = range(log.segments[1].base_offset + 2, log.segments[2].base_offset)
    assert log.read(gap[-1], 100)
    log.reconfigure(LogConfig(internal_segment_bytes=2000))
    log.cleaned_to = log.segments[2].base_offset
    assert log.read(gap[-1], 100), "it was compacted before it was not any more"


def test_segments_that_were_compacted_into_one_know_where_the_next_begins() -> None:
    config = LogConfig(
        cleanup_policy=("compact",), internal_segment_bytes=700, index_interval_bytes=100, min_cleanable_dirty_ratio=0.0
    )
    dirs = LogDirs(FaultyDisk(), ["/d"])
    dirs.load(lambda _: config)
    log = dirs.create(P, TOPIC_ID, config)
    for _ in range(30):
        log.append_leader(batch(3), 0, 0)
    log.high_watermark = log.log_end_offset
    log.flush()
    dirs.checkpoint()
    assert dirs.compaction_pass(NOW_MS) > 0
    log.truncate_to(log.segments[-1].base_offset + 1)
    bounds = [segment.below for segment in log.segments]
    assert bounds[:-1] == [segment.base_offset for segment in log.segments[1:]]
    assert log.append_leader(batch(3), 0, 0).first_offset >= 0
    assert read_all(log)


def read_all(log: Log) -> bytes:
    return b"".join(log.read(segment.base_offset, 1 << 20) for segment in log.segments if segment.size)


def test_a_real_disk_frees_what_retention_let_go(tmp_path: Path) -> None:
    """One pass moves the start, records it, and takes the files away."""
    dirs = LogDirs(RealDisk(), [str(tmp_path)])
    dirs.load(lambda _: SMALL)
    log = dirs.create(P, TOPIC_ID, SMALL)
    for _ in range(20):
        log.append_leader(batch(3), 0, 0)
    log.high_watermark = log.log_end_offset
    log.advance_log_start(30)
    assert dirs.retention_pass(0) > 0
    assert log.segments[0].base_offset > 0
    assert parse_offsets((tmp_path / LOG_STARTS).read_bytes(), "")[P] == 30


def test_of_a_segment_that_is_gone_and_whose_index_is_there_the_segment_is_named(tmp_path: Path) -> None:
    """What is to be brought back is the segment: the fuzz (seed 521257) met a sentence that named the index alone."""
    world = stopped(tmp_path)
    logs = sorted(tmp_path.glob("t-0/*.log"))
    for file in (*logs, tmp_path / LOG_STARTS, tmp_path / RECOVERY_POINTS):
        file.unlink()
    world.start()
    assert P not in world.dirs.logs
    (told,) = [sentence for sentence in world.told if "cannot be loaded" in sentence]
    assert f"{logs[0]} is gone, whose index {logs[0].stem}.index has entries" in told
