"""AllocateProducerIds: request and response, every version.

Api key 67. Source: protocol guide.
What a broker does with it: moldau/broker/api.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Request, at


class AllocateProducerIdsResponse(Message, key=67, versions=(0, 0)):
    """Answers AllocateProducerIds."""

    throttle_time_ms: int = at(0, "int32")
    error_code: int = at(0, "int16")
    producer_id_start: int = at(0, "int64")
    producer_id_len: int = at(0, "int32")


class AllocateProducerIdsRequest(Request[AllocateProducerIdsResponse], key=67, versions=(0, 0)):
    """Asks AllocateProducerIds."""

    broker_id: int = at(0, "int32")
    broker_epoch: int = at(0, "int64", default=-1)
