"""The note of what is committed, ``committed-metadata`` in the metadata directory: beside the folder of the log, so
that it is still there when that folder was removed (decision 53).

It says up to where the metadata log was once known to be committed, and in which epoch. An old note is a lower bound,
and guards less.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial

from moldau.broker.kraft.requests import EPOCH_MAX
from moldau.model import NO_UUID, uuid_text
from moldau.model.named import NamedTuple
from moldau.ports import Disk, Handle, World
from moldau.ports.pools import METADATA_NOTE

logger = logging.getLogger(__name__)

NOTE = "committed-metadata"
"""Ours; Apache Kafka passes over it."""
NOTE_MS = 5000
"""How long it waits at least until what is committed is noted: once for all that is committed meanwhile."""


def note_path(folder: str) -> str:
    return f"{folder}/{NOTE}"


class CommittedOffset(NamedTuple):
    """Up to where the log was committed, and in which epoch."""

    offset: int
    epoch: int


def note_of(disk: Disk, folder: str, cluster_id: str, directory_id: bytes | None) -> CommittedOffset:
    """What the note says; 0 and 0 when there is none, it is damaged, or the directory was formatted since and has
    another id."""
    with suppress(OSError, ValueError):  # one guard less, and no reason not to start
        owner, offset, epoch = disk.read(note_path(folder)).decode().splitlines()
        if owner == _owner(cluster_id, directory_id) and int(offset) >= 0 and 0 <= int(epoch) <= EPOCH_MAX:
            return CommittedOffset(int(offset), int(epoch))
    return CommittedOffset(0, 0)


def _owner(cluster_id: str, directory_id: bytes | None) -> str:
    return f"{cluster_id} {uuid_text(directory_id or NO_UUID)}"


class CommittedNote:
    """The note of one controller."""

    def __init__(self, world: World, folder: str, cluster_id: str, directory_id: bytes) -> None:
        self._world = world
        self._path = note_path(folder)
        self._owner = _owner(cluster_id, directory_id)
        self._read = partial(note_of, world.disk, folder, cluster_id, directory_id)
        self._timer: Handle | None = None
        self._writing = self._over = self._failed = False
        self._committed = self._noted = self._at_start = CommittedOffset(0, 0)

    def read(self) -> CommittedOffset:
        """What an earlier life noted."""
        self._noted = self._at_start = self._read()
        return self._noted

    def committed(self, offset: int, epoch: int, *, before: int) -> None:
        """Note it soon. What was noted once stays true, so that a lower offset changes nothing, unless what was
        committed ``before`` the start lies below what was read then: a sole voter lost its log and went on."""
        wait_ms = NOTE_MS
        if before < self._at_start.offset:
            self._noted, self._at_start, wait_ms = CommittedOffset(0, 0), CommittedOffset(before, epoch), 0
        self._committed = CommittedOffset(offset, epoch)
        self._note_in(wait_ms)

    def _note_in(self, wait_ms: int) -> None:
        if self._committed.offset > self._noted.offset and not (self._timer or self._writing or self._over):
            self._timer = self._world.tasks.call_later(wait_ms, self._due)

    def close(self) -> None:
        """Note the last."""
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
        if self._committed.offset > self._noted.offset and not self._writing:
            with suppress(OSError):
                self._write(*self._committed)

    def _due(self) -> None:
        self._timer, self._writing = None, True
        self._world.tasks.spawn(self._note(*self._committed), "note what is committed")

    async def _note(self, offset: int, epoch: int) -> None:
        try:
            await self._world.tasks.off_loop(lambda: self._write(offset, epoch), METADATA_NOTE)
            self._noted, self._failed = CommittedOffset(offset, epoch), False
        except OSError as error:
            if not self._failed:
                logger.warning("it could not be noted that metadata is committed up to %d: %s", offset, error)
            self._failed = True
        finally:
            self._writing = False
        self._note_in(NOTE_MS)  # committed meanwhile, and perhaps the last for long

    def _write(self, offset: int, epoch: int) -> None:
        self._world.disk.write_atomic(self._path, f"{self._owner}\n{offset}\n{epoch}\n".encode())
