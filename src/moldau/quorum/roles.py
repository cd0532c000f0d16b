"""The roles of Kafka's Raft, each a frozen class that owns its state: what is forgotten with the role is held by it.

Every role can say its epoch, the leader it knows and the vote it gave in that epoch: that is what ``quorum-state``
keeps. The vote and the leader survive every move inside an epoch (a vote forgotten is a second leader). Moves are in
``election.py``, ``leader.py`` and ``follower.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.model import NO_UUID
from moldau.model.value import field, value
from moldau.quorum.log_view import OffsetAndEpoch
from moldau.quorum.messages import ChangeAsk, FetchAsk
from moldau.quorum.voters import ReplicaKey


@value
class Unattached:
    """Follows nobody. With a vote it is Kafka's Voted. An observer has no deadline: it looks for the leader."""

    epoch: int
    voted: ReplicaKey | None = None
    leader: int | None = None
    deadline_ms: int | None = None
    discover_at_ms: int | None = None
    discovering: int = 0


@value
class Prospective:
    """Asks whether it would win before disturbing anybody (pre-vote, KIP-996); the epoch is not its own yet."""

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
    """Voted for itself in an epoch of its own. ``retry_at_ms``: lost, and waiting before it asks around again."""

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

    ``begin_at_ms``: when to announce ourselves to this voter (again); None while an announcement is under way.
    ``directory_id``: what it said itself; a voter set by hand has none in its key.
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
class Change:
    """A change of the voter set under way. ``offset`` None: the new voter is still catching up."""

    token: Any
    ask: ChangeAsk
    deadline_ms: int
    offset: int | None = None


@value
class Parked:
    """A fetch that waits for news until ``deadline_ms``."""

    token: Any
    ask: FetchAsk
    deadline_ms: int


@value
class Leader:
    """Leads ``epoch`` from ``start_offset``, where its LeaderChange record stands. ``voters`` are the others, by id.

    ``high_watermark`` None: nothing of this epoch is committed, so nothing is exposed and nobody may decide (R6).
    """

    epoch: int
    voted: ReplicaKey
    leader: int
    start_offset: int
    voters: Mapping[int, Progress]
    observers: Mapping[ReplicaKey, Progress] = field(default_factory=dict)
    parked: tuple[Parked, ...] = ()
    high_watermark: int | None = None
    change: Change | None = None


@value
class Loading:
    """A snapshot under way, and the next byte wanted."""

    snapshot: OffsetAndEpoch
    position: int = 0


@value
class Follower:
    """Fetches from ``leader``, one ask at a time.

    ``heard``: the leader has answered a fetch in this epoch, so pre-votes are refused. ``stand_at_ms``: the leader's
    process is gone, stand then; and grant pre-votes meanwhile. ``bids``: how often we stood in vain since.
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
    """Led ``epoch`` and never will again. Tells the voters in ``untold`` until the deadline."""

    epoch: int
    voted: ReplicaKey | None
    leader: int
    deadline_ms: int
    successors: tuple[ReplicaKey, ...] = ()
    untold: frozenset[int] = frozenset()
    failed: frozenset[int] = frozenset()
    resend_at_ms: int | None = None


Role = Unattached | Prospective | Candidate | Leader | Follower | Resigned
