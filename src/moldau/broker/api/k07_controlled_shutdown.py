"""ControlledShutdown, 0-3, at an active controller: a broker in ZooKeeper mode asks leave to go.

Its leads move to others; the answer names what it still leads, or what others do not yet know of, so that it asks
again. STALE_BROKER_EPOCH from a broker that is not registered so, NOT_CONTROLLER elsewhere (KIP-380). In ZooKeeper mode
the epoch may be left out, as by brokers before 2.2; under a quorum nobody may send another broker away so.
"""

from __future__ import annotations

from moldau.broker.api.forwarding import whole
from moldau.broker.network.requests import RequestContext
from moldau.broker.services import ControllerServices
from moldau.controller import requests
from moldau.model import Code
from moldau.wire.messages.k07_controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse

Remaining = ControlledShutdownResponse.RemainingPartition


async def control(
    node: ControllerServices, request: ControlledShutdownRequest, context: RequestContext
) -> ControlledShutdownResponse:
    """The controller's reply as a response, once what it decided is committed."""
    known = node.metadata.image.brokers.get(request.broker_id)
    epoch = request.broker_epoch
    if epoch < 0 and known is not None and node.config.on_zookeeper:
        epoch = known.epoch  # versions before 2 do not say
    reply = await node.controller.submit(
        requests.BrokerHeartbeat(
            broker_id=request.broker_id, broker_epoch=epoch, metadata_offset=node.metadata.offset, want_shut_down=True
        )
    )
    refused = whole(reply)
    if refused is not None:
        return ControlledShutdownResponse(error_code=refused[0])
    if reply.should_shut_down:
        return ControlledShutdownResponse()
    image = node.metadata.image
    led = [
        Remaining(topic_name=image.topics[p.topic_id].name, partition_index=p.id)
        for p in image.partitions_led_by(request.broker_id)
        if len(p.replicas) > 1 or not node.config.on_zookeeper  # the only replica's leader is nobody's to take over
    ]
    # Nothing is led there any more, and some broker has not heard who leads instead: not yet.
    return ControlledShutdownResponse(error_code=Code.NONE if led else Code.REQUEST_TIMED_OUT, remaining_partitions=led)
