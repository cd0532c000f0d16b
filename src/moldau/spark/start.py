"""Where reading starts or ends: the positions an option can name, and which of them move when asked again.

Values only; ``options.py`` makes them from text, ``offsets.py`` says what to ask the cluster for each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from moldau.model import TopicPartition

EARLIEST = -2
LATEST = -1


@dataclass(frozen=True, slots=True)
class Earliest:
    """The oldest record still there."""


@dataclass(frozen=True, slots=True)
class Latest:
    """After the newest record."""


@dataclass(frozen=True, slots=True)
class Explicit:
    """An offset for every partition; ``EARLIEST`` and ``LATEST`` may stand for one."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record of each partition at or after this time (ms since the epoch)."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class AtTimes:
    """The first record of each named partition at or after its own time (ms since the epoch)."""

    timestamps_ms: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Ago:
    """The first record of the last ``duration_ms``, seen from the moment of asking."""

    duration_ms: int


@dataclass(frozen=True, slots=True)
class OfGroup:
    """Where a consumer group has committed; partitions without a commit start at the earliest record."""

    group_id: str


Start = Earliest | Latest | Explicit | AtTime | AtTimes | Ago | OfGroup


def moves(start: Start, *, latest_on_no_match: bool) -> bool:
    """Whether asking again later may give a later position, so that records in between would be lost.

    A stream's first position is asked again when the first batch failed; see docs/decisions on pinning it.
    """
    match start:
        case Latest() | Ago() | OfGroup():
            return True
        case Explicit(offsets):
            return LATEST in offsets.values()
        case AtTime() | AtTimes():
            return latest_on_no_match
        case _:
            return False
