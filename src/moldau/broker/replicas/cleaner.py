"""Compaction's driver: cleaner threads look for dirty logs and have them compacted, at the speed that is allowed.

As many at a time as log.cleaner.threads says, each on a thread of its own, and what is large in a process of its own:
work in Python would take the interpreter's lock from the loop again and again. All of log.cleaner.* is looked
up for each run, so that a change needs no restart. What is dirty, what stays of a log and what cannot be compacted is
``moldau.storage``'s to decide (``storage/compactions.py``).
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from threading import Event

from moldau.broker.loop import run_in_slices
from moldau.broker.replicas.deps import ReplicaSettings
from moldau.model import TopicPartition
from moldau.model.named import NamedTuple
from moldau.ports import World, pools
from moldau.ports.apart import ChildEnded
from moldau.storage import DirOffline, Log, LogDirs
from moldau.storage.compaction import Compaction, CompactionResult
from moldau.storage.pace import paced

log = logging.getLogger(__name__)

THREADS_MAX = 64
"""Any number may be set, while everything runs; more than this would do nothing but take memory."""
KEY_BYTES = 150
"""What one key of the offset map takes: a digest, an offset, and their places in the table."""
SMALL_BYTES = 1 << 18
"""Less is compacted on the cleaner's thread: it takes no longer than a process takes to start."""
SMALL_RECORDS, SMALL_PACKED = 1 << 15, 1 << 15
"""...and so is what holds no more records than that would, as they are: packed, these bytes unpack to 32 MB at most."""
PROCESS = "moldau.admin.cleaner"


class LastRun(NamedTuple):
    """Figures of the newest run of one cleaner thread."""

    bytes_read: int
    bytes_written: int
    map_use: float
    took_s: float


class LogCleaner:
    """One broker's compaction. ``config`` has the keys of server.properties, as they are now."""

    def __init__(self, world: World, log_dirs: LogDirs, config: ReplicaSettings) -> None:
        self._world = world
        self._compactions = log_dirs.compactions
        self._compactions.on_uncleanable = self._uncleanable
        self._config = config
        self._wakers: dict[int, asyncio.Event] = {}
        self._stopped = Event()
        self._last_runs: dict[int, LastRun] = {}
        self._looked_ms = world.clock.monotonic_ms()

    @property
    def runs(self) -> list[LastRun]:
        """The newest run of each cleaner thread that had one."""
        return list(self._last_runs.values())

    @property
    def since_check_ms(self) -> int:
        """How long ago a cleaner thread last looked for dirty logs."""
        return self._world.clock.monotonic_ms() - self._looked_ms

    def start(self) -> None:
        if self._config["log.cleaner.enable"]:
            for number in range(self._threads()):
                if number not in self._wakers:
                    self._wakers[number] = asyncio.Event()
                    self._world.tasks.spawn(self._live(number), f"cleaner {number}")

    def reconfigure(self) -> None:
        """The number of threads, or the pause between two looks, may be another now."""
        for waker in self._wakers.values():
            waker.set()
        if not self._stopped.is_set():
            self.start()

    def stop(self) -> None:
        self._stopped.set()
        self.reconfigure()

    @staticmethod
    def _uncleanable(partition_log: Log, reason: str) -> None:
        log.warning("%s cannot be compacted: %s", partition_log.partition, reason)

    def _is_over(self, number: int) -> bool:
        return self._stopped.is_set() or number >= self._threads()

    def _threads(self) -> int:
        threads: int = self._config["log.cleaner.threads"]
        return min(threads, THREADS_MAX)

    async def _live(self, number: int) -> None:
        waker = self._wakers[number]
        while not self._is_over(number):
            timer = self._world.tasks.call_later(self._config["log.cleaner.backoff.ms"], waker.set)
            await waker.wait()
            timer.cancel()
            waker.clear()
            await self.clean(number)
        del self._wakers[number]
        self._last_runs.pop(number, None)

    async def clean(self, number: int = 0) -> int:
        """Compact every log that is dirty enough, the dirtiest first, on the ``number``-th thread; bytes saved."""
        wall_ms, saved = self._world.clock.wall_ms, 0
        done: set[TopicPartition] = set()
        while not self._is_over(number):
            self._looked_ms = self._world.clock.monotonic_ms()
            found = await run_in_slices(self._world.tasks, self._compactions.dirtiest_in_slices(wall_ms(), done))
            if found is None:
                break
            before = found.cleaned_to
            compaction = self._compactions.begin(found, wall_ms())
            if compaction is not None:
                with suppress(DirOffline):  # whoever listens to ``on_offline`` knows
                    saved += await self._compact(found, compaction, number)
            if found.cleaned_to <= before:
                done.add(found.partition)
        return saved

    async def _compact(self, partition_log: Log, compaction: Compaction, number: int) -> int:
        """One run, and its result put in place; bytes saved."""
        config, began_ms = self._config, self._world.clock.monotonic_ms()
        threads = max(self._threads(), 1)
        compaction.order = compaction.order._replace(
            keys_max=self._keys_max(threads),
            write_bytes=config["log.cleaner.io.buffer.size"] // threads,
        )
        pool = pools.cleaner(number)
        await self._world.tasks.off_loop(partial(self._run, compaction), pool)
        assert compaction.outcome is not None
        outcome, took_ms = compaction.outcome, self._world.clock.monotonic_ms() - began_ms
        self._last_runs[number] = LastRun(
            outcome.bytes_read, outcome.bytes_written, outcome.keys / compaction.order.keys_max, took_ms / 1000
        )
        saved = 0
        steps = self._compactions.end(partition_log, compaction, self._world.clock.wall_ms())
        while not self._stopped.is_set():
            try:
                sync = next(steps)
            except StopIteration as end:
                saved = end.value
                break
            await self._world.tasks.off_loop(sync.run, pool)
        steps.close()
        return saved

    def _keys_max(self, threads: int) -> int:
        """Keys that the offset map of one of so many runs may hold."""
        size: int = self._config["log.cleaner.dedupe.buffer.size"]
        share: float = self._config["log.cleaner.io.buffer.load.factor"]  # of any size: it has no bounds in Kafka
        return max(int(size * min(max(share, 0.0), 1.0) / threads / KEY_BYTES), 1)

    def _rate(self) -> float:
        """Bytes per second that one of the runs that are under way may read."""
        most: float = self._config["log.cleaner.io.max.bytes.per.second"]
        return most / (len(self._compactions.running) or 1)

    def _run(self, compaction: Compaction) -> None:
        """One run, on a cleaner thread; a large one in a process of its own, which leaves the loop alone."""
        apart = self._world.apart
        if apart is None or compaction.is_quick(SMALL_BYTES, SMALL_RECORDS, SMALL_PACKED):
            compaction.run(paced(self._rate, self._stopped.wait))
            return
        import pickle  # only where a log is compacted in another process: 1.7 ms of a broker's start

        try:
            data = apart(PROCESS, pickle.dumps(compaction.order), self._rate, self._stopped.is_set)
            compaction.outcome = pickle.loads(data)
        except ChildEnded as error:
            compaction.sweep()
            # Who ran out of memory, or was killed by hand, says nothing about the log either: tried again after pauses.
            compaction.outcome = CompactionResult(reason=f"{compaction.order.folder}: {error}", may_be_mended=True)
        except OSError as error:  # no process to be had: too many of them, too little memory
            compaction.outcome = CompactionResult(reason=f"{PROCESS} could not be started: {error}", passing=True)
