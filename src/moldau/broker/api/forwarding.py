"""Passing requests on to the active controller (KIP-590), and small translations that several request files share."""

from __future__ import annotations

import logging

from moldau.broker.api.refusing import refused_as_a_whole
from moldau.broker.network.peers import PassedOn
from moldau.broker.network.requests import RequestContext
from moldau.broker.quotas.nodes import is_node, passed_on_as
from moldau.broker.services import BrokerServices, NodeServices
from moldau.controller.replies import Refused
from moldau.model import Code
from moldau.wire.apis import APIS
from moldau.wire.schema import Message, Request, ResponseT

log = logging.getLogger(__name__)


MUTATING = frozenset({19, 20, 37})
"""What the controller counts by client: topics created and deleted, partitions created (KIP-599)."""
PATIENCE_MS = 30_000


async def forward(node: BrokerServices, request: Request[ResponseT], context: RequestContext) -> ResponseT:
    """The controller's answer, as it is; REQUEST_TIMED_OUT, as Kafka's brokers say, when none answered in time.

    What a node has passed on is passed on no further: in ZooKeeper mode, where controllers are brokers, it would
    go round among those who had just left the controller role, outlive who asked, and multiply.
    """
    if is_node(context.client_id) and node.config.on_zookeeper and node.plane.leader[0] != node.config.node_id:
        return await refused_as_a_whole(node, request, context, Refused(Code.NOT_CONTROLLER))
    try:
        client = passed_on(node, context.client_id, context.api_version) if request.api_key in MUTATING else None
        return await node.controller_channel.send_with_retry(request, _patience(request), context.connection, client)
    except OSError as error:
        name = APIS[request.api_key].name
        if (more := node.controller_channel.unheard.more()) is not None:
            log.warning("no active controller answered %s of %s in time: %s%s", name, context.peer_host, error, more)
        message = f"No active controller answered in time: {error}"
        return await refused_as_a_whole(node, request, context, Refused(Code.REQUEST_TIMED_OUT, message))


def passed_on(
    node: NodeServices,
    client_id: str | None,
    version: int,
) -> PassedOn:
    """For whom a request is passed on."""
    hidden = node.config.on_zookeeper or is_node(client_id)  # Kafka's own controllers count by the plain name
    return PassedOn(passed_on_as(node.config.node_id, client_id) if hidden else client_id or "", version)


def _patience(request: Message) -> int:
    return max(getattr(request, "timeout_ms", 0), 0) or PATIENCE_MS


def whole(reply: object) -> tuple[Code, str | None] | None:
    """Code and words when the request as a whole was refused; None when items have their own."""
    return (reply.code, reply.message) if isinstance(reply, Refused) else None
