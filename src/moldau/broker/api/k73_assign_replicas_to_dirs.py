"""AssignReplicasToDirs, 0, on controller listeners: a broker tells in which of its directories replicas lie (KIP-858).

Sent by ``broker/replicas/assignments.py``. A directory that is not among the broker's online ones is one that failed:
its replicas leave ISRs and leads.
"""

from __future__ import annotations

from moldau.broker.api.forwarding import whole
from moldau.broker.network.requests import RequestContext
from moldau.broker.services import ControllerServices
from moldau.controller import requests
from moldau.image.partition import Key
from moldau.model import Code
from moldau.wire.messages.k73_assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse

Answer = AssignReplicasToDirsResponse


async def control(node: ControllerServices, request: AssignReplicasToDirsRequest, context: RequestContext) -> Answer:
    """Have the controller decide replica by replica; the response comes once that is committed."""
    directories = {
        bytes(directory.id): tuple(
            (bytes(topic.topic_id), part.partition_index) for topic in directory.topics for part in topic.partitions
        )
        for directory in request.directories
    }
    reply = await node.controller.submit(
        requests.AssignReplicasToDirs(
            broker_id=request.broker_id, broker_epoch=request.broker_epoch, directories=directories
        )
    )
    refused = whole(reply)
    if refused is not None:
        return Answer(error_code=refused[0])
    codes: dict[tuple[bytes, Key], Code] = {(directory, key): code for directory, key, code in reply.partitions}
    return Answer(
        directories=[
            Answer.DirectoryData(
                id=directory.id,
                topics=[
                    Answer.TopicData(
                        topic_id=topic.topic_id,
                        partitions=[
                            Answer.PartitionData(
                                partition_index=part.partition_index,
                                error_code=codes[bytes(directory.id), (bytes(topic.topic_id), part.partition_index)],
                            )
                            for part in topic.partitions
                        ],
                    )
                    for topic in directory.topics
                ],
            )
            for directory in request.directories
        ]
    )
