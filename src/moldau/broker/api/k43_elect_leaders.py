"""ElectLeaders, 0-2: elect preferred leaders, or unclean ones where asked (1+, KIP-460); null asks for all that need
it."""

from __future__ import annotations

from typing import Any

from moldau.broker.api.forwarding import by_topic, forward, whole
from moldau.controller import asks
from moldau.wire.messages.k43_elect_leaders import ElectLeadersRequest, ElectLeadersResponse

handle = forward


async def control(node: Any, request: ElectLeadersRequest, context: Any) -> ElectLeadersResponse:
    """Decide, partition by partition."""
    partitions = None
    if request.topic_partitions is not None:
        partitions = tuple((topic.topic, number) for topic in request.topic_partitions for number in topic.partitions)
    reply = await node.office.ask(asks.ElectLeaders(election_type=request.election_type, partitions=partitions))
    refused = whole(reply)
    if refused is not None:
        return ElectLeadersResponse(error_code=refused[0])
    return ElectLeadersResponse(
        error_code=reply.code,
        replica_election_results=[
            ElectLeadersResponse.ReplicaElectionResult(
                topic=topic,
                partition_result=[
                    ElectLeadersResponse.PartitionResult(partition_id=number, error_code=code, error_message=message)
                    for number, (code, message) in results
                ],
            )
            for topic, results in by_topic(reply.partitions).items()
        ],
    )
