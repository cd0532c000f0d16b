"""The folder of a new log: made by a worker, while the log is there already and takes nothing.

It stands first among what the log's files have to hear (``LogState.cuts``), so that a flush or a cut has it made first.
A crash before finds no folder: the log had no record, and is made anew from nothing. Read next: ``folder_changes.py``.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from moldau.storage.folder_changes import FolderChange
from moldau.storage.names import LOG
from moldau.storage.restarted import mark_restarted
from moldau.storage.truncation import drop_done

if TYPE_CHECKING:
    from moldau.storage.errors import LogError
    from moldau.storage.folder import Folder
    from moldau.storage.log_state import LogState


class Making(FolderChange):
    """The making of one log's folder. ``marked``: the checkpoint files may say something of a log that was here before
    (``restarted.py``).

    ``refused`` says why the folder cannot be had.
    """

    __slots__ = ("_marked", "_topic_id", "done", "log", "refused")

    def __init__(self, log: LogState, topic_id: bytes, *, marked: bool) -> None:
        super().__init__(at=log.folder.path)
        self.log = log
        self._topic_id, self._marked = topic_id, marked
        self.done = False
        self.refused: LogError | None = None

    def carry_out(self) -> None:
        """Make the folder, and have it say whose it is."""
        folder = self.log.folder
        if folder.disk.exists(folder.path) and any(name.endswith(LOG) for name in folder.disk.list_dir(folder.path)):
            # Of a log that was given up, and could not be renamed. OSError is what costs this partition only.
            raise FileExistsError(errno.EEXIST, "another log is still in the folder", folder.path)
        folder.disk.make_dirs(folder.path)
        if self._marked:
            mark_restarted(folder)
        folder.say_topic(self._topic_id)
        self.done = True

    def run(self, folder: Folder) -> None:
        """Have it made in its turn, if it is not yet. OSError."""
        error = folder.dir.changes.run(until=self) or self.error
        if error is not None:
            raise error
        if not self.done:  # nothing is done any more in a directory that has failed
            raise OSError(errno.EIO, "the folder was not made before its directory failed", folder.path)

    def end(self) -> None:
        """The folder is there: durable once the names of its directory are."""
        self.log.folder.names.touch()
        self.log.dir.names.touch()
        drop_done(self.log)

    def failed(self, error: LogError) -> None:
        self.refused = error
