"""ElectLeaders: request and response, every version.

Api key 43. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class ElectLeadersResponse(Message, key=43, versions=(0, 2), flexible=2):
    """Answers ElectLeaders."""

    class ReplicaElectionResult(Struct):
        topic: str = at(0, "string")
        partition_result: list[ElectLeadersResponse.PartitionResult] = at(0, ["PartitionResult"])

    class PartitionResult(Struct):
        partition_id: int = at(0, "int32")
        error_code: int = at(0, "int16")
        error_message: str | None = at(0, "string", null=0)

    throttle_time_ms: int = at(0, "int32")
    error_code: int = at(1, "int16")
    replica_election_results: list[ElectLeadersResponse.ReplicaElectionResult] = at(0, ["ReplicaElectionResult"])


class ElectLeadersRequest(Request[ElectLeadersResponse], key=43, versions=(0, 2), flexible=2):
    """Asks ElectLeaders."""

    class TopicPartitions(Struct):
        topic: str = at(0, "string")
        partitions: list[int] = at(0, ["int32"])

    election_type: int = at(1, "int8")
    topic_partitions: list[ElectLeadersRequest.TopicPartitions] | None = at(0, ["TopicPartitions"], null=0)
    timeout_ms: int = at(0, "int32", default=60000)
