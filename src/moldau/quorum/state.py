"""The state of one replica as a value, and the facts that come with every event.

``Quorum`` is what ``step`` folds events into. A ``StepContext`` lives for a single step: handlers update the state and
emit effects through it, and keep no reference to it. The rules are in ``step.py`` and the files it names.
"""

from __future__ import annotations

from typing import Any

from moldau.model.named import NamedTuple
from moldau.model.value import replace, value
from moldau.quorum.effects import Effect
from moldau.quorum.election_state import ElectionState
from moldau.quorum.log_view import LogView
from moldau.quorum.roles import Candidate, Leader, Prospective, Resigned, Role
from moldau.quorum.voters import ReplicaKey, VoterLog, VoterSet


class At(NamedTuple):
    """When an event happens (monotonic), and fresh random bits in [0, 2**30) for jitter."""

    now_ms: int
    random_bits: int


@value(kw_only=True)
class Timing:
    """How long a replica waits, in milliseconds. The defaults are Kafka's; fast death (docs/glossary.md) is ours."""

    election_timeout_ms: int = 1000  # controller.quorum.election.timeout.ms
    election_backoff_max_ms: int = 1000  # controller.quorum.election.backoff.max.ms
    fetch_timeout_ms: int = 2000  # controller.quorum.fetch.timeout.ms
    retry_backoff_ms: int = 20  # controller.quorum.retry.backoff.ms
    fetch_max_wait_ms: int = 500
    fast_death_backoff_ms: int = 50
    observer_session_timeout_ms: int = 300_000


@value(kw_only=True)
class Quorum:
    """A replica: who it is, its role, its log, and what it knows to be committed (that never goes back).

    ``voters`` is the newest set in the log, committed or not (KIP-853), ``voter_log`` those it follows.
    ``bootstrap``: how many addresses are known whose ids are not; they get requests as nodes -2, -3 and so on.
    """

    me: ReplicaKey
    voters: VoterSet
    role: Role
    timing: Timing = Timing()
    log: LogView = LogView()
    high_watermark: int = 0
    committed_before: int = 0
    """Up to where the log was committed before the start, as far as is on record; delivered only when a leader proves
    it."""
    flushes: bool = True
    """Whether it flushes before it fetches: every voter does, and every replica that may become one (KAFKA-17332)."""
    serial: int = 0
    closing: bool = False
    voter_log: VoterLog = VoterLog()
    bootstrap: int = 0

    @property
    def is_voter(self) -> bool:
        return self.voters.holds(self.me)

    @property
    def may_stand(self) -> bool:
        """Whether this node may stand: a voter, or one whose removal is not known to be committed.

        Of two voters the one being removed may alone hold the record that says so; if it did not stand, and commit it,
        no replica could (the other's log is shorter). Never one that has lost what was committed.
        """
        if self.lacks_committed and len(self.voters.voters) > 1:  # nobody else can have what a sole voter lost
            return False
        if self.is_voter:
            return True
        return self.voter_log.offset >= self.high_watermark and self.voter_log.before.holds(self.me)

    @property
    def lacks_committed(self) -> bool:
        """Whether the log ends below what is on record as committed: it was lost, and must come from a leader."""
        return self.log.end < self.committed_before

    @property
    def has_fixed_voters(self) -> bool:
        """Return whether the voters are static, the same everywhere (kraft.version 0)."""
        return bool(self.voters.voters) and not self.voter_log.entries

    @property
    def kraft_version(self) -> int:
        return 1 if self.voter_log.entries else 0

    def as_voted(self, candidate: ReplicaKey) -> ReplicaKey:
        """How a vote is kept: static voters are told apart by their ids alone, as their file is (version 0)."""
        return ReplicaKey(candidate.id) if self.has_fixed_voters else candidate

    @property
    def election(self) -> ElectionState:
        """Return what is persisted. A leader's vote is not, as in Kafka: it gives none in an epoch that it led."""
        role = self.role
        return ElectionState(role.epoch, role.leader, None if isinstance(role, Leader | Resigned) else role.voted)

    @property
    def leader(self) -> int | None:
        """Return the leader that responses name: a resigned or suspected one is not named."""
        return None if isinstance(self.role, Resigned | Prospective | Candidate) else self.role.leader

    @property
    def active_epoch(self) -> int | None:
        """Return the epoch in which this node may decide, if any (R6)."""
        role = self.role
        return role.epoch if isinstance(role, Leader) and role.high_watermark is not None else None


class StepContext:
    """The context of one step: the state so far and the effects so far."""

    __slots__ = ("at", "effects", "quorum")

    def __init__(self, quorum: Quorum, at: At) -> None:
        self.quorum = quorum
        self.at = at
        self.effects: list[Effect] = []

    @property
    def role(self) -> Role:
        return self.quorum.role

    @property
    def leader_role(self) -> Leader:
        """Return the role of a replica that leads, as the caller knows."""
        role = self.quorum.role
        assert isinstance(role, Leader), f"only a leader does this, not {role}"
        return role

    @property
    def candidate_role(self) -> Prospective | Candidate:
        """Return the role of a replica that asks for votes or pre-votes, as the caller knows."""
        role = self.quorum.role
        assert isinstance(role, Prospective | Candidate), f"only a candidate does this, not {role}"
        return role

    @property
    def timing(self) -> Timing:
        return self.quorum.timing

    def emit(self, effect: Effect) -> None:
        self.effects.append(effect)

    def update(self, **changes: Any) -> None:  # Any: each field's own type
        """Replace fields of the state."""
        self.quorum = replace(self.quorum, **changes)

    def appended_voters(self, offset: int, voters: VoterSet) -> None:
        """Count by a voter set from now on, which stands in the log at ``offset``."""
        past = self.quorum.voter_log.appended(offset, voters, self.quorum.voters)
        self.update(voter_log=past, voters=voters)

    def truncated_voters(self, end: int) -> None:
        """Take back the voter sets that the log decided from ``end`` on."""
        if self.quorum.voter_log.offset >= end:
            past = self.quorum.voter_log.truncated(end)
            self.update(voter_log=past, voters=past.current)

    def update_role(self, **changes: Any) -> None:  # Any: each field's own type
        """Replace fields of the present role."""
        self.quorum = replace(self.quorum, role=replace(self.quorum.role, **changes))

    def jitter_ms(self, below_ms: int) -> int:
        """Return this event's random bits, brought into [0, below_ms)."""
        return self.at.random_bits % below_ms if below_ms > 0 else 0

    def election_deadline_ms(self) -> int:
        """Return a deadline for an election: the timeout and up to as much again, so that ties break."""
        timeout_ms = self.timing.election_timeout_ms
        return self.at.now_ms + timeout_ms + self.jitter_ms(timeout_ms)

    def short_deadline_ms(self) -> int:
        """Return a random deadline soon: for standing when no leader is known."""
        return self.at.now_ms + 1 + self.jitter_ms(self.timing.fast_death_backoff_ms)
