"""The replays of dead letters that a folder knows: ``replays/N.json`` says which dead letters each takes up.

Read next: replays.py (who plans and carries out), unfinished.py (what became of one that was cut off).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from moldau.pipeline import books
from moldau.pipeline.books import BookLine
from moldau.pipeline.folder import PipelineFolder
from moldau.pipeline.plans import plans

FOLDER = "replays"
OLD_QUERY = "replay"
"""What the plans of before each folder had a name of its own are called by, in ledgers and marks."""
_BROKEN = (
    "a replay ({error}); restore it, or remove it: the dead letters that it took up wait again then, also those that"
    " it has written"
)


@dataclass(frozen=True, slots=True)
class PlannedReplay:
    """A replay: its number, and the (batch, stage) of the dead letters that it takes. ``query`` is what ledgers and
    marks call the replays of this folder; ``line`` is the line of the books that came next."""

    number: int
    groups: Sequence[tuple[str, str]]
    query: str = OLD_QUERY
    line: int = 0
    done: bool = False
    abandoned: bool = False

    @property
    def waits(self) -> bool:
        return not self.done and not self.abandoned


def planned(folder: PipelineFolder) -> list[PlannedReplay]:
    """Every replay so far, in order."""
    found = plans(folder.store, FOLDER, PlannedReplay, _BROKEN)
    known = [replace(one, done=done, abandoned=abandoned) for one, done, abandoned in found]
    return sorted(known, key=lambda one: one.number)


def line_of(folder: PipelineFolder, planned: PlannedReplay) -> BookLine | None:
    """The line of the books that a replay has, None while it has none: whatever was written after it."""
    kept = folder.books
    end = kept.next()
    for number in range(planned.line if planned.line <= end else 0, end):
        line = kept.line(number)
        if line is not None and (line.kind, line.query, line.batch) == (books.REPLAY, planned.query, planned.number):
            return line
    return None
