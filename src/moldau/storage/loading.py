"""How a start loads the logs of one directory: what it finds there, and which of it can be used.

``DirLoad.begin`` and each ``LogsToLoad`` do all the reading and may run on worker threads, several batches at once;
``DirLoad.end`` takes the results in, and belongs to whoever owns the ``LogDirs``. What cannot be used is named in
``findings`` and left as it is; it costs its partition only. Read next: ``recovery.py`` (one log).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from moldau.model import TopicPartition
from moldau.model.named import NamedTuple
from moldau.storage import names
from moldau.storage.checkpoints import format_offsets, parse_clean_shutdown, parse_offsets
from moldau.storage.config import LogConfig
from moldau.storage.errors import BrokenFile, DirOffline, LogError
from moldau.storage.folder import Folder, LogDir
from moldau.storage.loaded import CheckpointedLog, Loaded
from moldau.storage.log import Log
from moldau.storage.offset_files import OFFSET_FILES
from moldau.storage.recovery import load

if TYPE_CHECKING:
    from moldau.storage.directories import LoadedDirectories

ConfigOf = Callable[[TopicPartition], LogConfig]

NAMED = 5
"""Folders that one line names."""


class FoundFolder(NamedTuple):
    """A folder by its name, the partition it says it is of, and whether it is a copy (KIP-113)."""

    name: str
    partition: TopicPartition
    is_copy: bool


class DirLoad:
    """The load of one directory. ``epoch`` is the broker epoch of its clean stop, or -1."""

    def __init__(self, dirs: LoadedDirectories, dir: LogDir, config_of: ConfigOf, now_ms: int) -> None:
        self.dir = dir
        self.epoch = -1
        self.findings: list[str] = []
        self._dirs = dirs
        self._config_of = config_of
        self._now_ms = now_ms
        self._clean = False
        self._offsets: dict[str, dict[TopicPartition, int] | None] = {}
        self._ignored: set[str] = set()
        """Checkpoint files that are gone, or of which no or not every line could be read."""
        self._found: list[FoundFolder] = []
        self._rest: Iterator[FoundFolder] = iter(())

    def begin(self) -> None:
        """Read the clean-shutdown marker, the checkpoint files and the names in the directory."""
        disk, path = self.dir.disk, self.dir.path
        marker = f"{path}/{names.CLEAN_SHUTDOWN}"
        try:
            self._dirs.make_dir(path)
            self._clear(names.CLEAN_SHUTDOWN, *OFFSET_FILES)
            self._clean = disk.exists(marker)
            if self._clean:
                self.epoch = self._broker_epoch(marker)
                # First of all, and durably: a crash from here on is not a clean stop (KAFKA-10471).
                disk.remove(marker)
                disk.sync_dir(path)
            for name in OFFSET_FILES:
                self._offsets[name] = self._read_offsets(name)
            self.dir.starts.on_file = self._offsets[names.LOG_STARTS] or {}
            self._found = [found for name in disk.list_dir(path) if (found := self._look_at(name)) is not None]
            if not self._found and not disk.exists(f"{path}/{names.RECOVERY_POINTS}"):
                # A later start that finds logs and no such file knows that it was lost.
                for name in (names.RECOVERY_POINTS, names.CLEANED_TO):
                    disk.write_atomic(f"{path}/{name}", format_offsets({}))
        except OSError as error:
            self.dir.fail(error)
            self._found = []
        if self._clean:
            self._miss_folders()
        self._rest = iter(self._found)

    def _miss_folders(self) -> None:
        """After a clean stop the checkpoint names the logs that are here. One that had records and is gone would be
        made anew, empty, and be taken for in sync: the stop does not count as clean then (KIP-966)."""
        found = {found.partition for found in self._found}
        points = self._offsets.get(names.RECOVERY_POINTS) or {}
        gone = [str(partition) for partition, point in points.items() if point and partition not in found]
        if gone:
            self.epoch = -1
            more = f", and {len(gone) - NAMED} more" if len(gone) > NAMED else ""
            which = ", ".join(gone[:NAMED])
            self.findings.append(
                f"folders are gone from {self.dir.path}, with their records: {which}{more}; the last stop does not"
                " count as clean"
            )

    def _clear(self, *files: str) -> None:
        """Give folders that stand where a file of ours is to be written another name: a failed write, now or at the
        next stop, would take the whole directory offline."""
        for name in files:
            for path in (f"{self.dir.path}/{name}", f"{self.dir.path}/{name}.tmp"):
                if self.dir.disk.is_dir(path):
                    aside = f"{path}.{self._dirs.unique()}.aside"
                    self.dir.disk.rename(path, aside)
                    self.findings.append(f"{path!r} is a folder where a file is expected; it is {aside!r} now")

    def _broker_epoch(self, marker: str) -> int:
        """The broker epoch in the marker of a clean stop, -1 when it cannot be read."""
        try:
            return parse_clean_shutdown(self.dir.disk.read(marker))
        except OSError as error:
            self.findings.append(f"{self._refused(error)}; the last stop does not count as clean")
            return -1

    def _refused(self, error: OSError) -> LogError:
        """What ``error`` says of one file; raises it when it is the directory's."""
        verdict = self.dir.judge(error)
        if isinstance(verdict, DirOffline):
            raise error
        return verdict

    def _read_offsets(self, name: str) -> dict[TopicPartition, int] | None:
        """The offsets in a checkpoint file as far as it can be read; None when there is no telling what it held."""
        path = f"{self.dir.path}/{name}"
        if not self.dir.disk.exists(path):
            self._ignored.add(name)
            return None
        try:
            data = self.dir.disk.read(path)
            if not data:
                self._ignored.add(name)
                return None
            problems: list[str] = []
            offsets = parse_offsets(data, path, problems)
        except BrokenFile as error:
            self.findings.append(f"{error}; the file is ignored")
            self._ignored.add(name)
            return None
        except OSError as error:
            self._ignored.add(name)
            verdict = self.dir.judge(error, path)
            self.findings.append(f"{verdict}; the file is ignored")
            return None
        if problems:
            self._ignored.add(name)
            self.findings.append(f"{problems[0]}; {len(problems)} such lines are ignored")
        else:
            self._dirs.know_offsets(path, data)
        return offsets

    def _look_at(self, name: str) -> FoundFolder | None:
        """The log that the folder ``name`` holds; None for files and for folders that are no live log."""
        path = f"{self.dir.path}/{name}"
        if name.endswith(names.DELETE_FOLDER):
            self.dir.pending_deletion.append((self._now_ms, path))
            return None
        if name.endswith(names.STRAY_FOLDER):
            self._dirs.strays.append(path)
            return None
        copy = names.parse_future(name)
        partition = names.parse_folder(name) if copy is None else copy[0]
        if partition is None:
            if names.looks_like_folder(name) and self.dir.disk.is_dir(path):
                self.findings.append(f"{path!r} is no name of a partition's folder; it is left alone")
            return None
        return None if partition.topic == names.METADATA_TOPIC else FoundFolder(name, partition, copy is not None)

    def next_batch(self, size: int) -> LogsToLoad | None:
        """The next ``size`` logs to read, None when there are no more. All batches may be read at the same time."""
        some = list(islice(self._rest, size))
        if not some or self.dir.offline is not None:
            return None
        configs = [(found, self._config_of(found.partition)) for found in some]
        return LogsToLoad(self.dir, [(found, self._known(found, config), config) for found, config in configs])

    def _known(self, found: FoundFolder, config: LogConfig) -> CheckpointedLog:
        points = self._offsets[names.RECOVERY_POINTS]
        point = None if points is None else points.get(found.partition, 0)
        starts = self._offsets[names.LOG_STARTS]
        start = None if starts is None else starts.get(found.partition)
        cleaned = self._offsets[names.CLEANED_TO]
        compacted = config.compact or (cleaned is not None and found.partition in cleaned)
        return CheckpointedLog(self._clean, point, start, compacted or names.CLEANED_TO in self._ignored)

    def end(self, batch: LogsToLoad) -> None:
        """The batch was read: its logs are the directory's, or the directory has failed."""
        if batch.error is not None:
            self.dir.fail(batch.error)
        if self.dir.offline is not None:
            return
        high_watermarks = self._offsets[names.HIGH_WATERMARKS] or {}
        cleaned = self._offsets[names.CLEANED_TO] or {}
        for found, config, folder, outcome in batch.outcomes:
            if isinstance(outcome, str):
                self._dirs.unusable[found.partition] = folder.path
                self._keep_offsets(found.partition)
                self.findings.append(f"{folder.path!r} cannot be loaded and is left as it is: {outcome}")
                continue
            folder.dir = self.dir
            log = Log(folder, found.partition, config, outcome)
            log.findings = outcome.findings
            self.findings += outcome.findings
            if outcome.lost:
                self.epoch = -1  # the stop was clean, and what it vouched for is not there
            high_watermark = 0 if log.restarted else high_watermarks.get(found.partition, 0)
            log.high_watermark = min(max(high_watermark, log.log_start_offset), log.log_end_offset)
            if not log.restarted:
                # Not above what is known to be durable: there it may have been cut since, and written anew.
                log.cleaned_to = min(cleaned.get(found.partition, -1), log.recovery_point)
            if log.recovery_point < log.log_end_offset:
                self.dir.rolled.append(log)  # flushed soon: another start need not read all of it again
            if log.known_producers is None:
                self.dir.producers_cut(log)
            if found.is_copy:
                self._dirs.futures.found(log, found.name)
            else:
                self.findings += self._dirs.take_in(log, self._now_ms)

    def _keep_offsets(self, partition: TopicPartition) -> None:
        for name, offsets in self._offsets.items():
            if offsets is not None and partition in offsets:
                self.dir.unused.setdefault(name, {})[partition] = offsets[partition]


class LogsToLoad:
    """Logs to read, in a form that a worker thread can run. ``outcomes``: what was loaded, or why it was not."""

    __slots__ = ("_dir", "_logs", "error", "outcomes")

    def __init__(self, dir: LogDir, logs: list[tuple[FoundFolder, CheckpointedLog, LogConfig]]) -> None:
        self._dir = dir
        self._logs = logs
        self.error: OSError | None = None
        self.outcomes: list[tuple[FoundFolder, LogConfig, Folder, Loaded | str]] = []

    def run(self) -> None:
        """Read them; stops at an error of the whole directory."""
        for found, known, config in self._logs:
            # Open files of its own: those of the directory belong to its owner's thread.
            private = LogDir(self._dir.disk, self._dir.path)
            folder = Folder(private, f"{private.path}/{found.name}")
            outcome: Loaded | str
            repaired: list[str] = []
            private.on_repair = repaired.append
            try:
                with private.offline_on_error:
                    if not self._dir.disk.is_dir(folder.path):
                        continue
                    outcome = load(folder, known, config.index_interval_bytes)
                    outcome.findings += repaired
            except DirOffline as error:
                self.error = error.__cause__ if isinstance(error.__cause__, OSError) else OSError(str(error))
                return
            except LogError as error:
                outcome = str(error)
            except AssertionError:
                raise
            except Exception as error:  # whatever lies in one folder costs that partition only
                outcome = repr(error)
            private.files.close_all()  # what a load that failed has left open
            self.outcomes.append((found, config, folder, outcome))
