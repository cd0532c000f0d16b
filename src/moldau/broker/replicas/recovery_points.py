"""Logs that were cut: their files are cut, and the recovery point checkpoint is written, off the loop.

A log that was cut takes nothing before its files are: nobody may write where something is still to be removed. Nor
before the checkpoint says no more of it than is left: a restart would trust bytes that replaced the ones it knew. That
file holds a line for every log of the directory and is synced twice, so that it is written once for all that wait. A
follower does not ask for what comes next meanwhile (``Log.awaits_cut``), and other partitions go on. Who leads by then
refuses what it is given (``lost.admit``). Read next: ``moldau.storage.cuts``.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from moldau.broker.loop import run_in_slices, sleep
from moldau.broker.replicas.host import ReplicaHost
from moldau.broker.replicas.lost import append_failed
from moldau.ports import pools
from moldau.storage.truncation import Cutting, drop_done

if TYPE_CHECKING:
    from moldau.storage import Log
    from moldau.storage.folder import LogDir

RETRY_MS = 1_000
"""Before what failed without ending its directory (no free file descriptor, say) is tried again."""


class RecoveryPoints:
    """The recovery points of one broker's logs."""

    def __init__(self, replicas: ReplicaHost) -> None:
        self._replicas = replicas
        self._logs = replicas.logs
        self._tasks = replicas.deps.world.tasks
        self._waiting: dict[LogDir, dict[Log, None]] = {}
        self._stopped = False
        self._idle = asyncio.Event()
        self._idle.set()
        for dir in self._logs.dirs:
            dir.on_checkpoint_wanted = self.want

    def __len__(self) -> int:
        """In how many directories logs wait."""
        return len(self._waiting)

    def want(self, log: Log) -> None:
        """The log was cut."""
        if self._stopped:
            return
        waiting = self._waiting.get(log.dir)
        if waiting is None:
            waiting = self._waiting[log.dir] = {}
            self._idle.clear()
            self._tasks.spawn(self._write(log.dir, waiting), f"recovery points of {log.dir.path}")
        waiting[log] = None

    def stop(self) -> None:
        """Begin no other: whoever closes the logs writes them."""
        self._stopped = True

    async def ended(self) -> None:
        """Wait until none is under way."""
        await self._idle.wait()

    async def _write(self, dir: LogDir, waiting: dict[Log, None]) -> None:
        try:
            while waiting and dir.offline is None and not self._stopped:
                failed = [log for log in list(waiting) if log.cuts and not await self._cut(log)]
                if any(log.restart_point > log.recovery_point for log in waiting):
                    checkpoint = await run_in_slices(self._tasks, self._logs.recovery_points_in_slices(dir))
                    await self._tasks.off_loop(checkpoint.run, pools.flushes(dir.path))
                    self._logs.end_checkpoint(checkpoint)
                for log in [log for log in waiting if not (log.awaits_cut and self._logs.uses(log))]:
                    del waiting[log]
                    self._go_on(log)
                if failed and waiting and dir.offline is None:
                    await sleep(self._tasks, RETRY_MS)
        finally:
            del self._waiting[dir]
            if not self._waiting:
                self._idle.set()

    async def _cut(self, log: Log) -> bool:
        """Cut the files of a log; False when that failed, and the log's replica has been told."""
        cutting = Cutting(log)
        await self._tasks.off_loop(cutting.run, pools.flushes(log.dir.path))
        drop_done(log)
        if cutting.error is None or not self._logs.uses(log):
            return True
        error = log.dir.judge(cutting.error)
        replica = self._replicas.by_partition.get(log.partition)
        if replica is not None and replica.log is log:
            append_failed(self._replicas, replica, error)
        else:
            self._replicas.failed(error)
        return False

    def _go_on(self, log: Log) -> None:
        """Have the log's replica fetch on."""
        replica = self._replicas.by_partition.get(log.partition)
        if replica is not None and replica.log is log and not self._stopped:
            self._replicas.flushed(replica)
