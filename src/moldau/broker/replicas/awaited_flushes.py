"""Flushes that somebody waits for: what ``flush.messages`` wants durable, synced off the loop, one log at a time.
And the files of new segments, made off the loop in the same way: a log that has rolled keeps its records in memory
until then (``moldau.storage.opening``).

A record that waits is neither acknowledged nor counted into the high watermark by its leader, and a follower does not
ask for what comes after it (``Log.settled_end``): whoever hears of it as kept finds it on the disk. Other partitions go
on meanwhile. Decides nothing else; what came during a flush is taken by the next one.
"""

from __future__ import annotations

import asyncio
from errno import ENOSPC
from typing import TYPE_CHECKING

from moldau.broker.loop import sleep
from moldau.broker.replicas.host import ReplicaHost
from moldau.broker.replicas.lost import append_failed
from moldau.ports import pools
from moldau.replication.roles import Role
from moldau.storage.errors import DiskFull, LogError

if TYPE_CHECKING:
    from moldau.broker.replicas.replica import Replica
    from moldau.storage import Log

RETRY_MS = 1_000
"""Before what failed without ending its directory (no free file descriptor, say) is tried again."""


class AwaitedFlushes:
    """The flushes of one broker for which a response waits."""

    def __init__(self, replicas: ReplicaHost) -> None:
        self._replicas = replicas
        self._logs = replicas.logs
        self._tasks, self._clock = replicas.deps.world.tasks, replicas.deps.world.clock
        self._under_way: dict[Log, None] = {}
        self._stopped = False
        self._idle = asyncio.Event()
        self._idle.set()
        for dir in self._logs.dirs:
            dir.on_flush_wanted = dir.on_file_wanted = self.want

    def __len__(self) -> int:
        """How many logs are being flushed, or have a file made."""
        return len(self._under_way)

    def want(self, log: Log) -> None:
        """The log has records that wait: flush it, or make their file, unless that is being done."""
        if log not in self._under_way and not self._stopped:
            self._under_way[log] = None
            self._idle.clear()
            self._tasks.spawn(self._flush(log), f"flush {log.partition}")

    def stop(self) -> None:
        """Begin no other. Whoever closes the logs flushes what is left."""
        self._stopped = True

    async def ended(self) -> None:
        """Wait until none is under way."""
        await self._idle.wait()

    async def _flush(self, log: Log) -> None:
        try:
            while self._waits(log) and not self._stopped:
                try:
                    if (opening := log.opening) is not None:
                        await self._tasks.off_loop(opening.run, pools.segments(log.dir.path))
                        opening.end()
                        if log.opening is opening:
                            continue
                    else:
                        flush = log.begin_flush()
                        assert flush is not None, f"{log.partition} waits for a flush of nothing"
                        await self._tasks.off_loop(flush.run, pools.flushes(log.dir.path))
                        self._logs.end_flush_of(log, flush)
                except LogError as error:
                    self._failed(log, error)
                    if log.dir.offline is None and not self._stopped:
                        await sleep(self._tasks, RETRY_MS)
                else:
                    replica = self._replica_of(log)
                    if replica is not None and not self._stopped:
                        self.settled(replica)
        finally:
            del self._under_way[log]
            if not self._under_way:
                self._idle.set()

    def _waits(self, log: Log) -> bool:
        return (log.awaits_flush or log.awaits_file) and log.dir.offline is None and self._logs.uses(log)

    def _replica_of(self, log: Log) -> Replica | None:
        """Who uses the log; nobody uses a copy that is to be one."""
        replica = self._replicas.by_partition.get(log.partition)
        return replica if replica is not None and replica.log is log else None

    def settled(self, replica: Replica) -> None:
        """A replica may answer for more of its log: as a leader to clients, as a follower by fetching on."""
        effects = replica.machine.appended(self._clock.monotonic_ms(), flushed=True)
        if effects:
            self._replicas.act(replica, effects)
        replica.complete_produces()
        self._replicas.flushed(replica)

    def _failed(self, log: Log, error: LogError) -> None:
        replica = self._replica_of(log)
        if replica is None:
            self._replicas.failed(error)
            return
        if isinstance(error, DiskFull) and replica.machine.role is not Role.FOLLOWER:
            error = log.dir.fail(OSError(ENOSPC, str(error)))  # as when a leader's append fails for it
        append_failed(self._replicas, replica, error)
        replica.refuse_unflushed(error.code)
