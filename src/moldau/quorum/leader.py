"""Leading: answering fetches, counting who has flushed what, the high watermark, check quorum.

The high watermark is the majority's flushed end, and only once that covers the record this leader opened its epoch with
(Raft, section 5.4.2); before that nothing is exposed and nobody may decide (R6). A leader that a majority has stopped
fetching from resigns (KAFKA-15489).
"""

from __future__ import annotations

from typing import Any

from moldau.model import NO_UUID, Code
from moldau.model.value import replace
from moldau.quorum import effects as do
from moldau.quorum.changes import settle_change
from moldau.quorum.events import Propose
from moldau.quorum.log_view import Behind, Diverging
from moldau.quorum.messages import BeginAsk, FetchAnswer, FetchAsk, SnapshotAnswer, SnapshotAsk
from moldau.quorum.moves import become_resigned
from moldau.quorum.roles import Leader, Parked, Progress
from moldau.quorum.state import Quorum, Turn
from moldau.quorum.tally import reached_by_majority
from moldau.quorum.voters import ReplicaKey

FOREVER_MS = 2**62
OBSERVERS_MAX = 10_000
"""Observers whose progress is kept; more are served all the same. Anybody may say to be one, and each costs memory."""


def leader_code(quorum: Quorum, epoch: int) -> Code:
    """Whether a request to the leader of ``epoch`` came to the right place."""
    role = quorum.role
    if epoch < role.epoch:
        return Code.FENCED_LEADER_EPOCH
    if epoch > role.epoch:
        return Code.UNKNOWN_LEADER_EPOCH
    return Code.NONE if isinstance(role, Leader) else Code.NOT_LEADER_OR_FOLLOWER


def fetch_asked(turn: Turn, token: Any, ask: FetchAsk) -> None:
    """Park a fetch that continues our log (``settle_leader`` answers at once if there is news); answer any other."""
    code = leader_code(turn.quorum, ask.epoch)
    if min(ask.epoch, *ask.at, ask.max_wait_ms) < 0:
        code = Code.INVALID_REQUEST  # no log ends there: nothing may be concluded from it
    if code is not Code.NONE:
        turn.say(do.SendAnswer(token, FetchAnswer(code, turn.role.epoch, turn.quorum.leader)))
        return
    role, log = turn.role, turn.quorum.log
    assert isinstance(role, Leader)
    verdict = log.validate(ask.at)
    match verdict:
        case Diverging(end):
            _note(turn, ask.replica)
            turn.say(do.SendAnswer(token, _answer(turn, role)._replace(diverging=end)))
        case Behind(snapshot):
            _note(turn, ask.replica)
            turn.say(do.SendAnswer(token, _answer(turn, role)._replace(snapshot=snapshot)))
        case _:
            _note(turn, ask.replica, ask)
            role = turn.role
            assert isinstance(role, Leader)
            parked = Parked(token, ask, turn.at.now_ms + ask.max_wait_ms)
            turn.carry(parked=(*role.parked, parked))


def _answer(turn: Turn, role: Leader) -> FetchAnswer:
    exposed = -1 if role.high_watermark is None else role.high_watermark
    return FetchAnswer(Code.NONE, role.epoch, role.leader, exposed, turn.quorum.log.start)


def _progress(turn: Turn, role: Leader, replica: ReplicaKey) -> Progress:
    """What is known of a replica: a voter only under the directory id it votes with, else an observer (R8)."""
    voter = role.voters.get(replica.id)
    if voter is not None and voter.key.fits(replica):
        # A voter set by hand may be back with another disk: that is the one that an upgrade writes down (KIP-853).
        return voter if replica.directory_id == NO_UUID else replace(voter, directory_id=replica.directory_id)
    return role.observers.get(replica) or Progress(replica, turn.at.now_ms)


def _keep(turn: Turn, role: Leader, progress: Progress) -> None:
    voter = role.voters.get(progress.key.id)
    if voter is not None and voter.key == progress.key:
        turn.carry(voters={**role.voters, progress.key.id: progress})
    elif progress.key in role.observers or len(role.observers) < OBSERVERS_MAX:
        turn.carry(observers={**role.observers, progress.key: progress})


def _note(turn: Turn, replica: ReplicaKey, fetch: FetchAsk | None = None) -> None:
    """A replica asked for something; with ``fetch`` it proved that it has flushed our log up to there."""
    role, now_ms, end = turn.role, turn.at.now_ms, turn.quorum.log.end
    assert isinstance(role, Leader)
    progress = _progress(turn, role, replica)
    begin_at_ms = progress.begin_at_ms
    if begin_at_ms is not None:
        begin_at_ms = now_ms + turn.timing.fetch_timeout_ms // 2
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
    _keep(turn, role, replace(progress, last_fetch_ms=now_ms, begin_at_ms=begin_at_ms))


def snapshot_asked(turn: Turn, token: Any, ask: SnapshotAsk) -> None:
    """Serve a piece of a snapshot we hold."""
    quorum = turn.quorum
    code = leader_code(quorum, ask.epoch)
    if code is Code.NONE:
        _note(turn, ask.replica)
        if ask.snapshot not in quorum.log.snapshots:
            code = Code.SNAPSHOT_NOT_FOUND
        elif ask.position < 0:
            code = Code.POSITION_OUT_OF_RANGE
    answer = SnapshotAnswer(code, quorum.role.epoch, quorum.leader, ask.snapshot, position=ask.position)
    turn.say(do.SendAnswer(token, answer) if code is not Code.NONE else do.ServeSnapshot(token, answer))


def propose(turn: Turn, proposal: Propose) -> None:
    """Append under the epoch the proposer decided in; if that is over, nothing: ``LostActive`` is on its way."""
    quorum = turn.quorum
    if quorum.active_epoch != proposal.epoch or quorum.closing:
        return
    offset = quorum.log.end
    turn.say(do.AppendProposed(offset, proposal.epoch, proposal.number, proposal.data))
    turn.put(log=quorum.log.appended(offset + proposal.number, proposal.epoch))
    turn.say(do.Sync())


def begin_done(turn: Turn, peer: int, ask: BeginAsk, *, reached: bool) -> None:
    """Announce again later: to a voter that was reached only in case it stops fetching."""
    role = turn.role
    if isinstance(role, Leader) and role.epoch == ask.epoch and peer in role.voters:
        pause_ms = turn.timing.fetch_timeout_ms // (2 if reached else 4)
        again = replace(role.voters[peer], begin_at_ms=turn.at.now_ms + pause_ms)
        turn.carry(voters={**role.voters, peer: again})


def check_quorum_deadline_ms(quorum: Quorum, role: Leader) -> int:
    """When a majority (with us, if we vote) will have been silent for the fetch timeout."""
    heard = [voter.last_fetch_ms for voter in role.voters.values()]
    own = [FOREVER_MS] if quorum.is_voter else []
    return reached_by_majority([*own, *heard]) + quorum.timing.fetch_timeout_ms


def tick_leader(turn: Turn) -> None:
    """Resign without a majority; forget observers long gone."""
    role, now_ms = turn.role, turn.at.now_ms
    assert isinstance(role, Leader)
    if now_ms >= check_quorum_deadline_ms(turn.quorum, role):
        become_resigned(turn)
        return
    oldest_ms = now_ms - turn.timing.observer_session_timeout_ms
    if any(seen.last_fetch_ms < oldest_ms for seen in role.observers.values()):
        turn.carry(observers={key: seen for key, seen in role.observers.items() if seen.last_fetch_ms >= oldest_ms})


def settle_leader(turn: Turn) -> None:
    """After any event: advance the high watermark, answer what can be answered, announce where it is due."""
    _advance(turn)
    settle_change(turn)
    if not isinstance(turn.role, Leader):
        return  # it has committed its own removal
    _serve(turn)
    _announce(turn)


def _advance(turn: Turn) -> None:
    quorum, role = turn.quorum, turn.role
    assert isinstance(role, Leader)
    own = [quorum.log.flushed] if quorum.is_voter else []  # a leader that is being removed does not count itself
    reached = reached_by_majority([*own, *(voter.end_offset for voter in role.voters.values())])
    if reached <= role.start_offset or (role.high_watermark is not None and reached <= role.high_watermark):
        return
    first = role.high_watermark is None
    turn.put(high_watermark=reached)
    turn.say(do.Commit(reached))
    if first and not quorum.is_voter and reached > quorum.voter_log.offset:
        return  # elected only to commit its own removal: it resigns before it decides anything
    turn.carry(high_watermark=reached)
    if first:
        turn.say(do.BecameActive(role.epoch))


def _serve(turn: Turn) -> None:
    role, log = turn.role, turn.quorum.log
    assert isinstance(role, Leader)
    if not role.parked:
        return
    waiting: list[Parked] = []
    answer = _answer(turn, role)
    for parked in role.parked:
        role = turn.role
        assert isinstance(role, Leader)
        progress = _progress(turn, role, parked.ask.replica)
        news = log.end > parked.ask.at.offset or answer.high_watermark > progress.told_high_watermark
        if not news and turn.at.now_ms < parked.deadline_ms:
            waiting.append(parked)
            continue
        if log.end > parked.ask.at.offset >= log.start:
            turn.say(do.ServeRecords(parked.token, answer, parked.ask.at.offset, log.end))
        else:
            turn.say(do.SendAnswer(parked.token, answer))
        _keep(turn, role, replace(progress, told_high_watermark=answer.high_watermark))
    turn.carry(parked=tuple(waiting))


def _announce(turn: Turn) -> None:
    role, now_ms = turn.role, turn.at.now_ms
    assert isinstance(role, Leader)
    due = [voter for voter in role.voters.values() if voter.begin_at_ms is not None and now_ms >= voter.begin_at_ms]
    if due:
        for voter in due:
            turn.say(do.SendAsk(voter.key.id, BeginAsk(role.epoch, role.leader, voter.key)))
        turn.carry(voters={**role.voters, **{voter.key.id: replace(voter, begin_at_ms=None) for voter in due}})
