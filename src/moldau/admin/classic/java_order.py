"""The order in which Java's HashMap and HashSet give their elements, where Kafka's tools print them in it.

Source: java.util.HashMap of OpenJDK 17 (tables double at three quarters; a bucket is a list in order of arrival).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from moldau.model import TopicPartition

T = TypeVar("T")


def string_hash(text: str) -> int:
    """String.hashCode, as an unsigned number."""
    found = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(encoded), 2):
        found = found * 31 + (encoded[at] << 8 | encoded[at + 1]) & 0xFFFFFFFF
    return found


def partition_hash(partition: TopicPartition) -> int:
    """TopicPartition.hashCode, as an unsigned number."""
    return ((31 + partition.partition) * 31 + string_hash(partition.topic)) & 0xFFFFFFFF


def hash_order(keys: Iterable[T], hashed: Callable[[T], int], capacity: int = 16) -> list[T]:
    """Distinct keys in the order of a HashMap that was made for ``capacity`` and given them in this order."""
    arrived = list(dict.fromkeys(keys))
    size = 1 << max(capacity - 1, 0).bit_length()
    while len(arrived) > size * 3 // 4:
        size *= 2
    if size == 1 and arrived:
        size = 2
    buckets: dict[int, list[T]] = {}
    for key in arrived:
        spread = hashed(key) & 0xFFFFFFFF
        buckets.setdefault((spread ^ spread >> 16) & size - 1, []).append(key)
    return [key for at in sorted(buckets) for key in buckets[at]]


def map_order(keys: Iterable[T], hashed: Callable[[T], int]) -> list[T]:
    """Distinct keys in the order of a HashMap that was made of another one with its keys in this order."""
    arrived = list(keys)
    return hash_order(arrived, hashed, int(len(arrived) / 0.75) + 1)


def set_order(keys: Iterable[T], hashed: Callable[[T], int]) -> list[T]:
    """Distinct keys in the order of a HashSet that was made of a collection in this order."""
    arrived = list(keys)
    return hash_order(arrived, hashed, max(int(len(arrived) / 0.75) + 1, 16))
