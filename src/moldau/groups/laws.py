"""What must hold of a coordinator after every step; tests and the simulator call ``check`` and an ``Audit``.

Law S18: a committed offset read after its ack is at least it, and only the current generation commits. Law L2 (none
left waiting) is here "every parked reply has a deadline". Laws raise AssertionError with the group and what is wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from moldau.groups.facts import Append, Effect, OffsetCommit, Reply, Timer, TimerKey, Token
from moldau.groups.group import MEMBER_BYTES, Group, State, member_bytes
from moldau.groups.pending import HeldOffsets, SettledOffsets, StaticMember, StoredAssignment
from moldau.groups.records import GroupRecord, OffsetRecord, OtherGroupRecord, ReplayedRecord, StoredOffset
from moldau.groups.shard import Shard
from moldau.groups.state import Phase
from moldau.model import TopicPartition


def _raise(law: Callable[..., None], *facts: object) -> None:
    law(*facts)


def check(shard: Shard, judge: Callable[..., None] = _raise) -> None:
    """Run every law of state; ``judge`` runs one (the simulator counts them)."""
    if shard.phase is not Phase.ACTIVE:
        return
    for group in shard.groups.values():
        for law in (members_agree, one_member_leads, state_says_what_is_so):
            judge(law, group)
        for timed in (every_parked_reply_has_a_deadline, every_silent_member_has_a_session):
            judge(timed, shard, group)
    judge(every_append_has_an_end, shard)
    judge(what_is_on_its_way_is_counted, shard)


def members_agree(group: Group) -> None:
    """S18: the member lists of a group say the same (two owners of one instance would read the same partitions)."""
    members = group.members
    statics = {m.instance_id: m.member_id for m in members.values() if m.instance_id is not None}
    offered = Counter(name for m in members.values() for name in {p.name for p in m.protocols})
    assert all(member_id == m.member_id for member_id, m in members.items()), group
    assert group.statics == statics, f"{group.group_id}: static members {group.statics} are not {statics}"
    assert group.offered == dict(offered), f"{group.group_id}: offered {group.offered} is not {dict(offered)}"
    assert group.pending_joins.isdisjoint(members), group
    size = sum(member_bytes(m.client_id, m.instance_id, m.protocols) for m in members.values())
    size += sum(MEMBER_BYTES + len(member_id) for member_id in group.pending_joins)
    size += group.own_bytes if members or group.pending_joins else 0
    assert group.size_bytes == size, f"{group.group_id}: {group.size_bytes} bytes are counted of {size}"
    assert group.pending_syncs <= members.keys(), group
    assert group.joins.keys() <= members.keys(), group
    assert group.syncs.keys() <= members.keys(), group


def one_member_leads(group: Group) -> None:
    """S18: a group with members has one leader, and it is a member: only its assignment counts."""
    if group.members:
        assert group.leader_id in group.members, f"{group.group_id}: leader {group.leader_id} is not a member"
    else:
        assert group.leader_id is None, f"{group.group_id}: {group.leader_id} leads nobody"


def state_says_what_is_so(group: Group) -> None:
    """S18: the name of the state agrees with members, protocol and who is parked."""
    if group.state in (State.EMPTY, State.DEAD):
        assert not group.members, f"{group.group_id}: {group.state.value} with members"
    if group.state in (State.COMPLETING_REBALANCE, State.STABLE):
        assert group.members, f"{group.group_id}: {group.state.value} without members"
        everybody = len(group.members)
        assert group.offered.get(group.protocol_name or "") == everybody, (
            f"{group.group_id}: protocol not shared by all"
        )
    if group.state is not State.COMPLETING_REBALANCE:
        assert not group.syncs, f"{group.group_id}: {group.state.value} with parked SyncGroups"
        assert group.storing is None, f"{group.group_id}: {group.state.value} while an assignment is stored"


def every_parked_reply_has_a_deadline(shard: Shard, group: Group) -> None:
    """L2: each parked JoinGroup and SyncGroup is under a timer that will answer it."""
    changes = {change.change for change in shard.pending.values() if isinstance(change.change, StaticMember)}
    for member_id in group.joins:
        rejoining = any(c.group_id == group.group_id and c.member_id == member_id for c in changes)
        timed = TimerKey(Timer.JOIN, group.group_id) in shard.deadlines
        assert timed if group.state is State.PREPARING_REBALANCE else rejoining, (
            f"{member_id}: a join that waits forever"
        )
    if group.syncs:
        stored = any(
            isinstance(p.change, StoredAssignment)
            and (p.change.group_id, p.change.generation) == (group.group_id, group.generation)
            for p in shard.pending.values()
        )
        timed = TimerKey(Timer.SYNC, group.group_id) in shard.deadlines
        assert timed or stored, f"{group.group_id}: syncs that wait forever"


def every_silent_member_has_a_session(shard: Shard, group: Group) -> None:
    """L9: a member that is not waiting for us is under a session timer, or its partitions would never be freed."""
    for member_id in group.members.keys() | group.pending_joins:
        if member_id not in group.joins and member_id not in group.syncs:
            assert shard.session(group, member_id) in shard.deadlines, f"{member_id}: a member that cannot expire"


def every_append_has_an_end(shard: Shard) -> None:
    """L2: whoever waits for an append is under its deadline."""
    for seq, pending in shard.pending.items():
        if pending.waiting is not None:
            assert TimerKey(Timer.APPEND, seq=seq) in shard.deadlines, f"append {seq}: a reply that waits forever"


def what_is_on_its_way_is_counted(shard: Shard) -> None:
    """S18: a group knows of each append and each open transaction that may bring it an offset: who asks for stable
    offsets waits for these, and for no others."""
    coming: Counter[tuple[str, TopicPartition]] = Counter()
    for pending in shard.pending.values():
        change = pending.change.offsets if isinstance(pending.change, HeldOffsets) else pending.change
        if isinstance(change, SettledOffsets):
            coming.update((change.group_id, where) for where, _ in change.offsets)
    for held in shard.held.values():
        for _, change in held:
            coming.update((change.group_id, where) for where, _ in change.offsets)
    there = {key: count for key, count in coming.items() if key[0] in shard.groups}
    counted = {(g.group_id, where): count for g in shard.groups.values() for where, count in g.in_flight.items()}
    assert counted == there, f"offsets {there} are on their way, and {counted} are counted"


class Audit:
    """Follows a shard from outside: what was asked, appended, committed and answered. Holds the laws of history."""

    def __init__(self) -> None:
        self.waiting: set[Token] = set()
        self.appended: dict[int, tuple[OffsetRecord | GroupRecord, ...]] = {}
        self.offsets: dict[tuple[str, TopicPartition], StoredOffset] = {}
        self.generations: dict[str, int] = {}
        self.assignments: dict[tuple[str, int], tuple[bytes, ...]] = {}

    def loaded(self, log: Iterable[ReplayedRecord]) -> None:
        """The shard starts from these records."""
        for record in log:
            if not isinstance(record, OtherGroupRecord):
                self._fold(record)

    def asked(self, token: Token) -> None:
        assert token not in self.waiting
        self.waiting.add(token)

    def saw(self, effects: Iterable[Effect]) -> None:
        """L2: at most one reply for a token, and none for one that nobody asked with."""
        for effect in effects:
            if isinstance(effect, Reply):
                assert effect.token in self.waiting, f"{effect.token} was answered twice, or never asked"
                self.waiting.remove(effect.token)
            elif isinstance(effect, Append):
                self.appended[effect.seq] = effect.records

    def committed(self, up_to: int) -> None:
        for seq in sorted(seq for seq in self.appended if seq <= up_to):
            for record in self.appended.pop(seq):
                self._fold(record)

    def _fold(self, record: OffsetRecord | GroupRecord) -> None:
        if isinstance(record, OffsetRecord):
            where = record.group_id, TopicPartition(record.topic, record.partition)
            if record.value is None:
                self.offsets.pop(where, None)
            else:
                self.offsets[where] = record.value
        elif record.value is None:
            self.generations.pop(record.group_id, None)
        else:
            self.generations[record.group_id] = record.value.generation

    def refused(self, seq: int) -> None:
        del self.appended[seq]

    def offsets_are_the_logs(self, shard: Shard) -> None:
        """S18: what can be fetched is exactly what was committed, no more (S6) and no less (S1)."""
        if shard.phase is not Phase.ACTIVE:
            return
        held = {
            (group.group_id, where): stored
            for group in shard.groups.values()
            for where, stored in group.offsets.items()
        }
        assert held == self.offsets, f"offsets {held} are not the log's {self.offsets}"

    def may_commit(self, group: Group | None, request: OffsetCommit, effects: Iterable[Effect]) -> None:
        """S18: offsets are appended only for the current generation's member, or for an outsider while nobody is in.

        ``group`` is the group as it was before the step.
        """
        appends = any(isinstance(effect, Append) for effect in effects)
        if not appends or group is None:
            assert not appends or request.generation < 0, f"{request} committed to a group that is not there"
        elif group.state is State.EMPTY:
            assert request.generation < 0, f"{request} committed to an empty group"
        else:
            assert request.generation == group.generation, f"{request} committed in generation {group.generation}"
            assert request.member_id in group.members, f"{request} committed, and is no member"
            assert group.state is not State.COMPLETING_REBALANCE, f"{request} committed before it has its assignment"

    def what_is_stable_is_in_the_log(self, shard: Shard) -> None:
        """S18: members act on an assignment only when a coordinator that takes over will know its generation."""
        for group in shard.groups.values():
            if group.state is State.STABLE:
                logged = self.generations.get(group.group_id)
                assert logged == group.generation, (
                    f"{group.group_id}: {group.generation} is stable, {logged} is in the log"
                )

    def one_assignment_per_generation(self, shard: Shard) -> None:
        """S18, no partition with two owners: members of one generation never hear two different assignments."""
        for key in [key for key in self.assignments if key[0] not in shard.groups]:
            del self.assignments[key]  # a group that is deleted and made again counts from the beginning
        for group in shard.groups.values():
            if group.state is State.STABLE:
                given = tuple(sorted(member.assignment for member in group.members.values()))
                known = self.assignments.setdefault((group.group_id, group.generation), given)
                assert known == given, f"{group.group_id}: generation {group.generation} was assigned twice"


def same_committed_state(before: Shard, after: Shard) -> None:
    """S18: a replay of the committed log gives every offset, and every group that was stable or empty in the log."""
    kept = {g.group_id: g.offsets for g in before.groups.values() if g.offsets}
    assert kept == {g.group_id: g.offsets for g in after.groups.values() if g.offsets}
    for group in before.groups.values():
        if group.state is State.STABLE and group.is_stored:
            other = after.groups[group.group_id]
            assert (other.state, other.generation) == (group.state, group.generation)
            assert (other.protocol_type, other.protocol_name) == (group.protocol_type, group.protocol_name)
            assert other.leader_id == group.leader_id
            assert {m: v.assignment for m, v in other.members.items()} == {
                m: v.assignment for m, v in group.members.items()
            }
