"""Reads of bytes that are on the disk only: brought into the page cache beside the loop, then the reader looks again.

Each reader has one such read under way at a time, and each log directory a few threads, so that a consumer that lags
far behind on a slow disk waits for that disk, and nobody else does. Asked by ``replicas/fetch/reader.py``.
"""

from __future__ import annotations

from collections.abc import Callable

from moldau.ports import Tasks, pools
from moldau.storage.uncached import Load


class ColdReads:
    """One broker's."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self.under_way = 0

    def begin(self, load: Load, done: Callable[[], object]) -> None:
        """Bring the bytes in; ``done`` is called on the loop then, whether that worked or not."""
        self.under_way += 1
        self._tasks.spawn(self._run(load, done), "cold read")

    async def _run(self, load: Load, done: Callable[[], object]) -> None:
        try:
            await self._tasks.off_loop(load.run, pools.reads(load.directory))
        finally:
            self.under_way -= 1
            load.release()
        done()
