"""Which partition of __consumer_offsets holds a group: Java's String.hashCode on UTF-16 code units, then modulo.

Clients never compute this, but every broker must agree on it and a log written by Kafka must be found again, so the
hash is Kafka's to the bit. Decides nothing else. Read next: shard.py.
"""

from __future__ import annotations

from array import array

_CHARACTERS = 64


def java_hash(text: str) -> int:
    """Java's ``String.hashCode``: an int32 over UTF-16 code units, so a character outside the BMP counts as two.

    >>> java_hash("my-group")
    -1906497762
    >>> java_hash("")
    0
    """
    value = 0
    for unit in array("H", text.encode("utf-16-le", "surrogatepass")):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def weight(group_id: str) -> int:
    """How many groups of a common name this one counts as in a turn of the loop: every character of it is hashed."""
    return 1 + len(group_id) // _CHARACTERS


def partition_for(group_id: str, count: int) -> int:
    """The partition, in [0, count), of the offsets topic that holds this group; -1 while it has no partitions.

    Kafka's "abs" maps the one int32 without a positive twin, -2**31, to 0.
    """
    if count < 1:
        return -1
    hashed = java_hash(group_id)
    return (0 if hashed == -(1 << 31) else abs(hashed)) % count
