"""One Moldau node whose event loop keeps a watch on itself: ``python -m bench.timed_node STEPS server.properties``.

The same node as ``moldau node`` on asyncio's own loop, since uvloop cannot be looked into, so a step here takes a
little longer than it would. Every step of STEP_MS and more becomes a line of JSON in the file STEPS: when it ended (on
the machine's monotonic clock), how long it took, what it was. Run by ``bench/scale.py`` and ``bench/migration.py``.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from asyncio import events
from typing import Any

from moldau.admin.node import run_node

STEP_MS = 2.0


def watch(path: str) -> None:
    """From now on, write each long step of any asyncio loop to a file."""
    sys.modules["uvloop"] = None  # type: ignore[assignment]  # so that importing it fails
    out = open(path, "a", encoding="utf-8", buffering=1)  # noqa: SIM115  # as long as the process lives
    real: Any = events.Handle._run

    def timed(handle: Any) -> None:
        began = time.perf_counter()
        used = time.thread_time()
        real(handle)
        took_ms = (time.perf_counter() - began) * 1000
        if took_ms >= STEP_MS:
            used_ms = (time.thread_time() - used) * 1000
            line = {"at_s": time.monotonic(), "took_ms": round(took_ms, 2), "used_ms": round(used_ms, 2)}
            out.write(json.dumps({**line, "what": named(handle)}) + "\n")

    events.Handle._run = timed  # type: ignore[method-assign,assignment]


def named(handle: Any) -> str:
    """A callback in words: a task by its coroutine, anything else by its function."""
    callback = handle._callback
    task = getattr(callback, "__self__", None) if callback is not None else None
    if isinstance(task, asyncio.Task):
        return f"{task.get_name()}: {getattr(task.get_coro(), '__qualname__', '?')}"
    return str(getattr(callback, "__qualname__", None) or callback)


if __name__ == "__main__":
    watch(sys.argv[1])
    sys.exit(run_node(sys.argv[2:]))
