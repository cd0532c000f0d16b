"""AlterPartition: request and response, every version.

Api key 56. Source: protocol guide; KIP-497, KIP-841, KIP-903.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class AlterPartitionResponse(Message, key=56, versions=(0, 3)):
    """Answers AlterPartition."""

    class TopicData(Struct):
        topic_name: str = at(0, "string", until=1)
        topic_id: bytes = at(2, "uuid")
        partitions: list[AlterPartitionResponse.PartitionData] = at(0, ["PartitionData"])

    class PartitionData(Struct):
        partition_index: int = at(0, "int32")
        error_code: int = at(0, "int16")
        leader_id: int = at(0, "int32")
        leader_epoch: int = at(0, "int32")
        isr: list[int] = at(0, ["int32"])
        leader_recovery_state: int = at(1, "int8")
        partition_epoch: int = at(0, "int32")

    throttle_time_ms: int = at(0, "int32")
    error_code: int = at(0, "int16")
    topics: list[AlterPartitionResponse.TopicData] = at(0, ["TopicData"])


class AlterPartitionRequest(Request[AlterPartitionResponse], key=56, versions=(0, 3)):
    """Asks AlterPartition."""

    class TopicData(Struct):
        topic_name: str = at(0, "string", until=1)
        topic_id: bytes = at(2, "uuid")
        partitions: list[AlterPartitionRequest.PartitionData] = at(0, ["PartitionData"])

    class PartitionData(Struct):
        partition_index: int = at(0, "int32")
        leader_epoch: int = at(0, "int32")
        new_isr: list[int] = at(0, ["int32"], until=2)
        new_isr_with_epochs: list[AlterPartitionRequest.BrokerState] = at(3, ["BrokerState"])
        leader_recovery_state: int = at(1, "int8")
        partition_epoch: int = at(0, "int32")

    class BrokerState(Struct):
        broker_id: int = at(3, "int32")
        broker_epoch: int = at(3, "int64", default=-1)

    broker_id: int = at(0, "int32")
    broker_epoch: int = at(0, "int64", default=-1)
    topics: list[AlterPartitionRequest.TopicData] = at(0, ["TopicData"])
