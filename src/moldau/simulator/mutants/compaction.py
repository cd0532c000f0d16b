"""Mistakes of compaction: which record is a key's newest, what is committed, when tombstones go.

Shown by whole clusters (``simulator/run.py``) with a compacted topic, so hunts are short; logs are the same on both
planes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moldau.simulator.mutants.mutant import Mutant, Patches
from moldau.simulator.scenes import COMPACTION, DAMAGED, ZOOKEEPER
from moldau.storage import cleanable, compaction, compactions


def takes_keys_that_begin_alike_for_one(patches: Patches) -> None:
    patches.set(compaction, "_digest", lambda key: key[:2])


class _Unbounded:
    """A log all of which is committed and durable."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self.high_watermark = self.restart_point = log.log_end_offset

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


def lets_the_uncommitted_replace(patches: Patches) -> None:
    measure: Callable[[Any, int], Any] = cleanable.measure
    for where in (compaction, compactions):
        patches.set(where, "measure", lambda log, now_ms: measure(_Unbounded(log), now_ms))


def gives_tombstones_no_time(patches: Patches) -> None:
    real = compaction.Compaction.__init__

    def init(self: Any, log: Any, dirt: Any, now_ms: int) -> None:
        real(self, log, dirt, now_ms)
        self.order = self.order._replace(delete_retention_ms=0)

    patches.set(compaction.Compaction, "__init__", init)


def lets_what_a_run_meets_end_the_node(patches: Patches) -> None:
    def compact(order: Any, disk: Any, pace: Any) -> Any:
        return compaction._Run(order, disk, pace).work()

    patches.set(compaction, "compact", compact)


WORLD = f"{ZOOKEEPER} {COMPACTION}"
MUTANTS = (
    *(
        Mutant(bug, what, WORLD, laws, patch, first)
        for bug, what, laws, patch, first in (
            ("own (S5)", "keys that begin alike are one key", ("S5", "S1"), takes_keys_that_begin_alike_for_one, 0),
            ("own (S5)", "what is not committed replaces what is", ("S5",), lets_the_uncommitted_replace, 2),
            ("KIP-534", "a tombstone goes the next time, however soon", ("S5", "S1"), gives_tombstones_no_time, 0),
        )
    ),
    Mutant("own (X7)", "what a compaction meets in a damaged segment ends the node", f"{ZOOKEEPER} {DAMAGED}", ("X7",),
           lets_what_a_run_meets_end_the_node, 0),
)  # fmt: skip
