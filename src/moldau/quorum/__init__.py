"""KRaft as a pure step machine: it decides who leads the metadata log, what of it is committed, and who must truncate.

``step(quorum, event, at)`` returns the next state and an ordered list of effects, each finished before the next. It has
no I/O: the time and random bits arrive in ``At``. It reads only those records that decide who votes (KIP-853,
``changes.py``). Read next: ``state.py`` (the state of a replica), ``step.py`` (its events), ``laws.py`` (invariants).
"""

from moldau.quorum.election_state import ElectionState
from moldau.quorum.log_view import LogView, OffsetAndEpoch
from moldau.quorum.roles import Candidate, Follower, Leader, Progress, Prospective, Resigned, Role, Unattached
from moldau.quorum.state import At, Quorum, Timing
from moldau.quorum.step import deadline_ms, start, step
from moldau.quorum.voters import ReplicaKey, Voter, VoterEndpoint, VoterLog, VotersAt, VoterSet

__all__ = [
    "At",
    "Candidate",
    "ElectionState",
    "Follower",
    "Leader",
    "LogView",
    "OffsetAndEpoch",
    "Progress",
    "Prospective",
    "Quorum",
    "ReplicaKey",
    "Resigned",
    "Role",
    "Timing",
    "Unattached",
    "Voter",
    "VoterEndpoint",
    "VoterLog",
    "VoterSet",
    "VotersAt",
    "deadline_ms",
    "start",
    "step",
]
