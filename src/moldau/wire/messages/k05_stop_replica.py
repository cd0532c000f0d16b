"""StopReplica: request and response, every version.

Api key 5. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class StopReplicaResponse(Message, key=5, versions=(0, 4), flexible=2):
    """Answers StopReplica."""

    class StopReplicaPartitionError(Struct):
        topic_name: str = at(0, "string")
        partition_index: int = at(0, "int32")
        error_code: int = at(0, "int16")

    error_code: int = at(0, "int16")
    partition_errors: list[StopReplicaResponse.StopReplicaPartitionError] = at(0, ["StopReplicaPartitionError"])


class StopReplicaRequest(Request[StopReplicaResponse], key=5, versions=(0, 4), flexible=2):
    """Asks StopReplica."""

    class StopReplicaPartitionV0(Struct):
        topic_name: str = at(0, "string", until=0)
        partition_index: int = at(0, "int32", until=0)

    class StopReplicaTopicV1(Struct):
        name: str = at(1, "string", until=2)
        partition_indexes: list[int] = at(1, ["int32"], until=2)

    class StopReplicaTopicState(Struct):
        topic_name: str = at(3, "string")
        partition_states: list[StopReplicaRequest.StopReplicaPartitionState] = at(3, ["StopReplicaPartitionState"])

    class StopReplicaPartitionState(Struct):
        partition_index: int = at(3, "int32")
        leader_epoch: int = at(3, "int32", default=-1)
        delete_partition: bool = at(3, "bool")

    controller_id: int = at(0, "int32")
    is_k_raft_controller: bool = at(4, "bool")
    controller_epoch: int = at(0, "int32")
    broker_epoch: int = at(1, "int64", default=-1)
    delete_partitions: bool = at(0, "bool", until=2)
    ungrouped_partitions: list[StopReplicaRequest.StopReplicaPartitionV0] = at(0, ["StopReplicaPartitionV0"], until=0)
    topics: list[StopReplicaRequest.StopReplicaTopicV1] = at(1, ["StopReplicaTopicV1"], until=2)
    topic_states: list[StopReplicaRequest.StopReplicaTopicState] = at(3, ["StopReplicaTopicState"])
