"""Where logs begin, as the log start checkpoint of their directory records it.

A log whose first segment begins above its recorded start has lost records. For that to be true of no other log, a start
is recorded before the segments below it go, and a log that starts over leaves a file in its folder (``RESTARTED``),
before it does, that says that what the checkpoint has of it is outdated. Read next: ``retention.py``, ``recovery.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from moldau.model import TopicPartition
from moldau.storage.errors import LogError, LostRecords
from moldau.storage.names import LOG_STARTS, RESTARTED

if TYPE_CHECKING:
    from moldau.storage.folder import Folder
    from moldau.storage.log import Log

FORGIVEN_AT_ONCE = 50
"""So many marks of logs that started over are removed in one step of the loop."""


class LogStarts:
    """What the checkpoint file of one directory holds. Nothing is recorded of a log outside any ``LogDirs``."""

    __slots__ = ("is_kept", "on_file", "under_way")

    def __init__(self) -> None:
        self.is_kept = False
        self.on_file: Mapping[TopicPartition, int] = {}
        self.under_way = 0
        """Checkpoints that were taken and are not written yet."""

    def may_go(self, partition: TopicPartition, end: int) -> bool:
        """Whether a segment that ends at ``end`` may be removed from the beginning of the partition's log."""
        return not self.is_kept or self.on_file.get(partition, -1) >= end

    def may_hold(self, partition: TopicPartition) -> bool:
        """Whether the file has a start of the partition, or is about to."""
        return self.is_kept and (partition in self.on_file or self.under_way > 0)

    def written(self, starts: Mapping[TopicPartition, int], restarted: Sequence[tuple[Log, int]]) -> None:
        """The file holds ``starts``: of logs that started over, and were not cut since, it is right again."""
        self.on_file = starts
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
