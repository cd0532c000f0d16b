"""DescribeProducers: request and response, every version.

Api key 61. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class DescribeProducersResponse(Message, key=61, versions=(0, 0)):
    """Answers DescribeProducers."""

    class TopicResponse(Struct):
        name: str = at(0, "string")
        partitions: list[DescribeProducersResponse.PartitionResponse] = at(0, ["PartitionResponse"])

    class PartitionResponse(Struct):
        partition_index: int = at(0, "int32")
        error_code: int = at(0, "int16")
        error_message: str | None = at(0, "string", null=0, default=None)
        active_producers: list[DescribeProducersResponse.ProducerState] = at(0, ["ProducerState"])

    class ProducerState(Struct):
        producer_id: int = at(0, "int64")
        producer_epoch: int = at(0, "int32")
        last_sequence: int = at(0, "int32", default=-1)
        last_timestamp: int = at(0, "int64", default=-1)
        coordinator_epoch: int = at(0, "int32")
        current_txn_start_offset: int = at(0, "int64", default=-1)

    throttle_time_ms: int = at(0, "int32")
    topics: list[DescribeProducersResponse.TopicResponse] = at(0, ["TopicResponse"])


class DescribeProducersRequest(Request[DescribeProducersResponse], key=61, versions=(0, 0)):
    """Asks DescribeProducers."""

    class TopicRequest(Struct):
        name: str = at(0, "string")
        partition_indexes: list[int] = at(0, ["int32"])

    topics: list[DescribeProducersRequest.TopicRequest] = at(0, ["TopicRequest"])
