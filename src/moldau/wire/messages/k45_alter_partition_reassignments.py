"""AlterPartitionReassignments: request and response, every version.

Api key 45. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class AlterPartitionReassignmentsResponse(Message, key=45, versions=(0, 1)):
    """Answers AlterPartitionReassignments."""

    class ReassignableTopicResponse(Struct):
        name: str = at(0, "string")
        partitions: list[AlterPartitionReassignmentsResponse.ReassignablePartitionResponse] = at(
            0, ["ReassignablePartitionResponse"]
        )

    class ReassignablePartitionResponse(Struct):
        partition_index: int = at(0, "int32")
        error_code: int = at(0, "int16")
        error_message: str | None = at(0, "string", null=0)

    throttle_time_ms: int = at(0, "int32")
    allow_replication_factor_change: bool = at(1, "bool", default=True)
    error_code: int = at(0, "int16")
    error_message: str | None = at(0, "string", null=0)
    responses: list[AlterPartitionReassignmentsResponse.ReassignableTopicResponse] = at(
        0, ["ReassignableTopicResponse"]
    )


class AlterPartitionReassignmentsRequest(Request[AlterPartitionReassignmentsResponse], key=45, versions=(0, 1)):
    """Asks AlterPartitionReassignments."""

    class ReassignableTopic(Struct):
        name: str = at(0, "string")
        partitions: list[AlterPartitionReassignmentsRequest.ReassignablePartition] = at(0, ["ReassignablePartition"])

    class ReassignablePartition(Struct):
        partition_index: int = at(0, "int32")
        replicas: list[int] | None = at(0, ["int32"], null=0, default=None)

    timeout_ms: int = at(0, "int32", default=60000)
    allow_replication_factor_change: bool = at(1, "bool", default=True)
    topics: list[AlterPartitionReassignmentsRequest.ReassignableTopic] = at(0, ["ReassignableTopic"])
