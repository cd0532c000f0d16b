"""Mistakes about the files that a start finds. Shown by whole clusters (``simulator/run.py``)."""

from __future__ import annotations

from typing import Any

from moldau.simulator.mutants.mutant import Mutant, Patches
from moldau.simulator.scenes import LOST_SEGMENT, ZOOKEEPER
from moldau.storage import folder_contents
from moldau.storage.log import Log


def takes_the_first_segment_there_is_for_the_beginning(patches: Patches) -> None:
    patches.set(folder_contents, "check_start", lambda folder, first, recorded, reached: None)


def writes_into_the_segment_that_was_closed(patches: Patches) -> None:
    """The batch that a roll makes room for goes where the one before it went; the next goes into the new segment."""
    rolls, writes = Log.roll, Log._write
    rolled: list[tuple[Log, Any]] = []  # Any: Segments

    def roll(log: Log, base_offset: int | None = None, now_ms: int = 0) -> None:
        old = log.active
        rolls(log, base_offset, now_ms)
        if log.active is not old:
            rolled.append((log, log.active))
            log.active = old

    def write(log: Log, data: Any, extents: Any, now_ms: int) -> None:  # Any: as ``Log._write``, which is replaced
        writes(log, data, extents, now_ms)
        while rolled:
            one, active = rolled.pop()
            one.active = active

    patches.set(Log, "roll", roll)
    patches.set(Log, "_write", write)


MUTANTS = (
    Mutant("own (S20)", "a log begins where its first segment does, though it began before",
           f"{ZOOKEEPER} {LOST_SEGMENT}", ("S20", "S1"), takes_the_first_segment_there_is_for_the_beginning),
    Mutant("own (decision 50)", "the batch that a roll makes room for goes into the segment that was closed",
           f"{ZOOKEEPER} power", ("S4",), writes_into_the_segment_that_was_closed),
)  # fmt: skip
