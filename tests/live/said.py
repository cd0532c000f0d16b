"""What nodes said while a test ran: told when it fails, because nothing else of a CI machine can be read afterwards.

Reads the logs of every node, and of every ZooKeeper, below a folder; keeps what a test's time is about, in the order of
time, a few of each kind. Read next: conftest.py, which adds it to the report of a failed test.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

LINES = 80
LINES_OF_A_NODE = 30
LINES_OF_A_ZOOKEEPER = 10
ALIKE = 3
"""Of lines that differ in numbers only: so many first ones, and the last."""
FOLLOWING = 12
"""Lines below one with a time that belong to it: a traceback."""
WIDTH = 220
LOGS = ("server.log", "node.log", "out.log")
"""In this order: the first that a folder has. Kafka's nodes and ours print what is in ``server.log`` too."""

_TIME = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\]")
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+")
_CHATTER = re.compile(r"DEBUG|INFO (Connecting to|Zookeeper connection lost)|WARN (Connection dropped|Transition to)")
_ZOOKEEPER = re.compile(r"(WARN|ERROR) (?!Close of session)(?!.*QuorumCnxManager)|changed: (looking|.*broadcast)|xpir")
"""What is of interest of the much that a ZooKeeper server says."""


def said(root: Path, since_s: float) -> str:
    """What was said below a folder since then (seconds since 1970), 80 lines at most; empty when nothing was."""
    found: list[tuple[str, str, str]] = []
    for log in _logs(root, since_s):
        name = str(log.parent.relative_to(root)).removesuffix("/logs")
        found += [(time, name, text) for time, text in _lines(log, since_s)]
    found.sort(key=lambda line: line[0])
    return "\n".join(f"{time} {name}: {text}" for time, name, text in found[-LINES:])


def _logs(root: Path, since_s: float) -> Iterator[Path]:
    for folder, _, files in os.walk(root):
        log = next((Path(folder, name) for name in LOGS if name in files), None)
        if log is not None and log.stat().st_mtime >= since_s:
            yield log


def _lines(log: Path, since_s: float) -> list[tuple[str, str]]:
    """(time, text) of the lines of one log that are worth it, the newest."""
    start = datetime.fromtimestamp(since_s).strftime("[%Y-%m-%d %H:%M:%S,000]")
    theirs = "zookeeper" in log.parent.name
    alike: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    time, below = "", FOLLOWING
    for line in log.read_text(errors="replace").splitlines():
        match = _TIME.match(line)
        if match is not None:
            time, below, text = match.group(), 0, line[match.end() + 1 : match.end() + WIDTH]
        else:
            below, text = below + 1, f"    {line[:WIDTH]}"
        wanted = (_ZOOKEEPER.search(text) and not below) if theirs else below < FOLLOWING
        if time >= start and wanted and not _CHATTER.match(text):
            alike[_NUMBER.sub("N", text)].append((time, text))
    kept: list[tuple[str, str]] = []
    for same in alike.values():
        kept += same[:ALIKE]
        if len(same) > ALIKE:
            time, text = same[-1]
            kept.append((time, f"[{len(same) - ALIKE} more like it until now] {text}"))
    return sorted(kept, key=lambda line: line[0])[-(LINES_OF_A_ZOOKEEPER if theirs else LINES_OF_A_NODE) :]
