"""CreatePartitions: request and response, every version.

Api key 37. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class CreatePartitionsResponse(Message, key=37, versions=(0, 3), flexible=2):
    """Answers CreatePartitions."""

    class CreatePartitionsTopicResult(Struct):
        name: str = at(0, "string")
        error_code: int = at(0, "int16")
        error_message: str | None = at(0, "string", null=0, default=None)

    throttle_time_ms: int = at(0, "int32")
    results: list[CreatePartitionsResponse.CreatePartitionsTopicResult] = at(0, ["CreatePartitionsTopicResult"])


class CreatePartitionsRequest(Request[CreatePartitionsResponse], key=37, versions=(0, 3), flexible=2):
    """Asks CreatePartitions."""

    class CreatePartitionsTopic(Struct):
        name: str = at(0, "string")
        count: int = at(0, "int32")
        assignments: list[CreatePartitionsRequest.CreatePartitionsAssignment] | None = at(
            0, ["CreatePartitionsAssignment"], null=0
        )

    class CreatePartitionsAssignment(Struct):
        broker_ids: list[int] = at(0, ["int32"])

    topics: list[CreatePartitionsRequest.CreatePartitionsTopic] = at(0, ["CreatePartitionsTopic"])
    timeout_ms: int = at(0, "int32")
    validate_only: bool = at(0, "bool")
