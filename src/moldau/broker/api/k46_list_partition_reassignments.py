"""ListPartitionReassignments, 0: moves under way, all of them or of the partitions named (KIP-455)."""

from __future__ import annotations

from typing import Any

from moldau.broker.api.forwarding import by_topic, forward, whole
from moldau.controller import asks
from moldau.wire.messages.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

handle = forward
Answer = ListPartitionReassignmentsResponse


async def control(node: Any, request: ListPartitionReassignmentsRequest, context: Any) -> Answer:
    """Read the controller's image."""
    partitions = None
    if request.topics is not None:
        partitions = tuple((topic.name, number) for topic in request.topics for number in topic.partition_indexes)
    reply = await node.office.ask(asks.ListPartitionReassignments(partitions=partitions))
    refused = whole(reply)
    if refused is not None:
        return Answer(error_code=refused[0], error_message=refused[1])
    return Answer(
        topics=[
            Answer.OngoingTopicReassignment(
                name=topic,
                partitions=[
                    Answer.OngoingPartitionReassignment(
                        partition_index=partition.id,
                        replicas=list(partition.replicas),
                        adding_replicas=list(partition.adding),
                        removing_replicas=list(partition.removing),
                    )
                    for (partition,) in found
                ],
            )
            for topic, found in by_topic(reply.partitions).items()
        ]
    )
