"""OffsetCommit, 2-10: store the offsets of a group; answered when they are committed in the log.

Only the current generation's members commit, or anybody to a group without members (generation -1). Partitions that are
not there are refused one by one. Retention of the request's own: 2 to 4 (KIP-211). Instance ids from 7 (KIP-345),
GROUP_ID_NOT_FOUND from 9, topics by id from 10 (KIP-848).
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Generator, Sequence

from moldau.broker.groups.coordinator import Answering
from moldau.broker.loop import Pace, at_once_or_in_slices
from moldau.broker.network.context import Context
from moldau.broker.services import BrokerServices
from moldau.groups.facts import Commit, CommitItem, CommitReply
from moldau.model import Code
from moldau.wire.messages.k08_offset_commit import OffsetCommitRequest, OffsetCommitResponse
from moldau.wire.schema import Message

KEY = 8
Topic = OffsetCommitResponse.OffsetCommitResponseTopic
Partition = OffsetCommitResponse.OffsetCommitResponsePartition


def handle(node: BrokerServices, request: OffsetCommitRequest, context: Context) -> Answering:
    """Put what can be committed to the group, a slice in each turn of the loop; fill the rest in at once."""
    begun = at_once_or_in_slices(node.world.tasks, _commit(node, request, context))
    return _finished(begun) if inspect.isawaitable(begun) else begun


async def _finished(begun: Awaitable[Answering]) -> Message:
    last = await begun
    return await last if inspect.isawaitable(last) else last


def _commit(node: BrokerServices, request: OffsetCommitRequest, context: Context) -> Generator[None, None, Answering]:
    """The answer, or a future of it. Each slice is a commit of its own, under the generation of then: items have codes
    of their own, and a group that moves on meanwhile takes what came before."""
    answer, image, pace = OffsetCommitResponse(), node.metadata.image, Pace(node.world.step)
    unknown = Code.UNKNOWN_TOPIC_ID if context.api_version >= 10 else Code.UNKNOWN_TOPIC_OR_PARTITION
    commits: list[Answering] = []
    items: list[CommitItem] = []
    slots: list[Partition] = []
    for topic in request.topics:
        known = image.topics.get(topic.topic_id) if context.api_version >= 10 else image.topic(topic.name)
        shown = Topic(name=topic.name, topic_id=topic.topic_id)
        answer.topics.append(shown)
        for asked in topic.partitions:
            slot = Partition(partition_index=asked.partition_index, error_code=unknown)
            shown.partitions.append(slot)
            if known is None:
                pass
            elif asked.partition_index not in known.partitions:
                slot.error_code = Code.UNKNOWN_TOPIC_OR_PARTITION
            else:
                slots.append(slot)
                items.append(_item(known.name, asked))
            if pace.spent(1):
                if items:
                    commits.append(_put(node, request, context, items, slots))
                    items, slots = [], []
                yield
    if items:
        commits.append(_put(node, request, context, items, slots))
    waits = [one for one in commits if inspect.isawaitable(one)]
    return _all_of(waits, answer) if waits else answer


async def _all_of(waits: list[Awaitable[Message]], answer: OffsetCommitResponse) -> OffsetCommitResponse:
    for one in waits:
        await one
    return answer


def _item(topic: str, asked: OffsetCommitRequest.OffsetCommitRequestPartition) -> CommitItem:
    return CommitItem(
        topic,
        asked.partition_index,
        asked.committed_offset,
        asked.committed_leader_epoch,
        asked.committed_metadata or "",
    )


def _put(
    node: BrokerServices,
    request: OffsetCommitRequest,
    context: Context,
    items: list[CommitItem],
    slots: list[Partition],
) -> Answering:
    """Commit some; their codes are in ``slots`` when what is returned is done."""

    def finish(replies: Sequence[CommitReply]) -> OffsetCommitResponse:
        for slot, code in zip(slots, replies[0].codes, strict=True):
            slot.error_code = code
        return OffsetCommitResponse()

    ask = Commit(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        tuple(items),
        None if request.retention_time_ms < 0 else request.retention_time_ms,
        Code.GROUP_ID_NOT_FOUND if context.api_version >= 9 else Code.ILLEGAL_GENERATION,
    )
    return node.coordinator.ask([ask], finish)
