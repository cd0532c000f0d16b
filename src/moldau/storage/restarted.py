"""Logs that started over, and logs that have lost their beginning: what a start can tell by the log start checkpoint.

A log that starts over leaves a file in its folder (``RESTARTED``), before it does, that says that what the checkpoint
has of it is outdated. Read next: ``log_starts.py`` (what the checkpoint holds), ``offset_files.py`` (who writes it).
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.storage.errors import LogError, LostRecords
from moldau.storage.folder import Folder
from moldau.storage.folder_changes import FolderChange
from moldau.storage.log_state import LogState
from moldau.storage.names import LOG_STARTS, RESTARTED

FORGIVEN_AT_ONCE = 50
"""So many marks of logs that started over are removed in one step of the loop."""


class Unmarked(FolderChange):
    """One log, of which the checkpoint is right again: its mark goes, unless the log is cut before, which may need it.

    The log counts as unmarked from the beginning, so that it is marked anew if it starts over meanwhile.
    """

    __slots__ = ("_generation", "_is_gone", "log")

    def __init__(self, log: LogState) -> None:
        # A cut counts before it is made, and is made under this lock.
        super().__init__(at=log.folder.path, guard=log.folder.lock)
        self.log = log
        self._generation = log.folder.generation
        self._is_gone = False
        log.restarted = False

    def carry_out(self) -> None:
        folder = self.log.folder
        if folder.generation == self._generation:
            folder.remove(folder.file(RESTARTED))
            self._is_gone = True

    def end(self) -> None:
        if not self._is_gone:
            self.log.restarted = True

    def failed(self, error: LogError) -> None:
        self.log.restarted = True


def unmark_restarted(restarted: Sequence[tuple[LogState, int]]) -> None:
    """The checkpoint is right again of these logs (and how often each had been cut): have their marks removed."""
    for log, truncations in restarted[:FORGIVEN_AT_ONCE]:
        if log.restarted and log.truncations == truncations and log.dir.offline is None:
            change = Unmarked(log)
            try:
                log.dir.change(change)
            except LogError as error:
                change.failed(error)


def mark_restarted(folder: Folder) -> None:
    """Leave a mark in the folder: what the checkpoint has of its log is outdated. OSError."""
    folder.open(folder.file(RESTARTED), create=True).close()
    folder.names.touch()


def check_start(folder: Folder, first: int | None, recorded: int | None, reached: int) -> None:
    """LostRecords when a log whose ``first`` segment begins there (None: there is none) has lost its beginning.

    ``recorded`` is its start in the checkpoint (None: not recorded), ``reached`` an offset that it surely had.
    """
    if recorded is None:
        return
    where = f"{folder.path}: its records from offset {recorded} on"
    advice = (
        "remove the folder while the broker is down to have the replica fetched anew, or the partition's line in"
        f" {folder.dir.path}/{LOG_STARTS} (and the line that begins with #) to go on with what is left"
    )
    if first is None and reached > recorded:
        raise LostRecords(f"{where} are gone, to {reached} at least, with all files of its segments; {advice}")
    if first is not None and first > recorded:
        raise LostRecords(f"{where} are gone: the first segment begins at {first}; {advice}")
