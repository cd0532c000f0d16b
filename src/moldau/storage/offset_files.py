"""The offset checkpoint files of a broker's log directories, written here or on a worker thread, never out of order.

A ``Checkpoint`` is what one directory's files are to hold, gathered on the loop, of each log at one moment; ``run``
writes it anywhere; then ``LogDirs.end_checkpoint`` takes note. Decides nothing about offsets. What the files look like:
``checkpoints.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING

from moldau.model import TopicPartition
from moldau.ports import Disk
from moldau.storage.checkpoints import format_offsets
from moldau.storage.folder import put_aside
from moldau.storage.names import CLEANED_TO, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from moldau.storage.restarted import unmark_restarted

if TYPE_CHECKING:
    from moldau.storage.folder import LogDir
    from moldau.storage.log import Log

Offsets = Mapping[TopicPartition, int]
Gathered = dict[str, dict[TopicPartition, int]]
"""Offsets by checkpoint file."""
GATHERED_AT_ONCE = 500
"""Logs of which the offsets are taken in one step of the loop."""
OFFSET_FILES = (CLEANED_TO, RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS)
"""In the order in which they are written: a log that was cut below what was compacted says so before it is durable."""


class OffsetFiles:
    """Replaces files durably where their content changed. Of two writes of a file the one taken later stays."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._locks: dict[str, Lock] = {}
        """One for each directory: a disk that hangs in a write holds up those of its own."""
        self._written: dict[str, bytes] = {}
        self._turns = 0
        self._turn_of: dict[str, int] = {}
        self.on_repair: Callable[[str], object] = lambda sentence: None
        """Told of a folder that stood in the place of a file and was put aside; on any thread."""

    def know(self, path: str, data: bytes) -> None:
        """What a start read from a file: need not be written again."""
        self._written[path] = data

    def next_turn(self) -> int:
        """The turn of offsets that are gathered from now on: what is gathered later is at least as new."""
        self._turns += 1
        return self._turns

    def is_newest(self, path: str, turn: int) -> bool:
        """Whether nothing was written to the file since what was taken at ``turn``."""
        return self._turn_of.get(path) == turn

    def write(self, path: str, offsets: Offsets, turn: int) -> None:
        """Have the file hold ``offsets``, unless something newer was written meanwhile. OSError when it cannot."""
        data = format_offsets(offsets)
        with self._locks.setdefault(path.rpartition("/")[0], Lock()):
            if turn < self._turn_of.get(path, 0):
                return
            self._turn_of[path] = turn
            if self._written.get(path) != data:
                self._replace(path, data)
                self._written[path] = data

    def _replace(self, path: str, data: bytes) -> None:
        try:
            self._disk.write_atomic(path, data)
        except OSError as error:
            places = [place for place in (path, f"{path}.tmp") if self._disk.is_dir(place)]
            if not places:
                raise
            for place in places:
                self.on_repair(put_aside(self._disk, place, error))
            self._disk.write_atomic(path, data)


def note_offsets(found: Gathered, logs: Iterable[Log]) -> None:
    """Have ``found`` hold what its checkpoint files are to hold of ``logs``."""
    some = list(logs)
    for name, offsets in found.items():
        if name == RECOVERY_POINTS:
            offsets.update((log.partition, log.recovery_point) for log in some)
        elif name == LOG_STARTS:
            offsets.update((log.partition, start) for log in some if (start := _start(log)) is not None)
        elif name == HIGH_WATERMARKS:
            offsets.update((log.partition, log.high_watermark) for log in some)
        else:
            offsets.update((log.partition, log.cleaned_to) for log in some if log.cleaned_to >= 0)


def _start(log: Log) -> int | None:
    """The log start to be on file, if any: that which is, while the log's files were not cut yet as the log was."""
    if log.cuts:
        return log.dir.starts.on_file.get(log.partition)
    return log.log_start_offset if log.log_end_offset else None


class Checkpoint:
    """One directory's offsets by file name (default: of all checkpoint files), in a form that a worker thread can
    write; an error is kept.

    They hold what is recorded of the logs that are not in use, which decides, when those are loaded again, whether they
    are whole; ``gather`` adds the ``logs``, beside which ``Log.restart_point`` is kept.
    """

    __slots__ = ("_files", "_restarted", "dir", "error", "logs", "offsets", "turn")

    def __init__(self, files: OffsetFiles, dir: LogDir, *names: str) -> None:
        self.dir = dir
        self.offsets: Gathered = {name: dict(dir.unused.get(name, {})) for name in names or OFFSET_FILES}
        self.logs: list[Log] = []
        self.turn = files.next_turn()  # before the first log: one that is cut meanwhile is in what is gathered later
        self.error: OSError | None = None
        self._files = files
        self._restarted: list[tuple[Log, int]] = []
        dir.starts.under_way += 1

    def gather_in_slices(self, logs: Sequence[Log], step: int = GATHERED_AT_ONCE) -> Generator[None, None, None]:
        """Take the offsets of those of these logs that are in the directory, with a pause after every ``step``."""
        for begin in range(0, len(logs), step):
            if begin:
                yield
            some = [log for log in logs[begin : begin + step] if log.dir is self.dir]
            note_offsets(self.offsets, some)
            for log in some:  # from now on the file may hold as much: one cut below it must say so before it goes on
                log.restart_point = max(log.restart_point, log.recovery_point)
                if log.restarted and not log.cuts:
                    self._restarted.append((log, log.truncations))
            self.logs += some

    def run(self) -> None:
        """Write what changed."""
        try:
            for name, offsets in self.offsets.items():
                self._files.write(f"{self.dir.path}/{name}", offsets, self.turn)
        except OSError as error:
            self.error = error

    def finish(self) -> None:
        """It is written: the recovery points on file are those of then, unless newer ones were written meanwhile."""
        if self.error is None and self._files.is_newest(f"{self.dir.path}/{RECOVERY_POINTS}", self.turn):
            points = self.offsets[RECOVERY_POINTS]
            for log in self.logs:
                log.restart_point = points[log.partition]
        self.dir.starts.under_way -= 1
        starts = self.offsets.get(LOG_STARTS)
        if starts is None or self.error is not None:
            return
        if self._files.is_newest(f"{self.dir.path}/{LOG_STARTS}", self.turn):
            self.dir.starts.on_file = starts
            unmark_restarted(self._restarted)
