"""Produce: request and response, every version.

Api key 0. Source: protocol guide; KIP-98, KIP-516, KIP-951.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.codec import Buffer
from moldau.wire.schema import Message, Request, Struct, at


class ProduceResponse(Message, key=0, versions=(0, 13), flexible=9):
    """Answers Produce."""

    class TopicProduceResponse(Struct):
        name: str = at(0, "string", until=12)
        topic_id: bytes = at(13, "uuid")
        partition_responses: list[ProduceResponse.PartitionProduceResponse] = at(0, ["PartitionProduceResponse"])

    class PartitionProduceResponse(Struct):
        index: int = at(0, "int32")
        error_code: int = at(0, "int16")
        base_offset: int = at(0, "int64")
        log_append_time_ms: int = at(2, "int64", default=-1)
        log_start_offset: int = at(5, "int64", default=-1)
        record_errors: list[ProduceResponse.BatchIndexAndErrorMessage] = at(8, ["BatchIndexAndErrorMessage"])
        error_message: str | None = at(8, "string", null=8, default=None)
        current_leader: ProduceResponse.LeaderIdAndEpoch = at(10, "LeaderIdAndEpoch", tag=0)

    class BatchIndexAndErrorMessage(Struct):
        batch_index: int = at(8, "int32")
        batch_index_error_message: str | None = at(8, "string", null=8, default=None)

    class LeaderIdAndEpoch(Struct):
        leader_id: int = at(10, "int32", default=-1)
        leader_epoch: int = at(10, "int32", default=-1)

    class NodeEndpoint(Struct):
        node_id: int = at(10, "int32")
        host: str = at(10, "string")
        port: int = at(10, "int32")
        rack: str | None = at(10, "string", null=10, default=None)

    responses: list[ProduceResponse.TopicProduceResponse] = at(0, ["TopicProduceResponse"])
    throttle_time_ms: int = at(1, "int32")
    node_endpoints: list[ProduceResponse.NodeEndpoint] = at(10, ["NodeEndpoint"], tag=0)


class ProduceRequest(Request[ProduceResponse], key=0, versions=(0, 13), flexible=9):
    """Asks Produce."""

    class TopicProduceData(Struct):
        name: str = at(0, "string", until=12)
        topic_id: bytes = at(13, "uuid")
        partition_data: list[ProduceRequest.PartitionProduceData] = at(0, ["PartitionProduceData"])

    class PartitionProduceData(Struct):
        index: int = at(0, "int32")
        records: Buffer | None = at(0, "records", null=0)
        records_at: int = -1
        """Where they begin in the request's bytes; -1 in one that was not decoded."""

    transactional_id: str | None = at(3, "string", null=3, default=None)
    acks: int = at(0, "int16")
    timeout_ms: int = at(0, "int32")
    topic_data: list[ProduceRequest.TopicProduceData] = at(0, ["TopicProduceData"])
