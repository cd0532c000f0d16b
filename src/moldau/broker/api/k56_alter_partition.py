"""AlterPartition, 2-3, on controller listeners: leaders ask for ISR changes (KIP-497, KIP-841, KIP-903)."""

from __future__ import annotations

from moldau.broker.api.forwarding import whole
from moldau.broker.network.requests import RequestContext
from moldau.broker.services import ControllerServices
from moldau.controller import requests
from moldau.wire.messages.k56_alter_partition import AlterPartitionRequest, AlterPartitionResponse

Answer = AlterPartitionResponse


async def control(node: ControllerServices, request: AlterPartitionRequest, context: RequestContext) -> Answer:
    """Have the controller decide partition by partition, fenced by epochs (law C5); the response comes once that is
    committed."""
    changes = tuple(
        requests.IsrChange(
            key=(topic.topic_id, p.partition_index),
            leader_epoch=p.leader_epoch,
            partition_epoch=p.partition_epoch,
            isr=tuple((s.broker_id, s.broker_epoch) for s in p.new_isr_with_epochs)
            or tuple((b, -1) for b in p.new_isr),
            recovery=p.leader_recovery_state,
        )
        for topic in request.topics
        for p in topic.partitions
    )
    reply = await node.controller.submit(
        requests.AlterPartition(
            broker_id=request.broker_id, broker_epoch=request.broker_epoch, changes=changes, version=context.api_version
        )
    )
    refused = whole(reply)
    if refused is not None:
        return Answer(error_code=refused[0])
    topics: dict[bytes, list[Answer.PartitionData]] = {}
    for result in reply.partitions:
        data = Answer.PartitionData(partition_index=result.key[1], error_code=result.code)
        if result.partition is not None:
            now = result.partition
            data.leader_id = now.leader
            data.leader_epoch = now.leader_epoch
            data.isr = list(now.isr)
            data.leader_recovery_state = now.recovery
            data.partition_epoch = now.partition_epoch
        topics.setdefault(result.key[0], []).append(data)
    return Answer(
        error_code=reply.code, topics=[Answer.TopicData(topic_id=id, partitions=found) for id, found in topics.items()]
    )
