"""KRaft as a pure step machine: who leads the metadata log, what of it is committed, who must truncate or load a
snapshot.

``step(quorum, event, at) -> (quorum, effects)``. It knows nothing of what records mean and touches nothing: time and
chance arrive in ``At``, deeds leave as an ordered list of effects, each finished before the next. Of records it knows
only those that decide who votes (KIP-853, ``changes.py``). Read on: ``state.py`` (what a node is), ``step.py`` (what
happens to it), ``laws.py`` (what must never be).
"""

from moldau.quorum.log_view import LogView, OffsetAndEpoch
from moldau.quorum.roles import Candidate, Follower, Leader, Progress, Prospective, Resigned, Role, Unattached
from moldau.quorum.state import At, ElectionState, Quorum, Timing
from moldau.quorum.step import deadline_ms, start, step
from moldau.quorum.voters import Endpoint, ReplicaKey, Voter, VoterLog, VotersAt, VoterSet

__all__ = [
    "At",
    "Candidate",
    "ElectionState",
    "Endpoint",
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
    "VoterLog",
    "VoterSet",
    "VotersAt",
    "deadline_ms",
    "start",
    "step",
]
