"""The life of a shard: loading, taking over, unloading; and which partition a group lives in."""

from __future__ import annotations

import pytest

from moldau.groups import GroupsConfig, Phase, Shard, java_hash, partition_for
from moldau.groups.facts import Heartbeat, Join, ListGroups, Now, Reply, refuse
from moldau.groups.records import GroupRecord, OffsetRecord, ReplayedRecord, StoredOffset
from moldau.model import Code
from moldau.simulator.machines.groups_world import RANGE, GroupSimulation

NOW = Now(0, 0)
JOIN = Join("g", "", None, "consumer", RANGE, 10_000, 10_000, "c", "h", "u")


def test_while_loading_asks_are_sent_back_and_heartbeats_are_soothed() -> None:
    shard = Shard(GroupsConfig())
    assert shard.step(JOIN, NOW, "t") == [Reply("t", refuse(JOIN, Code.COORDINATOR_LOAD_IN_PROGRESS))]
    assert shard.step(ListGroups(), NOW, "t") == [Reply("t", refuse(ListGroups(), Code.COORDINATOR_LOAD_IN_PROGRESS))]
    heartbeat = Heartbeat("g", "m", None, 1)
    assert shard.step(heartbeat, NOW, "t") == [Reply("t", refuse(heartbeat, Code.NONE))]


def test_unloading_answers_everybody_who_waits_and_forgets_everything() -> None:
    world = GroupSimulation()
    joined = world.stable_group("a", "b")
    world.auto_commit = False
    world.commit_offset(1, joined["a"].member_id, 1)
    world.join("a", joined["a"].member_id)
    effects = world.shard.unload()
    world._carry_out(effects)
    assert world.audit.waiting == set()
    assert world.answers["a"].code == Code.NOT_COORDINATOR
    assert world.shard.phase is Phase.UNLOADED
    assert not world.shard.groups
    assert world.join("late").code == Code.NOT_COORDINATOR
    world.commit()


def test_members_of_a_loaded_group_have_a_session_from_the_moment_of_loading() -> None:
    world = GroupSimulation()
    joined = world.stable_group("a", "b")
    again = world.replayed()
    again.wait(9_000)
    assert again.heartbeat(joined["a"].member_id, 1) == Code.NONE
    again.wait(2_000)
    assert again.heartbeat(joined["a"].member_id, 1) == Code.REBALANCE_IN_PROGRESS
    assert again.heartbeat(joined["b"].member_id, 1) == Code.UNKNOWN_MEMBER_ID


def test_tombstones_remove_and_order_decides() -> None:
    shard = Shard(GroupsConfig())
    stored = StoredOffset(1, -1, "", 0)
    written: list[ReplayedRecord] = [
        OffsetRecord("a", "t", 0, stored),
        OffsetRecord("a", "t", 0, None),
        OffsetRecord("b", "t", 0, None),
        OffsetRecord("c", "t", 0, stored._replace(offset=7)),
        GroupRecord("d", None),
        OffsetRecord("e", "t", 0, stored),
        GroupRecord("e", None),
    ]
    for record in written:
        shard.apply(record)
    shard.loaded(NOW)
    assert {group.group_id: len(group.offsets) for group in shard.groups.values()} == {"a": 0, "c": 1, "e": 1}
    assert shard.groups["e"].protocol_type is None, (
        "its offsets stay: Kafka writes that when a group's protocol changes"
    )


def test_the_hash_is_javas() -> None:
    # expected values by String.hashCode's definition in the Java language documentation, s[0]*31^(n-1) + ... + s[n-1]
    assert java_hash("a") == 97
    assert java_hash("ab") == 97 * 31 + 98
    assert java_hash("polygenelubricants") == -(2**31)
    assert java_hash("\U0001f600") == 0xD83D * 31 + 0xDE00, "a surrogate pair counts as two"


def test_a_group_has_no_partition_while_its_topic_has_none() -> None:
    assert partition_for("g", 0) == -1


@pytest.mark.parametrize("count", [1, 3, 50])
def test_every_group_has_a_partition_even_the_one_without_a_positive_hash(count: int) -> None:
    assert partition_for("polygenelubricants", count) == 0
    assert partition_for("a", count) == 97 % count
    assert partition_for("my-group", count) == 1_906_497_762 % count
