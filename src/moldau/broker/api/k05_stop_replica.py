"""StopReplica, 0-4, on a broker in ZooKeeper mode: replicas that are deleted here, with topic or without.

Refused as a whole with STALE_CONTROLLER_EPOCH or STALE_BROKER_EPOCH; FENCED_LEADER_EPOCH for a partition that has a
newer leader epoch (KIP-570).
"""

from __future__ import annotations

from moldau.broker.network.context import Context
from moldau.broker.services import ZooKeeperServices
from moldau.wire.messages.k05_stop_replica import StopReplicaRequest, StopReplicaResponse


async def handle(node: ZooKeeperServices, request: StopReplicaRequest, context: Context) -> StopReplicaResponse:
    """Act on it; the answer comes when the replicas are gone."""
    code, outcomes = await node.plane.controller_requests.stop_replica(request, context.correlation_id)
    return StopReplicaResponse(
        error_code=code,
        partition_errors=[
            StopReplicaResponse.StopReplicaPartitionError(
                topic_name=one.topic, partition_index=one.partition, error_code=one.code
            )
            for one in outcomes
        ],
    )
