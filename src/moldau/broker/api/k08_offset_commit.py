"""OffsetCommit, 2-10: store the offsets of a group; answered when they are committed in the log.

Only the current generation's members commit, or anybody to a group without members (generation -1). Topics that are not
there are refused one by one. Retention of the request's own: 2 to 4 (KIP-211). Instance ids from 7 (KIP-345),
GROUP_ID_NOT_FOUND from 9, topics by id from 10 (KIP-848).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moldau.broker.coordinator import Answering
from moldau.groups.facts import Commit, CommitItem, CommitReply
from moldau.terms import Code
from moldau.wire.messages.k08_offset_commit import OffsetCommitRequest, OffsetCommitResponse

KEY = 8
Topic = OffsetCommitResponse.OffsetCommitResponseTopic
Partition = OffsetCommitResponse.OffsetCommitResponsePartition


def handle(node: Any, request: OffsetCommitRequest, context: Any) -> Answering:
    """Put what can be committed to the group; fill the rest in at once."""
    image, by_id = node.metadata.image, context.api_version >= 10
    answer = OffsetCommitResponse()
    items: list[CommitItem] = []
    slots: list[Partition] = []
    for topic in request.topics:
        known = image.topics.get(topic.topic_id) if by_id else image.topic(topic.name)
        unknown = Code.UNKNOWN_TOPIC_ID if by_id else Code.UNKNOWN_TOPIC_OR_PARTITION
        shown = Topic(name=topic.name, topic_id=topic.topic_id)
        answer.topics.append(shown)
        for asked in topic.partitions:
            slot = Partition(partition_index=asked.partition_index, error_code=unknown)
            shown.partitions.append(slot)
            if known is not None:
                slots.append(slot)
                items.append(
                    CommitItem(
                        known.name,
                        asked.partition_index,
                        asked.committed_offset,
                        asked.committed_leader_epoch,
                        asked.committed_metadata or "",
                    )
                )
    if not items:
        return answer

    def finish(replies: Sequence[CommitReply]) -> OffsetCommitResponse:
        for slot, code in zip(slots, replies[0].codes, strict=True):
            slot.error_code = code
        return answer

    ask = Commit(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        tuple(items),
        None if request.retention_time_ms < 0 else request.retention_time_ms,
        Code.GROUP_ID_NOT_FOUND if context.api_version >= 9 else Code.ILLEGAL_GENERATION,
    )
    return node.coordinator.ask([ask], finish)  # type: ignore[no-any-return]
