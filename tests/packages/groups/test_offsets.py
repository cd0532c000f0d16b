"""Committing, fetching, deleting and expiring offsets; deleting groups."""

from __future__ import annotations

import pytest

from moldau.groups.codec import pack
from moldau.groups.facts import CommitItem, DeleteOffsets, FetchOffsets, ListGroups, OffsetCommit, Protocol
from moldau.groups.records import OffsetRecord, OtherGroupRecord, Record, ReplayedRecord, StoredOffset
from moldau.groups.state import Phase
from moldau.model import Code, TopicPartition
from moldau.simulator.machines.groups_world import GroupSimulation

WEEK_MS = 7 * 24 * 3_600_000
T0 = TopicPartition("t", 0)


def test_an_offset_is_acked_and_read_only_when_it_is_committed() -> None:
    world = GroupSimulation(auto_commit=False)
    assert world.commit_offset(5) is None
    assert world.offset() is None
    world.commit()
    assert world.offset() == 5


def test_a_refused_commit_changes_nothing_and_says_what_a_client_understands() -> None:
    world = GroupSimulation()
    for logged, heard in {
        Code.NOT_ENOUGH_REPLICAS: Code.COORDINATOR_NOT_AVAILABLE,
        Code.NOT_LEADER_OR_FOLLOWER: Code.NOT_COORDINATOR,
        Code.KAFKA_STORAGE_ERROR: Code.NOT_COORDINATOR,
        Code.MESSAGE_TOO_LARGE: Code.INVALID_COMMIT_OFFSET_SIZE,
    }.items():
        world.refuse_next = logged
        assert world.commit_offset(5) == heard
        assert world.offset() is None
    assert not world.describe().found, "a group made only for a refused commit is gone"


def test_a_commit_that_is_late_is_answered_with_an_error_and_may_still_land() -> None:
    world = GroupSimulation(auto_commit=False)
    world.commit_offset(5)
    world.wait(5_000)
    assert [reply.codes for reply in world.answers.values()] == [(Code.COORDINATOR_NOT_AVAILABLE,)]
    assert world.offset() is None
    world.commit()
    assert world.offset() == 5


MANY = 1_000
LONG_NAME = "g" * 30_000


def many_offsets(group_id: str) -> GroupSimulation:
    world = GroupSimulation()
    for begin in range(0, MANY, 500):
        items = tuple(CommitItem("t", partition, 5, -1, "") for partition in range(begin, begin + 500))
        assert set(world.submit(OffsetCommit(group_id, "", None, -1, items)).codes) == {Code.NONE}
    world.auto_commit = False
    return world


@pytest.mark.parametrize("group_id", ["g", LONG_NAME], ids=["short", "long"])
@pytest.mark.parametrize("how", ["topic deleted", "group deleted", "expired"])
def test_offsets_that_do_not_fit_into_one_batch_go_in_several(group_id: str, how: str) -> None:
    """One append of all was refused, and a topic made again was read from where the old one had ended."""
    world = many_offsets(group_id)
    if how == "topic deleted":
        world.topics_deleted("t")
    elif how == "group deleted":
        assert world.delete(group_id) is None, "it is answered when the last of them is committed"
    else:
        world.wait(WEEK_MS + 3_600_000)
    assert len(world.uncommitted) > 1
    for _, records in world.uncommitted:
        assert sum(sum(map(len, pack_all(record))) + 60 for record in records) < 300_000
    world.commit()
    assert world.offset("t", 0, group_id) is None
    assert world.offset("t", MANY - 1, group_id) is None
    after = world.replayed()
    assert after.offset("t", MANY // 2, group_id) is None
    if how == "group deleted":
        assert not world.describe(group_id).found


def pack_all(record: Record) -> list[bytes]:
    key, value = pack(record)
    return [key, value or b""]


def test_overlapping_commits_end_with_the_last_appended() -> None:
    world = GroupSimulation(auto_commit=False)
    world.commit_offset(5)
    world.commit_offset(6)
    world.commit(1)
    assert world.offset() == 5
    world.commit()
    assert world.offset() == 6


def test_only_members_of_the_current_generation_commit() -> None:
    world = GroupSimulation()
    joined = world.stable_group("a", "b")
    a = joined["a"].member_id
    assert world.commit_offset(1, a, 1) == Code.NONE
    assert world.commit_offset(2, a, 0) == Code.ILLEGAL_GENERATION
    assert world.commit_offset(2, "x", 1) == Code.UNKNOWN_MEMBER_ID
    assert world.commit_offset(2) == Code.UNKNOWN_MEMBER_ID, "an outsider, while there are members"
    assert world.commit_offset(2, a, 1, instance_id="i") == Code.UNKNOWN_MEMBER_ID
    assert world.offset() == 1


def test_a_member_may_commit_while_others_rejoin_but_not_between_join_and_sync() -> None:
    world = GroupSimulation()
    a = world.stable_group("a")["a"].member_id
    world.join("b", known_member_id_required=False)
    assert world.commit_offset(3, a, 1) == Code.NONE
    world.join("a", a)
    assert world.commit_offset(4, a, 1) == Code.ILLEGAL_GENERATION
    assert world.commit_offset(4, a, 2) == Code.REBALANCE_IN_PROGRESS
    assert world.offset() == 3


def test_commits_keep_a_member_alive() -> None:
    world = GroupSimulation()
    a = world.stable_group("a")["a"].member_id
    for offset in range(5):
        world.wait(6_000)
        assert world.commit_offset(offset, a, 1) == Code.NONE


def test_a_generation_of_an_unknown_group_hears_what_its_version_understands() -> None:
    world = GroupSimulation()
    assert world.commit_offset(1, "a", 3) == Code.ILLEGAL_GENERATION
    assert world.commit_offset(1, "a", 3, unknown_group_code=Code.GROUP_ID_NOT_FOUND) == Code.GROUP_ID_NOT_FOUND


def test_metadata_that_is_too_long_is_refused_item_by_item() -> None:
    world = GroupSimulation()
    items = (CommitItem("t", 0, 1, -1, "x" * 4_097), CommitItem("t", 1, 2, 7, "x" * 4_096))
    codes = world.submit(OffsetCommit("g", "", None, -1, items)).codes
    assert codes == (Code.OFFSET_METADATA_TOO_LARGE, Code.NONE)
    assert (world.offset(partition=0), world.offset(partition=1)) == (None, 2)


def test_a_fetch_that_wants_stability_is_sent_back_while_a_commit_is_under_way() -> None:
    world = GroupSimulation(auto_commit=False)
    world.commit_offset(1)
    for where in ((T0,), None):
        items = world.submit(FetchOffsets("g", where, require_stable=True)).items
        assert all(item.code == Code.UNSTABLE_OFFSET_COMMIT for item in items)
    world.commit()
    item = world.submit(FetchOffsets("g", None, require_stable=True)).items[0]
    assert (item.topic, item.partition, item.code) == ("t", 0, Code.NONE)
    assert item.stored is not None
    assert item.stored.offset == 1


def test_an_unknown_group_has_no_offsets_and_that_is_no_error() -> None:
    world = GroupSimulation()
    assert world.submit(FetchOffsets("nobody", None)) == (Code.NONE, (), ())
    assert world.submit(FetchOffsets("nobody", (T0,))).items[0].stored is None


def test_offsets_of_a_topic_that_members_read_cannot_be_deleted() -> None:
    world = GroupSimulation()
    a = world.stable_group("a")["a"].member_id
    world.commit_offset(1, a, 1)
    world.commit_offset(2, a, 1, topic="other")
    reply = world.submit(DeleteOffsets("g", (T0, TopicPartition("other", 0), TopicPartition("other", 9))))
    assert reply == (Code.NONE, (Code.GROUP_SUBSCRIBED_TO_TOPIC, Code.NONE, Code.NONE))
    assert (world.offset(), world.offset("other")) == (1, None)


def test_offsets_of_members_that_are_not_consumers_cannot_be_deleted() -> None:
    world = GroupSimulation()
    world.join("a", known_member_id_required=False, protocol_type="connect", protocols=(Protocol("p", b""),))
    assert world.submit(DeleteOffsets("g", (T0,))).code == Code.NON_EMPTY_GROUP
    assert world.submit(DeleteOffsets("nobody", (T0,))).code == Code.GROUP_ID_NOT_FOUND


def test_a_deleted_topic_takes_its_offsets_along_also_those_under_way() -> None:
    world = GroupSimulation(auto_commit=False)
    world.commit_offset(1)
    world.commit_offset(2, topic="stays")
    world.commit()
    world.commit_offset(3, partition=1)
    world.topics_deleted("t")
    world.commit()
    assert (world.offset(), world.offset(partition=1), world.offset("stays")) == (None, None, 2)


def test_deleting_a_group_needs_it_empty_and_is_in_the_log_when_answered() -> None:
    world = GroupSimulation()
    assert world.delete() == Code.GROUP_ID_NOT_FOUND
    a = world.stable_group("a")["a"].member_id
    world.commit_offset(1, a, 1)
    assert world.delete() == Code.NON_EMPTY_GROUP
    world.leave(a)
    world.auto_commit = False
    assert world.delete() is None
    assert world.join("b").code == Code.COORDINATOR_NOT_AVAILABLE, "between two lives"
    assert world.commit_offset(2) == Code.COORDINATOR_NOT_AVAILABLE
    world.commit()
    assert not world.describe().found
    again = world.replayed()
    assert not again.describe().found
    assert again.offset() is None


def test_a_deletion_that_is_refused_leaves_the_group_as_it_was() -> None:
    world = GroupSimulation()
    world.commit_offset(1)
    world.refuse_next = Code.NOT_ENOUGH_REPLICAS
    assert world.delete() == Code.COORDINATOR_NOT_AVAILABLE
    assert world.offset() == 1
    assert world.describe().state == "Empty"


def test_a_commit_under_way_is_deleted_with_its_group_here_and_after_a_failover() -> None:
    world = GroupSimulation(auto_commit=False)
    world.commit_offset(1)
    world.delete()
    world.commit()
    assert world.offset() is None
    assert not world.replayed().describe().found


def test_offsets_outside_group_management_expire_after_their_own_last_commit() -> None:
    world = GroupSimulation()
    world.commit_offset(1)
    world.wait(WEEK_MS // 2)
    world.commit_offset(2, partition=1)
    world.wait(WEEK_MS // 2 + 600_000)
    assert (world.offset(), world.offset(partition=1)) == (None, 2)
    world.wait(WEEK_MS)
    assert not world.describe().found


def test_offsets_of_a_group_expire_a_retention_after_it_became_empty_however_old_they_are() -> None:
    world = GroupSimulation()
    a = world.stable_group("a", session_timeout_ms=1_800_000)["a"].member_id
    world.commit_offset(1, a, 1)
    for _ in range(WEEK_MS // 1_500_000 + 1):
        world.wait(1_500_000)
        world.heartbeat(a, 1)
    world.leave(a)
    world.wait(WEEK_MS - 1_000)
    assert world.offset() == 1
    again = world.replayed()
    again.wait(1_000 + 600_000)
    assert again.offset() is None
    assert not again.describe().found


def test_consumers_keep_the_offsets_of_what_they_read_and_lose_those_of_what_they_no_longer_read() -> None:
    world = GroupSimulation()
    a = world.stable_group("a", session_timeout_ms=1_800_000)["a"].member_id
    world.commit_offset(1, a, 1)
    world.commit_offset(2, a, 1, topic="old")
    for _ in range(WEEK_MS // 1_500_000 + 1):
        world.wait(1_500_000)
        world.heartbeat(a, 1)
    assert (world.offset(), world.offset("old")) == (1, None)


def test_a_commit_may_bring_its_own_retention() -> None:
    world = GroupSimulation()
    world.commit_offset(1, retention_ms=1_000)
    assert world.replayed().offset() == 1
    world.wait(600_000)
    assert world.offset() is None


def test_the_sweep_takes_many_groups_in_small_steps() -> None:
    world = GroupSimulation(offsets_retention_check_interval_ms=WEEK_MS)
    for number in range(250):
        world.commit_offset(1, group_id=f"g{number}")
    world.wait(2 * WEEK_MS)
    assert world.submit(ListGroups()).groups == ()


@pytest.mark.parametrize(("states", "types", "names"), [
    ((), (), ["g", "simple"]), (("stable",), (), ["g"]), (("EMPTY",), ("Classic",), ["simple"]),
    ((), ("consumer",), []), (("dead",), (), []),
])  # fmt: skip
def test_groups_are_listed_by_state_and_type(states: tuple[str], types: tuple[str], names: list[str]) -> None:
    world = GroupSimulation()
    world.stable_group("a")
    world.commit_offset(1, group_id="simple")
    listed = world.submit(ListGroups(frozenset(states), frozenset(types))).groups
    assert sorted(group.group_id for group in listed) == names


def test_a_described_group_shows_what_members_sent_only_while_stable() -> None:
    world = GroupSimulation()
    a = world.stable_group("a")["a"].member_id
    described = world.describe()
    assert (described.state, described.protocol_type, described.protocol_name) == ("Stable", "consumer", "range")
    assert (described.members[0].member_id, described.members[0].assignment) == (a, b"a")
    assert described.members[0].metadata != b""
    world.join("b", known_member_id_required=False)
    described = world.describe()
    assert (described.state, described.protocol_name) == ("PreparingRebalance", "")
    assert described.members[0].metadata == b""
    assert (world.describe("nobody").state, world.describe("nobody").found) == ("Dead", False)


# ---- groups of other protocols, which only Apache Kafka coordinates


def of_another_protocol(*members: str) -> GroupSimulation:
    """A group with an old offset of t-0 and what a group of the consumer protocol (KIP-848) has in the log."""
    kept: list[ReplayedRecord] = [
        OffsetRecord("g", "t", 0, StoredOffset(5, -1, "", 1_000)),
        OtherGroupRecord("g", b"epoch", False, True),
        *(OtherGroupRecord("g", member.encode(), True, True) for member in members),
    ]
    return GroupSimulation(log=kept)


def test_offsets_of_a_group_of_another_protocol_do_not_expire_here() -> None:
    """Its members read on under Apache Kafka's coordinator, and would begin again."""
    world = of_another_protocol("a")
    world.wait(2 * WEEK_MS)
    assert world.offset() == 5


def test_a_group_with_members_of_another_protocol_is_not_empty() -> None:
    world = of_another_protocol("a")
    assert world.delete() == Code.NON_EMPTY_GROUP
    assert world.commit_offset(9) == Code.UNKNOWN_MEMBER_ID
    assert world.submit(DeleteOffsets("g", (T0,))).codes == (Code.GROUP_SUBSCRIBED_TO_TOPIC,)
    assert world.offset() == 5
    world.shard.phase = Phase.LOADING
    world.shard.apply(OtherGroupRecord("g", b"a", True, None))
    world.shard.phase = Phase.ACTIVE
    assert world.commit_offset(9) == Code.NONE
    assert world.delete() == Code.NONE
