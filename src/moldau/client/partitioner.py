"""Which partition a key goes to: by murmur2, as Kafka's Java client does, so that equal keys meet across clients.

Read next: producer.py, which chooses for records without a key.
"""

from __future__ import annotations

from struct import Struct

_FOUR = Struct("<I").iter_unpack
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """32-bit murmur2 (unsigned) with the seed of Kafka's default partitioner."""
    size = len(data)
    h = (0x9747B28C ^ size) & _MASK
    whole = size & ~3
    for (k,) in _FOUR(data[:whole]):
        k = k * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    rest = data[whole:]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_of(key: bytes, count: int) -> int:
    """The partition of a key among ``count`` partitions."""
    return (murmur2(key) & 0x7FFFFFFF) % count
