"""Everything that can happen to a replica of the metadata log. Facts only; ``At`` (state.py) adds time and chance to
each.

The driver reports each ask it sent exactly once: ``Answered``, ``Refused`` or ``Unreachable``.
"""

from __future__ import annotations

from typing import Any

from moldau.model.named import NamedTuple
from moldau.quorum.log_view import OffsetAndEpoch
from moldau.quorum.messages import Answer, Ask, ChangeAsk


class Tick(NamedTuple):
    """Time has passed (a deadline, or any moment)."""


class Asked(NamedTuple):
    """A peer (or, to change the voters, an administrator) asks; the answer goes back by ``token``."""

    token: Any
    ask: Ask | ChangeAsk


class Answered(NamedTuple):
    """``peer`` answered what we asked."""

    peer: int
    ask: Ask
    answer: Answer


class Unreachable(NamedTuple):
    """No answer will come: the connection broke, or the request timed out."""

    peer: int
    ask: Ask


class Refused(NamedTuple):
    """The peer's host is up and nobody listens there: its process is dead."""

    peer: int
    ask: Ask


class Propose(NamedTuple):
    """Append ``number`` records (opaque ``data``, one atomic batch) if we still lead ``epoch`` and it is active."""

    epoch: int
    number: int
    data: Any = None


class Flushed(NamedTuple):
    """Everything below ``end`` is on disk."""

    end: int


class SnapshotTaken(NamedTuple):
    """The state machine's own snapshot is on disk; the log may begin at ``begin``, where an older one ends (at the one
    before it, when not said)."""

    snapshot: OffsetAndEpoch
    begin: int | None = None


class Resign(NamedTuple):
    """Give leadership of ``epoch`` up (the state machine cannot go on)."""

    epoch: int


class ShutDown(NamedTuple):
    """Leave in good order: hand leadership over, then ``Closed``."""


Event = Tick | Asked | Answered | Unreachable | Refused | Propose | Flushed | SnapshotTaken | Resign | ShutDown
