"""Joining and syncing, one behaviour of the classic protocol after the other."""

from __future__ import annotations

import pytest

from moldau.groups import rebalance
from moldau.groups.facts import Protocol
from moldau.model import Code
from moldau.simulator.machines.groups_world import RANGE, GroupSimulation


def test_a_new_dynamic_member_is_first_given_an_id_and_told_to_come_back_with_it() -> None:
    world = GroupSimulation()
    first = world.join("a")
    assert (first.code, first.member_id[:2]) == (Code.MEMBER_ID_REQUIRED, "a-")
    assert world.join("a", first.member_id) is None
    world.wait(3_000)
    joined = world.answers["a"]
    assert (joined.code, joined.generation, joined.leader_id) == (Code.NONE, 1, first.member_id)
    assert (joined.protocol_type, joined.protocol_name) == ("consumer", "range")
    assert [m.member_id for m in joined.members] == [first.member_id]


def test_a_member_that_never_comes_back_with_its_id_is_forgotten_after_its_session() -> None:
    world = GroupSimulation()
    first = world.join("a")
    world.wait(10_000)
    assert world.join("a", first.member_id).code == Code.UNKNOWN_MEMBER_ID


def test_the_first_rebalance_waits_for_company_and_only_the_leader_hears_of_all_members() -> None:
    world = GroupSimulation()
    world.join("a", known_member_id_required=False)
    world.wait(2_000)
    world.join("b", known_member_id_required=False)
    world.wait(1_500)
    assert world.answers == {}, "b came late: the delay is extended once more"
    world.wait(3_000)
    a, b = world.answers["a"], world.answers["b"]
    assert a.generation == b.generation == 1
    assert {m.member_id for m in a.members} == {a.member_id, b.member_id}
    assert b.members == ()
    assert b.leader_id == a.member_id


def test_the_first_rebalance_never_waits_longer_than_the_rebalance_timeout() -> None:
    world = GroupSimulation()
    for second in range(12):
        world.join(f"m{second}", known_member_id_required=False, rebalance_timeout_ms=10_000)
        world.wait(1_000)
        if world.answers:
            break
    assert world.at_ms - 1_000 <= 10_000 + 3_000


def test_followers_get_their_assignment_when_the_leaders_is_committed_and_not_before() -> None:
    world = GroupSimulation(auto_commit=False)
    for name in "ab":
        world.join(name, known_member_id_required=False)
    world.wait(6_000)
    a, b = world.answers["a"], world.answers["b"]
    assert world.sync("sync b", b) is None
    assert world.sync("sync a", a, {a.member_id: b"1", b.member_id: b"2"}) is None
    assert world.describe().state == "CompletingRebalance"
    world.commit()
    assert world.answers["sync a"].assignment == b"1"
    assert world.answers["sync b"].assignment == b"2"
    assert world.describe().state == "Stable"
    assert world.sync("again", b).assignment == b"2", "a lost answer is given again"


def test_a_member_that_the_leader_forgot_gets_an_empty_assignment() -> None:
    world = GroupSimulation()
    joined = world.stable_group("a", "b")
    assert world.describe().state == "Stable"
    world.join("a", joined["a"].member_id)
    world.join("b", joined["b"].member_id)
    world.sync("sync b", world.answers["b"])
    world.sync("sync a", world.answers["a"], {joined["a"].member_id: b"all"})
    assert world.answers["sync b"].assignment == b""


def test_a_new_member_makes_the_others_rejoin_and_who_does_not_is_dropped_at_the_rebalance_timeout() -> None:
    world = GroupSimulation()
    joined = world.stable_group("a", "b")
    world.join("c", known_member_id_required=False)
    a, b = joined["a"], joined["b"]
    assert world.heartbeat(a.member_id, 1) == Code.REBALANCE_IN_PROGRESS
    world.join("a", a.member_id)
    for _ in range(12):
        world.wait(5_000)
        if "c" not in world.answers:
            assert world.heartbeat(b.member_id, 1) == Code.REBALANCE_IN_PROGRESS, "alive, but it does not rejoin"
    c = world.answers["c"]
    assert (c.code, c.generation) == (Code.NONE, 2)
    assert world.heartbeat(b.member_id, 1) == Code.UNKNOWN_MEMBER_ID


def test_a_leader_that_does_not_rejoin_is_replaced_by_a_member_that_did() -> None:
    world = GroupSimulation()
    joined = world.stable_group("a", "b")
    world.join("b", joined["b"].member_id, protocols=(Protocol("range", b"other"),))
    world.wait(60_000)
    assert world.answers["b"].leader_id == joined["b"].member_id
    assert len(world.answers["b"].members) == 1


def test_a_follower_that_joins_a_stable_group_unchanged_just_hears_the_generation_again() -> None:
    world = GroupSimulation()
    b = world.stable_group("a", "b")["b"]
    assert world.join("b", b.member_id).generation == 1
    assert world.describe().state == "Stable"


def test_a_leader_that_joins_a_stable_group_unchanged_starts_a_rebalance() -> None:
    world = GroupSimulation()
    joined = world.stable_group("a", "b")
    assert world.join("a", joined["a"].member_id) is None
    assert world.describe().state == "PreparingRebalance"
    assert world.join("b", joined["b"].member_id).generation == 2


def test_a_changed_subscription_during_sync_sends_everybody_back_to_join() -> None:
    world = GroupSimulation()
    for name in "ab":
        world.join(name, known_member_id_required=False)
    world.wait(6_000)
    a, b = world.answers["a"], world.answers["b"]
    assert world.sync("sync b", b) is None
    world.join("a", a.member_id, protocols=(Protocol("range", b"other"),))
    assert world.answers["sync b"].code == Code.REBALANCE_IN_PROGRESS


def test_members_that_join_but_never_sync_are_removed_after_the_rebalance_timeout() -> None:
    world = GroupSimulation()
    for name in "ab":
        world.join(name, known_member_id_required=False, session_timeout_ms=120_000)
    world.wait(6_000)
    a, b = world.answers["a"], world.answers["b"]
    world.sync("sync b", b)
    world.wait(60_000)
    assert world.answers["sync b"].code == Code.REBALANCE_IN_PROGRESS
    assert world.heartbeat(a.member_id, 1) == Code.UNKNOWN_MEMBER_ID
    assert world.join("b", b.member_id).leader_id == b.member_id


def test_the_protocol_is_one_that_everybody_offers_and_most_prefer() -> None:
    world = GroupSimulation()
    one, two, three = Protocol("one", b""), Protocol("two", b""), Protocol("three", b"")
    world.join("a", known_member_id_required=False, protocol_type="x", protocols=(one, two, three))
    world.join("b", known_member_id_required=False, protocol_type="x", protocols=(three, two, one))
    world.join("c", known_member_id_required=False, protocol_type="x", protocols=(two, three))
    for name in "de":
        world.join(name, known_member_id_required=False, protocol_type="x", protocols=(three, two))
    world.wait(20_000)
    assert world.answers["a"].protocol_name == "three"


def test_when_preferences_are_even_the_leader_decides() -> None:
    world = GroupSimulation()
    one, two = Protocol("one", b""), Protocol("two", b"")
    world.join("a", known_member_id_required=False, protocol_type="x", protocols=(two, one))
    world.join("b", known_member_id_required=False, protocol_type="x", protocols=(one, two))
    world.wait(20_000)
    assert world.answers["b"].protocol_name == "two"


def test_a_member_with_nothing_in_common_is_refused_and_nobody_is_disturbed() -> None:
    world = GroupSimulation()
    world.stable_group("a")
    for facts in ({"protocols": (Protocol("roundrobin", b""),)}, {"protocol_type": "connect"}):
        reply = world.join("x", known_member_id_required=False, **facts)
        assert (reply.code, reply.member_id) == (Code.INCONSISTENT_GROUP_PROTOCOL, "")
    assert world.describe().state == "Stable"
    assert world.join("y", group_id="new", protocols=()).code == Code.INCONSISTENT_GROUP_PROTOCOL
    assert not world.describe("new").found, "a refused join leaves no group behind"


def test_sessions_outside_the_allowed_range_and_groups_without_a_name_are_refused() -> None:
    world = GroupSimulation()
    assert world.join("a", session_timeout_ms=5_999).code == Code.INVALID_SESSION_TIMEOUT
    assert world.join("a", session_timeout_ms=1_800_001).code == Code.INVALID_SESSION_TIMEOUT
    assert world.join("a", group_id="").code == Code.INVALID_GROUP_ID
    assert world.join("a", "stranger").code == Code.UNKNOWN_MEMBER_ID


def test_a_full_group_turns_new_members_away() -> None:
    world = GroupSimulation(max_size=2)
    world.stable_group("a", "b")
    reply = world.join("c")
    assert (reply.code, reply.member_id) == (Code.GROUP_MAX_SIZE_REACHED, "")


def test_a_group_that_shrank_by_configuration_keeps_those_who_rejoin_first() -> None:
    world = GroupSimulation()
    joined = world.stable_group("a", "b", "c")
    again = world.replayed(max_size=2)
    assert again.describe().state == "PreparingRebalance"
    again.join("a", joined["a"].member_id)
    again.join("b", joined["b"].member_id)
    assert again.join("c", joined["c"].member_id).code == Code.GROUP_MAX_SIZE_REACHED
    assert again.answers["a"].generation == 2


def test_sync_is_checked_for_member_generation_and_protocol() -> None:
    world = GroupSimulation()
    a = world.stable_group("a")["a"]
    assert world.sync("s", a, generation=0).code == Code.ILLEGAL_GENERATION
    assert world.sync("s", a, protocol_type="connect").code == Code.INCONSISTENT_GROUP_PROTOCOL
    assert world.sync("s", a, protocol_name="sticky").code == Code.INCONSISTENT_GROUP_PROTOCOL
    assert world.sync("s", a, protocol_type="consumer", protocol_name="range").assignment == b"a"
    assert world.sync("s", a._replace(member_id="x")).code == Code.UNKNOWN_MEMBER_ID


def test_an_assignment_that_could_not_be_stored_is_given_to_nobody() -> None:
    world = GroupSimulation()
    for name in "ab":
        world.join(name, known_member_id_required=False)
    world.wait(6_000)
    a, b = world.answers["a"], world.answers["b"]
    world.sync("sync b", b)
    world.refuse_next = Code.NOT_ENOUGH_REPLICAS
    world.sync("sync a", a, {a.member_id: b"1", b.member_id: b"2"})
    assert world.answers["sync a"] == world.answers["sync b"]
    assert (world.answers["sync a"].code, world.answers["sync a"].assignment) == (Code.COORDINATOR_NOT_AVAILABLE, b"")
    assert world.describe().state == "PreparingRebalance"


def test_an_assignment_that_is_committed_too_late_does_not_come_back() -> None:
    world = GroupSimulation(auto_commit=False)
    world.join("a", known_member_id_required=False)
    world.wait(3_000)
    a = world.answers["a"]
    world.sync("sync a", a, {a.member_id: b"1"})
    world.wait(5_000)
    assert world.answers["sync a"].code == Code.COORDINATOR_NOT_AVAILABLE
    world.join("a", a.member_id)
    assert world.answers["a"].generation == 2
    world.commit()
    assert world.describe().state == "CompletingRebalance"
    assert world.describe().members[0].assignment == b""


def test_a_second_join_of_the_same_member_replaces_the_first_which_is_answered() -> None:
    world = GroupSimulation()
    first = world.join("a").member_id
    world.join("early", first)
    world.join("late", first)
    assert world.answers["early"].code == Code.REBALANCE_IN_PROGRESS
    world.wait(3_000)
    assert world.answers["late"].code == Code.NONE


def test_a_rebalance_that_nobody_but_absent_static_members_could_complete_waits_for_their_sessions() -> None:
    world = GroupSimulation()
    for name in "ab":
        world.join(name, instance_id=name, session_timeout_ms=200_000)
    world.wait(9_000)
    world.assign({name: world.answers[name] for name in "ab"})
    c = world.join("c")
    world.join("c", c.member_id, session_timeout_ms=6_000)
    world.leave(c.member_id)
    world.wait(60_000)
    assert world.describe().state == "PreparingRebalance"
    world.wait(200_000)
    assert world.describe().state == "Empty"


def test_old_clients_join_in_one_step() -> None:
    world = GroupSimulation()
    assert world.join("a", known_member_id_required=False, protocols=RANGE) is None
    world.wait(3_000)
    assert world.answers["a"].code == Code.NONE


def test_a_group_takes_no_member_whose_data_could_not_be_stored() -> None:
    """Twenty of 8 MB each were kept for half an hour after their clients had gone: 160 MB a group."""
    world = GroupSimulation()
    world.shard.record_bytes_max = 100_000
    large = (Protocol("range", b"x" * 300_000), Protocol("other", b""))
    joins = [world.join(name, protocols=large, known_member_id_required=False) for name in "abc"]
    assert joins[:2] == [None, None], "for as many protocols as clients offer"
    assert joins[2].code == Code.GROUP_MAX_SIZE_REACHED
    assert world.shard.held_bytes.total < 8 * 100_000
    world.wait(6_000)
    a = world.answers["a"]
    assert world.join("a", a.member_id, protocols=(Protocol("range", b"x" * 600_000),)).code == (
        Code.GROUP_MAX_SIZE_REACHED
    ), "nor does who is a member already bring more than that"


@pytest.mark.parametrize("is_synced", [True, False])
def test_a_member_that_is_put_out_for_its_size_leaves_its_partitions_to_others(is_synced: bool) -> None:
    """It was taken out of a group that went on as it was: nobody read what it had, or the group waited for it."""
    world = GroupSimulation()
    if is_synced:
        joined = world.stable_group("a", "b")
    else:
        for name in "ab":
            world.join(name, known_member_id_required=False)
        world.wait(6_000)
        joined = {name: world.answers[name] for name in "ab"}
        world.sync("sync b", joined["b"])
    world.shard.record_bytes_max = 10_000
    too_much = (Protocol("range", b"x" * 100_000),)
    assert world.join("a", joined["a"].member_id, protocols=too_much).code == Code.GROUP_MAX_SIZE_REACHED
    assert world.describe().state == "PreparingRebalance"
    if not is_synced:
        assert world.answers["sync b"].code == Code.REBALANCE_IN_PROGRESS
    assert world.heartbeat(joined["b"].member_id, 1) == Code.REBALANCE_IN_PROGRESS
    world.join("b", joined["b"].member_id)
    assert world.answers["b"].leader_id == joined["b"].member_id


def test_members_of_all_groups_are_bounded_and_what_is_forgotten_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebalance, "MEMBERS_BYTES_MAX", 4_500)
    world = GroupSimulation()
    first = world.join("a")
    assert first.code == Code.MEMBER_ID_REQUIRED
    ids = [world.join(f"m{number}") for number in range(9)]
    assert Code.COORDINATOR_NOT_AVAILABLE in {one.code for one in ids}, "ids that were handed out count as well"
    world.wait(20_000)
    assert world.shard.held_bytes.total == 0
    assert world.join("a").code == Code.MEMBER_ID_REQUIRED


def test_groups_that_are_asked_for_and_never_used_are_bounded_by_their_names_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a group with a name of 30,000 letters 534 bytes were counted, and it stayed when its only member had gone, or
    had been refused: a broker held 100 MB of them after 3,000 requests."""
    monkeypatch.setattr(rebalance, "MEMBERS_BYTES_MAX", 100_000)
    world = GroupSimulation()
    codes = [world.join("a", group_id=f"{number}{'g' * 30_000}").code for number in range(9)]
    assert codes == [Code.MEMBER_ID_REQUIRED] * 3 + [Code.COORDINATOR_NOT_AVAILABLE] * 6
    assert len(world.shard.groups) == 3, "who is refused leaves nothing"
    for number in range(9):
        world.join("b", group_id=f"{number}", protocols=())
    assert len(world.shard.groups) == 3
    world.wait(10_000)
    assert (len(world.shard.groups), world.shard.held_bytes.total) == (0, 0)


def test_a_group_whose_only_member_leaves_before_it_has_joined_is_forgotten() -> None:
    world = GroupSimulation()
    first = world.join("a")
    world.leave(first.member_id)
    assert (len(world.shard.groups), world.shard.held_bytes.total) == (0, 0)
