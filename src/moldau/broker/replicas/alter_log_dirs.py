"""Replicas on their way from one log directory of this broker to another (KIP-113): copied, caught up, swapped.

What goes into one directory is copied in turn, a piece each; all together no faster than
replica.alter.log.dirs.io.max.bytes.per.second. A directory that hangs holds up what goes into it. What is alike is made
durable off the loop; what came meanwhile is copied and the two are swapped in one turn of the loop, so that no reader
or writer sees anything between. Nothing is kept but files: after a kill the next start goes on. What a
copy is and how folders are swapped: ``moldau.storage.future``. The controller hears of the new directory afterwards.
"""

from __future__ import annotations

import logging

from moldau.broker.loop import run_in_slices, sleep
from moldau.broker.replicas.host import ReplicaHost
from moldau.broker.replicas.replica import Replica
from moldau.broker.replicas.throttles import Quota
from moldau.model import Code, TopicPartition
from moldau.ports import Handle, pools
from moldau.replication.roles import Role
from moldau.storage import DirOffline, Log, LogError
from moldau.storage.future import Future
from moldau.storage.names import future_folder

log = logging.getLogger(__name__)

PIECE_BYTES = 512 * 1024
"""Copied in one turn of the loop: a few milliseconds at most."""
TAIL_BYTES = 4 * PIECE_BYTES
"""More than this appended during the last flush, and the copy has to catch up once more."""
FLUSHES_MAX = 5
"""So often a copy is flushed off the loop to have as much on the disk as its log, which goes on meanwhile (with
flush.messages=1, without end); what is missing then is flushed as the two are swapped."""
IDLE_MS = 50
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
NAME_MAX = 255


class AlterReplicaLogDirs:
    """What moves between this broker's directories. ``ask`` begins or calls off, ``wake`` goes on after a start."""

    def __init__(self, replicas: ReplicaHost) -> None:
        self._replicas = replicas
        self._logs = replicas.logs
        self._futures = replicas.logs.futures
        self._world = replicas.deps.world
        self._quota = Quota(self._world.clock)
        self._stopped = False
        self._copying: dict[str, Handle] = {}
        """The directories that something is copied into."""

    def alter(self, partition: TopicPartition, path: str) -> Code:
        """Have the partition's replica lie in directory ``path``; where it is not here yet, once it comes."""
        if len(future_folder(partition, "0" * 32)) > NAME_MAX:
            return Code.INVALID_TOPIC_EXCEPTION
        dir = next((dir for dir in self._logs.dirs if dir.path == (path.rstrip("/") or "/")), None)
        if dir is None:
            return Code.LOG_DIR_NOT_FOUND
        replica = self._replicas.find(partition.topic, partition.partition)
        if replica is Code.NOT_LEADER_OR_FOLLOWER and dir.offline is None:
            self._logs.preferred[partition] = dir.path
            return Code.REPLICA_NOT_AVAILABLE
        if isinstance(replica, Code):
            return replica
        if self._logs.offline or replica.machine.role is Role.OFFLINE:  # a copy begun before may be in the lost one
            return Code.KAFKA_STORAGE_ERROR
        try:
            return self._begin(partition, replica, dir.path)
        except LogError as error:
            log.error("%s cannot be moved to %s: %s", partition, dir.path, error)
            self._replicas.failed(error)
            return error.code

    def _begin(self, partition: TopicPartition, replica: Replica, path: str) -> Code:
        future = self._futures.logs.get(partition)
        if future is not None and future.log.dir.path != path:
            log.info("%s: moving to %s is called off", partition, future.log.dir.path)
            self._futures.drop(partition, self._world.clock.wall_ms())
            future = None
        if future is None and replica.log.dir.path != path:
            dir = next(dir for dir in self._logs.dirs if dir.path == path)
            self._futures.create(partition, dir, self._world.random.uuid().hex())
            log.info("%s: moving from %s to %s", partition, replica.log.dir.path, path)
            self.wake()
        return Code.NONE

    def wake(self) -> None:
        """There may be something to copy."""
        for path in {} if self._stopped else {one.log.dir.path: None for one in self._futures.logs.values()}:
            if path not in self._copying:
                self._copying[path] = self._world.tasks.spawn(self._copy_into(path), f"moves into {path}")

    def stop(self) -> None:
        self._stopped = True
        for copying in self._copying.values():
            copying.cancel()

    def _into(self, path: str) -> list[TopicPartition]:
        return [partition for partition, one in self._futures.logs.items() if one.log.dir.path == path]

    async def _copy_into(self, path: str) -> None:
        while (partitions := self._into(path)) and not self._stopped:
            copied = 0
            for partition in partitions:
                copied += await self._step(partition)
            await sleep(self._world.tasks, 0 if copied else IDLE_MS)
        del self._copying[path]

    async def _step(self, partition: TopicPartition) -> int:
        """One piece of one copy; bytes."""
        self._quota.set_rate(self._replicas.deps.config[RATE])
        while self._quota.wait_ms and not self._stopped:
            await sleep(self._world.tasks, self._quota.wait_ms)
            self._quota.set_rate(self._replicas.deps.config[RATE])
        future, replica = self._futures.logs.get(partition), self._replicas.by_partition.get(partition)
        if future is None or replica is None or self._stopped:
            return 0
        try:
            copied = self._copy(partition)
            if _alike(future, replica):
                await self._finish(partition, future, replica)
            await sleep(self._world.tasks, 0)
            return copied
        except LogError as error:
            self._failed(partition, replica, error)
            return 0
        except AssertionError:
            raise
        except Exception as error:  # of this copy, whatever it met: the log itself is as it was
            self._replicas.deps.on_unexpected_error(f"moving {partition}", error)
            self._drop(partition)
            return 0

    def _copy(self, partition: TopicPartition) -> int:
        copied = self._futures.copy(partition, PIECE_BYTES, self._world.clock.wall_ms())
        self._quota.spend(copied)
        return copied

    async def _finish(self, partition: TopicPartition, future: Future, replica: Replica) -> None:
        """The two are alike: make the copy durable, and swap them unless too much came meanwhile."""
        flush = future.log.begin_flush(whole=True)
        if flush is not None:
            await self._world.tasks.off_loop(flush.run, pools.log_directory(future.log.dir.path))
            if self._futures.logs.get(partition) is not future or self._stopped:
                flush.release()
                return
            future.log.end_flush(flush)
        for checkpoint in await run_in_slices(self._world.tasks, self._logs.checkpoints_in_slices(future.log.dir)):
            await self._world.tasks.off_loop(checkpoint.run, pools.log_directory(checkpoint.dir.path))
            self._logs.end_checkpoint(checkpoint)
        if self._futures.logs.get(partition) is not future or self._stopped:
            return
        tail = 0
        while copied := self._copy(partition):
            tail += copied
            if tail > TAIL_BYTES:
                return
        if future.log.awaits_cut or (self._futures.lags(partition) and future.flushes < FLUSHES_MAX):
            future.flushes += 1
            return
        if future.log.awaits_file or replica.log.awaits_file:
            return  # should the swap fail, the log that is given up goes on, with all that it has
        if replica.log.folder.lock.locked():
            return  # a flush of it is on its disk, and the swap would have the loop wait for that
        if _alike(future, replica):
            self._use(replica, self._futures.swap(partition, self._world.clock.wall_ms()))
            log.info("%s: is in %s now", partition, replica.log.dir.path)

    def _use(self, replica: Replica, now: Log) -> None:
        replica.log = now
        replica.machine.relocated(now)
        self._replicas.settled(replica)
        self._replicas.place(replica.key)

    def _failed(self, partition: TopicPartition, replica: Replica, error: LogError) -> None:
        log.error("%s cannot be moved: %s", partition, error)
        if isinstance(error, DirOffline):
            self._futures.forget(partition)
            now = self._logs.logs.get(partition)
            if now is not None and now is not replica.log:  # it failed in the middle of the swap
                self._use(replica, now)
            self._replicas.failed(error)
            return
        self._drop(partition)

    def _drop(self, partition: TopicPartition) -> None:
        try:
            self._futures.drop(partition, self._world.clock.wall_ms())
        except LogError as error:
            self._replicas.failed(error)


def _alike(future: Future, replica: Replica) -> bool:
    """Whether the copy, looked at in the turn in which something was copied, has all that there is."""
    return future.log.log_end_offset == replica.log.log_end_offset
