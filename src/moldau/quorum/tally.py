"""Majority arithmetic, alone: votes that win or cannot win any more, and what value a majority has reached.

All three are the same question (the k-th best of n). The tests hold a slow, obvious twin of each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable


def majority(voters: int) -> int:
    """How many of ``voters`` are a majority.

    >>> [majority(n) for n in (1, 2, 3, 4, 5)]
    [1, 2, 2, 3, 3]
    """
    return voters // 2 + 1


def won(granted: Collection[int], voters: Collection[int]) -> bool:
    """Whether the votes granted are a majority of the voters."""
    return len(set(granted) & set(voters)) >= majority(len(voters))


def lost(refused: Collection[int], voters: Collection[int]) -> bool:
    """Whether so many refused that the rest cannot be a majority."""
    return len(voters) - len(set(refused) & set(voters)) < majority(len(voters))


def reached_by_majority(values: Iterable[int]) -> int:
    """The largest value that a majority has reached; one value per voter, the leader's own included.

    >>> reached_by_majority([5, 2, 0]), reached_by_majority([5, 5, 0]), reached_by_majority([7])
    (2, 5, 7)
    """
    ordered = sorted(values, reverse=True)
    return ordered[majority(len(ordered)) - 1]
