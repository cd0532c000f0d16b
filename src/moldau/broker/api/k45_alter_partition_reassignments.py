"""AlterPartitionReassignments, 0-1: new replicas for partitions, or none to cancel the move under way (KIP-455)."""

from __future__ import annotations

from moldau.broker.api.forwarding import forward, whole
from moldau.broker.loop import by_topic, each
from moldau.broker.network.requests import RequestContext
from moldau.broker.services import ControllerServices
from moldau.controller import requests
from moldau.controller.facts import Problem
from moldau.wire.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)

handle = forward
Answer = AlterPartitionReassignmentsResponse


async def control(
    node: ControllerServices, request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> Answer:
    """Have the controller decide partition by partition; the response comes once that is committed."""
    named = ((topic.name, partition) for topic in request.topics for partition in topic.partitions)
    moves = tuple(await each(node, named, lambda one: _move(*one)))
    allowed = request.allow_replication_factor_change
    reply = await node.controller.submit(
        requests.AlterPartitionReassignments(moves=moves, allow_replication_factor_change=allowed)
    )
    refused = whole(reply)
    if refused is not None:
        return Answer(error_code=refused[0], error_message=refused[1])
    results = await by_topic(node, reply.partitions, _partition)
    return Answer(
        error_code=reply.code,
        error_message=reply.message,
        allow_replication_factor_change=allowed,
        responses=await each(node, results.items(), lambda one: _topic(*one)),
    )


def _move(topic: str, partition: AlterPartitionReassignmentsRequest.ReassignablePartition) -> requests.Move:
    replicas = None if partition.replicas is None else tuple(partition.replicas)
    return requests.Move(topic=topic, partition=partition.partition_index, replicas=replicas)


def _partition(number: int, problem: Problem) -> Answer.ReassignablePartitionResponse:
    return Answer.ReassignablePartitionResponse(
        partition_index=number, error_code=problem.code, error_message=problem.message
    )


def _topic(name: str, found: list[Answer.ReassignablePartitionResponse]) -> Answer.ReassignableTopicResponse:
    return Answer.ReassignableTopicResponse(name=name, partitions=found)
