"""AlterReplicaLogDirs, 1-2: move replicas of this broker to other log directories, or say where they will go (KIP-113).

Each partition has its own answer: LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR while a directory is offline,
REPLICA_NOT_AVAILABLE for one that is not here yet (it is remembered), INVALID_REQUEST for one that is named twice. A
move goes on after the answer; DescribeLogDirs shows its copy as a future replica. See ``broker/relocations.py``.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from moldau.broker.api.forwarding import by_topic
from moldau.terms import Code, TopicPartition
from moldau.wire.messages.k34_alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse

Answer = AlterReplicaLogDirsResponse


def handle(node: Any, request: AlterReplicaLogDirsRequest, context: Any) -> Answer:
    """Begin every move that can begin."""
    asked = [
        (TopicPartition(topic.name, number), dir.path)
        for dir in request.dirs
        for topic in dir.topics
        for number in topic.partitions
    ]
    times = Counter(partition for partition, _ in asked)
    codes: dict[TopicPartition, Code] = {}
    for partition, path in asked:
        if times[partition] > 1:
            codes[partition] = Code.INVALID_REQUEST
        else:
            codes[partition] = node.replicas.relocations.ask(partition, path)
    found = ((partition.topic, partition.partition, code) for partition, code in codes.items())
    return Answer(
        results=[
            Answer.AlterReplicaLogDirTopicResult(
                topic_name=topic,
                partitions=[
                    Answer.AlterReplicaLogDirPartitionResult(partition_index=number, error_code=code)
                    for number, code in parts
                ],
            )
            for topic, parts in by_topic(found).items()
        ]
    )
