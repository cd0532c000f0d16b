"""The group coordinator of one partition of __consumer_offsets: a machine without I/O.

``step`` takes a request or an event and returns effects in order. A reply that depends on records leaves only after
they are committed (law S18); until then the change waits in ``pending``, under a deadline. Group state is changed when
the record is appended, offsets when it is committed, so that nobody reads an offset that a failover could take back.
Does not decide who coordinates, nor how a log is read or written. Read next: rebalance.py, offsets.py, admin.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from moldau.groups import admin, offsets, rebalance, staying, transactional
from moldau.groups.facts import (
    AppendCommitted,
    AppendRefused,
    DeleteGroup,
    DeleteOffsets,
    Describe,
    Effect,
    Event,
    Expired,
    FetchOffsets,
    Heartbeat,
    HeartbeatReply,
    Join,
    Leave,
    ListGroups,
    Now,
    OffsetCommit,
    ShardReply,
    ShardRequest,
    SyncGroup,
    Timer,
    TimerKey,
    Token,
    TopicsDeleted,
    TransactionEnded,
    TxnCommit,
    refuse,
)
from moldau.groups.group import State
from moldau.groups.pending import (
    DeletedGroup,
    EmptyGroup,
    HeldOffsets,
    Pending,
    SettledOffsets,
    StaticMember,
    StoredAssignment,
)
from moldau.groups.records import GroupRecord, OffsetRecord, OtherGroupRecord, ReplayedRecord
from moldau.groups.state import Phase, ShardState
from moldau.model import Code, TopicPartition


class Shard(ShardState):
    """All groups of one partition. One mutator: ``apply`` while loading, ``step`` afterwards."""

    __slots__ = ()

    # --- the life of a shard

    def apply(self, record: ReplayedRecord) -> None:
        """Replay one record of the log, in order, while loading."""
        assert self.phase is Phase.LOADING
        match record:
            case OffsetRecord(group_id, topic, partition, stored):
                where = TopicPartition(topic, partition)
                group = self.groups.get(group_id)
                if stored is not None:
                    if group is None:
                        group = self.make_group(group_id)
                    group.offsets[where] = stored
                    group.is_stored = True
                elif group is not None:
                    group.offsets.pop(where, None)
            case OtherGroupRecord(group_id, key, of_member, value):
                if value is not None:
                    self.others.setdefault(group_id, {})[key] = of_member
                elif self.others.get(group_id, {}).pop(key, None) is not None and not self.others[group_id]:
                    del self.others[group_id]
            case GroupRecord(group_id, None):
                # Of its offsets it says nothing: Apache Kafka writes it where a group changes its protocol (KIP-848).
                gone = self.groups.pop(group_id, None)
                if gone is not None:
                    gone.let_go()
                if gone is not None and gone.offsets:
                    group = self.make_group(group_id)
                    group.offsets, group.is_stored = gone.offsets, True
            case GroupRecord(group_id, stored) if stored is not None:
                (self.groups.get(group_id) or self.make_group(group_id)).load(stored)

    def apply_open(self, producer_id: int, records: Sequence[ReplayedRecord]) -> None:
        """After all others: the records of a transaction that was open at the log's end."""
        assert self.phase is Phase.LOADING
        transactional.load(self, producer_id, records)

    def loaded(self, now: Now) -> list[Effect]:
        """Everything committed has been applied: start answering, and give each member a session from now."""
        assert self.phase is Phase.LOADING
        self.phase = Phase.ACTIVE
        self.begin(now)
        for group in list(self.groups.values()):
            for member in group.members.values():
                self.schedule(self.session(group, member.member_id), member.session_timeout_ms)
            if len(group.members) > self.config.max_size:
                rebalance.prepare(self, group)
        self.schedule(TimerKey(Timer.EXPIRY), self.config.offsets_retention_check_interval_ms)
        return self.end()

    def unload(self) -> list[Effect]:
        """This broker no longer coordinates: everybody who waits hears NOT_COORDINATOR, and everything is forgotten."""
        self.begin(self.now)
        for group in self.groups.values():
            for member_id in list(group.joins):
                rebalance.answer_join(self, group, member_id, Code.NOT_COORDINATOR)
            for member_id in list(group.syncs):
                rebalance.answer_sync(self, group, member_id, Code.NOT_COORDINATOR)
        for pending in self.pending.values():
            self.answer_pending(pending, Code.NOT_COORDINATOR)
        self.phase = Phase.UNLOADED
        for group in self.groups.values():
            group.let_go()
        self.groups.clear()
        self.pending.clear()
        self.held.clear()
        self.others.clear()
        self.deadlines.clear()
        self._armed.clear()
        return self.end()

    def step(self, event: ShardRequest | Event, now: Now, token: Token = None) -> list[Effect]:
        """Take a request, with the token of who waits for its reply, or an event; return the effects in their order."""
        self.begin(now)
        if self.phase is Phase.ACTIVE:
            _STEPS[type(event)](self, event, token)
        elif token is not None:
            self.reply(token, self._not_active(cast("ShardRequest", event)))  # only who asks waits for a reply
        return self.end()

    def _not_active(self, request: ShardRequest) -> ShardReply:
        if self.phase is Phase.UNLOADED:
            return refuse(request, Code.NOT_COORDINATOR)
        if isinstance(request, Heartbeat):
            return HeartbeatReply(Code.NONE)  # a member must not give up its partitions because we are still reading
        return refuse(request, Code.COORDINATOR_LOAD_IN_PROGRESS)

    # --- events

    def _committed(self, event: AppendCommitted, token: Token) -> None:
        for seq in event.seqs:
            self._stored(self.pending.pop(seq))

    def _stored(self, pending: Pending) -> None:
        self.cancel(TimerKey(Timer.APPEND, seq=pending.seq))
        match pending.change:
            case SettledOffsets():
                offsets.offsets_stored(self, pending.change, pending.seq)
            case HeldOffsets():
                transactional.hold(self, pending.change, pending.seq)
            case StoredAssignment():
                rebalance.assignment_stored(self, pending.change)
            case StaticMember():
                rebalance.static_member_stored(self, pending.change, Code.NONE)
            case DeletedGroup():
                admin.group_deleted(self, pending.change, Code.NONE)
            case EmptyGroup():
                pass  # the group is empty in memory already: an empty generation harms nobody if it gets lost
        self.answer_pending(pending, Code.NONE)

    def _refused(self, event: AppendRefused, token: Token) -> None:
        pending = self.pending.pop(event.seq)
        self.cancel(TimerKey(Timer.APPEND, seq=event.seq))
        code = append_code(event.code)
        match pending.change:
            case SettledOffsets() | HeldOffsets() as change:
                offsets.offsets_lost(self, change.offsets if isinstance(change, HeldOffsets) else change)
                waiting = pending.waiting
                if (
                    event.code in _TOO_LARGE
                    and waiting is not None
                    and isinstance(waiting.request, (OffsetCommit, TxnCommit))
                ):
                    code = Code.INVALID_COMMIT_OFFSET_SIZE
            case StoredAssignment():
                rebalance.assignment_refused(self, pending.change, code)
            case StaticMember():
                rebalance.static_member_stored(self, pending.change, code)
            case DeletedGroup():
                admin.group_deleted(self, pending.change, code)
            case EmptyGroup():
                pass
        self.answer_pending(pending, code)

    def _late(self, seq: int) -> None:
        """An append was not committed in time. It may be yet: the waiting clients are told, the change stays."""
        pending = self.pending.get(seq)
        if pending is None:
            return
        code = append_code(Code.REQUEST_TIMED_OUT)
        match pending.change:
            case StoredAssignment():
                rebalance.assignment_refused(self, pending.change, code)
            case StaticMember():
                rebalance.static_member_late(self, pending.change, code)
            case _:
                pass
        self.answer_pending(pending, code)

    def _expired(self, event: Expired, token: Token) -> None:
        key = event.key
        self._armed.pop(key, None)
        deadline = self.deadlines.get(key)
        if deadline is None:
            return
        if deadline > self.now.monotonic_ms:
            self.schedule(key, deadline - self.now.monotonic_ms)
            return
        del self.deadlines[key]
        group = self.groups.get(key.group_id)
        match key.kind:
            case Timer.APPEND:
                self._late(key.seq)
            case Timer.EXPIRY:
                admin.expire_some(self)
            case Timer.SESSION if group is not None:
                staying.session_expired(self, group, key.member_id)
            case Timer.JOIN if group is not None:
                rebalance.join_time_over(self, group)
            case Timer.SYNC if group is not None:
                rebalance.sync_time_over(self, group)

    def _topics_deleted(self, event: TopicsDeleted, token: Token) -> None:
        for group in self.groups.values():
            if group.state is State.DEAD:
                continue  # all its offsets are on their way out already
            gone = [where for where in group.offsets.keys() | group.in_flight.keys() if where.topic in event.topics]
            if gone:
                offsets.tombstone(self, group, gone)

    def _transaction_ended(self, event: TransactionEnded, token: Token) -> None:
        transactional.ended(self, event)


_TOO_LARGE = frozenset({Code.MESSAGE_TOO_LARGE, Code.RECORD_LIST_TOO_LARGE, Code.INVALID_FETCH_SIZE})

_APPEND_CODES = {
    Code.UNKNOWN_TOPIC_OR_PARTITION: Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_ENOUGH_REPLICAS: Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Code.COORDINATOR_NOT_AVAILABLE,
    Code.REQUEST_TIMED_OUT: Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_LEADER_OR_FOLLOWER: Code.NOT_COORDINATOR,
    Code.KAFKA_STORAGE_ERROR: Code.NOT_COORDINATOR,
    **dict.fromkeys(_TOO_LARGE, Code.UNKNOWN_SERVER_ERROR),
}


def append_code(code: Code) -> Code:
    """What a client hears when an append ends in ``code``: codes of the log mean other things to a group's member."""
    return _APPEND_CODES.get(code, code)


_STEPS: dict[type, Callable[[Shard, Any, Token], None]] = {  # Any: each takes the requests of its own class
    Join: rebalance.join,
    SyncGroup: rebalance.sync,
    Heartbeat: staying.heartbeat,
    Leave: staying.leave,
    OffsetCommit: offsets.commit,
    TxnCommit: transactional.commit,
    FetchOffsets: offsets.fetch,
    DeleteOffsets: offsets.delete,
    Describe: admin.describe,
    ListGroups: admin.list_groups,
    DeleteGroup: admin.delete,
    AppendCommitted: Shard._committed,
    AppendRefused: Shard._refused,
    Expired: Shard._expired,
    TopicsDeleted: Shard._topics_deleted,
    TransactionEnded: Shard._transaction_ended,
}
