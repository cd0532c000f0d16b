"""A log on its way to another directory: a future log that copies it, catches up and takes its place (KIP-113).

Decides what a start makes of a future folder it finds, how far a copy agrees with its log, and the two renames that
swap them. The folder that is given up and the one that follows share a unique part in their names: a kill between
the renames leaves a future whose log is gone, and only then the start finishes the swap. When to copy, and how fast,
is ``moldau.broker.replicas.alter_log_dirs``'s. Read next: ``log_dirs.py`` (the owner), ``names.py``.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from moldau.model import Code, TopicPartition
from moldau.storage import names
from moldau.storage.errors import LogError
from moldau.storage.folder import Folder, LogDir
from moldau.storage.log import Log
from moldau.storage.log_state import LogState

if TYPE_CHECKING:
    from moldau.storage.directories import CopiedDirectories


class Future:
    """One copy. ``truncations``: those of its log that it has followed; -1: it has to be compared first."""

    __slots__ = ("flushes", "log", "truncations", "unique")

    def __init__(self, log: Log, unique: str) -> None:
        self.log = log
        self.unique = unique
        self.truncations = -1
        self.flushes = 0
        """How often it was flushed off the loop to be alike in what is durable, too."""


class Futures:
    """All copies of a broker's logs, by partition (``logs``). Their logs are in ``LogDirs.logs``, and in use."""

    def __init__(self, dirs: CopiedDirectories) -> None:
        self._dirs = dirs
        self.logs: dict[TopicPartition, Future] = {}
        self._found: list[Future] = []
        self._kept: dict[str, tuple[LogDir, int]] = {}
        """Given up folders by path: what took their place, which change of names in which directory it came with."""

    # -- start ------------------------------------------------------------------------------------------------------

    def found(self, log: Log, name: str) -> None:
        """A start loaded a copy from the folder ``name``; ``resolve_found`` says what becomes of it."""
        parsed = names.parse_future(name)
        assert parsed is not None, f"{name} is no name of a copy's folder"
        self._found.append(Future(log, parsed[1]))

    def resolve_found(self, now_ms: int) -> None:
        """All directories are loaded: copies go on, swaps are finished, what nobody needs is removed."""
        for future in self._found:
            partition = future.log.partition
            log = self._dirs.logs.get(partition)
            with suppress(LogError):
                if log is not None and partition not in self.logs and _belongs(future.log, log):
                    self.logs[partition] = future
                elif log is None and self._was_swapped(future):
                    self._dirs.logs[partition] = future.log
                    self._take_place(future)
                elif log is not None or not self._dirs.offline:  # else its log may be there, and is needed with it
                    self._remove(future, now_ms)
        self._found = []

    def _was_swapped(self, future: Future) -> bool:
        """Whether its log was given up for it: the process ended between the two renames."""
        gone = names.doomed_folder(future.log.partition, future.unique, names.DELETE_FOLDER)
        return any(self._dirs.disk.exists(f"{dir.path}/{gone}") for dir in self._dirs.online)

    # -- life -------------------------------------------------------------------------------------------------------

    def create(self, partition: TopicPartition, dir: LogDir, unique: str) -> Future:
        """Begin a copy of the partition's log in ``dir``. DirOffline when that has failed."""
        log = self._dirs.logs[partition]
        assert log.topic_id is not None, f"{partition} has no topic id"
        folder = Folder(dir, f"{dir.path}/{names.future_folder(partition, unique)}")
        made = Log.create(folder, partition, log.topic_id, log.config)
        future = self.logs[partition] = Future(made, unique)
        return future

    def copy(self, partition: TopicPartition, max_bytes: int, now_ms: int) -> int:
        """Copy the next batches, and cut what the log has cut; how many bytes, 0 when the two are alike.

        LogError when either directory fails, or one has no space.
        """
        future, log = self.logs[partition], self._dirs.logs[partition]
        into = future.log
        if future.truncations != log.truncations:
            _cut(into, log)
            future.truncations = log.truncations
        if into.log_end_offset < log.log_start_offset:
            into.truncate_fully_at(log.log_start_offset)
        if into.awaits_cut or into.awaits_file:
            return 0
        data = log.read(into.log_end_offset, max_bytes)
        if data:
            appended = into.append_follower(data, now_ms)
            if appended.code is not Code.NONE:
                raise LogError(f"{partition} cannot be copied to {into.dir.path}: {appended.message}")
        into.high_watermark = max(into.log_start_offset, min(log.high_watermark, into.log_end_offset))
        into.advance_log_start(min(log.log_start_offset, into.high_watermark))
        return len(data)

    def lags(self, partition: TopicPartition) -> bool:
        """Whether its log has made durable, or is to, what the copy has not: a swap would flush it, here and now."""
        log = self._dirs.logs[partition]
        return max(log.recovery_point, log.flush_wanted) > self.logs[partition].log.recovery_point

    def swap(self, partition: TopicPartition, now_ms: int) -> Log:
        """The copy, which ``copy`` found to be alike in this very turn, takes the log's place; the log that counts now.

        Both renames are durable once the names of both directories are synced, which is not waited for: of a power cut
        before, a start makes the swap, or undoes it, or finds both logs and takes the one that goes further. Until then
        the folder that is given up stays (``keeps``). DirOffline when a directory fails meanwhile: ``LogDirs.logs`` has
        the one that counts then, too.
        """
        future, log = self.logs[partition], self._dirs.logs[partition]
        into = future.log
        assert into.log_end_offset == log.log_end_offset, f"{partition} is swapped for a copy that is not alike"
        # What is not in the records that it copied:
        into.epochs, into.epochs_changed = log.epochs.copy(), True
        into.high_watermark, into.last_flush_ms, into.changed = log.high_watermark, log.last_flush_ms, True
        into.reconfigure(log.config)
        if self.lags(partition):  # what was durable, or is to be, stays so
            into.flush(now_ms=now_ms)
        self._dirs.give_up(log, future.unique, now_ms, now=True)
        del self.logs[partition]
        self._dirs.logs[partition] = into
        self._dirs.held.moved()
        self._take_place(future)
        return into

    def _take_place(self, future: Future) -> None:
        """Its folder gets the log's name."""
        log = future.log
        path = f"{log.dir.path}/{log.partition}"
        with log.dir.offline_on_error:
            self._dirs.disk.rename(log.folder.path, path)
            log.folder.path = path
        log.dir.names.touch()
        gone = names.doomed_folder(log.partition, future.unique, names.DELETE_FOLDER)
        for dir in self._dirs.dirs:
            self._kept[f"{dir.path}/{gone}"] = log.dir, log.dir.names.changes

    def keeps(self, path: str) -> bool:
        """Whether a folder that was given up must not be removed yet: a power cut might leave nothing in its place."""
        dir, changes = self._kept.get(path, (None, 0))
        if dir is not None and dir.names.synced < changes:
            return True
        self._kept.pop(path, None)
        return False

    def holds(self, log: LogState) -> bool:
        """Whether the log is a copy."""
        future = self.logs.get(log.partition)
        return future is not None and future.log is log

    def drop(self, partition: TopicPartition, now_ms: int) -> None:
        """Call a copy off: its folder goes. Nothing happens when there is none."""
        future = self.logs.pop(partition, None)
        if future is not None:
            self._remove(future, now_ms)

    def forget(self, partition: TopicPartition) -> None:
        """Copy no further; the folder stays, and the next start goes on from there."""
        future = self.logs.pop(partition, None)
        if future is not None:
            for segment in future.log.segments:
                segment.drop()

    def _remove(self, future: Future, now_ms: int) -> None:
        # Not under the unique part that it shares with its log's: a start would take that for half a swap. One that
        # finds the copy under its own name, for the disk was not so far, removes it if its log has gone.
        self._dirs.give_up(future.log, future.unique[::-1] + "0", now_ms)


def _belongs(copy: Log, log: Log) -> bool:
    """Whether a copy that a start found is one of this log, and not of a former topic's of the name."""
    if copy.topic_id is None and not copy.size and log.topic_id is not None:  # a kill left it without
        copy.topic_id, copy.topic_id_saved = log.topic_id, False
        with copy.dir.offline_on_error:
            copy.folder.say_topic(log.topic_id)
    return copy.topic_id is not None and copy.topic_id == log.topic_id


def _cut(into: Log, log: Log) -> None:
    """Cut ``into`` back to where it agrees with ``log``, by leader epochs: (epoch, offset) names a record (KIP-101)."""
    while into.log_end_offset > into.log_start_offset:
        epoch = into.epochs.latest
        known, end = log.epochs.end_offset_for(epoch, log.log_end_offset)
        if known < 0:
            break
        if known == epoch:
            into.truncate_to(end)
            return
        into.truncate_to(min(end, into.epochs.start_of(epoch)))
    into.truncate_fully_at(log.log_start_offset)
