"""DescribeQuorum: what the leader knows of all replicas, told (KIP-595, KIP-836, KIP-853).

The leader alone knows; others refuse. Times inside are monotonic and become wall-clock times here.
"""

from __future__ import annotations

from moldau.model import Code
from moldau.ports import Clock
from moldau.quorum import Leader, Progress, Quorum, Voter
from moldau.storage.names import METADATA_TOPIC
from moldau.wire.messages.k55_describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse

Response = DescribeQuorumResponse


def describe(quorum: Quorum, request: DescribeQuorumRequest, clock: Clock) -> Response:
    """The response of this replica."""
    asked = [(topic.topic_name, part.partition_index) for topic in request.topics for part in topic.partitions]
    if asked != [(METADATA_TOPIC, 0)]:
        return _unknown(request)
    role = quorum.role
    leader = quorum.leader
    partition = Response.PartitionData(
        leader_id=-1 if leader is None else leader, leader_epoch=role.epoch, high_watermark=-1
    )
    nodes: list[Response.Node] = []
    if isinstance(role, Leader):
        if role.high_watermark is not None:
            partition.high_watermark = role.high_watermark
        partition.current_voters, partition.observers = _replicas(quorum, role, clock)
        nodes = [_node(voter) for voter in quorum.voters.voters]
    else:
        partition.error_code = int(Code.NOT_LEADER_OR_FOLLOWER)
        partition.error_message = "This node does not lead the quorum."
    topic = Response.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return Response(topics=[topic], nodes=nodes)


def _unknown(request: DescribeQuorumRequest) -> Response:
    """There is one quorum, and this is not its name."""
    code = int(Code.UNKNOWN_TOPIC_OR_PARTITION)
    return Response(
        topics=[
            Response.TopicData(
                topic_name=topic.topic_name,
                partitions=[
                    Response.PartitionData(partition_index=part.partition_index, error_code=code)
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _replicas(
    quorum: Quorum, role: Leader, clock: Clock
) -> tuple[list[DescribeQuorumResponse.ReplicaState], list[DescribeQuorumResponse.ReplicaState]]:
    wall_ms = clock.wall_ms()
    ahead_ms = wall_ms - clock.monotonic_ms()
    myself = quorum.voters.voter(quorum.me.id)
    own = Response.ReplicaState(
        replica_id=quorum.me.id,
        # As of all voters: its key's, and static voters (kraft.version 0) have none there. So in Apache Kafka 4.3.
        replica_directory_id=quorum.me.directory_id if myself is None else myself.key.directory_id,
        log_end_offset=quorum.log.end,
        last_caught_up_timestamp=wall_ms,
    )
    voters = [_replica(seen, ahead_ms) for seen in role.voters.values()]
    observers = [_replica(seen, ahead_ms) for seen in role.observers.values() if seen.key.id >= 0]
    (voters if quorum.is_voter else observers).append(own)  # a leader that is being removed still leads
    return sorted(voters, key=_id), sorted(observers, key=_id)


def _id(replica: DescribeQuorumResponse.ReplicaState) -> int:
    return int(replica.replica_id)


def _replica(seen: Progress, ahead_ms: int) -> DescribeQuorumResponse.ReplicaState:
    fetched = seen.end_offset >= 0
    return Response.ReplicaState(
        replica_id=seen.key.id,
        replica_directory_id=seen.key.directory_id,
        log_end_offset=seen.end_offset,
        last_fetch_timestamp=seen.last_fetch_ms + ahead_ms if fetched else -1,
        last_caught_up_timestamp=seen.last_caught_up_ms + ahead_ms if seen.last_caught_up_ms >= 0 else -1,
    )


def _node(voter: Voter) -> DescribeQuorumResponse.Node:
    listeners = [Response.Listener(name=where.name, host=where.host, port=where.port) for where in voter.endpoints]
    return Response.Node(node_id=voter.key.id, listeners=listeners)
