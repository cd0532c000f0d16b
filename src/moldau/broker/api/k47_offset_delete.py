"""OffsetDelete, 0: forget a group's offsets of topics that none of its members reads (KIP-496)."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from moldau.broker.groups.coordinator import Answering
from moldau.broker.loop import Pace
from moldau.broker.network.context import Context
from moldau.broker.services import BrokerServices
from moldau.groups.facts import DeleteOffsets, DeleteOffsetsReply
from moldau.model import Code, TopicPartition
from moldau.wire.messages.k47_offset_delete import OffsetDeleteRequest, OffsetDeleteResponse

KEY = 47
Topic = OffsetDeleteResponse.OffsetDeleteResponseTopic
Partition = OffsetDeleteResponse.OffsetDeleteResponsePartition


def handle(node: BrokerServices, request: OffsetDeleteRequest, context: Context) -> Generator[None, None, Answering]:
    """Put what may be deleted to the group; topics that are not there are refused one by one."""
    names = node.metadata.image.names
    topics: list[Topic] = []
    items: list[TopicPartition] = []
    slots: list[Partition] = []
    pace = Pace(node.world.step)
    for topic in request.topics:
        shown = Topic(name=topic.name)
        topics.append(shown)
        for asked in topic.partitions:
            slot = Partition(partition_index=asked.partition_index, error_code=Code.UNKNOWN_TOPIC_OR_PARTITION)
            shown.partitions.append(slot)
            if pace.spent(1):
                yield
            if topic.name in names:
                slots.append(slot)
                items.append(TopicPartition(topic.name, asked.partition_index))

    def finish(replies: Sequence[DeleteOffsetsReply]) -> OffsetDeleteResponse:
        code, codes = replies[0]
        if code is not Code.NONE:
            return OffsetDeleteResponse(error_code=code)
        for slot, one in zip(slots, codes, strict=True):
            slot.error_code = one
        return OffsetDeleteResponse(topics=topics)

    return node.coordinator.submit([DeleteOffsets(request.group_id, tuple(items))], finish)
