"""Offsets that are committed in a transaction: in the log at once, the group's when the transaction's marker says so.

Until then they are neither read nor forgotten, and whoever asks for stable offsets waits (KIP-447). Who decides about
the transaction is its coordinator, not this one. Source: KIP-98, KIP-447. Read next: offsets.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.groups import offsets
from moldau.groups.facts import CommitReply, Token, TransactionEnded, TxnCommit, refuse
from moldau.groups.group import Group, State
from moldau.groups.pending import HeldOffsets, SettledOffsets, Waiting
from moldau.groups.records import OffsetRecord, ReplayedRecord
from moldau.groups.state import ShardState
from moldau.model import Code, TopicPartition


def commit(shard: ShardState, request: TxnCommit, token: Token) -> None:
    """Write offsets under the producer's transaction; answered when they are in the log of all in-sync replicas."""
    group = shard.groups.get(request.group_id)
    code = _check(group, request)
    if code is not Code.NONE:
        shard.reply(token, refuse(request, code))
        return
    changes, codes = offsets.taken(shard, request.items, None)
    if not changes:
        shard.reply(token, CommitReply(codes))
        return
    if group is None:
        group = shard.make_group(request.group_id)
    change = HeldOffsets(request.producer.id, SettledOffsets(group.group_id, tuple(changes.items())))
    offsets.write(shard, change.offsets, change, Waiting(token, request, CommitReply(codes)), request.producer)


def _check(group: Group | None, request: TxnCommit) -> Code:
    """As Apache Kafka's validateOffsetCommit for transactions: producers older than KIP-447 name no member."""
    if group is None:
        return Code.NONE if request.generation < 0 else Code.ILLEGAL_GENERATION
    if group.state is State.DEAD:
        return Code.COORDINATOR_NOT_AVAILABLE
    if request.generation < 0 and group.state is State.EMPTY:
        return Code.NONE
    if request.generation < 0 and not request.member_id and request.instance_id is None:
        return Code.NONE
    code = group.check_member(request.member_id, request.instance_id)
    if code is Code.NONE and request.generation != group.generation:
        return Code.ILLEGAL_GENERATION
    return code


def hold(shard: ShardState, change: HeldOffsets, seq: int) -> None:
    """They are in the log: the transaction's marker decides."""
    shard.held.setdefault(change.producer_id, []).append((seq, change.offsets))


def load(shard: ShardState, producer_id: int, records: Sequence[ReplayedRecord]) -> None:
    """Hold what a log has of a transaction that was open at its end."""
    for record in records:
        if isinstance(record, OffsetRecord):
            group = shard.groups.get(record.group_id)
            if group is None:
                group = shard.make_group(record.group_id)
            where = TopicPartition(record.topic, record.partition)
            change = SettledOffsets(record.group_id, ((where, record.value),))
            group.begin((where,))
            hold(shard, HeldOffsets(producer_id, change), shard.next_seq())


def ended(shard: ShardState, event: TransactionEnded) -> None:
    """The marker is in the log: what it commits is the group's, even if the group was forgotten meanwhile."""
    changes = shard.held.get(event.producer_id, ())
    if event.commits:
        for group_id in dict.fromkeys(change.group_id for _, change in changes):
            if group_id not in shard.groups:
                shard.make_group(group_id)
    shard.held.pop(event.producer_id, None)  # not before: a group that is made counts what is held of it
    for seq, change in changes:
        if event.commits:
            offsets.offsets_stored(shard, change, seq)
        elif change.group_id in shard.groups:
            offsets.offsets_lost(shard, change)
