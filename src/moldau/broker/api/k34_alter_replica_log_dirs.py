"""AlterReplicaLogDirs, 1-2: move replicas of this broker to other log directories, or say where they will go (KIP-113).

Each partition has its own answer: LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR while a directory is offline,
REPLICA_NOT_AVAILABLE for one that is not here yet (it is remembered), INVALID_REQUEST for one that is named twice. A
move goes on after the answer; DescribeLogDirs shows its copy as a future replica. See
``broker/replicas/alter_log_dirs.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Generator

from moldau.broker.loop import at_once_or_in_slices, by_topic_in_slices, each_in_slices
from moldau.broker.network.context import Context
from moldau.broker.services import BrokerServices
from moldau.model import Code, TopicPartition
from moldau.wire.messages.k34_alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse

Answer = AlterReplicaLogDirsResponse


def handle(
    node: BrokerServices,
    request: AlterReplicaLogDirsRequest,
    context: Context,
) -> Answer | Awaitable[Answer]:
    """Begin every move that can begin, some in each turn of the loop."""
    return at_once_or_in_slices(node.world.tasks, _begin(node, request))


def _begin(
    node: BrokerServices,
    request: AlterReplicaLogDirsRequest,
) -> Generator[None, None, Answer]:
    named = (
        (TopicPartition(topic.name, number), dir.path)
        for dir in request.dirs
        for topic in dir.topics
        for number in topic.partitions
    )
    asked: list[tuple[TopicPartition, str]] = yield from each_in_slices(node, named, lambda one: one)
    times = Counter(partition for partition, _ in asked)

    def begin(one: tuple[TopicPartition, str]) -> tuple[str, int, Code]:
        partition, path = one
        code = Code.INVALID_REQUEST if times[partition] > 1 else node.replicas.alter_log_dirs.alter(partition, path)
        return partition.topic, partition.partition, code

    codes = yield from each_in_slices(node, dict(asked).items(), begin)
    found = yield from by_topic_in_slices(node, codes, _partition)
    return Answer(results=(yield from each_in_slices(node, found.items(), lambda one: _topic(*one))))


def _partition(number: int, code: Code) -> Answer.AlterReplicaLogDirPartitionResult:
    return Answer.AlterReplicaLogDirPartitionResult(partition_index=number, error_code=code)


def _topic(name: str, found: list[Answer.AlterReplicaLogDirPartitionResult]) -> Answer.AlterReplicaLogDirTopicResult:
    return Answer.AlterReplicaLogDirTopicResult(topic_name=name, partitions=found)
