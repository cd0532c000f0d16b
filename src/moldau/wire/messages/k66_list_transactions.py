"""ListTransactions: request and response, every version.

Api key 66. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, Struct, at


class ListTransactionsResponse(Message, key=66, versions=(0, 2)):
    """Answers ListTransactions."""

    class TransactionState(Struct):
        transactional_id: str = at(0, "string")
        producer_id: int = at(0, "int64")
        transaction_state: str = at(0, "string")

    throttle_time_ms: int = at(0, "int32")
    error_code: int = at(0, "int16")
    unknown_state_filters: list[str] = at(0, ["string"])
    transaction_states: list[ListTransactionsResponse.TransactionState] = at(0, ["TransactionState"])


class ListTransactionsRequest(Request[ListTransactionsResponse], key=66, versions=(0, 2)):
    """Asks ListTransactions."""

    state_filters: list[str] = at(0, ["string"])
    producer_id_filters: list[int] = at(0, ["int64"])
    duration_filter: int = at(1, "int64", default=-1)
    transactional_id_pattern: str | None = at(2, "string", null=2, default=None)
