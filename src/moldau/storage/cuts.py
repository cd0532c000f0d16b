"""What a truncation leaves to be done on the disk, on any thread: a log is cut in memory at once, its files later.

A crash before finds the log as it was before the cut, which a follower then cuts again. Until it is done nothing is
appended, flushed or checkpointed as if it were: whoever would (``truncation.finish``, ``flush.py``) does it first, save
a broker, which has it done elsewhere: ``moldau.broker.replicas.recovery_points``. Read next: ``truncation.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from moldau.model.protocol import Protocol
from moldau.storage.names import RESTARTED
from moldau.storage.producer_state import drop_snapshots

if TYPE_CHECKING:
    from moldau.storage.folder import Folder
    from moldau.storage.segment import Segment
    from moldau.storage.taken import Renames


class Due(Protocol):
    """What the files of a log do not know yet: that it was cut, or that it is there (``making.py``)."""

    @property
    def done(self) -> bool: ...

    def run(self, folder: Folder) -> None:
        """Do it. OSError."""


class Cut:
    """One truncation: the ``gone`` segments are removed, from the end, and the last one that is left ends at its size.

    Snapshots ``above`` an offset describe what was cut. None: all do, for the log starts over with a new segment.
    ``taken``: what retention and compaction took before and is still under its old names, which the log may give to
    others from here on, and compacted segments that do not take their places. ``marked``: what the checkpoint has of
    the log is outdated, which a mark says first (``restarted.py``).
    """

    __slots__ = ("_above", "_gone", "_last", "_marked", "_size", "_taken", "done")

    def __init__(
        self, gone: Sequence[Segment], last: Segment, above: int | None, taken: Sequence[Renames], *, marked: bool
    ) -> None:
        self._gone, self._last, self._size = gone, last, last.size
        self._above, self._taken, self._marked = above, tuple(taken), marked
        self.done = False

    def run(self, folder: Folder) -> None:
        """Do it; again, if it failed before. OSError."""
        folder.demand_own()
        for taken in self._taken:
            taken.rename()
        if self._marked:
            folder.open(folder.file(RESTARTED), create=True).close()
        for segment in self._gone:
            segment.remove_files()
        if self._gone and self._above is not None:
            # Before the cut: a removal that a power cut undoes would leave a gap behind it.
            folder.disk.sync_dir(folder.path)
        file = folder.disk.open(self._last.path(), create=True)
        try:
            if file.size() > self._size:
                # Durably: what was cut must not come back under a segment that follows what was written instead.
                file.truncate(self._size)
                file.sync()
        finally:
            file.close()
        drop_snapshots(folder, above=-1 if self._above is None else self._above)
        self.done = True


def do(folder: Folder, cuts: Sequence[Due]) -> None:
    """Do those of these cuts that were not done yet, in order, on any thread. OSError."""
    if not cuts:
        return
    with folder.lock:
        for cut in cuts:
            if not cut.done:
                cut.run(folder)
