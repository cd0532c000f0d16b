"""A compaction's result takes its place in steps, between which the loop turns: others cut, delete and crash there."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress

import pytest

from moldau.storage import Log, LogDirs, truncation
from moldau.storage.compaction import Compaction, plan
from moldau.storage.compactions import end_now
from moldau.storage.swap import in_place
from tests.packages.storage.faulty_disk import Crash, FaultyDisk
from tests.packages.storage.test_cleaning import COMPACT, begin, read_all, reopen, settle, write
from tests.packages.storage.test_log import TOPIC_ID, P


def compacted(disk: FaultyDisk) -> tuple[LogDirs, Log, Compaction]:
    """A log with a run that is over, and nothing of it in place; several groups."""
    dirs, log = begin(COMPACT, disk)
    for number in range(40):
        write(log, [(b"k%d" % (number % 4), b"%d" % number), (b"u%d" % number, bytes(60))])
    settle(dirs, log)
    compaction = plan(log, 0)
    assert compaction is not None
    compaction.run()
    assert compaction.outcome is not None
    assert len(compaction.outcome.made) > 3
    return dirs, log, compaction


def count_steps() -> int:
    _, log, compaction = compacted(FaultyDisk())
    return sum(1 for sync in in_place(log, compaction, 0) if sync.run() is None)


STEPS = range(count_steps() + 1)


def leftovers(log: Log) -> list[str]:
    return [name for name in log.folder.disk.list_dir("/d/t-0") if "cleaned" in name or "swap" in name]


def test_no_step_on_the_loop_asks_anything_of_a_disk() -> None:
    disk = FaultyDisk()
    _, log, compaction = compacted(disk)
    steps = in_place(log, compaction, 0)
    while True:
        before = len(disk.log)
        sync = next(steps, None)
        assert disk.log[before:] == []
        if sync is None:
            break
        sync.run()
    assert log.cleaned_to == compaction.cleaned_to
    assert not leftovers(log)


def test_a_run_that_is_not_wanted_is_removed_by_a_worker() -> None:
    disk = FaultyDisk()
    dirs, log, compaction = compacted(disk)
    log.truncate_to(0)
    before = len(disk.log)
    steps = dirs.compactions.end(log, compaction, 0)
    step = next(steps)
    assert disk.log[before:] == []
    step.run()
    assert not leftovers(log)


class WatchedDisk(FaultyDisk):
    """``between`` is called before each change of a file or a name, as the loop may turn while a worker is at it."""

    between: Callable[[], object] | None = None

    def step(self, what: str, path: str, size: int = 0) -> int:
        if self.between is not None:
            turn, self.between = self.between, None
            turn()
            self.between = turn
        return super().step(what, path, size)


def seen(dirs: LogDirs, log: Log) -> list[tuple[int, bytes | None, bytes | None, int]]:
    """All records, read from files that are not open, by way of their indexes; lookups by time find them, too."""
    for segment in log.segments:
        segment.recent = False
    dirs.files.close_all()
    for segment in log.segments[:-1]:
        assert segment.file is None
        segment.positions.clear()
        assert segment.kept_index is None
        assert segment.largest_timestamp() >= 0
        segment.unread = True
    found = read_all(log)
    assert log.offset_for_timestamp(0) is not None
    for offset, *_ in found:
        assert log.read(offset, 1)
    assert not any(segment.damage for segment in log.segments)
    assert all(segment.kept_index is None for segment in log.segments[:-1]), "an index was made again from the log"
    return found


def test_readers_find_the_newest_of_each_key_between_any_two_renames() -> None:
    disk = WatchedDisk()
    dirs, log, compaction = compacted(disk)
    dirs.flush_pass(0)
    newest = {entry[1]: entry for entry in seen(dirs, log)}
    looks = 0

    def look() -> None:
        nonlocal looks
        looks += 1
        assert {entry[1]: entry for entry in seen(dirs, log)} == newest

    disk.between = look
    for step in in_place(log, compaction, 0):
        step.run()
    disk.between = None
    assert looks > 50
    assert not leftovers(log)
    assert {entry[1]: entry for entry in seen(dirs, log)} == newest


def with_a_cut(dirs: LogDirs, log: Log, compaction: Compaction, cut: int, at: int) -> None:
    """The log is cut in memory before the ``at``-th step is run, and a worker cuts its files after it, or before."""
    log.dir.on_checkpoint_wanted = lambda log: None
    for number, step in enumerate(in_place(log, compaction, 0)):
        if number == at:
            log.truncate_to(cut)
        if number == at and cut % 2:
            step.run()
            truncation.finish(log)
        else:
            if log.cuts:
                truncation.finish(log)
            step.run()
    truncation.finish(log)


@pytest.mark.parametrize("at", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("cut", [79, 40, 4, 3, 0])
def test_a_kill_at_any_change_of_a_swap_that_a_cut_meets_leaves_a_prefix(at: int, cut: int) -> None:
    """Each segment as it was or compacted; of what compaction keeps nothing is missing, nor does it come back."""
    dirs, log, compaction = compacted(FaultyDisk())
    before = read_all(log)
    end_now(dirs.compactions.end(log, compaction, 0))
    after = read_all(log)
    assert len(after) < len(before)
    whole = FaultyDisk()
    dirs, log, compaction = compacted(whole)
    begun = whole.steps
    with_a_cut(dirs, log, compaction, cut, at)
    assert not leftovers(log)
    assert log.taken == []
    assert log.swap is None
    for crash in range(begun, whole.steps + 1):
        disk = FaultyDisk(crash_at=crash)
        with suppress(Crash):
            with_a_cut(*compacted(disk), cut, at)
        dirs, log = reopen(disk.process_killed(), COMPACT)
        assert not dirs.unusable
        found, end = read_all(log), log.log_end_offset
        if crash == whole.steps:
            assert end <= cut
        assert set(found) <= {entry for entry in before if entry[0] < end}, f"change {crash}"
        assert {entry for entry in after if entry[0] < end} <= set(found), f"change {crash}"
        assert not leftovers(log)
        write(log, [(b"after", b"")])
        assert read_all(log)[-1][:2] == (end, b"after")


@pytest.mark.parametrize("error", [errno.EACCES, errno.ENOENT])
def test_a_rename_that_is_refused_costs_the_log_its_compaction_until_it_can_be_made(error: int) -> None:
    """In whichever rename it fails, all is read, and the next passes finish, and compact again."""
    whole = FaultyDisk()
    dirs, log, compaction = compacted(whole)
    begun = whole.steps
    newest = {entry[1]: entry for entry in read_all(log)}
    end_now(dirs.compactions.end(log, compaction, 0))
    renames = [int(line.split()[0]) for line in whole.log[begun:] if " rename " in line]
    for at in renames:
        disk = FaultyDisk(fail_at=at, error=error)
        dirs, log, compaction = compacted(disk)
        log.dir.renames_later = True
        end_now(dirs.compactions.end(log, compaction, 0))
        assert dirs.offline == []
        assert P in dirs.compactions.uncleanable
        assert {entry[1]: entry for entry in seen(dirs, log)} == newest
        waiting, log.dir.taken = log.dir.taken, []
        if waiting:
            assert dirs.compactions.begin(log, 1_000_000) is None, "its files are not where they belong"
        for one in waiting:
            one.run()
            assert one.end()
        assert not leftovers(log)
        assert log.swap is None
        assert dirs.compactions.run_one(1_000_000) > 0 or log.cleaned_to > 0
        assert not leftovers(log)
        assert {entry[1]: entry for entry in read_all(log)} == newest
        assert {entry[1]: entry for entry in read_all(reopen(disk.process_killed(), COMPACT)[1])} == newest


def test_segments_that_retention_takes_have_their_names_before_they_are_put_away() -> None:
    """A compacted segment has its own name only when the swap is through."""
    disk = FaultyDisk()
    dirs, log, compaction = compacted(disk)
    log.dir.renames_later = True
    steps = in_place(log, compaction, 0)
    while (step := next(steps)) and log.segments[0].suffix == "":
        step.run()
    log.advance_log_start(log.bases[1])
    dirs.checkpoint()
    assert log.remove_passed(0, 10) > 0
    taken, log.dir.taken = log.dir.taken, []
    for one in taken:
        one.run()
        assert one.end()
    step.run()
    for step in steps:
        step.run()
    dirs.deletion_pass(1_000)
    assert not [name for name in disk.list_dir("/d/t-0") if name.startswith(f"{0:020}.")]
    assert not leftovers(log)


@pytest.mark.parametrize("at", STEPS)
@pytest.mark.parametrize("cut", [79, 40, 3, 0])
@pytest.mark.parametrize("crash", ["", "killed", "power"])
def test_a_log_cut_between_two_steps_is_what_it_would_be_without_a_compaction(at: int, cut: int, crash: str) -> None:
    disk = FaultyDisk()
    _dirs, log, compaction = compacted(disk)
    steps = in_place(log, compaction, 0)
    for _ in range(at):
        sync = next(steps, None)
        if sync is not None:
            sync.run()
    log.truncate_to(cut)
    expected = read_all(log)
    assert log.log_end_offset <= cut
    if crash:
        _dirs, log = reopen(disk.process_killed() if crash == "killed" else disk.power_cut(at), COMPACT)
        end = log.log_end_offset
    else:
        for sync in steps:
            sync.run()
        end = log.log_end_offset
        assert not leftovers(log)
    found = read_all(log)
    if crash != "power":  # a cut of the active segment is durable with the next flush only
        assert {entry[1]: entry for entry in found} == {entry[1]: entry for entry in expected}
        assert end <= cut
    write(log, [(b"after", b"")])
    assert read_all(log)[-1][:2] == (end, b"after")


@pytest.mark.parametrize("at", STEPS)
def test_a_log_deleted_between_two_steps_leaves_nothing_to_its_successor(at: int) -> None:
    disk = FaultyDisk()
    dirs, log, compaction = compacted(disk)
    steps = in_place(log, compaction, 0, lambda: dirs.logs.get(P) is log)
    sync = None
    for _ in range(at):
        sync = next(steps, None)
        if sync is not None and _ < at - 1:
            sync.run()
    dirs.delete(P, 0)
    again = dirs.create(P, bytes(reversed(TOPIC_ID)), COMPACT)
    if sync is not None:
        sync.run()
    for late in steps:
        late.run()
    assert dirs.offline == []
    assert read_all(again) == []
    assert not leftovers(again)


@pytest.mark.parametrize("at", STEPS)
def test_records_deleted_between_two_steps_stay_deleted(at: int) -> None:
    disk = FaultyDisk()
    dirs, log, compaction = compacted(disk)
    newest = {entry[1]: entry for entry in read_all(log) if entry[0] >= 30}
    steps = in_place(log, compaction, 0)
    for _ in range(at):
        sync = next(steps, None)
        if sync is not None:
            sync.run()
    log.advance_log_start(30)
    dirs.retention_pass(0)
    for sync in steps:
        sync.run()
    dirs.checkpoint()
    for one in (log, reopen(disk.process_killed(), COMPACT)[1]):
        assert {entry[1]: entry for entry in read_all(one) if entry[0] >= 30} == newest
        assert not leftovers(one)


@pytest.mark.parametrize("at", STEPS)
def test_a_stop_between_two_steps_is_finished_by_the_next_start(at: int) -> None:
    disk = FaultyDisk()
    dirs, log, compaction = compacted(disk)
    newest = {entry[1]: entry for entry in read_all(log)}
    steps = in_place(log, compaction, 0)
    for _ in range(at):
        sync = next(steps, None)
        if sync is not None:
            sync.run()
    steps.close()
    dirs.close()
    dirs, log = reopen(disk, COMPACT)
    assert dirs.findings == []
    assert {entry[1]: entry for entry in read_all(log)} == newest
    assert not leftovers(log)
