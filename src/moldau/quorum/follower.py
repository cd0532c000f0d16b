"""The follower: it fetches, appends, truncates where logs diverge, loads a snapshot if behind, notices a dead leader.

One request at a time. A voter fetches only after it has flushed what it holds, because the next fetch is its
acknowledgement (KAFKA-13884). An observer without a leader asks one voter after another.
"""

from __future__ import annotations

from moldau.model import Code
from moldau.model.backoff import backoff_ms
from moldau.model.value import replace
from moldau.quorum import effects as do
from moldau.quorum.log_view import LogView
from moldau.quorum.messages import (
    BatchSpan,
    RaftFetchRequest,
    RaftFetchResponse,
    RaftSnapshotRequest,
    RaftSnapshotResponse,
)
from moldau.quorum.moves import become_prospective, become_unattached, learn
from moldau.quorum.roles import Follower, Loading, Unattached
from moldau.quorum.state import StepContext


def settle_follower(context: StepContext) -> None:
    """Send the next request when none is in flight and everything this replica holds is on disk."""
    quorum, role = context.quorum, context.role
    assert isinstance(role, Follower)
    if role.in_flight is not None or context.at.now_ms < role.retry_at_ms or not may_fetch(context):
        return
    serial = quorum.serial + 1
    request: RaftFetchRequest | RaftSnapshotRequest
    if role.loading is None:
        wait_ms, known = quorum.timing.fetch_max_wait_ms, quorum.high_watermark
        request = RaftFetchRequest(serial, quorum.me, role.epoch, quorum.log.last, wait_ms, known)
    else:
        request = RaftSnapshotRequest(serial, quorum.me, role.epoch, role.loading.snapshot, role.loading.position)
    context.update(serial=serial)
    context.update_role(in_flight=serial)
    context.emit(do.SendRequest(role.leader, request))


def may_fetch(context: StepContext) -> bool:
    """Return whether all this replica holds is on disk, where that matters."""
    log = context.quorum.log
    return not context.quorum.flushes or log.flushed >= log.end


def settle_unattached(context: StepContext) -> None:
    """Have an observer ask the next voter, or the next of the addresses without an id, who leads."""
    quorum, role = context.quorum, context.role
    assert isinstance(role, Unattached)
    if role.discover_at_ms is None or context.at.now_ms < role.discover_at_ms:
        return
    others = [voter.key.id for voter in quorum.voters.others(quorum.me)]
    others += range(-2, -2 - quorum.bootstrap, -1)
    if not others or not may_fetch(context):
        context.update_role(discover_at_ms=context.at.now_ms + context.timing.retry_backoff_ms)
        return
    peer = others[role.discovering % len(others)]
    request = RaftFetchRequest(quorum.serial + 1, quorum.me, role.epoch, quorum.log.last, 0, quorum.high_watermark)
    context.update(serial=request.serial)
    context.update_role(discover_at_ms=None, discovering=role.discovering + 1)
    context.emit(do.SendRequest(peer, request))


def _rediscover(context: StepContext) -> None:
    role = context.role
    searches = context.quorum.bootstrap or not context.quorum.may_stand
    if isinstance(role, Unattached) and searches and role.discover_at_ms is None:
        context.update_role(discover_at_ms=context.at.now_ms + context.timing.retry_backoff_ms)


def _own(context: StepContext, peer: int, request: RaftFetchRequest | RaftSnapshotRequest) -> Follower | None:
    """Return the role, if this request is the one it has in flight."""
    role = context.role
    if isinstance(role, Follower) and role.leader == peer and role.in_flight == request.serial:
        return role
    return None


def handle_fetch_response(
    context: StepContext, peer: int, request: RaftFetchRequest, response: RaftFetchResponse
) -> None:
    """Append, or truncate, or start on a snapshot; only then advance the high watermark."""
    learn(context, response.epoch, response.leader)
    role = _own(context, peer, request)
    if role is None:
        _rediscover(context)
        return
    if response.code is not Code.NONE or response.epoch != role.epoch:
        _refused_by_leader(context, role, response.code, response.epoch)
        return
    _heard(context, role)
    if response.diverging is not None:
        _truncate(context, context.quorum.log.truncation_point(response.diverging))
    elif response.snapshot is not None:
        _refuse_loss(context, response.snapshot.offset)
        context.update_role(loading=Loading(response.snapshot))
    elif _append(context, role, response):
        # Only a response that continued our log proves that what is below the high watermark is the leader's: after
        # one truncation the rest may still diverge (KAFKA-14704).
        _commit(context, response.high_watermark)
    else:
        context.update_role(retry_at_ms=context.at.now_ms + context.timing.retry_backoff_ms)


def _heard(context: StepContext, role: Follower) -> None:
    deadline_ms = context.at.now_ms + context.timing.fetch_timeout_ms
    context.update(
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


def _refused_by_leader(context: StepContext, role: Follower, code: Code, epoch: int) -> None:
    if code is Code.NOT_LEADER_OR_FOLLOWER and epoch == role.epoch:
        # The peer itself led this epoch and has resigned. Leadership is vacant, no need to wait for a timeout.
        become_unattached(context, role.epoch, context.short_deadline_ms())
    else:
        context.update_role(in_flight=None, retry_at_ms=context.at.now_ms + context.timing.retry_backoff_ms)


class CommittedMetadataLost(AssertionError):
    """A leader lacks what is known to be committed. By Raft it cannot be elected: a majority of the voters lost it, or
    we are wrong. An assertion, so that simulated runs take it for a broken law."""


def _refuse_loss(context: StepContext, end: int) -> None:
    """Raise when a leader would leave us nothing of what is committed from ``end`` on: this may be the last copy."""
    quorum = context.quorum
    committed = quorum.high_watermark
    if not quorum.lacks_committed:
        committed = max(committed, quorum.committed_before)
    if end < committed:
        raise CommittedMetadataLost(
            f"node {quorum.role.leader}, the leader of epoch {quorum.role.epoch}, has nothing of the metadata log from"
            f" offset {end} on, and up to {committed} it was committed: a majority of the voters has lost committed"
            " metadata. This node stops and keeps its log, which may be the last copy. Stop all controllers, copy the"
            " folder __cluster_metadata-0 of a node that has the metadata to those that lost it, and start them"
            " (docs/decisions/0053)"
        )


def _truncate(context: StepContext, end: int) -> None:
    quorum = context.quorum
    _refuse_loss(context, end)
    if end < quorum.log.end:
        context.emit(do.Truncate(end))
        context.update(log=quorum.log.truncated(end))
        context.truncated_voters(end)


def _append(context: StepContext, role: Follower, response: RaftFetchResponse) -> bool:
    if not response.spans:
        return True
    log = _extended(context.quorum.log, response.spans, role.epoch)
    if log is None:
        return False
    context.emit(do.AppendFetched(response.spans, response.data))
    context.update(log=log)
    for offset, voters in response.voters:
        context.appended_voters(offset, voters)
    if context.quorum.flushes:
        context.emit(do.Sync())
    return True


def _extended(log: LogView, spans: tuple[BatchSpan, ...], leader_epoch: int) -> LogView | None:
    """Return the log with the batches added; None when they do not continue it (a peer's mistake must not stop us)."""
    for base, next_offset, epoch in spans:
        if base != log.end or next_offset <= base or not log.last_epoch <= epoch <= leader_epoch:
            return None
        log = log.appended(next_offset, epoch)
    return log


def _commit(context: StepContext, high_watermark: int) -> None:
    """Advance the high watermark, at most to the end of what this replica holds."""
    known = min(high_watermark, context.quorum.log.end)
    if known > context.quorum.high_watermark:
        context.update(high_watermark=known)
        context.emit(do.Commit(known))


def handle_fetch_snapshot_response(
    context: StepContext, peer: int, request: RaftSnapshotRequest, response: RaftSnapshotResponse
) -> None:
    """Keep a piece of the snapshot; install it when it is whole."""
    learn(context, response.epoch, response.leader)
    role = _own(context, peer, request)
    if role is None or role.loading is None:
        return
    if response.code in (Code.SNAPSHOT_NOT_FOUND, Code.POSITION_OUT_OF_RANGE):
        # The leader has a newer snapshot by now: fetch again, and learn which.
        context.update_role(
            in_flight=None, loading=None, retry_at_ms=context.at.now_ms + context.timing.retry_backoff_ms
        )
        return
    if response.code is not Code.NONE or response.epoch != role.epoch:
        _refused_by_leader(context, role, response.code, response.epoch)
        return
    _heard(context, role)
    loading = role.loading
    if response.snapshot != loading.snapshot or response.position != loading.position:
        context.update_role(retry_at_ms=context.at.now_ms + context.timing.retry_backoff_ms)
        return
    context.emit(do.WriteChunk(loading.snapshot, loading.position, response.data))
    position = loading.position + response.length
    if position < response.size:
        context.update_role(loading=replace(loading, position=position))
        return
    context.emit(do.InstallSnapshot(loading.snapshot))
    context.update_role(loading=None)
    log = context.quorum.log.replaced_by(loading.snapshot)
    context.update(log=log, high_watermark=max(context.quorum.high_watermark, log.end))
    context.truncated_voters(0)
    if response.voters is not None:
        context.appended_voters(log.end - 1, response.voters)


def handle_fetch_failure(
    context: StepContext, peer: int, request: RaftFetchRequest | RaftSnapshotRequest, *, dead: bool
) -> None:
    """No response. Try again at once, then with a back-off; a dead leader is not waited for."""
    role = _own(context, peer, request)
    if role is None:
        _rediscover(context)
        return
    pause_ms = 0 if role.failures == 0 and not dead else context.timing.retry_backoff_ms
    context.update_role(in_flight=None, failures=role.failures + 1, retry_at_ms=context.at.now_ms + pause_ms)
    if not dead:
        return
    if not context.quorum.may_stand:
        become_unattached(context, role.epoch)
    elif role.stand_at_ms is None:
        # Soon; later after each time in vain, or a lone survivor would never do anything else.
        timing = context.timing
        span_ms = backoff_ms(role.bids, timing.fast_death_backoff_ms, timing.election_backoff_max_ms)
        context.update_role(stand_at_ms=context.at.now_ms + 1 + context.jitter_ms(span_ms))


def tick_follower(context: StepContext) -> None:
    """Stand when the leader is silent for too long, or known dead; an observer looks for another leader."""
    role, now_ms = context.role, context.at.now_ms
    assert isinstance(role, Follower)
    stand_at_ms = role.deadline_ms if role.stand_at_ms is None else min(role.stand_at_ms, role.deadline_ms)
    if now_ms < stand_at_ms:
        return
    if context.quorum.may_stand:
        become_prospective(context, role.bids)
    else:
        become_unattached(context, role.epoch)
