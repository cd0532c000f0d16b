"""Logs that started over, and logs that have lost their beginning: what a start can tell by the log start checkpoint.

A log that starts over leaves a file in its folder (``RESTARTED``), before it does, that says that what the checkpoint
has of it is outdated. Read next: ``log_starts.py`` (what the checkpoint holds), ``offset_files.py`` (who writes it).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from moldau.storage.errors import LogError, LostRecords
from moldau.storage.folder import Folder
from moldau.storage.log_state import LogState
from moldau.storage.names import LOG_STARTS, RESTARTED

FORGIVEN_AT_ONCE = 50
"""So many marks of logs that started over are removed in one step of the loop."""


def unmark_restarted(restarted: Sequence[tuple[LogState, int]]) -> None:
    """The checkpoint is right again of these logs (and how often each had been cut): remove their marks."""
    for log, truncations in restarted[:FORGIVEN_AT_ONCE]:
        if log.truncations == truncations and log.dir.offline is None:
            with suppress(LogError), log.dir.watch:
                log.folder.remove(log.folder.file(RESTARTED))
                log.restarted = False


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
