"""Logs that go: out of use at once, their folders under other names by a worker, and removed in time.

A crash before the renaming brings a log back, as if it had come before the log went: its topic id tells whose it is.
Read next: ``folder_changes.py`` (the order), ``retention.Deletion`` (the removal).
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import TYPE_CHECKING

from moldau.model import TopicPartition
from moldau.storage import names
from moldau.storage.errors import DirOffline, LogError
from moldau.storage.folder_changes import FolderChange

if TYPE_CHECKING:
    from moldau.storage.directories import LoadedDirectories
    from moldau.storage.log import Log


class GivenUp(FolderChange):
    """One log whose folder gets another name; it is removed at ``due_ms``, or never (None: it is set aside)."""

    __slots__ = ("_dirs", "_due_ms", "_looks", "log", "path")

    def __init__(self, dirs: LoadedDirectories, log: Log, path: str, due_ms: int | None, *, looks: bool) -> None:
        # Who writes a small file finds its path and opens it under this lock: in between the folder must not go, and
        # another topic's log come to lie at that path.
        super().__init__(leaves=log.folder.path, guard=log.folder.lock)
        self._dirs, self.log, self.path, self._due_ms = dirs, log, path, due_ms
        self._looks = looks
        """Whether it looks first whose folder that is: not on the loop, which waits for no reading."""

    def carry_out(self) -> None:
        folder = self.log.folder
        if self._looks:
            folder.demand_own()
        folder.disk.rename(folder.path, self.path)
        folder.path = self.path

    def end(self) -> None:
        """Durable once the names of the directory are synced."""
        dir = self.log.dir
        dir.names.touch()
        if self._due_ms is None:
            self._dirs.strays.append(self.path)
        else:
            dir.pending_deletion.append((self._due_ms, self.path))

    def failed(self, error: LogError) -> None:
        note_kept(self._dirs, self.log, error, self.error)


def give_up(
    dirs: LoadedDirectories, log: Log, unique: str, now_ms: int, *, stray: bool = False, now: bool = False
) -> None:
    """See ``LogDirs.give_up``."""
    dir, partition = log.dir, log.partition
    for segment in log.segments:
        segment.drop()
    suffix = names.STRAY_FOLDER if stray else names.DELETE_FOLDER
    path = f"{dir.path}/{names.doomed_folder(partition, unique, suffix)}"
    if dir.offline is not None:
        return
    due_ms = None if stray else now_ms + log.config.file_delete_delay_ms
    dir.change(GivenUp(dirs, log, path, due_ms, looks=not now), now=now)


def note_kept(dirs: LoadedDirectories, log: Log, error: LogError, cause: BaseException | None) -> None:
    """The folder of a log that went could not be renamed: the next start finds it, and sets it aside. Until then no log
    of that name is made here: it would share the folder with the records of another.
    """
    dirs.damaged.note(log.partition, "the removal", error)
    path = log.folder.path
    if path == f"{log.dir.path}/{log.partition}" and not isinstance(cause, FileNotFoundError):
        dirs.unusable.setdefault(log.partition, path)


def delete_all(
    dirs: LoadedDirectories, partitions: Iterable[TopicPartition], now_ms: int, strays: Container[TopicPartition]
) -> None:
    """See ``LogDirs.delete_all``."""
    failed: DirOffline | None = None
    for partition in partitions:
        try:
            dirs.futures.drop(partition, now_ms)
        except DirOffline as error:
            failed = error
        except LogError as error:
            dirs.damaged.note(partition, "the removal of a copy", error)
        log = dirs.logs.pop(partition, None)
        dirs.damaged.forget(partition)
        if log is None:  # its folder could not be made
            continue
        try:
            give_up(dirs, log, dirs.unique(), now_ms, stray=partition in strays)
        except DirOffline as error:
            failed = error
        except LogError as error:
            note_kept(dirs, log, error, error.__cause__)
    if failed is not None:
        raise failed


def leaving(dirs: LoadedDirectories, partition: TopicPartition) -> str:
    """The directory in which a folder of the partition's name is still to be renamed, "" if there is none: a new log
    goes there, after it. In another a crash would leave two logs of the name, and the new one might be the shorter."""
    for dir in dirs.dirs:
        if dir.changes.give_up(f"{dir.path}/{partition}"):
            return dir.path
    return ""
