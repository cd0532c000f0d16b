"""Decides by a run's seed which buggify points of production code (ports/buggify.py) are taken, and how often.

This is swarm testing again: a run allows some of the points, each with a probability of its own, so that what one of
them hides another shows. Points that every request passes are taken less often. Each point is a coverage point too.
Read next: coverage_points.py, campaign.py.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from moldau.ports import buggify as points

SHARE = 0.3
"""The share of all runs that allow a certain point."""
SELDOM, OFTEN = (0.05, 0.15, 0.4), (0.002, 0.01, 0.05)
EVERY_REQUEST = frozenset(
    {
        points.SHORT_FETCH,
        points.EMPTY_FETCH,
        points.LOST_SESSION,
        points.REFUSED_PRODUCE,
        points.LOADING_COORDINATOR,
        points.UNREACHED_CONTROLLER,
        points.LATE_DELIVERY,
        points.EARLY_ROLL,
        points.EARLY_SNAPSHOT,
        points.SHORT_METADATA,
    }
)
"""Passed many times a second."""


def coverage_point(point: str) -> str:
    """Return the coverage point of a buggify point."""
    return f"rare: {point}"


COVERAGE_POINTS = frozenset(map(coverage_point, points.BUGGIFY_POINTS))


class SeededBuggify:
    """A run's ``Buggify``; ``taken`` counts by point."""

    def __init__(self, rng: random.Random, allowed: Iterable[str] = points.BUGGIFY_POINTS) -> None:
        self._draw = rng.random
        self._chances: dict[str, float] = {}
        self.taken: dict[str, int] = {}
        for point in allowed:
            chance = rng.choice(OFTEN if point in EVERY_REQUEST else SELDOM)
            if point == points.CLOSED_CONNECTION:
                chance = OFTEN[0]  # all requests in flight on it fail
            if rng.random() < SHARE:
                self._chances[point] = chance

    def __call__(self, point: str) -> bool:
        chance = self._chances.get(point)
        if chance is None or self._draw() >= chance:
            return False
        self.taken[point] = self.taken.get(point, 0) + 1
        return True

    def text(self) -> str:
        """Return a line of how often which were taken; an empty string if none was."""
        said = ", ".join(f"{point} {count}" for point, count in sorted(self.taken.items()))
        return f"\nbuggify points taken: {said}" if said else ""

    @property
    def coverage(self) -> set[str]:
        """Return a coverage point for each buggify point that was taken."""
        return {coverage_point(point) for point in self.taken}
