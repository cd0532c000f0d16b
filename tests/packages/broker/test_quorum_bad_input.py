"""Bad input to Fetch, FetchSnapshot, Vote, Begin- and EndQuorumEpoch: answered by a code, and nothing changes."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.kraft.peers import EPOCH_MAX, TOPIC_ID
from moldau.model import Code
from moldau.quorum import Leader
from moldau.storage.names import METADATA_TOPIC
from moldau.wire.messages.k01_fetch import FetchRequest
from moldau.wire.messages.k52_vote import VoteRequest
from moldau.wire.messages.k53_begin_quorum_epoch import BeginQuorumEpochRequest
from moldau.wire.messages.k54_end_quorum_epoch import EndQuorumEpochRequest
from moldau.wire.messages.k59_fetch_snapshot import FetchSnapshotRequest
from tests.packages.broker.quorum_members import CLUSTER, LoopbackQuorum, QuorumMember, on_loop

INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1
OTHER = bytes([7]) * 16


def fetch(*, wait_ms: int = 0, replica_id: int = 99, **fields: Any) -> FetchRequest:
    fields = {"current_leader_epoch": None, "fetch_offset": 0, "last_fetched_epoch": 0, **fields}
    partition = FetchRequest.FetchPartition(partition_max_bytes=1000, **fields)
    return FetchRequest(
        cluster_id=CLUSTER,
        replica_state=FetchRequest.ReplicaState(replica_id=replica_id),
        max_wait_ms=wait_ms,
        max_bytes=1000,
        topics=[FetchRequest.FetchTopic(topic_id=TOPIC_ID, partitions=[partition])],
    )


def snapshot(**fields: Any) -> FetchSnapshotRequest:
    point = FetchSnapshotRequest.SnapshotId(end_offset=fields.pop("end", 1), epoch=fields.pop("of", 1))
    fields = {"current_leader_epoch": None, **fields}
    partition = FetchSnapshotRequest.PartitionSnapshot(snapshot_id=point, **fields)
    topic = FetchSnapshotRequest.TopicSnapshot(name=METADATA_TOPIC, partitions=[partition])
    return FetchSnapshotRequest(cluster_id=CLUSTER, replica_id=99, max_bytes=1000, topics=[topic])


def vote(epoch: int, candidate: int) -> VoteRequest:
    partition = VoteRequest.PartitionData(
        candidate_epoch=epoch, candidate_id=candidate, candidate_directory_id=OTHER, last_offset=INT64_MAX
    )
    return VoteRequest(
        cluster_id=CLUSTER, topics=[VoteRequest.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])]
    )


def begin(epoch: int, leader: int) -> BeginQuorumEpochRequest:
    kind = BeginQuorumEpochRequest
    partition = kind.PartitionData(leader_id=leader, leader_epoch=epoch)
    return kind(
        cluster_id=CLUSTER,
        topics=[kind.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
        leader_endpoints=[kind.LeaderEndpoint(name="CONTROLLER", host="\0" * 9, port=0)],
    )


def end(epoch: int, leader: int) -> EndQuorumEpochRequest:
    kind = EndQuorumEpochRequest
    partition = kind.PartitionData(leader_id=leader, leader_epoch=epoch)
    return kind(cluster_id=CLUSTER, topics=[kind.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])])


BAD = [
    *((fetch(fetch_offset=offset), Code.INVALID_REQUEST) for offset in (-1, -2, -(2**63))),
    *((fetch(last_fetched_epoch=epoch), Code.INVALID_REQUEST) for epoch in (-1, -(2**31))),
    *((fetch(current_leader_epoch=epoch), Code.INVALID_REQUEST) for epoch in (-1, -(2**31))),
    (fetch(wait_ms=-1), Code.INVALID_REQUEST),
    (fetch(current_leader_epoch=0), Code.FENCED_LEADER_EPOCH),
    (fetch(current_leader_epoch=INT32_MAX), Code.UNKNOWN_LEADER_EPOCH),
    (fetch(fetch_offset=INT64_MAX, last_fetched_epoch=INT32_MAX), Code.NONE),
    (snapshot(position=-1), Code.SNAPSHOT_NOT_FOUND),
    (snapshot(end=-1, of=-1), Code.SNAPSHOT_NOT_FOUND),
    (snapshot(position=INT64_MAX, end=INT64_MAX, of=INT32_MAX), Code.SNAPSHOT_NOT_FOUND),
    (snapshot(current_leader_epoch=-1), Code.FENCED_LEADER_EPOCH),
    *((ask(epoch, 2), Code.INVALID_REQUEST) for ask in (vote, begin, end) for epoch in (-1, EPOCH_MAX + 1, INT32_MAX)),
    *((ask(5, id), Code.INVALID_REQUEST) for ask in (vote, begin, end) for id in (-1, -2, -100, -(2**31))),
]


async def answered(member: QuorumMember, message: Any) -> Code:
    """The code, of the whole or of its one partition, over the wire's bytes in both directions."""
    version = message.versions[1]
    response = member.plane.handle(type(message).decode(message.encode(version), version), version)
    if inspect.isawaitable(response):
        response = await response
    response = type(response).decode(response.encode(version), version)
    topics = response.responses if isinstance(message, FetchRequest) else response.topics
    return Code(response.error_code or topics[0].partitions[0].error_code)


@pytest.mark.parametrize("number", range(len(BAD)))
def test_what_cannot_be_is_refused_and_the_leader_leads_on(tmp_path: Path, number: int) -> None:
    on_loop(_refused)(tmp_path, *BAD[number])


async def _refused(tmp_path: Path, message: Any, code: Code) -> None:
    quorum = LoopbackQuorum(tmp_path, (1,))
    await quorum.start(1)
    await quorum.write("a")
    member = quorum.members[1]
    assert member.plane.quorum is not None
    before = member.plane.quorum.election
    if isinstance(message, FetchRequest | FetchSnapshotRequest):
        partition = message.topics[0].partitions[0]
        if partition.current_leader_epoch is None:  # the table does not know it
            partition.current_leader_epoch = before.epoch
    assert await answered(member, message) is code
    assert isinstance(member.plane.quorum.role, Leader)
    assert member.plane.quorum.election == before
    await quorum.write("b")
    await quorum.stop()
