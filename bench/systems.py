"""The systems that the bench compares, behind one interface, and what the kernel says of their processes.

A system is started, killed and stopped through the methods of `KafkaPeer`; Moldau's nodes are given the very
server.properties that Kafka's are given. Decides nothing about what is measured: that is bench/cells.py.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

__all__ = ["SYSTEMS", "TITLES", "KafkaPeer", "MoldauPeer", "cpu_seconds", "resident_bytes"]

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "live"))

from kafka_peer import KAFKA_VERSION, KafkaPeer  # noqa: E402
from kafka_peer import java_command as java_command  # noqa: E402
from moldau_peer import MoldauPeer  # noqa: E402

SYSTEMS: dict[str, type[KafkaPeer]] = {"kafka": KafkaPeer, "moldau": MoldauPeer}
TITLES = {"kafka": f"Apache Kafka {KAFKA_VERSION}", "moldau": "Moldau"}


def family(pids: Iterable[int]) -> list[int]:
    """The processes given and all their descendants that are alive."""
    found: list[int] = []
    waiting = list(pids)
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        for listing in Path(f"/proc/{pid}/task").glob("*/children"):
            waiting.extend(int(child) for child in listing.read_text().split())
    return found


def cpu_seconds(pids: Iterable[int]) -> float:
    """User and system time that the processes and their descendants, dead ones too, have used so far, in seconds."""
    ticks = 0
    for pid in family(pids):
        # Fields 14 to 17 of proc(5)'s stat, counted after the name, which may hold blanks.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(int(field) for field in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def resident_bytes(pids: Iterable[int]) -> int:
    """Resident memory of the processes and their descendants, in bytes."""
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in family(pids))
    return pages * os.sysconf("SC_PAGE_SIZE")
