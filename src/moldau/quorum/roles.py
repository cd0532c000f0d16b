"""The roles of Kafka's Raft, each a frozen class that owns its state: what ends with the role is a field of it.

Every role has its epoch, the leader it knows and the vote it gave in that epoch: that is what ``quorum-state`` keeps.
The vote and the leader survive every transition inside an epoch (a forgotten vote makes a second leader). Transitions
are in ``moves.py``; ``election.py``, ``leader.py`` and ``follower.py`` decide on them.
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.model import NO_UUID
from moldau.model.value import field, value
from moldau.quorum.log_view import OffsetAndEpoch
from moldau.quorum.messages import RaftFetchRequest, Token, VoterChangeRequest
from moldau.quorum.voters import ReplicaKey


@value
class Unattached:
    """Follows no leader. With a vote it is Kafka's Voted. An observer has no deadline: it looks for the leader."""

    epoch: int
    voted: ReplicaKey | None = None
    leader: int | None = None
    deadline_ms: int | None = None
    discover_at_ms: int | None = None
    discovering: int = 0


@value
class Prospective:
    """Asks whether it would win before it disturbs a leader (pre-vote, KIP-996); the epoch is not its own yet."""

    epoch: int
    voted: ReplicaKey | None
    leader: int | None
    deadline_ms: int
    granted: frozenset[int] = frozenset()
    refused: frozenset[int] = frozenset()
    failed: frozenset[int] = frozenset()
    resend_at_ms: int | None = None
    retries: int = 0


@value
class Candidate:
    """Voted for itself in an epoch of its own. ``retry_at_ms``: it lost, and waits before it stands again."""

    epoch: int
    voted: ReplicaKey
    deadline_ms: int
    granted: frozenset[int] = frozenset()
    refused: frozenset[int] = frozenset()
    failed: frozenset[int] = frozenset()
    resend_at_ms: int | None = None
    retry_at_ms: int | None = None
    retries: int = 0
    leader: None = None


@value
class Progress:
    """What a leader knows of one replica. ``end_offset`` -1: it has not fetched in this epoch.

    ``begin_at_ms``: when to send BeginQuorumEpoch to this voter (again); None while one is in flight.
    ``directory_id``: what its requests say; a static voter has none in its key.
    """

    key: ReplicaKey
    last_fetch_ms: int
    end_offset: int = -1
    last_caught_up_ms: int = -1
    leader_end: int = -1
    told_high_watermark: int = -1
    begin_at_ms: int | None = None
    directory_id: bytes = NO_UUID


@value
class VoterChange:
    """A change of the voter set in progress. ``offset`` None: the new voter is still catching up."""

    token: Token
    request: VoterChangeRequest
    deadline_ms: int
    offset: int | None = None


@value
class Parked:
    """A fetch that waits for records until ``deadline_ms``."""

    token: Token
    request: RaftFetchRequest
    deadline_ms: int


@value
class Leader:
    """Leads ``epoch`` from ``start_offset``, where its LeaderChange record stands. ``voters`` are the others, by id.

    ``high_watermark`` None: nothing of this epoch is committed, so nothing is exposed or decided (R6).
    """

    epoch: int
    voted: ReplicaKey
    leader: int
    start_offset: int
    voters: Mapping[int, Progress]
    observers: Mapping[ReplicaKey, Progress] = field(default_factory=dict)
    parked: tuple[Parked, ...] = ()
    high_watermark: int | None = None
    change: VoterChange | None = None


@value
class Loading:
    """A snapshot that is being fetched, and the next byte wanted."""

    snapshot: OffsetAndEpoch
    position: int = 0


@value
class Follower:
    """Fetches from ``leader``, one request at a time.

    ``heard``: the leader has answered a fetch in this epoch, so pre-votes are refused. ``stand_at_ms``: the leader's
    process is gone, stand then; and grant pre-votes meanwhile. ``bids``: how often it stood in vain since.
    """

    epoch: int
    voted: ReplicaKey | None
    leader: int
    deadline_ms: int
    heard: bool = False
    in_flight: int | None = None
    failures: int = 0
    retry_at_ms: int = 0
    stand_at_ms: int | None = None
    loading: Loading | None = None
    bids: int = 0


@value
class Resigned:
    """Led ``epoch`` and never will again. Sends EndQuorumEpoch to the voters in ``untold`` until the deadline."""

    epoch: int
    voted: ReplicaKey | None
    leader: int
    deadline_ms: int
    successors: tuple[ReplicaKey, ...] = ()
    untold: frozenset[int] = frozenset()
    failed: frozenset[int] = frozenset()
    resend_at_ms: int | None = None


Role = Unattached | Prospective | Candidate | Leader | Follower | Resigned
