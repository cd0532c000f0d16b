"""Elections: votes and pre-votes, their responses, when to stand; and BeginQuorumEpoch and EndQuorumEpoch.

A replica gives one vote an epoch, only to a voter whose log is at least as new as its own, and holds all that is on
record here as committed (decision 53); a pre-vote (KIP-996) binds no one, and a replica that still gets answers from
the leader refuses it. Where the log decides who votes (KIP-853) a controller votes when it is asked, whatever its own
log says: it may be the one whose addition its log does not have yet. ``step.py`` persists every vote before its
response.
"""

from __future__ import annotations

from moldau.model import Code
from moldau.model.backoff import backoff_ms
from moldau.quorum import effects as do
from moldau.quorum.messages import (
    BeginEpochRequest,
    BeginEpochResponse,
    EndEpochRequest,
    EndEpochResponse,
    RaftVoteRequest,
    RaftVoteResponse,
)
from moldau.quorum.moves import (
    become_candidate,
    become_follower,
    become_leader,
    become_prospective,
    become_unattached,
    learn,
    send_vote_requests,
)
from moldau.quorum.roles import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from moldau.quorum.state import Quorum, StepContext
from moldau.quorum.tally import lost, won


def handle_vote_request(context: StepContext, token: object, request: RaftVoteRequest) -> None:
    """Give, or refuse, a vote or a pre-vote."""
    code = _vote_refusal(context.quorum, request)
    granted = False
    if code is Code.NONE:
        learn(context, request.epoch, None)
        if request.pre_vote:
            granted = _would_vote(context, request)
            if granted:
                _yield_to_candidate(context)
        else:
            granted = _may_vote(context.quorum, request)
            if granted and context.role.voted is None:
                become_unattached(context, request.epoch, context.election_deadline_ms())
                context.update_role(voted=context.quorum.as_voted(request.candidate))
            elif not granted:
                _stand_instead(context, request)
    quorum = context.quorum
    context.emit(do.SendResponse(token, RaftVoteResponse(code, quorum.role.epoch, quorum.leader, granted)))


def _vote_refusal(quorum: Quorum, request: RaftVoteRequest) -> Code:
    if request.epoch < quorum.role.epoch:
        return Code.FENCED_LEADER_EPOCH
    newest = request.epoch if request.pre_vote else request.epoch - 1
    if request.last.offset < 0 or not 0 <= request.last.epoch <= newest:
        return Code.INVALID_REQUEST
    if not request.voter.fits(quorum.me):
        return Code.INVALID_VOTER_KEY
    if request.candidate.id == quorum.me.id or not quorum.flushes:
        return Code.INCONSISTENT_VOTER_SET
    if quorum.has_fixed_voters and not (quorum.is_voter and quorum.voters.holds(request.candidate)):
        return Code.INCONSISTENT_VOTER_SET
    return Code.NONE


def _log_is_as_new(quorum: Quorum, request: RaftVoteRequest) -> bool:
    mine = quorum.log.last
    if request.last.offset < quorum.committed_before:
        return False  # ours may have been lost, but what was committed is on record
    return (request.last.epoch, request.last.offset) >= (mine.epoch, mine.offset)


def _may_vote(quorum: Quorum, request: RaftVoteRequest) -> bool:
    """Whether a candidate may have the vote, also a second time: it asks before its log is flushed, and a power cut may
    have taken from it what it was voted for with. Where the id alone is kept it may be another disk's."""
    role = quorum.role
    free = role.leader is None if role.voted is None else role.voted.fits(request.candidate)
    return free and _log_is_as_new(quorum, request)


def _would_vote(context: StepContext, request: RaftVoteRequest) -> bool:
    role = context.role
    match role:
        case Leader():
            return False
        case Follower() if role.heard and role.stand_at_ms is None:
            return False
    return _log_is_as_new(context.quorum, request)


def _yield_to_candidate(context: StepContext) -> None:
    """Having granted a pre-vote, do not stand at once: two that stand together split the vote."""
    role = context.role
    later_ms = context.short_deadline_ms() + context.timing.fast_death_backoff_ms
    if isinstance(role, Follower) and role.stand_at_ms is not None:
        context.update_role(stand_at_ms=max(role.stand_at_ms, later_ms))
    elif isinstance(role, Unattached) and role.deadline_ms is not None:
        context.update_role(deadline_ms=max(role.deadline_ms, later_ms))


def _stand_instead(context: StepContext, request: RaftVoteRequest) -> None:
    """A candidate with an older log cannot win while this replica lives: stand soon, without a whole timeout."""
    role = context.role
    if isinstance(role, Unattached) and role.deadline_ms is not None and not _log_is_as_new(context.quorum, request):
        context.update_role(deadline_ms=min(role.deadline_ms, context.short_deadline_ms()))


def handle_vote_response(context: StepContext, peer: int, request: RaftVoteRequest, response: RaftVoteResponse) -> None:
    """Count the vote, if this election is still on."""
    learn(context, response.epoch, response.leader)
    if not _counts(context, request) or response.code is Code.FENCED_LEADER_EPOCH:
        return
    role, voters = context.candidate_role, context.quorum.voters.ids
    if response.granted:
        context.update_role(granted=role.granted | {peer}, refused=role.refused - {peer})
    elif peer not in role.granted:
        context.update_role(refused=role.refused | {peer})
        if request.pre_vote:
            # It may answer otherwise in a moment, when it too has noticed that the leader is gone.
            _resend_vote_requests(context, peer)
    role = context.candidate_role
    if not won(role.granted, voters):
        _give_up_if_lost(context)
    elif isinstance(role, Prospective):
        become_candidate(context, role.retries)
    elif role.retry_at_ms is None:
        become_leader(context)


def _give_up_if_lost(context: StepContext) -> None:
    """Back off without waiting for the deadline when the votes left cannot be a majority."""
    role = context.candidate_role
    if not lost(role.refused, context.quorum.voters.ids):
        return
    if isinstance(role, Prospective):
        give_up(context)
    elif role.retry_at_ms is None:
        context.update_role(retry_at_ms=context.at.now_ms + _backoff_ms(context, role.retries + 1))


def _counts(context: StepContext, request: RaftVoteRequest) -> bool:
    role = context.role
    wanted = Prospective if request.pre_vote else Candidate
    return isinstance(role, wanted) and role.epoch == request.epoch


def handle_vote_failure(context: StepContext, peer: int, request: RaftVoteRequest, *, dead: bool) -> None:
    """No response: ask again after a back-off, as long as the election lasts; never a dead process."""
    if not _counts(context, request):
        return
    role = context.candidate_role
    _resend_vote_requests(context, peer)
    if dead and peer not in role.granted:
        context.update_role(refused=role.refused | {peer})
        _give_up_if_lost(context)


def _resend_vote_requests(context: StepContext, peer: int) -> None:
    role = context.candidate_role
    resend_at_ms = role.resend_at_ms
    if resend_at_ms is None:
        resend_at_ms = context.at.now_ms + context.timing.retry_backoff_ms
    context.update_role(failed=role.failed | {peer}, resend_at_ms=resend_at_ms)


def give_up(context: StepContext) -> None:
    """End a lost pre-vote: follow the suspected leader again, or wait for another election timeout."""
    role = context.role
    assert isinstance(role, Prospective)
    if role.leader is not None and role.leader != context.quorum.me.id:
        become_follower(context, role.epoch, role.leader)
        context.update_role(bids=role.retries + 1)
    else:
        become_unattached(context, role.epoch, context.election_deadline_ms())


def tick_election(context: StepContext) -> None:
    """Handle a tick as Prospective or Candidate: resend failed requests, retry after a loss, end at the deadline."""
    role, now_ms = context.candidate_role, context.at.now_ms
    if isinstance(role, Candidate) and now_ms >= (role.deadline_ms if role.retry_at_ms is None else role.retry_at_ms):
        become_prospective(context, role.retries + 1)
    elif isinstance(role, Prospective) and now_ms >= role.deadline_ms:
        give_up(context)
    elif role.resend_at_ms is not None and now_ms >= role.resend_at_ms:
        again = tuple(sorted(role.failed - role.granted))
        context.update_role(failed=frozenset(), resend_at_ms=None)
        send_vote_requests(context, again)


def _backoff_ms(context: StepContext, retries: int) -> int:
    """Return a binary exponential back-off with jitter, at most ``election_backoff_max_ms``."""
    timing = context.timing
    return 1 + context.jitter_ms(backoff_ms(retries, timing.retry_backoff_ms, timing.election_backoff_max_ms))


def _is_stranger(quorum: Quorum, leader: int) -> bool:
    return leader == quorum.me.id or (quorum.has_fixed_voters and leader not in quorum.voters.ids)


def handle_begin_epoch_request(context: StepContext, token: object, request: BeginEpochRequest) -> None:
    """Follow a leader that announces itself. As it says so itself, even a replica that suspected it follows again."""
    quorum, role = context.quorum, context.role
    code = Code.NONE
    if request.epoch < role.epoch:
        code = Code.FENCED_LEADER_EPOCH
    elif not request.voter.fits(quorum.me):
        code = Code.INVALID_VOTER_KEY
    elif _is_stranger(quorum, request.leader):
        code = Code.INCONSISTENT_VOTER_SET
    elif request.epoch == role.epoch and role.leader not in (None, request.leader):
        code = Code.INVALID_REQUEST
    else:
        learn(context, request.epoch, request.leader)
        if not isinstance(context.role, Follower):
            become_follower(context, request.epoch, request.leader)
    context.emit(do.SendResponse(token, BeginEpochResponse(code, context.role.epoch, context.quorum.leader)))


def handle_end_epoch_request(context: StepContext, token: object, request: EndEpochRequest) -> None:
    """The leader of this epoch resigns: its first successor stands at once, the others later, if need be."""
    quorum = context.quorum
    code = Code.NONE
    if request.epoch < context.role.epoch:
        code = Code.FENCED_LEADER_EPOCH
    elif _is_stranger(quorum, request.leader):
        code = Code.INCONSISTENT_VOTER_SET
    else:
        learn(context, request.epoch, request.leader)
        role = context.role
        if role.leader == request.leader and isinstance(role, Follower | Unattached | Prospective):
            _succeed(context, request)
    context.emit(do.SendResponse(token, EndEpochResponse(code, context.role.epoch, context.quorum.leader)))


def _succeed(context: StepContext, request: EndEpochRequest) -> None:
    quorum = context.quorum
    places = [place for place, key in enumerate(request.successors) if key.fits(quorum.me)]
    if places and places[0] == 0 and quorum.may_stand and not quorum.closing:
        # No pre-vote: leadership is vacant for certain.
        become_candidate(context)
        return
    most_ms = context.timing.election_backoff_max_ms
    delay_ms = most_ms
    if places and places[0] > 0:
        delay_ms = min(most_ms, (most_ms >> (len(request.successors) - 1)) << (places[0] - 1))
    become_unattached(
        context,
        context.role.epoch,
        context.at.now_ms + delay_ms + context.jitter_ms(context.timing.fast_death_backoff_ms),
    )


def handle_end_epoch_response(
    context: StepContext, peer: int, request: EndEpochRequest, response: EndEpochResponse
) -> None:
    learn(context, response.epoch, response.leader)
    _told(context, peer, request)


def handle_end_epoch_failure(context: StepContext, peer: int, request: EndEpochRequest, *, dead: bool) -> None:
    """Send it again later; a dead process needs none."""
    role = context.role
    if dead:
        _told(context, peer, request)
    elif isinstance(role, Resigned) and role.epoch == request.epoch:
        resend_at_ms = context.at.now_ms + context.timing.retry_backoff_ms
        context.update_role(failed=role.failed | {peer}, resend_at_ms=role.resend_at_ms or resend_at_ms)


def _told(context: StepContext, peer: int, request: EndEpochRequest) -> None:
    role = context.role
    if isinstance(role, Resigned) and role.epoch == request.epoch:
        context.update_role(untold=role.untold - {peer})


def tick_resigned(context: StepContext) -> None:
    """Resend to voters that were not reached; at the deadline take part in elections again, in a newer epoch.

    Newer, because in its own a resigned leader could be elected a second time and write other records at the same
    places.
    """
    role, now_ms = context.role, context.at.now_ms
    assert isinstance(role, Resigned)
    if now_ms >= role.deadline_ms:
        become_unattached(context, role.epoch + 1, context.short_deadline_ms())
    elif role.resend_at_ms is not None and now_ms >= role.resend_at_ms:
        for peer in sorted(role.failed & role.untold):
            context.emit(do.SendRequest(peer, EndEpochRequest(role.epoch, role.leader, role.successors)))
        context.update_role(failed=frozenset(), resend_at_ms=None)
