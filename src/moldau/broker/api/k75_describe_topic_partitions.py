"""DescribeTopicPartitions, 0: topics page by page, with the eligible leader replicas (KIP-966).

Topics in name order (all of them when none is named), partitions in number order, from the cursor on, at most
``response_partition_limit`` of them and never more than ``max.request.partition.size.limit``. A cursor says where the
next page begins.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator

from moldau.broker.api.k03_metadata import INTERNAL
from moldau.broker.api.operations import TOPIC_OPERATIONS
from moldau.broker.loop import Pace, at_once_or_in_slices
from moldau.broker.network.context import Context
from moldau.broker.services import BrokerServices
from moldau.image import Image, Partition
from moldau.model import Code
from moldau.wire.messages.k75_describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)

Shown = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic


def handle(
    node: BrokerServices, request: DescribeTopicPartitionsRequest, context: Context
) -> DescribeTopicPartitionsResponse | Awaitable[DescribeTopicPartitionsResponse]:
    """One page, some topics of it in each turn of the loop."""
    return at_once_or_in_slices(
        node.world.tasks, _page(node, request), read_kind=DescribeTopicPartitionsRequest.api_key
    )


def _page(
    node: BrokerServices, request: DescribeTopicPartitionsRequest
) -> Generator[None, None, DescribeTopicPartitionsResponse]:
    pace = Pace(node.world.step)
    image: Image = node.metadata.image
    names = sorted({topic.name for topic in request.topics} or image.names)
    first = 0
    if request.cursor is not None:
        names = [name for name in names if name >= request.cursor.topic_name]
        if names and names[0] == request.cursor.topic_name:
            first = max(request.cursor.partition_index, 0)
    limit = node.config["max.request.partition.size.limit"]
    room = min(request.response_partition_limit, limit) if request.response_partition_limit > 0 else limit
    live = {broker.id for broker in image.live_brokers()}
    answer = DescribeTopicPartitionsResponse()
    for name in names:
        if pace.spent(1):
            yield
        found = image.topic(name)
        if found is None:
            code = Code.UNKNOWN_TOPIC_OR_PARTITION
            answer.topics.append(Shown(error_code=code, name=name))
            first = 0
            continue
        topic = node.replicas.undecided.whole(found)
        numbers = [number for number in sorted(topic.partitions) if number >= first]
        first = 0
        answer.topics.append(
            Shown(
                name=name,
                topic_id=topic.id,
                is_internal=name in INTERNAL,
                partitions=[_partition(topic.partitions[number], live) for number in numbers[:room]],
                topic_authorized_operations=TOPIC_OPERATIONS,
            )
        )
        if len(numbers) > room:
            answer.next_cursor = DescribeTopicPartitionsResponse.Cursor(topic_name=name, partition_index=numbers[room])
            break
        room -= len(numbers)
    return answer


def _partition(
    partition: Partition, live: set[int]
) -> DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition:
    leads = partition.leader in live
    return DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition(
        error_code=Code.NONE if leads else Code.LEADER_NOT_AVAILABLE,
        partition_index=partition.id,
        leader_id=partition.leader if leads else -1,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.elr),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=[r for r in partition.replicas if r not in live],
    )
