"""BrokerRegistration, 0-4, on controller listeners: a broker process presents itself (KIP-631).

Its connection stands for it from now on: when it breaks and the address refuses, the broker is fenced at once.
Another process under the id is taken in only when the one that is registered is silent, or proven dead (decision 24).
"""

from __future__ import annotations

from moldau.broker.api.forwarding import whole
from moldau.broker.network.requests import RequestContext
from moldau.broker.services import ControllerServices
from moldau.controller import requests
from moldau.image.registration import endpoints_of, features_of
from moldau.model import Code
from moldau.wire.messages.k62_broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse


async def control(
    node: ControllerServices, request: BrokerRegistrationRequest, context: RequestContext
) -> BrokerRegistrationResponse:
    """The response once the registration is committed. The broker epoch is the offset of its record, or ZooKeeper's in
    a migration (KIP-866)."""
    if request.is_migrating_zk_broker:
        if node.migration is None:
            return BrokerRegistrationResponse(error_code=Code.BROKER_ID_NOT_REGISTERED)
        response: BrokerRegistrationResponse = await node.migration.mode.admit(request)
        if response.error_code == Code.NONE:
            node.controller.connection_is_of(context.connection, request.broker_id)
        return response
    endpoints = endpoints_of(request.listeners)
    known = node.metadata.image.brokers.get(request.broker_id)
    gone = await node.controller.predecessor_is_gone(request.broker_id)  # another process may be registered meanwhile
    reply = await node.controller.submit(
        requests.RegisterBroker(
            broker_id=request.broker_id,
            cluster_id=request.cluster_id,
            incarnation_id=request.incarnation_id,
            endpoints=endpoints,
            features=features_of(request.features),
            rack=request.rack,
            log_dirs=tuple(request.log_dirs),
            previous_broker_epoch=request.previous_broker_epoch,
            previous_is_gone=gone,
            gone_epoch=-1 if known is None else known.epoch,
        )
    )
    refused = whole(reply)
    if refused is not None:
        return BrokerRegistrationResponse(error_code=refused[0])
    if reply.code is Code.NONE:
        node.controller.connection_is_of(context.connection, request.broker_id)
    return BrokerRegistrationResponse(error_code=reply.code, broker_epoch=reply.broker_epoch)
