"""Looking at groups, deleting them, and letting old offsets and empty groups go.

A group whose tombstones are under way is Dead: it answers COORDINATOR_NOT_AVAILABLE, which clients retry, until the log
has them; then it is forgotten, or, when they were refused, Empty again. Source: KIP-211, KIP-229, KIP-518.
Read next: shard.py.
"""

from __future__ import annotations

from moldau.groups import offsets
from moldau.groups.facts import (
    DeleteGroup,
    DeleteGroupReply,
    Describe,
    DescribedMember,
    DescribeReply,
    ListedGroup,
    ListGroups,
    ListReply,
    Timer,
    TimerKey,
    Token,
    refuse,
)
from moldau.groups.group import CONSUMER, Group, State
from moldau.groups.pending import DeletedGroup, Pending, Waiting
from moldau.groups.records import GroupRecord, OffsetRecord, Record, StoredOffset
from moldau.groups.state import ShardState
from moldau.model import Code, TopicPartition

STATES = frozenset(state.value.lower() for state in State)
TYPES = frozenset({"classic"})
"""What filters of ListGroups can name, in any case of letters."""
SWEEP_GROUPS = 100
"""Groups looked at in one step of the expiry: a step must not hold the loop (docs/architecture.md, "One loop, and what
runs beside it")."""


def describe(shard: ShardState, request: Describe, token: Token) -> None:
    """State and members; their metadata only while stable, when it says what the protocol is made from."""
    group = shard.groups.get(request.group_id)
    if group is None or group.state is State.DEAD:
        shard.reply(token, DescribeReply(Code.NONE, State.DEAD.value))
        return
    stable = group.state is State.STABLE
    members = tuple(
        DescribedMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.metadata(group.protocol_name) if stable else b"",
            member.assignment,
        )
        for member in group.members.values()
    )
    protocol_name = (group.protocol_name or "") if stable else ""
    protocol_type = group.protocol_type or ""
    shard.reply(token, DescribeReply(Code.NONE, group.state.value, protocol_type, protocol_name, members, found=True))


def list_groups(shard: ShardState, request: ListGroups, token: Token) -> None:
    """Every group that passes the filters."""
    states = {state.lower() for state in request.states}
    if request.types and TYPES.isdisjoint(type.lower() for type in request.types):
        shard.reply(token, ListReply(Code.NONE))
        return
    listed = tuple(
        ListedGroup(group.group_id, group.protocol_type or "", group.state.value)
        for group in shard.groups.values()
        if not states or group.state.value.lower() in states
    )
    shard.reply(token, ListReply(Code.NONE, listed))


def delete(shard: ShardState, request: DeleteGroup, token: Token) -> None:
    """Delete a group without members, and all its offsets."""
    group = shard.groups.get(request.group_id)
    if group is None or group.state is State.DEAD:
        shard.reply(token, refuse(request, Code.GROUP_ID_NOT_FOUND))
    elif group.state is not State.EMPTY or shard.has_other_members(request.group_id):
        shard.reply(token, refuse(request, Code.NON_EMPTY_GROUP))
    else:
        _delete(shard, group, Waiting(token, request, DeleteGroupReply(Code.NONE)))


def _delete(shard: ShardState, group: Group, waiting: Waiting | None) -> None:
    # offsets still on their way need a tombstone too, or they would stand in the log after the group's own
    gone = group.offsets.keys() | group.in_flight.keys()
    *first, last = list(offsets.in_appends(shard, group.group_id, sorted(gone))) or [()]
    for part in first:
        offsets.tombstone(shard, group, part)
    records: list[Record] = [OffsetRecord(group.group_id, where.topic, where.partition, None) for where in last]
    if records or group.is_stored:
        records.append(GroupRecord(group.group_id, None))
    if not records:
        _forget(shard, group)
        if waiting is not None:
            shard.reply(waiting.token, waiting.answer)
        return
    group.move(State.DEAD, group.since_ms)
    shard.append(records, lambda seq: Pending(seq, DeletedGroup(group.group_id), waiting))


def group_deleted(shard: ShardState, change: DeletedGroup, code: Code) -> None:
    """The tombstones are committed; or (``code``) refused, and the group is there as before."""
    group = shard.groups[change.group_id]
    if code is Code.NONE:
        _forget(shard, group)
    else:
        group.move(State.EMPTY, group.since_ms)


def _forget(shard: ShardState, group: Group) -> None:
    for member_id in group.pending_joins:
        shard.cancel(shard.session(group, member_id))
    group.let_go()
    del shard.groups[group.group_id]


def expire_some(shard: ShardState) -> None:
    """One step of the sweep for offsets past their retention, and groups that have nothing left (KIP-211)."""
    if not shard.sweep:
        shard.sweep = list(shard.groups)
    for _ in range(min(SWEEP_GROUPS, len(shard.sweep))):
        group = shard.groups.get(shard.sweep.pop())
        # Those of a group of another protocol are its coordinator's to forget: here is not known what is read still.
        if group is not None and group.state is not State.DEAD and group.group_id not in shard.others:
            _expire(shard, group)
    delay_ms = 0 if shard.sweep else shard.config.offsets_retention_check_interval_ms
    shard.schedule(TimerKey(Timer.EXPIRY), delay_ms)


def _expire(shard: ShardState, group: Group) -> None:
    gone = [where for where, stored in group.offsets.items() if _is_expired(shard, group, where, stored)]
    nothing_left = len(gone) == len(group.offsets) and not group.in_flight and not group.pending_joins
    if nothing_left and group.state is State.EMPTY:
        _delete(shard, group, None)
    elif gone:
        offsets.tombstone(shard, group, gone)


def _is_expired(shard: ShardState, group: Group, where: TopicPartition, stored: StoredOffset) -> bool:
    if where in group.in_flight:
        return False
    base_ms = stored.commit_ms
    if group.protocol_type is not None:
        if group.state is State.EMPTY:
            # Retention starts when the group became empty.
            base_ms = stored.commit_ms if group.since_ms < 0 else group.since_ms
        elif group.state is not State.STABLE or group.protocol_type != CONSUMER or group.is_subscribed(where.topic):
            return False
    if stored.expire_ms is not None:
        return shard.now.wall_ms >= stored.expire_ms
    return shard.now.wall_ms - base_ms >= shard.config.offsets_retention_ms
