"""The effects of a step, in order: the driver finishes each before it starts the next.

The exception is ``Sync``: it only requests a flush soon, so that one flush serves a whole turn of the driver's loop;
what depends on it waits in the machine for ``Flushed``. ``Persist`` is always first in its list (``step.py`` puts it
there).
"""

from __future__ import annotations

from moldau.model.named import NamedTuple
from moldau.quorum.election_state import ElectionState
from moldau.quorum.log_view import OffsetAndEpoch
from moldau.quorum.messages import (
    BatchSpan,
    Data,
    RaftFetchResponse,
    RaftRequest,
    RaftResponse,
    RaftSnapshotResponse,
    Token,
)
from moldau.quorum.voters import VoterSet


class Persist(NamedTuple):
    """Write the election state durably, before anything after it."""

    election: ElectionState


class AppendLeaderChange(NamedTuple):
    """Append the control record that opens ``epoch``, at ``offset``; with ``voter_set`` two more, in the same batch:
    kraft.version 1 and the set (KIP-853: the first leader copies it from the checkpoint that formatting made)."""

    offset: int
    epoch: int
    leader: int
    voters: tuple[int, ...]
    granted: tuple[int, ...]
    voter_set: VoterSet | None = None


class AppendVoters(NamedTuple):
    """Append a voter set at ``offset``, as leader of ``epoch``; with ``upgrades`` after a record for kraft.version 1.

    ``offset`` is that of the set itself: the batch begins one before it when it upgrades.
    """

    offset: int
    epoch: int
    voters: VoterSet
    upgrades: bool = False


class AppendProposed(NamedTuple):
    """Append a proposal's records as leader of ``epoch``, the first at ``offset``."""

    offset: int
    epoch: int
    number: int
    data: Data


class AppendFetched(NamedTuple):
    """Append fetched batches verbatim."""

    spans: tuple[BatchSpan, ...]
    data: Data


class Truncate(NamedTuple):
    """Cut the log: ``end`` is its new end offset. Durable before the next effect."""

    end: int


class Sync(NamedTuple):
    """Flush the log soon and report ``Flushed``."""


class SendRequest(NamedTuple):
    """Send a request to a peer (a voter)."""

    peer: int
    request: RaftRequest


class SendResponse(NamedTuple):
    """Send the response to the request of ``token``."""

    token: Token
    answer: RaftResponse


class ServeRecords(NamedTuple):
    """Answer a fetch with the batches in [start, end), as many as fit (at least one)."""

    token: Token
    answer: RaftFetchResponse
    start: int
    end: int


class ServeSnapshot(NamedTuple):
    """Answer with a piece of a snapshot from ``answer.position``; the driver fills size, length and data."""

    token: Token
    answer: RaftSnapshotResponse


class WriteChunk(NamedTuple):
    """Keep a piece of a snapshot that is being fetched."""

    snapshot: OffsetAndEpoch
    position: int
    data: Data


class InstallSnapshot(NamedTuple):
    """The snapshot is whole: make it durable, restart the log after it, have the listener load it."""

    snapshot: OffsetAndEpoch


class Trim(NamedTuple):
    """The log may start at ``start`` now; snapshots that end below it may be deleted."""

    start: int


class Commit(NamedTuple):
    """Everything below ``high_watermark`` is committed: deliver it."""

    high_watermark: int


class BecameActive(NamedTuple):
    """This replica leads ``epoch`` and its first record is committed: the controller may decide (R6)."""

    epoch: int


class LostActive(NamedTuple):
    """This replica no longer leads ``epoch``; what was proposed in it and not committed is void here."""

    epoch: int


class Closed(NamedTuple):
    """Nothing is left to do: this node may shut down."""


Effect = (
    Persist
    | AppendLeaderChange
    | AppendVoters
    | AppendProposed
    | AppendFetched
    | Truncate
    | Sync
    | SendRequest
    | SendResponse
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
