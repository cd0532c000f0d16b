"""The leader: it answers fetches, counts who has flushed what, advances the high watermark, and checks its quorum.

The high watermark is the majority's flushed end, and only once that covers the record this leader opened its epoch with
(Raft, section 5.4.2); before that nothing is exposed and the controller may not decide (R6). A leader from which a
majority has stopped fetching resigns (KAFKA-15489).
"""

from __future__ import annotations

from moldau.model import NO_UUID, Code
from moldau.model.value import replace
from moldau.quorum import effects as do
from moldau.quorum.changes import settle_change
from moldau.quorum.events import Propose
from moldau.quorum.log_view import Behind, Diverging
from moldau.quorum.messages import (
    BeginEpochRequest,
    RaftFetchRequest,
    RaftFetchResponse,
    RaftSnapshotRequest,
    RaftSnapshotResponse,
)
from moldau.quorum.moves import become_resigned
from moldau.quorum.roles import Leader, Parked, Progress
from moldau.quorum.state import Quorum, StepContext
from moldau.quorum.tally import reached_by_majority
from moldau.quorum.voters import ReplicaKey

FOREVER_MS = 2**62
OBSERVERS_MAX = 10_000
"""Observers whose progress is kept; more are served all the same. Anyone may claim to be one; each costs memory."""


def leader_code(quorum: Quorum, epoch: int) -> Code:
    """Return the code for a request to the leader of ``epoch``: NONE if this replica is that leader."""
    role = quorum.role
    if epoch < role.epoch:
        return Code.FENCED_LEADER_EPOCH
    if epoch > role.epoch:
        return Code.UNKNOWN_LEADER_EPOCH
    return Code.NONE if isinstance(role, Leader) else Code.NOT_LEADER_OR_FOLLOWER


def handle_fetch_request(context: StepContext, token: object, request: RaftFetchRequest) -> None:
    """Park a fetch that continues our log (``settle_leader`` answers it at once if it can); answer any other."""
    code = leader_code(context.quorum, request.epoch)
    if min(request.epoch, *request.at, request.max_wait_ms) < 0:
        code = Code.INVALID_REQUEST  # no log ends there: nothing may be concluded from it
    if code is not Code.NONE:
        context.emit(do.SendResponse(token, RaftFetchResponse(code, context.role.epoch, context.quorum.leader)))
        return
    role, log = context.leader_role, context.quorum.log
    verdict = log.validate(request.at)
    match verdict:
        case Diverging(end):
            _note(context, request.replica)
            context.emit(do.SendResponse(token, _answer(context, role)._replace(diverging=end)))
        case Behind(snapshot):
            _note(context, request.replica)
            context.emit(do.SendResponse(token, _answer(context, role)._replace(snapshot=snapshot)))
        case _:
            _note(context, request.replica, request)
            role = context.leader_role
            parked = Parked(token, request, context.at.now_ms + request.max_wait_ms)
            context.update_role(parked=(*role.parked, parked))


def _answer(context: StepContext, role: Leader) -> RaftFetchResponse:
    exposed = -1 if role.high_watermark is None else role.high_watermark
    return RaftFetchResponse(Code.NONE, role.epoch, role.leader, exposed, context.quorum.log.start)


def _progress(context: StepContext, role: Leader, replica: ReplicaKey) -> Progress:
    """Return a replica's progress: as a voter only under the directory id it votes with, else as an observer (R8)."""
    voter = role.voters.get(replica.id)
    if voter is not None and voter.key.fits(replica):
        # A static voter may be back with another disk: that is the one that an upgrade writes down (KIP-853).
        return voter if replica.directory_id == NO_UUID else replace(voter, directory_id=replica.directory_id)
    return role.observers.get(replica) or Progress(replica, context.at.now_ms)


def _keep(context: StepContext, role: Leader, progress: Progress) -> None:
    if progress.key.id < 0:
        return  # no replica: whoever only asks what the log has, and will not be back
    voter = role.voters.get(progress.key.id)
    if voter is not None and voter.key == progress.key:
        context.update_role(voters={**role.voters, progress.key.id: progress})
    elif progress.key in role.observers or len(role.observers) < OBSERVERS_MAX:
        context.update_role(observers={**role.observers, progress.key: progress})


def _note(context: StepContext, replica: ReplicaKey, fetch: RaftFetchRequest | None = None) -> None:
    """Note a request of a replica; with ``fetch`` it proved that it has flushed our log up to there."""
    role, now_ms, end = context.leader_role, context.at.now_ms, context.quorum.log.end
    progress = _progress(context, role, replica)
    begin_at_ms = progress.begin_at_ms
    if begin_at_ms is not None:
        begin_at_ms = now_ms + context.timing.fetch_timeout_ms // 2
    if fetch is not None:
        caught_up_ms = progress.last_caught_up_ms
        if fetch.at.offset >= end:
            caught_up_ms = now_ms
        elif 0 <= progress.leader_end <= fetch.at.offset:
            caught_up_ms = progress.last_fetch_ms
        told = progress.told_high_watermark if fetch.high_watermark < 0 else fetch.high_watermark
        progress = replace(
            progress,
            end_offset=fetch.at.offset,
            last_caught_up_ms=caught_up_ms,
            leader_end=end,
            told_high_watermark=told,
        )
    _keep(context, role, replace(progress, last_fetch_ms=now_ms, begin_at_ms=begin_at_ms))


def handle_fetch_snapshot_request(context: StepContext, token: object, request: RaftSnapshotRequest) -> None:
    """Serve a piece of a snapshot that this replica holds."""
    quorum = context.quorum
    code = leader_code(quorum, request.epoch)
    if code is Code.NONE:
        _note(context, request.replica)
        if request.snapshot not in quorum.log.snapshots:
            code = Code.SNAPSHOT_NOT_FOUND
        elif request.position < 0:
            code = Code.POSITION_OUT_OF_RANGE
    response = RaftSnapshotResponse(code, quorum.role.epoch, quorum.leader, request.snapshot, position=request.position)
    context.emit(do.SendResponse(token, response) if code is not Code.NONE else do.ServeSnapshot(token, response))


def propose(context: StepContext, proposal: Propose) -> None:
    """Append under the epoch in which the proposer decided; if that is over, nothing: ``LostActive`` was emitted."""
    quorum = context.quorum
    if quorum.active_epoch != proposal.epoch or quorum.closing:
        return
    offset = quorum.log.end
    context.emit(do.AppendProposed(offset, proposal.epoch, proposal.number, proposal.data))
    context.update(log=quorum.log.appended(offset + proposal.number, proposal.epoch))
    context.emit(do.Sync())


def handle_begin_epoch_response(context: StepContext, peer: int, request: BeginEpochRequest, *, reached: bool) -> None:
    """Schedule the next announcement: to a voter that was reached only in case it stops fetching."""
    role = context.role
    if isinstance(role, Leader) and role.epoch == request.epoch and peer in role.voters:
        pause_ms = context.timing.fetch_timeout_ms // (2 if reached else 4)
        again = replace(role.voters[peer], begin_at_ms=context.at.now_ms + pause_ms)
        context.update_role(voters={**role.voters, peer: again})


def check_quorum_deadline_ms(quorum: Quorum, role: Leader) -> int:
    """Return when a majority (with this replica, if it votes) will have been silent for the fetch timeout."""
    heard = [voter.last_fetch_ms for voter in role.voters.values()]
    own = [FOREVER_MS] if quorum.is_voter else []
    return reached_by_majority([*own, *heard]) + quorum.timing.fetch_timeout_ms


def tick_leader(context: StepContext) -> None:
    """Resign without a majority; forget observers long gone."""
    role, now_ms = context.leader_role, context.at.now_ms
    if now_ms >= check_quorum_deadline_ms(context.quorum, role):
        become_resigned(context)
        return
    oldest_ms = now_ms - context.timing.observer_session_timeout_ms
    if any(seen.last_fetch_ms < oldest_ms for seen in role.observers.values()):
        context.update_role(
            observers={key: seen for key, seen in role.observers.items() if seen.last_fetch_ms >= oldest_ms}
        )


def settle_leader(context: StepContext) -> None:
    """After any event: advance the high watermark, answer what can be answered, announce where it is due."""
    _advance(context)
    settle_change(context)
    if not isinstance(context.role, Leader):
        return  # it has committed its own removal
    _serve(context)
    _announce(context)


def _advance(context: StepContext) -> None:
    quorum, role = context.quorum, context.leader_role
    own = [quorum.log.flushed] if quorum.is_voter else []  # a leader that is being removed does not count itself
    reached = reached_by_majority([*own, *(voter.end_offset for voter in role.voters.values())])
    if reached <= role.start_offset or (role.high_watermark is not None and reached <= role.high_watermark):
        return
    first = role.high_watermark is None
    if quorum.lacks_committed:
        # A sole voter's log: nobody else can have what it lost, and what it commits now is the truth.
        context.update(committed_before=reached)
    context.update(high_watermark=reached)
    context.emit(do.Commit(reached))
    if first and not quorum.is_voter and reached > quorum.voter_log.offset:
        return  # elected only to commit its own removal: it resigns before it decides anything
    context.update_role(high_watermark=reached)
    if first:
        context.emit(do.BecameActive(role.epoch))


def _serve(context: StepContext) -> None:
    role, log = context.leader_role, context.quorum.log
    if not role.parked:
        return
    waiting: list[Parked] = []
    response = _answer(context, role)
    for parked in role.parked:
        role = context.leader_role
        progress = _progress(context, role, parked.request.replica)
        news = log.end > parked.request.at.offset or response.high_watermark > progress.told_high_watermark
        if not news and context.at.now_ms < parked.deadline_ms:
            waiting.append(parked)
            continue
        if log.end > parked.request.at.offset >= log.start:
            context.emit(do.ServeRecords(parked.token, response, parked.request.at.offset, log.end))
        else:
            context.emit(do.SendResponse(parked.token, response))
        _keep(context, role, replace(progress, told_high_watermark=response.high_watermark))
    context.update_role(parked=tuple(waiting))


def _announce(context: StepContext) -> None:
    role, now_ms = context.leader_role, context.at.now_ms
    due = [voter for voter in role.voters.values() if voter.begin_at_ms is not None and now_ms >= voter.begin_at_ms]
    if due:
        for voter in due:
            context.emit(do.SendRequest(voter.key.id, BeginEpochRequest(role.epoch, role.leader, voter.key)))
        context.update_role(voters={**role.voters, **{voter.key.id: replace(voter, begin_at_ms=None) for voter in due}})
