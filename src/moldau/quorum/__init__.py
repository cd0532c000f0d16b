"""KRaft as a pure step machine: who leads the metadata log, what of it is committed, who must truncate or load a
snapshot.

``step(quorum, event, at) -> (quorum, effects)``. It knows nothing of what records mean and touches nothing: time and
chance arrive in ``At``, deeds leave as an ordered list of effects, each finished before the next. Dynamic voter
changes (KIP-853) are not done; a voter set is a value with room for them. Read on: ``state.py`` (what a node is),
``step.py`` (what happens to it), ``laws.py`` (what must never be).
"""

from moldau.quorum.log_view import LogView, OffsetAndEpoch
from moldau.quorum.roles import Candidate, Follower, Leader, Progress, Prospective, Resigned, Role, Unattached
from moldau.quorum.state import At, ElectionState, Quorum, Timing
from moldau.quorum.step import deadline_ms, start, step
from moldau.quorum.voters import ReplicaKey, Voter, VoterSet

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
    "VoterSet",
    "deadline_ms",
    "start",
    "step",
]
