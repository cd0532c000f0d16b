"""EndTxn: request and response, every version.

Api key 26. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, at


class EndTxnResponse(Message, key=26, versions=(0, 5), flexible=3):
    """Answers EndTxn."""

    throttle_time_ms: int = at(0, "int32")
    error_code: int = at(0, "int16")
    producer_id: int = at(5, "int64", default=-1)
    producer_epoch: int = at(5, "int16", default=-1)


class EndTxnRequest(Request[EndTxnResponse], key=26, versions=(0, 5), flexible=3):
    """Asks EndTxn."""

    transactional_id: str = at(0, "string")
    producer_id: int = at(0, "int64")
    producer_epoch: int = at(0, "int16")
    committed: bool = at(0, "bool")
