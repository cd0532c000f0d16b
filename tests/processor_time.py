"""Writes what each test costs of processor time, in seconds: ``pytest -p tests.processor_time``, to PROCESSOR_TIME.

A line is a JSON list, node id and seconds. What a test was given does not count, as it may be there for others. All
processes count that can be seen, nodes and JVMs among them, so that one pytest process has to be alone in a namespace:

    export PROCESSOR_TIME=said.jsonl
    unshare --pid --fork --mount-proc .venv/bin/python -m pytest -q -p tests.processor_time tests

Linux only (/proc). Read next: long.py, which takes what this says.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

SAID = Path(os.environ.get("PROCESSOR_TIME", "processor-time.jsonl"))
TICKS = os.sysconf("SC_CLK_TCK")
# In /proc/PID/stat, after the name: user and system time of the process, and of its children that were waited for.
TIMES = slice(11, 15)


def spent() -> float:
    """Seconds that all processes have had, and those that they have waited for."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            ticks += sum(map(int, stat.read_text().rpartition(")")[2].split()[TIMES]))
    return ticks / TICKS


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Tests that are left out have no call, and no line."""
    before = spent()
    try:
        return (yield)
    finally:
        with SAID.open("a") as said:
            said.write(json.dumps([item.nodeid, round(spent() - before, 2)]) + "\n")
