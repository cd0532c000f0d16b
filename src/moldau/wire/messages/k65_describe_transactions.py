"""DescribeTransactions: request and response, every version.

Api key 65. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class DescribeTransactionsResponse(Message, key=65, versions=(0, 0)):
    """Answers DescribeTransactions."""

    class TransactionState(Struct):
        error_code: int = at(0, "int16")
        transactional_id: str = at(0, "string")
        transaction_state: str = at(0, "string")
        transaction_timeout_ms: int = at(0, "int32")
        transaction_start_time_ms: int = at(0, "int64")
        producer_id: int = at(0, "int64")
        producer_epoch: int = at(0, "int16")
        topics: list[DescribeTransactionsResponse.TopicData] = at(0, ["TopicData"])

    class TopicData(Struct):
        topic: str = at(0, "string")
        partitions: list[int] = at(0, ["int32"])

    throttle_time_ms: int = at(0, "int32")
    transaction_states: list[DescribeTransactionsResponse.TransactionState] = at(0, ["TransactionState"])


class DescribeTransactionsRequest(Request[DescribeTransactionsResponse], key=65, versions=(0, 0)):
    """Asks DescribeTransactions."""

    transactional_ids: list[str] = at(0, ["string"])
