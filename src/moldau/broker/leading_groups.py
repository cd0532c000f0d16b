"""The group coordinator hears that this broker leads a partition of the offsets topic; it is loaded with the first.

Where it cannot be loaded, as its modules are files and no descriptor is free, leading goes on, and loading it is tried
again for as long as this broker leads that partition. Decides nothing about groups. Read next: ``groups/``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from moldau.broker.controller.topic_creation import OFFSETS
from moldau.broker.replicas.replica import Replica
from moldau.model.protocol import Protocol
from moldau.ports import Tasks
from moldau.replication.roles import Role

log = logging.getLogger(__name__)

AGAIN_MS = 1_000


class LeadsGroups(Protocol):
    """A coordinator, as this file needs it."""

    def begin_leading(self, replica: Replica, epoch: int) -> None: ...


class BeginsLeading:
    """Tells the coordinator, which ``load`` returns, of partitions that this broker begins to lead."""

    def __init__(self, tasks: Tasks, load: Callable[[], LeadsGroups]) -> None:
        self._tasks, self._load = tasks, load
        self._stopped = False

    def begin(self, replica: Replica, epoch: int) -> None:
        """This broker leads a partition under that epoch: the coordinator is told if it is one of the offsets topic."""
        if replica.partition.topic != OFFSETS:
            return
        try:
            coordinator = self._load()
        except (OSError, ImportError, MemoryError) as error:
            # Whoever made this broker lead is in the middle of a change of the metadata, and must not end by this.
            log.error("the group coordinator cannot be loaded for %s (yet): %r", replica.partition, error)
            self._tasks.call_later(AGAIN_MS, lambda: self._again(replica, epoch))
            return
        coordinator.begin_leading(replica, epoch)

    def _again(self, replica: Replica, epoch: int) -> None:
        machine = replica.machine
        if machine.role is Role.LEADER and machine.leader_epoch == epoch and not self._stopped:
            self.begin(replica, epoch)

    def stop(self) -> None:
        """This broker goes: nothing is tried again."""
        self._stopped = True
