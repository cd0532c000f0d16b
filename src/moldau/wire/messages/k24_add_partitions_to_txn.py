"""AddPartitionsToTxn: request and response, every version.

Api key 24. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class AddPartitionsToTxnResponse(Message, key=24, versions=(0, 5), flexible=3):
    """Answers AddPartitionsToTxn."""

    class AddPartitionsToTxnResult(Struct):
        transactional_id: str = at(4, "string")
        topic_results: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = at(
            4, ["AddPartitionsToTxnTopicResult"]
        )

    class AddPartitionsToTxnTopicResult(Struct):
        name: str = at(0, "string")
        results_by_partition: list[AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult] = at(
            0, ["AddPartitionsToTxnPartitionResult"]
        )

    class AddPartitionsToTxnPartitionResult(Struct):
        partition_index: int = at(0, "int32")
        partition_error_code: int = at(0, "int16")

    throttle_time_ms: int = at(0, "int32")
    error_code: int = at(4, "int16")
    results_by_transaction: list[AddPartitionsToTxnResponse.AddPartitionsToTxnResult] = at(
        4, ["AddPartitionsToTxnResult"]
    )
    results_by_topic_v3_and_below: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = at(
        0, ["AddPartitionsToTxnTopicResult"], until=3
    )


class AddPartitionsToTxnRequest(Request[AddPartitionsToTxnResponse], key=24, versions=(0, 5), flexible=3):
    """Asks AddPartitionsToTxn."""

    class AddPartitionsToTxnTransaction(Struct):
        transactional_id: str = at(4, "string")
        producer_id: int = at(4, "int64")
        producer_epoch: int = at(4, "int16")
        verify_only: bool = at(4, "bool")
        topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = at(4, ["AddPartitionsToTxnTopic"])

    class AddPartitionsToTxnTopic(Struct):
        name: str = at(0, "string")
        partitions: list[int] = at(0, ["int32"])

    transactions: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction] = at(
        4, ["AddPartitionsToTxnTransaction"]
    )
    v3_and_below_transactional_id: str = at(0, "string", until=3)
    v3_and_below_producer_id: int = at(0, "int64", until=3)
    v3_and_below_producer_epoch: int = at(0, "int16", until=3)
    v3_and_below_topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = at(
        0, ["AddPartitionsToTxnTopic"], until=3
    )
