"""Mistakes about the files that a start finds. Shown by whole clusters (``simulator/run.py``)."""

from __future__ import annotations

from moldau.simulator.mutants.mutant import Mutant, Patches
from moldau.simulator.scenes import LOST_SEGMENT, ZOOKEEPER
from moldau.storage import folder_contents


def takes_the_first_segment_there_is_for_the_beginning(patches: Patches) -> None:
    patches.set(folder_contents, "check_start", lambda folder, first, recorded, reached: None)


MUTANTS = (
    Mutant("own (S20)", "a log begins where its first segment does, though it began before",
           f"{ZOOKEEPER} {LOST_SEGMENT}", ("S20", "S1"), takes_the_first_segment_there_is_for_the_beginning),
)  # fmt: skip
