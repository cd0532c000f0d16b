"""ListOffsets: request and response, every version.

Api key 2. Source: protocol guide; KIP-79, KIP-207, KIP-734.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class ListOffsetsResponse(Message, key=2, versions=(0, 11), flexible=6):
    """Answers ListOffsets."""

    class ListOffsetsTopicResponse(Struct):
        name: str = at(0, "string")
        partitions: list[ListOffsetsResponse.ListOffsetsPartitionResponse] = at(0, ["ListOffsetsPartitionResponse"])

    class ListOffsetsPartitionResponse(Struct):
        partition_index: int = at(0, "int32")
        error_code: int = at(0, "int16")
        old_style_offsets: list[int] = at(0, ["int64"], until=0)
        timestamp: int = at(1, "int64", default=-1)
        offset: int = at(1, "int64", default=-1)
        leader_epoch: int = at(4, "int32", default=-1)

    throttle_time_ms: int = at(2, "int32")
    topics: list[ListOffsetsResponse.ListOffsetsTopicResponse] = at(0, ["ListOffsetsTopicResponse"])


class ListOffsetsRequest(Request[ListOffsetsResponse], key=2, versions=(0, 11), flexible=6):
    """Asks ListOffsets."""

    class ListOffsetsTopic(Struct):
        name: str = at(0, "string")
        partitions: list[ListOffsetsRequest.ListOffsetsPartition] = at(0, ["ListOffsetsPartition"])

    class ListOffsetsPartition(Struct):
        partition_index: int = at(0, "int32")
        current_leader_epoch: int = at(4, "int32", default=-1)
        timestamp: int = at(0, "int64")
        max_num_offsets: int = at(0, "int32", until=0, default=1)

    replica_id: int = at(0, "int32")
    isolation_level: int = at(2, "int8")
    topics: list[ListOffsetsRequest.ListOffsetsTopic] = at(0, ["ListOffsetsTopic"])
    timeout_ms: int = at(10, "int32")
