"""Offsets to be committed, out of a request and into a group, a slice in each turn of the loop.

What OffsetCommit and TxnOffsetCommit have in common: partitions that are not there are refused one by one, the others
are put to the group under the group request that the request makes of them. Each slice is a commit of its own, under
the generation of then: items have codes of their own, and a group that moves on meanwhile takes what came before.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence

from moldau.broker.groups.coordinator import Answering
from moldau.broker.loop import Pace, at_once_or_in_slices
from moldau.broker.services import BrokerServices
from moldau.groups.facts import CommitItem, CommitReply, GroupRequest
from moldau.image import Topic
from moldau.model import Code
from moldau.model.named import NamedTuple
from moldau.model.protocol import Protocol
from moldau.wire.schema import Message


class AskedPartition(Protocol):
    """A partition in such a request."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str | None


class ResponsePartition(Protocol):
    """A partition in the answer."""

    error_code: int


class RequestedPartition(NamedTuple):
    """A partition that is asked about: the topic as the metadata know it, and its place in the answer, which says that
    there is no such topic."""

    known: Topic | None
    partition: AskedPartition
    slot: ResponsePartition


RequestOf = Callable[[tuple[CommitItem, ...]], GroupRequest]


def commit(
    node: BrokerServices, answer: Message, asked: Iterable[RequestedPartition], request_of: RequestOf
) -> Answering:
    """Put what can be committed to the group; ``answer``, or a future of it, is complete then."""
    begun = at_once_or_in_slices(node.world.tasks, _commit(node, answer, asked, request_of))
    return _finished(begun) if inspect.isawaitable(begun) else begun


async def _finished(begun: Awaitable[Answering]) -> Message:
    last = await begun
    return await last if inspect.isawaitable(last) else last


def _commit(
    node: BrokerServices, answer: Message, asked: Iterable[RequestedPartition], request_of: RequestOf
) -> Generator[None, None, Answering]:
    pace = Pace(node.world.step)
    commits: list[Answering] = []
    items: list[CommitItem] = []
    slots: list[ResponsePartition] = []
    for known, partition, slot in asked:
        if known is not None and partition.partition_index in known.partitions:
            slots.append(slot)
            items.append(_item(known.name, partition))
        elif known is not None:
            slot.error_code = Code.UNKNOWN_TOPIC_OR_PARTITION
        if pace.spent(1):
            if items:
                commits.append(_put(node, answer, request_of(tuple(items)), slots))
                items, slots = [], []
            yield
    if items:
        commits.append(_put(node, answer, request_of(tuple(items)), slots))
    waits = [one for one in commits if inspect.isawaitable(one)]
    return _all_of(waits, answer) if waits else answer


async def _all_of(waits: list[Awaitable[Message]], answer: Message) -> Message:
    for one in waits:
        await one
    return answer


def _item(topic: str, asked: AskedPartition) -> CommitItem:
    return CommitItem(
        topic,
        asked.partition_index,
        asked.committed_offset,
        asked.committed_leader_epoch,
        asked.committed_metadata or "",
    )


def _put(
    node: BrokerServices, answer: Message, group_request: GroupRequest, slots: list[ResponsePartition]
) -> Answering:
    """Commit some; their codes are in ``slots`` when what is returned is done."""

    def finish(replies: Sequence[CommitReply]) -> Message:
        for slot, code in zip(slots, replies[0].codes, strict=True):
            slot.error_code = code
        return answer

    return node.coordinator.submit([group_request], finish)
