"""LeaderAndIsr, 0-7, on a broker in ZooKeeper mode: which of its partitions it leads or follows, and how.

Refused as a whole with STALE_CONTROLLER_EPOCH or STALE_BROKER_EPOCH. Per partition: STALE_CONTROLLER_EPOCH for an older
leader epoch, UNKNOWN_TOPIC_OR_PARTITION when this broker is no replica, KAFKA_STORAGE_ERROR when its directory failed.
"""

from __future__ import annotations

from moldau.broker.network.context import Context
from moldau.broker.services import ZooKeeperServices
from moldau.model import NO_UUID
from moldau.wire.messages.k04_leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse


async def handle(node: ZooKeeperServices, request: LeaderAndIsrRequest, context: Context) -> LeaderAndIsrResponse:
    """Act on it; the answer comes when roles have changed."""
    code, outcomes = await node.plane.controller_requests.leader_and_isr(request, context.correlation_id)
    answer = LeaderAndIsrResponse(error_code=code)
    error = LeaderAndIsrResponse.LeaderAndIsrPartitionError
    topics: dict[bytes, LeaderAndIsrResponse.LeaderAndIsrTopicError] = {}
    for outcome in outcomes:
        one = error(topic_name=outcome.topic, partition_index=outcome.partition, error_code=outcome.code)
        topic_id = outcome.topic_id
        if topic_id == NO_UUID or context.api_version < 5:
            answer.partition_errors.append(one)
        else:
            topic = topics.setdefault(topic_id, LeaderAndIsrResponse.LeaderAndIsrTopicError(topic_id=topic_id))
            topic.partition_errors.append(one)
    answer.topics = list(topics.values())
    return answer
