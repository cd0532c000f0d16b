"""Index entries that are only in memory, on their way to the files: taken on the loop, written on any thread.

Until ``end`` nobody counts them as saved, so that what failed, or was cut meanwhile, is written again. Of two writes of
one index that run at once the one taken later stays: it holds all that the earlier one does. Read next: ``flush.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from moldau.storage.errors import NoFile
from moldau.storage.index import ENTRY_BYTES, TIME_ENTRY_BYTES, Index
from moldau.storage.names import INDEX, TIME_INDEX

if TYPE_CHECKING:
    from moldau.storage.folder import Folder, LogDir
    from moldau.storage.segment import Segment


class IndexSave:
    """The index of one segment. ``entries``: how many it has once this is written."""

    __slots__ = ("_counts", "_cut", "_generation", "_index", "_is_written", "_parts", "_turn", "entries", "segment")

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.entries = segment.entries
        self._index: Index | None = segment.kept_index
        self._generation = segment.folder.generation
        self._parts: dict[str, tuple[bytes, int]] = {}
        self._counts = (0, 0)
        self._cut, self._turn, self._is_written = False, 0, False
        segment.saving += 1
        index = self._index
        if index is None or not index.is_dirty:
            return
        index.taken += 1
        self._turn, self._cut = index.taken, index.shrunk
        self._counts = len(index.offsets), len(index.times)
        if index.shrunk or index.saved < self._counts[0]:
            self._parts[INDEX] = index.offset_bytes(index.saved), index.saved * ENTRY_BYTES
        if index.shrunk or index.times_saved < self._counts[1]:
            self._parts[TIME_INDEX] = index.time_bytes(index.times_saved), index.times_saved * TIME_ENTRY_BYTES
        if any(at == 0 for _, at in self._parts.values()):
            segment.folder.names.touch()

    @property
    def is_current(self) -> bool:
        """Whether the segment is in use, and its log was not cut since this was taken."""
        return not self.segment.gone and self._generation == self.segment.folder.generation

    def run(self) -> None:
        """Write what is missing in the files and make them durable; the folder's lock is held. OSError."""
        segment, index = self.segment, self._index
        if not self.is_current or (index is not None and self._turn and self._turn < index.written):
            return
        for kind in (INDEX, TIME_INDEX):
            path = segment.path(kind)
            if kind in self._parts:
                data, at = self._parts[kind]
                _write(segment.folder, path, data, at, cut=self._cut)
                if segment.gone:  # it was taken away meanwhile: leave nothing under its name
                    segment.folder.remove(path)
            else:
                sync_file(segment.folder, path)
        if index is not None and self._turn:
            index.written = self._turn
        self._is_written = True

    def end(self) -> None:
        """It has run, or never will."""
        segment, index = self.segment, self._index
        segment.saving -= 1
        if index is None or not self._turn or segment.kept_index is not index:
            return
        if not self.is_current:
            index.shrunk = True  # this may have written more than was left
        elif self._is_written:
            index.saved, index.times_saved = max(index.saved, self._counts[0]), max(index.times_saved, self._counts[1])
            index.shrunk &= not self._cut


class IndexSaves:
    """Indexes of segments of one directory whose files were closed before they were saved: in memory until then."""

    __slots__ = ("_saves", "dir")

    def __init__(self, dir: LogDir, segments: Sequence[Segment]) -> None:
        self.dir = dir
        self._saves = [IndexSave(segment) for segment in segments]

    def run(self) -> None:
        """Write them. What cannot be written is left: an index is never a truth, and is made again from the log."""
        for save in self._saves:
            with suppress(OSError, NoFile), save.segment.folder.lock:
                save.run()

    def end(self) -> None:
        """It has run, or never will: give back the memory of those that are not in use."""
        for save in self._saves:
            save.end()
            segment = save.segment
            if segment.file is None and not segment.saving:
                segment.kept_index = None


def due(dirs: Iterable[LogDir]) -> list[IndexSaves]:
    """The saves of indexes to run (off the loop) and to end, of segments whose files were closed to open others."""
    found = []
    for dir in dirs:
        unsaved, dir.unsaved = dir.unsaved, {}
        if some := [segment for segment in unsaved if not segment.gone and segment.file is None]:
            found.append(IndexSaves(dir, some))
    return found


def save(dirs: Iterable[LogDir]) -> None:
    """Write them here and now."""
    for saves in due(dirs):
        saves.run()
        saves.end()


def sync_file(folder: Folder, path: str) -> None:
    """Make a file that nobody holds open durable; one that is gone meanwhile needs it no more."""
    with suppress(FileNotFoundError, NoFile):
        file = folder.open(path)
        try:
            file.sync()
        finally:
            file.close()


def _write(folder: Folder, path: str, data: bytes, at: int, *, cut: bool) -> None:
    file = folder.open(path, create=True)
    try:
        if cut:
            file.truncate(at)
        if data:
            file.pwrite((data,), at)
        file.sync()
    finally:
        file.close()
