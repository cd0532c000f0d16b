"""ControllerRegistration, 0, on controller listeners: a controller process presents itself (KIP-919).

Sent by every controller, the active one too (``broker/controller/registration.py``); the same again changes nothing.
"""

from __future__ import annotations

from moldau.broker.network.requests import RequestContext
from moldau.broker.services import ControllerServices
from moldau.controller import requests
from moldau.image.registration import endpoints_of, features_of
from moldau.wire.messages.k70_controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)


async def control(
    node: ControllerServices, request: ControllerRegistrationRequest, context: RequestContext
) -> ControllerRegistrationResponse:
    """The controller's reply as a response, once what it decided is committed."""
    reply = await node.controller.submit(
        requests.RegisterController(
            controller_id=request.controller_id,
            incarnation_id=bytes(request.incarnation_id),
            endpoints=endpoints_of(request.listeners),
            features=features_of(request.features),
            zk_migration_ready=request.zk_migration_ready,
        )
    )
    return ControllerRegistrationResponse(error_code=reply.code, error_message=reply.message)
