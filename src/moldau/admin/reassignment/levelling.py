"""Evening out who holds how many: as even as the rules allow, with as few changes as that takes.

A minimum-cost flow by successive shortest paths, over brokers: an edge a -> b says that one of a's items may go to b,
and costs 1 when the item leaves the broker that it was on to begin with, 0 when it was away already, -1 when it comes
home. Pure: no I/O, no randomness, the same result each time. Used by ``planning.py`` for replicas and for leads.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Generic, TypeVar

from moldau.model.protocol import Protocol

Item = TypeVar("Item")
Moved = TypeVar("Moved", contravariant=True)
COSTS = (-1, 0, 1)


class Holding(Protocol[Moved]):
    """Who holds what, and what may go where."""

    def holders(self, item: Moved) -> Collection[int]:
        """Who holds the item now, in an order that is always the same."""

    def at_first(self, item: Moved) -> Collection[int]:
        """Who held it to begin with."""

    def takers(self, item: Moved, giver: int) -> Iterable[int]:
        """Who may take it from ``giver``."""

    def move(self, item: Moved, giver: int, taker: int) -> None:
        """Take note that it went from one to the other."""


class Leveller(Generic[Item]):
    """Moves items until no broker holds more than its share, as far as the rules let it.

    Args:
        items: all that may move.
        brokers: those that give and take; whoever else holds something keeps it.
        takers: those that take; all of ``brokers`` when None.
        fixed: how many more each broker holds that do not move.
        key: which item goes first of several that would do, the smallest.
    """

    def __init__(
        self,
        holding: Holding[Item],
        items: Iterable[Item],
        brokers: Collection[int],
        *,
        takers: Collection[int] | None = None,
        fixed: Mapping[int, int] | None = None,
        key: Callable[[Item], object],
    ) -> None:
        self._holding, self._key = holding, key
        self._fixed = dict(fixed or {})
        self._brokers = sorted(brokers)
        self._takers = set(brokers if takers is None else takers)
        self._on: dict[int, set[Item]] = {broker: set() for broker in self._brokers}
        self._edges: dict[int, dict[int, list[int]]] = {broker: {} for broker in self._brokers}
        for item in items:
            for broker in holding.holders(item):
                if broker in self._on:
                    self._on[broker].add(item)
            self._count(item, 1)

    def held(self, broker: int) -> int:
        """How many items the broker holds."""
        return len(self._on[broker]) + self._fixed.get(broker, 0)

    def level(self) -> None:
        """Even out. Afterwards no sequence of moves takes one from a broker to another that holds two less; where only
        some brokers take, they take no more than their share.
        """
        total = sum(map(self.held, self._brokers))
        if not self._brokers or not total:
            return
        low, over = divmod(total, len(self._brokers))
        high = low + bool(over)
        self._relieve(high)
        self._supply(low)
        while len(self._takers) == len(self._brokers) and self._improve():
            pass  # until nobody has anything to give

    def _relieve(self, high: int) -> None:
        """Have those that hold more than ``high`` give the rest away, by the cheapest ways."""
        for giver in sorted(self._brokers, key=lambda b: (-self.held(b), b)):
            while self.held(giver) > high:
                ends = [b for b in self._brokers if self.held(b) < high]
                if not self._walk([giver], ends):
                    break

    def _supply(self, low: int) -> None:
        """Give those that hold less than ``low`` what they lack, by the cheapest ways."""
        for taker in sorted(self._takers, key=lambda b: (self.held(b), b)):
            while self.held(taker) < low:
                if not self._walk([b for b in self._brokers if self.held(b) > low], [taker]):
                    break

    def _improve(self) -> bool:
        """Items from fuller to emptier brokers, where the rules keep some from their share; whether there was one."""
        moved = False
        for giver in sorted(self._brokers, key=lambda b: (-self.held(b), b)):
            while self._walk([giver], [b for b in self._brokers if self.held(b) <= self.held(giver) - 2]):
                moved = True
        return moved

    # ---- one item along a path

    def _walk(self, starts: Collection[int], ends: Collection[int]) -> bool:
        """Shift one item along the cheapest path; whether there was one. Of equals the emptiest end is taken."""
        if not ends:
            return False
        cost, before = self._costs(sorted(starts, key=lambda b: (-self.held(b), b)))
        reached = sorted((b for b in ends if b in cost), key=lambda b: (cost[b], self.held(b), b))
        return any(self._shift(self._path(before, end)) for end in reached)

    def _costs(self, starts: Iterable[int]) -> tuple[dict[int, int], dict[int, int]]:
        """What it costs to get to each broker, and over whom (Bellman and Ford's algorithm with a queue)."""
        cost = dict.fromkeys(starts, 0)
        before: dict[int, int] = {}
        waiting, rounds = deque(cost), dict.fromkeys(self._brokers, 0)
        while waiting:
            giver = waiting.popleft()
            rounds[giver] += 1
            if rounds[giver] > len(self._brokers):  # a cycle that pays, which only rules about racks leave
                break
            for taker, counts in self._edges[giver].items():
                price = _cheapest(counts)
                if price is not None and cost[giver] + price < cost.get(taker, len(COSTS) * len(self._brokers)):
                    cost[taker], before[taker] = cost[giver] + price, giver
                    if taker not in waiting:
                        waiting.append(taker)
        return cost, before

    def _path(self, before: Mapping[int, int], end: int) -> list[int]:
        path = [end]
        while path[-1] in before and before[path[-1]] not in path:
            path.append(before[path[-1]])
        return path[::-1]

    def _shift(self, path: list[int]) -> bool:
        """Move one item over each edge; False, and all as it was, when an item of one edge is in another's way."""
        done: list[tuple[Item, int, int]] = []
        for giver, taker in itertools.pairwise(path):
            item = self._cheapest_item(giver, taker)
            if item is None:
                for moved, source, target in reversed(done):
                    self._move(moved, target, source)
                return False
            self._move(item, giver, taker)
            done.append((item, giver, taker))
        return bool(done)

    def _cheapest_item(self, giver: int, taker: int) -> Item | None:
        counts = self._edges[giver].get(taker)
        price = None if counts is None else _cheapest(counts)
        if price is None:
            return None
        fitting = [item for item in self._on[giver] if self._price(item, giver, taker) == price]
        fitting.sort(key=self._key)  # type: ignore[arg-type]  # a key of tuples of numbers and names
        return next((item for item in fitting if taker in self._holding.takers(item, giver)), None)

    def _move(self, item: Item, giver: int, taker: int) -> None:
        self._count(item, -1)
        self._holding.move(item, giver, taker)
        self._on[giver].discard(item)
        self._on[taker].add(item)
        self._count(item, 1)

    def _count(self, item: Item, sign: int) -> None:
        """Add the item to the edges over which it may go, or take it off them."""
        for giver in self._holding.holders(item):
            edges = self._edges.get(giver)
            if edges is None:
                continue
            for taker in self._holding.takers(item, giver):
                if taker in self._takers:
                    counts = edges.setdefault(taker, [0] * len(COSTS))
                    counts[self._price(item, giver, taker) - COSTS[0]] += sign

    def _price(self, item: Item, giver: int, taker: int) -> int:
        first = self._holding.at_first(item)
        return (giver in first) - (taker in first)


def _cheapest(counts: list[int]) -> int | None:
    return COSTS[0] if counts[0] else COSTS[1] if counts[1] else COSTS[2] if counts[2] else None
