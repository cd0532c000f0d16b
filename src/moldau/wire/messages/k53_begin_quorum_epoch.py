"""BeginQuorumEpoch: request and response, every version.

Api key 53. Source: protocol guide; KIP-595, KIP-853.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class BeginQuorumEpochResponse(Message, key=53, versions=(0, 1), flexible=1):
    """Answers BeginQuorumEpoch."""

    class TopicData(Struct):
        topic_name: str = at(0, "string")
        partitions: list[BeginQuorumEpochResponse.PartitionData] = at(0, ["PartitionData"])

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
    topics: list[BeginQuorumEpochResponse.TopicData] = at(0, ["TopicData"])
    node_endpoints: list[BeginQuorumEpochResponse.NodeEndpoint] = at(1, ["NodeEndpoint"], tag=0)


class BeginQuorumEpochRequest(Request[BeginQuorumEpochResponse], key=53, versions=(0, 1), flexible=1):
    """Asks BeginQuorumEpoch."""

    class TopicData(Struct):
        topic_name: str = at(0, "string")
        partitions: list[BeginQuorumEpochRequest.PartitionData] = at(0, ["PartitionData"])

    class PartitionData(Struct):
        partition_index: int = at(0, "int32")
        voter_directory_id: bytes = at(1, "uuid")
        leader_id: int = at(0, "int32")
        leader_epoch: int = at(0, "int32")

    class LeaderEndpoint(Struct):
        name: str = at(1, "string")
        host: str = at(1, "string")
        port: int = at(1, "uint16")

    cluster_id: str | None = at(0, "string", null=0, default=None)
    voter_id: int = at(1, "int32", default=-1)
    topics: list[BeginQuorumEpochRequest.TopicData] = at(0, ["TopicData"])
    leader_endpoints: list[BeginQuorumEpochRequest.LeaderEndpoint] = at(1, ["LeaderEndpoint"])
