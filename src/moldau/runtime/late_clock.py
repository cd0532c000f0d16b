"""The wall clock, also beyond the year 2262: there Python's ``time.time`` and ``time.time_ns`` raise OverflowError, as
nanoseconds no longer fit into 64 bits, and each line that is logged asks for the time.

A machine whose time server errs may show any year; that is no reason to end a node that runs. Python itself does not
start in such a year, as importing ``logging`` asks for the time.
"""

from __future__ import annotations

import copy
import logging
import os
import time
from typing import Any

_LOADED_MS = time.monotonic_ns() / 1e6
_LIKE_ALL = logging.LogRecord.__new__(logging.LogRecord)
_LIKE_ALL.__dict__.update(
    thread=None, threadName=None, process=os.getpid(), processName=None, taskName=None, exc_text=None
)


def wall_ms() -> int:
    """Milliseconds since 1970."""
    try:
        return time.time_ns() // 1_000_000
    except OverflowError:
        return int(time.clock_gettime(time.CLOCK_REALTIME) * 1000)


def log_record(*said: Any, **more: Any) -> logging.LogRecord:  # Any: as logging gives them
    """What logging makes of a line; for ``logging.setLogRecordFactory``."""
    try:
        return logging.LogRecord(*said, **more)
    except OverflowError:
        created_ms = wall_ms()
    name, level, path, line, msg, args, exc_info, *rest = said
    func, stack = (*rest, None, None)[:2]
    record = copy.copy(_LIKE_ALL)
    filename = os.path.basename(path)
    record.__dict__.update(
        name=name, levelno=level, levelname=logging.getLevelName(level), pathname=path, filename=filename,
        module=os.path.splitext(filename)[0], lineno=line, funcName=func, msg=msg, args=args, exc_info=exc_info,
        stack_info=stack, created=created_ms / 1000, msecs=float(created_ms % 1000),
        relativeCreated=time.monotonic_ns() / 1e6 - _LOADED_MS,
    )  # fmt: skip
    return record
