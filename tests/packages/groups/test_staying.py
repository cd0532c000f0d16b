"""Heartbeats, sessions, leaving, and static members (KIP-345)."""

from __future__ import annotations

from typing import Any

from moldau.groups.facts import Leaver, Protocol
from moldau.model import Code
from moldau.simulator.machines.groups_world import GroupSimulation


def static_group(world: GroupSimulation, *names: str) -> dict[str, Any]:
    """A stable group of static members; the instance id of each is its name."""
    for name in names:
        world.join(name, instance_id=name)
    world.wait(3_000 * (len(names) + 1))
    joined = {name: world.answers[name] for name in names}
    world.assign(joined)
    return joined


def test_a_silent_member_is_removed_after_its_session_and_the_rest_rebalances() -> None:
    world = GroupSimulation()
    joined = world.stable_group("a", "b")
    a, b = joined["a"].member_id, joined["b"].member_id
    for _ in range(3):
        world.wait(4_000)
        code = world.heartbeat(a, 1)
    assert code == Code.REBALANCE_IN_PROGRESS
    assert world.join("a", a).generation == 2
    assert world.heartbeat(b, 1) == Code.UNKNOWN_MEMBER_ID


def test_heartbeats_keep_a_member_for_ever_and_arm_no_more_than_one_timer() -> None:
    world = GroupSimulation()
    a = world.stable_group("a")["a"].member_id
    for _ in range(50):
        world.wait(1_000)
        assert world.heartbeat(a, 1) == Code.NONE
    assert sum(key.member_id == a for _, _, key in world.timers) <= 2


def test_heartbeats_are_checked_for_member_and_generation() -> None:
    world = GroupSimulation()
    a = world.stable_group("a")["a"].member_id
    assert world.heartbeat(a, 0) == Code.ILLEGAL_GENERATION
    assert world.heartbeat("x", 1) == Code.UNKNOWN_MEMBER_ID
    assert world.heartbeat(a, 1, "nobody") == Code.UNKNOWN_MEMBER_ID


def test_a_member_that_waits_in_join_or_sync_is_not_silent() -> None:
    world = GroupSimulation()
    joined = world.stable_group("a", "b", session_timeout_ms=6_000)
    a, b = joined["a"].member_id, joined["b"].member_id
    world.join("a", a)
    for _ in range(8):
        world.wait(5_000)
        world.heartbeat(b, 1)
    world.join("b", b, session_timeout_ms=6_000)
    assert world.answers["a"].generation == 2
    assert world.sync("sync b", world.answers["b"]) is None
    for _ in range(4):
        world.wait(5_000)
        assert world.heartbeat(a, 2) == Code.NONE
    world.sync("sync a", world.answers["a"])
    assert world.answers["sync b"].code == Code.NONE


def test_the_last_member_leaves_an_empty_group_of_the_next_generation() -> None:
    world = GroupSimulation(auto_commit=False)
    world.auto_commit = True
    a = world.stable_group("a")["a"].member_id
    world.auto_commit = False
    assert world.leave(a) is None, "the answer waits for the log"
    world.commit()
    assert world.describe().state == "Empty"
    assert world.heartbeat(a, 1) == Code.UNKNOWN_MEMBER_ID
    assert world.replayed().describe().state == "Empty"


def test_leaving_is_answered_member_by_member() -> None:
    world = GroupSimulation()
    joined = world.stable_group("a", "b")
    reply = world.leave(joined["a"].member_id, "stranger", Leaver("", "nobody"))
    assert reply.code == Code.NONE
    assert [code for _, code in reply.leavers] == [Code.NONE, Code.UNKNOWN_MEMBER_ID, Code.UNKNOWN_MEMBER_ID]
    assert world.heartbeat(joined["b"].member_id, 1) == Code.REBALANCE_IN_PROGRESS


def test_leaving_an_unknown_group_says_so_for_each_member() -> None:
    assert [code for _, code in GroupSimulation().leave("a", "b").leavers] == [Code.UNKNOWN_MEMBER_ID] * 2


def test_a_member_that_leaves_while_it_waits_is_answered() -> None:
    world = GroupSimulation()
    joined = world.stable_group("a", "b")
    world.join("a", joined["a"].member_id)
    world.leave(joined["a"].member_id)
    assert world.answers["a"].code == Code.UNKNOWN_MEMBER_ID
    assert world.join("b", joined["b"].member_id).leader_id == joined["b"].member_id


def test_a_pending_member_that_leaves_no_longer_holds_up_the_rebalance() -> None:
    world = GroupSimulation()
    a = world.stable_group("a")["a"].member_id
    pending = world.join("p").member_id
    world.join("a", a)
    assert world.describe().state == "PreparingRebalance"
    world.leave(pending)
    assert world.answers["a"].generation == 2


def test_a_static_member_that_restarts_keeps_its_assignment_without_a_rebalance() -> None:
    world = GroupSimulation()
    old = static_group(world, "a", "b")["b"]
    new = world.join("b", instance_id="b")
    assert (new.code, new.generation) == (Code.NONE, 1)
    assert new.member_id != old.member_id
    assert world.sync("s", new, instance_id="b").assignment == b"b"
    assert world.heartbeat(old.member_id, 1, "b") == Code.FENCED_INSTANCE_ID
    assert world.heartbeat(new.member_id, 1, "b") == Code.NONE
    assert world.describe().state == "Stable"


def test_a_static_leader_that_restarts_is_told_to_skip_the_assignment() -> None:
    world = GroupSimulation()
    static_group(world, "a", "b")
    new = world.join("a", instance_id="a")
    assert (new.leader_id, new.skip_assignment) == (new.member_id, True)
    assert len(new.members) == 2


def test_an_old_static_leader_that_restarts_takes_itself_for_a_follower() -> None:
    world = GroupSimulation()
    old = static_group(world, "a", "b")["a"]
    new = world.join("a", instance_id="a", skip_assignment_understood=False)
    assert (new.leader_id, new.skip_assignment, new.members) == (old.member_id, False, ())


def test_a_static_member_that_restarts_is_known_after_a_failover() -> None:
    world = GroupSimulation()
    static_group(world, "a", "b")
    new = world.join("b", instance_id="b")
    assert world.replayed().heartbeat(new.member_id, 1, "b") == Code.NONE


def test_a_static_member_whose_restart_was_not_stored_stays_who_it_was() -> None:
    world = GroupSimulation()
    old = static_group(world, "a", "b")["b"]
    world.refuse_next = Code.NOT_LEADER_OR_FOLLOWER
    assert world.join("b", instance_id="b").code == Code.NOT_COORDINATOR
    assert world.heartbeat(old.member_id, 1, "b") == Code.NONE
    assert world.replayed().heartbeat(old.member_id, 1, "b") == Code.NONE


def test_a_static_member_whose_restart_is_not_committed_in_time_is_told_and_may_try_again() -> None:
    world = GroupSimulation()
    static_group(world, "a", "b")
    world.auto_commit = False
    assert world.join("b", instance_id="b") is None
    world.wait(5_000)
    assert world.answers["b"].code == Code.COORDINATOR_NOT_AVAILABLE
    world.auto_commit = True
    world.commit()
    assert world.join("b", instance_id="b").code == Code.NONE


def test_a_static_member_that_restarts_with_another_protocol_starts_a_rebalance() -> None:
    world = GroupSimulation()
    both = (Protocol("range", b""), Protocol("sticky", b""))
    for name in "ab":
        world.join(name, instance_id=name, protocols=both)
    world.wait(9_000)
    world.assign({name: world.answers[name] for name in "ab"})
    assert world.describe().protocol_name == "range"
    assert world.join("b", instance_id="b", protocols=(Protocol("sticky", b""),)) is None
    assert world.describe().state == "PreparingRebalance"


def test_a_restart_during_sync_fences_the_old_incarnation_and_rebalances() -> None:
    world = GroupSimulation()
    for name in "ab":
        world.join(name, instance_id=name)
    world.wait(9_000)
    old = world.answers["b"]
    assert world.sync("old sync", old, instance_id="b") is None
    world.join("b again", instance_id="b")
    assert world.answers["old sync"].code == Code.FENCED_INSTANCE_ID
    assert world.describe().state == "PreparingRebalance"
    assert world.join("old", old.member_id, instance_id="b").code == Code.FENCED_INSTANCE_ID


def test_a_restart_while_the_old_incarnation_waits_to_join_fences_it() -> None:
    world = GroupSimulation()
    world.join("old", instance_id="a")
    world.join("new", instance_id="a")
    assert world.answers["old"].code == Code.FENCED_INSTANCE_ID
    world.wait(6_000)
    assert world.answers["new"].code == Code.NONE


def test_static_members_may_be_absent_from_a_rebalance_and_keep_their_place() -> None:
    world = GroupSimulation()
    for name in "ab":
        world.join(name, instance_id=name, session_timeout_ms=100_000)
    world.wait(9_000)
    world.assign({name: world.answers[name] for name in "ab"})
    world.join("a", world.answers["a"].member_id, instance_id="a", session_timeout_ms=100_000)
    world.wait(60_000)
    assert world.answers["a"].generation == 2
    assert len(world.answers["a"].members) == 2


def test_an_administrator_removes_a_static_member_by_its_instance_id() -> None:
    world = GroupSimulation()
    old = static_group(world, "a", "b")["b"]
    assert [code for _, code in world.leave(Leaver("", "b")).leavers] == [Code.NONE]
    assert world.heartbeat(old.member_id, 1, "b") == Code.UNKNOWN_MEMBER_ID
    assert [code for _, code in world.leave(Leaver("other", "a")).leavers] == [Code.FENCED_INSTANCE_ID]
