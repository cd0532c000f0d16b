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
from moldau.ports.pools import QUORUM

logger = logging.getLogger("moldau.quorum")

NOTE = "committed-metadata"
"""Ours; Apache Kafka passes over it."""
NOTE_MS = 5000
"""How long it waits at least until what is committed is noted: once for all that is committed meanwhile."""


def note_path(folder: str) -> str:
    return f"{folder}/{NOTE}"


class Noted(NamedTuple):
    """Up to where the log was committed, and in which epoch."""

    offset: int
    epoch: int


def note_of(disk: Disk, folder: str, cluster_id: str, directory_id: bytes | None) -> Noted:
    """What the note says; 0 and 0 when there is none, it is damaged, or the directory was formatted since and has
    another id."""
    with suppress(OSError, ValueError):  # one guard less, and no reason not to start
        owner, offset, epoch = disk.read(note_path(folder)).decode().splitlines()
        if owner == _owner(cluster_id, directory_id) and int(offset) >= 0 and 0 <= int(epoch) <= EPOCH_MAX:
            return Noted(int(offset), int(epoch))
    return Noted(0, 0)


def _owner(cluster_id: str, directory_id: bytes | None) -> str:
    return f"{cluster_id} {uuid_text(directory_id or NO_UUID)}"


class CommittedNote:
    """The note of one replica: ``noted`` is what it says."""

    def __init__(self, world: World, folder: str, cluster_id: str, directory_id: bytes) -> None:
        self._world = world
        self._path = note_path(folder)
        self._owner = _owner(cluster_id, directory_id)
        self._read = partial(note_of, world.disk, folder, cluster_id, directory_id)
        self._timer: Handle | None = None
        self._writing = self._over = False
        self._committed = self.noted = Noted(0, 0)

    def read(self) -> None:
        """Read what an earlier life noted."""
        self.noted = self._read()

    def committed(self, offset: int, epoch: int) -> None:
        """Note it soon. What was noted once stays true, so that a lower offset changes nothing."""
        self._committed = Noted(offset, epoch)
        if offset > self.noted.offset and self._timer is None and not self._writing and not self._over:
            self._timer = self._world.tasks.call_later(NOTE_MS, self._due)

    def close(self) -> None:
        """Note the last."""
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
        if self._committed.offset > self.noted.offset and not self._writing:
            with suppress(OSError):
                self._write(*self._committed)

    def _due(self) -> None:
        self._timer, self._writing = None, True
        self._world.tasks.spawn(self._note(*self._committed), "note what is committed")

    async def _note(self, offset: int, epoch: int) -> None:
        try:
            await self._world.tasks.off_loop(lambda: self._write(offset, epoch), QUORUM)
            self.noted = Noted(offset, epoch)
        except OSError as error:
            logger.warning("it could not be noted that metadata is committed up to %d: %s", offset, error)
        finally:
            self._writing = False
        self.committed(*self._committed)  # committed meanwhile, and perhaps the last for long

    def _write(self, offset: int, epoch: int) -> None:
        self._world.disk.write_atomic(self._path, f"{self._owner}\n{offset}\n{epoch}\n".encode())
