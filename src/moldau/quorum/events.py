"""Everything that can happen to a replica of the metadata log. Facts only; ``At`` (state.py) adds time and chance to
each.

The driver reports each ask it sent exactly once: ``Answered``, ``Refused`` or ``Unreachable``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from moldau.quorum.log_view import OffsetAndEpoch
from moldau.quorum.messages import Answer, Ask


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed (a deadline, or any moment)."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A peer asks; the answer goes back by ``token``."""

    token: Any
    ask: Ask


@dataclass(frozen=True, slots=True)
class Answered:
    """``peer`` answered what we asked."""

    peer: int
    ask: Ask
    answer: Answer


@dataclass(frozen=True, slots=True)
class Unreachable:
    """No answer will come: the connection broke, or the request timed out."""

    peer: int
    ask: Ask


@dataclass(frozen=True, slots=True)
class Refused:
    """The peer's host is up and nobody listens there: its process is dead (KR-7)."""

    peer: int
    ask: Ask


@dataclass(frozen=True, slots=True)
class Propose:
    """Append ``count`` records (opaque ``data``, one atomic batch) if we still lead ``epoch`` and it is active."""

    epoch: int
    count: int
    data: Any = None


@dataclass(frozen=True, slots=True)
class Flushed:
    """Everything below ``end`` is on disk."""

    end: int


@dataclass(frozen=True, slots=True)
class SnapshotTaken:
    """The state machine's own snapshot is on disk."""

    snapshot: OffsetAndEpoch


@dataclass(frozen=True, slots=True)
class Resign:
    """Give leadership of ``epoch`` up (the state machine cannot go on)."""

    epoch: int


@dataclass(frozen=True, slots=True)
class ShutDown:
    """Leave in good order: hand leadership over, then ``Closed``."""


Event = Tick | Asked | Answered | Unreachable | Refused | Propose | Flushed | SnapshotTaken | Resign | ShutDown
