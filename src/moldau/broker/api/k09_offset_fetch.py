"""OffsetFetch, 1-10: committed offsets of a group, by name or all; of several groups from 8 on (KIP-709).

All offsets from 2 on, ``require_stable`` from 7 (KIP-447), topics by id from 10 (KIP-848). Where nothing is committed
the offset is -1, and that is no error. A refusal stands beside each partition in 1, at the top in 2 to 7, beside
each group from 8. Member ids and epochs of 9 and later are for groups of the newer protocol and are not looked at.
Many partitions are looked up a slice in each turn of the loop, each slice as it is then. A group that is named twice is
answered once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Iterable, Iterator
from itertools import islice
from operator import itemgetter
from typing import TypeVar

from moldau.broker.loop import Pace, at_once_or_in_slices
from moldau.broker.network.context import Context
from moldau.broker.services import BrokerServices
from moldau.groups import weight
from moldau.groups.facts import FetchOffsets, FetchReply
from moldau.groups.records import StoredOffset
from moldau.image import Image
from moldau.model import Code, TopicPartition
from moldau.wire.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchResponse

KEY = 9
NAMED_AT_COST = 20
"""So many groups are looked through at the cost of a partition that is looked up."""
Group = OffsetFetchRequest.OffsetFetchRequestGroup
ShownGroup = OffsetFetchResponse.OffsetFetchResponseGroup
ShownTopics = OffsetFetchResponse.OffsetFetchResponseTopics
ShownTopic = OffsetFetchResponse.OffsetFetchResponseTopic
ShownPartition = OffsetFetchResponse.OffsetFetchResponsePartitions
OldPartition = OffsetFetchResponse.OffsetFetchResponsePartition
P = TypeVar("P", ShownPartition, OldPartition)
Found = tuple[Code, dict[str, list[P]]]
"""Code of the whole group, and what to show of each topic by name."""


def handle(
    node: BrokerServices, request: OffsetFetchRequest, context: Context
) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
    """Ask each group for its offsets."""
    work = _one_group if context.api_version < 8 else _groups
    return at_once_or_in_slices(
        node.world.tasks, work(node, request, context.api_version), read_kind=OffsetFetchRequest.api_key
    )


def _groups(
    node: BrokerServices, request: OffsetFetchRequest, version: int
) -> Generator[None, None, OffsetFetchResponse]:
    image, by_id, pace = node.metadata.image, version >= 10, Pace(node.world.step)
    answer = OffsetFetchResponse()
    groups = yield from _each_once(request.groups, Pace(node.world.step * NAMED_AT_COST))
    for group in groups:
        wanted = None if group.topics is None else _wanted(image, group, by_id)
        code, found = yield from _fetched(
            node, group.group_id, wanted, request.require_stable, pace, kind=ShownPartition
        )
        shown = ShownGroup(group_id=group.group_id, error_code=code)
        answer.groups.append(shown)
        if code is not Code.NONE and pace.spent(weight(group.group_id)):
            yield
        for name, partitions in found.items():
            id = image.names.get(name, bytes(16))
            if not by_id or id != bytes(16):  # else deleted since it was committed: it cannot be named any more
                shown.topics.append(ShownTopics(name=name, topic_id=id, partitions=partitions))
        if by_id and group.topics is not None and code is Code.NONE:
            for topic in group.topics:
                if topic.topic_id not in image.topics:
                    shown.topics.append(_unknown(topic))
                    if pace.spent(len(topic.partition_indexes)):
                        yield
    answer.groups.reverse()
    return answer


def _each_once(groups: list[Group], pace: Pace) -> Generator[None, None, Iterable[Group]]:
    """The groups from the last to the first, each as it is asked for first."""
    found: dict[str, Group] = {}
    for group in reversed(groups):
        found[group.group_id] = group
        if pace.spent(1):
            yield
    return found.values()


def _one_group(
    node: BrokerServices, request: OffsetFetchRequest, version: int
) -> Generator[None, None, OffsetFetchResponse]:
    def named() -> Iterator[TopicPartition]:
        for topic in request.topics or ():
            for index in topic.partition_indexes:
                yield TopicPartition(topic.name, index)

    pace = Pace(node.world.step)
    wanted = None if request.topics is None else named()
    code, found = yield from _fetched(node, request.group_id, wanted, request.require_stable, pace, kind=OldPartition)
    if code is not Code.NONE and version < 2:
        for where in named():
            found.setdefault(where.topic, []).append(_partition(where.partition, None, code, OldPartition))
            if pace.spent(1):
                yield
    topics = [ShownTopic(name=name, partitions=partitions) for name, partitions in found.items()]
    return OffsetFetchResponse(error_code=code, topics=topics)


def _wanted(image: Image, group: Group, by_id: bool) -> Iterator[TopicPartition]:
    for topic in group.topics or ():
        name = topic.name
        if by_id:
            known = image.topics.get(topic.topic_id)
            if known is None:
                continue
            name = known.name
        for index in topic.partition_indexes:
            yield TopicPartition(name, index)


def _fetched(
    node: BrokerServices,
    group_id: str,
    wanted: Iterable[TopicPartition] | None,
    stable: bool,
    pace: Pace,
    *,
    kind: type[P],
) -> Generator[None, None, Found[P]]:
    """Some partitions in each turn; those that are there first, where all are wanted."""
    shown: dict[str, list[P]] = {}
    reply: FetchReply = _submit(node, FetchOffsets(group_id, None if wanted is None else (), stable, pace.step))
    rest = iter(reply.rest if wanted is None else wanted)
    while reply.code is Code.NONE:
        for item in reply.items:
            partition = _partition(item.partition, item.stored, item.code, kind)
            shown.setdefault(item.topic, []).append(partition)
        if pace.spent(len(reply.items) + weight(group_id)):
            yield
        some = tuple(islice(rest, pace.step))
        if not some:
            return Code.NONE, shown
        reply = _submit(node, FetchOffsets(group_id, some, stable))
    return reply.code, {}


def _submit(node: BrokerServices, group_request: FetchOffsets) -> FetchReply:
    """Looking up what is in memory is answered at once."""
    reply: FetchReply | Awaitable[FetchReply] = node.coordinator.submit([group_request], itemgetter(0))
    assert not isinstance(reply, Awaitable), "what is in memory is looked up at once"
    return reply


def _unknown(topic: OffsetFetchRequest.OffsetFetchRequestTopics) -> ShownTopics:
    partitions = [_partition(index, None, Code.UNKNOWN_TOPIC_ID, ShownPartition) for index in topic.partition_indexes]
    return ShownTopics(topic_id=topic.topic_id, partitions=partitions)


def _partition(index: int, stored: StoredOffset | None, code: Code, kind: type[P]) -> P:
    if stored is None:
        return kind(partition_index=index, committed_offset=-1, metadata="", error_code=code)
    return kind(
        partition_index=index,
        committed_offset=stored.offset,
        committed_leader_epoch=stored.leader_epoch,
        metadata=stored.metadata,
        error_code=code,
    )
