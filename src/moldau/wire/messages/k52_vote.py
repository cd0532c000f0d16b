"""Vote: request and response, every version.

Api key 52. Source: protocol guide; KIP-595, KIP-853, KIP-996.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class VoteResponse(Message, key=52, versions=(0, 2)):
    """Answers Vote."""

    class TopicData(Struct):
        topic_name: str = at(0, "string")
        partitions: list[VoteResponse.PartitionData] = at(0, ["PartitionData"])

    class PartitionData(Struct):
        partition_index: int = at(0, "int32")
        error_code: int = at(0, "int16")
        leader_id: int = at(0, "int32")
        leader_epoch: int = at(0, "int32")
        vote_granted: bool = at(0, "bool")

    class NodeEndpoint(Struct):
        node_id: int = at(1, "int32")
        host: str = at(1, "string")
        port: int = at(1, "uint16")

    error_code: int = at(0, "int16")
    topics: list[VoteResponse.TopicData] = at(0, ["TopicData"])
    node_endpoints: list[VoteResponse.NodeEndpoint] = at(1, ["NodeEndpoint"], tag=0)


class VoteRequest(Request[VoteResponse], key=52, versions=(0, 2)):
    """Asks Vote."""

    class TopicData(Struct):
        topic_name: str = at(0, "string")
        partitions: list[VoteRequest.PartitionData] = at(0, ["PartitionData"])

    class PartitionData(Struct):
        partition_index: int = at(0, "int32")
        candidate_epoch: int = at(0, "int32")
        candidate_id: int = at(0, "int32")
        candidate_directory_id: bytes = at(1, "uuid")
        voter_directory_id: bytes = at(1, "uuid")
        last_offset_epoch: int = at(0, "int32")
        last_offset: int = at(0, "int64")
        pre_vote: bool = at(2, "bool")

    cluster_id: str | None = at(0, "string", null=0, default=None)
    voter_id: int = at(1, "int32", default=-1)
    topics: list[VoteRequest.TopicData] = at(0, ["TopicData"])
