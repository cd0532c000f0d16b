"""Joining and syncing: what moves a group through its states.

JoinGroup waits until everybody has joined or the rebalance timeout is over; SyncGroup for the leader's assignment.
A member that does not come back in time is removed; a static one (KIP-345) keeps its place until its session ends.
Source: the consumer rebalance protocol of Kafka; KIP-62, KIP-134, KIP-345, KIP-394, KIP-559, KIP-814. Read next:
staying.py (heartbeats, leaving), shard.py (outcomes of appends), laws.py.
"""

from __future__ import annotations

from moldau.groups.facts import (
    Join,
    JoinedMember,
    JoinReply,
    SyncGroup,
    SyncReply,
    Timer,
    TimerKey,
    Token,
    refuse,
)
from moldau.groups.group import Group, InitialDelay, Member, State, member_bytes
from moldau.groups.pending import EmptyGroup, Pending, StaticMember, StoredAssignment
from moldau.groups.records import GroupRecord
from moldau.groups.state import ShardState
from moldau.model import Code
from moldau.model.value import replace

NAME_LENGTH = 8_000
"""Characters of a client's name in its member id: with the rest they fit into a string of 32,767 bytes."""

PROTOCOLS = 8
"""So many protocols a member may offer with as much data for each as a generation's record may hold. Consumers offer
two."""
MEMBERS_BYTES_MAX = 256 << 20
"""What members of all groups of a broker may take; half a million usual ones do."""

# --- JoinGroup --------------------------------------------------------------------------------------------------------


def join(shard: ShardState, request: Join, token: Token) -> None:
    """Admit a member, or a new incarnation of one; most answers come when the rebalance is over."""
    code, group = _admit(shard, request)
    if group is None or code is not Code.NONE:
        member_id = "" if code is Code.GROUP_MAX_SIZE_REACHED else request.member_id
        shard.reply(token, JoinReply(code, member_id=member_id))
        if group is not None:  # it may have been made for this member
            shard.forget_unused(group)
    elif not request.member_id:
        _join_as_new(shard, group, request, token)
    elif request.member_id in group.pending_joins:
        _add_member(shard, group, request, request.member_id, token)
    else:
        _join_again(shard, group, request, token)


def _admit(shard: ShardState, request: Join) -> tuple[Code, Group | None]:
    config = shard.config
    group = shard.groups.get(request.group_id)
    if not request.group_id:
        return Code.INVALID_GROUP_ID, None
    if not config.min_session_timeout_ms <= request.session_timeout_ms <= config.max_session_timeout_ms:
        return Code.INVALID_SESSION_TIMEOUT, None
    if group is None:
        if request.member_id:
            return Code.UNKNOWN_MEMBER_ID, None
        if not (request.protocol_type and request.protocols):
            return Code.INCONSISTENT_GROUP_PROTOCOL, None
        group = shard.make_group(request.group_id, shard.now.wall_ms)
    if group.state is State.DEAD:
        return Code.COORDINATOR_NOT_AVAILABLE, group
    if (code := _room_for(shard, group, request)) is not Code.NONE:
        if code is Code.GROUP_MAX_SIZE_REACHED and request.member_id in group.members:
            drop(shard, group, request.member_id)
            after_leaving(shard, group)
        return code, group
    if not group.supports(request.protocol_type, request.protocols):
        return Code.INCONSISTENT_GROUP_PROTOCOL, group
    if not request.member_id:
        return Code.NONE, group
    if request.member_id in group.pending_joins:
        # an id is handed out for a dynamic member; a static one never needs two steps (KIP-394)
        return (Code.NONE if request.instance_id is None else Code.UNKNOWN_MEMBER_ID), group
    return group.check_member(request.member_id, request.instance_id), group


def _room_for(shard: ShardState, group: Group, request: Join) -> Code:
    """NONE where there is room for a member and for what it brings, else the code of the refusal. A generation is one
    record of the log, with each member's data of one protocol: what is beyond that for all protocols that clients offer
    could never be stored, and would be held until the session is over. Of all groups together a broker holds
    ``MEMBERS_BYTES_MAX``."""
    if not _has_room(group, request.member_id, shard.config.max_size):
        return Code.GROUP_MAX_SIZE_REACHED
    size = member_bytes(request.client_id, request.instance_id, request.protocols)
    if not group.members and not group.pending_joins:
        size += group.own_bytes
    before = group.members.get(request.member_id)
    if before is not None:
        size -= member_bytes(before.client_id, before.instance_id, before.protocols)
    if size <= 0:
        return Code.NONE
    if group.size_bytes + size > PROTOCOLS * shard.record_bytes_max:
        return Code.GROUP_MAX_SIZE_REACHED
    return Code.COORDINATOR_NOT_AVAILABLE if shard.held_bytes.total + size > MEMBERS_BYTES_MAX else Code.NONE


def _has_room(group: Group, member_id: str, max_size: int) -> bool:
    """KIP-389. While a group gathers, those who wait are counted, so that the last to rejoin are turned away."""
    match group.state:
        case State.PREPARING_REBALANCE:
            return member_id in group.joins or len(group.joins) < max_size
        case State.COMPLETING_REBALANCE | State.STABLE:
            return member_id in group.members or len(group.members) < max_size
        case _:
            return True


def _join_as_new(shard: ShardState, group: Group, request: Join, token: Token) -> None:
    name = request.client_id if request.instance_id is None else request.instance_id
    member_id = f"{name[:NAME_LENGTH]}-{request.fresh_id}"
    old_id = None if request.instance_id is None else group.statics.get(request.instance_id)
    if old_id is not None:
        _replace_static(shard, group, request, (old_id, member_id), token)
    elif request.instance_id is None and request.known_member_id_required:
        group.expect(member_id)
        shard.schedule(shard.session(group, member_id), request.session_timeout_ms)
        shard.reply(token, JoinReply(Code.MEMBER_ID_REQUIRED, member_id=member_id))
    else:
        _add_member(shard, group, request, member_id, token)


def _join_again(shard: ShardState, group: Group, request: Join, token: Token) -> None:
    member = group.members[request.member_id]
    unchanged = member.protocols == request.protocols
    leads = group.leader_id == member.member_id
    if group.state is State.EMPTY:
        shard.reply(token, refuse(request, Code.UNKNOWN_MEMBER_ID))
    elif unchanged and (group.state is State.COMPLETING_REBALANCE or (group.state is State.STABLE and not leads)):
        # the answer got lost; a leader of a stable group means it: only so can it ask for a new assignment
        shard.schedule(shard.session(group, member.member_id), member.session_timeout_ms)
        shard.reply(token, _joined(group, member, with_members=leads))
    else:
        group.put(_as_asked(member, request))
        _park_join(shard, group, member.member_id, token)
        _rebalance_or_complete(shard, group)


def _add_member(shard: ShardState, group: Group, request: Join, member_id: str, token: Token) -> None:
    member = Member(
        member_id,
        request.instance_id,
        request.client_id,
        request.client_host,
        request.rebalance_timeout_ms,
        request.session_timeout_ms,
        request.protocols,
        is_new=True,
    )
    if group.initial is not None:
        group.new_member_added = True
    group.add(member, request.protocol_type)
    _park_join(shard, group, member_id, token)
    # a new member does not know its id yet and cannot heartbeat: it is given up only if the rebalance takes very long
    shard.schedule(shard.session(group, member_id), shard.config.new_member_join_timeout_ms)
    _rebalance_or_complete(shard, group)


def _replace_static(shard: ShardState, group: Group, request: Join, ids: tuple[str, str], token: Token) -> None:
    """A static member restarted: a stable group goes on without a rebalance if its protocol stays (KIP-345)."""
    old_id, new_id = ids
    leader_before = group.leader_id or ""
    answer_join(shard, group, old_id, Code.FENCED_INSTANCE_ID)
    answer_sync(shard, group, old_id, Code.FENCED_INSTANCE_ID)
    shard.cancel(shard.session(group, old_id))
    before = group.members[old_id]
    member = _as_asked(group.rename(old_id, new_id), request)
    group.put(member)
    _park_join(shard, group, new_id, token)
    shard.schedule(shard.session(group, new_id), member.session_timeout_ms)
    if group.state is State.STABLE and group.select_protocol() == group.protocol_name:
        change = StaticMember(group.group_id, new_id, before, leader_before, request.skip_assignment_understood)
        assignments = {member.member_id: member.assignment for member in group.members.values()}
        group.is_stored = True
        shard.append(
            [GroupRecord(group.group_id, group.stored(assignments))],
            lambda seq: Pending(seq, change),
        )
    elif group.can_rebalance:
        # Stable with another protocol; or syncing, where the leader may be assigning to the old member id right now
        prepare(shard, group)
    else:
        complete_if_ready(shard, group)


def static_member_stored(shard: ShardState, change: StaticMember, code: Code) -> None:
    """The new member id is in the log, or (``code``) never will be and the old one is put back."""
    group = shard.groups.get(change.group_id)
    if group is None or change.member_id not in group.members:
        return
    member = group.members[change.member_id]
    if code is not Code.NONE:
        static_member_late(shard, change, code)
        if group.state is State.STABLE and change.before.member_id not in group.members:
            shard.cancel(shard.session(group, change.member_id))
            group.put(replace(change.before, member_id=change.member_id))
            before = group.rename(change.member_id, change.before.member_id)
            shard.schedule(shard.session(group, before.member_id), before.session_timeout_ms)
    elif group.state is State.STABLE and change.member_id in group.joins:
        leads = group.leader_id == change.member_id
        reply = _joined(group, member, with_members=leads)
        if change.skip_assignment_understood:
            reply = reply._replace(skip_assignment=leads)
        else:
            # an old client that leads would assign again: named the leader of before, it takes itself for a follower
            reply = reply._replace(leader_id=change.leader_before, members=())
        shard.reply(group.joins.pop(change.member_id), reply)
        shard.schedule(shard.session(group, change.member_id), member.session_timeout_ms)


def static_member_late(shard: ShardState, change: StaticMember, code: Code) -> None:
    """Tell the static member that its join failed; unless a rebalance has begun, which will answer it."""
    group = shard.groups.get(change.group_id)
    if group is not None and group.state is State.STABLE and change.member_id in group.joins:
        shard.reply(group.joins.pop(change.member_id), JoinReply(code))
        member = group.members[change.member_id]
        shard.schedule(shard.session(group, change.member_id), member.session_timeout_ms)


def _as_asked(member: Member, request: Join) -> Member:
    return replace(
        member,
        protocols=request.protocols,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
    )


def _joined(group: Group, member: Member, *, with_members: bool) -> JoinReply:
    members = tuple(
        JoinedMember(other.member_id, other.instance_id, other.metadata(group.protocol_name))
        for other in (group.members.values() if with_members else ())
    )
    return JoinReply(
        Code.NONE,
        member.member_id,
        group.generation,
        group.protocol_type,
        group.protocol_name,
        group.leader_id or "",
        members,
    )


def _park_join(shard: ShardState, group: Group, member_id: str, token: Token) -> None:
    answer_join(shard, group, member_id, Code.REBALANCE_IN_PROGRESS)  # an earlier try, whose client has given it up
    group.joins[member_id] = token


def answer_join(shard: ShardState, group: Group, member_id: str, code: Code) -> None:
    """Refuse a parked JoinGroup, if there is one."""
    if member_id in group.joins:
        known = "" if code is Code.UNKNOWN_MEMBER_ID else member_id
        shard.reply(group.joins.pop(member_id), JoinReply(code, member_id=known))


def answer_sync(shard: ShardState, group: Group, member_id: str, code: Code) -> None:
    """Refuse a parked SyncGroup, if there is one."""
    if member_id in group.syncs:
        shard.reply(group.syncs.pop(member_id), SyncReply(code))


# --- the rebalance ----------------------------------------------------------------------------------------------------


def prepare(shard: ShardState, group: Group) -> int | None:
    """Begin a rebalance: everybody must join again. The append's number when it ended at once in an empty group."""
    if group.state is State.COMPLETING_REBALANCE:
        _reset_assignments(shard, group, Code.REBALANCE_IN_PROGRESS)
    group.pending_syncs.clear()
    group.storing = None
    shard.cancel(TimerKey(Timer.SYNC, group.group_id))
    first = group.state is State.EMPTY
    group.move(State.PREPARING_REBALANCE, shard.now.wall_ms)
    if first:
        delay_ms = shard.config.initial_rebalance_delay_ms
        group.initial = InitialDelay(delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        shard.schedule(TimerKey(Timer.JOIN, group.group_id), delay_ms)
        return None
    if group.all_joined:
        return complete_join(shard, group)
    shard.schedule(TimerKey(Timer.JOIN, group.group_id), group.rebalance_timeout_ms)
    return None


def _rebalance_or_complete(shard: ShardState, group: Group) -> int | None:
    return prepare(shard, group) if group.can_rebalance else complete_if_ready(shard, group)


def complete_if_ready(shard: ShardState, group: Group) -> int | None:
    """Complete the join phase as soon as everybody is here; the first rebalance of a group waits its delay out."""
    if group.state is State.PREPARING_REBALANCE and group.initial is None and group.all_joined:
        return complete_join(shard, group)
    return None


def after_leaving(shard: ShardState, group: Group) -> int | None:
    """Somebody is a member no more: share out anew what it had, or go on without it. As ``prepare``."""
    if group.state in (State.STABLE, State.COMPLETING_REBALANCE):
        return prepare(shard, group)
    return complete_if_ready(shard, group)


def join_time_over(shard: ShardState, group: Group) -> None:
    """The rebalance timeout, or the delay of a first rebalance, is over."""
    if group.state is not State.PREPARING_REBALANCE:
        return
    wait = group.initial
    if wait is not None and group.new_member_added and wait.remaining_ms:
        delay_ms = min(shard.config.initial_rebalance_delay_ms, wait.remaining_ms)
        group.initial = InitialDelay(delay_ms, max(wait.remaining_ms - wait.delay_ms, 0))
        group.new_member_added = False
        shard.schedule(TimerKey(Timer.JOIN, group.group_id), delay_ms)
    else:
        complete_join(shard, group)


def complete_join(shard: ShardState, group: Group) -> int | None:
    """End the joining: drop who did not come, start the generation, tell the members. Static members may be absent."""
    shard.cancel(TimerKey(Timer.JOIN, group.group_id))
    for member in [m for m in group.members.values() if m.instance_id is None and m.member_id not in group.joins]:
        drop(shard, group, member.member_id)
    if not group.elect_joined_leader() and group.members:
        # nobody is here to lead: wait for their sessions to end
        group.initial = None
        shard.schedule(TimerKey(Timer.JOIN, group.group_id), group.rebalance_timeout_ms)
        return None
    group.next_generation(shard.now.wall_ms)
    if not group.members:
        group.is_stored = True
        record = GroupRecord(group.group_id, group.stored({}))
        return shard.append([record], lambda seq: Pending(seq, EmptyGroup(group.group_id)))
    for member in list(group.members.values()):
        if member.is_new:
            group.put(replace(member, is_new=False))
        if member.member_id in group.joins:
            leads = member.member_id == group.leader_id
            shard.reply(group.joins.pop(member.member_id), _joined(group, member, with_members=leads))
            shard.schedule(shard.session(group, member.member_id), member.session_timeout_ms)
        group.pending_syncs.add(member.member_id)
    shard.schedule(TimerKey(Timer.SYNC, group.group_id), group.rebalance_timeout_ms)
    return None


# --- SyncGroup --------------------------------------------------------------------------------------------------------


def sync(shard: ShardState, request: SyncGroup, token: Token) -> None:
    """Hand in (the leader) or wait for (everybody) the assignment of the current generation."""
    group = shard.groups.get(request.group_id)
    code = _check_sync(group, request)
    if group is None or code is not Code.NONE:
        shard.reply(token, SyncReply(code))
        return
    member = group.members[request.member_id]
    if group.state is State.STABLE:
        _has_synced(shard, group, request.member_id)
        shard.schedule(shard.session(group, request.member_id), member.session_timeout_ms)
        shard.reply(token, SyncReply(Code.NONE, member.assignment, group.protocol_type, group.protocol_name))
        return
    # An earlier try, whose client has given it up.
    answer_sync(shard, group, request.member_id, Code.REBALANCE_IN_PROGRESS)
    group.syncs[request.member_id] = token
    _has_synced(shard, group, request.member_id)
    if group.leader_id == request.member_id and group.storing != group.generation:
        given = dict(request.assignments)
        assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
        change = StoredAssignment(group.group_id, group.generation, assignments)
        group.storing = group.generation
        group.is_stored = True
        record = GroupRecord(group.group_id, group.stored(assignments))
        shard.append([record], lambda seq: Pending(seq, change))


def _check_sync(group: Group | None, request: SyncGroup) -> Code:
    if not request.group_id:
        return Code.INVALID_GROUP_ID
    if group is None or group.state is State.EMPTY:
        return Code.UNKNOWN_MEMBER_ID
    if group.state is State.DEAD:
        return Code.COORDINATOR_NOT_AVAILABLE
    code = group.check_member(request.member_id, request.instance_id)
    if code is not Code.NONE:
        return code
    if request.generation != group.generation:
        return Code.ILLEGAL_GENERATION
    if request.protocol_type not in (None, group.protocol_type) or request.protocol_name not in (
        None,
        group.protocol_name,
    ):
        return Code.INCONSISTENT_GROUP_PROTOCOL  # KIP-559
    return Code.REBALANCE_IN_PROGRESS if group.state is State.PREPARING_REBALANCE else Code.NONE


def _has_synced(shard: ShardState, group: Group, member_id: str) -> None:
    group.pending_syncs.discard(member_id)
    if not group.pending_syncs:
        shard.cancel(TimerKey(Timer.SYNC, group.group_id))


def assignment_stored(shard: ShardState, change: StoredAssignment) -> None:
    """The leader's assignment is committed: the group is stable, unless it has moved on meanwhile."""
    group = _still_storing(shard, change)
    if group is None:
        return
    group.storing = None
    for member in list(group.members.values()):
        group.put(replace(member, assignment=change.assignments.get(member.member_id, b"")))
    group.move(State.STABLE, shard.now.wall_ms)
    for member_id in list(group.syncs):
        member = group.members[member_id]
        answer = SyncReply(Code.NONE, member.assignment, group.protocol_type, group.protocol_name)
        shard.reply(group.syncs.pop(member_id), answer)
        shard.schedule(shard.session(group, member_id), member.session_timeout_ms)


def assignment_refused(shard: ShardState, change: StoredAssignment, code: Code) -> None:
    """The assignment was not stored in time: nobody may use it, and the members start over."""
    group = _still_storing(shard, change)
    if group is not None:
        _reset_assignments(shard, group, code)
        prepare(shard, group)


def _still_storing(shard: ShardState, change: StoredAssignment) -> Group | None:
    group = shard.groups.get(change.group_id)
    if group is None or group.state is not State.COMPLETING_REBALANCE or group.storing != change.generation:
        return None
    return group


def _reset_assignments(shard: ShardState, group: Group, code: Code) -> None:
    for member in list(group.members.values()):
        group.put(replace(member, assignment=b""))
        if member.member_id in group.syncs:
            answer_sync(shard, group, member.member_id, code)
            shard.schedule(shard.session(group, member.member_id), member.session_timeout_ms)


def sync_time_over(shard: ShardState, group: Group) -> None:
    """Members that joined but never synced are out (KAFKA-12890): their partitions would have no reader."""
    if group.pending_syncs and group.state in (State.COMPLETING_REBALANCE, State.STABLE):
        for member_id in list(group.pending_syncs):
            drop(shard, group, member_id)
        prepare(shard, group)


def drop(shard: ShardState, group: Group, member_id: str) -> None:
    """Remove a member, pending or real; what it waits for ends with UNKNOWN_MEMBER_ID, so that it starts anew."""
    answer_join(shard, group, member_id, Code.UNKNOWN_MEMBER_ID)
    answer_sync(shard, group, member_id, Code.UNKNOWN_MEMBER_ID)
    shard.cancel(shard.session(group, member_id))
    group.remove(member_id)
