"""ListPartitionReassignments, 0: moves under way, all of them or of the partitions named (KIP-455).

By this request tools find out whether there is a controller. One that is cut off from ZooKeeper is none: its session
may have ended and another rule, and it decides nothing. Kafka's controller answers from memory, however long. A broker
that knows why there is none says so at once.
"""

from __future__ import annotations

from moldau.broker.api.forwarding import forward, whole
from moldau.broker.loop import by_topic, each
from moldau.broker.network.requests import RequestContext
from moldau.broker.services import BrokerServices, ControllerServices
from moldau.controller import requests
from moldau.image.partition import Partition
from moldau.model import Code
from moldau.wire.messages.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

Answer = ListPartitionReassignmentsResponse
NO_ZOOKEEPER = "ZooKeeper does not answer the controller."


async def handle(node: BrokerServices, request: ListPartitionReassignmentsRequest, context: RequestContext) -> Answer:
    """Ask the active controller, where there may be one."""
    if why := node.plane.why_no_controller:
        return Answer(error_code=Code.NOT_CONTROLLER, error_message=why)
    return await forward(node, request, context)


async def control(
    node: ControllerServices, request: ListPartitionReassignmentsRequest, context: RequestContext
) -> Answer:
    """Read the controller's image."""
    if node.plane.is_cut_off:
        return Answer(error_code=Code.NOT_CONTROLLER, error_message=NO_ZOOKEEPER)
    partitions: set[tuple[str, int]] | None = None
    if request.topics is not None:
        partitions = set()
        named = ((topic.name, number) for topic in request.topics for number in topic.partition_indexes)
        await each(node, named, partitions.add)
    reply = await node.controller.submit(requests.ListPartitionReassignments(partitions=partitions))
    refused = whole(reply)
    if refused is not None:
        return Answer(error_code=refused[0], error_message=refused[1])
    moving = await by_topic(node, reply.partitions, _partition)
    return Answer(topics=await each(node, moving.items(), lambda one: _topic(*one)))


def _partition(partition: Partition) -> Answer.OngoingPartitionReassignment:
    return Answer.OngoingPartitionReassignment(
        partition_index=partition.id,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.adding),
        removing_replicas=list(partition.removing),
    )


def _topic(name: str, found: list[Answer.OngoingPartitionReassignment]) -> Answer.OngoingTopicReassignment:
    return Answer.OngoingTopicReassignment(name=name, partitions=found)
