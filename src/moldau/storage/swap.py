"""Puts compacted segments in the place of what they were made from, in steps of which a crash may follow any.

Renames happen on the loop, which alone uses the log's files; the fsyncs between them run anywhere. ``.cleaned`` files
become ``.swap`` files (durable: from here on a start finishes the replacement, ``recovery.py``), then the old files
become ``.deleted`` ones, and the ``.swap`` files lose their suffix: Apache Kafka's protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING

from moldau.ports import Disk
from moldau.storage.compaction import KINDS, Compacted, Compaction
from moldau.storage.errors import DirOffline
from moldau.storage.names import CLEANED, SWAP, offset_name
from moldau.storage.segment import Segment
from moldau.storage.taken import doom

if TYPE_CHECKING:
    from moldau.storage.log import Log


class FolderSync:
    """One fsync of a folder, in a form that a worker thread can run; an error is kept."""

    __slots__ = ("_disk", "_path", "error")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self.error: OSError | None = None

    def run(self) -> None:
        """Make the names in the folder durable."""
        try:
            self._disk.sync_dir(self._path)
        except OSError as error:
            self.error = error


class Swap:
    """One compacted segment on its way into a log; the log knows it (``Log.swap``) while its files are ``.swap``."""

    def __init__(self, log: Log, compaction: Compaction, compacted: Compacted) -> None:
        self._log = log
        self._base = compacted.sources[0].base
        self._size = compacted.size
        self._old = [compaction.segments[source.base] for source in compacted.sources]
        self._markers = compacted.sources[0].base, compacted.sources[-1].end
        self._aborted = compacted.aborted

    def _path(self, kind: str, suffix: str = "") -> str:
        return self._log.folder.file(offset_name(self._base, kind) + suffix)

    def _rename(self, before: str, after: str) -> None:
        disk = self._log.folder.disk
        for kind in KINDS:
            if disk.exists(self._path(kind, before)):
                disk.rename(self._path(kind, before), self._path(kind, after))
        self._log.folder.names.touch()

    def fits(self) -> bool:
        """Whether the log still holds all that is replaced."""
        segments = self._log.segments
        at = self._log.segment_at(self._base)
        return segments[at : at + len(self._old)] == self._old and not any(old.saving for old in self._old)

    def begin(self) -> None:
        """Announce the replacement: a start after a crash finishes it, once this is durable."""
        self._log.swap = self
        self._rename(CLEANED, SWAP)

    def undo(self) -> None:
        """Leave the log as it is: it is cut, or lacks a part of what was to be replaced."""
        disk = self._log.folder.disk
        self._log.swap = None
        for kind in KINDS:  # the log last: alone it would still be whole, and its indexes without it would be taken
            disk.remove(self._path(kind, SWAP))
        self._log.folder.names.touch()

    def finish(self, now_ms: int) -> int:
        """Replace the segments; bytes saved."""
        log = self._log
        new = Segment(log.folder, self._base, self._size)
        new.created_ms = self._old[0].created_ms
        new.checked_from = 0  # made from checked bytes just now
        at = log.segment_at(self._base)
        for segment in self._old:
            doom(segment, now_ms + log.config.file_delete_delay_ms)
        self._rename(SWAP, "")
        log.replace_segments(at, len(self._old), [new])
        if log.known_producers is not None:
            log.known_producers.replace_aborted(self._markers, self._aborted)
        log.swap = None
        return sum(segment.size for segment in self._old) - new.size


def in_place(
    log: Log, compaction: Compaction, now_ms: int, holds: Callable[[], bool] = lambda: True
) -> Generator[FolderSync, None, int]:
    """Put a successful run's segments in place; bytes saved. What is yielded is run before the next step.

    All is thrown away if the log was cut meanwhile or is not in use any more (``holds``), and a group whose sources
    retention took. DirOffline when the directory fails.
    """
    outcome = compaction.outcome
    assert outcome is not None, "a compaction is put in place before it was run"
    saved, whole, rest = 0, True, list(outcome.made)

    def valid() -> bool:
        return holds() and log.truncations == compaction.truncations

    while rest and valid():
        swap = Swap(log, compaction, rest[0])
        if not swap.fits():
            break
        with log.dir.watch:
            swap.begin()
        rest.pop(0)
        durable = yield from _synced(log, holds)
        if not valid():
            whole = False
            break
        with log.dir.watch:
            if durable and swap.fits():
                saved += swap.finish(now_ms)
            else:
                swap.undo()
                whole = False
    if rest:
        whole = False
        with log.dir.watch:
            discard(compaction, rest)
    if holds():
        whole = (yield from _synced(log, holds)) and whole
    if whole and valid():
        # Last, when all of it is durable: a tombstone may go only where nothing older than it can come back.
        log.cleaned_to = outcome.cleaned_to
    return saved


def _synced(log: Log, holds: Callable[[], bool]) -> Generator[FolderSync, None, bool]:
    """Whether the names are durable: not while too many files are open. DirOffline when the directory fails."""
    sync = FolderSync(log.folder.disk, log.folder.path)
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
