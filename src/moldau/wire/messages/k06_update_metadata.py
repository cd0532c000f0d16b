"""UpdateMetadata: request and response, every version.

Api key 6. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class UpdateMetadataResponse(Message, key=6, versions=(0, 8), flexible=6):
    """Answers UpdateMetadata."""

    error_code: int = at(0, "int16")


class UpdateMetadataRequest(Request[UpdateMetadataResponse], key=6, versions=(0, 8), flexible=6):
    """Asks UpdateMetadata."""

    class UpdateMetadataTopicState(Struct):
        topic_name: str = at(5, "string")
        topic_id: bytes = at(7, "uuid")
        partition_states: list[UpdateMetadataRequest.UpdateMetadataPartitionState] = at(
            5, ["UpdateMetadataPartitionState"]
        )

    class UpdateMetadataBroker(Struct):
        id: int = at(0, "int32")
        v0_host: str = at(0, "string", until=0)
        v0_port: int = at(0, "int32", until=0)
        endpoints: list[UpdateMetadataRequest.UpdateMetadataEndpoint] = at(1, ["UpdateMetadataEndpoint"])
        rack: str | None = at(2, "string", null=0)

    class UpdateMetadataEndpoint(Struct):
        port: int = at(1, "int32")
        host: str = at(1, "string")
        listener: str = at(3, "string")
        security_protocol: int = at(1, "int16")

    class UpdateMetadataPartitionState(Struct):
        topic_name: str = at(0, "string", until=4)
        partition_index: int = at(0, "int32")
        controller_epoch: int = at(0, "int32")
        leader: int = at(0, "int32")
        leader_epoch: int = at(0, "int32")
        isr: list[int] = at(0, ["int32"])
        zk_version: int = at(0, "int32")
        replicas: list[int] = at(0, ["int32"])
        offline_replicas: list[int] = at(4, ["int32"])

    controller_id: int = at(0, "int32")
    is_k_raft_controller: bool = at(8, "bool")
    type: int = at(8, "int8", tag=0)
    controller_epoch: int = at(0, "int32")
    broker_epoch: int = at(5, "int64", default=-1)
    ungrouped_partition_states: list[UpdateMetadataRequest.UpdateMetadataPartitionState] = at(
        0, ["UpdateMetadataPartitionState"], until=4
    )
    topic_states: list[UpdateMetadataRequest.UpdateMetadataTopicState] = at(5, ["UpdateMetadataTopicState"])
    live_brokers: list[UpdateMetadataRequest.UpdateMetadataBroker] = at(0, ["UpdateMetadataBroker"])
