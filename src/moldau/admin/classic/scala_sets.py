"""Sets of partitions as Scala 2.13 shows them: small ones as they were made, others by hash."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.admin.classic.java_order import partition_hash
from moldau.terms import TopicPartition

SMALL = 4


def scala_set(
    partitions: Sequence[TopicPartition], *, of: Sequence[TopicPartition]
) -> tuple[str, list[TopicPartition]]:
    """The name that the set is shown under, and its elements in their order; ``of``: the set that it is a part of."""
    if len(of) <= SMALL:
        return "Set", list(partitions)
    hashed = [(_spread(partition_hash(one)), one) for one in partitions]
    return "HashSet", _in_trie(hashed, 0)


def _spread(hash: int) -> int:
    """scala.collection.Hashing.improve, as an unsigned number."""
    mask = 0xFFFFFFFF
    hash = (hash + ~(hash << 9)) & mask
    hash ^= hash >> 14
    hash = (hash + (hash << 4)) & mask
    return hash ^ hash >> 10


def _in_trie(hashed: Sequence[tuple[int, TopicPartition]], shift: int) -> list[TopicPartition]:
    """A node's own elements by their branch, of 32, then those of its branches."""
    if len(hashed) < 2 or shift > 30:
        return [one for _, one in hashed]
    branches: dict[int, list[tuple[int, TopicPartition]]] = {}
    for hash, one in hashed:
        branches.setdefault(hash >> shift & 31, []).append((hash, one))
    found = [found[0][1] for _, found in sorted(branches.items()) if len(found) == 1]
    for _, theirs in sorted(branches.items()):
        if len(theirs) > 1:
            found += _in_trie(theirs, shift + 5)
    return found
