"""UnregisterBroker, 0: forget a broker for good (KIP-631)."""

from __future__ import annotations

from moldau.broker.api.forwarding import forward
from moldau.broker.network.requests import RequestContext
from moldau.broker.services import ControllerServices
from moldau.controller import requests
from moldau.wire.messages.k64_unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

handle = forward


async def control(
    node: ControllerServices, request: UnregisterBrokerRequest, context: RequestContext
) -> UnregisterBrokerResponse:
    """The controller's reply as a response, once what it decided is committed."""
    reply = await node.controller.submit(requests.UnregisterBroker(broker_id=request.broker_id))
    return UnregisterBrokerResponse(error_code=reply.code, error_message=reply.message)
