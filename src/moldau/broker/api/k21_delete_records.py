"""DeleteRecords, 0-2: move a partition's log start up; answered when every live replica has done so.

Offset -1 means the high watermark. Refused for compacted topics (POLICY_VIOLATION), internal topics and offsets that
are not committed. Followers learn the new start from their next fetch answer, and tell theirs with the fetch after.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator

from moldau.broker.api.k00_produce import INTERNAL
from moldau.broker.loop import Pace, at_once_or_in_slices
from moldau.broker.network.context import Context
from moldau.broker.purgatory import DelayedResponse
from moldau.broker.replicas.manager import ReplicaManager
from moldau.broker.replicas.replica import Replica
from moldau.broker.services import BrokerServices
from moldau.model import Code
from moldau.storage import LogError
from moldau.wire.messages.k21_delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from moldau.wire.schema import Message

TO_HIGH_WATERMARK = -1
Slot = DeleteRecordsResponse.DeleteRecordsPartitionResult
Deleted = tuple[DeleteRecordsResponse, list[tuple[Replica, int, Slot]]]


def handle(
    node: BrokerServices, request: DeleteRecordsRequest, context: Context
) -> DeleteRecordsResponse | Awaitable[Message | None]:
    """Delete here, some partitions in each turn of the loop, then wait for the followers."""
    deleted = at_once_or_in_slices(node.world.tasks, _delete_all(node, request))
    return _when_deleted(node, request, *deleted) if isinstance(deleted, tuple) else _wait(node, request, deleted)


async def _wait(node: BrokerServices, request: DeleteRecordsRequest, deleted: Awaitable[Deleted]) -> Message | None:
    answer = _when_deleted(node, request, *await deleted)
    return answer if isinstance(answer, DeleteRecordsResponse) else await answer


def _delete_all(node: BrokerServices, request: DeleteRecordsRequest) -> Generator[None, None, Deleted]:
    """The response, and what was deleted here."""
    replicas, pace = node.replicas, Pace(node.world.step)
    response = DeleteRecordsResponse()
    here: list[tuple[Replica, int, Slot]] = []
    for topic in request.topics:
        shown = DeleteRecordsResponse.DeleteRecordsTopicResult(name=topic.name)
        response.topics.append(shown)
        for part in topic.partitions:
            slot = Slot(partition_index=part.partition_index, low_watermark=-1)
            shown.partitions.append(slot)
            replica: Replica | Code = replicas.find(topic.name, part.partition_index)
            slot.error_code, offset = _delete(replicas, topic.name, replica, part.offset)
            if isinstance(replica, Replica) and slot.error_code == Code.NONE:
                here.append((replica, offset, slot))
            if pace.spent(1):
                yield
    return response, here


def _when_deleted(
    node: BrokerServices,
    request: DeleteRecordsRequest,
    response: DeleteRecordsResponse,
    here: list[tuple[Replica, int, Slot]],
) -> DeleteRecordsResponse | Awaitable[Message | None]:
    """The response, now or when all live replicas have deleted what was deleted here."""
    delayed: DelayedResponse | None = None
    for replica, offset, slot in here:
        slot.error_code = replica.machine.check_epoch(-1)  # leadership may have gone meanwhile
        if slot.error_code != Code.NONE:
            continue
        if replica.machine.low_watermark >= offset:
            slot.low_watermark = replica.machine.low_watermark
            continue
        if delayed is None:
            delayed = DelayedResponse(node.replicas.purgatory, response)
        delayed.expect(slot)
        replica.deletions.append((offset, delayed, slot))
    if delayed is None:
        return response
    node.replicas.purgatory.park(delayed, request.timeout_ms)
    return delayed.answer


def _delete(replicas: ReplicaManager, topic: str, replica: Replica | Code, offset: int) -> tuple[Code, int]:
    """Move the log start here; (code, the offset that was meant)."""
    if topic in INTERNAL:
        return Code.INVALID_TOPIC_EXCEPTION, -1
    if isinstance(replica, Code):
        return replica, -1
    code = replica.machine.check_epoch(-1)
    if code is not Code.NONE:
        return code, -1
    log = replica.log
    if not log.config.delete:
        return Code.POLICY_VIOLATION, -1
    if offset == TO_HIGH_WATERMARK:
        offset = replica.machine.high_watermark
    if not 0 <= offset <= replica.machine.high_watermark:
        return Code.OFFSET_OUT_OF_RANGE, -1
    before = log.log_start_offset
    try:
        code = log.advance_log_start(offset)
    except LogError as error:
        replicas.failed(error)
        return error.code, -1
    if log.log_start_offset != before:
        for asked in replica.followers:
            asked.notify(urgent=True)
    return code, offset
