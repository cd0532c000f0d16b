"""Too many open files are no failure of a directory, whoever meets them: what could not be done is done later."""

from __future__ import annotations

import contextlib
import errno

import pytest

from moldau.storage import LogError
from moldau.storage.compaction import plan
from tests.packages.storage.faulty_disk import FaultyDisk
from tests.packages.storage.test_cleaning import COMPACT, begin, put_in_place, read_all, settle, write


def life(disk: FaultyDisk, offline: list[str]) -> None:
    """A log is written, rolled, flushed and compacted; ``offline`` is told when its directory fails."""
    dirs, log = begin(COMPACT, disk)
    log.dir.on_offline = lambda dir: offline.append(str(dir.offline))
    for number in range(12):
        write(log, [(b"k%d" % (number % 3), b"%d" % number), (b"u%d" % number, bytes(60))])
    settle(dirs, log)
    compaction = plan(log, 0)
    if compaction is not None:
        compaction.run()
        assert compaction.outcome is not None
        if not compaction.outcome.reason:
            put_in_place(log, compaction, 0)
    dirs.checkpoint()
    for sync in dirs.name_syncs_due():
        sync.run()
        sync.settle()
    dirs.retention_pass(0)


def steps() -> int:
    disk = FaultyDisk()
    life(disk, [])
    return disk.steps


@pytest.mark.parametrize("once", [True, False], ids=["once", "from then on"])
def test_no_step_that_meets_them_takes_the_directory_offline(once: bool) -> None:
    for step in range(12, steps()):  # before: a start that can open nothing
        disk, offline = FaultyDisk(fail_at=step, error=errno.EMFILE, once=once), list[str]()
        with contextlib.suppress(LogError, OSError):
            life(disk, offline)
        assert not offline or disk.log[step].split(" ", 2)[1] in ("write", "truncate"), (step, offline)


def test_what_was_not_made_durable_is_made_so_later() -> None:
    disk = FaultyDisk()
    dirs, log = begin(COMPACT, disk)
    for number in range(12):
        write(log, [(b"k%d" % (number % 3), b"%d" % number), (b"u%d" % number, bytes(60))])
    settle(dirs, log)
    before = read_all(log)
    compaction = plan(log, 0)
    assert compaction is not None
    compaction.run()
    disk.fail_at, disk.error, disk.once = disk.steps, errno.EMFILE, False
    with contextlib.suppress(LogError, OSError):
        put_in_place(log, compaction, 0)
    disk.fail_at = -1
    assert log.dir.offline is None
    assert log.cleaned_to == -1, "tombstones may not go yet"
    assert {entry[1]: entry for entry in read_all(log)} == {entry[1]: entry for entry in before}
    again = plan(log, 0)
    assert again is not None
    again.run()
    put_in_place(log, again, 0)
    assert log.cleaned_to == again.cleaned_to
