"""InitProducerId: request and response, every version.

Api key 22. Source: protocol guide; KIP-98, KIP-360.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, at


class InitProducerIdResponse(Message, key=22, versions=(0, 6), flexible=2):
    """Answers InitProducerId."""

    throttle_time_ms: int = at(0, "int32")
    error_code: int = at(0, "int16")
    producer_id: int = at(0, "int64", default=-1)
    producer_epoch: int = at(0, "int16")
    ongoing_txn_producer_id: int = at(6, "int64", default=-1)
    ongoing_txn_producer_epoch: int = at(6, "int16", default=-1)


class InitProducerIdRequest(Request[InitProducerIdResponse], key=22, versions=(0, 6), flexible=2):
    """Asks InitProducerId."""

    transactional_id: str | None = at(0, "string", null=0)
    transaction_timeout_ms: int = at(0, "int32")
    producer_id: int = at(3, "int64", default=-1)
    producer_epoch: int = at(3, "int16", default=-1)
    enable2_pc: bool = at(6, "bool")
    keep_prepared_txn: bool = at(6, "bool")
