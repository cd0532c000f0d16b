"""DescribeTopicPartitions: request and response, every version.

Api key 75. Source: protocol guide; KIP-966.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class DescribeTopicPartitionsResponse(Message, key=75, versions=(0, 0)):
    """Answers DescribeTopicPartitions."""

    class DescribeTopicPartitionsResponseTopic(Struct):
        error_code: int = at(0, "int16")
        name: str | None = at(0, "string", null=0)
        topic_id: bytes = at(0, "uuid")
        is_internal: bool = at(0, "bool")
        partitions: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition] = at(
            0, ["DescribeTopicPartitionsResponsePartition"]
        )
        topic_authorized_operations: int = at(0, "int32", default=-2147483648)

    class DescribeTopicPartitionsResponsePartition(Struct):
        error_code: int = at(0, "int16")
        partition_index: int = at(0, "int32")
        leader_id: int = at(0, "int32")
        leader_epoch: int = at(0, "int32", default=-1)
        replica_nodes: list[int] = at(0, ["int32"])
        isr_nodes: list[int] = at(0, ["int32"])
        eligible_leader_replicas: list[int] | None = at(0, ["int32"], null=0, default=None)
        last_known_elr: list[int] | None = at(0, ["int32"], null=0, default=None)
        offline_replicas: list[int] = at(0, ["int32"])

    class Cursor(Struct):
        topic_name: str = at(0, "string")
        partition_index: int = at(0, "int32")

    throttle_time_ms: int = at(0, "int32")
    topics: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic] = at(
        0, ["DescribeTopicPartitionsResponseTopic"]
    )
    next_cursor: DescribeTopicPartitionsResponse.Cursor | None = at(0, "Cursor", null=0, default=None)


class DescribeTopicPartitionsRequest(Request[DescribeTopicPartitionsResponse], key=75, versions=(0, 0)):
    """Asks DescribeTopicPartitions."""

    class TopicRequest(Struct):
        name: str = at(0, "string")

    class Cursor(Struct):
        topic_name: str = at(0, "string")
        partition_index: int = at(0, "int32")

    topics: list[DescribeTopicPartitionsRequest.TopicRequest] = at(0, ["TopicRequest"])
    response_partition_limit: int = at(0, "int32", default=2000)
    cursor: DescribeTopicPartitionsRequest.Cursor | None = at(0, "Cursor", null=0, default=None)
