"""Transitions between roles: how each role starts, and what is due to others when one ends. Others decide *whether*.

A vote and a known leader are kept inside an epoch and dropped only with it. Callers: ``election.py``, ``leader.py``,
``follower.py``, ``step.py``.
"""

from __future__ import annotations

from moldau.model import Code
from moldau.quorum import effects as do
from moldau.quorum.messages import EndEpochRequest, RaftFetchResponse, RaftVoteRequest, VoterChangeResponse
from moldau.quorum.roles import Candidate, Follower, Leader, Progress, Prospective, Resigned, Role, Unattached
from moldau.quorum.state import StepContext
from moldau.quorum.tally import won
from moldau.quorum.voters import ReplicaKey


def become_unattached(context: StepContext, epoch: int, deadline_ms: int | None = None) -> None:
    """Enter ``epoch`` without a leader; a voter stands at ``deadline_ms``, by default an election timeout from now."""
    role = context.role
    voted, leader = _kept(context, epoch)
    # A voter looks for the leader too if it can: all voters that its log knows may have been replaced meanwhile.
    discover_at_ms = context.at.now_ms + context.timing.retry_backoff_ms
    if not context.quorum.may_stand:
        _enter(
            context, Unattached(epoch, voted, leader, discover_at_ms=discover_at_ms, discovering=context.at.random_bits)
        )
        return
    if deadline_ms is None and isinstance(role, Unattached | Prospective | Candidate):
        # An election already waited for is not waited for again: a newer epoch without a leader must not push ours
        # away.
        deadline_ms = role.deadline_ms
    if deadline_ms is None:
        deadline_ms = context.election_deadline_ms()
    discovers = discover_at_ms if context.quorum.bootstrap else None
    _enter(context, Unattached(epoch, voted, leader, deadline_ms, discovers, context.at.random_bits))


def become_follower(context: StepContext, epoch: int, leader: int) -> None:
    """Fetch from ``leader``."""
    voted, _ = _kept(context, epoch)
    deadline_ms = context.at.now_ms + context.timing.fetch_timeout_ms
    _enter(context, Follower(epoch, voted, leader, deadline_ms, retry_at_ms=context.at.now_ms))


def become_prospective(context: StepContext, retries: int = 0) -> None:
    """Send pre-vote requests (KIP-996); a sole voter just stands."""
    quorum, role = context.quorum, context.role
    others = quorum.voters.others(quorum.me)
    if not others:
        become_candidate(context, retries)
        return
    deadline_ms = context.election_deadline_ms()
    _enter(
        context,
        Prospective(
            role.epoch, role.voted, role.leader, deadline_ms, granted=frozenset({quorum.me.id}), retries=retries
        ),
    )
    send_vote_requests(context, tuple(voter.key.id for voter in others))


def become_candidate(context: StepContext, retries: int = 0, epoch: int | None = None) -> None:
    """Stand and vote for itself in a new epoch, or (at start) again in the one of its persisted vote."""
    quorum = context.quorum
    epoch = context.role.epoch + 1 if epoch is None else epoch
    granted = frozenset({quorum.me.id})
    voted = _kept(context, epoch)[0] or quorum.as_voted(quorum.me)
    _enter(context, Candidate(epoch, voted, context.election_deadline_ms(), granted=granted, retries=retries))
    if won(granted, quorum.voters.ids):
        become_leader(context)
        return
    send_vote_requests(context, tuple(voter.key.id for voter in quorum.voters.others(quorum.me)))


def send_vote_requests(context: StepContext, peers: tuple[int, ...]) -> None:
    """Send vote or pre-vote requests to these voters, by the present role."""
    quorum, role = context.quorum, context.role
    pre_vote = isinstance(role, Prospective)
    keys = {voter.key.id: voter.key for voter in quorum.voters.voters}
    for peer in peers:
        context.emit(
            do.SendRequest(peer, RaftVoteRequest(role.epoch, quorum.me, keys[peer], quorum.log.last, pre_vote))
        )


def become_leader(context: StepContext) -> None:
    """Open the epoch with a LeaderChange record: a record of this epoch to commit, without waiting for a proposal.

    A voter set that only our checkpoint knows goes into the log here, for those that will not have the checkpoint.
    """
    quorum, role, now_ms = context.quorum, context.role, context.at.now_ms
    assert isinstance(role, Candidate), f"only a candidate is elected, not {role}"
    start = quorum.log.end
    voters = {
        voter.key.id: Progress(voter.key, now_ms, begin_at_ms=now_ms) for voter in quorum.voters.others(quorum.me)
    }
    _enter(context, Leader(role.epoch, role.voted, quorum.me.id, start, voters))
    granted = tuple(sorted(role.granted))
    unwritten = quorum.voters if quorum.voter_log.entries and quorum.voter_log.offset < 0 else None
    context.emit(do.AppendLeaderChange(start, role.epoch, quorum.me.id, quorum.voters.ids, granted, unwritten))
    context.update(log=quorum.log.appended(start + (1 if unwritten is None else 3), role.epoch))
    if unwritten is not None:
        context.appended_voters(start + 2, unwritten)
    context.emit(do.Sync())


def become_resigned(context: StepContext) -> None:
    """Resign and send EndQuorumEpoch to the voters, the one with the longest log first among the successors."""
    role = context.leader_role
    best_first = sorted(role.voters.values(), key=lambda voter: (-voter.end_offset, voter.key.id))
    successors = tuple(voter.key for voter in best_first)
    untold = frozenset(role.voters)
    deadline_ms = context.election_deadline_ms()
    _enter(context, Resigned(role.epoch, role.voted, role.leader, deadline_ms, successors, untold))
    for voter in best_first:
        context.emit(do.SendRequest(voter.key.id, EndEpochRequest(role.epoch, role.leader, successors)))


def learn(context: StepContext, epoch: int, leader: int | None) -> None:
    """Adopt a peer's epoch and leader: a newer epoch always, a leader only where none is known here."""
    quorum, role = context.quorum, context.role
    if epoch < role.epoch:
        return
    if leader == quorum.me.id or (quorum.has_fixed_voters and leader not in quorum.voters.ids):
        # The peer names this replica, which does not know it (a wiped disk), or one that is no voter: the epoch counts,
        # not the name. Where the log decides who votes, it may not have a voter's name yet (KIP-853).
        leader = None
    if epoch > role.epoch:
        if leader is None:
            become_unattached(context, epoch)
        else:
            become_follower(context, epoch, leader)
    elif leader is not None and (role.leader is None or (isinstance(role, Unattached) and role.leader == leader)):
        become_follower(context, epoch, leader)


def _kept(context: StepContext, epoch: int) -> tuple[ReplicaKey | None, int | None]:
    """Return the vote and the leader to keep in ``epoch``."""
    role = context.role
    assert epoch >= role.epoch, f"epoch {role.epoch} would go back to {epoch}"
    return (role.voted, role.leader) if role.epoch == epoch else (None, None)


def _enter(context: StepContext, role: Role) -> None:
    """Leave the present role, answer what it left open, and take ``role``."""
    left = context.role
    if isinstance(left, Leader):
        if left.high_watermark is not None:
            context.emit(do.LostActive(left.epoch))
        context.update(role=role)
        if left.change is not None:
            message = "This node leads the quorum no more."
            response = VoterChangeResponse(Code.NOT_LEADER_OR_FOLLOWER, role.epoch, context.quorum.leader, message)
            context.emit(do.SendResponse(left.change.token, response))
        for parked in left.parked:
            context.emit(
                do.SendResponse(
                    parked.token, RaftFetchResponse(Code.NOT_LEADER_OR_FOLLOWER, role.epoch, context.quorum.leader)
                )
            )
    else:
        context.update(role=role)
