"""What a replica wants done, in order: each effect is finished before the next one starts.

The exception is ``Sync``: it only asks for a flush soon, so that one flush serves a whole turn of the driver's loop;
what depends on it waits in the machine for ``Flushed``. ``Persist`` is always first in its list (``step.py`` puts it
there).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from moldau.quorum.log_view import OffsetAndEpoch
from moldau.quorum.messages import Answer, Ask, BatchSpan, FetchAnswer, SnapshotAnswer
from moldau.quorum.state import ElectionState


@dataclass(frozen=True, slots=True)
class Persist:
    """Write the election state durably (KR-2), before anything after it."""

    election: ElectionState


@dataclass(frozen=True, slots=True)
class AppendLeaderChange:
    """Append the control record that opens ``epoch``, at ``offset``."""

    offset: int
    epoch: int
    leader: int
    voters: tuple[int, ...]
    granted: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AppendProposed:
    """Append a proposal's records as leader of ``epoch``, the first at ``offset``."""

    offset: int
    epoch: int
    count: int
    data: Any


@dataclass(frozen=True, slots=True)
class AppendFetched:
    """Append fetched batches verbatim."""

    spans: tuple[BatchSpan, ...]
    data: Any


@dataclass(frozen=True, slots=True)
class Truncate:
    """Cut the log: ``end`` is its new end offset. Durable before the next effect."""

    end: int


@dataclass(frozen=True, slots=True)
class Sync:
    """Flush the log soon and report ``Flushed``."""


@dataclass(frozen=True, slots=True)
class SendAsk:
    """Ask a peer (a voter)."""

    peer: int
    ask: Ask


@dataclass(frozen=True, slots=True)
class SendAnswer:
    """Answer the ask of ``token``."""

    token: Any
    answer: Answer


@dataclass(frozen=True, slots=True)
class ServeRecords:
    """Answer a fetch with the batches in [start, end), as many as fit (at least one)."""

    token: Any
    answer: FetchAnswer
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ServeSnapshot:
    """Answer with a piece of a snapshot from ``answer.position``; the driver fills size, length and data."""

    token: Any
    answer: SnapshotAnswer


@dataclass(frozen=True, slots=True)
class WriteChunk:
    """Keep a piece of a snapshot that is being fetched."""

    snapshot: OffsetAndEpoch
    position: int
    data: Any


@dataclass(frozen=True, slots=True)
class InstallSnapshot:
    """The snapshot is whole: make it durable, restart the log after it, tell the listener to load it."""

    snapshot: OffsetAndEpoch


@dataclass(frozen=True, slots=True)
class Trim:
    """The log may start at ``start`` now; snapshots that end below it may go."""

    start: int


@dataclass(frozen=True, slots=True)
class Commit:
    """Everything below ``high_watermark`` is agreed: deliver it."""

    high_watermark: int


@dataclass(frozen=True, slots=True)
class BecameActive:
    """We lead ``epoch`` and its first record is committed: the state machine may decide (R6)."""

    epoch: int


@dataclass(frozen=True, slots=True)
class LostActive:
    """We no longer lead ``epoch``; what was proposed in it and not committed is void here."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Closed:
    """Nothing is left to do before this node goes."""


Effect = (
    Persist
    | AppendLeaderChange
    | AppendProposed
    | AppendFetched
    | Truncate
    | Sync
    | SendAsk
    | SendAnswer
    | ServeRecords
    | ServeSnapshot
    | WriteChunk
    | InstallSnapshot
    | Trim
    | Commit
    | BecameActive
    | LostActive
    | Closed
)
