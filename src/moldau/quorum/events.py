"""The events of a replica of the metadata log: facts only; ``At`` (state.py) adds time and random bits to each.

The driver reports the outcome of each request that it sent exactly once: ``ResponseReceived``, ``ConnectionRefused`` or
``Unreachable``.
"""

from __future__ import annotations

from moldau.model.named import NamedTuple
from moldau.quorum.log_view import OffsetAndEpoch
from moldau.quorum.messages import Data, RaftRequest, RaftResponse, Token, VoterChangeRequest


class Tick(NamedTuple):
    """Time has passed (a deadline, or any moment)."""


class RequestReceived(NamedTuple):
    """A request of a peer (or an administrator, to change the voters) arrived; its response goes by ``token``."""

    token: Token
    request: RaftRequest | VoterChangeRequest


class ResponseReceived(NamedTuple):
    """The response of ``peer`` to a request arrived."""

    peer: int
    request: RaftRequest
    answer: RaftResponse


class Unreachable(NamedTuple):
    """No response will come: the connection broke, or the request timed out."""

    peer: int
    request: RaftRequest


class ConnectionRefused(NamedTuple):
    """The peer's host is up and refuses the connection: its process is dead."""

    peer: int
    request: RaftRequest


class Propose(NamedTuple):
    """Append ``number`` records (opaque ``data``, one atomic batch) if ``epoch`` is still led here and active."""

    epoch: int
    number: int
    data: Data = None


class Flushed(NamedTuple):
    """Everything below ``end`` is on disk."""

    end: int


class SnapshotTaken(NamedTuple):
    """The state machine's own snapshot is on disk; the log may begin at ``begin``, where an older one ends (by default
    the one before it)."""

    snapshot: OffsetAndEpoch
    begin: int | None = None


class Resign(NamedTuple):
    """Resign the leadership of ``epoch`` (the state machine cannot go on)."""

    epoch: int


class ShutDown(NamedTuple):
    """Shut down in order: hand leadership over, then ``Closed``."""


Event = (
    Tick
    | RequestReceived
    | ResponseReceived
    | Unreachable
    | ConnectionRefused
    | Propose
    | Flushed
    | SnapshotTaken
    | Resign
    | ShutDown
)
