"""LeaderAndIsr: request and response, every version.

Api key 4. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class LeaderAndIsrResponse(Message, key=4, versions=(0, 7), flexible=4):
    """Answers LeaderAndIsr."""

    class LeaderAndIsrTopicError(Struct):
        topic_id: bytes = at(5, "uuid")
        partition_errors: list[LeaderAndIsrResponse.LeaderAndIsrPartitionError] = at(5, ["LeaderAndIsrPartitionError"])

    class LeaderAndIsrPartitionError(Struct):
        topic_name: str = at(0, "string", until=4)
        partition_index: int = at(0, "int32")
        error_code: int = at(0, "int16")

    error_code: int = at(0, "int16")
    partition_errors: list[LeaderAndIsrResponse.LeaderAndIsrPartitionError] = at(
        0, ["LeaderAndIsrPartitionError"], until=4
    )
    topics: list[LeaderAndIsrResponse.LeaderAndIsrTopicError] = at(5, ["LeaderAndIsrTopicError"])


class LeaderAndIsrRequest(Request[LeaderAndIsrResponse], key=4, versions=(0, 7), flexible=4):
    """Asks LeaderAndIsr."""

    class LeaderAndIsrTopicState(Struct):
        topic_name: str = at(2, "string")
        topic_id: bytes = at(5, "uuid")
        partition_states: list[LeaderAndIsrRequest.LeaderAndIsrPartitionState] = at(2, ["LeaderAndIsrPartitionState"])

    class LeaderAndIsrLiveLeader(Struct):
        broker_id: int = at(0, "int32")
        host_name: str = at(0, "string")
        port: int = at(0, "int32")

    class LeaderAndIsrPartitionState(Struct):
        topic_name: str = at(0, "string", until=1)
        partition_index: int = at(0, "int32")
        controller_epoch: int = at(0, "int32")
        leader: int = at(0, "int32")
        leader_epoch: int = at(0, "int32")
        isr: list[int] = at(0, ["int32"])
        partition_epoch: int = at(0, "int32")
        replicas: list[int] = at(0, ["int32"])
        adding_replicas: list[int] = at(3, ["int32"])
        removing_replicas: list[int] = at(3, ["int32"])
        is_new: bool = at(1, "bool")
        leader_recovery_state: int = at(6, "int8")

    controller_id: int = at(0, "int32")
    is_k_raft_controller: bool = at(7, "bool")
    controller_epoch: int = at(0, "int32")
    broker_epoch: int = at(2, "int64", default=-1)
    type: int = at(5, "int8")
    ungrouped_partition_states: list[LeaderAndIsrRequest.LeaderAndIsrPartitionState] = at(
        0, ["LeaderAndIsrPartitionState"], until=1
    )
    topic_states: list[LeaderAndIsrRequest.LeaderAndIsrTopicState] = at(2, ["LeaderAndIsrTopicState"])
    live_leaders: list[LeaderAndIsrRequest.LeaderAndIsrLiveLeader] = at(0, ["LeaderAndIsrLiveLeader"])
