"""Heartbeats, sessions and leaving: how members stay, and how they go.

Source: the consumer rebalance protocol of Kafka; KIP-62, KIP-345 (leaving in batches, by instance id). Read next:
rebalance.py.
"""

from __future__ import annotations

from moldau.groups.facts import Heartbeat, HeartbeatReply, Leave, Leaver, LeaveReply, Token
from moldau.groups.group import Group, State
from moldau.groups.pending import Waiting
from moldau.groups.rebalance import after_leaving, complete_join, drop, prepare
from moldau.groups.state import ShardState
from moldau.model import Code


def heartbeat(shard: ShardState, request: Heartbeat, token: Token) -> None:
    """Keep a member alive, and tell it when it must rejoin."""
    shard.reply(token, HeartbeatReply(_heartbeat(shard, request)))


def _heartbeat(shard: ShardState, request: Heartbeat) -> Code:
    if not request.group_id:
        return Code.INVALID_GROUP_ID
    group = shard.groups.get(request.group_id)
    if group is None:
        return Code.UNKNOWN_MEMBER_ID
    if group.state is State.DEAD:
        return Code.COORDINATOR_NOT_AVAILABLE
    code = group.check_member(request.member_id, request.instance_id)
    if code is not Code.NONE:
        return code
    if request.generation != group.generation:
        return Code.ILLEGAL_GENERATION
    keep_alive(shard, group, request.member_id)
    return Code.REBALANCE_IN_PROGRESS if group.state is State.PREPARING_REBALANCE else Code.NONE


def keep_alive(shard: ShardState, group: Group, member_id: str) -> None:
    """Give a member a whole session from now."""
    shard.schedule(shard.session(group, member_id), group.members[member_id].session_timeout_ms)


def session_expired(shard: ShardState, group: Group, member_id: str) -> None:
    """Nothing was heard of a member for its session. Who waits for us is not silent, unless it is new."""
    if member_id in group.pending_joins:
        group.remove(member_id)
        shard.forget_unused(group)
    elif member_id in group.members:
        waits = member_id in group.joins or member_id in group.syncs
        if waits and not group.members[member_id].is_new:
            return
        drop(shard, group, member_id)
        if group.state in (State.STABLE, State.COMPLETING_REBALANCE):
            prepare(shard, group)
            return
    if group.state is State.PREPARING_REBALANCE and group.all_joined:
        complete_join(shard, group)


def leave(shard: ShardState, request: Leave, token: Token) -> None:
    """Remove members at once instead of waiting for their sessions to end; answered when the log knows."""
    group = shard.groups.get(request.group_id)
    if not request.group_id:
        shard.reply(token, LeaveReply(Code.INVALID_GROUP_ID))
        return
    if group is None:
        codes = tuple((leaver, Code.UNKNOWN_MEMBER_ID) for leaver in request.leavers)
        shard.reply(token, LeaveReply(Code.NONE, codes))
        return
    if group.state is State.DEAD:
        shard.reply(token, LeaveReply(Code.COORDINATOR_NOT_AVAILABLE))
        return
    codes = tuple((leaver, _leave(shard, group, leaver)) for leaver in request.leavers)
    seq = None
    if any(code is Code.NONE for _, code in codes):
        seq = after_leaving(shard, group)
    if seq is None:
        shard.reply(token, LeaveReply(Code.NONE, codes))
        shard.forget_unused(group)
    else:
        shard.pending[seq].waiting = Waiting(token, request, LeaveReply(Code.NONE, codes))


def _leave(shard: ShardState, group: Group, leaver: Leaver) -> Code:
    member_id = leaver.member_id
    if not member_id:  # an administrator removes a static member by its instance id alone
        owner = group.statics.get(leaver.instance_id or "")
        if owner is None:
            return Code.UNKNOWN_MEMBER_ID
        member_id = owner
    elif member_id not in group.pending_joins:
        code = group.check_member(member_id, leaver.instance_id)
        if code is not Code.NONE:
            return code
    drop(shard, group, member_id)
    return Code.NONE
