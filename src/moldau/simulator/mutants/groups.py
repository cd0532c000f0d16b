"""Mistakes in the group coordinator: who may commit, what survives a failover, who is waited for, static members.

Facts about Kafka's bugs are from its issues by number (Redpanda's by theirs); the code is ours.
"""

from __future__ import annotations

from typing import Any

from moldau.groups import Phase, admin, group, offsets, rebalance, shard, staying
from moldau.groups.facts import Timer
from moldau.groups.pending import StoredAssignment
from moldau.model import Code
from moldau.simulator.mutants.mutant import Mutant, Patches


def any_generation_commits(patches: Patches) -> None:
    check = offsets._check_commit
    wrong = (Code.ILLEGAL_GENERATION,)
    patches.set(offsets, "_check_commit", lambda g, ask: Code.NONE if check(g, ask) in wrong and g else check(g, ask))


def members_commit_before_they_sync(patches: Patches) -> None:
    check = offsets._check_commit
    wrong = (Code.REBALANCE_IN_PROGRESS,)
    patches.set(offsets, "_check_commit", lambda g, ask: Code.NONE if check(g, ask) in wrong else check(g, ask))


def strangers_commit_to_a_group_with_members(patches: Patches) -> None:
    check = offsets._check_commit
    wrong = (Code.UNKNOWN_MEMBER_ID,)
    patches.set(offsets, "_check_commit", lambda g, ask: Code.NONE if check(g, ask) in wrong else check(g, ask))


def offsets_are_read_before_they_are_committed(patches: Patches) -> None:
    change = offsets._change

    def mutant(s: Any, g: Any, changes: Any, waiting: Any) -> None:
        change(s, g, changes, waiting)
        g.offsets.update({where: stored for where, stored in changes if stored is not None})

    patches.set(offsets, "_change", mutant)


def committed_offsets_are_not_read(patches: Patches) -> None:
    offsets_stored = offsets.offsets_stored

    def mutant(s: Any, change: Any, seq: int) -> None:
        held = dict(s.groups[change.group_id].offsets)
        offsets_stored(s, change, seq)
        s.groups[change.group_id].offsets.update(held)

    patches.set(offsets, "offsets_stored", mutant)


def an_append_is_answered_when_late_and_again_when_committed(patches: Patches) -> None:
    answer = shard.Shard.answer_pending

    def mutant(self: Any, pending: Any, code: Code) -> None:
        waiting = pending.waiting
        answer(self, pending, code)
        pending.waiting = waiting

    patches.set(shard.Shard, "answer_pending", mutant)


def a_late_append_is_never_answered(patches: Patches) -> None:
    patches.set(shard.Shard, "_late", lambda self, seq: None)


def a_second_join_forgets_the_first(patches: Patches) -> None:
    def mutant(s: Any, g: Any, member_id: str, token: Any) -> None:
        g.joins[member_id] = token

    patches.set(rebalance, "_park_join", mutant)


def an_assignment_is_taken_whatever_has_happened_meanwhile(patches: Patches) -> None:
    patches.set(rebalance, "_still_storing", lambda s, change: s.groups.get(change.group_id))


def a_restarted_leader_leads_no_more(patches: Patches) -> None:
    rename = group.Group.rename

    def mutant(self: Any, old_id: str, new_id: str) -> Any:
        leader = self.leader_id
        member = rename(self, old_id, new_id)
        self.leader_id = leader
        return member

    patches.set(group.Group, "rename", mutant)


def a_static_member_comes_back_under_no_instance(patches: Patches) -> None:
    rename = group.Group.rename

    def mutant(self: Any, old_id: str, new_id: str) -> Any:
        member = rename(self, old_id, new_id)
        self.statics[member.instance_id] = old_id
        return member

    patches.set(group.Group, "rename", mutant)


def a_static_member_is_not_waited_for_while_syncing(patches: Patches) -> None:
    def mutant(s: Any, g: Any) -> Any:
        return None if g.state is group.State.COMPLETING_REBALANCE else prepare(s, g)

    prepare = rebalance.prepare
    patches.set(rebalance, "prepare", mutant)


def a_static_members_new_id_is_not_stored(patches: Patches) -> None:
    replace_static = rebalance._replace_static
    append = shard.Shard.append

    def quiet(self: Any, records: Any, pending: Any, producer: Any = None) -> int:
        return append(self, [], pending, producer)

    def mutant(s: Any, g: Any, ask: Any, ids: Any, token: Any) -> None:
        with Patches() as inner:
            inner.set(shard.Shard, "append", quiet)
            replace_static(s, g, ask, ids, token)

    patches.set(rebalance, "_replace_static", mutant)


def a_member_that_goes_is_still_counted(patches: Patches) -> None:
    count = group.Group._count
    patches.set(group.Group, "_count", lambda self, member, by: count(self, member, by) if by > 0 else None)


def a_leader_that_goes_still_leads(patches: Patches) -> None:
    remove = group.Group.remove

    def mutant(self: Any, member_id: str) -> None:
        leader = self.leader_id
        remove(self, member_id)
        self.leader_id = leader

    patches.set(group.Group, "remove", mutant)


def a_deleted_group_leaves_offsets_under_way_behind(patches: Patches) -> None:
    delete = admin._delete

    def mutant(s: Any, g: Any, waiting: Any) -> None:
        under_way, g.in_flight = g.in_flight, {}
        delete(s, g, waiting)
        g.in_flight = under_way

    patches.set(admin, "_delete", mutant)


def a_refused_deletion_forgets_the_group(patches: Patches) -> None:
    deleted = admin.group_deleted
    patches.set(admin, "group_deleted", lambda s, change, code: deleted(s, change, Code.NONE))


def a_rebalance_has_no_end(patches: Patches) -> None:
    schedule = shard.Shard.schedule

    def mutant(self: Any, key: Any, delay_ms: int) -> None:
        if key.kind is not Timer.JOIN:
            schedule(self, key, delay_ms)

    patches.set(shard.Shard, "schedule", mutant)


def nobody_watches_who_never_syncs(patches: Patches) -> None:
    patches.set(rebalance, "sync_time_over", lambda s, g: None)


def a_member_that_is_answered_has_no_session(patches: Patches) -> None:
    stored = rebalance.assignment_stored

    def mutant(s: Any, change: Any) -> None:
        stored(s, change)
        g = s.groups.get(change.group_id)
        for member_id in [] if g is None or g.state is not group.State.STABLE else g.members:
            s.cancel(s.session(g, member_id))

    patches.set(rebalance, "assignment_stored", mutant)


def a_pending_member_that_never_joins_is_kept(patches: Patches) -> None:
    expired = staying.session_expired

    def mutant(s: Any, g: Any, member_id: str) -> None:
        if member_id not in g.pending_joins:
            expired(s, g, member_id)

    patches.set(staying, "session_expired", mutant)


def a_generation_is_stable_before_it_is_stored(patches: Patches) -> None:
    append = shard.Shard.append

    def mutant(self: Any, records: Any, pending: Any, producer: Any = None) -> int:
        seq = append(self, records, pending, producer)
        change = self.pending[seq].change
        if isinstance(change, StoredAssignment):
            rebalance.assignment_stored(self, change)
        return seq

    patches.set(shard.Shard, "append", mutant)


def unloading_forgets_who_waits(patches: Patches) -> None:
    def unload(self: Any) -> list[Any]:
        self.phase = Phase.UNLOADED
        for table in (self.groups, self.pending, self.deadlines, self._armed):
            table.clear()
        return []

    patches.set(shard.Shard, "unload", unload)


def _entry(bug: str, laws: str, patch: Any, what: str = "", first: int = 0) -> Mutant:
    return Mutant(bug, what or patch.__name__.replace("_", " "), "groups", tuple(laws.split()), patch, first)


MUTANTS = (
    _entry("KIP-62", "S18", any_generation_commits),
    _entry("KIP-62", "S18", members_commit_before_they_sync),
    _entry("KIP-62", "S18", strangers_commit_to_a_group_with_members),
    _entry("KAFKA-5600's kind", "S18", offsets_are_read_before_they_are_committed),
    _entry("redpanda 9571", "S18", committed_offsets_are_not_read),
    _entry("KAFKA-12660's kind", "L2", an_append_is_answered_when_late_and_again_when_committed),
    _entry("KAFKA-9823's kind", "L2", a_late_append_is_never_answered),
    _entry("KAFKA-7142's kind", "L2", a_second_join_forgets_the_first),
    _entry("redpanda 10669", "S18 L9 X7 L2", an_assignment_is_taken_whatever_has_happened_meanwhile),
    _entry("KAFKA-13435", "S18", a_restarted_leader_leads_no_more),
    _entry("KAFKA-8500", "S18 X7", a_static_member_comes_back_under_no_instance),
    _entry("KAFKA-9801", "S18 L2 L9", a_static_member_is_not_waited_for_while_syncing),
    _entry("KAFKA-10284", "S18", a_static_members_new_id_is_not_stored),
    _entry("KAFKA-7862's kind", "S18 L9", a_member_that_goes_is_still_counted),
    _entry("KIP-62", "S18", a_leader_that_goes_still_leads),
    _entry("KAFKA-4682's kind", "S18 X7", a_deleted_group_leaves_offsets_under_way_behind),
    _entry("KAFKA-4682's kind", "S18 X7", a_refused_deletion_forgets_the_group),
    _entry("KAFKA-9752", "L2 L9", a_rebalance_has_no_end),
    _entry("KAFKA-12890", "L2 L9", nobody_watches_who_never_syncs),
    _entry("KAFKA-9232's kind", "L9", a_member_that_is_answered_has_no_session),
    _entry("KAFKA-7909", "L9 L2", a_pending_member_that_never_joins_is_kept),
    _entry("redpanda 6018", "S18", a_generation_is_stable_before_it_is_stored),
    _entry("redpanda 5356", "L2", unloading_forgets_who_waits),
)
