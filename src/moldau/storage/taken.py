"""Segments that are taken out of a log: their files get other names, and are removed in time.

``retention.py`` decides which, and compaction replaces some (``swap.py``). Read next: ``retention.Deletion``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from moldau.storage.folder import Folder
from moldau.storage.names import DELETED, INDEX, LOG, SNAPSHOT, TIME_INDEX, TXN_INDEX, offset_name
from moldau.storage.segment import Segment


def doom(segment: Segment, due_ms: int) -> None:
    """Rename a segment's files out of the log and have them removed at ``due_ms``."""
    segment.drop()
    segment.folder.dir.doomed += ((due_ms, path) for path in _put_away(segment))
    segment.folder.names.touch()


def _put_away(segment: Segment) -> Iterator[str]:
    """Rename the files of a segment that is in use no more, on any thread; what they are called then."""
    folder = segment.folder
    # The log first: without it the rest is litter that a start removes.
    for kind in (LOG, INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT):
        path = folder.file(offset_name(segment.base_offset, kind))
        if folder.disk.exists(path):
            folder.disk.rename(path, path + DELETED)
            yield path + DELETED


class Taken:
    """Segments that retention has taken out of a log, of which the files do not know yet: they are renamed in a form
    that a worker thread can run; an error is kept, and whoever runs it again goes on.

    A log that is cut may give their names to new segments, so that this comes before the files are cut (``cuts.py``).
    """

    __slots__ = ("_done", "_due_ms", "_folder", "_paths", "_segments", "error", "log")

    def __init__(self, log: Any, segments: Sequence[Segment], due_ms: int) -> None:  # Any: a Log, which stands on this
        self.log, self._segments, self._due_ms = log, segments, due_ms
        self._folder: Folder = log.folder
        self._paths: list[str] = []
        self._done = False
        self.error: OSError | None = None
        for segment in segments:
            segment.drop()

    def rename(self) -> None:
        """Rename what has its old name still; the folder's lock is held. OSError."""
        if not self._done:
            for segment in self._segments:
                self._paths += _put_away(segment)
            self._done = True

    def run(self) -> None:
        """The same, by itself."""
        try:
            self.error = None
            with self._folder.lock:
                self.rename()
        except OSError as error:
            self.error = error

    def end(self) -> bool:
        """It has run: what has a new name is removed in time. Whether nothing is left to do."""
        paths, self._paths = self._paths, []
        self._folder.dir.doomed += ((self._due_ms, path) for path in paths)
        self._folder.names.touch()
        if self._done:
            self.log.taken.remove(self)
        return self._done
