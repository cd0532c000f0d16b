"""Answers between replicas, from nouns to messages and back. The counterpart of ``requests.py``.

A leader of ours is always named with where it listens (KIP-853). Fetched bytes are cut to whole, checked batches
before the machine hears of them (KAFKA-14104): what is torn or damaged is as good as not received.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from moldau.broker.kraft.batches import voters_in
from moldau.broker.kraft.peers import EPOCH_MAX, TOPIC_ID, HasPartitions, P_co, Stranger, Unusable, only_partition
from moldau.broker.kraft.requests import QuorumResponse
from moldau.model import Code
from moldau.model.protocol import Protocol
from moldau.quorum import VotersAt
from moldau.quorum.log_view import OffsetAndEpoch
from moldau.quorum.messages import (
    BatchSpan,
    BeginEpochResponse,
    EndEpochResponse,
    RaftFetchResponse,
    RaftResponse,
    RaftSnapshotResponse,
    RaftVoteResponse,
    VoterChangeResponse,
)
from moldau.storage.names import METADATA_TOPIC
from moldau.wire.batch import check, headers
from moldau.wire.messages.k01_fetch import FetchRequest, FetchResponse
from moldau.wire.messages.k52_vote import VoteRequest, VoteResponse
from moldau.wire.messages.k53_begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from moldau.wire.messages.k54_end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from moldau.wire.messages.k55_describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from moldau.wire.messages.k59_fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from moldau.wire.messages.k80_add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from moldau.wire.messages.k81_remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from moldau.wire.messages.k82_update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from moldau.wire.schema import Buffer, Message

RESPONSES: dict[type[Message], type[Message]] = {
    FetchRequest: FetchResponse,
    VoteRequest: VoteResponse,
    BeginQuorumEpochRequest: BeginQuorumEpochResponse,
    EndQuorumEpochRequest: EndQuorumEpochResponse,
    DescribeQuorumRequest: DescribeQuorumResponse,
    FetchSnapshotRequest: FetchSnapshotResponse,
    AddRaftVoterRequest: AddRaftVoterResponse,
    RemoveRaftVoterRequest: RemoveRaftVoterResponse,
    UpdateRaftVoterRequest: UpdateRaftVoterResponse,
}
Address = tuple[str, int] | None
E = TypeVar("E")


class _HasEpoch(Protocol):
    leader_epoch: int


def refusal(request: Message, code: Code) -> Message:
    """The response that refuses a whole request."""
    return RESPONSES[type(request)](error_code=int(code))


def to_response(answer: RaftResponse, address: Address) -> QuorumResponse | VoterChangeResponse:
    """The message for an answer; ``address`` is its leader's. That to a change of the voters is left as it is."""
    match answer:
        case VoterChangeResponse():
            return answer
        case RaftVoteResponse(code, epoch, leader, granted):
            vote = VoteResponse.PartitionData(
                error_code=int(code), leader_id=_id(leader), leader_epoch=epoch, vote_granted=granted
            )
            topic = VoteResponse.TopicData(topic_name=METADATA_TOPIC, partitions=[vote])
            return VoteResponse(topics=[topic], node_endpoints=_where(VoteResponse.NodeEndpoint, leader, address))
        case BeginEpochResponse():
            return _begin_response(answer, address)
        case EndEpochResponse():
            return _end_response(answer, address)
        case RaftFetchResponse():
            return _fetch_response(answer, address)
        case RaftSnapshotResponse():
            return _snapshot_response(answer, address)


def _id(leader: int | None) -> int:
    return -1 if leader is None else leader


def _where(endpoint: Callable[..., E], leader: int | None, address: Address) -> list[E]:
    """The leader with where it listens, as the one ``NodeEndpoint`` of a response; none when that is not known."""
    if leader is None or address is None:
        return []
    host, port = address
    return [endpoint(node_id=leader, host=host, port=port)]


def _begin_response(answer: BeginEpochResponse, address: Address) -> BeginQuorumEpochResponse:
    kind = BeginQuorumEpochResponse
    partition = kind.PartitionData(error_code=int(answer.code), leader_id=_id(answer.leader), leader_epoch=answer.epoch)
    topic = kind.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return kind(topics=[topic], node_endpoints=_where(kind.NodeEndpoint, answer.leader, address))


def _end_response(answer: EndEpochResponse, address: Address) -> EndQuorumEpochResponse:
    kind = EndQuorumEpochResponse
    partition = kind.PartitionData(error_code=int(answer.code), leader_id=_id(answer.leader), leader_epoch=answer.epoch)
    topic = kind.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return kind(topics=[topic], node_endpoints=_where(kind.NodeEndpoint, answer.leader, address))


def _fetch_response(answer: RaftFetchResponse, address: Address) -> FetchResponse:
    partition = FetchResponse.PartitionData(
        error_code=int(answer.code),
        high_watermark=answer.high_watermark,
        last_stable_offset=answer.high_watermark,
        log_start_offset=answer.log_start,
        current_leader=FetchResponse.LeaderIdAndEpoch(leader_id=_id(answer.leader), leader_epoch=answer.epoch),
        records=b"" if answer.data is None else answer.data,
    )
    if answer.diverging is not None:
        partition.diverging_epoch = FetchResponse.EpochEndOffset(
            epoch=answer.diverging.epoch, end_offset=answer.diverging.offset
        )
    if answer.snapshot is not None:
        partition.snapshot_id = FetchResponse.SnapshotId(end_offset=answer.snapshot.offset, epoch=answer.snapshot.epoch)
    topic = FetchResponse.FetchableTopicResponse(topic=METADATA_TOPIC, topic_id=TOPIC_ID, partitions=[partition])
    return FetchResponse(responses=[topic], node_endpoints=_where(FetchResponse.NodeEndpoint, answer.leader, address))


def _snapshot_response(answer: RaftSnapshotResponse, address: Address) -> FetchSnapshotResponse:
    partition = FetchSnapshotResponse.PartitionSnapshot(
        error_code=int(answer.code),
        snapshot_id=FetchSnapshotResponse.SnapshotId(end_offset=answer.snapshot.offset, epoch=answer.snapshot.epoch),
        current_leader=FetchSnapshotResponse.LeaderIdAndEpoch(leader_id=_id(answer.leader), leader_epoch=answer.epoch),
        size=answer.size,
        position=answer.position,
        unaligned_records=b"" if answer.data is None else answer.data,
    )
    topic = FetchSnapshotResponse.TopicSnapshot(name=METADATA_TOPIC, partitions=[partition])
    where = _where(FetchSnapshotResponse.NodeEndpoint, answer.leader, address)
    return FetchSnapshotResponse(topics=[topic], node_endpoints=where)


def to_answer(response: QuorumResponse) -> RaftResponse:
    """What a response says; Unusable when it says nothing."""
    if response.error_code:
        kind = Stranger if response.error_code == Code.INCONSISTENT_CLUSTER_ID else Unusable
        raise kind(f"refused with {Code(response.error_code).name}")
    match response:
        case VoteResponse():
            vote = _only(response.topics)
            return RaftVoteResponse(Code(vote.error_code), _epoch(vote), _leader(vote.leader_id), vote.vote_granted)
        case BeginQuorumEpochResponse():
            begin = _only(response.topics)
            return BeginEpochResponse(Code(begin.error_code), _epoch(begin), _leader(begin.leader_id))
        case EndQuorumEpochResponse():
            end = _only(response.topics)
            return EndEpochResponse(Code(end.error_code), _epoch(end), _leader(end.leader_id))
        case FetchResponse():
            return _fetch_answer(_only(response.responses))
        case FetchSnapshotResponse():
            piece = _only(response.topics)
            known = piece.current_leader
            point = OffsetAndEpoch(piece.snapshot_id.end_offset, piece.snapshot_id.epoch)
            data = bytes(piece.unaligned_records or b"")
            where = (piece.size, piece.position, len(data), data)
            return RaftSnapshotResponse(Code(piece.error_code), _epoch(known), _leader(known.leader_id), point, *where)


def _only(topics: Sequence[HasPartitions[P_co]]) -> P_co:
    """The one partition that was asked about; Unusable when there is none, or others besides."""
    partition = only_partition(topics)
    if partition is None:
        raise Unusable("it answers for other partitions than were asked for")
    return partition


def _epoch(known: _HasEpoch) -> int:
    """The epoch that it speaks of; Unusable when elections cannot have come so far."""
    if known.leader_epoch > EPOCH_MAX:
        raise Unusable(f"it speaks of epoch {known.leader_epoch}, which cannot be")
    return known.leader_epoch


def _leader(id: int) -> int | None:
    return None if id < 0 else id


def _fetch_answer(part: FetchResponse.PartitionData) -> RaftFetchResponse:
    known = part.current_leader
    diverging = snapshot = None
    if part.diverging_epoch.end_offset >= 0:
        diverging = OffsetAndEpoch(part.diverging_epoch.end_offset, part.diverging_epoch.epoch)
    if part.snapshot_id.end_offset >= 0:
        snapshot = OffsetAndEpoch(part.snapshot_id.end_offset, part.snapshot_id.epoch)
    spans, data, voters = _whole_batches(part.records)
    leader, marks = _leader(known.leader_id), (part.high_watermark, part.log_start_offset)
    return RaftFetchResponse(
        Code(part.error_code), _epoch(known), leader, *marks, diverging, snapshot, spans, data, voters
    )


def _whole_batches(
    records: Buffer | None,
) -> tuple[tuple[BatchSpan, ...], bytes | None, tuple[VotersAt, ...]]:
    if not records:
        return (), None, ()
    view = memoryview(records)
    spans, end, control = [], 0, False
    for position, header in headers(view):
        code = check(view, position, header)
        if code is not Code.NONE:
            raise Unusable(f"the batch at offset {header.base_offset} is damaged: {code.name}")
        spans.append(BatchSpan(header.base_offset, header.next_offset, header.leader_epoch))
        control = control or header.is_control
        end = position + header.size
    data = bytes(view[:end])
    return tuple(spans), data, tuple(voters_in(data)) if control else ()
