"""Logs of one partition that a start finds in several directories: one is used, the others are set aside.

Of one topic the log that goes further is used. Of different topics of one name, as they are left where a directory was
away while the one topic was deleted and the next one made, the metadata tells which is meant: until it does, all of
them are kept, and the one that goes further is in use.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from contextlib import suppress

from moldau.model import TopicPartition
from moldau.model.protocol import Protocol
from moldau.storage.errors import LogError
from moldau.storage.log import Log


class DirsWithDuplicates(Protocol):
    """The directories that a start loads."""

    @property
    def logs(self) -> MutableMapping[TopicPartition, Log]: ...

    def unique(self) -> str:
        """A part of a folder's name that no other has."""

    def give_up(self, log: Log, unique: str, now_ms: int, *, stray: bool = False, now: bool = False) -> None:
        """Have the folder of a log renamed that is in use no more."""


class Duplicates:
    """Logs that are loaded, of a partition of which another log is in use, and of another topic than that is."""

    def __init__(self) -> None:
        self._logs: dict[TopicPartition, list[Log]] = {}

    def take_in(self, dirs: DirsWithDuplicates, log: Log, now_ms: int) -> list[str]:
        """A start loaded a log; what an operator should know of it."""
        other = dirs.logs.get(log.partition)
        dirs.logs[log.partition] = log
        if other is None:
            return []
        less, more = sorted((other, log), key=_reach)
        dirs.logs[log.partition] = more
        where = f"{log.partition} is in {less.dir.path} and in {more.dir.path}"
        if None not in (less.topic_id, more.topic_id) and less.topic_id != more.topic_id:
            self._logs.setdefault(log.partition, []).append(less)
            return [f"{where}, of two topics of that name; the metadata tells which is used"]
        self._set_aside(dirs, less, now_ms)
        return [
            f"{where}; the one that ends at offset {less.log_end_offset} is set aside, the one that ends at"
            f" {more.log_end_offset} is used"
        ]

    def choose(self, dirs: DirsWithDuplicates, partition: TopicPartition, topic_id: bytes | None, now_ms: int) -> None:
        """Use the log of this topic, if there is one, and set the others aside."""
        others = self._logs.pop(partition, [])
        if not others:
            return
        found = [dirs.logs[partition], *others]
        meant = [one for one in found if one.topic_id == topic_id] or found[:1]
        dirs.logs[partition] = max(meant, key=_reach)
        for log in found:
            if log is not dirs.logs[partition]:
                self._set_aside(dirs, log, now_ms)

    def _set_aside(self, dirs: DirsWithDuplicates, log: Log, now_ms: int) -> None:
        with suppress(LogError):
            dirs.give_up(log, dirs.unique(), now_ms, stray=True, now=True)
            log.dir.sync_names()


def _reach(log: Log) -> tuple[int, int]:
    """Which of two logs of one topic goes further: the later leader's, then the longer."""
    return log.epochs.latest, log.log_end_offset
