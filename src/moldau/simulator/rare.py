"""Chance for rare ways of production code (ports/rare.py), from a run's seed.

Swarm again: a run allows some of the ways, each with a chance of its own, so that what one of them hides another shows.
Ways that are passed with every request are taken less often. Notes which were taken: each is a coverage mark.
Read next: marks.py, campaign.py.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from moldau.ports import rare as ways

SHARE = 0.3
"""Of all runs, those that allow a certain way."""
SELDOM, OFTEN = (0.05, 0.15, 0.4), (0.002, 0.01, 0.05)
EVERY_REQUEST = frozenset(
    {
        ways.SHORT_FETCH,
        ways.EMPTY_FETCH,
        ways.LOST_SESSION,
        ways.REFUSED_PRODUCE,
        ways.LOADING_COORDINATOR,
        ways.UNREACHED_CONTROLLER,
        ways.LATE_DELIVERY,
        ways.EARLY_ROLL,
        ways.EARLY_SNAPSHOT,
        ways.SHORT_METADATA,
    }
)
"""Passed many times a second."""


def mark(way: str) -> str:
    """The coverage mark of a way."""
    return f"rare: {way}"


MARKS = frozenset(map(mark, ways.WAYS))


class Chances:
    """A run's ``Rare``; ``taken`` counts by way."""

    def __init__(self, rng: random.Random, allowed: Iterable[str] = ways.WAYS) -> None:
        self._draw = rng.random
        self._chances: dict[str, float] = {}
        self.taken: dict[str, int] = {}
        for way in allowed:
            chance = rng.choice(OFTEN if way in EVERY_REQUEST else SELDOM)
            if way == ways.CLOSED_CONNECTION:
                chance = OFTEN[0]  # everybody's requests under way fail with it
            if rng.random() < SHARE:
                self._chances[way] = chance

    def __call__(self, way: str) -> bool:
        chance = self._chances.get(way)
        if chance is None or self._draw() >= chance:
            return False
        self.taken[way] = self.taken.get(way, 0) + 1
        return True

    def text(self) -> str:
        """How often which were taken, in a line; nothing if none was."""
        said = ", ".join(f"{way} {count}" for way, count in sorted(self.taken.items()))
        return f"\nrare ways taken: {said}" if said else ""

    @property
    def marks(self) -> set[str]:
        """A coverage mark for each way that was taken."""
        return {mark(way) for way in self.taken}
