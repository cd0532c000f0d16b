"""ListOffsets, 1-11: the earliest, the latest, the newest by time, or the first record at or after a moment.

Timestamps -1 latest, -2 earliest, -3 the record with the largest timestamp, -4 earliest on local disk, -5 and -6 tiered
storage (which there is not: no offset). Consumers see up to the high watermark; a new leader whose watermark does not
cover its epoch's start yet says OFFSET_NOT_AVAILABLE rather than step back (KIP-207). Followers see the log's end.
"""

from __future__ import annotations

from typing import Any

from moldau.broker.replica import Replica
from moldau.storage import LogError
from moldau.terms import Code
from moldau.wire.messages.k02_list_offsets import ListOffsetsRequest, ListOffsetsResponse

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -1, -2, -3, -4, -5, -6
_SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING: 11}
DEBUGGING = -2
"""The replica id of tools that look at any replica."""
Slot = ListOffsetsResponse.ListOffsetsPartitionResponse
_NOWHERE = (-1, -1, -1)


def handle(node: Any, request: ListOffsetsRequest, context: Any) -> ListOffsetsResponse:
    """Look up; nothing waits."""
    response = ListOffsetsResponse()
    seen: set[tuple[str, int]] = set()
    twice: set[tuple[str, int]] = set()
    for topic in request.topics:
        for part in topic.partitions:
            key = (topic.name, part.partition_index)
            (twice if key in seen else seen).add(key)
    for topic in request.topics:
        shown = ListOffsetsResponse.ListOffsetsTopicResponse(name=topic.name)
        response.topics.append(shown)
        for part in topic.partitions:
            slot = Slot(partition_index=part.partition_index)
            shown.partitions.append(slot)
            if (topic.name, part.partition_index) in twice:
                slot.error_code = Code.INVALID_REQUEST
                continue
            code, (slot.timestamp, slot.offset, slot.leader_epoch) = _look_up(
                node, topic.name, part, request.replica_id, context.api_version
            )
            slot.error_code = code
    return response


def _look_up(
    node: Any, topic: str, part: ListOffsetsRequest.ListOffsetsPartition, replica_id: int, version: int
) -> tuple[Code, tuple[int, int, int]]:
    replica: Replica | Code = node.replicas.find(topic, part.partition_index)
    if isinstance(replica, Code):
        return replica, _NOWHERE
    code = replica.machine.check_epoch(part.current_leader_epoch, leader_only=replica_id != DEBUGGING)
    if code is not Code.NONE:
        return code, _NOWHERE
    if part.timestamp < EARLIEST_PENDING or version < _SINCE.get(part.timestamp, 0):
        return Code.UNSUPPORTED_VERSION, _NOWHERE
    try:
        code, found = _offset(replica, part.timestamp, follower=replica_id >= 0)
    except LogError as error:
        node.replicas.failed(error)
        return error.code, _NOWHERE
    if code is Code.OFFSET_NOT_AVAILABLE and version < 5:
        code = Code.LEADER_NOT_AVAILABLE
    return code, found


def _offset(replica: Replica, timestamp: int, *, follower: bool) -> tuple[Code, tuple[int, int, int]]:
    log, machine = replica.log, replica.machine
    end = log.log_end_offset if follower else machine.latest()
    if timestamp == LATEST:
        if end is None:
            return Code.OFFSET_NOT_AVAILABLE, _NOWHERE
        return Code.NONE, (-1, end, machine.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return Code.NONE, (-1, log.log_start_offset, log.epochs.epoch_at(log.log_start_offset))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING):
        return Code.NONE, _NOWHERE
    found = log.offset_of_max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    readable = log.log_end_offset if follower else machine.high_watermark
    if found is not None and found.offset < readable:
        return Code.NONE, (found.timestamp, found.offset, found.leader_epoch)
    if end is None:  # what is found, or would be, may be committed already: the watermark does not say yet
        return Code.OFFSET_NOT_AVAILABLE, _NOWHERE
    return Code.NONE, _NOWHERE
