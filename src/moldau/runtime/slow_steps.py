"""Names the step that held the event loop: a thread watches that the loop goes on, and logs where it stands when not.

Off unless asked for (``MOLDAU_SLOW_STEP_MS``): the thread wakes often, and a wake-up costs the loop a little. Time that
the kernel did not give to the process is not told apart; the stack says what the step was.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback

log = logging.getLogger("moldau.slow_steps")

FRAMES = 12


class SlowSteps:
    """Watches one loop from a thread of its own. ``threshold_ms``: how long a step may take without a word."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threshold_ms: float) -> None:
        self._loop = loop
        self._threshold_s = threshold_ms / 1000
        self._loop_thread = threading.get_ident()
        self._alive_at = time.monotonic()
        self._thread = threading.Thread(target=self._watch, name="slow steps", daemon=True)

    def start(self) -> None:
        """Begin; to be called on the loop's own thread."""
        self._tick()
        self._thread.start()

    def _tick(self) -> None:
        self._alive_at = time.monotonic()
        self._loop.call_later(self._threshold_s / 4, self._tick)

    def _watch(self) -> None:
        told_of = 0.0
        stack = ""
        while True:
            time.sleep(self._threshold_s / 4)
            since, now = self._alive_at, time.monotonic()
            if told_of and since != told_of:
                log.warning("that step of the loop took about %d ms", (since - told_of) * 1000)
                told_of = 0.0
            if now - since > self._threshold_s and since != told_of:
                frame = sys._current_frames().get(self._loop_thread)
                stack = "".join(traceback.format_stack(frame)[-FRAMES:]) if frame is not None else "(gone)"
                ms = (now - since) * 1000
                log.warning("a step of the loop takes more than %d ms", ms, extra={"lines": stack})
                told_of = since
