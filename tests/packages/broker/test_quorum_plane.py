"""The quorum plane over real files: elections, commits, restarts, snapshots, and what a dead leader costs."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from moldau.broker.kraft.batches import NewerLevel, decided, is_whole, proposal
from moldau.broker.kraft.files import BrokenQuorumState, format_election, parse_election
from moldau.model import NO_UUID, Code
from moldau.ports import Pool, pools
from moldau.quorum import ElectionState, ReplicaKey
from moldau.wire.batch import build
from moldau.wire.codec import Malformed
from moldau.wire.messages.k01_fetch import FetchRequest
from moldau.wire.messages.k52_vote import VoteRequest
from moldau.wire.messages.k55_describe_quorum import DescribeQuorumRequest
from moldau.wire.records.metadata import FeatureLevelRecord, TopicRecord
from tests.packages.broker.quorum_members import LoopbackQuorum, QuorumMember, on_loop


async def names_everywhere(quorum: LoopbackQuorum, names: list[str]) -> None:
    await quorum.until(
        lambda: all(member.listener.names == names for member in quorum.members.values()),
        f"{', '.join(names)} everywhere",
    )


@on_loop
async def test_three_voters_and_an_observer_agree(tmp_path: Path) -> None:
    quorum = LoopbackQuorum(tmp_path, (1, 2, 3))
    await quorum.start(1, 2, 3, 4)
    await quorum.write("a", "b")
    await quorum.write("c")
    await names_everywhere(quorum, ["a", "b", "c"])
    leaders = {member.plane.leader for member in quorum.members.values()}
    assert len(leaders) == 1
    await quorum.stop()


@on_loop
async def test_one_voter_alone_decides_alone(tmp_path: Path) -> None:
    quorum = LoopbackQuorum(tmp_path, (1,))
    await quorum.start(1)
    await quorum.write("a")
    await quorum.stop()
    await quorum.start(1)
    await quorum.leader()
    assert quorum.members[1].listener.names == ["a"]
    await quorum.stop()


@on_loop
async def test_a_killed_leader_is_replaced_and_what_was_committed_stays(tmp_path: Path) -> None:
    quorum = LoopbackQuorum(tmp_path, (1, 2, 3))
    await quorum.start(1, 2, 3, 4)
    await quorum.write("a")
    observer = quorum.members[4]
    await quorum.until(lambda: observer.leaders_heard_of, "the observer to hear of the first leader")
    leader = await quorum.leader()
    epoch = leader.listener.active or 0
    quorum.kill(leader.config.node_id)
    began = time.monotonic()
    successor = await quorum.leader()
    print(f"failover took {1000 * (time.monotonic() - began):.0f} ms")
    assert (successor.listener.active or 0) > epoch
    await quorum.write("b")
    # An observer too is told of who leads next: it sends a heartbeat at once.
    await quorum.until(lambda: observer.leaders_heard_of[-1][1] > epoch, "the observer to hear of the next leader")
    await quorum.start(leader.config.node_id)
    await names_everywhere(quorum, ["a", "b"])
    await quorum.stop()


@on_loop
async def test_all_restart_with_what_they_knew(tmp_path: Path) -> None:
    quorum = LoopbackQuorum(tmp_path, (1, 2, 3))
    await quorum.start(1, 2, 3)
    await quorum.write("a")
    for id in (1, 2, 3):
        quorum.kill(id)
    await quorum.start(1, 2, 3)
    await quorum.write("b")
    await names_everywhere(quorum, ["a", "b"])
    await quorum.stop()


@on_loop
async def test_leadership_is_handed_over_at_shutdown(tmp_path: Path) -> None:
    quorum = LoopbackQuorum(tmp_path, (1, 2, 3))
    await quorum.start(1, 2, 3)
    await quorum.write("a")
    leader = await quorum.leader()
    del quorum.members[leader.config.node_id]
    await leader.plane.stop()
    assert leader.listener.told[-1] == "lost"
    successor = await quorum.leader()
    assert successor is not leader
    await quorum.write("b")
    await quorum.stop()


@on_loop
async def test_a_proposal_under_an_old_epoch_is_refused(tmp_path: Path) -> None:
    quorum = LoopbackQuorum(tmp_path, (1, 2, 3))
    await quorum.start(1, 2, 3)
    leader = await quorum.leader()
    epoch = leader.listener.active
    assert epoch is not None
    leader.plane.resign()
    await quorum.until(lambda: leader.listener.active != epoch, "the leader to resign")
    assert leader.plane.propose([TopicRecord(name="late", topic_id=bytes([1]) * 16)], epoch) is None
    await quorum.until(
        lambda: (member := quorum.active()) is not None and (member.listener.active or 0) > epoch, "the next leader"
    )
    await quorum.stop()


@pytest.mark.parametrize("limit", [{"metadata_max_retention_bytes": 4000}, {"metadata_max_retention_ms": 0}])
@on_loop
async def test_a_late_starter_loads_a_snapshot_and_the_log_is_bounded(tmp_path: Path, limit: dict[str, int]) -> None:
    quorum = LoopbackQuorum(tmp_path, (1, 2, 3), metadata_log_max_record_bytes_between_snapshots=2000, **limit)
    await quorum.start(1, 2)
    names = [f"topic-{number}" for number in range(200)]
    for name in names:
        await quorum.write(name)

    def trimmed() -> bool:
        return all(
            member.plane._driver.quorum.log.start > 0 for member in quorum.members.values() if member.plane._driver
        )

    def known(wanted: list[str]) -> bool:
        return all(sorted(member.listener.names) == sorted(wanted) for member in quorum.members.values())

    await quorum.until(trimmed, "logs that were cut")
    await quorum.start(3, 4)
    await quorum.until(lambda: known(names), "all names everywhere")
    for id in (3, 4):
        assert quorum.members[id].listener.told[0].startswith("snapshot")

    def checkpoints() -> list[Path]:
        return list((tmp_path / "1" / "__cluster_metadata-0").glob("*.checkpoint"))

    executor = quorum.members[1].plane._driver.executor  # type: ignore[union-attr]
    await quorum.until(lambda: not executor._snapshotting and 1 <= len(checkpoints()) <= 3, "older ones are removed")
    assert all(is_whole(path.read_bytes()) for path in checkpoints())
    await quorum.write("after")
    for id in (1, 2, 3, 4):
        quorum.kill(id)
    await quorum.start(1, 2, 3, 4)
    await quorum.write("again")
    await quorum.until(lambda: known([*names, "after", "again"]), "all names everywhere")
    await quorum.stop()


@on_loop
async def test_within_its_retention_the_log_stays_and_a_late_starter_reads_it_all(tmp_path: Path) -> None:
    quorum = LoopbackQuorum(tmp_path, (1, 2, 3), metadata_log_max_record_bytes_between_snapshots=2000)
    await quorum.start(1, 2)
    names = [f"topic-{number}" for number in range(120)]
    for name in names:
        await quorum.write(name)
    folder = tmp_path / "1" / "__cluster_metadata-0"
    await quorum.until(lambda: len(list(folder.glob("*.checkpoint"))) > 2, "snapshots that stay")
    assert all(member.plane._driver.quorum.log.start == 0 for member in quorum.members.values() if member.plane._driver)
    await quorum.start(3)
    await names_everywhere(quorum, names)
    assert not any(told.startswith("snapshot") for told in quorum.members[3].listener.told)
    await quorum.stop()


@pytest.mark.parametrize("versions", [{1: 12, 53: 0, 54: 0, 59: 0}, {1: 17}])
@on_loop
async def test_older_versions_of_the_requests_do_as_well(tmp_path: Path, versions: dict[int, int]) -> None:
    quorum = LoopbackQuorum(tmp_path, (1, 2, 3))
    quorum.versions = versions
    await quorum.start(1, 2, 3, 4)
    await quorum.write("a")
    await names_everywhere(quorum, ["a"])
    await quorum.stop()


@on_loop
async def test_another_cluster_is_refused(tmp_path: Path) -> None:
    quorum = LoopbackQuorum(tmp_path, (1, 2, 3))
    await quorum.start(1, 2, 3)
    leader = await quorum.leader()
    epoch = leader.plane.leader[1]
    answer = leader.plane.handle(VoteRequest(cluster_id="another", topics=[]), 2)
    assert answer.error_code == Code.INCONSISTENT_CLUSTER_ID
    answer = leader.plane.handle(FetchRequest(cluster_id=None, topics=[]), 17)
    assert answer.error_code == Code.INVALID_REQUEST
    assert leader.plane.leader[1] == epoch
    await quorum.stop()


@on_loop
async def test_the_leader_describes_the_quorum(tmp_path: Path) -> None:
    quorum = LoopbackQuorum(tmp_path, (1, 2, 3))
    await quorum.start(1, 2, 3, 4)
    await quorum.write("a")
    topic = DescribeQuorumRequest.TopicData(
        topic_name="__cluster_metadata", partitions=[DescribeQuorumRequest.PartitionData()]
    )
    request = DescribeQuorumRequest(topics=[topic])

    def caught_up() -> Any:
        leader = quorum.active()
        if leader is None:
            return None
        part = leader.plane.handle(request, 2).topics[0].partitions[0]
        ends = [one.log_end_offset for one in (*part.current_voters, *part.observers)]
        return (leader, part) if ends == [leader.plane.next_offset] * 4 else None

    leader, part = await quorum.until(caught_up, "all to be at the leader's end")
    assert [one.replica_id for one in part.current_voters] == [1, 2, 3]
    assert [one.replica_id for one in part.observers] == [4]
    assert {bytes(one.replica_directory_id) for one in part.current_voters} == {NO_UUID}, "nor the leader's: static"
    assert [bytes(one.replica_directory_id) == NO_UUID for one in part.observers] == [False]
    assert part.high_watermark == leader.plane.next_offset
    assert all(abs(one.last_caught_up_timestamp - time.time() * 1000) < 60_000 for one in part.current_voters)
    unknown = DescribeQuorumRequest(
        topics=[DescribeQuorumRequest.TopicData(topic_name="x", partitions=[DescribeQuorumRequest.PartitionData()])]
    )
    answer = leader.plane.handle(unknown, 2)
    assert (answer.error_code, answer.topics[0].topic_name) == (Code.NONE, "x")
    assert answer.topics[0].partitions[0].error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    other = next(member for member in quorum.members.values() if member is not leader)
    refused = other.plane.handle(request, 2).topics[0].partitions[0]
    assert refused.error_code == Code.NOT_LEADER_OR_FOLLOWER
    await quorum.stop()


@on_loop
async def test_an_observer_finds_the_voters_by_asking(tmp_path: Path) -> None:
    quorum = LoopbackQuorum(tmp_path, (1, 2, 3))
    await quorum.start(1, 2, 3)
    await quorum.write("a")
    member = quorum.members[4] = QuorumMember(quorum, 4)
    member.config.voters = {}
    member.config.bootstrap_controllers = (("host", 9), ("host", 1), ("host", 2), ("host", 3))
    await member.plane.start()
    await quorum.until(
        lambda: member.listener.names == ["a"] and member.plane.leader[0] is not None, "the observer to learn of a"
    )
    leader, _ = member.plane.leader
    assert member.plane.voters() == {leader: ("host", leader)}, (
        "voters set by hand stand in no log: the leader is known"
    )
    await quorum.stop()


@on_loop
async def test_a_damaged_vote_on_record_keeps_the_node_out(tmp_path: Path) -> None:
    quorum = LoopbackQuorum(tmp_path, (1, 2, 3))
    await quorum.start(1, 2, 3)
    await quorum.leader()
    quorum.kill(2)
    (tmp_path / "2" / "__cluster_metadata-0" / "quorum-state").write_bytes(b"{")
    with pytest.raises(BrokenQuorumState, match="quorum-state.*move its folder aside"):
        await quorum.start(2)
    del quorum.members[2]
    await quorum.stop()


@on_loop
async def test_commits_share_their_flushes(tmp_path: Path) -> None:
    """Group commit: a hundred proposals of one turn of the loop are not a hundred fdatasyncs."""
    quorum = LoopbackQuorum(tmp_path, (1,))
    await quorum.start(1)
    member = await quorum.leader()
    driver = member.plane._driver
    assert driver is not None
    flushes = 0
    real = driver._tasks.off_loop

    def counted(call: Any, pool: Pool) -> Any:
        nonlocal flushes
        flushes += 1
        return real(call, pool)

    object.__setattr__(driver._tasks, "off_loop", counted)
    for number in range(100):
        last = member.plane.propose(
            [TopicRecord(name=f"t{number}", topic_id=bytes([1, number]) * 8)], member.listener.active or 0
        )
    await quorum.until(lambda: member.listener.offset == last, "the hundredth commit")
    assert flushes < 5
    await quorum.stop()


@on_loop
async def test_a_vote_is_durable_while_every_data_disk_hangs(tmp_path: Path) -> None:
    quorum = LoopbackQuorum(tmp_path, (1,))
    await quorum.start(1)
    tasks = quorum.members[1].world.tasks
    answers = Event()
    hanging = [pools.log_directory("/data"), pools.removals("/data"), pools.probe("/data"), pools.cleaner(0)] * 4
    waiting = [tasks.off_loop(answers.wait, pool) for pool in hanging]
    try:
        member = await quorum.leader()
        last = member.plane.propose([TopicRecord(name="t", topic_id=bytes(range(16)))], member.listener.active or 0)
        await quorum.until(lambda: member.listener.offset == last, "a commit")
    finally:
        answers.set()
    await asyncio.gather(*waiting)
    await quorum.stop()


def test_the_election_state_is_kafkas_json_and_both_versions_are_read() -> None:
    state = ElectionState(7, 2, ReplicaKey(2, bytes(range(16))))
    data = format_election(state)
    assert json.loads(data) == {
        "leaderId": 2,
        "leaderEpoch": 7,
        "votedId": 2,
        "votedDirectoryId": "AAECAwQFBgcICQoLDA0ODw",
        "data_version": 1,
    }
    assert parse_election(data, "x") == state
    old = (
        b'{"clusterId":"","leaderId":-1,"leaderEpoch":3,"votedId":1,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":1}],"data_version":0}'
    )
    assert parse_election(old, "x") == ElectionState(3, None, ReplicaKey(1))
    assert format_election(ElectionState(3, None, ReplicaKey(1)), [1]) == old
    with pytest.raises(BrokenQuorumState, match="data_version 2"):
        parse_election(b'{"data_version":2}', "x")


KAFKAS_SOLE_LEADER = (
    b'{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,'
    b'"currentVoters":[{"voterId":1}],"data_version":0}'
)
"""By a controller of Apache Kafka 4.3.1 with controller.quorum.voters, once it led."""


def test_what_kafka_wrote_while_kraft_version_was_0_is_written_to_the_byte() -> None:
    assert format_election(parse_election(KAFKAS_SOLE_LEADER, "x"), [1]) == KAFKAS_SOLE_LEADER


@on_loop
async def test_a_leader_writes_the_election_state_that_kafkas_writes(tmp_path: Path) -> None:
    """Without its vote, which its epoch needs no more: it gives none in an epoch that it led."""
    quorum = LoopbackQuorum(tmp_path, (1,))
    await quorum.start(1)
    await quorum.leader()
    await quorum.stop()
    assert (tmp_path / "1" / "__cluster_metadata-0" / "quorum-state").read_bytes() == KAFKAS_SOLE_LEADER


def test_a_vote_with_a_directory_id_is_kept_with_it() -> None:
    """Version 0 has no place for it: it would be a vote for any disk of that id."""
    state = ElectionState(7, None, ReplicaKey(2, bytes(range(16))))
    assert format_election(state, [1, 2, 3]) == format_election(state)
    assert parse_election(format_election(state, [1, 2, 3]), "x") == state


@on_loop
async def test_the_election_state_is_in_version_0_until_the_voters_stand_in_the_log(tmp_path: Path) -> None:
    quorum = LoopbackQuorum(tmp_path, (1, 2, 3))
    await quorum.start(1, 2, 3, 4)
    await quorum.write("a")
    await names_everywhere(quorum, ["a"])
    await quorum.stop()
    for id in (1, 2, 3, 4):
        state = json.loads((tmp_path / str(id) / "__cluster_metadata-0" / "quorum-state").read_bytes())
        assert (state["data_version"], state["clusterId"], state["appliedOffset"]) == (0, "", 0)
        assert state["currentVoters"] == [{"voterId": 1}, {"voterId": 2}, {"voterId": 3}]
    await quorum.start(1, 2, 3, 4)
    await quorum.write("b")
    await names_everywhere(quorum, ["a", "b"])
    await quorum.stop()


def test_an_unknown_record_is_never_skipped() -> None:
    with pytest.raises(Malformed, match="not known"):
        list(decided(build([(0, None, b"\x01\x7f\x00", ())], base_offset=0, leader_epoch=1)))


def test_a_log_of_a_newer_level_is_refused_with_feature_and_level() -> None:
    newer = FeatureLevelRecord(name="metadata.version", feature_level=1000)
    with pytest.raises(NewerLevel, match="level 1000 of metadata.version, and this version of Moldau supports 21 to"):
        list(decided(proposal([newer], 0, 1, 0)))


def test_a_feature_that_is_not_known_and_an_older_level_are_read() -> None:
    unknown = FeatureLevelRecord(name="another.version", feature_level=1)
    older = FeatureLevelRecord(name="metadata.version", feature_level=1)
    assert [batch.records for batch in decided(proposal([unknown, older], 0, 1, 0))] == [[unknown, older]]


@pytest.mark.parametrize("epoch", ["2147483647", "2147483646", "99999999999", "-1", "1e400", "[" * 100_000])
def test_an_epoch_that_no_election_can_follow_is_no_quorum_state(epoch: str) -> None:
    """The replica started, and was refused by all others for as long as it lived."""
    data = f'{{"leaderId": -1, "leaderEpoch": {epoch}, "votedId": -1, "data_version": 0}}'.encode()
    with pytest.raises(BrokenQuorumState, match="quorum-state.*move its folder aside"):
        parse_election(data, "quorum-state")
