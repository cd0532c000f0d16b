"""Requests and responses between replicas, as values (``RaftVoteRequest``: a Vote request; ``RaftVoteResponse``: its
response).

And the requests by which administrators, and voters that have moved, have the leader change the voter set. These values
are not wire messages: the plane translates from and to the wire (Vote 52, BeginQuorumEpoch 53, EndQuorumEpoch 54,
Fetch 1, FetchSnapshot 59; AddRaftVoter 80, RemoveRaftVoter 81, UpdateRaftVoter 82) and checks the cluster id there.
Every response carries its sender's epoch and leader.
"""

from __future__ import annotations

from typing import Any

from moldau.model import Code
from moldau.model.named import NamedTuple
from moldau.quorum.log_view import OffsetAndEpoch
from moldau.quorum.voters import ReplicaKey, Voter, VotersAt, VoterSet

Token = Any  # Any: the driver's own handle on who waits for a response; handed back to it as it came
Data = Any  # Any: records or bytes of a snapshot, which nothing here looks into; the machines' worlds use other values


class BatchSpan(NamedTuple):
    """A record batch seen from outside: offsets ``[base, next)``, all written in ``epoch``."""

    base: int
    next: int
    epoch: int


class RaftVoteRequest(NamedTuple):
    """Vote for ``candidate`` in ``epoch``; with ``pre_vote`` (KIP-996) only the question, in the present epoch."""

    epoch: int
    candidate: ReplicaKey
    voter: ReplicaKey
    last: OffsetAndEpoch
    pre_vote: bool


class RaftVoteResponse(NamedTuple):
    code: Code
    epoch: int
    leader: int | None
    granted: bool


class BeginEpochRequest(NamedTuple):
    """``leader`` leads ``epoch``: follow it (BeginQuorumEpoch)."""

    epoch: int
    leader: int
    voter: ReplicaKey


class BeginEpochResponse(NamedTuple):
    code: Code
    epoch: int
    leader: int | None


class EndEpochRequest(NamedTuple):
    """``leader`` gives ``epoch`` up; the successors are those it prefers, best first (EndQuorumEpoch)."""

    epoch: int
    leader: int
    successors: tuple[ReplicaKey, ...]


class EndEpochResponse(NamedTuple):
    code: Code
    epoch: int
    leader: int | None


class RaftFetchRequest(NamedTuple):
    """Records from ``at.offset``, to a log whose last record is of ``at.epoch``.

    A voter fetches only at an offset it has flushed: the request is also its acknowledgement. ``high_watermark`` is
    what the sender knows (KIP-1166), -1 where the protocol version does not have it.
    """

    serial: int
    replica: ReplicaKey
    epoch: int
    at: OffsetAndEpoch
    max_wait_ms: int
    high_watermark: int = -1


class RaftFetchResponse(NamedTuple):
    """``high_watermark`` -1: not exposed yet. At most one of diverging, snapshot and spans; ``data`` is opaque but for
    the voter sets that it decides, in ``voters``."""

    code: Code
    epoch: int
    leader: int | None
    high_watermark: int = -1
    log_start: int = -1
    diverging: OffsetAndEpoch | None = None
    snapshot: OffsetAndEpoch | None = None
    spans: tuple[BatchSpan, ...] = ()
    data: Data = None
    voters: tuple[VotersAt, ...] = ()


class RaftSnapshotRequest(NamedTuple):
    """Bytes of a snapshot from ``position`` (FetchSnapshot)."""

    serial: int
    replica: ReplicaKey
    epoch: int
    snapshot: OffsetAndEpoch
    position: int


class RaftSnapshotResponse(NamedTuple):
    """``length`` bytes of ``data`` from ``position`` of a snapshot of ``size`` bytes; the last piece comes with the
    voter set of the snapshot, if it has one."""

    code: Code
    epoch: int
    leader: int | None
    snapshot: OffsetAndEpoch = OffsetAndEpoch(-1, -1)
    size: int = 0
    position: int = 0
    length: int = 0
    data: Data = None
    voters: VoterSet | None = None


class AddVoterRequest(NamedTuple):
    """Let ``voter`` vote, as soon as it has caught up (AddRaftVoter)."""

    voter: Voter
    timeout_ms: int
    ack_when_committed: bool = True


class RemoveVoterRequest(NamedTuple):
    """Let this voter vote no more (RemoveRaftVoter)."""

    key: ReplicaKey
    timeout_ms: int


class UpdateVoterRequest(NamedTuple):
    """``voter`` listens elsewhere now, or speaks other versions (UpdateRaftVoter)."""

    epoch: int
    voter: Voter


class UpgradeVotersRequest(NamedTuple):
    """Write the static voters into the log, where they can be changed (kraft.version 1)."""

    timeout_ms: int
    own: Voter


class VoterChangeResponse(NamedTuple):
    code: Code
    epoch: int
    leader: int | None
    message: str | None = None


VoterChangeRequest = AddVoterRequest | RemoveVoterRequest | UpdateVoterRequest | UpgradeVotersRequest
RaftRequest = RaftVoteRequest | BeginEpochRequest | EndEpochRequest | RaftFetchRequest | RaftSnapshotRequest
RaftResponse = (
    RaftVoteResponse
    | BeginEpochResponse
    | EndEpochResponse
    | RaftFetchResponse
    | RaftSnapshotResponse
    | VoterChangeResponse
)
