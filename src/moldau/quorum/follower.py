"""Following: fetch, append, truncate where we diverge, load a snapshot where we are behind; notice a dead leader.

One ask at a time. A voter fetches only what it has flushed behind it, because the next fetch is its acknowledgement
(KAFKA-13884). An observer without a leader asks the voters in turn.
"""

from __future__ import annotations

from moldau.model import Code
from moldau.model.value import replace
from moldau.quorum import effects as do
from moldau.quorum.log_view import LogView
from moldau.quorum.messages import BatchSpan, FetchAnswer, FetchAsk, SnapshotAnswer, SnapshotAsk
from moldau.quorum.moves import become_prospective, become_unattached, learn
from moldau.quorum.roles import Follower, Loading, Unattached
from moldau.quorum.state import Turn


def settle_follower(turn: Turn) -> None:
    """Send the next ask when nothing is in flight and everything we hold is on disk."""
    quorum, role = turn.quorum, turn.role
    assert isinstance(role, Follower)
    if role.in_flight is not None or turn.at.now_ms < role.retry_at_ms or not may_fetch(turn):
        return
    serial = quorum.serial + 1
    ask: FetchAsk | SnapshotAsk
    if role.loading is None:
        wait_ms, known = quorum.timing.fetch_max_wait_ms, quorum.high_watermark
        ask = FetchAsk(serial, quorum.me, role.epoch, quorum.log.last, wait_ms, known)
    else:
        ask = SnapshotAsk(serial, quorum.me, role.epoch, role.loading.snapshot, role.loading.position)
    turn.put(serial=serial)
    turn.carry(in_flight=serial)
    turn.say(do.SendAsk(role.leader, ask))


def may_fetch(turn: Turn) -> bool:
    """Whether all we hold is on disk, where that matters."""
    log = turn.quorum.log
    return not turn.quorum.flushes or log.flushed >= log.end


def settle_unattached(turn: Turn) -> None:
    """An observer asks the next voter, or the next of the addresses without an id, who leads."""
    quorum, role = turn.quorum, turn.role
    assert isinstance(role, Unattached)
    if role.discover_at_ms is None or turn.at.now_ms < role.discover_at_ms:
        return
    others = [voter.key.id for voter in quorum.voters.others(quorum.me)]
    others += range(-2, -2 - quorum.bootstrap, -1)
    if not others or not may_fetch(turn):
        turn.carry(discover_at_ms=turn.at.now_ms + turn.timing.retry_backoff_ms)
        return
    peer = others[role.discovering % len(others)]
    ask = FetchAsk(quorum.serial + 1, quorum.me, role.epoch, quorum.log.last, 0, quorum.high_watermark)
    turn.put(serial=ask.serial)
    turn.carry(discover_at_ms=None, discovering=role.discovering + 1)
    turn.say(do.SendAsk(peer, ask))


def _rediscover(turn: Turn) -> None:
    role = turn.role
    searches = turn.quorum.bootstrap or not turn.quorum.may_stand
    if isinstance(role, Unattached) and searches and role.discover_at_ms is None:
        turn.carry(discover_at_ms=turn.at.now_ms + turn.timing.retry_backoff_ms)


def _own(turn: Turn, peer: int, ask: FetchAsk | SnapshotAsk) -> Follower | None:
    """The role, if this ask is the one it has in flight."""
    role = turn.role
    if isinstance(role, Follower) and role.leader == peer and role.in_flight == ask.serial:
        return role
    return None


def fetch_answered(turn: Turn, peer: int, ask: FetchAsk, answer: FetchAnswer) -> None:
    """Append, or truncate, or start on a snapshot; then, and never before, take in what is committed."""
    learn(turn, answer.epoch, answer.leader)
    role = _own(turn, peer, ask)
    if role is None:
        _rediscover(turn)
        return
    if answer.code is not Code.NONE or answer.epoch != role.epoch:
        _refused_by_leader(turn, role, answer.code, answer.epoch)
        return
    _heard(turn, role)
    if answer.diverging is not None:
        _truncate(turn, turn.quorum.log.truncation_point(answer.diverging))
    elif answer.snapshot is not None:
        turn.carry(loading=Loading(answer.snapshot))
    elif _append(turn, role, answer):
        # Only an answer that continued our log proves that what we hold below the high watermark is the leader's: after
        # one truncation the rest may still diverge (KAFKA-14704).
        _commit(turn, answer.high_watermark)
    else:
        turn.carry(retry_at_ms=turn.at.now_ms + turn.timing.retry_backoff_ms)


def _heard(turn: Turn, role: Follower) -> None:
    deadline_ms = turn.at.now_ms + turn.timing.fetch_timeout_ms
    turn.put(
        role=replace(
            role,
            deadline_ms=deadline_ms,
            heard=True,
            in_flight=None,
            failures=0,
            stand_at_ms=None,
            retry_at_ms=0,
            bids=0,
        )
    )


def _refused_by_leader(turn: Turn, role: Follower, code: Code, epoch: int) -> None:
    if code is Code.NOT_LEADER_OR_FOLLOWER and epoch == role.epoch:
        # It says so itself: it led this epoch and has resigned. Leadership is vacant, no need to wait for a timeout.
        become_unattached(turn, role.epoch, turn.short_while())
    else:
        turn.carry(in_flight=None, retry_at_ms=turn.at.now_ms + turn.timing.retry_backoff_ms)


def _truncate(turn: Turn, end: int) -> None:
    quorum = turn.quorum
    assert end >= quorum.high_watermark, (
        f"the leader of epoch {quorum.role.epoch} would have us truncate to {end}, below the committed "
        f"{quorum.high_watermark}: a majority of the voters has lost committed metadata"
    )
    if end < quorum.log.end:
        turn.say(do.Truncate(end))
        turn.put(log=quorum.log.truncated(end))
        turn.truncated_voters(end)


def _append(turn: Turn, role: Follower, answer: FetchAnswer) -> bool:
    if not answer.spans:
        return True
    log = _extended(turn.quorum.log, answer.spans, role.epoch)
    if log is None:
        return False
    turn.say(do.AppendFetched(answer.spans, answer.data))
    turn.put(log=log)
    for offset, voters in answer.voters:
        turn.appended_voters(offset, voters)
    if turn.quorum.flushes:
        turn.say(do.Sync())
    return True


def _extended(log: LogView, spans: tuple[BatchSpan, ...], leader_epoch: int) -> LogView | None:
    """The log with the batches added; None when they do not continue it (a peer's mistake is not ours to assert)."""
    for base, next_offset, epoch in spans:
        if base != log.end or next_offset <= base or not log.last_epoch <= epoch <= leader_epoch:
            return None
        log = log.appended(next_offset, epoch)
    return log


def _commit(turn: Turn, high_watermark: int) -> None:
    """Move on what is known committed, to what we hold of it."""
    known = min(high_watermark, turn.quorum.log.end)
    if known > turn.quorum.high_watermark:
        turn.put(high_watermark=known)
        turn.say(do.Commit(known))


def snapshot_answered(turn: Turn, peer: int, ask: SnapshotAsk, answer: SnapshotAnswer) -> None:
    """Keep a piece of the snapshot; install it when it is whole."""
    learn(turn, answer.epoch, answer.leader)
    role = _own(turn, peer, ask)
    if role is None or role.loading is None:
        return
    if answer.code in (Code.SNAPSHOT_NOT_FOUND, Code.POSITION_OUT_OF_RANGE):
        # The leader has moved on to a newer one: fetch again, and be told which.
        turn.carry(in_flight=None, loading=None, retry_at_ms=turn.at.now_ms + turn.timing.retry_backoff_ms)
        return
    if answer.code is not Code.NONE or answer.epoch != role.epoch:
        _refused_by_leader(turn, role, answer.code, answer.epoch)
        return
    _heard(turn, role)
    loading = role.loading
    if answer.snapshot != loading.snapshot or answer.position != loading.position:
        turn.carry(retry_at_ms=turn.at.now_ms + turn.timing.retry_backoff_ms)
        return
    turn.say(do.WriteChunk(loading.snapshot, loading.position, answer.data))
    position = loading.position + answer.length
    if position < answer.size:
        turn.carry(loading=replace(loading, position=position))
        return
    turn.say(do.InstallSnapshot(loading.snapshot))
    turn.carry(loading=None)
    log = turn.quorum.log.replaced_by(loading.snapshot)
    turn.put(log=log, high_watermark=max(turn.quorum.high_watermark, log.end))
    turn.truncated_voters(0)
    if answer.voters is not None:
        turn.appended_voters(log.end - 1, answer.voters)


def fetch_failed(turn: Turn, peer: int, ask: FetchAsk | SnapshotAsk, *, dead: bool) -> None:
    """No answer. Try again at once, then with a back-off; a dead leader is not waited for."""
    role = _own(turn, peer, ask)
    if role is None:
        _rediscover(turn)
        return
    pause_ms = 0 if role.failures == 0 and not dead else turn.timing.retry_backoff_ms
    turn.carry(in_flight=None, failures=role.failures + 1, retry_at_ms=turn.at.now_ms + pause_ms)
    if not dead:
        return
    if not turn.quorum.may_stand:
        become_unattached(turn, role.epoch)
    elif role.stand_at_ms is None:
        # Soon; later each time it was in vain, or a lone survivor would never do anything else.
        timing = turn.timing
        span_ms = min(timing.fast_death_backoff_ms << min(role.bids, 10), timing.election_backoff_max_ms)
        turn.carry(stand_at_ms=turn.at.now_ms + 1 + turn.roll(span_ms))


def tick_follower(turn: Turn) -> None:
    """Stand when the leader is silent for too long, or known dead; an observer looks for another."""
    role, now_ms = turn.role, turn.at.now_ms
    assert isinstance(role, Follower)
    stand_at_ms = role.deadline_ms if role.stand_at_ms is None else min(role.stand_at_ms, role.deadline_ms)
    if now_ms < stand_at_ms:
        return
    if turn.quorum.may_stand:
        become_prospective(turn, role.bids)
    else:
        become_unattached(turn, role.epoch)
