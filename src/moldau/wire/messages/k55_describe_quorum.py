"""DescribeQuorum: request and response, every version.

Api key 55. Source: protocol guide; KIP-595, KIP-836.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class DescribeQuorumResponse(Message, key=55, versions=(0, 2)):
    """Answers DescribeQuorum."""

    class TopicData(Struct):
        topic_name: str = at(0, "string")
        partitions: list[DescribeQuorumResponse.PartitionData] = at(0, ["PartitionData"])

    class PartitionData(Struct):
        partition_index: int = at(0, "int32")
        error_code: int = at(0, "int16")
        error_message: str | None = at(2, "string", null=2)
        leader_id: int = at(0, "int32")
        leader_epoch: int = at(0, "int32")
        high_watermark: int = at(0, "int64")
        current_voters: list[DescribeQuorumResponse.ReplicaState] = at(0, ["ReplicaState"])
        observers: list[DescribeQuorumResponse.ReplicaState] = at(0, ["ReplicaState"])

    class Node(Struct):
        node_id: int = at(2, "int32")
        listeners: list[DescribeQuorumResponse.Listener] = at(2, ["Listener"])

    class Listener(Struct):
        name: str = at(2, "string")
        host: str = at(2, "string")
        port: int = at(2, "uint16")

    class ReplicaState(Struct):
        replica_id: int = at(0, "int32")
        replica_directory_id: bytes = at(2, "uuid")
        log_end_offset: int = at(0, "int64")
        last_fetch_timestamp: int = at(1, "int64", default=-1)
        last_caught_up_timestamp: int = at(1, "int64", default=-1)

    error_code: int = at(0, "int16")
    error_message: str | None = at(2, "string", null=2)
    topics: list[DescribeQuorumResponse.TopicData] = at(0, ["TopicData"])
    nodes: list[DescribeQuorumResponse.Node] = at(2, ["Node"])


class DescribeQuorumRequest(Request[DescribeQuorumResponse], key=55, versions=(0, 2)):
    """Asks DescribeQuorum."""

    class TopicData(Struct):
        topic_name: str = at(0, "string")
        partitions: list[DescribeQuorumRequest.PartitionData] = at(0, ["PartitionData"])

    class PartitionData(Struct):
        partition_index: int = at(0, "int32")

    topics: list[DescribeQuorumRequest.TopicData] = at(0, ["TopicData"])
