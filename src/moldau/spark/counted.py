"""Numbers of things in messages for people."""

from __future__ import annotations


def counted(number: int, one: str, many: str = "") -> str:
    """So many of something: ``1 row``, ``2,000 rows``; ``many`` is the plural where it is not ``one`` with an s."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
