"""Which log of a broker is compacted next, and which logs cannot be.

A log in which a run meets what it cannot read is *uncleanable*, as Kafka's cleaner calls it: named once, left alone,
and tried again when its settings, its leader epoch or its first segments have changed, or after a restart. Where the
disk or the system refused (EACCES, EIO), or the run's process was killed, it is tried again besides, after pauses that
double: the cause may be mended. Nothing that compaction meets is anybody else's trouble. Read next: ``cleanable.py``,
``compaction.py``, ``swap.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Generator
from functools import partial
from typing import TYPE_CHECKING

from moldau.model import TopicPartition
from moldau.model.named import NamedTuple
from moldau.storage.cleanable import dirty_bytes, is_due, measure
from moldau.storage.compaction import Compaction, plan
from moldau.storage.config import LogConfig
from moldau.storage.errors import DirOffline, UnusableFile
from moldau.storage.swap import DiskStep, Steps, discard, in_place

if TYPE_CHECKING:
    from moldau.storage.directories import LogsOfDirectories
    from moldau.storage.log import Log

AT_ONCE = 100
"""Logs measured before the loop turns."""
RETRY_MS, RETRY_MAX_MS = 15_000, 3_600_000
"""The first pause before what was refused is tried again, and the longest: each is twice as long as the one before."""


class Stamp(NamedTuple):
    """What a log is like; one that was uncleanable is tried again once this has changed."""

    log: int
    config: LogConfig
    leader_epoch: int
    truncations: int
    first_segment: int


class Uncleanable(NamedTuple):
    """Why a log cannot be compacted; since when, and how long nobody tries again (``pause_ms`` 0: for ever)."""

    reason: str
    stamp: Stamp
    since_ms: int = 0
    pause_ms: int = 0

    def may_be_tried(self, now_ms: int) -> bool:
        """Whether the pause is over; also when the clock was set back behind its beginning."""
        return self.pause_ms > 0 and not self.since_ms <= now_ms < self.since_ms + self.pause_ms


def stamp(log: Log) -> Stamp:
    """What a log is like now."""
    return Stamp(id(log), log.config, log.epochs.latest, log.truncations, log.segments[0].base_offset)


def nobody_listens(log: Log, reason: str) -> None:
    """Drop it."""


class Compactions:
    """The compactions of all logs of a broker; at most one of a partition at a time."""

    def __init__(self, logs: LogsOfDirectories) -> None:
        self._logs = logs
        self.uncleanable: dict[TopicPartition, Uncleanable] = {}
        self.running: set[TopicPartition] = set()
        self.max_dirty_ratio = 0.0
        """The largest at the last look, of the logs that may be compacted."""
        self.on_uncleanable: Callable[[Log, str], object] = nobody_listens
        """Told of a log that cannot be compacted, and why, once; also of one that only cannot be now."""

    def _holds(self, log: Log) -> bool:
        return self._logs.logs.get(log.partition) is log

    def dirtiest_in_slices(
        self, now_ms: int, skip: Container[TopicPartition] = ()
    ) -> Generator[None, None, Log | None]:
        """The log that gains most from a compaction now, none of ``skip``; pauses where the loop should turn."""
        best: tuple[float, Log] | None = None
        largest = 0.0
        for number, log in enumerate(list(self._logs.logs.values()), 1):
            if not number % AT_ONCE:
                yield
            partition = log.partition
            if not log.config.compact or log.dir.offline is not None or not self._holds(log):
                continue
            if partition in self.running or partition in skip or self._is_uncleanable(log, now_ms):
                continue
            try:
                dirt = measure(log, now_ms)
            except Exception as error:  # a damaged segment, an index that cannot be opened: this log's own trouble
                self._give_up(log, str(error), now_ms, _may_be_mended(error))
                continue
            if dirt is None:
                continue
            largest = max(largest, dirt.ratio)
            gain = 2.0 if dirt.overdue else dirt.ratio
            if is_due(log, dirt) and (best is None or gain > best[0]):
                best = gain, log
        self.max_dirty_ratio = largest
        return None if best is None else best[1]

    def begin(self, log: Log, now_ms: int) -> Compaction | None:
        """A compaction of the log to run (anywhere) and to end; None when it cannot be, or needs none any more."""
        if log.partition in self.running or log.dir.offline is not None or not self._holds(log):
            return None
        if log.swap is not None:  # what an earlier run made could not be put where it belongs; who renames tries again
            return None
        try:
            compaction = plan(log, now_ms)
        except DirOffline:
            return None  # whoever listens to ``on_offline`` knows
        except Exception as error:
            self._give_up(log, str(error), now_ms, _may_be_mended(error))
            return None
        if compaction is not None:
            self.running.add(log.partition)
        return compaction

    def end(self, log: Log, compaction: Compaction, now_ms: int) -> Steps:
        """The run is over: put its result in place; bytes saved. What is yielded is run, anywhere, before the next
        step. DirOffline when the directory fails."""
        try:
            outcome = compaction.outcome
            if outcome is not None and not outcome.reason and self._holds(log) and log.dir.offline is None:
                try:
                    saved = yield from in_place(log, compaction, now_ms, lambda: self._holds(log))
                except UnusableFile as error:
                    self._give_up(log, str(error), now_ms, may_be_mended=True)
                    return 0
                self.uncleanable.pop(log.partition, None)
                return saved
            if outcome is not None and outcome.made:
                yield DiskStep(partial(discard, compaction, outcome.made))  # or it was deleted, folder and all
            if outcome is not None and outcome.reason and self._holds(log):
                if outcome.passing:
                    self.on_uncleanable(log, f"{outcome.reason}; it is tried again")
                else:
                    self._give_up(log, outcome.reason, now_ms, outcome.may_be_mended)
            return 0
        finally:
            self.running.discard(log.partition)

    def run_one(self, now_ms: int) -> int:
        """Compact one log, here and now; bytes saved."""
        steps = self.dirtiest_in_slices(now_ms)
        log = _last(steps)
        compaction = None if log is None else self.begin(log, now_ms)
        if log is None or compaction is None:
            return 0
        compaction.run()
        return end_now(self.end(log, compaction, now_ms))

    def _give_up(self, log: Log, reason: str, now_ms: int, may_be_mended: bool) -> None:
        """Leave the log alone, for some time or for ever; whoever listens is told once of each reason."""
        known = self.uncleanable.get(log.partition)
        pause_ms = 0
        if may_be_mended:
            before_ms = known.pause_ms if known is not None else 0
            pause_ms = min(2 * before_ms, RETRY_MAX_MS) if before_ms else RETRY_MS
        self.uncleanable[log.partition] = Uncleanable(reason, stamp(log), now_ms, pause_ms)
        if known is None or known.reason != reason:
            self.on_uncleanable(log, reason)

    def _is_uncleanable(self, log: Log, now_ms: int) -> bool:
        known = self.uncleanable.get(log.partition)
        if known is None:
            return False
        if known.stamp == stamp(log):
            return not known.may_be_tried(now_ms)
        del self.uncleanable[log.partition]
        return False

    def counts(self) -> dict[str, tuple[int, int]]:
        """By log directory: how many logs cannot be compacted, and the bytes that wait there for it."""
        found = {dir.path: (0, 0) for dir in self._logs.dirs}
        for partition in list(self.uncleanable):
            log = self._logs.logs.get(partition)
            if log is None:
                del self.uncleanable[partition]
                continue
            count, size = found[log.dir.path]
            found[log.dir.path] = count + 1, size + dirty_bytes(log)
        return found


def _may_be_mended(error: Exception) -> bool:
    """Whether the disk or the system refused something: that says nothing about the bytes of the log."""
    return isinstance(error, OSError | UnusableFile)


def _last(steps: Generator[None, None, Log | None]) -> Log | None:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Log | None = end.value
            return found


def end_now(steps: Steps) -> int:
    """Run the steps of ``Compactions.end`` here and now; bytes saved."""
    while True:
        try:
            next(steps).run()
        except StopIteration as end:
            saved: int = end.value
            return saved
