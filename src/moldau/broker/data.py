"""A broker's log directories, replicas and group coordinator, and the tasks that run again and again over them.

Starts and stops them in order and runs the periodic passes (flush, checkpoint, retention, deletion, compaction), what
waits for a disk off the loop and for each directory by itself. Watches that no disk call is overdue: a directory that
hangs is offline, and a node all of whose disks hang sends no heartbeats.
Decides nothing about any record: ``storage`` and ``replicas/manager.py`` do.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from moldau.broker.config.dynamic import DynamicConfig
from moldau.broker.config.storage_format import METADATA_FOLDER, FormatRefused
from moldau.broker.host import Host, WithClusterId
from moldau.broker.leading_groups import BeginsLeading
from moldau.broker.loop import run_in_slices, sleep
from moldau.broker.network.descriptors import open_files_most
from moldau.broker.node_parts import WithControllerChannel
from moldau.broker.replicas.cleaner import LogCleaner
from moldau.broker.replicas.deps import HeldBytes, ReplicaManagerDeps
from moldau.broker.replicas.disk_probes import DiskProbes
from moldau.broker.replicas.lost import flush_failed
from moldau.broker.replicas.manager import ReplicaManager
from moldau.client.connection import ConnectionOptions, connect
from moldau.model.protocol import Protocol
from moldau.ports import pools
from moldau.ports.buggify import LATE_CHECKPOINT, LATE_FLUSH
from moldau.runtime.repeated import UNLIMITED
from moldau.storage import index_saves
from moldau.storage.errors import BrokerWithoutDisk, DirOffline, LogError
from moldau.storage.flush import Flush
from moldau.storage.folder import LogDir
from moldau.storage.loading import DirLoad
from moldau.storage.log import Log
from moldau.storage.log_dirs import LogDirs
from moldau.storage.offset_files import Checkpoint

if TYPE_CHECKING:
    from moldau.broker.groups.coordinator import Coordinator

log = logging.getLogger(__name__)

OPEN_FILES = 1000
"""Files of logs that are open at a time, or a quarter of what the process may have open."""
PROBE_MS = 2_000
LOOK_MS = 1_000
"""Between two looks at the probes of the directories, of which the eleventh finds one that hangs."""
DELETION_MS = 1_000
FLUSH_MS = 1_000
LOADED_AT_ONCE = 16
"""Logs that a thread reads before the loop takes them in."""
RETAINED = 10
"""A step of the loop holds a tenth as many logs of retention: it opens three files of each."""
FATAL = frozenset({errno.EIO, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO, errno.ESTALE})
"""What the disk probe may meet that no waiting mends; a full disk, or too many open files, is not among it."""


async def together(work: Iterable[Awaitable[None]]) -> None:
    """Wait for all of the work, which goes on side by side: one directory's disk never waits for another's."""
    await asyncio.gather(*work)


class DirectoryNews(Protocol):
    """Who tells the controller that a log directory failed."""

    @property
    def epoch(self) -> int: ...

    def directory_failed(self) -> None: ...


class BrokerNode(Host, WithControllerChannel, WithClusterId, Protocol):
    """The broker around its data."""

    @property
    def connection_options(self) -> ConnectionOptions: ...

    @property
    def dynamic(self) -> DynamicConfig: ...

    @property
    def lifecycle(self) -> DirectoryNews | None: ...

    @property
    def request_memory(self) -> HeldBytes: ...

    def failed(self, task: str, error: BaseException) -> None: ...

    def survived(self, where: str, error: BaseException) -> None: ...

    def leader_refused(self, broker_id: int) -> None: ...

    def leader_broke(self, broker_id: int) -> None: ...


class DataSide:
    """Logs, replicas and coordinators of one broker."""

    def __init__(self, node: BrokerNode) -> None:
        self._node = node
        self._world = node.world
        self.log_dirs = LogDirs(
            node.world.disk, node.config.log_dirs, random=node.world.random, open_files=open_files_most(OPEN_FILES)
        )
        self.replicas: ReplicaManager
        self._coordinator: Coordinator | None = None
        self._begins_leading = BeginsLeading(node.world.tasks, lambda: self.coordinator)
        self.loaded = False
        """Whether every log was loaded: replicas and coordinator are there."""
        self.cleaning = LogCleaner(node.world, self.log_dirs, node.config)
        self._probes = DiskProbes()
        self._stopped = False
        self._load_ended: asyncio.Event | None = None
        """Set when the load that was begun has ended, well or not; None before one is begun."""
        self._reading_producers = False
        self._busy: set[tuple[str, LogDir]] = set()
        """Passes that wait for the disk of a directory."""
        self._passing = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def claim(self) -> None:
        """Make the directories this process's own, before anything in them is touched; FormatRefused says why not."""
        node = self._node
        try:
            self.log_dirs.claim(node.cluster_id, node.config.node_id, 0 if node.config.on_zookeeper else 1)
        except ValueError as error:
            raise FormatRefused(str(error)) from error
        if node.config.on_zookeeper:
            self._leave_quorum(f"{node.config.metadata_dir}/{METADATA_FOLDER}")

    async def load(self) -> None:
        """Load every log on worker threads: the quorum goes on meanwhile, and health pages tell that the node lives.
        LogError says why not."""
        self._load_ended = asyncio.Event()
        try:
            await self._load()
        finally:
            self._load_ended.set()

    async def _load(self) -> None:
        node = self._node
        deps = ReplicaManagerDeps(
            me=node.config.node_id,
            world=node.world,
            config=node.config,
            logs=self.log_dirs,
            send_to_controller=node.controller_channel.send,
            connect=lambda host, port: connect(node.world, host, port, node.connection_options),
            broker_epoch=self._broker_epoch,
            on_leader_refused=node.leader_refused,
            on_unexpected_error=node.survived,
            on_leader_lost=node.leader_broke,
            requests=node.request_memory,
        )
        self.replicas = ReplicaManager(deps)
        self.replicas.on_lost = self._replica_lost
        self.log_dirs.damaged.on_found = self._log_damage
        for dir in self.log_dirs.dirs:
            dir.on_cut = self._producers_cut
        now_ms = self._world.clock.wall_ms()
        loads = self.log_dirs.begin_load(self.replicas.config_of, now_ms)
        await together(map(self._load_directory, loads))
        self.log_dirs.end_load(loads, now_ms)
        for dir in self.log_dirs.dirs:
            dir.on_offline = self._dir_failed
            if dir.offline is not None:  # before anybody listened
                self._dir_failed(dir)
        for finding in self.log_dirs.findings:
            log.warning("%s", finding, extra=UNLIMITED)
        node.metadata.subscribe(self.replicas.apply_in_slices)
        self.replicas.on_started_leading.append(self._begins_leading.begin)
        self.loaded = True

    @property
    def coordinator(self) -> Coordinator:
        """The group coordinator of this broker, once its logs are ``loaded``. It and ``moldau.groups`` are loaded when
        somebody asks for a group, or with the first partition of the offsets topic: a start does not wait for them."""
        if self._coordinator is None:
            from moldau.broker.groups.coordinator import Coordinator

            node = self._node
            self._coordinator = Coordinator(self._world, node.metadata, self.replicas, node.config)
            self.replicas.on_stopped_leading.append(self._coordinator.cease_leading)
            node.metadata.subscribe(self._coordinator.apply)
        return self._coordinator

    def _broker_epoch(self) -> int:
        lifecycle = self._node.lifecycle
        assert lifecycle is not None, "a broker has a life"
        return lifecycle.epoch

    async def _load_directory(self, loading: DirLoad) -> None:
        """Read the logs of one directory, on as many threads as num.recovery.threads.per.data.dir says."""
        threads = self._node.config["num.recovery.threads.per.data.dir"]
        pool = pools.recovery(loading.dir.path, threads)
        off_loop = self._world.tasks.off_loop

        async def read_some() -> None:
            while (batch := loading.next_batch(LOADED_AT_ONCE)) is not None:  # also when told to stop
                await off_loop(batch.run, pool)
                loading.end(batch)

        await off_loop(loading.begin, pool)
        await together(read_some() for _ in range(threads))

    @staticmethod
    def _log_damage(sentence: str) -> None:
        log.error("%s", sentence)

    def _producers_cut(self) -> None:
        """Logs were cut, and their producers' state has to be read again before somebody needs it."""
        if not self._reading_producers:
            self._reading_producers = True
            self._world.tasks.spawn(self._read_producers(), "producers' state")

    async def _read_producers(self) -> None:
        await run_in_slices(self._world.tasks, self.log_dirs.producers_in_slices())
        self._reading_producers = False

    def _leave_quorum(self, folder: str) -> None:
        """A metadata log here is that of a quorum which this broker went back from (KIP-866): should it ever follow one
        again, that may be another, whose log begins differently."""
        disk = self._world.disk
        if disk.exists(folder):
            log.info("%s is removed: this broker is on ZooKeeper, and follows no quorum", folder)
            disk.remove_tree(folder)
            disk.sync_dir(folder.rpartition("/")[0])

    def _dir_failed(self, dir: LogDir) -> None:
        """A directory is of no use any more. Without any, neither is the broker: whoever finds it gone leads on."""
        log.error("log directory %s is offline: %s", dir.path, dir.offline)
        config = self._node.config
        holds_metadata = not config.on_zookeeper and dir.path == _plain(config.metadata_dir)
        if not self.log_dirs.online or holds_metadata:
            why = "It holds the metadata log" if holds_metadata else "No other log directory is left"
            why += ", and this node stops: mend the disk, or give it space, and start the node again"
            self._node.failed("log directories", BrokerWithoutDisk(dir.path, dir.offline, why))
            return
        # Not at once: whoever ran into the failure is still in the middle of something.
        self._world.tasks.call_soon(lambda: self._directory_offline(dir))
        timeout_ms = self._node.config["log.dir.failure.timeout.ms"]
        self._world.tasks.call_later(timeout_ms, lambda: self._stop_unless_told(dir))

    def _directory_offline(self, dir: LogDir) -> None:
        """Its replicas lead and follow no more, and the controller hears of it."""
        self.replicas.failed(DirOffline(dir.path, dir.offline))
        if self._node.lifecycle is not None:
            self._node.lifecycle.directory_failed()

    def _replica_lost(self) -> None:
        if self._node.lifecycle is not None:
            self._node.lifecycle.directory_failed()

    def _stop_unless_told(self, dir: LogDir) -> None:
        """Stop the node where the controller has not been told by now that the directory failed: as long as it does not
        know, it lets this broker lead what it has lost (KIP-858)."""
        registered = self._node.metadata.image.brokers.get(self._node.config.node_id)
        if registered is not None and dir.id in registered.log_dirs and not self._stopped:
            why = "The controller could not be told in log.dir.failure.timeout.ms, and this node stops"
            self._node.failed("log directories", BrokerWithoutDisk(dir.path, dir.offline, why))

    def start(self) -> None:
        """Begin the passes."""
        config = self._node.config
        # A flush that was begun and not ended would never be begun again, while replicas rely on it.
        self._every("flush", FLUSH_MS, self._flush, restarts=False)
        self._every("checkpoint", config["replica.high.watermark.checkpoint.interval.ms"], self._checkpoint)
        self._every("retention", config["log.retention.check.interval.ms"], self._retain)
        self._every("deletion", DELETION_MS, self._delete)
        self.cleaning.start()
        for key in ("log.cleaner.backoff.ms", "log.cleaner.threads"):
            self._node.dynamic.react(key, self.cleaning.reconfigure)
        self._remember_producers()
        self._node.dynamic.react("producer.id.expiration.ms", self._remember_producers)
        self._every("look at disk probes", LOOK_MS, self._look_at_probes)
        for dir in self.log_dirs.online:
            dir.renames_later = True
            self._world.tasks.spawn(self._probe(dir), f"disk probe of {dir.path}")

    def _remember_producers(self) -> None:
        self.log_dirs.producer_expiration_ms = self._node.config["producer.id.expiration.ms"]

    def _every(self, name: str, period_ms: int, act: Callable[[], object], *, restarts: bool = True) -> None:
        """Run a pass again and again. One that keeps nothing from one run to the next ``restarts`` after an error that
        nobody expected; our own broken assertion stops the node all the same."""

        async def once() -> None:
            with self._passes():
                result = act()
                if hasattr(result, "__await__"):
                    await result

        async def again() -> None:
            while not self._stopped:
                await sleep(self._world.tasks, period_ms)
                if self._stopped:
                    return
                try:
                    await once()
                except AssertionError:
                    raise
                except Exception as error:
                    if not restarts:
                        raise
                    self._node.survived(name, error)

        self._world.tasks.spawn(again(), name)

    @contextmanager
    def _passes(self) -> Iterator[None]:
        """A pass is under way: a stop waits for its end before it closes what the pass works on."""
        self._begin_pass()
        try:
            yield
        finally:
            self._end_pass()

    def _begin_pass(self) -> None:
        self._passing += 1
        self._idle.clear()

    def _end_pass(self) -> None:
        self._passing -= 1
        if not self._passing:
            self._idle.set()

    def _per_directory(self, name: str, work: Callable[[LogDir], Awaitable[None]], *, restarts: bool = True) -> None:
        """Run the part of a pass that waits for disks, for all directories side by side: one that hangs holds up no
        other. A directory in which the last run of the pass has not ended is left out."""

        async def once(dir: LogDir) -> None:
            try:
                await work(dir)
            except AssertionError:
                raise
            except Exception as error:  # as in ``_every``
                if not restarts:
                    raise
                self._node.survived(name, error)
            finally:
                self._busy.discard((name, dir))
                self._end_pass()

        for dir in self.log_dirs.online:
            if (name, dir) not in self._busy and not self._stopped:
                self._busy.add((name, dir))
                self._begin_pass()
                self._world.tasks.spawn(once(dir), name)

    async def _retain(self) -> None:
        at_once = max(self._world.step // RETAINED, 1)
        now_ms = self._world.clock.wall_ms()
        await run_in_slices(self._world.tasks, self.log_dirs.retention_in_slices(now_ms, at_once))
        await run_in_slices(self._world.tasks, self.replicas.fetchers.starts_moved_in_slices())

        async def remove(dir: LogDir) -> None:
            for checkpoint in await run_in_slices(self._world.tasks, self.log_dirs.passed_in_slices(dir)):
                await self._write_checkpoint(checkpoint)
            await run_in_slices(self._world.tasks, self.log_dirs.removal_in_slices(now_ms, at_once, dir))
            some, dir.taken = dir.taken, []
            for taken in some:
                await self._world.tasks.off_loop(taken.run, pools.removals(dir.path))
                if not taken.end() and self.log_dirs.uses(taken.log):
                    dir.taken.append(taken)
                    with self.log_dirs.damaged.guard(taken.log, "the removal of segments"), dir.offline_on_error:
                        raise taken.error

        self._per_directory("retention", remove)

    def _flush(self) -> None:
        if (buggify := self._world.buggify) is not None and buggify(LATE_FLUSH):
            return
        self._per_directory("flush", self._flush_directory, restarts=False)

    async def _flush_directory(self, dir: LogDir) -> None:
        for saves in index_saves.due([dir]):
            await self._world.tasks.off_loop(saves.run, pools.log_directory(dir.path))
            saves.end()
        while not self._stopped and (due := self.log_dirs.flushes_due(self._world.clock.wall_ms(), dir)):
            await self._run_flushes(dir.path, due)

    async def _run_flushes(self, path: str, flushes: list[tuple[Log, Flush]]) -> None:
        """Run the flushes of one directory, one after the other."""
        for partition_log, flush in flushes:
            await self._world.tasks.off_loop(flush.run, pools.log_directory(path))
            try:
                trouble = self.log_dirs.end_flush(partition_log, flush)
                if trouble is not None:
                    flush_failed(self.replicas, partition_log, trouble)
            except LogError as error:  # its directory is offline now; the flushes of others are ended all the same
                self.replicas.failed(error)

    def _checkpoint(self) -> None:
        if (buggify := self._world.buggify) is not None and buggify(LATE_CHECKPOINT):
            return

        async def write(dir: LogDir) -> None:
            for checkpoint in await run_in_slices(self._world.tasks, self.log_dirs.checkpoints_in_slices(dir)):
                await self._write_checkpoint(checkpoint)

        self._per_directory("checkpoint", write)

    async def _write_checkpoint(self, checkpoint: Checkpoint) -> None:
        await self._world.tasks.off_loop(checkpoint.run, pools.log_directory(checkpoint.dir.path))
        self.log_dirs.end_checkpoint(checkpoint)

    def _delete(self) -> None:
        self._per_directory("deletion", self._delete_in)

    async def _delete_in(self, dir: LogDir) -> None:
        """Make the folders that went go for good, and remove those whose time has come."""
        for sync in self.log_dirs.name_syncs_due(dir):
            await self._world.tasks.off_loop(sync.run, pools.log_directory(dir.path))
            sync.finish()
        for deletion in self.log_dirs.deletions_due(self._world.clock.wall_ms(), dir):
            if self._stopped:  # what is left tells by its name what it is, also at the next start
                return
            await self._world.tasks.off_loop(deletion.run, pools.removals(dir.path))
            self.log_dirs.end_deletion(deletion)

    async def _probe(self, dir: LogDir) -> None:
        """Write a byte now and then, off the loop; how long that takes tells whether the disk answers."""
        while not self._stopped and dir.offline is None:
            self._probes.sent(dir)
            error = await self._world.tasks.off_loop(partial(self._touch, dir), pools.probe(dir.path))
            if error is not None and error.errno in FATAL and dir.offline is None:
                dir.fail(error)
            self._probes.answered(dir)
            await sleep(self._world.tasks, PROBE_MS)

    def _look_at_probes(self) -> None:
        """A directory that hangs while others answer has failed, and stays so until a restart: its leaders move, and
        this broker goes on (KIP-112). That of the metadata log is the node's end when it fails; while it hangs the node
        is silent, and its leaders move as well."""
        config = self._node.config
        for dir in self._probes.hung(self.log_dirs.online):
            if dir.offline is None and (config.on_zookeeper or dir.path != _plain(config.metadata_dir)):
                dir.fail(OSError(errno.ETIMEDOUT, "it does not answer", dir.path))

    @staticmethod
    def _touch(dir: LogDir) -> OSError | None:
        try:
            dir.touch()
        except OSError as error:
            return error
        return None

    def healthy(self) -> bool:
        """Whether no probe is overdue and a directory is left."""
        online = self.log_dirs.online
        return bool(online) and not self._probes.silent(online)

    def directories(self) -> dict[bytes, str]:
        """Id and path of each log directory that is online."""
        return {dir.id: dir.path for dir in self.log_dirs.online}

    def offline_ids(self) -> list[bytes]:
        return [dir.id for dir in self.log_dirs.offline if dir.id != bytes(16)]

    async def refuse(self) -> None:
        """Serve nobody any more: from now on nothing is acknowledged here, and who waits is told to ask another broker.

        Returns when no pass works on a log.
        """
        self._stopped = True
        if self._load_ended is not None:
            await self._load_ended.wait()
        if not self.loaded:
            return
        self.cleaning.stop()
        self._begins_leading.stop()
        if self._coordinator is not None:
            self._coordinator.stop()
        self.replicas.stop()
        await self.replicas.flushes.ended()
        await self.replicas.recovery_points.ended()
        await self.replicas.folders.ended()
        await self._idle.wait()

    async def close(self, broker_epoch: int) -> None:
        """Flush what was acknowledged, and write the clean-shutdown marker last; called after ``refuse``."""
        if self.loaded:
            await self._world.tasks.off_loop(lambda: self.log_dirs.close(broker_epoch), pools.STOPPING)


def _plain(path: str) -> str:
    """A path as log directories have theirs: without a slash at its end."""
    return path.rstrip("/") or "/"
