"""Folders that are made and renamed by workers: in order, and ended at any step of the disk no record is lost."""

from __future__ import annotations

import contextlib
import errno
import threading
from collections.abc import Callable

import pytest

from moldau.model import Code, TopicPartition
from moldau.storage import Log, LogConfig, LogDirs
from moldau.storage.errors import UnusableFile
from moldau.storage.loaded import CheckpointedLog
from moldau.storage.names import DELETE_FOLDER, PARTITION_METADATA, RESTARTED
from moldau.wire.batch import build
from tests.packages.storage.faulty_disk import Crash, FaultyDisk
from tests.packages.storage.test_log import TOPIC_ID, P
from tests.packages.storage.test_stray_crashes import NEW, NEW_ID, OLD, fill, folders_with, start, sync_names

CONFIG = LogConfig(internal_segment_bytes=700, index_interval_bytes=300, file_delete_delay_ms=10_000)


class Worker:
    """Of a broker's directories: does what waits when it is told to."""

    def __init__(self, dirs: LogDirs) -> None:
        self.dirs, self.wanted = dirs, 0
        for dir in dirs.dirs:
            dir.on_changes = self.want

    def want(self, dir: object) -> None:
        self.wanted += 1

    def run(self) -> list[UnusableFile | None]:
        found: list[UnusableFile | None] = []
        for dir in self.dirs.dirs:
            dir.changes.run()
            for making in self.dirs.end_changes(dir):
                assert making.refused is None or isinstance(making.refused, UnusableFile)
                found.append(making.refused)
        return found


def append(log: Log, value: bytes, count: int = 6) -> None:
    for _ in range(count):
        assert log.append_leader(bytearray(build([(0, b"k", value, [])])), 0, 0).code is Code.NONE


def test_a_new_log_is_there_at_once_and_its_folder_follows() -> None:
    dirs = start(disk := FaultyDisk())
    worker = Worker(dirs)
    steps = disk.ticks
    log = dirs.create(P, TOPIC_ID, CONFIG)
    assert dirs.logs[P] is log
    assert log.awaits_folder
    assert disk.ticks == steps
    assert worker.run() == [None]
    assert not log.awaits_folder
    assert dirs.disk.exists(f"{log.folder.path}/{PARTITION_METADATA}")
    assert dirs.name_syncs_due()


def test_a_flush_or_a_cut_of_a_log_without_a_folder_has_it_made_first() -> None:
    for act in (lambda log: log.flush(whole=True), lambda log: log.truncate_fully_at(40)):
        dirs = start(FaultyDisk())
        worker = Worker(dirs)
        log = dirs.create(P, TOPIC_ID, CONFIG)
        act(log)
        assert dirs.disk.exists(f"{log.folder.path}/{PARTITION_METADATA}")
        worker.run()
        assert not log.cuts


def test_a_topic_that_comes_again_takes_the_name_after_the_old_one_has_given_it_up() -> None:
    disk = FaultyDisk()
    dirs = LogDirs(disk, ["/one", "/two"])
    dirs.load(lambda _: CONFIG)
    worker = Worker(dirs)
    for turn in range(3):
        log = dirs.create(P, bytes([turn + 1]) * 16, CONFIG)
        assert log.dir.path == "/one", "where its name is still to be given up, though the other holds fewer"
        dirs.create(P._replace(partition=turn + 1), TOPIC_ID, CONFIG)
        if turn < 2:
            dirs.delete(P, 0)
    worker.run()
    assert dirs.logs[P].topic_id == bytes([3]) * 16
    assert not dirs.logs[P].awaits_folder
    doomed = [name for name in disk.list_dir("/one") if name.endswith(DELETE_FOLDER)]
    assert len(doomed) == 2
    assert bytes([3]) * 16 == Log.open(dirs.dirs[0], P, CONFIG, CheckpointedLog()).topic_id


def test_a_folder_that_cannot_be_made_costs_its_partition_only(monkeypatch: pytest.MonkeyPatch) -> None:
    dirs = start(disk := FaultyDisk())
    make = disk.make_dirs

    def refuse(path: str) -> None:
        if path == f"/d/{P}":
            raise OSError(errno.EEXIST, "a file stands there", path)
        make(path)

    monkeypatch.setattr(disk, "make_dirs", refuse)
    worker = Worker(dirs)
    dirs.create(P, TOPIC_ID, CONFIG)
    other = dirs.create(P._replace(partition=1), TOPIC_ID, CONFIG)
    refused, fine = worker.run()
    assert refused is not None
    assert fine is None
    assert P not in dirs.logs
    assert not other.awaits_folder
    assert dirs.offline == []


def test_too_many_open_files_hold_up_folders_and_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    dirs = start(FaultyDisk())
    worker = Worker(dirs)
    log = dirs.create(P, TOPIC_ID, CONFIG)

    def refuse(*args: object, **more: object) -> None:
        raise OSError(errno.EMFILE, "too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(dirs.disk, "open", refuse)
        assert worker.run() == []
        assert log.awaits_folder
    assert worker.run() == [None]
    assert not log.awaits_folder


def test_a_directory_that_failed_makes_no_folder_any_more() -> None:
    dirs = start(FaultyDisk())
    worker = Worker(dirs)
    log = dirs.create(P, TOPIC_ID, CONFIG)
    log.dir.fail(OSError(errno.EIO, "gone"))
    assert worker.run() == []
    assert not log.dir.changes
    with pytest.raises(OSError, match="before its directory failed"):
        log.cuts[0].run(log.folder)


@pytest.mark.parametrize("cut", [lambda log: log.truncate_to(42), lambda log: log.truncate_fully_at(90)])
def test_a_log_that_is_cut_before_its_mark_has_gone_keeps_one(cut: Callable[[Log], object]) -> None:
    """Cut back, or started over again: until a checkpoint is right of that, what it says is outdated."""
    dirs = start(disk := FaultyDisk())
    fill(dirs, TOPIC_ID, OLD)
    worker = Worker(dirs)
    log = dirs.logs[P]
    mark = log.folder.file(RESTARTED)
    log.truncate_fully_at(40)
    append(log, NEW)
    dirs.checkpoint()
    assert worker.wanted
    assert disk.exists(mark)
    cut(log)
    worker.run()
    assert disk.exists(mark)
    assert log.restarted
    append(log, NEW)
    dirs.checkpoint()
    worker.run()
    assert not disk.exists(mark)
    assert not log.restarted


def come_again(disk: FaultyDisk) -> tuple[str, int]:
    """A topic is deleted and made again while its broker lives; what was done, and how far the new log surely goes."""
    done = "nothing"
    with contextlib.suppress(Crash):
        dirs = start(disk)
        worker = Worker(dirs)
        dirs.delete(P, 0)
        log = dirs.create(P, NEW_ID, CONFIG)
        worker.run()
        done = "made"
        sync_names(dirs)  # this disk knows folders by their paths, and would give the new one's files to the old one
        append(log, NEW)
        log.flush()
        dirs.checkpoint()
        done = "filled"
        append(log, NEW, 2)
        dirs.close()
        done = "closed"
    return done, {"filled": 6, "closed": 8}.get(done, 0)


@pytest.mark.parametrize("seed", [-1, 0, 1, 2, 3])
def test_ended_at_any_step_the_new_log_is_whole_and_the_old_one_is_not_taken_for_it(seed: int) -> None:
    step, done = 0, ""
    while done != "closed":
        disk = FaultyDisk()
        dirs = start(disk)
        fill(dirs, TOPIC_ID, OLD)
        dirs.close()
        disk = disk.process_killed()
        disk.crash_at = step
        done, sure = come_again(disk)
        disk = disk.process_killed() if seed < 0 else disk.power_cut(100 * step + seed)
        again = start(disk)
        again.remove_strays({P: NEW_ID}, 0)
        assert all(folder != f"/d/{P}" for folder in folders_with(disk, OLD)), f"step {step}"
        log = again.logs.get(P)
        assert log is None or log.topic_id == NEW_ID, f"step {step}"
        assert (log.log_end_offset if log is not None else 0) >= sure, f"step {step}"
        assert not again.unusable, f"step {step}"
        step += 1
    assert step > 20


def test_a_rename_at_once_does_nothing_of_what_waits_for_other_folders() -> None:
    """The loop made a thousand folders in a swap, or waited for the worker that hung in one."""
    dirs = start(FaultyDisk())
    worker = Worker(dirs)
    there = dirs.create(TopicPartition("there", 0), OLD, CONFIG)
    worker.run()
    log = dirs.create(P, TOPIC_ID, CONFIG)
    after = dirs.create(TopicPartition("after", 0), NEW_ID, CONFIG)
    dirs.give_up(dirs.logs.pop(there.partition), "at once", 0, now=True)
    assert there.folder.path.endswith(DELETE_FOLDER)
    assert not dirs.disk.exists(log.folder.path), "nothing of that folder waits"
    dirs.give_up(dirs.logs.pop(P), "made first", 0, now=True)
    assert log.folder.path.endswith(DELETE_FOLDER)
    assert dirs.disk.exists(f"{log.folder.path}/{PARTITION_METADATA}")
    assert not dirs.disk.exists(after.folder.path), "it comes after"
    assert worker.run() == [None, None]
    assert dirs.disk.exists(after.folder.path)


class Refusing(FaultyDisk):
    refuses = False

    def rename(self, source: str, target: str) -> None:
        if self.refuses and target.endswith(DELETE_FOLDER):
            raise PermissionError(errno.EACCES, "not permitted", source)
        super().rename(source, target)


@pytest.mark.parametrize("when", ["at once", "later", "behind"])
def test_no_log_is_made_in_the_folder_of_another_that_cannot_be_renamed(when: str) -> None:
    disk = Refusing()
    dirs = start(disk)
    fill(dirs, TOPIC_ID, OLD)
    worker = None if when == "at once" else Worker(dirs)
    disk.refuses = True
    dirs.delete(P, 0)
    if when == "behind":
        dirs.create(P, NEW_ID, CONFIG)
    if worker is not None:
        found = worker.run()
        assert [isinstance(one, UnusableFile) for one in found] == [True] * (when == "behind")
    disk.refuses = False
    with pytest.raises(UnusableFile):
        dirs.create(P, NEW_ID, CONFIG)
    again = start(disk)
    assert again.logs[P].topic_id == TOPIC_ID, "the broker tells it from the new topic's by its id"


def test_a_copy_is_called_off_while_its_directory_hangs_without_waiting_for_it() -> None:
    disk = FaultyDisk()
    dirs = LogDirs(disk, ["/one", "/two"])
    dirs.load(lambda _: CONFIG)
    log = dirs.create(P, TOPIC_ID, CONFIG)
    worker = Worker(dirs)
    there = next(dir for dir in dirs.dirs if dir is not log.dir)
    dirs.futures.create(P, there, "a" * 32)
    steps = disk.ticks
    dirs.futures.drop(P, 0)
    assert disk.ticks == steps, "the loop made no call of the disk"
    worker.run()
    dirs.deletion_pass(100_000)
    sync_names(dirs)
    assert [name for name in disk.list_dir(there.path) if name.startswith(P.topic)] == []


@pytest.mark.parametrize("now", [True, False], ids=["at once", "by a worker"])
def test_a_folder_gets_its_other_name_under_its_lock(monkeypatch: pytest.MonkeyPatch, now: bool) -> None:
    """Whoever saved an index had found its path before, and wrote into the folder of the topic that came next."""
    dirs = start(disk := FaultyDisk())
    worker = Worker(dirs)
    log = dirs.create(P, TOPIC_ID, CONFIG)
    worker.run()
    rename, held = disk.rename, list[bool]()

    def noted(source: str, target: str) -> None:
        held.append(log.folder.lock.locked())
        rename(source, target)

    monkeypatch.setattr(disk, "rename", noted)
    dirs.give_up(dirs.logs.pop(P), "unique", 0, now=now)
    worker.run()
    assert held == [True]
    assert not log.folder.lock.locked()


class Noting:
    """A folder's lock that says when it has been taken."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.taken = threading.Event()

    def __enter__(self) -> None:
        self._lock.acquire()
        self.taken.set()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_a_flush_that_has_its_folder_made_and_the_renaming_behind_it_do_not_wait_for_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The flush holds the folder's lock and waits for whoever makes the folder, who renames it next."""
    dirs = start(disk := FaultyDisk())
    Worker(dirs)
    log = dirs.create(P, TOPIC_ID, CONFIG)
    log.folder.lock = lock = Noting()  # type: ignore[assignment]
    flush = log.begin_flush(whole=True)
    assert flush is not None
    dirs.delete(P, 0)
    make_dirs, begun, going_on = disk.make_dirs, threading.Event(), threading.Event()

    def slow(path: str) -> None:
        begun.set()
        assert going_on.wait(30)
        make_dirs(path)

    monkeypatch.setattr(disk, "make_dirs", slow)
    makes = threading.Thread(target=log.dir.changes.run, daemon=True)
    flushes = threading.Thread(target=flush.run, daemon=True)
    makes.start()
    assert begun.wait(30)
    flushes.start()
    assert lock.taken.wait(30)
    going_on.set()
    for thread in (makes, flushes):
        thread.join(60)
        assert not thread.is_alive(), "they wait for each other"
    assert log.folder.path.endswith(DELETE_FOLDER)
