"""Puts small tasks together: a task of Spark's costs a tenth of a second and more, however little it reads."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from moldau.clusterdata.replica_check.folders import ReplicaFolder
from moldau.clusterdata.segments import ListedSegment
from moldau.clusterdata.state_changes.lines import FileRange


def packed(tasks: Iterable[object], most_bytes: int) -> list[list[object]]:
    """The tasks in their order, as lists of which each has to read about ``most_bytes``, or is one task."""
    found: list[list[object]] = []
    size = 0
    for task in tasks:
        more = bytes_of(task)
        if not found or size + more > most_bytes:
            found.append([])
            size = 0
        found[-1].append(task)
        size += more
    return found


def bytes_of(task: object) -> int:
    """How much a task has to read, as far as files tell; a file that is gone counts nothing."""
    try:
        if isinstance(task, ListedSegment):
            return os.path.getsize(task.path)
        if isinstance(task, FileRange):
            return (os.path.getsize(task.path) if task.end is None else task.end) - task.start
        if isinstance(task, ReplicaFolder):
            return sum(entry.stat().st_size for entry in os.scandir(task.path))
    except OSError:
        return 0
    return sum(map(bytes_of, task)) if isinstance(task, Sequence) and not isinstance(task, str) else 0
