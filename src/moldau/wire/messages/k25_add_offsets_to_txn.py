"""AddOffsetsToTxn: request and response, every version.

Api key 25. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, at


class AddOffsetsToTxnResponse(Message, key=25, versions=(0, 4), flexible=3):
    """Answers AddOffsetsToTxn."""

    throttle_time_ms: int = at(0, "int32")
    error_code: int = at(0, "int16")


class AddOffsetsToTxnRequest(Request[AddOffsetsToTxnResponse], key=25, versions=(0, 4), flexible=3):
    """Asks AddOffsetsToTxn."""

    transactional_id: str = at(0, "string")
    producer_id: int = at(0, "int64")
    producer_epoch: int = at(0, "int16")
    group_id: str = at(0, "string")
