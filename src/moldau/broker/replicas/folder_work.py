"""Folders of new partitions, and of partitions that go: made and renamed by a worker of their directory, in order.

A new partition has its role at once, and its log takes nothing before its folder is there: a client's batches wait a
second for it (``examinations.py``), then who leads it answers NOT_LEADER_OR_FOLLOWER, as a broker that has not heard of
it yet; a follower does not fetch. A disk that hangs holds up the new partitions of its directory, and neither other
directories nor the metadata. Read next:
``moldau.storage.folder_changes``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from moldau.broker.loop import sleep, yield_to_loop
from moldau.broker.replicas.host import ReplicaHost
from moldau.broker.replicas.lost import not_made
from moldau.ports import pools
from moldau.storage.removal import leaving

if TYPE_CHECKING:
    from moldau.model import TopicPartition
    from moldau.storage.folder import LogDir
    from moldau.storage.making import Making

log = logging.getLogger(__name__)

RETRY_MS = 1_000
"""Before what failed for want of a file descriptor is tried again."""
RENAME_WAIT_MS = 2_000
"""So long somebody who had logs deleted waits for the renames of their folders, if it asks again."""
LAST_WORD_MS = 15_000
"""So long, if it does not: a directory that hangs while others answer has failed by then (``disk_probes.py``), and a
controller still waits for its answer."""
LOOKED_AT = 500
"""So many logs are looked at in one step."""
LOOK_MS = 10


class FolderWork:
    """The work on partitions' folders of one broker."""

    def __init__(self, replicas: ReplicaHost) -> None:
        self._replicas = replicas
        self._logs = replicas.logs
        self._tasks = replicas.deps.world.tasks
        self._busy: set[LogDir] = set()
        self._stopped = False
        self._idle = asyncio.Event()
        self._idle.set()
        for dir in self._logs.dirs:
            dir.on_changes = self.want

    def __len__(self) -> int:
        """In how many directories something is done."""
        return len(self._busy)

    def want(self, dir: LogDir) -> None:
        """Something is to be done in the directory."""
        if dir not in self._busy:
            self._busy.add(dir)
            self._idle.clear()
            self._tasks.spawn(self._run(dir), f"folders of {dir.path}")

    def stop(self) -> None:
        """What waits is still done, but for what cannot be done now."""
        self._stopped = True

    async def ended(self) -> None:
        """Wait until nothing is under way."""
        await self._idle.wait()

    async def given_up(
        self, partitions: Sequence[TopicPartition], wait_ms: int = RENAME_WAIT_MS
    ) -> list[TopicPartition]:
        """Wait until the folders of logs that went have other names; those that have not yet, when their disk takes
        longer than that: what waits behind must not stand still with it."""
        clock = self._replicas.deps.world.clock
        until_ms = clock.monotonic_ms() + wait_ms
        late = []
        for at, one in enumerate(partitions, 1):
            while leaving(self._logs, one):
                if self._stopped or clock.monotonic_ms() >= until_ms:
                    late.append(one)
                    break
                await sleep(self._tasks, LOOK_MS)
            if not at % LOOKED_AT:
                await yield_to_loop(self._tasks)
        return late

    async def _run(self, dir: LogDir) -> None:
        try:
            while dir.changes and dir.offline is None:
                passing = await self._tasks.off_loop(dir.changes.run_some, pools.folders(dir.path))
                for making in self._logs.end_changes(dir):
                    self.made(making)
                if passing is not None:
                    log.warning("folders of %s have to wait: %s", dir.path, passing)
                    if self._stopped:
                        return
                    await sleep(self._tasks, RETRY_MS)
        finally:
            self._busy.discard(dir)
            if not self._busy:
                self._idle.set()

    def made(self, making: Making) -> None:
        """The folder of a new log is there, or cannot be had."""
        replica = self._replicas.by_partition.get(making.log.partition)
        if replica is None or replica.log is not making.log:
            return
        self._replicas.examinations.release(replica)
        if making.refused is not None:
            not_made(self._replicas, replica, making.refused)
        elif not self._stopped:
            self._replicas.flushed(replica)
            if self._replicas.unreachable.pop(replica.key, None) is not None:  # it is there after all
                self._replicas.place(replica.key)
                self._replicas.on_lost()
