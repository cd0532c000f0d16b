"""Figures of logs that are not used, or not wholly looked after, and why: an operator has to look at each of them.

Read next: ``figures.py``; which logs these are: ``moldau.storage.damage``, ``moldau.storage.strays``. The lines of the
log name each of them, with what was met.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from moldau.broker.metrics.text import Family
from moldau.model import TopicPartition
from moldau.storage import LogDirs

_AS_IT_IS, _UNKNOWN, _STRAY = "damaged", "unknown topic", "stray"


def damage_figures(logs: LogDirs) -> Iterator[Family]:
    """Both families, with a sample for each reason and directory that there is."""
    unused = Family("moldau_log_unused_count", "Logs that are left as they are and not used, by reason and directory.")
    counts: Counter[tuple[str, str]] = Counter()
    for partition, path in logs.unusable.items():
        counts[_UNKNOWN if partition in logs.left_alone else _AS_IT_IS, _folder(path)] += 1
    for path in logs.strays:
        counts[_STRAY, _folder(path)] += 1
    for (reason, directory), number in sorted(counts.items()):
        unused.add(number, reason=reason, logDirectory=directory)
    yield unused
    skipped = Family("moldau_log_skipped_count", "Logs in use that a fetch, retention or another pass leaves out.")
    there = Counter(_directory(logs, partition) for partition in logs.damaged.reasons)
    for directory, number in sorted(there.items()):
        skipped.add(number, logDirectory=directory)
    yield skipped


def _directory(logs: LogDirs, partition: TopicPartition) -> str:
    return logs.logs[partition].dir.path if partition in logs.logs else ""


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
