"""Puts compacted segments in the place of what they were made from, in steps of which a crash may follow any.

A worker gives ``.cleaned`` files the suffix ``.swap`` and makes that durable: from here on a start finishes the
replacement (``folder_contents.py``). Then the log has the new segment in memory, at once, and a worker renames the old
files to ``.deleted`` ones, and takes the suffix off the ``.swap`` files: Apache Kafka's protocol. Meanwhile the new
segment is read under whichever of its two names its files have (``SegmentFile.there``). A log that is cut in between
takes the replacement back first, or finishes it (``cuts.py``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from functools import partial
from typing import TYPE_CHECKING

from moldau.storage.compaction import KINDS, Compacted, Compaction
from moldau.storage.errors import DirOffline
from moldau.storage.names import CLEANED, DELETED, SWAP, offset_name
from moldau.storage.segment import Segment
from moldau.storage.taken import put_away

if TYPE_CHECKING:
    from moldau.storage.log import Log


class DiskStep:
    """A step on a disk in a form that a worker thread can run; an error is kept."""

    __slots__ = ("_work", "error")

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self.error: OSError | None = None

    def run(self) -> None:
        """Do it."""
        try:
            self._work()
        except OSError as error:
            self.error = error


Steps = Generator[DiskStep, None, int]
"""What is yielded is run, anywhere, before the next step; bytes saved."""


class Swap:
    """One compacted segment on its way into a log, which knows it (``Log.swap``) until its files are where they belong.

    As long as that is not decided its files are ``.cleaned`` or ``.swap`` ones. Once it is, one way or the other, it is
    among the changes of the log's files that are still to be made (``Log.taken``), and a cut makes it first.
    """

    def __init__(self, log: Log, compaction: Compaction, compacted: Compacted) -> None:
        self.log = log
        self._base = compacted.sources[0].base
        self._size = compacted.size
        self._old = [compaction.segments[source.base] for source in compacted.sources]
        self._markers = compacted.sources[0].base, compacted.sources[-1].end
        self._aborted = compacted.aborted
        self._new: Segment | None = None
        self._undone = self._done = False
        self._left: deque[Callable[[], object]] = deque()
        """Renames that are still to be made, in this order, each once."""
        self._put_away: list[str] = []
        self._due_ms = 0
        self.error: OSError | None = None

    def _path(self, kind: str, suffix: str = "") -> str:
        return self.log.folder.file(offset_name(self._base, kind) + suffix)

    def _rename(self, kind: str, before: str, after: str) -> None:
        disk = self.log.folder.disk
        if disk.exists(self._path(kind, before)):
            disk.rename(self._path(kind, before), self._path(kind, after))

    def fits(self) -> bool:
        """Whether the log still holds all that is replaced."""
        segments = self.log.segments
        at = self.log.segment_at(self._base)
        return segments[at : at + len(self._old)] == self._old and not any(old.saving for old in self._old)

    def begin(self) -> None:
        """It is about to be announced: who cuts the log from here on has it undone."""
        self.log.swap = self

    def announce(self) -> None:
        """On a worker: a start after a crash finishes the replacement, once these names are durable. OSError."""
        with self.log.folder.lock:
            self.log.folder.demand_own()
            for kind in KINDS if not self._undone else ():
                self._rename(kind, CLEANED, SWAP)

    def undo(self) -> None:
        """Leave the log as it is: it is cut, or lacks a part of what was to be replaced. Too late once it is finished:
        what was replaced is gone."""
        if not (self._undone or self._new):
            self._undone = True
            # The log last: alone it would still be whole, and its indexes without it would be taken.
            self._left += (partial(self._remove, kind, suffix) for suffix in (SWAP, CLEANED) for kind in KINDS)
            self.log.taken.append(self)

    def _remove(self, kind: str, suffix: str) -> None:
        self.log.folder.disk.remove(self._path(kind, suffix))

    def finish(self, now_ms: int) -> int:
        """Replace the segments in memory; bytes saved."""
        log = self.log
        new = self._new = Segment(log.folder, self._base, self._size, SWAP)
        new.created_ms = self._old[0].created_ms
        new.checked_from = 0  # made from checked bytes just now
        at = log.segment_at(self._base)
        self._due_ms = now_ms + log.config.file_delete_delay_ms
        for segment in self._old:
            segment.drop()
            self._left += (partial(self._drop, path) for path in put_away(segment))
        self._left += (partial(self._rename, kind, SWAP, "") for kind in KINDS)
        log.replace_segments(at, len(self._old), [new])
        if log.known_producers is not None:
            log.known_producers.replace_aborted(self._markers, self._aborted)
        log.taken.append(self)
        return sum(segment.size for segment in self._old) - new.size

    def _drop(self, name: str) -> None:
        disk, path = self.log.folder.disk, self.log.folder.file(name)
        if disk.exists(path):
            disk.rename(path, path + DELETED)
            self._put_away.append(path + DELETED)

    def rename(self) -> None:
        """Have the files be what was decided, or go on where that failed; the folder's lock is held. OSError."""
        if self._left:
            self.log.folder.demand_own()
        while self._left:
            self._left[0]()
            self._left.popleft()
        if self._new is not None:
            self._new.suffix = ""
        self._done = True

    def run(self) -> None:
        """The same, by itself, on a worker; an error is kept."""
        self.error = None
        try:
            with self.log.folder.lock:
                self.rename()
        except OSError as error:
            self.error = error

    def end(self) -> bool:
        """It has run, on the loop: what was put away is removed in time. Whether nothing is left to do."""
        log = self.log
        paths, self._put_away = self._put_away, []
        log.dir.pending_deletion += ((self._due_ms, path) for path in paths)
        log.folder.names.touch()
        if self._done:
            if self in log.taken:
                log.taken.remove(self)
            if log.swap is self:
                log.swap = None
        return self._done


def in_place(log: Log, compaction: Compaction, now_ms: int, holds: Callable[[], bool] = lambda: True) -> Steps:
    """Put a successful run's segments in place.

    All is thrown away if the log was cut meanwhile or is not in use any more (``holds``), and a group whose sources
    retention took. DirOffline when the directory fails, UnusableFile when a file cannot be renamed.
    """
    outcome = compaction.outcome
    assert outcome is not None, "a compaction is put in place before it was run"
    saved, whole, rest = 0, True, list(outcome.made)
    error: OSError | None = None

    def valid() -> bool:
        return error is None and holds() and log.truncations == compaction.truncations

    while rest and valid():
        swap = Swap(log, compaction, rest[0])
        if not swap.fits():
            break
        rest.pop(0)
        swap.begin()
        step = DiskStep(swap.announce)
        yield step
        error = step.error
        durable = error is None and (yield from _synced(log, holds))
        if durable and valid() and swap.fits():
            saved += swap.finish(now_ms)
        else:
            swap.undo()
            whole = False
        yield DiskStep(swap.run)
        if not swap.end():
            error = swap.error
            if holds() and log.dir.renames_later:
                log.dir.taken.append(swap)  # retention goes on with it; until then the log is not compacted
    if rest:
        whole = False
        step = DiskStep(partial(discard, compaction, rest))
        yield step
        error = error or step.error
    if error is not None and holds():
        raise log.dir.judge(error) from error
    if holds():
        whole = (yield from _synced(log, holds)) and whole
    if whole and valid():
        # Last, when all of it is durable: a tombstone may go only where nothing older than it can come back.
        log.cleaned_to = outcome.cleaned_to
    return saved


def _synced(log: Log, holds: Callable[[], bool]) -> Generator[DiskStep, None, bool]:
    """Whether the names are durable: not while too many files are open. DirOffline when the directory fails."""
    sync = DiskStep(partial(log.folder.disk.sync_dir, log.folder.path))
    yield sync
    if sync.error is not None and holds() and log.dir.failed(sync.error):  # the folder of another log may be gone
        raise DirOffline(log.dir.path, sync.error)
    return sync.error is None


def discard(compaction: Compaction, made: Iterable[Compacted]) -> None:
    """Remove ``.cleaned`` segments that are not wanted, from the folder in which they were made. OSError."""
    for one in made:
        for kind in KINDS:
            name = offset_name(one.sources[0].base, kind) + CLEANED
            compaction.disk.remove(f"{compaction.order.folder}/{name}")
