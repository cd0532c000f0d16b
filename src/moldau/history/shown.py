"""Partition ends that leaders answered, one by one, and the law that they never go back (S7).

A leader that was deposed and does not know it yet may show less than its successor: answers are compared under the same
leader epoch or an older one only. Pure. Read next: ``checks.py``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from moldau.history.checks import Anomaly

WENT_BACK = "went back"


class Shown(NamedTuple):
    """One answer to: where does the partition end? Times are monotonic, in ns."""

    partition: int
    leader_epoch: int
    offset: int
    invoke_ns: int
    complete_ns: int


def went_back(rows: Iterable[Shown]) -> Iterator[Anomaly]:
    """S7: an end below one that was shown, under no newer epoch, before it was asked for."""
    events = [(row.invoke_ns, 1, row) for row in rows]
    events += [(row.complete_ns, 0, row) for _, _, row in events]  # at the same instant the answer was there first
    highest: dict[int, dict[int, Shown]] = defaultdict(dict)
    for _, is_question, row in sorted(events):
        epochs = highest[row.partition]
        if is_question:
            before = [best for epoch, best in epochs.items() if epoch <= row.leader_epoch and best.offset > row.offset]
            if before:
                best = max(before, key=lambda other: other.offset)
                text = f"partition {row.partition} ended at {best.offset} in leader epoch {best.leader_epoch}"
                yield Anomaly(WENT_BACK, f"{text}, then at {row.offset} in epoch {row.leader_epoch}")
        elif row.leader_epoch not in epochs or epochs[row.leader_epoch].offset < row.offset:
            epochs[row.leader_epoch] = row
