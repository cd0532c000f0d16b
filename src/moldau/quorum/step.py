"""The machine's entry points: ``start``, ``step``, ``deadline_ms``. Each change of the election state is persisted.

"Persist, then send" is done once, for all: handlers only change the role, and whenever the election state after a step
differs from the one before, ``Persist`` is put at the head of the effects. The rules themselves: ``election.py``,
``leader.py``, ``follower.py``; the transitions: ``moves.py``.
"""

from __future__ import annotations

from moldau.model.value import replace
from moldau.quorum import changes, election, follower, leader
from moldau.quorum import effects as do
from moldau.quorum import events as on
from moldau.quorum.election_state import ElectionState
from moldau.quorum.messages import (
    AddVoterRequest,
    BeginEpochRequest,
    BeginEpochResponse,
    EndEpochRequest,
    EndEpochResponse,
    RaftFetchRequest,
    RaftFetchResponse,
    RaftRequest,
    RaftResponse,
    RaftSnapshotRequest,
    RaftSnapshotResponse,
    RaftVoteRequest,
    RaftVoteResponse,
    RemoveVoterRequest,
    UpdateVoterRequest,
    UpgradeVotersRequest,
    VoterChangeRequest,
)
from moldau.quorum.moves import (
    become_candidate,
    become_follower,
    become_prospective,
    become_resigned,
    become_unattached,
    learn,
)
from moldau.quorum.roles import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from moldau.quorum.state import At, Quorum, StepContext


def start(quorum: Quorum, election: ElectionState, at: At) -> tuple[Quorum, list[do.Effect]]:
    """Return the state after a restart and its effects, from persisted state and log; ``quorum.role`` is ignored.

    Where both a leader and a vote are on record the leader decides: the vote is kept, and refused again to others.
    """
    log, voter = quorum.log, quorum.may_stand
    known = max(log.start, quorum.high_watermark, log.snapshot.offset if log.snapshot else 0)
    persisted = Unattached(election.epoch, election.voted, election.leader)
    context = StepContext(replace(quorum, high_watermark=known, role=persisted), at)
    epoch, leads, voted = election
    if log.last_epoch > epoch:
        become_unattached(context, log.last_epoch, context.short_deadline_ms())
    elif leads is not None and leads == quorum.me.id and voter:
        own = voted if voted is not None and voted.fits(quorum.me) else quorum.as_voted(quorum.me)
        context.update(role=Resigned(epoch, own, leads, context.short_deadline_ms()))
    elif leads is not None and leads == quorum.me.id and (quorum.lacks_committed or not quorum.has_fixed_voters):
        # It was removed, or has lost its log: it must not be taken for the leader.
        become_unattached(context, epoch + 1, context.short_deadline_ms())
    elif leads is not None and leads != quorum.me.id and leads in quorum.voters.ids:
        become_follower(context, epoch, leads)
    elif voted is not None and voted.fits(quorum.me) and voter:
        become_candidate(context, epoch=epoch)
    else:
        become_unattached(context, epoch, context.short_deadline_ms())
    return _finish(context, election)


def step(quorum: Quorum, event: on.Event, at: At) -> tuple[Quorum, list[do.Effect]]:
    """Return what follows from one event: the next state, and the effects in order."""
    context = StepContext(quorum, at)
    match event:
        case on.Tick():
            _tick(context)
        case on.RequestReceived(token, request):
            _handle_request(context, token, request)
        case on.ResponseReceived(peer, request, response):
            _handle_response(context, peer, request, response)
        case on.Unreachable(peer, request):
            _handle_failure(context, peer, request, dead=False)
        case on.ConnectionRefused(peer, request):
            _handle_failure(context, peer, request, dead=True)
        case on.Propose():
            leader.propose(context, event)
        case on.Flushed(end):
            context.update(log=quorum.log.flushed_to(end))
        case on.SnapshotTaken():
            _snapshot_taken(context, event)
        case on.Resign(epoch):
            if isinstance(quorum.role, Leader) and quorum.role.epoch == epoch:
                become_resigned(context)
        case on.ShutDown():
            _shut_down(context)
    return _finish(context, quorum.election)


def _finish(context: StepContext, before: ElectionState) -> tuple[Quorum, list[do.Effect]]:
    role = context.role
    if isinstance(role, Leader):
        leader.settle_leader(context)
    elif not context.quorum.closing:
        if isinstance(role, Follower):
            follower.settle_follower(context)
        elif isinstance(role, Unattached):
            follower.settle_unattached(context)
    effects = context.effects
    if context.quorum.election != before:
        effects.insert(0, do.Persist(context.quorum.election))
    return context.quorum, effects


def _tick(context: StepContext) -> None:
    role, now_ms = context.role, context.at.now_ms
    if context.quorum.closing:
        if isinstance(role, Resigned) and now_ms < role.deadline_ms:
            election.tick_resigned(context)
        elif isinstance(role, Resigned):
            context.emit(do.Closed())
        return
    match role:
        case Unattached(deadline_ms=deadline_ms):
            if deadline_ms is not None and now_ms >= deadline_ms:
                become_prospective(context)
        case Prospective() | Candidate():
            election.tick_election(context)
        case Leader():
            leader.tick_leader(context)
        case Follower():
            follower.tick_follower(context)
        case Resigned():
            election.tick_resigned(context)


def _handle_request(context: StepContext, token: object, request: RaftRequest | VoterChangeRequest) -> None:
    match request:
        case RaftFetchRequest():
            leader.handle_fetch_request(context, token, request)
        case RaftVoteRequest():
            election.handle_vote_request(context, token, request)
        case BeginEpochRequest():
            election.handle_begin_epoch_request(context, token, request)
        case EndEpochRequest():
            election.handle_end_epoch_request(context, token, request)
        case RaftSnapshotRequest():
            leader.handle_fetch_snapshot_request(context, token, request)
        case AddVoterRequest() | RemoveVoterRequest() | UpdateVoterRequest() | UpgradeVotersRequest():
            changes.handle_voter_change_request(context, token, request)
    _close_if_done(context)


def _handle_response(context: StepContext, peer: int, request: RaftRequest, response: RaftResponse) -> None:
    match request, response:
        case RaftFetchRequest(), RaftFetchResponse():
            follower.handle_fetch_response(context, peer, request, response)
        case RaftVoteRequest(), RaftVoteResponse():
            election.handle_vote_response(context, peer, request, response)
        case BeginEpochRequest(), BeginEpochResponse():
            learn(context, response.epoch, response.leader)
            leader.handle_begin_epoch_response(context, peer, request, reached=True)
        case EndEpochRequest(), EndEpochResponse():
            election.handle_end_epoch_response(context, peer, request, response)
        case RaftSnapshotRequest(), RaftSnapshotResponse():
            follower.handle_fetch_snapshot_response(context, peer, request, response)
        case _:
            raise AssertionError(f"{response} does not answer {request}")
    _close_if_done(context)


def _handle_failure(context: StepContext, peer: int, request: RaftRequest, *, dead: bool) -> None:
    match request:
        case RaftFetchRequest() | RaftSnapshotRequest():
            follower.handle_fetch_failure(context, peer, request, dead=dead)
        case RaftVoteRequest():
            election.handle_vote_failure(context, peer, request, dead=dead)
        case BeginEpochRequest():
            leader.handle_begin_epoch_response(context, peer, request, reached=False)
        case EndEpochRequest():
            election.handle_end_epoch_failure(context, peer, request, dead=dead)
    _close_if_done(context)


def _snapshot_taken(context: StepContext, event: on.SnapshotTaken) -> None:
    """Note our own snapshot; the log may start where an older one ends (then a follower a little behind needs none)."""
    quorum, snapshot = context.quorum, event.snapshot
    newest = quorum.log.snapshot
    if newest is not None and snapshot.offset <= newest.offset:
        return
    assert snapshot.offset <= quorum.high_watermark, (
        f"{snapshot} holds what is not committed (above {quorum.high_watermark})"
    )
    assert snapshot.epoch == quorum.log.epoch_at(snapshot.offset), f"{snapshot} is not a prefix of this log"
    log = quorum.log.with_snapshot(snapshot)
    begin = newest.offset if newest is not None and event.begin is None else event.begin or 0
    if newest is not None and begin > log.start:
        ends = [older.offset for older in quorum.log.snapshots]
        assert begin in ends, f"the log cannot begin at {begin}: snapshots end at {ends} (law R7)"
        log = log.trimmed(begin)
        context.emit(do.Trim(begin))
        context.update(voter_log=quorum.voter_log.trimmed(begin))
    context.update(log=log)


def _shut_down(context: StepContext) -> None:
    context.update(closing=True)
    if isinstance(context.role, Leader):
        become_resigned(context)
    _close_if_done(context)


def _close_if_done(context: StepContext) -> None:
    if context.quorum.closing and not (isinstance(context.role, Resigned) and context.role.untold):
        context.emit(do.Closed())


def deadline_ms(quorum: Quorum) -> int | None:
    """Return when the next ``Tick`` is due; None: not until another event."""
    role = quorum.role
    if quorum.closing and not isinstance(role, Resigned):
        return None
    due: list[int | None]
    match role:
        case Unattached():
            due = [role.deadline_ms, role.discover_at_ms]
        case Prospective():
            due = [role.deadline_ms, role.resend_at_ms]
        case Candidate():
            due = [role.deadline_ms if role.retry_at_ms is None else role.retry_at_ms, role.resend_at_ms]
        case Leader():
            due = [leader.check_quorum_deadline_ms(quorum, role)]
            due += [voter.begin_at_ms for voter in role.voters.values()]
            due += [parked.deadline_ms for parked in role.parked]
            due += [role.change.deadline_ms] if role.change is not None else []
        case Follower():
            free = role.in_flight is None and (not quorum.flushes or quorum.log.flushed >= quorum.log.end)
            due = [role.deadline_ms, role.stand_at_ms, role.retry_at_ms if free else None]
        case Resigned():
            due = [role.deadline_ms, role.resend_at_ms]
    return min((moment for moment in due if moment is not None), default=None)
