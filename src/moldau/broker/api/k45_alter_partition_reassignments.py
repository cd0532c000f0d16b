"""AlterPartitionReassignments, 0-1: new replicas for partitions, or none to cancel the move under way (KIP-455)."""

from __future__ import annotations

from typing import Any

from moldau.broker.api.forwarding import by_topic, forward, whole
from moldau.controller import asks
from moldau.wire.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)

handle = forward
Answer = AlterPartitionReassignmentsResponse


async def control(node: Any, request: AlterPartitionReassignmentsRequest, context: Any) -> Answer:
    """Decide, partition by partition."""
    moves = tuple(
        asks.Move(topic=t.name, partition=p.partition_index, replicas=None if p.replicas is None else tuple(p.replicas))
        for t in request.topics
        for p in t.partitions
    )
    allowed = request.allow_replication_factor_change
    reply = await node.office.ask(
        asks.AlterPartitionReassignments(moves=moves, allow_replication_factor_change=allowed)
    )
    refused = whole(reply)
    if refused is not None:
        return Answer(error_code=refused[0], error_message=refused[1])
    return Answer(
        error_code=reply.code,
        error_message=reply.message,
        allow_replication_factor_change=allowed,
        responses=[
            Answer.ReassignableTopicResponse(
                name=topic,
                partitions=[
                    Answer.ReassignablePartitionResponse(partition_index=number, error_code=code, error_message=message)
                    for number, (code, message) in results
                ],
            )
            for topic, results in by_topic(reply.partitions).items()
        ],
    )
