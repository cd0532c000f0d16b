"""A broker's log.dirs: every log in them, what a start and a stop do, and the passes a clock drives.

Decides which directory a new log goes to, when checkpoints are due for writing, what a clean stop is. Has no clock,
task or timer: the broker calls the passes. A directory that fails is offline and named; the others go on. Read next:
``log.py`` (one log), ``recovery.py`` (how one is loaded), ``folder.py`` (what a directory is).
"""

from __future__ import annotations

from collections.abc import Container, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count

from moldau.model import TopicPartition
from moldau.ports import Disk, Random
from moldau.storage import index_saves, names, removal, strays
from moldau.storage.checkpoints import MetaProperties, format_clean_shutdown, format_meta, parse_meta
from moldau.storage.compactions import Compactions
from moldau.storage.config import LogConfig
from moldau.storage.damage import Damaged
from moldau.storage.duplicates import Duplicates
from moldau.storage.errors import BrokenFile, DirOffline, LogError, UnusableFile
from moldau.storage.flush import Flush
from moldau.storage.folder import Folder, LogDir, NameSync, OpenFiles
from moldau.storage.future import Futures
from moldau.storage.held import LogCounts
from moldau.storage.loaded import CheckpointedLog
from moldau.storage.loading import ConfigOf, DirLoad
from moldau.storage.log import Log
from moldau.storage.making import Making
from moldau.storage.offset_files import GATHERED_AT_ONCE, Checkpoint, OffsetFiles
from moldau.storage.retention import Deletion, passed
from moldau.storage.slow import run_to_end
from moldau.storage.truncation import restore_in_slices

FLUSHED_AT_ONCE = 50
"""Flushes begun in one piece: each opens and writes a few files."""
GONE_AT_ONCE = 100
"""Removals run in one piece: who stops does not wait for two thousand, and finds the rest at the next start."""


class LogDirs:
    """All logs of a broker by partition (``logs``), over one or more log directories (``dirs``).

    ``findings`` tells an operator, in words, what the start repaired, cut or could not use. ``previous_broker_epoch``
    is the epoch of the broker that stopped cleanly here, -1 after any other end (KIP-966).
    """

    def __init__(
        self, disk: Disk, paths: Sequence[str], *, random: Random | None = None, open_files: int = 1000
    ) -> None:
        self.disk = disk
        self.files = OpenFiles(open_files)
        self.dirs = [LogDir(disk, path.rstrip("/") or "/", self.files, random) for path in paths]
        self.logs: dict[TopicPartition, Log] = {}
        self._duplicates = Duplicates()
        self.futures = Futures(self)
        self.compactions = Compactions(self)
        self.preferred: dict[TopicPartition, str] = {}
        """Where the log of a partition goes that has none yet, as somebody asked (KIP-113)."""
        self.findings: list[str] = []
        self.strays: list[str] = []
        """Folders that were set aside for an operator."""
        self.unusable: dict[TopicPartition, str] = {}
        """Folders whose logs could not be loaded, or are left alone: no other log takes their place."""
        self.left_alone: set[TopicPartition] = set()
        """The logs among these that could be loaded, and whose topics the metadata does not know (``strays.py``)."""
        self.damaged = Damaged()
        self.held = LogCounts(self.dirs)
        self.producer_expiration_ms = 86_400_000
        """producer.id.expiration.ms."""
        self.previous_broker_epoch = -1
        self._random = random
        self._names = count(1).__next__
        self._offset_files = OffsetFiles(disk)
        self._offset_files.on_repair = lambda sentence: self.damaged.on_found(sentence)
        for dir in self.dirs:
            dir.starts.is_kept = True
            dir.on_repair = lambda sentence: self.damaged.on_found(sentence)
            dir.restart_points = lambda dir=dir: self._write_recovery_points(dir)

    @property
    def online(self) -> list[LogDir]:
        return [dir for dir in self.dirs if dir.offline is None]

    @property
    def offline(self) -> list[LogDir]:
        """Failed directories; ``offline`` of each says why."""
        return [dir for dir in self.dirs if dir.offline is not None]

    # -- start ------------------------------------------------------------------------------------------------------

    def claim(self, cluster_id: str, node_id: int, version: int = 1) -> None:
        """Lock every directory and check whose it is; write ``meta.properties`` where there is none.

        ValueError when a directory is another cluster's or node's, or another process holds it, or two say that they
        are the same one. A directory that cannot be read, or does not say whose it is, is offline, not an error, as
        long as one is left.
        """
        known: dict[bytes, str] = {}
        for dir in self.dirs:
            try:
                self.make_dir(dir.path)
                if not self.disk.lock(f"{dir.path}/{names.LOCK}"):
                    raise ValueError(f"{dir.path} is in use by another process")
                self._check_owner(dir, cluster_id, node_id, version)
                if dir.id != bytes(16) and (other := known.setdefault(dir.id, dir.path)) != dir.path:
                    raise ValueError(
                        f"{dir.path} has the directory.id of {other}: it, or its {names.META}, was copied. Take it out"
                        f" of log.dirs, or remove the line directory.id from its {names.META} to give it another"
                    )
            except OSError as error:
                dir.fail(error)
            except BrokenFile as error:
                dir.fail(OSError(str(error)))
        if not self.online:
            raise DirOffline(
                ", ".join(dir.path for dir in self.dirs), self.dirs[0].offline if self.dirs else "none given"
            )

    def make_dir(self, path: str) -> None:
        """Create a directory and what is missing above it, durably."""
        missing = []
        while path and path != "/" and not self.disk.exists(path):
            missing.append(path)
            path = path.rpartition("/")[0]
        if missing:
            self.disk.make_dirs(missing[0])
            for made in reversed(missing):
                self.disk.sync_dir(made.rpartition("/")[0] or ("/" if made.startswith("/") else "."))

    def _check_owner(self, dir: LogDir, cluster_id: str, node_id: int, version: int) -> None:
        path = f"{dir.path}/{names.META}"
        meta = parse_meta(self.disk.read(path), path) if self.disk.exists(path) else None
        if meta is not None and (meta.cluster_id != cluster_id or meta.node_id != node_id):
            raise ValueError(
                f"{dir.path} belongs to node {meta.node_id} of cluster {meta.cluster_id}, "
                f"not to node {node_id} of cluster {cluster_id}"
            )
        if meta is None or meta.directory_id is None or meta.version < version:  # 0 was written in ZooKeeper mode
            id = None if meta is None else meta.directory_id
            if id is None and self._random is not None:
                id = self._random.uuid()
            meta = MetaProperties(cluster_id, node_id, id, version)
            self.disk.write_atomic(path, format_meta(meta))
        dir.id = meta.directory_id or bytes(16)

    def load(self, config_of: ConfigOf, now_ms: int = 0) -> None:
        """Load every log, here and now. After a clean stop this looks at tails only; otherwise it reads from the
        recovery points on.
        """
        loads = self.begin_load(config_of, now_ms)
        for loading in loads:
            loading.begin()
            while (batch := loading.next_batch(1)) is not None:
                batch.run()
                loading.end(batch)
        self.end_load(loads, now_ms)

    def begin_load(self, config_of: ConfigOf, now_ms: int) -> list[DirLoad]:
        """What is to be loaded, one for each directory that is online."""
        return [DirLoad(self, dir, config_of, now_ms) for dir in self.online]

    def end_load(self, loads: Sequence[DirLoad], now_ms: int) -> None:
        """All of it is loaded: copies go on or are swapped, and it is known whether all stopped cleanly."""
        for loading in loads:
            self.findings += loading.findings
        self.futures.resolve_found(now_ms)
        epochs = [loading.epoch for loading in loads]
        self.previous_broker_epoch = min(epochs) if epochs and not self.offline else -1

    def know_offsets(self, path: str, data: bytes) -> None:
        """What a start read from a checkpoint file: need not be written again."""
        self._offset_files.know(path, data)

    def take_in(self, log: Log, now_ms: int) -> list[str]:
        """A start loaded a log; what an operator should know of it."""
        return self._duplicates.take_in(self, log, now_ms)

    def choose(self, partition: TopicPartition, topic_id: bytes | None, now_ms: int) -> None:
        """Use the log of this topic among those of one partition that a start found."""
        self._duplicates.choose(self, partition, topic_id, now_ms)

    def unique(self) -> str:
        """A part of a folder's name that no other has."""
        return self._random.uuid().hex() if self._random is not None else f"{self._names():032x}"

    # -- logs -------------------------------------------------------------------------------------------------------

    def create(
        self, partition: TopicPartition, topic_id: bytes, config: LogConfig, *, now_ms: int = 0, is_new: bool = True
    ) -> Log:
        """A new log, in its preferred directory or the online one that holds the fewest. LogError if it exists.

        ``is_new`` False: the replica held data before; with a directory offline it may be there, and an empty log must
        not take its place (KAFKA-16234): DirOffline.
        """
        if partition in self.logs:
            raise LogError(f"the log of {partition} exists")
        if partition in self.unusable:
            raise UnusableFile(f"{self.unusable[partition]!r} holds a log that could not be loaded")
        if not is_new and self.offline:
            raise DirOffline(self.offline[0].path, self.offline[0].offline)
        if not self.online:
            raise DirOffline(self.dirs[0].path, self.dirs[0].offline)
        wanted = self.preferred.pop(partition, "")
        dir = self.held.place(self.online, self.logs, removal.leaving(self, partition) or wanted)
        log = Log.create(dir, partition, topic_id, config, now_ms)
        self.logs[partition] = log
        self.held.created(dir)
        return log

    def delete(self, partition: TopicPartition, now_ms: int) -> None:
        """Take a log away: its folder gets another name and goes after file.delete.delay.ms."""
        self.delete_all((partition,), now_ms)

    def delete_all(
        self, partitions: Iterable[TopicPartition], now_ms: int, *, strays: Container[TopicPartition] = ()
    ) -> None:
        """Take many logs away. They are gone for good once ``name_syncs_due`` were run: that is not worth a step of the
        loop, for a sync takes as long as 40 renames.

        Of a power cut before that some come back, as they would have if it had come earlier: their topic ids tell.
        ``strays`` are only set aside, for an operator to look at. DirOffline when a directory fails; the logs in the
        others have gone all the same.
        """
        removal.delete_all(self, partitions, now_ms, strays)

    def give_up(self, log: Log, unique: str, now_ms: int, *, stray: bool = False, now: bool = False) -> None:
        """Have the folder of a log renamed that is in use no more, by a worker if there is one, and not ``now``;
        ``unique`` makes its new name. Durable once the names of its directory are synced.
        """
        removal.give_up(self, log, unique, now_ms, stray=stray, now=now)

    def end_changes(self, dir: LogDir) -> list[Making]:
        """Take note of the folders that were made or renamed; the new logs among them that have theirs, or whose folder
        cannot be had (``refused``), and which are out of use then."""
        made = []
        for change in dir.changes.ended():
            if change.error is None:
                change.end()
            else:
                change.failed(dir.judge(change.error))
            if isinstance(change, Making):
                made.append(change)
                partition = change.log.partition
                if change.refused is None or isinstance(change.refused, DirOffline):
                    continue  # in a directory that has failed it stays as all others do
                if self.logs.get(partition) is change.log:
                    del self.logs[partition]
                elif self.futures.holds(change.log):
                    self.futures.forget(partition)
                    self.damaged.note(partition, "a copy", change.refused)
        return made

    def set_aside(self, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """Take many logs out of use, and leave their folders to an operator under names that end in ``-stray``."""
        some = list(partitions)
        self.delete_all(some, now_ms, strays=frozenset(some))

    def remove_strays(
        self, wanted: Mapping[TopicPartition, bytes], now_ms: int, among: Iterable[TopicPartition] | None = None
    ) -> list[TopicPartition]:
        """Set aside each log (``among`` some) that ``wanted`` (partition to topic id) does not list with its id; which:
        see ``strays.py``."""
        return strays.remove_strays(self, wanted, now_ms, among)

    # -- passes: each returns soon, and the broker calls them by its clock ------------------------------------------

    def _online_logs(self, of: LogDir | None = None) -> Iterator[Log]:
        return (log for log in list(self.logs.values()) if log.dir.offline is None and of in (None, log.dir))

    def flushes_due(self, now_ms: int, of: LogDir | None = None) -> list[tuple[Log, Flush]]:
        """Flushes to run (off the loop) and to end (``end_flush``): closed segments, and logs by their flush.ms.

        At most ``FLUSHED_AT_ONCE``, since each holds files open: who gets so many asks again when those have run.
        """
        due: list[tuple[Log, Flush]] = []
        for dir in self.online if of is None else [of]:
            rolled, dir.rolled = dir.rolled, []
            dir.rolled = rolled[FLUSHED_AT_ONCE:]
            for log in filter(self._holds, rolled[:FLUSHED_AT_ONCE]):  # not those deleted meanwhile
                self._begin_flush(log, log.active.base_offset, due)
        for log in self._online_logs(of):
            if len(due) >= FLUSHED_AT_ONCE:
                break
            if log.log_end_offset > log.recovery_point and now_ms - log.last_flush_ms >= log.config.flush_ms:
                if not log.awaits_file:  # else what is not in a file yet is due still
                    log.last_flush_ms = now_ms
                self._begin_flush(log, None, due)
        return due

    def _begin_flush(self, log: Log, up_to: int | None, due: list[tuple[Log, Flush]]) -> None:
        with self.damaged.guard(log, "a flush"):
            flush = log.begin_flush(up_to)
            if flush is not None:
                due.append((log, flush))

    def end_flush(self, log: Log, flush: Flush) -> UnusableFile | None:
        """The flush has run; DirOffline when it failed, or why this log alone cannot be flushed.

        Of a log deleted meanwhile nothing needs to be durable, and what is missing says nothing of its directory.
        """
        try:
            self.end_flush_of(log, flush)
        except UnusableFile as error:
            self.damaged.note(log.partition, "a flush", error)
            return error
        return None

    def end_flush_of(self, log: Log, flush: Flush) -> None:
        """The same; LogError also where only files of this log failed."""
        if self.uses(log):
            log.end_flush(flush)
        else:
            flush.release()

    def uses(self, log: Log) -> bool:
        """Whether this is the log of its partition, or a copy that is to be."""
        return self._holds(log) or self.futures.holds(log)

    def _holds(self, log: Log) -> bool:
        return self.logs.get(log.partition) is log

    def flush_pass(self, now_ms: int) -> None:
        """Run what is due, here and now."""
        index_saves.save(self.online)
        while due := self.flushes_due(now_ms):
            for log, flush in due:
                flush.run()
                with suppress(DirOffline):
                    self.end_flush(log, flush)

    def retention_pass(self, now_ms: int) -> int:
        """Take away segments that retention allows to go, and forget silent producers; how many bytes."""
        freed = run_to_end(self.retention_in_slices(now_ms))
        for checkpoint in run_to_end(self.passed_in_slices()):
            checkpoint.run()
            self.end_checkpoint(checkpoint)
        return freed + run_to_end(self.removal_in_slices(now_ms))

    def retention_in_slices(self, now_ms: int, at_once: int = 10) -> Generator[None, None, int]:
        """Move log starts up, with a pause after ``at_once`` logs, and after so many segments of one log; bytes freed.

        What lies below a start goes when the start is on the disk: ``passed_in_slices``, then ``removal_in_slices``. A
        log in which it meets damage keeps what it has, and the next one follows.
        """
        freed = 0
        for number, log in enumerate(self._online_logs(), 1):
            with self.damaged.guard(log, "retention"):
                log.expire_producers(now_ms, self.producer_expiration_ms)
                while self._holds(log) and (gone := log.retention_pass(now_ms, at_once)):
                    freed += gone
                    yield
            if not number % at_once:
                yield
        return freed

    def passed_in_slices(self, of: LogDir | None = None) -> Generator[None, None, list[Checkpoint]]:
        """Checkpoints to write of the directories in which log starts have passed segments that wait for that."""
        dirs: dict[str, LogDir] = {}
        for number, log in enumerate(self._online_logs(of), 1):
            if log.dir.path not in dirs and passed(log):
                dirs[log.dir.path] = log.dir
            if not number % GATHERED_AT_ONCE:
                yield
        return (yield from self._gathered(list(dirs.values())))

    def removal_in_slices(self, now_ms: int, at_once: int = 10, of: LogDir | None = None) -> Generator[None, None, int]:
        """Take away segments below the log starts on the disk, with a pause after ``at_once``; bytes freed."""
        freed = 0
        for log in filter(passed, self._online_logs(of)):
            with self.damaged.guard(log, "the removal of segments"):
                while self._holds(log) and (gone := log.remove_passed(now_ms, at_once)):
                    freed += gone
                    yield
        return freed

    def producers_in_slices(self) -> Generator[None, None, None]:
        """Read the producers' state of the logs that were cut again, with pauses, and of those cut in them."""
        while dir := next((dir for dir in self.dirs if dir.cut), None):
            log = dir.cut.pop(0)
            if dir.offline is None and (self._holds(log) or self.futures.holds(log)):
                with self.damaged.guard(log, "reading the producers' state"):
                    yield from restore_in_slices(log)

    def compaction_pass(self, now_ms: int) -> int:
        """Compact one log, here and now; bytes saved."""
        with suppress(DirOffline):
            return self.compactions.run_one(now_ms)
        return 0

    def name_syncs_due(self, of: LogDir | None = None) -> list[NameSync]:
        """Syncs of directories in which logs came or went, to run (off the loop) and to finish."""
        return [NameSync(dir) for dir in (self.online if of is None else [of]) if dir.names.dirty]

    def deletions_due(self, now_ms: int, of: LogDir | None = None) -> list[Deletion]:
        """Removals whose delay is over, to run (off the loop: a large file takes its time) and to end."""
        deletions: list[Deletion] = []
        for dir in self.online if of is None else [of]:
            paths = [path for due_ms, path in dir.pending_deletion if due_ms <= now_ms and not self.futures.keeps(path)]
            if paths:
                gone = frozenset(paths)
                dir.pending_deletion = [one for one in dir.pending_deletion if one[1] not in gone]
                deletions += (Deletion(dir, paths[n : n + GONE_AT_ONCE]) for n in range(0, len(paths), GONE_AT_ONCE))
        return deletions

    def end_deletion(self, deletion: Deletion) -> None:
        """The removal has run; a directory it failed in is offline."""
        for sentence in deletion.left:
            self.damaged.on_found(sentence)
        if deletion.error is not None:
            deletion.dir.fail(deletion.error)

    def deletion_pass(self, now_ms: int) -> int:
        """Remove files and folders whose delay is over, here and now; how many."""
        deletions = self.deletions_due(now_ms)
        for deletion in deletions:
            deletion.run()
            self.end_deletion(deletion)
        return sum(len(deletion.paths) for deletion in deletions)

    def checkpoints_in_slices(self, of: LogDir | None = None) -> Generator[None, None, list[Checkpoint]]:
        """What the checkpoint files of every directory (or one) should hold now, to write (off the loop) and to end."""
        return (yield from self._gathered(self.online if of is None else [of]))

    def checkpoints_due(self, of: LogDir | None = None) -> list[Checkpoint]:
        """The same, gathered here and now."""
        return run_to_end(self.checkpoints_in_slices(of))

    def recovery_points_in_slices(self, dir: LogDir) -> Generator[None, None, Checkpoint]:
        """What the recovery point checkpoint of one directory should hold now, in the same form."""
        return (yield from self._gathered([dir], names.RECOVERY_POINTS))[0]

    def _gathered(self, dirs: Sequence[LogDir], *files: str) -> Generator[None, None, list[Checkpoint]]:
        found = [Checkpoint(self._offset_files, dir, *files) for dir in dirs]
        for checkpoint in found:
            # And the copies: once they are swapped, the checkpoint files know them.
            yield from checkpoint.gather_in_slices(
                [*self.logs.values(), *(one.log for one in self.futures.logs.values())]
            )
        return found

    def end_checkpoint(self, checkpoint: Checkpoint) -> None:
        """It was written; a directory in which it could not be is offline, but for too many open files: they pass."""
        checkpoint.finish()
        if checkpoint.error is not None:
            checkpoint.dir.failed(checkpoint.error)

    def checkpoint(self) -> None:
        """Write the checkpoints of every directory whose content changed, here and now."""
        for checkpoint in self.checkpoints_due():
            checkpoint.run()
            self.end_checkpoint(checkpoint)

    def _write_recovery_points(self, dir: LogDir) -> None:
        """Write the recovery points of one directory at once: a log in it was cut below what the file says. OSError
        when it cannot."""
        checkpoint = run_to_end(self.recovery_points_in_slices(dir))
        checkpoint.run()
        checkpoint.finish()
        if checkpoint.error is not None:
            raise checkpoint.error

    def close(self, broker_epoch: int = -1) -> None:
        """Stop cleanly: flush and close every log, write the checkpoints, and last the marker where all went well."""
        for dir in self.dirs:
            dir.on_changes = None  # no worker takes anything any more
        # What could not be loaded was not recovered either: no marker vouches for it.
        aside = [path for partition, path in self.unusable.items() if partition not in self.left_alone]
        unclosed = [dir for dir in self.dirs if any(path.startswith(f"{dir.path}/") for path in aside)]
        for log in (*self.logs.values(), *(future.log for future in self.futures.logs.values())):
            try:
                log.close()
            except DirOffline:
                continue  # its directory gets no marker (KAFKA-13773); the others are closed all the same
            except LogError as error:
                self.damaged.note(log.partition, "the close", error)
                unclosed.append(log.dir)
        self.checkpoint()
        for dir in self.online:
            if dir in unclosed:
                continue
            try:
                self.disk.write_atomic(f"{dir.path}/{names.CLEAN_SHUTDOWN}", format_clean_shutdown(broker_epoch))
            except OSError as error:
                dir.fail(error)


def open_alone(disk: Disk, path: str, partition: TopicPartition, config: LogConfig, topic_id: bytes) -> Log:
    """One log outside any LogDirs, recovered in full: the metadata log of the quorum, or a log in a test."""
    dir = LogDir(disk, path)
    folder = Folder(dir, f"{path}/{partition}")
    if disk.exists(folder.path):
        return Log.open(dir, partition, config, CheckpointedLog())
    return Log.create(dir, partition, topic_id, config)
