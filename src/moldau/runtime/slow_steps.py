"""Names the step that held the event loop: a thread watches that the loop goes on, and logs where it stands when not.

Off unless asked for (``MOLDAU_SLOW_STEP_MS``): the thread wakes often, and a wake-up costs the loop a little. The time
that the step had the processor is told too: what is beyond it went to the disk, or to other processes.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback

log = logging.getLogger(__name__)

FRAMES = 12


class SlowSteps:
    """Watches one loop, until it is closed, from a thread of its own. ``threshold_ms``: what a step may take untold."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threshold_ms: float) -> None:
        self._loop = loop
        self._threshold_s = threshold_ms / 1000
        self._loop_thread = threading.get_ident()
        self._alive_at = time.monotonic()
        self._cpu_at = 0.0
        self._thread = threading.Thread(target=self._watch, name="slow steps", daemon=True)

    def start(self) -> None:
        """Begin; to be called on the loop's own thread."""
        self._tick()
        self._thread.start()

    def _tick(self) -> None:
        self._alive_at, self._cpu_at = time.monotonic(), time.thread_time()
        self._loop.call_later(self._threshold_s / 4, self._tick)

    def _watch(self) -> None:
        told_of = cpu_at = 0.0
        stack = ""
        while not self._loop.is_closed():
            time.sleep(self._threshold_s / 4)
            since, now = self._alive_at, time.monotonic()
            if told_of and since != told_of:
                took_ms, cpu_ms = (since - told_of) * 1000, (self._cpu_at - cpu_at) * 1000
                log.warning("that step of the loop took about %d ms, %d ms of them computing", took_ms, cpu_ms)
                told_of = 0.0
            if now - since > self._threshold_s and since != told_of:
                frame = sys._current_frames().get(self._loop_thread)
                stack = "".join(traceback.format_stack(frame)[-FRAMES:]) if frame is not None else "(gone)"
                ms = (now - since) * 1000
                log.warning("a step of the loop takes more than %d ms", ms, extra={"lines": stack})
                told_of, cpu_at = since, self._cpu_at
