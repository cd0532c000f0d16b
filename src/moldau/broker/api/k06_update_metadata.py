"""UpdateMetadata, 0-8, on a broker in ZooKeeper mode: live brokers, and partitions of the whole cluster.

Refused with STALE_CONTROLLER_EPOCH or STALE_BROKER_EPOCH. The list of brokers is always complete; partitions are those
that changed, or all with type FULL (version 8).
"""

from __future__ import annotations

from moldau.broker.network.context import Context
from moldau.broker.services import ZooKeeperServices
from moldau.wire.messages.k06_update_metadata import UpdateMetadataRequest, UpdateMetadataResponse


async def handle(node: ZooKeeperServices, request: UpdateMetadataRequest, context: Context) -> UpdateMetadataResponse:
    """Act on it; the answer comes when clients see it."""
    return UpdateMetadataResponse(
        error_code=await node.plane.controller_requests.update_metadata(request, context.correlation_id)
    )
