"""Committing, fetching and deleting offsets.

Only the current generation commits (law S18); a consumer outside group management commits to a group without members.
What is fetched is committed in the log. Source: KIP-211 (retention), KIP-447 (require stable), KIP-496 (deletion),
KIP-848 (GROUP_ID_NOT_FOUND). Read next: shard.py, admin.py (expiry).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from moldau.groups.facts import (
    CommitItem,
    CommitReply,
    DeleteOffsets,
    DeleteOffsetsReply,
    FetchedOffset,
    FetchOffsets,
    FetchReply,
    OffsetCommit,
    Token,
    TransactionalWriter,
    refuse,
)
from moldau.groups.group import CONSUMER, Group, State
from moldau.groups.pending import Change, Pending, SettledOffsets, Waiting
from moldau.groups.records import OffsetRecord, StoredOffset
from moldau.groups.state import ShardState
from moldau.groups.staying import keep_alive
from moldau.model import Code, TopicPartition

LONG_MAX = 2**63 - 1
"""The latest moment that a record can name: whoever asks for a longer retention asks for ever."""

APPEND_BYTES, TOMBSTONE_BYTES = 100_000, 600
"""An append of tombstones has about so many bytes at most, and one of them beside its group's id."""

Offsets = tuple[tuple[TopicPartition, StoredOffset | None], ...]


def commit(shard: ShardState, request: OffsetCommit, token: Token) -> None:
    """Store offsets; answered when they are committed. Items whose metadata is too long are refused one by one."""
    group = shard.groups.get(request.group_id)
    code = _check_commit(group, request)
    if code is Code.NONE and shard.has_other_members(request.group_id):
        code = Code.UNKNOWN_MEMBER_ID  # as for every outsider: it has members, of another protocol
    if code is not Code.NONE:
        shard.reply(token, refuse(request, code))
        return
    speaks = group is not None and request.member_id in group.members
    if group is not None and speaks and group.state in (State.STABLE, State.PREPARING_REBALANCE):
        keep_alive(shard, group, request.member_id)
    expire_ms = None if request.retention_ms is None else min(shard.now.wall_ms + request.retention_ms, LONG_MAX)
    changes, codes = taken(shard, request.items, expire_ms)
    if not changes:
        shard.reply(token, CommitReply(codes))
        return
    if group is None:
        group = shard.make_group(request.group_id)
    _change(shard, group, tuple(changes.items()), Waiting(token, request, CommitReply(codes)))


def taken(
    shard: ShardState, items: Iterable[CommitItem], expire_ms: int | None
) -> tuple[dict[TopicPartition, StoredOffset | None], tuple[Code, ...]]:
    """What is to be stored of a commit, and the code of each item."""
    longest = shard.config.offset_metadata_max_bytes
    changes: dict[TopicPartition, StoredOffset | None] = {}
    codes = []
    for item in items:
        if len(item.metadata) > longest:
            codes.append(Code.OFFSET_METADATA_TOO_LARGE)
            continue
        codes.append(Code.NONE)
        stored = StoredOffset(item.offset, item.leader_epoch, item.metadata, shard.now.wall_ms, expire_ms)
        changes[TopicPartition(item.topic, item.partition)] = stored
    return changes, tuple(codes)


def _check_commit(group: Group | None, request: OffsetCommit) -> Code:
    if group is None:
        return Code.NONE if request.generation < 0 else request.unknown_group_code
    if group.state is State.DEAD:
        return Code.COORDINATOR_NOT_AVAILABLE
    if request.generation < 0 and group.state is State.EMPTY:
        return Code.NONE
    if request.generation >= 0 or request.member_id or request.instance_id is not None:
        code = group.check_member(request.member_id, request.instance_id)
        if code is not Code.NONE:
            return code
        if request.generation != group.generation:
            return Code.ILLEGAL_GENERATION
    else:
        return Code.UNKNOWN_MEMBER_ID  # an outsider, and the group has members
    # the member knows the new generation but not yet its assignment: it must sync before it commits
    return Code.REBALANCE_IN_PROGRESS if group.state is State.COMPLETING_REBALANCE else Code.NONE


def fetch(shard: ShardState, request: FetchOffsets, token: Token) -> None:
    """Committed offsets, asked by name or all; where none is, ``stored`` is None. An unknown group has none."""
    group = shard.groups.get(request.group_id)
    if group is None:
        items = tuple(FetchedOffset(where.topic, where.partition, None) for where in request.items or ())
        shard.reply(token, FetchReply(Code.NONE, items))
        return
    wanted = tuple(group.offsets) if request.items is None else request.items
    rest = wanted[request.most :] if request.items is None else ()
    wanted = wanted[: len(wanted) - len(rest)]
    items = tuple(
        FetchedOffset(where.topic, where.partition, None, Code.UNSTABLE_OFFSET_COMMIT)
        if request.require_stable and where in group.in_flight
        else FetchedOffset(where.topic, where.partition, group.offsets.get(where))
        for where in wanted
    )
    shard.reply(token, FetchReply(Code.NONE, items, rest))


def delete(shard: ShardState, request: DeleteOffsets, token: Token) -> None:
    """Forget offsets of topics that no member reads (KIP-496)."""
    group = shard.groups.get(request.group_id)
    if group is None or group.state is State.DEAD:
        shard.reply(token, refuse(request, Code.GROUP_ID_NOT_FOUND))
        return
    has_others = shard.has_other_members(request.group_id)
    if group.state is not State.EMPTY and group.protocol_type != CONSUMER:
        shard.reply(token, refuse(request, Code.NON_EMPTY_GROUP))
        return
    codes = tuple(
        Code.GROUP_SUBSCRIBED_TO_TOPIC if has_others or group.is_subscribed(where.topic) else Code.NONE
        for where in request.items
    )
    gone = [
        where
        for where, code in zip(request.items, codes, strict=True)
        if code is Code.NONE and (where in group.offsets or where in group.in_flight)
    ]
    answer = DeleteOffsetsReply(Code.NONE, codes)
    if gone:
        tombstone(shard, group, gone, Waiting(token, request, answer))
    else:
        shard.reply(token, answer)


def tombstone(shard: ShardState, group: Group, gone: Iterable[TopicPartition], waiting: Waiting | None = None) -> None:
    """Remove offsets from the log, and from memory when that is committed. Who waits does so for the last of them."""
    parts = list(in_appends(shard, group.group_id, sorted(gone)))
    for part in parts:
        _change(shard, group, tuple((where, None) for where in part), waiting if part is parts[-1] else None)


def in_appends(shard: ShardState, group_id: str, gone: Sequence[TopicPartition]) -> Iterator[Sequence[TopicPartition]]:
    """Offsets to be removed, as many at a time as surely go into one batch: each names the group and its topic."""
    size = min(APPEND_BYTES, shard.record_bytes_max // 2)
    most = max(size // (2 * len(group_id) + TOMBSTONE_BYTES), 1)
    for begin in range(0, len(gone), most):
        yield gone[begin : begin + most]


def _change(shard: ShardState, group: Group, changes: Offsets, waiting: Waiting | None) -> None:
    change = SettledOffsets(group.group_id, changes)
    write(shard, change, change, waiting)


def write(
    shard: ShardState,
    offsets: SettledOffsets,
    change: Change,
    waiting: Waiting | None,
    producer: TransactionalWriter | None = None,
) -> None:
    """Append the offsets, in the producer's transaction if there is one; ``change`` waits for that."""
    records = [
        OffsetRecord(offsets.group_id, where.topic, where.partition, stored) for where, stored in offsets.offsets
    ]
    shard.append(records, lambda seq: Pending(seq, change, waiting), producer)
    shard.groups[offsets.group_id].begin(where for where, _ in offsets.offsets)


def offsets_stored(shard: ShardState, change: SettledOffsets, seq: int) -> None:
    """The log has them: let them be read, but for those that were written later than ``seq``, which count already: a
    transaction that ends may bring offsets from before others."""
    group = shard.groups[change.group_id]
    group.is_stored = True
    for where, stored in change.offsets:
        if stored is None:
            group.offsets.pop(where, None)
        elif seq > group.written.get(where, -1):
            group.offsets[where], group.written[where] = stored, seq
    _landed(group, change)


def offsets_lost(shard: ShardState, change: SettledOffsets) -> None:
    """The log will never have them. A group that was made only for them goes too."""
    group = shard.groups[change.group_id]
    _landed(group, change)
    shard.forget_unused(group)


def _landed(group: Group, change: SettledOffsets) -> None:
    for where, _ in change.offsets:
        group.in_flight[where] -= 1
        if not group.in_flight[where]:
            del group.in_flight[where]
            if where not in group.offsets:  # until now a transaction might bring one from before what was removed
                group.written.pop(where, None)
