"""ElectLeaders, 0-2: elect preferred leaders, or unclean ones where asked (1+, KIP-460); null asks for all that need
it."""

from __future__ import annotations

from moldau.broker.api.forwarding import forward, whole
from moldau.broker.loop import by_topic, each
from moldau.broker.network.requests import RequestContext
from moldau.broker.services import ControllerServices
from moldau.controller import requests
from moldau.controller.facts import Problem
from moldau.wire.messages.k43_elect_leaders import ElectLeadersRequest, ElectLeadersResponse

handle = forward


async def control(
    node: ControllerServices, request: ElectLeadersRequest, context: RequestContext
) -> ElectLeadersResponse:
    """Have the controller decide partition by partition; the response comes once that is committed."""
    partitions = None
    if request.topic_partitions is not None:
        named = ((topic.topic, number) for topic in request.topic_partitions for number in topic.partitions)
        partitions = tuple(await each(node, named, lambda one: one))
    reply = await node.controller.submit(
        requests.ElectLeaders(election_type=request.election_type, partitions=partitions)
    )
    refused = whole(reply)
    if refused is not None:
        return ElectLeadersResponse(error_code=refused[0])
    results = await by_topic(node, reply.partitions, _partition)
    return ElectLeadersResponse(
        error_code=reply.code, replica_election_results=await each(node, results.items(), lambda one: _topic(*one))
    )


def _partition(number: int, problem: Problem) -> ElectLeadersResponse.PartitionResult:
    return ElectLeadersResponse.PartitionResult(
        partition_id=number, error_code=problem.code, error_message=problem.message
    )


def _topic(name: str, found: list[ElectLeadersResponse.PartitionResult]) -> ElectLeadersResponse.ReplicaElectionResult:
    return ElectLeadersResponse.ReplicaElectionResult(topic=name, partition_result=found)
