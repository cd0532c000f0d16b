"""A broker's log directories, as the work on them sees them; ``log_dirs.py`` is who has them, and makes that work."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Protocol

from moldau.model import TopicPartition
from moldau.ports import Disk
from moldau.storage.damage import Damaged
from moldau.storage.folder import LogDir
from moldau.storage.held import LogCounts
from moldau.storage.log import Log


class LogsOfDirectories(Protocol):
    """The logs in use, and the directories that they are in."""

    @property
    def logs(self) -> dict[TopicPartition, Log]: ...

    @property
    def dirs(self) -> list[LogDir]: ...


class CopiedDirectories(LogsOfDirectories, Protocol):
    """Directories between which logs move."""

    @property
    def disk(self) -> Disk: ...

    @property
    def online(self) -> list[LogDir]: ...

    @property
    def offline(self) -> list[LogDir]: ...

    @property
    def held(self) -> LogCounts: ...

    def give_up(self, log: Log, unique: str, now_ms: int, *, stray: bool = False, now: bool = False) -> None:
        """Rename the folder of a log that is in use no more."""


class Copies(Protocol):
    """The copies of logs that are under way (``future.py``)."""

    def drop(self, partition: TopicPartition, now_ms: int) -> None:
        """Call a copy off, if there is one."""

    def forget(self, partition: TopicPartition) -> None:
        """Copy no further; the folder stays."""

    def found(self, log: Log, name: str) -> None:
        """A start has loaded one, from a folder of this name."""


class LoadedDirectories(LogsOfDirectories, Protocol):
    """Directories that a start loads, and from which it sets aside what is nobody's."""

    @property
    def disk(self) -> Disk: ...

    @property
    def futures(self) -> Copies: ...

    @property
    def strays(self) -> list[str]: ...

    @property
    def unusable(self) -> dict[TopicPartition, str]: ...

    @property
    def left_alone(self) -> set[TopicPartition]: ...

    @property
    def damaged(self) -> Damaged: ...

    def unique(self) -> str:
        """A part of a folder's name that no other has."""

    def make_dir(self, path: str) -> None:
        """Create a directory and what is missing above it, durably."""

    def know_offsets(self, path: str, data: bytes) -> None:
        """What a start read from a checkpoint file."""

    def take_in(self, log: Log, now_ms: int) -> list[str]:
        """A start loaded a log; what an operator should know of it."""

    def choose(self, partition: TopicPartition, topic_id: bytes | None, now_ms: int) -> None:
        """Use the log of this topic among those of one partition that a start found."""

    def delete_all(
        self, partitions: Iterable[TopicPartition], now_ms: int, *, strays: Container[TopicPartition] = ()
    ) -> None:
        """Take many logs away; ``strays`` are only set aside."""
