"""Metadata: request and response, every version.

Api key 3. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class MetadataResponse(Message, key=3, versions=(0, 13), flexible=9):
    """Answers Metadata."""

    packs = True

    class MetadataResponseBroker(Struct):
        node_id: int = at(0, "int32")
        host: str = at(0, "string")
        port: int = at(0, "int32")
        rack: str | None = at(1, "string", null=1, default=None)

    class MetadataResponseTopic(Struct):
        packs = True

        error_code: int = at(0, "int16")
        name: str | None = at(0, "string", null=12)
        topic_id: bytes = at(10, "uuid")
        is_internal: bool = at(1, "bool")
        partitions: list[MetadataResponse.MetadataResponsePartition] = at(0, ["MetadataResponsePartition"])
        topic_authorized_operations: int = at(8, "int32", default=-2147483648)

    class MetadataResponsePartition(Struct):
        error_code: int = at(0, "int16")
        partition_index: int = at(0, "int32")
        leader_id: int = at(0, "int32")
        leader_epoch: int = at(7, "int32", default=-1)
        replica_nodes: list[int] = at(0, ["int32"])
        isr_nodes: list[int] = at(0, ["int32"])
        offline_replicas: list[int] = at(5, ["int32"])

    throttle_time_ms: int = at(3, "int32")
    brokers: list[MetadataResponse.MetadataResponseBroker] = at(0, ["MetadataResponseBroker"])
    cluster_id: str | None = at(2, "string", null=2, default=None)
    controller_id: int = at(1, "int32", default=-1)
    topics: list[MetadataResponse.MetadataResponseTopic] = at(0, ["MetadataResponseTopic"])
    cluster_authorized_operations: int = at(8, "int32", until=10, default=-2147483648)
    error_code: int = at(13, "int16")


class MetadataRequest(Request[MetadataResponse], key=3, versions=(0, 13), flexible=9):
    """Asks Metadata."""

    class MetadataRequestTopic(Struct):
        topic_id: bytes = at(10, "uuid")
        name: str | None = at(0, "string", null=10)

    topics: list[MetadataRequest.MetadataRequestTopic] | None = at(0, ["MetadataRequestTopic"], null=1)
    allow_auto_topic_creation: bool = at(4, "bool", default=True)
    include_cluster_authorized_operations: bool = at(8, "bool", until=10)
    include_topic_authorized_operations: bool = at(8, "bool")
