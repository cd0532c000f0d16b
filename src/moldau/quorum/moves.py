"""Moving from role to role: what each role starts with, what leaving one owes to others. Nothing here decides
*whether* to move.

A vote and a known leader are carried along inside an epoch and dropped only with it. Who calls:
``election.py``, ``leader.py``, ``follower.py``, ``step.py``.
"""

from __future__ import annotations

from moldau.model import Code
from moldau.quorum import effects as do
from moldau.quorum.messages import ChangeAnswer, EndAsk, FetchAnswer, VoteAsk
from moldau.quorum.roles import Candidate, Follower, Leader, Progress, Prospective, Resigned, Role, Unattached
from moldau.quorum.state import Turn
from moldau.quorum.tally import won
from moldau.quorum.voters import ReplicaKey


def become_unattached(turn: Turn, epoch: int, deadline_ms: int | None = None) -> None:
    """Follow nobody in ``epoch``; a voter stands at ``deadline_ms``, by default an election timeout from now."""
    role = turn.role
    voted, leader = _kept(turn, epoch)
    # Who votes asks around too if it can: all the voters that its log knows may have been replaced while it was down.
    discover_at_ms = turn.at.now_ms + turn.timing.retry_backoff_ms
    if not turn.quorum.may_stand:
        _enter(turn, Unattached(epoch, voted, leader, discover_at_ms=discover_at_ms, discovering=turn.at.chance))
        return
    if deadline_ms is None and isinstance(role, Unattached | Prospective | Candidate):
        # An election already waited for is not waited for again: a newer epoch without a leader must not push ours
        # away.
        deadline_ms = role.deadline_ms
    if deadline_ms is None:
        deadline_ms = turn.election_timeout()
    discovers = discover_at_ms if turn.quorum.bootstrap else None
    _enter(turn, Unattached(epoch, voted, leader, deadline_ms, discovers, turn.at.chance))


def become_follower(turn: Turn, epoch: int, leader: int) -> None:
    """Fetch from ``leader``."""
    voted, _ = _kept(turn, epoch)
    deadline_ms = turn.at.now_ms + turn.timing.fetch_timeout_ms
    _enter(turn, Follower(epoch, voted, leader, deadline_ms, retry_at_ms=turn.at.now_ms))


def become_prospective(turn: Turn, retries: int = 0) -> None:
    """Ask the voters whether they would vote for us (KIP-996); alone, just stand."""
    quorum, role = turn.quorum, turn.role
    others = quorum.voters.others(quorum.me)
    if not others:
        become_candidate(turn, retries)
        return
    deadline_ms = turn.election_timeout()
    _enter(
        turn,
        Prospective(
            role.epoch, role.voted, role.leader, deadline_ms, granted=frozenset({quorum.me.id}), retries=retries
        ),
    )
    ask_votes(turn, tuple(voter.key.id for voter in others))


def become_candidate(turn: Turn, retries: int = 0, epoch: int | None = None) -> None:
    """Vote for ourselves in a new epoch, or (at start) again in the one we had voted in."""
    quorum = turn.quorum
    epoch = turn.role.epoch + 1 if epoch is None else epoch
    granted = frozenset({quorum.me.id})
    _enter(turn, Candidate(epoch, quorum.me, turn.election_timeout(), granted=granted, retries=retries))
    if won(granted, quorum.voters.ids):
        become_leader(turn)
        return
    ask_votes(turn, tuple(voter.key.id for voter in quorum.voters.others(quorum.me)))


def ask_votes(turn: Turn, peers: tuple[int, ...]) -> None:
    """Ask these voters for a vote, or a pre-vote, as the role has it."""
    quorum, role = turn.quorum, turn.role
    pre_vote = isinstance(role, Prospective)
    keys = {voter.key.id: voter.key for voter in quorum.voters.voters}
    for peer in peers:
        turn.say(do.SendAsk(peer, VoteAsk(role.epoch, quorum.me, keys[peer], quorum.log.last, pre_vote)))


def become_leader(turn: Turn) -> None:
    """Open the epoch with a LeaderChange record: something of our own to commit, without waiting for work.

    A voter set that only our checkpoint knows goes into the log here, for those that will not have the checkpoint.
    """
    quorum, role, now_ms = turn.quorum, turn.role, turn.at.now_ms
    assert isinstance(role, Candidate), f"only a candidate is elected, not {role}"
    start = quorum.log.end
    voters = {
        voter.key.id: Progress(voter.key, now_ms, begin_at_ms=now_ms) for voter in quorum.voters.others(quorum.me)
    }
    _enter(turn, Leader(role.epoch, quorum.me, quorum.me.id, start, voters))
    granted = tuple(sorted(role.granted))
    unwritten = quorum.voters if quorum.voter_log.entries and quorum.voter_log.offset < 0 else None
    turn.say(do.AppendLeaderChange(start, role.epoch, quorum.me.id, quorum.voters.ids, granted, unwritten))
    turn.put(log=quorum.log.appended(start + (1 if unwritten is None else 3), role.epoch))
    if unwritten is not None:
        turn.appended_voters(start + 2, unwritten)
    turn.say(do.Sync())


def become_resigned(turn: Turn) -> None:
    """Give leadership up and tell the voters, the one with the longest log first among the successors."""
    role = turn.role
    assert isinstance(role, Leader), f"only a leader resigns, not {role}"
    best_first = sorted(role.voters.values(), key=lambda voter: (-voter.end_offset, voter.key.id))
    successors = tuple(voter.key for voter in best_first)
    untold = frozenset(role.voters)
    deadline_ms = turn.election_timeout()
    _enter(turn, Resigned(role.epoch, turn.quorum.me, role.leader, deadline_ms, successors, untold))
    for voter in best_first:
        turn.say(do.SendAsk(voter.key.id, EndAsk(role.epoch, role.leader, successors)))


def learn(turn: Turn, epoch: int, leader: int | None) -> None:
    """Take in what a peer knows of epoch and leader: a newer epoch always, a leader only where we know none."""
    quorum, role = turn.quorum, turn.role
    if epoch < role.epoch:
        return
    if leader == quorum.me.id or (quorum.has_fixed_voters and leader not in quorum.voters.ids):
        # Told that we led an epoch we know nothing of (a wiped disk), or of a stranger: the epoch counts, the name
        # does not. Where the log decides who votes, a name that it does not have yet is no stranger's (KIP-853).
        leader = None
    if epoch > role.epoch:
        if leader is None:
            become_unattached(turn, epoch)
        else:
            become_follower(turn, epoch, leader)
    elif leader is not None and (role.leader is None or (isinstance(role, Unattached) and role.leader == leader)):
        become_follower(turn, epoch, leader)


def _kept(turn: Turn, epoch: int) -> tuple[ReplicaKey | None, int | None]:
    """The vote and the leader to carry into ``epoch``."""
    role = turn.role
    assert epoch >= role.epoch, f"epoch {role.epoch} would go back to {epoch}"
    return (role.voted, role.leader) if role.epoch == epoch else (None, None)


def _enter(turn: Turn, role: Role) -> None:
    """Leave the present role, paying what it owes, and take ``role``."""
    left = turn.role
    if isinstance(left, Leader):
        if left.high_watermark is not None:
            turn.say(do.LostActive(left.epoch))
        turn.put(role=role)
        if left.change is not None:
            message = "This node leads the quorum no more."
            answer = ChangeAnswer(Code.NOT_LEADER_OR_FOLLOWER, role.epoch, turn.quorum.leader, message)
            turn.say(do.SendAnswer(left.change.token, answer))
        for parked in left.parked:
            turn.say(
                do.SendAnswer(parked.token, FetchAnswer(Code.NOT_LEADER_OR_FOLLOWER, role.epoch, turn.quorum.leader))
            )
    else:
        turn.put(role=role)
