"""A compaction's result takes its place in steps, between which the loop turns: others cut, delete and crash there."""

from __future__ import annotations

import pytest

from moldau.storage import Log, LogDirs
from moldau.storage.compaction import Compaction, plan
from moldau.storage.swap import in_place
from tests.packages.storage.faulty_disk import FaultyDisk
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


def test_no_step_on_the_loop_waits_for_a_disk() -> None:
    disk = FaultyDisk()
    _, log, compaction = compacted(disk)
    steps = in_place(log, compaction, 0)
    while True:
        before = len(disk.log)
        sync = next(steps, None)
        assert not [line for line in disk.log[before:] if " sync" in line]
        if sync is None:
            break
        sync.run()
    assert log.cleaned_to == compaction.cleaned_to
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
