"""How many logs each log directory of a broker holds: a new one goes where the fewest are.

Counted anew only after logs went or moved: ten thousand are created one after the other, and each would look at all
that are there. Decides nothing else; asked by ``log_dirs.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from moldau.storage.folder import LogDir

if TYPE_CHECKING:
    from moldau.model import TopicPartition
    from moldau.storage.log import Log


class LogCounts:
    """How many logs each of ``dirs``, the log directories of one broker, holds."""

    def __init__(self, dirs: Sequence[LogDir]) -> None:
        self._paths = [dir.path for dir in dirs]
        self._counts = dict.fromkeys(self._paths, 0)

    def moved(self) -> None:
        """A log went from one directory to another."""
        self._counts = dict.fromkeys(self._paths, 0)

    def place(self, online: Sequence[LogDir], logs: Mapping[TopicPartition, Log], wanted: str) -> LogDir:
        """The ``wanted`` directory if it is among these, else the one that holds the fewest of the ``logs``."""
        counts = self._counts
        if sum(counts.values()) != len(logs):
            counts = self._counts = dict.fromkeys(self._paths, 0)
            for log in logs.values():
                counts[log.dir.path] += 1
        return min(online, key=lambda dir: (dir.path != wanted, counts[dir.path]))

    def created(self, dir: LogDir) -> None:
        """A log was created in it."""
        self._counts[dir.path] += 1
