"""Compaction's driver: looks for dirty logs, has one compacted at a time off the loop, at the speed that is allowed.

All of log.cleaner.* that counts is looked up for each run, so that a change needs no restart. What is dirty and what
stays of a log is ``moldau.storage.compaction``'s.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from threading import Event
from typing import Any

from moldau.ports import World, pools
from moldau.storage import DirOffline, LogDirs

KEY_BYTES = 150
"""What one key of the offset map takes: a digest, an offset, and their places in the table."""
NAP_S = 0.02


class Cleaning:
    """One broker's compaction. ``config`` has the keys of server.properties, as they are now."""

    def __init__(self, world: World, log_dirs: LogDirs, config: Any) -> None:
        self._world = world
        self._log_dirs = log_dirs
        self._config = config
        self._changed = asyncio.Event()
        self._stopped = Event()

    def start(self) -> None:
        if self._config["log.cleaner.enable"]:
            self._world.tasks.spawn(self._live(), "compaction")

    def reconfigure(self) -> None:
        """The pause between two looks may be another now."""
        self._changed.set()

    def stop(self) -> None:
        self._stopped.set()
        self._changed.set()

    async def _live(self) -> None:
        while not self._stopped.is_set():
            timer = self._world.tasks.call_later(self._config["log.cleaner.backoff.ms"], self._changed.set)
            await self._changed.wait()
            timer.cancel()
            self._changed.clear()
            await self.clean()

    async def clean(self) -> int:
        """Compact every log that is dirty enough, the dirtiest first; bytes saved."""
        wall_ms, saved = self._world.clock.wall_ms, 0
        done = set()
        while not self._stopped.is_set():
            due = self._log_dirs.compaction_due(wall_ms())
            if due is None or due[0].partition in done:
                break
            log, compaction = due
            done.add(log.partition)
            compaction.keys_max = self._keys_max()
            compaction.pace = self._pace()
            await self._world.tasks.off_loop(compaction.run, pools.cleaner(0))
            if self._stopped.is_set() or self._log_dirs.logs.get(log.partition) is not log:
                with suppress(OSError):  # deleted meanwhile, folder and all
                    compaction.discard()
                continue
            with suppress(DirOffline):
                saved += self._log_dirs.end_compaction(log, compaction, wall_ms())
        return saved

    def _keys_max(self) -> int:
        size: int = self._config["log.cleaner.dedupe.buffer.size"]
        return max(int(size * self._config["log.cleaner.io.buffer.load.factor"] / KEY_BYTES), 1)

    def _pace(self) -> Any:
        """What a run calls for each batch that it reads: sleeps, on its thread, as long as the batch may take."""
        owed_s = 0.0

        def pace(size: int) -> None:
            nonlocal owed_s
            owed_s += size / max(self._config["log.cleaner.io.max.bytes.per.second"], 1.0)
            if owed_s > NAP_S:
                self._stopped.wait(owed_s)
                owed_s = 0.0

        return pace
