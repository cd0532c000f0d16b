"""Recovery points that were cut: written to the checkpoint file off the loop, once for all logs that wait for it.

A log that was cut below the recovery point on file takes nothing before the file says so: a restart would trust bytes
that replaced the ones it knew. The file holds a line for every log of the directory and is synced twice. So a follower
does not ask for what comes next meanwhile (``Log.awaits_checkpoint``), and other partitions go on. Who appends all the
same, because it leads now, has the file written in the append. Read next: ``moldau.storage.offset_files``.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from moldau.broker.loop import run_in_slices
from moldau.broker.replicas.host import ReplicaHost
from moldau.ports import pools

if TYPE_CHECKING:
    from moldau.storage import Log
    from moldau.storage.folder import LogDir


class RecoveryPoints:
    """Those of one broker."""

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
        """The log was cut below what the file says of it."""
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
                checkpoint = await run_in_slices(self._tasks, self._logs.recovery_points_in_turns(dir))
                await self._tasks.off_loop(checkpoint.run, pools.flushes(dir.path))
                self._logs.end_checkpoint(checkpoint)
                for log in [log for log in waiting if not (log.awaits_checkpoint and self._logs.uses(log))]:
                    del waiting[log]
                    self._go_on(log)
        finally:
            del self._waiting[dir]
            if not self._waiting:
                self._idle.set()

    def _go_on(self, log: Log) -> None:
        """Have the log's replica fetch on."""
        replica = self._replicas.by_partition.get(log.partition)
        if replica is not None and replica.log is log and not self._stopped:
            self._replicas.flushed(replica)
