"""OffsetCommit, 2-10: store the offsets of a group; answered when they are committed in the log.

Only the current generation's members commit, or anybody to a group without members (generation -1). Partitions that are
not there are refused one by one. Retention of the request's own: 2 to 4 (KIP-211). Instance ids from 7 (KIP-345),
GROUP_ID_NOT_FOUND from 9, topics by id from 10 (KIP-848).
"""

from __future__ import annotations

from collections.abc import Iterator

from moldau.broker.api.committing import RequestedPartition, commit
from moldau.broker.groups.coordinator import Answering
from moldau.broker.network.context import Context
from moldau.broker.services import BrokerServices
from moldau.groups.facts import CommitItem, OffsetCommit
from moldau.model import Code
from moldau.wire.messages.k08_offset_commit import OffsetCommitRequest, OffsetCommitResponse

KEY = 8
Topic = OffsetCommitResponse.OffsetCommitResponseTopic
Partition = OffsetCommitResponse.OffsetCommitResponsePartition


def handle(node: BrokerServices, request: OffsetCommitRequest, context: Context) -> Answering:
    """Put what can be committed to the group, a slice in each turn of the loop; fill the rest in at once."""
    answer = OffsetCommitResponse()

    def request_of(items: tuple[CommitItem, ...]) -> OffsetCommit:
        return OffsetCommit(
            request.group_id,
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            items,
            None if request.retention_time_ms < 0 else request.retention_time_ms,
            Code.GROUP_ID_NOT_FOUND if context.api_version >= 9 else Code.ILLEGAL_GENERATION,
        )

    return commit(node, answer, _asked(node, request, answer, context.api_version), request_of)


def _asked(
    node: BrokerServices, request: OffsetCommitRequest, answer: OffsetCommitResponse, version: int
) -> Iterator[RequestedPartition]:
    """The request's partitions, each with its place in the answer."""
    image = node.metadata.image
    unknown = Code.UNKNOWN_TOPIC_ID if version >= 10 else Code.UNKNOWN_TOPIC_OR_PARTITION
    for topic in request.topics:
        known = image.topics.get(topic.topic_id) if version >= 10 else image.topic(topic.name)
        shown = Topic(name=topic.name, topic_id=topic.topic_id)
        answer.topics.append(shown)
        for asked in topic.partitions:
            slot = Partition(partition_index=asked.partition_index, error_code=unknown)
            shown.partitions.append(slot)
            yield RequestedPartition(known, asked, slot)
