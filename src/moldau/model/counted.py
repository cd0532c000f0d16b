"""A number with the noun that it counts, for people: one partition, several partitions."""

from __future__ import annotations


def counted(count: int, one: str, several: str | None = None) -> str:
    """``1 partition``, ``0 partitions``, ``1,200 partitions``.

    Args:
        count: how many.
        one: the noun of one, with what goes along with it: ``partition has``.
        several: the same of several, ``partitions have``; with an s at its end when None.
    """
    return f"{count:,} {one if count == 1 else several or one + 's'}"
