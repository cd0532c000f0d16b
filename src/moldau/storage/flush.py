"""What a log writes besides batches, and one flush of it in a form that a worker thread can run.

Made on the loop by ``Log.begin_flush``, run anywhere, ended on the loop by ``Log.end_flush``. The segments are pinned
meanwhile, so that nobody closes their files. An error is kept, not raised, and never tried again on the same file.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.model.named import NamedTuple
from moldau.replication.epochs import EpochTable
from moldau.storage import closing
from moldau.storage.checkpoints import format_epochs, format_partition_metadata
from moldau.storage.closing import Closing
from moldau.storage.cuts import Due, do
from moldau.storage.folder import Folder
from moldau.storage.index_saves import IndexSave
from moldau.storage.names import EPOCHS, PARTITION_METADATA
from moldau.storage.segment import Segment


class Postponed(NamedTuple):
    """What rolls and truncations have left to be written with the next flush."""

    indexes: Sequence[Segment]
    closings: Sequence[Closing]
    cuts: Sequence[Due]


class Flush:
    """Everything below ``up_to`` is durable once ``run`` is through and ``error`` is None."""

    __slots__ = (
        "_cuts", "_dirs", "_files", "_folder", "_generation", "_open_files", "_small", "_version", "closings", "done",
        "error", "indexes", "saves", "segments", "truncations", "up_to",
    )  # fmt: skip

    def __init__(
        self,
        folder: Folder,
        segments: Sequence[Segment],
        up_to: int,
        small: dict[str, bytes],
        left: Postponed,
    ) -> None:
        self.up_to = up_to
        self.truncations = 0
        """How often the log had been truncated when the flush began: what was written after a truncation is not in
        it."""
        self.saves = False
        """Whether it writes small files that no flush before it has written for sure."""
        self._folder = folder
        self._small = small
        if small:
            folder.small_version += 1
            folder.names.touch()
        self._version = folder.small_version
        self.done = False
        self.error: OSError | None = None
        self._open_files = folder.dir.files
        self.segments = segments
        self.indexes = [IndexSave(segment) for segment in left.indexes]
        """Indexes that are written and synced too."""
        self.closings = left.closings
        self._cuts = list(left.cuts)
        self._generation = folder.generation
        for segment in segments:
            segment.pinned += 1
        self._files = [segment.file for segment in segments]
        """None: it is not open, and opened for its sync alone, where that runs."""
        both = ((folder.path, folder.names), (folder.dir.path, folder.dir.names))
        self._dirs = [(path, names, names.changes) for path, names in both if names.dirty]

    def run(self) -> None:
        """Sync the files, then the folder and the log directory if names in them have changed."""
        try:
            do(self._folder, self._cuts)
            if self._small or self.indexes or self.closings:
                self._folder.demand_own()
            for segment, file in zip(self.segments, self._files, strict=True):
                if file is not None:
                    file.sync()
                else:
                    self._sync_closed(segment)
            with self._folder.lock:
                for index in self.indexes:
                    index.run()
                for one in self.closings if self._generation == self._folder.generation else ():
                    closing.write(self._folder, one)
            if self._small:
                self._write_small()
            for path, _, _ in self._dirs:
                self._folder.disk.sync_dir(path)
            self.done = True
        except OSError as error:
            self.error = error

    def _sync_closed(self, segment: Segment) -> None:
        try:
            file = segment.there(self._folder.disk.open)
        except FileNotFoundError:
            if segment.gone:  # taken away meanwhile: nothing of it needs to be durable
                return
            raise
        try:
            file.sync()
        finally:
            file.close()

    def _write_small(self) -> None:
        folder = self._folder
        with folder.lock:  # two flushes of a log may run at once: the older one's files must not win
            if self._version > folder.small_written:
                for name, data in self._small.items():
                    _replace(folder, name, data)
                folder.small_written = self._version

    def release(self) -> None:
        """The run is over (or will not happen): the files may be closed again."""
        for segment, file in zip(self.segments, self._files, strict=True):
            segment.pinned -= 1
            if file is not None and not segment.pinned and segment.file is not file:
                file.close()  # the segment was dropped meanwhile: truncated, deleted, retained away
        self.segments = ()
        self._files = []
        for index in self.indexes:
            index.end()
        self._open_files.trim()
        if self.error is None and self.done:
            for _, names, changes in self._dirs:
                names.synced = max(names.synced, changes)


def small_files(topic_id: bytes | None, epochs: EpochTable) -> dict[str, bytes]:
    """Whose log it is and which epochs it knows: durable before the recovery point passes what depends on them."""
    files = {EPOCHS: format_epochs(epochs.entries())}
    if topic_id is not None:
        files[PARTITION_METADATA] = format_partition_metadata(topic_id)
    return files


def _replace(folder: Folder, name: str, data: bytes) -> None:
    """As ``Disk.write_atomic``, without the sync of the folder, which follows for all names together."""
    temporary = folder.file(name + ".tmp")
    file = folder.open(temporary, create=True)
    try:
        file.truncate(0)
        file.pwrite((data,), 0)
        file.sync()
    finally:
        file.close()
    folder.rename(temporary, folder.file(name))
