"""BrokerHeartbeat, 0-2, on controller listeners: a broker is alive, has read so far, wants to be unfenced
or to shut down (KIP-631, KIP-841, KIP-1066)."""

from __future__ import annotations

from moldau.broker.api.forwarding import whole
from moldau.broker.network.requests import RequestContext
from moldau.broker.services import ControllerServices
from moldau.controller import requests
from moldau.image.registration import dirs_of
from moldau.wire.messages.k63_broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse


async def control(
    node: ControllerServices, request: BrokerHeartbeatRequest, context: RequestContext
) -> BrokerHeartbeatResponse:
    """Have the controller fence, unfence or let go the broker; the response comes once that is committed."""
    reply = await node.controller.submit(
        requests.BrokerHeartbeat(
            broker_id=request.broker_id,
            broker_epoch=request.broker_epoch,
            metadata_offset=request.current_metadata_offset,
            want_fence=request.want_fence,
            want_shut_down=request.want_shut_down,
            offline_log_dirs=tuple(request.offline_log_dirs),
            cordoned_log_dirs=dirs_of(request.cordoned_log_dirs),
        )
    )
    refused = whole(reply)
    if refused is not None:
        return BrokerHeartbeatResponse(error_code=refused[0])
    node.controller.connection_is_of(context.connection, request.broker_id)
    return BrokerHeartbeatResponse(
        error_code=reply.code,
        is_caught_up=reply.is_caught_up,
        is_fenced=reply.is_fenced,
        should_shut_down=reply.should_shut_down,
    )
