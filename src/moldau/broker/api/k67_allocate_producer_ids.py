"""AllocateProducerIds, 0, on controller listeners: a block of producer ids for a broker (KIP-730)."""

from __future__ import annotations

from moldau.broker.api.forwarding import whole
from moldau.broker.network.requests import RequestContext
from moldau.broker.services import ControllerServices
from moldau.controller import requests
from moldau.wire.messages.k67_allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse


async def control(
    node: ControllerServices, request: AllocateProducerIdsRequest, context: RequestContext
) -> AllocateProducerIdsResponse:
    """Have the controller give the next block; the response comes once that is committed."""
    reply = await node.controller.submit(
        requests.AllocateProducerIds(broker_id=request.broker_id, broker_epoch=request.broker_epoch)
    )
    refused = whole(reply)
    if refused is not None:
        return AllocateProducerIdsResponse(error_code=refused[0])
    return AllocateProducerIdsResponse(
        error_code=reply.code, producer_id_start=reply.start, producer_id_len=reply.length
    )
