"""Every group request in every version, over a socket."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moldau.broker.api import ON_BROKER
from moldau.groups.state import Phase
from moldau.model import Code
from moldau.wire.messages.k09_offset_fetch import OffsetFetchRequest
from moldau.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from moldau.wire.messages.k11_join_group import JoinGroupRequest
from moldau.wire.messages.k12_heartbeat import HeartbeatRequest
from moldau.wire.messages.k13_leave_group import LeaveGroupRequest
from moldau.wire.messages.k15_describe_groups import DescribeGroupsRequest
from moldau.wire.messages.k16_list_groups import ListGroupsRequest
from moldau.wire.messages.k42_delete_groups import DeleteGroupsRequest
from moldau.wire.messages.k47_offset_delete import OffsetDeleteRequest
from moldau.wire.records import metadata as records
from tests.packages.broker import data_cluster
from tests.packages.broker.data_cluster import TOPIC, TOPIC_ID, run, until
from tests.packages.broker.group_cluster import OFFSETS_ID, GroupBroker, GroupCluster
from tests.packages.broker.test_coordinator import play


@pytest.fixture(autouse=True)
def _brokers_coordinate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_cluster, "MiniBroker", GroupBroker)


def versions(key: int) -> range:
    """All that are served."""
    return range(ON_BROKER[key].low, ON_BROKER[key].high + 1)


def test_members_come_work_and_go_in_every_version(tmp_path: Path) -> None:
    async def scene(cluster: GroupCluster) -> None:
        for version in versions(11):
            joined = await cluster.member(0, version)
            assert (joined.leader, joined.protocol_name) == (joined.member_id, "range")
            assert joined.protocol_type == ("consumer" if version >= 7 else None)
            assert [member.member_id for member in joined.members] == [joined.member_id]
            synced = await cluster.sync(0, joined, min(version, 5), {joined.member_id: b"%d" % version})
            assert (synced.error_code, synced.assignment) == (0, b"%d" % version)
            assert synced.protocol_name == ("range" if version >= 5 else None)
            assert await cluster.heartbeat(0, joined, min(version, 4)) == Code.NONE
            leave = LeaveGroupRequest(group_id="g", member_id=joined.member_id)
            leave.members = [LeaveGroupRequest.MemberIdentity(member_id=joined.member_id, reason="done")]
            left = await cluster.ask(0, leave, min(version, 5))
            assert left.error_code == Code.NONE
            left = await cluster.ask(0, leave, min(version, 5))
            codes = [left.error_code] if version < 3 else [member.error_code for member in left.members]
            assert codes == [Code.UNKNOWN_MEMBER_ID]

    play(tmp_path, scene)


def test_dynamic_members_are_told_their_id_first_from_version_4_on(tmp_path: Path) -> None:
    async def scene(cluster: GroupCluster) -> None:
        first = await cluster.join(0, 4)
        assert first.error_code == Code.MEMBER_ID_REQUIRED
        assert (await cluster.join(0, 9, session_timeout_ms=1)).error_code == Code.INVALID_SESSION_TIMEOUT
        assert (await cluster.join(0, 3)).error_code == Code.NONE

    play(tmp_path, scene)


def test_a_group_without_a_name_is_invalid_for_every_broker_and_not_sought_elsewhere(tmp_path: Path) -> None:
    async def scene(cluster: GroupCluster) -> None:
        for broker in cluster.live:
            join = JoinGroupRequest(group_id="", session_timeout_ms=10_000, protocol_type="consumer")
            assert (await cluster.ask(broker, join, 9)).error_code == Code.INVALID_GROUP_ID
            heartbeat = HeartbeatRequest(group_id="", generation_id=1, member_id="m")
            assert (await cluster.ask(broker, heartbeat, 4)).error_code == Code.INVALID_GROUP_ID

    play(tmp_path, scene, brokers=2)


def test_offsets_are_committed_and_fetched_in_every_version(tmp_path: Path) -> None:
    async def scene(cluster: GroupCluster) -> None:
        for version in versions(8):
            assert await cluster.commit_offset(0, 100 + version, version) == Code.NONE
            assert await cluster.committed(0) == (Code.NONE, 100 + version)
        old = [OffsetFetchRequest.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0, 1])]
        for version in versions(9):
            if version < 8:
                found = await cluster.ask(0, OffsetFetchRequest(group_id="g", topics=old), version)
                topics = found.topics
            else:
                new = [
                    OffsetFetchRequest.OffsetFetchRequestTopics(name=TOPIC, topic_id=TOPIC_ID, partition_indexes=[0, 1])
                ]
                groups = [OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=new)]
                found = await cluster.ask(0, OffsetFetchRequest(groups=groups, require_stable=True), version)
                topics = found.groups[0].topics
            assert (topics[0].name, topics[0].topic_id if version == 10 else TOPIC_ID) == (
                TOPIC if version < 10 else "",
                TOPIC_ID,
            )
            assert [(p.committed_offset, p.error_code) for p in topics[0].partitions] == [(110, 0), (-1, 0)]
            assert topics[0].partitions[0].metadata == "note"
            assert topics[0].partitions[0].committed_leader_epoch == (3 if version >= 5 else -1)

    play(tmp_path, scene)


def test_all_offsets_of_a_group_are_fetched_by_asking_for_none(tmp_path: Path) -> None:
    async def scene(cluster: GroupCluster) -> None:
        await cluster.commit_offset(0, 1)
        for version in (2, 7):
            found = await cluster.ask(0, OffsetFetchRequest(group_id="g", topics=None), version)
            assert [(t.name, t.partitions[0].committed_offset) for t in found.topics] == [(TOPIC, 1)]
        both = [OffsetFetchRequest.OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("g", "nobody")]
        found = await cluster.ask(0, OffsetFetchRequest(groups=both), 10)
        assert [(g.group_id, g.error_code, [t.topic_id for t in g.topics]) for g in found.groups] == [
            ("g", 0, [TOPIC_ID]),
            ("nobody", 0, []),
        ]

    play(tmp_path, scene)


def test_topics_that_are_not_there_are_refused_one_by_one(tmp_path: Path) -> None:
    async def scene(cluster: GroupCluster) -> None:
        await cluster.commit_offset(0, 1)
        cluster.commit(records.RemoveTopicRecord(topic_id=TOPIC_ID))
        assert await cluster.commit_offset(0, 2, 9) == Code.UNKNOWN_TOPIC_OR_PARTITION
        assert await cluster.commit_offset(0, 2, 10) == Code.UNKNOWN_TOPIC_ID
        topic = OffsetFetchRequest.OffsetFetchRequestTopics(topic_id=TOPIC_ID, partition_indexes=[0])
        groups = [OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=[topic])]
        found = (await cluster.ask(0, OffsetFetchRequest(groups=groups), 10)).groups[0].topics
        assert [(t.topic_id, t.partitions[0].error_code) for t in found] == [(TOPIC_ID, Code.UNKNOWN_TOPIC_ID)]
        deletion = OffsetDeleteRequest(group_id="g", topics=[_deleted(TOPIC)])
        found = (await cluster.ask(0, deletion, 0)).topics[0].partitions[0]
        assert found.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION

    play(tmp_path, scene)


def test_a_generation_of_an_unknown_group_is_told_by_version(tmp_path: Path) -> None:
    async def scene(cluster: GroupCluster) -> None:
        facts = {"generation_id_or_member_epoch": 3, "member_id": "m"}
        assert await cluster.commit_offset(0, 1, 8, **facts) == Code.ILLEGAL_GENERATION
        assert await cluster.commit_offset(0, 1, 9, **facts) == Code.GROUP_ID_NOT_FOUND

    play(tmp_path, scene)


def test_groups_are_described_and_listed_in_every_version(tmp_path: Path) -> None:
    async def scene(cluster: GroupCluster) -> None:
        joined = await cluster.member(0)
        await cluster.sync(0, joined, given={joined.member_id: b"mine"})
        for version in versions(15):
            request = DescribeGroupsRequest(groups=["g", "nobody"], include_authorized_operations=version >= 3)
            found, missing = (await cluster.ask(0, request, version)).groups
            assert (found.error_code, found.group_state, found.protocol_data) == (0, "Stable", "range")
            member = found.members[0]
            assert (member.member_id, member.client_host, member.member_assignment) == (
                joined.member_id,
                "/127.0.0.1",
                b"mine",
            )
            assert missing.group_state == "Dead"
            assert missing.error_code == (Code.GROUP_ID_NOT_FOUND if version >= 6 else Code.NONE)
            assert (found.authorized_operations > 0) == (version >= 3)
        for version in versions(16):
            listed = (await cluster.ask(0, ListGroupsRequest(), version)).groups
            assert [(group.group_id, group.protocol_type) for group in listed] == [("g", "consumer")]
            assert listed[0].group_state == ("Stable" if version >= 4 else "")
            assert listed[0].group_type == ("classic" if version >= 5 else "")
        none = await cluster.ask(0, ListGroupsRequest(states_filter=["Empty"], types_filter=["Classic"]), 5)
        assert none.groups == []

    play(tmp_path, scene)


def test_groups_and_offsets_are_deleted(tmp_path: Path) -> None:
    async def scene(cluster: GroupCluster) -> None:
        for version in versions(42):
            await cluster.commit_offset(0, 1)
            request = DeleteGroupsRequest(groups_names=["g", "nobody", "g"])
            results = (await cluster.ask(0, request, version)).results
            assert [(r.group_id, r.error_code) for r in results] == [("g", 0), ("nobody", Code.GROUP_ID_NOT_FOUND)]
            assert await cluster.committed(0) == (Code.NONE, -1)
        await cluster.commit_offset(0, 1)
        deletion = OffsetDeleteRequest(group_id="g", topics=[_deleted(TOPIC)])
        answer = await cluster.ask(0, deletion, 0)
        assert (answer.error_code, answer.topics[0].partitions[0].error_code) == (0, 0)
        assert await cluster.committed(0) == (Code.NONE, -1)
        deletion.group_id = "nobody"
        answer = await cluster.ask(0, deletion, 0)
        assert (answer.error_code, answer.topics) == (Code.GROUP_ID_NOT_FOUND, [])

    play(tmp_path, scene)


def test_the_first_question_for_a_coordinator_makes_the_groups_log(tmp_path: Path) -> None:
    async def work() -> None:
        async with GroupCluster(
            tmp_path, 2, offsets_topic_num_partitions="5", offsets_topic_replication_factor="2"
        ) as cluster:
            cluster.create(0, 1)
            for version in versions(10):
                answer = await cluster.ask(0, FindCoordinatorRequest(key="g", coordinator_keys=["g", "h"]), version)
                found = answer.coordinators if version >= 4 else [answer]
                assert [one.error_code for one in found] == [0] * len(found)
                assert {(one.node_id, one.port) for one in found} == {(0, cluster.brokers[0].port)}
            made: Any = cluster.brokers[0]
            assert len(made.created) == 1
            topic = made.created[0]
            assert (topic.name, topic.num_partitions, topic.replication_factor) == ("__consumer_offsets", 5, 2)
            assert {c.name: c.value for c in topic.configs} == {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": "104857600",
            }
            await until(lambda: len(cluster.coordinator(0).shards) == 5)

    run(work)


def test_a_group_without_a_leader_has_no_coordinator_for_now(tmp_path: Path) -> None:
    async def scene(cluster: GroupCluster) -> None:
        cluster.lead(-1, (0,))
        answer = await cluster.ask(0, FindCoordinatorRequest(key="g"), 2)
        assert (answer.error_code, answer.node_id) == (Code.COORDINATOR_NOT_AVAILABLE, -1)
        assert await cluster.commit_offset(0, 1) == Code.NOT_COORDINATOR

    play(tmp_path, scene)


def test_a_groups_log_without_partitions_yet_coordinates_nothing_for_now(tmp_path: Path) -> None:
    async def work() -> None:
        async with GroupCluster(tmp_path, 1) as cluster:
            cluster.commit(records.TopicRecord(name="__consumer_offsets", topic_id=OFFSETS_ID))
            answer = await cluster.ask(0, FindCoordinatorRequest(key="g"), 2)
            assert (answer.error_code, answer.node_id) == (Code.COORDINATOR_NOT_AVAILABLE, -1)
            assert (await cluster.committed(0))[0] == Code.NOT_COORDINATOR

    run(work)


def test_keys_of_other_kinds_are_refused_for_good(tmp_path: Path) -> None:
    async def scene(cluster: GroupCluster) -> None:
        answer = await cluster.ask(0, FindCoordinatorRequest(key="t", key_type=1, coordinator_keys=["t"]), 4)
        assert answer.coordinators[0].error_code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert "transactions" in answer.coordinators[0].error_message

    play(tmp_path, scene)


def _deleted(topic: str) -> Any:
    part = OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=0)
    return OffsetDeleteRequest.OffsetDeleteRequestTopic(name=topic, partitions=[part])


def test_a_new_coordinator_has_nothing_to_load_and_answers_its_first_member(tmp_path: Path) -> None:
    """Loading an empty log took a turn or two, and librdkafka, told of it, comes again after three seconds."""

    async def scene(cluster: GroupCluster) -> None:
        coordinator = cluster.coordinator(0)
        assert {led.shard.phase for led in coordinator.shards.values()} == {Phase.ACTIVE}
        assert all(led.task is None for led in coordinator.shards.values())

    play(tmp_path, scene)
