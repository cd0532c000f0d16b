"""ListPartitionReassignments: request and response, every version.

Api key 46. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class ListPartitionReassignmentsResponse(Message, key=46, versions=(0, 0)):
    """Answers ListPartitionReassignments."""

    class OngoingTopicReassignment(Struct):
        name: str = at(0, "string")
        partitions: list[ListPartitionReassignmentsResponse.OngoingPartitionReassignment] = at(
            0, ["OngoingPartitionReassignment"]
        )

    class OngoingPartitionReassignment(Struct):
        partition_index: int = at(0, "int32")
        replicas: list[int] = at(0, ["int32"])
        adding_replicas: list[int] = at(0, ["int32"])
        removing_replicas: list[int] = at(0, ["int32"])

    throttle_time_ms: int = at(0, "int32")
    error_code: int = at(0, "int16")
    error_message: str | None = at(0, "string", null=0)
    topics: list[ListPartitionReassignmentsResponse.OngoingTopicReassignment] = at(0, ["OngoingTopicReassignment"])


class ListPartitionReassignmentsRequest(Request[ListPartitionReassignmentsResponse], key=46, versions=(0, 0)):
    """Asks ListPartitionReassignments."""

    class ListPartitionReassignmentsTopics(Struct):
        name: str = at(0, "string")
        partition_indexes: list[int] = at(0, ["int32"])

    timeout_ms: int = at(0, "int32", default=60000)
    topics: list[ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics] | None = at(
        0, ["ListPartitionReassignmentsTopics"], null=0, default=None
    )
