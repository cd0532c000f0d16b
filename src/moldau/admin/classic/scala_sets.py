"""Sets as Scala 2.13 shows them: small ones that cannot change as they were made, others by hash."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from moldau.admin.classic.java_order import partition_hash, string_hash
from moldau.model import TopicPartition

T = TypeVar("T")

SMALL = 4


def scala_set(
    partitions: Sequence[TopicPartition], *, of: Sequence[TopicPartition]
) -> tuple[str, list[TopicPartition]]:
    """The name that the set is shown under, and its elements in their order; ``of``: the set that it is a part of."""
    if len(of) <= SMALL:
        return "Set", list(partitions)
    return "HashSet", set_order(partitions, partition_hash)


def shown_set(texts: Sequence[str]) -> str:
    """A set of texts that cannot change, as it is shown."""
    name, order = ("Set", list(texts)) if len(texts) <= SMALL else ("HashSet", set_order(texts, string_hash))
    return f"{name}({', '.join(order)})"


def shown_numbers(numbers: Sequence[int]) -> str:
    """A set of numbers that cannot change, as it is shown: a number is its own hash."""
    name, order = ("Set", list(numbers)) if len(numbers) <= SMALL else ("HashSet", set_order(numbers, int))
    return f"{name}({', '.join(map(str, order))})"


def set_order(elements: Iterable[T], hashed: Callable[[T], int]) -> list[T]:
    """The elements of a set that cannot change and has more than four, in its order."""
    return _in_trie([(_spread(hashed(one)), one) for one in elements], 0)


def table_order(elements: Iterable[T], hashed: Callable[[T], int]) -> list[T]:
    """The elements of a set, or the keys of a map, that can change: by slot, in a slot by hash."""
    spread = []
    for one in elements:
        hash = hashed(one)
        spread.append((hash ^ hash >> 16, one))
    slots = 16
    while len(spread) >= slots * 3 // 4:
        slots *= 2
    return [one for _, one in sorted(spread, key=lambda each: (each[0] & slots - 1, _signed(each[0])))]


def _signed(hash: int) -> int:
    return hash - (1 << 32) if hash >> 31 else hash


def _spread(hash: int) -> int:
    """scala.collection.Hashing.improve, as an unsigned number."""
    mask = 0xFFFFFFFF
    hash = (hash + ~(hash << 9)) & mask
    hash ^= hash >> 14
    hash = (hash + (hash << 4)) & mask
    return hash ^ hash >> 10


def _in_trie(hashed: Sequence[tuple[int, T]], shift: int) -> list[T]:
    """A node's own elements by their branch, of 32, then those of its branches."""
    if len(hashed) < 2 or shift > 30:
        return [one for _, one in hashed]
    branches: dict[int, list[tuple[int, T]]] = {}
    for hash, one in hashed:
        branches.setdefault(hash >> shift & 31, []).append((hash, one))
    found = [found[0][1] for _, found in sorted(branches.items()) if len(found) == 1]
    for _, theirs in sorted(branches.items()):
        if len(theirs) > 1:
            found += _in_trie(theirs, shift + 5)
    return found
