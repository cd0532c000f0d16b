"""OffsetFetch, 1-10: committed offsets of a group, by name or all; of several groups from 8 on (KIP-709).

All offsets from 2 on, ``require_stable`` from 7 (KIP-447), topics by id from 10 (KIP-848). Where nothing is committed
the offset is -1, and that is no error. A refusal stands beside each partition in 1, at the top in 2 to 7, beside
each group from 8. Member ids and epochs of 9 and later are for groups of the newer protocol and are not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moldau.broker.api.forwarding import by_topic
from moldau.broker.coordinator import Answering
from moldau.groups.facts import FetchedOffset, FetchOffsets, FetchReply
from moldau.terms import Code, TopicPartition
from moldau.wire.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchResponse

KEY = 9
Group = OffsetFetchRequest.OffsetFetchRequestGroup
ShownGroup = OffsetFetchResponse.OffsetFetchResponseGroup
ShownTopics = OffsetFetchResponse.OffsetFetchResponseTopics
ShownTopic = OffsetFetchResponse.OffsetFetchResponseTopic
ShownPartition = OffsetFetchResponse.OffsetFetchResponsePartitions


def handle(node: Any, request: OffsetFetchRequest, context: Any) -> Answering:
    """One ask a group."""
    if context.api_version < 8:
        return _one_group(node, request, context.api_version)
    image, by_id = node.metadata.image, context.api_version >= 10
    asks = [
        FetchOffsets(group.group_id, _wanted(image, group, by_id), request.require_stable) for group in request.groups
    ]

    def finish(replies: Sequence[FetchReply]) -> OffsetFetchResponse:
        return OffsetFetchResponse(
            groups=[_shown(image, group, reply, by_id) for group, reply in zip(request.groups, replies, strict=True)]
        )

    return node.coordinator.ask(asks, finish)  # type: ignore[no-any-return]


def _wanted(image: Any, group: Group, by_id: bool) -> tuple[TopicPartition, ...] | None:
    if group.topics is None:
        return None
    wanted = []
    for topic in group.topics:
        name = topic.name
        if by_id:
            known = image.topics.get(topic.topic_id)
            if known is None:
                continue
            name = known.name
        wanted += [TopicPartition(name, index) for index in topic.partition_indexes]
    return tuple(wanted)


def _shown(image: Any, group: Group, reply: FetchReply, by_id: bool) -> ShownGroup:
    shown = ShownGroup(group_id=group.group_id, error_code=reply.code)
    if reply.code is not Code.NONE:
        return shown
    for name, rows in by_topic([(item.topic, item) for item in reply.items]).items():
        id = image.names.get(name, bytes(16))
        if by_id and id == bytes(16):
            continue  # deleted since it was committed: it cannot be named any more
        partitions = [_partition(item, ShownPartition) for (item,) in rows]
        shown.topics.append(ShownTopics(name=name, topic_id=id, partitions=partitions))
    if by_id and group.topics is not None:
        shown.topics += [_unknown(topic) for topic in group.topics if topic.topic_id not in image.topics]
    return shown


def _unknown(topic: OffsetFetchRequest.OffsetFetchRequestTopics) -> ShownTopics:
    return ShownTopics(
        topic_id=topic.topic_id,
        partitions=[
            ShownPartition(partition_index=index, committed_offset=-1, metadata="", error_code=Code.UNKNOWN_TOPIC_ID)
            for index in topic.partition_indexes
        ],
    )


def _one_group(node: Any, request: OffsetFetchRequest, version: int) -> Answering:
    wanted = None
    if request.topics is not None:
        wanted = tuple(
            TopicPartition(topic.name, index) for topic in request.topics for index in topic.partition_indexes
        )

    def finish(replies: Sequence[FetchReply]) -> OffsetFetchResponse:
        code, items = replies[0]
        answer = OffsetFetchResponse(error_code=code)
        if code is not Code.NONE and version < 2:
            items = tuple(FetchedOffset(where.topic, where.partition, None, code) for where in wanted or ())
        for name, rows in by_topic([(item.topic, item) for item in items]).items():
            partitions = [_partition(item, OffsetFetchResponse.OffsetFetchResponsePartition) for (item,) in rows]
            answer.topics.append(ShownTopic(name=name, partitions=partitions))
        return answer

    ask = FetchOffsets(request.group_id, wanted, request.require_stable)
    return node.coordinator.ask([ask], finish)  # type: ignore[no-any-return]


def _partition(item: FetchedOffset, kind: Any) -> Any:
    stored = item.stored
    if stored is None:
        return kind(partition_index=item.partition, committed_offset=-1, metadata="", error_code=item.code)
    return kind(
        partition_index=item.partition,
        committed_offset=stored.offset,
        committed_leader_epoch=stored.leader_epoch,
        metadata=stored.metadata,
        error_code=item.code,
    )
