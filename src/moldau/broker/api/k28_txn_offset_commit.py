"""TxnOffsetCommit, 0-5: offsets of a group that count once a producer's transaction is committed (KIP-98, KIP-447).

A broker of Apache Kafka coordinates the transaction, and is asked before the first offsets of one are written; from 5
on it is told of the group's partition (transaction.version 2). The group's own checks are those of OffsetCommit, but
that a member may commit while its group rebalances.
"""

from __future__ import annotations

import inspect
from collections.abc import Generator, Iterator

from moldau.broker.api.committing import RequestedPartition, commit
from moldau.broker.controller.topic_creation import OFFSETS
from moldau.broker.loop import Pace, run_in_slices
from moldau.broker.network.context import Context
from moldau.broker.replicas.replica import Replica
from moldau.broker.replicas.transactions import ABORTABLE_SINCE, TELLS_SINCE, ExaminedPartition, Producing
from moldau.broker.services import BrokerServices
from moldau.groups.facts import CommitItem, TransactionalWriter, TxnCommit
from moldau.model import Code
from moldau.storage import LogError
from moldau.wire.messages.k28_txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from moldau.wire.schema import Message

Topic = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
Partition = TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition
PRODUCE_VERSIONS = {5: TELLS_SINCE, 4: ABORTABLE_SINCE}
"""The version of Produce whose client knows as much of transactions; before 4 an older one."""


async def handle(node: BrokerServices, request: TxnOffsetCommitRequest, context: Context) -> Message:
    """Have the coordinator of the transaction agree, then put the offsets to the group."""
    replica = node.replicas.find(OFFSETS, node.coordinator.partition_of(request.group_id))
    if isinstance(replica, Code):
        return await _refused(node, request, Code.NOT_COORDINATOR)
    transactions = node.replicas.transactions
    try:
        known = replica.log.producers.get(request.producer_id)
    except LogError:
        return await _refused(node, request, Code.NOT_COORDINATOR)
    if known is not None and known.txn_first_offset >= 0 and known.epoch == request.producer_epoch:
        return await _put(node, request)
    begun = [transactions.begin(replica, request.producer_id)]
    try:
        code = await _permitted(node, request, replica, context.api_version, begun)
        if code is Code.NONE:
            code = transactions.holds(replica, request.producer_id, begun[-1]).code
        if code is Code.NOT_LEADER_OR_FOLLOWER:
            code = Code.NOT_COORDINATOR
        return await (_put(node, request) if code is Code.NONE else _refused(node, request, code))
    finally:
        transactions.end(replica, request.producer_id)


async def _permitted(
    node: BrokerServices,
    request: TxnOffsetCommitRequest,
    replica: Replica,
    version: int,
    begun: list[ExaminedPartition],
) -> Code:
    """What the coordinator says; the last of ``begun`` is how the partition was when it was asked."""
    produce = PRODUCE_VERSIONS.get(version, ABORTABLE_SINCE - 1)
    who = Producing(request.transactional_id, request.producer_id, request.producer_epoch, produce)
    transactions = node.replicas.transactions
    found = await transactions.add_or_verify(
        who, [replica.partition], lambda: begun.append(transactions.renewed(replica, request.producer_id))
    )
    code = found[replica.partition].code
    # That is what tells a consumer's client to try again.
    return Code.COORDINATOR_LOAD_IN_PROGRESS if code is Code.NOT_ENOUGH_REPLICAS else code


async def _put(node: BrokerServices, request: TxnOffsetCommitRequest) -> Message:
    answer = TxnOffsetCommitResponse()
    producer = TransactionalWriter(request.producer_id, request.producer_epoch)

    def request_of(items: tuple[CommitItem, ...]) -> TxnCommit:
        return TxnCommit(
            request.group_id, request.member_id, request.group_instance_id, request.generation_id, items, producer
        )

    done = commit(node, answer, _asked(node, request, answer), request_of)
    return await done if inspect.isawaitable(done) else done


def _asked(
    node: BrokerServices, request: TxnOffsetCommitRequest, answer: TxnOffsetCommitResponse
) -> Iterator[RequestedPartition]:
    """The request's partitions, each with its place in the answer."""
    for topic in request.topics:
        known = node.metadata.image.topic(topic.name)
        shown = Topic(name=topic.name)
        answer.topics.append(shown)
        for asked in topic.partitions:
            slot = Partition(partition_index=asked.partition_index, error_code=Code.UNKNOWN_TOPIC_OR_PARTITION)
            shown.partitions.append(slot)
            yield RequestedPartition(known, asked, slot)


async def _refused(node: BrokerServices, request: TxnOffsetCommitRequest, code: Code) -> Message:
    return await run_in_slices(node.world.tasks, _refuse(request, code, Pace(node.world.step)))


def _refuse(request: TxnOffsetCommitRequest, code: Code, pace: Pace) -> Generator[None, None, TxnOffsetCommitResponse]:
    """The answer that has this code for all partitions, with pauses."""
    answer = TxnOffsetCommitResponse()
    for topic in request.topics:
        shown = Topic(name=topic.name)
        answer.topics.append(shown)
        if pace.spent(1):
            yield
        for one in topic.partitions:
            shown.partitions.append(Partition(partition_index=one.partition_index, error_code=code))
            if pace.spent(1):
                yield
    return answer
