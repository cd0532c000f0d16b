"""Segments that are taken out of a log: their files get other names, and are removed in time.

``retention.py`` decides which, and compaction replaces some (``swap.py``). Read next: ``retention.Deletion``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from moldau.storage.folder import Folder
from moldau.storage.names import DELETED, INDEX, LOG, SNAPSHOT, TIME_INDEX, TXN_INDEX, offset_name
from moldau.storage.segment import Segment


class Renames(Protocol):
    """Files of a log that do not have the names yet that they should."""

    log: Any  # Any: a Log, which stands on this
    error: OSError | None

    def rename(self) -> None:
        """Rename what has its old name still; the folder's lock is held. OSError."""

    def run(self) -> None:
        """The same, by itself, on any thread; an error is kept."""

    def end(self) -> bool:
        """It has run, on the loop. Whether nothing is left to do."""


def put_away(segment: Segment) -> list[str]:
    """The names of the files of a segment that is in use no more, in the order in which they get others."""
    # The log first: without it a start removes the rest.
    return [offset_name(segment.base_offset, kind) for kind in (LOG, INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT)]


class TakenSegments:
    """Segments that retention has taken out of a log, of which the files do not know yet: they are renamed in a form
    that a worker thread can run; an error is kept, and whoever runs it again goes on.

    A log that is cut may give their names to new segments, so that this comes before the files are cut (``cuts.py``).
    """

    __slots__ = ("_before", "_done", "_due_ms", "_folder", "_paths", "_segments", "error", "log")

    def __init__(self, log: Any, segments: Sequence[Segment], due_ms: int) -> None:  # Any: a Log, which stands on this
        self.log, self._segments, self._due_ms = log, segments, due_ms
        self._folder: Folder = log.folder
        self._before: Sequence[Renames] = tuple(log.taken)
        """What comes first: a compacted segment has its name only then."""
        self._paths: list[str] = []
        self._done = False
        self.error: OSError | None = None
        for segment in segments:
            segment.drop()

    def rename(self) -> None:
        """Rename what has its old name still; the folder's lock is held. OSError."""
        if self._done:
            return
        self._folder.demand_own()
        for one in self._before:
            one.rename()
        self._before = ()
        disk = self._folder.disk
        for segment in self._segments:
            for path in map(self._folder.file, put_away(segment)):
                if disk.exists(path):
                    disk.rename(path, path + DELETED)
                    self._paths.append(path + DELETED)
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
        self._folder.dir.pending_deletion += ((self._due_ms, path) for path in paths)
        self._folder.names.touch()
        if self._done:
            self.log.taken.remove(self)
        return self._done
