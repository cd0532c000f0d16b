"""Too many open files are no failure of a directory, whoever meets them: what could not be done is done later."""

from __future__ import annotations

import contextlib
import errno
import os
import threading

import pytest

from moldau.storage import LogError
from moldau.storage.compaction import plan
from moldau.storage.folder import OpenFiles
from tests.packages.storage.faulty_disk import FaultyDisk, FaultyFile
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
        sync.finish()
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


class FewFiles(FaultyDisk):
    """A disk for a process that may have ``most`` files open."""

    most = 1_000

    def open(self, path: str, *, create: bool = False) -> FaultyFile:
        self._may_open(path)
        return super().open(path, create=create)

    def read(self, path: str) -> bytes:
        self._may_open(path)
        return super().read(path)

    def _may_open(self, path: str) -> None:
        if self.open_files >= self.most:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)


@pytest.mark.parametrize("most", [1, 3])
def test_a_log_closes_idle_files_to_open_another_and_is_read_and_written_all_the_same(most: int) -> None:
    """Two in a hundred produces succeeded, with dozens of idle files open."""
    disk = FewFiles()
    dirs, log = begin(COMPACT, disk)
    for number in range(30):
        write(log, [(b"k%d" % number, bytes(60))])
    settle(dirs, log)
    before = read_all(log)
    assert len(log.segments) > 5
    disk.most = disk.open_files
    assert disk.open_files == len(dirs.files) > 5
    assert read_all(log) == before
    dirs.files.close_all()
    disk.most = most
    assert read_all(log) == before
    for number in range(30):
        write(log, [(b"l%d" % number, bytes(60))])
    assert [entry[1] for entry in read_all(log)[30:]] == [b"l%d" % number for number in range(30)]


class Idle:
    """An open file that nobody is using."""

    recent, pinned = False, 0

    def __init__(self, told: list[Idle]) -> None:
        self._told = told

    def close_file(self) -> None:
        self._told.append(self)


def test_room_is_made_by_the_thread_that_uses_the_files_and_takes_an_eighth_of_them() -> None:
    closed: list[Idle] = []
    files = OpenFiles(100)
    held = [Idle(closed) for _ in range(80)]
    for one in held:
        files.opened(one)
    assert files.to_come == 20
    made: list[bool] = []
    other = threading.Thread(target=lambda: made.append(files.make_room()))
    other.start()
    other.join()
    assert (made, closed) == ([False], [])
    assert files.make_room()
    assert closed == held[:10]
    assert files.to_come == 30
    assert not OpenFiles().make_room(), "there is none"
