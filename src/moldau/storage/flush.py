"""What a log writes besides batches, and one flush of it in a form that a worker thread can run.

Made on the loop by ``Log.begin_flush``, run anywhere, ended on the loop by ``Log.end_flush``. The segments are pinned
meanwhile, so that nobody closes their files. An error is kept, not raised, and never tried again on the same file.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.replication.epochs import EpochTable
from moldau.storage.checkpoints import format_epochs, format_partition_metadata
from moldau.storage.folder import Folder
from moldau.storage.names import EPOCHS, PARTITION_METADATA, SNAPSHOT, offset_name
from moldau.storage.producers import Producers
from moldau.storage.segment import Segment


class Flush:
    """Everything below ``up_to`` is durable once ``run`` is through and ``error`` is None."""

    __slots__ = ("_dirs", "_disk", "_files", "_open_files", "_segments", "done", "error", "up_to")

    def __init__(self, folder: Folder, segments: Sequence[Segment], up_to: int) -> None:
        self.up_to = up_to
        self.done = False
        self.error: OSError | None = None
        self._disk = folder.disk
        self._open_files = folder.dir.files
        self._segments = segments
        for segment in segments:
            segment.pinned += 1  # all of them before the first is opened: opening one may close another
        self._files = [segment.open() for segment in segments]
        both = ((folder.path, folder.names), (folder.dir.path, folder.dir.names))
        self._dirs = [(path, names, names.changes) for path, names in both if names.dirty]

    def run(self) -> None:
        """Sync the files, then the folder and the log directory if names in them have changed."""
        try:
            for file in self._files:
                file.sync()
            for path, _, _ in self._dirs:
                self._disk.sync_dir(path)
            self.done = True
        except OSError as error:
            self.error = error

    def release(self) -> None:
        """The run is over (or will not happen): the files may be closed again."""
        for segment in self._segments:
            segment.pinned -= 1
        self._segments = ()
        self._files = []
        self._open_files.trim()
        if self.error is None and self.done:
            for _, names, changes in self._dirs:
                names.synced = max(names.synced, changes)


def save_small_files(folder: Folder, topic_id: bytes | None, epochs: EpochTable) -> None:
    """Whose log it is and which epochs it knows, durably: before the recovery point passes what depends on them."""
    if topic_id is not None:
        folder.disk.write_atomic(folder.file(PARTITION_METADATA), format_partition_metadata(topic_id))
    folder.disk.write_atomic(folder.file(EPOCHS), format_epochs(epochs.entries()))


def save_producers(folder: Folder, producers: Producers, end: int) -> None:
    """A producer snapshot at ``end``, unless there is one. Not synced: its checksum tells a torn one, and then an older
    snapshot and the log after it say the same."""
    if not end or producers.snapshot_offset == end:
        return
    producers.end_offset = end
    file = folder.disk.open(folder.file(offset_name(end, SNAPSHOT)), create=True)
    try:
        file.truncate(0)
        file.pwrite((producers.snapshot(),), 0)
    finally:
        file.close()
    producers.snapshot_offset = end
    folder.names.touch()
