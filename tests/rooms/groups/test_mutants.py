"""A law that cannot fail is not a law: plausible bugs, each of which the machine or a law must catch in some scene."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from moldau.groups import admin, group, laws, offsets, rebalance, shard
from moldau.terms import Code
from tests.rooms.groups import test_offsets, test_rebalance, test_staying
from tests.rooms.groups.world import World

SCENES = [
    scene
    for module in (test_rebalance, test_staying, test_offsets)
    for name, scene in vars(module).items()
    if name.startswith("test_") and not inspect.signature(scene).parameters and "sweep" not in name
]


def caught(scene: Callable[[], None], patch: pytest.MonkeyPatch) -> bool:
    """Whether the machine or a law objects in a scene, or somebody is left waiting at its end; the scene's own
    expectations do not count."""
    worlds: list[World] = []
    make = World.__init__

    def remember(self: World, **facts: Any) -> None:
        worlds.append(self)
        make(self, **facts)

    with patch.context() as watch:
        watch.setattr(World, "__init__", remember)
        try:
            scene()
        except Exception as error:
            if any("moldau/groups" in frame.filename for frame in traceback.extract_tb(error.__traceback__)):
                return True
        try:
            for world in list(worlds):
                world.wait(400_000)
                world.commit()
                world.wait(400_000)
                assert world.audit.waiting == set()
                if world.shard.phase is shard.Phase.ACTIVE:
                    laws.same_committed_state(world.shard, world.replayed().shard)
        except (AssertionError, KeyError):
            return True
    return False


def any_generation_commits(patch: pytest.MonkeyPatch) -> None:
    check = offsets._check_commit
    wrong = (Code.ILLEGAL_GENERATION,)
    patch.setattr(offsets, "_check_commit", lambda g, ask: Code.NONE if check(g, ask) in wrong and g else check(g, ask))


def members_commit_before_they_sync(patch: pytest.MonkeyPatch) -> None:
    check = offsets._check_commit
    wrong = (Code.REBALANCE_IN_PROGRESS,)
    patch.setattr(offsets, "_check_commit", lambda g, ask: Code.NONE if check(g, ask) in wrong else check(g, ask))


def offsets_are_read_before_they_are_committed(patch: pytest.MonkeyPatch) -> None:
    change = offsets._change

    def mutant(s: Any, g: Any, changes: Any, waiting: Any) -> None:
        change(s, g, changes, waiting)
        g.offsets.update({where: stored for where, stored in changes if stored is not None})

    patch.setattr(offsets, "_change", mutant)


def an_append_is_answered_when_late_and_again_when_committed(patch: pytest.MonkeyPatch) -> None:
    answer = shard.Shard.answer_pending

    def mutant(self: Any, pending: Any, code: Code) -> None:
        waiting = pending.waiting
        answer(self, pending, code)
        pending.waiting = waiting

    patch.setattr(shard.Shard, "answer_pending", mutant)


def a_second_join_forgets_the_first(patch: pytest.MonkeyPatch) -> None:
    def mutant(s: Any, g: Any, member_id: str, token: Any) -> None:
        g.joins[member_id] = token

    patch.setattr(rebalance, "_park_join", mutant)


def an_assignment_is_taken_whatever_has_happened_meanwhile(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rebalance, "_still_storing", lambda s, change: s.groups.get(change.group_id))


def a_restarted_leader_leads_no_more(patch: pytest.MonkeyPatch) -> None:
    rename = group.Group.rename

    def mutant(self: Any, old_id: str, new_id: str) -> Any:
        leader = self.leader_id
        member = rename(self, old_id, new_id)
        self.leader_id = leader
        return member

    patch.setattr(group.Group, "rename", mutant)


def a_member_that_goes_is_still_counted(patch: pytest.MonkeyPatch) -> None:
    count = group.Group._count
    patch.setattr(group.Group, "_count", lambda self, member, by: count(self, member, by) if by > 0 else None)


def a_deleted_group_leaves_offsets_under_way_behind(patch: pytest.MonkeyPatch) -> None:
    delete = admin._delete

    def mutant(s: Any, g: Any, waiting: Any) -> None:
        under_way, g.in_flight = g.in_flight, {}
        delete(s, g, waiting)
        g.in_flight = under_way

    patch.setattr(admin, "_delete", mutant)


def a_first_rebalance_has_no_timer(patch: pytest.MonkeyPatch) -> None:
    schedule = shard.Shard.schedule

    def mutant(self: Any, key: Any, delay_ms: int) -> None:
        if key.kind is not shard.Timer.JOIN:
            schedule(self, key, delay_ms)

    patch.setattr(shard.Shard, "schedule", mutant)


def nobody_watches_who_never_syncs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rebalance, "sync_time_over", lambda s, g: None)


def a_refused_deletion_forgets_the_group(patch: pytest.MonkeyPatch) -> None:
    deleted = admin.group_deleted
    patch.setattr(admin, "group_deleted", lambda s, change, code: deleted(s, change, Code.NONE))


MUTANTS: list[Callable[[pytest.MonkeyPatch], None]] = [
    any_generation_commits, members_commit_before_they_sync, offsets_are_read_before_they_are_committed,
    an_append_is_answered_when_late_and_again_when_committed, a_second_join_forgets_the_first,
    an_assignment_is_taken_whatever_has_happened_meanwhile, a_restarted_leader_leads_no_more,
    a_member_that_goes_is_still_counted, a_deleted_group_leaves_offsets_under_way_behind,
    a_first_rebalance_has_no_timer, nobody_watches_who_never_syncs, a_refused_deletion_forgets_the_group,
]  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_the_laws_catch(mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any(caught(scene, monkeypatch) for scene in SCENES), "without a mutant the laws are silent"
    mutant(monkeypatch)
    assert any(caught(scene, monkeypatch) for scene in SCENES)


def test_a_token_that_is_answered_twice_or_never_asked_is_noticed() -> None:
    audit = laws.Audit()
    with pytest.raises(AssertionError, match="twice"):
        audit.saw([shard.Reply("t", shard.HeartbeatReply(Code.NONE))])
