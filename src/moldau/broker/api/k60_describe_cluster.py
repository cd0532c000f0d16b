"""DescribeCluster, 0-2: brokers or controllers with their addresses, cluster id, controller (KIP-700, KIP-919,
KIP-1073).

A broker listener answers endpoint type 1 (brokers), a controller listener type 2 (controllers). Fenced brokers are
shown when asked for (version 2).
"""

from __future__ import annotations

from moldau.broker.api.operations import CLUSTER_OPERATIONS
from moldau.broker.network.context import Context
from moldau.broker.network.requests import RequestContext
from moldau.broker.services import BrokerServices, ControllerServices, NodeServices
from moldau.model import Code
from moldau.wire.messages.k60_describe_cluster import DescribeClusterRequest, DescribeClusterResponse

BROKERS, CONTROLLERS = 1, 2
KINDS = {BROKERS: "BROKER", CONTROLLERS: "CONTROLLER"}


def handle(node: BrokerServices, request: DescribeClusterRequest, context: Context) -> DescribeClusterResponse:
    """The brokers, at the addresses of the listener that was asked."""
    if (refusal := _refusal(request, context, BROKERS)) is not None:
        return refusal
    image = node.metadata.image
    answer = _answer(node, request, BROKERS)
    for broker in image.brokers.values():
        endpoint = broker.endpoint(context.listener)
        if endpoint is None or (broker.fenced and not request.include_fenced_brokers):
            continue
        answer.brokers.append(
            DescribeClusterResponse.DescribeClusterBroker(
                broker_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack, is_fenced=broker.fenced
            )
        )
    answer.controller_id = node.controller_shown([one.broker_id for one in answer.brokers if not one.is_fenced])
    return answer


def control(
    node: ControllerServices, request: DescribeClusterRequest, context: RequestContext
) -> DescribeClusterResponse:
    """The controllers."""
    if (refusal := _refusal(request, context, CONTROLLERS)) is not None:
        return refusal
    answer = _answer(node, request, CONTROLLERS)
    leader, _ = node.plane.leader
    answer.controller_id = -1 if leader is None else leader
    addresses = dict(node.voters())
    for id, controller in node.metadata.image.controllers.items():
        endpoint = next((e for e in controller.endpoints if e.name == context.listener), None)
        if endpoint is not None:  # as it registered itself (KIP-919): what it advertises, not what others were told
            addresses[id] = endpoint.host, endpoint.port
    answer.brokers = [
        DescribeClusterResponse.DescribeClusterBroker(broker_id=id, host=host, port=port)
        for id, (host, port) in sorted(addresses.items())
    ]
    return answer


def _refusal(request: DescribeClusterRequest, context: RequestContext, served: int) -> DescribeClusterResponse | None:
    """What is answered to who asks for the other kind; version 0 always asks for brokers, and knows no code for it."""
    asked = request.endpoint_type
    if asked == served:
        return None
    code, text = Code.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {asked}"
    if asked in KINDS:
        code = Code.MISMATCHED_ENDPOINT_TYPE
        text = f"The request was sent to an endpoint of type {KINDS[served]}"
        text += f", but we wanted an endpoint of type {KINDS[asked]}"
    if context.api_version == 0:
        code = Code.INVALID_REQUEST
    return DescribeClusterResponse(error_code=code, error_message=text, endpoint_type=served)


def _answer(node: NodeServices, request: DescribeClusterRequest, kind: int) -> DescribeClusterResponse:
    answer = DescribeClusterResponse(endpoint_type=kind, cluster_id=node.cluster_id)
    if request.include_cluster_authorized_operations:
        answer.cluster_authorized_operations = CLUSTER_OPERATIONS
    return answer
