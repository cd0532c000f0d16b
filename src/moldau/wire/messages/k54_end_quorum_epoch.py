"""EndQuorumEpoch: request and response, every version.

Api key 54. Source: protocol guide; KIP-595, KIP-853.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class EndQuorumEpochResponse(Message, key=54, versions=(0, 1), flexible=1):
    """Answers EndQuorumEpoch."""

    class TopicData(Struct):
        topic_name: str = at(0, "string")
        partitions: list[EndQuorumEpochResponse.PartitionData] = at(0, ["PartitionData"])

    class PartitionData(Struct):
        partition_index: int = at(0, "int32")
        error_code: int = at(0, "int16")
        leader_id: int = at(0, "int32")
        leader_epoch: int = at(0, "int32")

    class NodeEndpoint(Struct):
        node_id: int = at(1, "int32")
        host: str = at(1, "string")
        port: int = at(1, "uint16")

    error_code: int = at(0, "int16")
    topics: list[EndQuorumEpochResponse.TopicData] = at(0, ["TopicData"])
    node_endpoints: list[EndQuorumEpochResponse.NodeEndpoint] = at(1, ["NodeEndpoint"], tag=0)


class EndQuorumEpochRequest(Request[EndQuorumEpochResponse], key=54, versions=(0, 1), flexible=1):
    """Asks EndQuorumEpoch."""

    class TopicData(Struct):
        topic_name: str = at(0, "string")
        partitions: list[EndQuorumEpochRequest.PartitionData] = at(0, ["PartitionData"])

    class PartitionData(Struct):
        partition_index: int = at(0, "int32")
        leader_id: int = at(0, "int32")
        leader_epoch: int = at(0, "int32")
        preferred_successors: list[int] = at(0, ["int32"], until=0)
        preferred_candidates: list[EndQuorumEpochRequest.ReplicaInfo] = at(1, ["ReplicaInfo"])

    class ReplicaInfo(Struct):
        candidate_id: int = at(1, "int32")
        candidate_directory_id: bytes = at(1, "uuid")

    class LeaderEndpoint(Struct):
        name: str = at(1, "string")
        host: str = at(1, "string")
        port: int = at(1, "uint16")

    cluster_id: str | None = at(0, "string", null=0, default=None)
    topics: list[EndQuorumEpochRequest.TopicData] = at(0, ["TopicData"])
    leader_endpoints: list[EndQuorumEpochRequest.LeaderEndpoint] = at(1, ["LeaderEndpoint"])
