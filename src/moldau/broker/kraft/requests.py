"""Questions between replicas, from nouns to messages and back: Vote, Begin- and EndQuorumEpoch, Fetch, FetchSnapshot;
and changes of the voter set, as they arrive.

Decides nothing but what is not a question for this log at all: another cluster's, or another topic's. Sources: KIP-595,
KIP-630, KIP-853, KIP-996, KIP-1166. The answers are in ``answers.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.broker.kraft.peers import EPOCH_MAX, TOPIC_ID, Endpoints, HasPartitions, NotForUs, P_co, only_partition
from moldau.model import Code
from moldau.quorum import ReplicaKey, Voter, VoterEndpoint
from moldau.quorum.log_view import OffsetAndEpoch
from moldau.quorum.messages import (
    AddVoterRequest,
    BeginEpochRequest,
    EndEpochRequest,
    RaftFetchRequest,
    RaftRequest,
    RaftSnapshotRequest,
    RaftVoteRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterChangeRequest,
)
from moldau.storage.names import METADATA_TOPIC
from moldau.wire.messages.k01_fetch import FetchRequest, FetchResponse
from moldau.wire.messages.k52_vote import VoteRequest, VoteResponse
from moldau.wire.messages.k53_begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from moldau.wire.messages.k54_end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from moldau.wire.messages.k59_fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from moldau.wire.messages.k80_add_raft_voter import AddRaftVoterRequest
from moldau.wire.messages.k81_remove_raft_voter import RemoveRaftVoterRequest
from moldau.wire.messages.k82_update_raft_voter import UpdateRaftVoterRequest
from moldau.wire.schema import Message, Request

REMOVAL_MS = 30_000
"""How long a removal may take to be committed before its asker hears that it has not been."""
UNKNOWN_OFFSET = 0x7FFFFFFFFFFFFFFF
ENDPOINT_BYTES_MAX = 1 << 16
"""What names and hosts of one voter's endpoints may take together: they stand in a record that every voter reads."""
QuorumResponse = (
    VoteResponse | BeginQuorumEpochResponse | EndQuorumEpochResponse | FetchResponse | FetchSnapshotResponse
)
"""What replicas of the metadata log answer each other."""


def to_request(
    raft_request: RaftRequest, cluster_id: str, endpoints: Endpoints, max_bytes: int
) -> Request[QuorumResponse]:
    """The message for a request; ``endpoints`` are our own (a leader tells them)."""
    match raft_request:
        case RaftVoteRequest():
            vote = VoteRequest.PartitionData(
                candidate_epoch=raft_request.epoch,
                candidate_id=raft_request.candidate.id,
                candidate_directory_id=raft_request.candidate.directory_id,
                voter_directory_id=raft_request.voter.directory_id,
                last_offset_epoch=raft_request.last.epoch,
                last_offset=raft_request.last.offset,
                pre_vote=raft_request.pre_vote,
            )
            topic = VoteRequest.TopicData(topic_name=METADATA_TOPIC, partitions=[vote])
            return VoteRequest(cluster_id=cluster_id, voter_id=raft_request.voter.id, topics=[topic])
        case BeginEpochRequest():
            return _begin(raft_request, cluster_id, endpoints)
        case EndEpochRequest():
            return _end(raft_request, cluster_id, endpoints)
        case RaftFetchRequest():
            return _fetch(raft_request, cluster_id, max_bytes)
        case RaftSnapshotRequest():
            return _snapshot(raft_request, cluster_id, max_bytes)


def _begin(raft_request: BeginEpochRequest, cluster_id: str, endpoints: Endpoints) -> BeginQuorumEpochRequest:
    partition = BeginQuorumEpochRequest.PartitionData(
        voter_directory_id=raft_request.voter.directory_id,
        leader_id=raft_request.leader,
        leader_epoch=raft_request.epoch,
    )
    return BeginQuorumEpochRequest(
        cluster_id=cluster_id,
        voter_id=raft_request.voter.id,
        topics=[BeginQuorumEpochRequest.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
        leader_endpoints=[
            BeginQuorumEpochRequest.LeaderEndpoint(name=name, host=host, port=port) for name, host, port in endpoints
        ],
    )


def _end(raft_request: EndEpochRequest, cluster_id: str, endpoints: Endpoints) -> EndQuorumEpochRequest:
    partition = EndQuorumEpochRequest.PartitionData(
        leader_id=raft_request.leader,
        leader_epoch=raft_request.epoch,
        preferred_successors=[key.id for key in raft_request.successors],
        preferred_candidates=[
            EndQuorumEpochRequest.ReplicaInfo(candidate_id=key.id, candidate_directory_id=key.directory_id)
            for key in raft_request.successors
        ],
    )
    return EndQuorumEpochRequest(
        cluster_id=cluster_id,
        topics=[EndQuorumEpochRequest.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
        leader_endpoints=[
            EndQuorumEpochRequest.LeaderEndpoint(name=name, host=host, port=port) for name, host, port in endpoints
        ],
    )


def _fetch(raft_request: RaftFetchRequest, cluster_id: str, max_bytes: int) -> FetchRequest:
    partition = FetchRequest.FetchPartition(
        current_leader_epoch=raft_request.epoch,
        fetch_offset=raft_request.at.offset,
        last_fetched_epoch=raft_request.at.epoch,
        partition_max_bytes=max_bytes,
        replica_directory_id=raft_request.replica.directory_id,
        high_watermark=UNKNOWN_OFFSET if raft_request.high_watermark < 0 else raft_request.high_watermark,
    )
    return FetchRequest(
        cluster_id=cluster_id,
        replica_id=raft_request.replica.id,
        replica_state=FetchRequest.ReplicaState(replica_id=raft_request.replica.id),
        max_wait_ms=raft_request.max_wait_ms,
        max_bytes=max_bytes,
        topics=[FetchRequest.FetchTopic(topic=METADATA_TOPIC, topic_id=TOPIC_ID, partitions=[partition])],
    )


def _snapshot(raft_request: RaftSnapshotRequest, cluster_id: str, max_bytes: int) -> FetchSnapshotRequest:
    partition = FetchSnapshotRequest.PartitionSnapshot(
        current_leader_epoch=raft_request.epoch,
        snapshot_id=FetchSnapshotRequest.SnapshotId(
            end_offset=raft_request.snapshot.offset, epoch=raft_request.snapshot.epoch
        ),
        position=raft_request.position,
        replica_directory_id=raft_request.replica.directory_id,
    )
    return FetchSnapshotRequest(
        cluster_id=cluster_id,
        replica_id=raft_request.replica.id,
        max_bytes=max_bytes,
        topics=[FetchSnapshotRequest.TopicSnapshot(name=METADATA_TOPIC, partitions=[partition])],
    )


def to_raft_request(
    request: Message, version: int, cluster_id: str, me: ReplicaKey
) -> RaftRequest | VoterChangeRequest:
    """What a request asks of this replica; NotForUs when it is for another cluster or another log, or speaks of an
    epoch or a node that cannot be.

    Versions that do not say which voter they mean (-1) mean whoever gets them.
    """
    asked_of = getattr(request, "cluster_id", None)
    if asked_of is not None and asked_of != cluster_id:
        raise NotForUs(Code.INCONSISTENT_CLUSTER_ID)
    raft_request = _raft_request(request, version, me)
    match raft_request:
        case RaftVoteRequest(epoch=epoch, candidate=candidate):
            _check_sender(epoch, candidate.id)
        case BeginEpochRequest(epoch=epoch, leader=leader) | EndEpochRequest(epoch=epoch, leader=leader):
            _check_sender(epoch, leader)
        case AddVoterRequest(voter=voter) | UpdateVoterRequest(voter=voter):
            if sum(len(one.name) + len(one.host) for one in voter.endpoints) > ENDPOINT_BYTES_MAX:
                raise NotForUs(Code.INVALID_REQUEST)
    return raft_request


def _check_sender(epoch: int, id: int) -> None:
    """A candidate or a leader is a node, and its epoch leaves room for others: epochs never go back."""
    if id < 0 or not 0 <= epoch <= EPOCH_MAX:
        raise NotForUs(Code.INVALID_REQUEST)


def _raft_request(request: Message, version: int, me: ReplicaKey) -> RaftRequest | VoterChangeRequest:
    match request:
        case VoteRequest():
            vote = _only(request.topics)
            _check_place(request.topics[0].topic_name, vote.partition_index)
            voter = ReplicaKey(request.voter_id, bytes(vote.voter_directory_id)) if request.voter_id >= 0 else me
            return RaftVoteRequest(
                vote.candidate_epoch,
                ReplicaKey(vote.candidate_id, bytes(vote.candidate_directory_id)),
                voter,
                OffsetAndEpoch(vote.last_offset, vote.last_offset_epoch),
                vote.pre_vote,
            )
        case BeginQuorumEpochRequest():
            begin = _only(request.topics)
            _check_place(request.topics[0].topic_name, begin.partition_index)
            voter = ReplicaKey(request.voter_id, bytes(begin.voter_directory_id)) if request.voter_id >= 0 else me
            return BeginEpochRequest(begin.leader_epoch, begin.leader_id, voter)
        case EndQuorumEpochRequest():
            end = _only(request.topics)
            _check_place(request.topics[0].topic_name, end.partition_index)
            successors = tuple(
                ReplicaKey(one.candidate_id, bytes(one.candidate_directory_id)) for one in end.preferred_candidates
            )
            return EndEpochRequest(
                end.leader_epoch, end.leader_id, successors or tuple(ReplicaKey(id) for id in end.preferred_successors)
            )
        case FetchRequest():
            return _fetch_ask(request, version)
        case AddRaftVoterRequest():
            return AddVoterRequest(_voter(request), request.timeout_ms, request.ack_when_committed)
        case RemoveRaftVoterRequest():
            return RemoveVoterRequest(ReplicaKey(request.voter_id, bytes(request.voter_directory_id)), REMOVAL_MS)
        case UpdateRaftVoterRequest():
            speaks = request.k_raft_version_feature
            versions = (speaks.min_supported_version, speaks.max_supported_version)
            return UpdateVoterRequest(request.current_leader_epoch, _voter(request)._replace(kraft_versions=versions))
        case FetchSnapshotRequest():
            wanted = _only(request.topics)
            _check_place(request.topics[0].name, wanted.partition)
            point = OffsetAndEpoch(wanted.snapshot_id.end_offset, wanted.snapshot_id.epoch)
            replica = ReplicaKey(request.replica_id, bytes(wanted.replica_directory_id))
            return RaftSnapshotRequest(0, replica, wanted.current_leader_epoch, point, wanted.position)
        case _:
            raise AssertionError(f"{type(request).__name__} is not the quorum's")


def _voter(request: AddRaftVoterRequest | UpdateRaftVoterRequest) -> Voter:
    key = ReplicaKey(request.voter_id, bytes(request.voter_directory_id))
    return Voter(key, tuple(VoterEndpoint(one.name, one.host, one.port) for one in request.listeners))


def _fetch_ask(request: FetchRequest, version: int) -> RaftFetchRequest:
    wanted = _only(request.topics)
    topic = request.topics[0]
    by_id = METADATA_TOPIC if topic.topic_id == TOPIC_ID else ""
    _check_place(by_id if version >= 13 else topic.topic, wanted.partition)
    id = request.replica_state.replica_id if version >= 15 else request.replica_id
    known = wanted.high_watermark if version >= 18 and wanted.high_watermark != UNKNOWN_OFFSET else -1
    return RaftFetchRequest(
        0,
        ReplicaKey(id, bytes(wanted.replica_directory_id)),
        wanted.current_leader_epoch,
        OffsetAndEpoch(wanted.fetch_offset, wanted.last_fetched_epoch if version >= 12 else 0),
        request.max_wait_ms,
        known,
    )


def _only(topics: Sequence[HasPartitions[P_co]]) -> P_co:
    partition = only_partition(topics)
    if partition is None:
        raise NotForUs(Code.INVALID_REQUEST)
    return partition


def _check_place(topic: str, index: int) -> None:
    """Refuse a request that is not about the one partition of the metadata topic."""
    if topic != METADATA_TOPIC or index != 0:
        raise NotForUs(Code.INVALID_REQUEST)
