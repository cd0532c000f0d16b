"""Where a log lives: a log directory that can fail, a partition's folder in it, and the bounded set of open files.

Decides when a directory is offline (first OSError that is not merely "no space") and which idle file is closed to open
another. Does not decide what is in the files. Read next: ``segment.py`` (a user of all three), ``log_dirs.py`` (the
owner).
"""

from __future__ import annotations

import errno
from collections import OrderedDict
from collections.abc import Callable
from itertools import count
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Any, TypeVar

from moldau.model import TopicPartition
from moldau.model.protocol import Protocol
from moldau.ports import Disk, File, Random
from moldau.storage.checkpoints import format_partition_metadata, says_another
from moldau.storage.errors import DirOffline, LogError, NoFile, UnusableFile
from moldau.storage.folder_changes import FolderChange, FolderChanges
from moldau.storage.log_starts import LogStarts
from moldau.storage.names import LOCK, PARTITION_METADATA

if TYPE_CHECKING:
    from moldau.storage.config import LogConfig
    from moldau.storage.log_validator import LogValidator

T = TypeVar("T")

TOO_MANY_OPEN = frozenset({errno.EMFILE, errno.ENFILE})
ONE_FILE = TOO_MANY_OPEN | {
    errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ELOOP,
    errno.ENOTEMPTY, errno.EEXIST, errno.ENOTSUP, errno.ENXIO, errno.EOVERFLOW,
}  # fmt: skip
"""What says something about one path, or about this process, and nothing about the disk as long as others can be
opened."""
NO_FILE = frozenset({errno.EISDIR, errno.ENOTSUP, errno.ELOOP, errno.ENXIO, errno.EOVERFLOW})
"""What a disk answers about a folder, a pipe, a device, a link to itself, or what is too large to be a file of ours."""


ROOM = 8
"""An eighth of the open files is closed when this process may open no more."""


class Opened(Protocol):
    """Who holds an open file. ``recent`` is set at each use; ``pinned`` counts users off the loop."""

    recent: bool
    pinned: int

    def close_file(self) -> None: ...


class OpenFiles:
    """At most ``limit`` open files for all logs that share it; second chance instead of exact LRU, so a use costs one
    store.

    Used by the thread that made it.
    """

    __slots__ = ("_queue", "_thread", "limit")

    def __init__(self, limit: int = 1000) -> None:
        self.limit = limit
        self._queue: OrderedDict[Opened, None] = OrderedDict()
        self._thread = get_ident()

    @property
    def to_come(self) -> int:
        """How many more may be opened."""
        return max(self.limit - len(self._queue), 0)

    def __len__(self) -> int:
        return len(self._queue)

    def opened(self, owner: Opened) -> None:
        """``owner`` just opened its file: make room if there are too many."""
        self._queue[owner] = None
        if len(self._queue) > self.limit:
            self.trim(owner)

    def trim(self, keep: Opened | None = None) -> None:
        """Close files until the limit is kept, those used least first."""
        queue = self._queue
        spare = 2 * len(queue)  # every file recent or pinned: one full round clears the marks, a second gives up
        while len(queue) > self.limit and spare:
            spare -= 1
            candidate, _ = queue.popitem(last=False)
            if candidate is keep or candidate.recent or candidate.pinned:
                candidate.recent = False
                queue[candidate] = None
            else:
                candidate.close_file()

    def close_all(self) -> None:
        """Close what nobody is using."""
        self._close_to(0)

    def _close_to(self, count: int) -> None:
        limit, self.limit = self.limit, count
        self.trim()
        self.limit = limit

    def make_room(self) -> bool:
        """This process may open no more files: close some that nobody is using; whether there were any. Other threads
        have nothing closed: what they cannot open they open later."""
        before = len(self._queue)
        if before and get_ident() == self._thread:
            self._close_to(before - max(before // ROOM, 1))
        return len(self._queue) < before

    def with_room(self, call: Callable[[], T]) -> T:
        """What ``call`` returns, at the second attempt if this process may open no more files at the first. OSError."""
        try:
            return call()
        except OSError as error:
            if error.errno not in TOO_MANY_OPEN or not self.make_room():
                raise
        return call()

    def closed(self, owner: Opened) -> None:
        """``owner`` closed its file by itself."""
        self._queue.pop(owner, None)


class Names:
    """Names in a directory and whether they are durable: creation, renaming and removal are so only after a sync of the
    directory (KAFKA-3968). Counted, so that a sync running elsewhere does not cover what is changed meanwhile."""

    __slots__ = ("changes", "synced")

    def __init__(self) -> None:
        self.changes = self.synced = 0

    def touch(self) -> None:
        """A name changed."""
        self.changes += 1

    @property
    def dirty(self) -> bool:
        return self.changes != self.synced


class LogDir:
    """One entry of log.dirs: its disk, its open files, and whether it has failed (``offline`` says why)."""

    __slots__ = (
        "changes",
        "cut",
        "disk",
        "files",
        "id",
        "names",
        "offline",
        "offline_on_error",
        "on_changes",
        "on_checkpoint_wanted",
        "on_cut",
        "on_file_wanted",
        "on_flush_wanted",
        "on_offline",
        "on_repair",
        "path",
        "pending_deletion",
        "random",
        "renames_later",
        "restart_points",
        "rolled",
        "starts",
        "taken",
        "unsaved",
        "unused",
        "unwritten",
        "validators",
    )

    def __init__(self, disk: Disk, path: str, files: OpenFiles | None = None, random: Random | None = None) -> None:
        self.disk = disk
        self.path = path
        self.random = random
        self.offline_on_error = OfflineOnError(self)
        self.files = files if files is not None else OpenFiles()
        self.id = bytes(16)
        """The directory id of KIP-858 (16 bytes), zero until ``LogDirs`` has read or made it."""
        self.offline: str | None = None
        self.starts = LogStarts()
        self.unused: dict[str, dict[TopicPartition, int]] = {}
        """By checkpoint file: what it holds of logs here that could not be loaded, or are left alone."""
        self.validators: dict[LogConfig, LogValidator] = {}
        """One set of rules for all logs of a configuration."""
        self.names = Names()
        """The names of partition folders that are to be made durable: new, renamed, gone."""
        self.changes = FolderChanges()
        """Folders that are to be made or renamed; ``on_changes`` is told when there are."""
        self.on_changes: Callable[[LogDir], object] | None = None
        """None: they are made at once."""
        self.pending_deletion: list[tuple[int, str]] = []
        """(due ms, path) of files and folders that were taken out of use and wait to be removed."""
        self.renames_later = False
        """Whether somebody runs what is in ``taken``: else it is done at once."""
        self.taken: list[Any] = []  # Any: ``retention.Taken``
        """Segments that retention took out of logs, and that are still to be renamed."""
        self.unsaved: dict[Any, None] = {}  # Any: Segments
        """The segments whose file was closed while index entries were in memory only: ``index_saves.due``."""
        self.rolled: list[Any] = []  # Any: Logs
        """Logs that closed a segment since ``LogDirs.flush_pass`` last looked."""
        self.on_offline: Callable[[LogDir], None] | None = None
        self.cut: list[Any] = []  # Any: Logs
        """Logs whose producers' state has to be read again, since they were cut; ``on_cut`` is told when there are."""
        self.on_cut: Callable[[], object] | None = None
        self.on_flush_wanted: Callable[[Any], object] | None = None  # Any: a Log, whose modules stand on this one
        """Told of a log that flush.messages wants to be flushed; None: the log does it itself, in the append."""
        self.on_file_wanted: Callable[[Any], object] | None = None  # Any: a Log
        """Told of a log that has rolled, whose new segment's file is to be made; None: the log makes it itself."""
        self.unwritten = 0
        """So many bytes wait in memory for such files."""
        self.on_repair: Callable[[str], object] = lambda sentence: None
        """Told of what stood in the place of a file and was put aside."""
        self.on_checkpoint_wanted: Callable[[Any], object] | None = None  # Any: a Log
        """Told of a log that was cut below what the recovery point checkpoint says of it (see ``Log.truncate_to``)."""
        self.restart_points: Callable[[], None] | None = None
        """Write that file now: such a log is appended to before anybody else has written it."""

    def fail(self, error: OSError) -> DirOffline:
        """The directory failed; everything in it is out of use from now on. The exception to raise.

        Never tried again: after a failed fsync the pages are marked clean, and a second one would succeed and mean
        nothing (Rebello et al., "Can Applications Recover from fsync Failures?", ATC 2020).
        """
        if self.offline is None:
            self.offline = str(error)
            self.changes.drop()
            if self.on_offline is not None:
                self.on_offline(self)
        return DirOffline(self.path, error)

    def producers_cut(self, log: Any) -> None:  # Any: a Log, whose modules stand on this one
        """The log's producers' state has to be read again, if there is anybody to do it before it is needed."""
        if self.on_cut is not None:
            self.cut.append(log)
            self.on_cut()

    def change(self, change: FolderChange, *, now: bool = False) -> None:
        """Have a folder made or renamed after all for which that was asked before: by a worker, or here (``now``, or
        where there is none). LogError when that fails here.
        """
        if self.on_changes is not None and not now:
            self.changes.add(change)
            self.on_changes(self)
            return
        with self.offline_on_error:
            before = self.changes.last_of(change.leaves)  # what waits of other folders is not for the loop to do
            error = None if before is None else self.changes.run(until=before)
            if error is not None:
                raise error
            with change.guard:
                change.carry_out()
        change.end()

    def judge(self, error: OSError, path: str = "") -> LogError:
        """The exception to raise for ``error``: UnusableFile when it is about one path only, else DirOffline."""
        if self.offline is None and error.errno in ONE_FILE and self._answers():
            unusable = UnusableFile(str(error) if error.filename else f"{path or self.path}: {error}")
            unusable.passing = error.errno in TOO_MANY_OPEN
            return unusable
        return self.fail(error)

    def failed(self, error: OSError) -> bool:
        """Whether the directory is offline for what it answered; not for too many open files, which pass."""
        if error.errno in TOO_MANY_OPEN:
            return False
        self.fail(error)
        return True

    def touch(self) -> None:
        """Write a byte, to see whether the directory can be written to, and is the one that was locked at the start.

        Where a file system was unmounted, or a folder moved away and an empty one made, the path still answers: a
        broker went on in it, counted as in sync, and doctor said that all is well. OSError.
        """
        lock = f"{self.path}/{LOCK}"
        if self.disk.is_replaced(lock):
            text = "another folder stands here than at the start: it was unmounted, mounted over, moved or replaced"
            raise OSError(errno.ESTALE, text, self.path)
        file = self.disk.open(lock, create=True)
        try:
            file.pwrite((b"\n",), 0)
        finally:
            file.close()

    def _answers(self) -> bool:
        """Whether a file of the directory can be opened for writing."""
        try:
            if self.disk.is_replaced(f"{self.path}/{LOCK}"):
                return False
            self.disk.open(f"{self.path}/{LOCK}", create=True).close()
        except OSError as error:
            return error.errno in TOO_MANY_OPEN
        return True

    def sync_names(self) -> None:
        """Make the names in it durable, if any has changed since they were; DirOffline when that fails."""
        changes = self.names.changes
        if self.names.dirty and self.offline is None:
            with self.offline_on_error:
                self.disk.sync_dir(self.path)
            self.names.synced = max(self.names.synced, changes)

    def ensure_online(self) -> None:
        """DirOffline when the directory has failed."""
        if self.offline is not None:
            raise DirOffline(self.path, self.offline)


class NameSync:
    """A sync of the names in a log directory, in a form that a worker thread can run; an error is kept."""

    __slots__ = ("_changes", "dir", "error")

    def __init__(self, dir: LogDir) -> None:
        self.dir = dir
        self.error: OSError | None = None
        self._changes = dir.names.changes

    def run(self) -> None:
        """Make durable what the names were when this was made."""
        try:
            self.dir.disk.sync_dir(self.dir.path)
        except OSError as error:
            self.error = error

    def finish(self) -> None:
        """It has run; a directory in which it failed is offline, if more was wrong than too many open files."""
        if self.error is not None:
            self.dir.failed(self.error)  # what passes is tried again: the names are as dirty as before
        else:
            self.dir.names.synced = max(self.dir.names.synced, self._changes)


class OfflineOnError:
    """``with dir.offline_on_error:`` an OSError inside takes the directory offline and leaves as DirOffline; one that
    is about a single path leaves as UnusableFile."""

    __slots__ = ("_dir",)

    def __init__(self, dir: LogDir) -> None:
        self._dir = dir

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise self._dir.judge(error) from error


def put_aside(disk: Disk, path: str, error: OSError) -> str:
    """Give what stands at ``path`` another name, if ``error`` says that it is no file; what was done, in words."""
    if error.errno not in NO_FILE:
        raise error
    aside = next(name for number in count(1) if not disk.exists(name := f"{path}.{number}.aside"))
    disk.rename(path, aside)
    return f"{path} is no file ({error.strerror}); it is called {aside} now"


class Folder:
    """A partition's folder; ``names`` are those of its files."""

    __slots__ = (
        "damaged_topic", "dir", "disk", "generation", "lock", "names", "path", "small_version", "small_written",
        "topic_id",
    )  # fmt: skip

    def __init__(self, dir: LogDir, path: str) -> None:
        self.dir = dir
        self.disk = dir.disk
        self.path = path
        self.names = Names()
        self.generation = 0
        """How often the log was cut: what was taken from it before is not written any more."""
        self.lock = Lock()
        """Held while files other than the records are written or removed off the loop."""
        self.small_version = self.small_written = 0
        self.damaged_topic = b""
        """What the file that should say the topic's id holds, if that is no such thing."""
        self.topic_id: bytes | None = None
        """The topic id of the log that lives here, if it is known."""

    def file(self, name: str) -> str:
        return f"{self.path}/{name}"

    def is_anothers(self) -> bool:
        """Whether the log of another topic lies at its path by now: somebody exchanged folders that are in use."""
        if self.topic_id is None:
            return False
        try:
            said = self.disk.read(self.file(PARTITION_METADATA))
        except OSError:  # nothing is said: the file is made again
            return False
        return says_another(said, self.topic_id)

    def demand_own(self) -> None:
        """FileExistsError where another topic's log lies at its path. Asked before files are made, written, renamed or
        removed: that goes by their names, and these would be the other's."""
        if self.is_anothers():
            raise FileExistsError(errno.EEXIST, "the log of another topic is in the folder by now", self.path)

    # Whatever is not the records themselves can be made again: nothing that stands in its place is in the way.

    def read(self, path: str) -> bytes:
        """A whole small file; NoFile when what stood there was none, and was put aside. OSError."""
        try:
            return self.dir.files.with_room(lambda: self.disk.read(path))
        except OSError as error:
            raise NoFile(self._put_aside(path, error)) from error

    def open(self, path: str, *, create: bool = False) -> File:
        """The file, if need be a new one where something else stood; without ``create`` NoFile then. OSError."""
        try:
            return self.dir.files.with_room(lambda: self.disk.open(path, create=create))
        except OSError as error:
            told = self._put_aside(path, error)
            self.dir.on_repair(told)
            if not create:
                raise NoFile(told) from error
        return self.disk.open(path, create=True)

    def rename(self, source: str, target: str) -> None:
        """Put a file in the place of another, or of what should have been one. OSError."""
        try:
            self.disk.rename(source, target)
        except OSError as error:
            self.dir.on_repair(self._put_aside(target, error))
            self.disk.rename(source, target)

    def remove(self, path: str) -> None:
        """Remove a file, or put aside what should have been one. OSError."""
        try:
            self.disk.remove(path)
        except OSError as error:
            self.dir.on_repair(self._put_aside(path, error))

    def _put_aside(self, path: str, error: OSError) -> str:
        told = put_aside(self.disk, path, error)
        self.names.touch()
        return told

    def say_topic(self, topic_id: bytes) -> None:
        """Write which topic it belongs to; durable with the next flush of its log."""
        text = format_partition_metadata(topic_id)
        file = self.open(self.file(PARTITION_METADATA), create=True)
        if file.size():  # ext4 writes a file that was cut to nothing to the disk when it is closed, also a new one
            file.truncate(0)
        file.pwrite((text,), 0)
        file.close()
