"""How fast compaction reads (log.cleaner.io.max.bytes.per.second): it sleeps, on its thread, as long as a batch takes.

Has no clock: what is owed is counted in bytes. Read next: ``compaction.py``.
"""

from __future__ import annotations

from collections.abc import Callable

from moldau.storage.compaction import Pace

NAP_S = 0.02
"""Shorter sleeps are saved up."""
LONGEST_S = 1.0
"""After so long the rate is asked for again: one that was raised counts at once."""


def paced(rate: Callable[[], float], sleep: Callable[[float], object]) -> Pace:
    """A pace of ``rate`` bytes per second."""
    owed = 0.0

    def pace(size: int) -> None:
        nonlocal owed
        owed += size
        while owed > NAP_S * (now := max(rate(), 1.0)):
            nap_s = min(owed / now, LONGEST_S)
            sleep(nap_s)
            owed -= nap_s * now

    return pace
