"""The machine's door: ``start``, ``step``, ``deadline_ms``. Here every change of the election state is
persisted first.

"Persist, then speak" is done once, for all: handlers only change the role, and whenever the election state after a step
differs from the one before, ``Persist`` is put at the head of the effects. The rules themselves: ``election.py``,
``leader.py``, ``follower.py``; the moves: ``moves.py``.
"""

from __future__ import annotations

from moldau.model.value import replace
from moldau.quorum import changes, election, follower, leader
from moldau.quorum import effects as do
from moldau.quorum import events as on
from moldau.quorum.messages import (
    AddVoterAsk,
    Answer,
    Ask,
    BeginAnswer,
    BeginAsk,
    ChangeAsk,
    EndAnswer,
    EndAsk,
    FetchAnswer,
    FetchAsk,
    RemoveVoterAsk,
    SnapshotAnswer,
    SnapshotAsk,
    UpdateVoterAsk,
    UpgradeVotersAsk,
    VoteAnswer,
    VoteAsk,
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
from moldau.quorum.state import At, ElectionState, Quorum, Turn


def start(quorum: Quorum, election: ElectionState, at: At) -> tuple[Quorum, list[do.Effect]]:
    """The state after a restart, from what was persisted and the log; ``quorum.role`` is not looked at.

    Where both a leader and a vote are on record the leader decides: the vote is kept, and refused again to others.
    """
    log, voter = quorum.log, quorum.may_stand
    known = max(log.start, quorum.high_watermark, log.snapshot.offset if log.snapshot else 0)
    persisted = Unattached(election.epoch, election.voted, election.leader)
    turn = Turn(replace(quorum, high_watermark=known, role=persisted), at)
    epoch, leads, voted = election
    if log.last_epoch > epoch:
        become_unattached(turn, log.last_epoch, turn.short_while())
    elif leads is not None and leads == quorum.me.id and voter:
        turn.put(role=Resigned(epoch, quorum.me, leads, turn.short_while()))
    elif leads is not None and leads == quorum.me.id and not quorum.has_fixed_voters:
        become_unattached(turn, epoch + 1, turn.short_while())  # it was removed: it must not be taken for the leader
    elif leads is not None and leads != quorum.me.id and leads in quorum.voters.ids:
        become_follower(turn, epoch, leads)
    elif voted is not None and voted == quorum.me and voter:
        become_candidate(turn, epoch=epoch)
    else:
        become_unattached(turn, epoch, turn.short_while())
    return _finish(turn, election)


def step(quorum: Quorum, event: on.Event, at: At) -> tuple[Quorum, list[do.Effect]]:
    """What follows from one event: the next state, and what to do, in order."""
    turn = Turn(quorum, at)
    match event:
        case on.Tick():
            _tick(turn)
        case on.Asked(token, ask):
            _asked(turn, token, ask)
        case on.Answered(peer, ask, answer):
            _answered(turn, peer, ask, answer)
        case on.Unreachable(peer, ask):
            _failed(turn, peer, ask, dead=False)
        case on.Refused(peer, ask):
            _failed(turn, peer, ask, dead=True)
        case on.Propose():
            leader.propose(turn, event)
        case on.Flushed(end):
            turn.put(log=quorum.log.flushed_to(end))
        case on.SnapshotTaken():
            _snapshot_taken(turn, event)
        case on.Resign(epoch):
            if isinstance(quorum.role, Leader) and quorum.role.epoch == epoch:
                become_resigned(turn)
        case on.ShutDown():
            _shut_down(turn)
    return _finish(turn, quorum.election)


def _finish(turn: Turn, before: ElectionState) -> tuple[Quorum, list[do.Effect]]:
    role = turn.role
    if isinstance(role, Leader):
        leader.settle_leader(turn)
    elif not turn.quorum.closing:
        if isinstance(role, Follower):
            follower.settle_follower(turn)
        elif isinstance(role, Unattached):
            follower.settle_unattached(turn)
    effects = turn.effects
    if turn.quorum.election != before:
        effects.insert(0, do.Persist(turn.quorum.election))
    return turn.quorum, effects


def _tick(turn: Turn) -> None:
    role, now_ms = turn.role, turn.at.now_ms
    if turn.quorum.closing:
        if isinstance(role, Resigned) and now_ms < role.deadline_ms:
            election.tick_resigned(turn)
        elif isinstance(role, Resigned):
            turn.say(do.Closed())
        return
    match role:
        case Unattached(deadline_ms=deadline_ms):
            if deadline_ms is not None and now_ms >= deadline_ms:
                become_prospective(turn)
        case Prospective() | Candidate():
            election.tick_election(turn)
        case Leader():
            leader.tick_leader(turn)
        case Follower():
            follower.tick_follower(turn)
        case Resigned():
            election.tick_resigned(turn)


def _asked(turn: Turn, token: object, ask: Ask | ChangeAsk) -> None:
    match ask:
        case FetchAsk():
            leader.fetch_asked(turn, token, ask)
        case VoteAsk():
            election.vote_asked(turn, token, ask)
        case BeginAsk():
            election.begin_asked(turn, token, ask)
        case EndAsk():
            election.end_asked(turn, token, ask)
        case SnapshotAsk():
            leader.snapshot_asked(turn, token, ask)
        case AddVoterAsk() | RemoveVoterAsk() | UpdateVoterAsk() | UpgradeVotersAsk():
            changes.change_asked(turn, token, ask)
    _close_if_done(turn)


def _answered(turn: Turn, peer: int, ask: Ask, answer: Answer) -> None:
    match ask, answer:
        case FetchAsk(), FetchAnswer():
            follower.fetch_answered(turn, peer, ask, answer)
        case VoteAsk(), VoteAnswer():
            election.vote_answered(turn, peer, ask, answer)
        case BeginAsk(), BeginAnswer():
            learn(turn, answer.epoch, answer.leader)
            leader.begin_done(turn, peer, ask, reached=True)
        case EndAsk(), EndAnswer():
            election.end_answered(turn, peer, ask, answer)
        case SnapshotAsk(), SnapshotAnswer():
            follower.snapshot_answered(turn, peer, ask, answer)
        case _:
            raise AssertionError(f"{answer} does not answer {ask}")
    _close_if_done(turn)


def _failed(turn: Turn, peer: int, ask: Ask, *, dead: bool) -> None:
    match ask:
        case FetchAsk() | SnapshotAsk():
            follower.fetch_failed(turn, peer, ask, dead=dead)
        case VoteAsk():
            election.vote_failed(turn, peer, ask, dead=dead)
        case BeginAsk():
            leader.begin_done(turn, peer, ask, reached=False)
        case EndAsk():
            election.end_failed(turn, peer, ask, dead=dead)
    _close_if_done(turn)


def _snapshot_taken(turn: Turn, event: on.SnapshotTaken) -> None:
    """Note our own snapshot; the log may start where an older one ends (who is a little behind needs no snapshot)."""
    quorum, snapshot = turn.quorum, event.snapshot
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
        turn.say(do.Trim(begin))
        turn.put(voter_log=quorum.voter_log.trimmed(begin))
    turn.put(log=log)


def _shut_down(turn: Turn) -> None:
    turn.put(closing=True)
    if isinstance(turn.role, Leader):
        become_resigned(turn)
    _close_if_done(turn)


def _close_if_done(turn: Turn) -> None:
    if turn.quorum.closing and not (isinstance(turn.role, Resigned) and turn.role.untold):
        turn.say(do.Closed())


def deadline_ms(quorum: Quorum) -> int | None:
    """When the next ``Tick`` is due; None: not until something happens."""
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
