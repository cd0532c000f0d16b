"""ListOffsets, 1-11: the earliest, the latest, the newest by time, or the first record at or after a moment.

Timestamps -1 latest, -2 earliest, -3 the record with the largest timestamp, -4 earliest on local disk, -5 and -6 tiered
storage (which there is not: no offset). Consumers see up to the high watermark; a new leader whose watermark does not
cover its epoch's start yet says OFFSET_NOT_AVAILABLE rather than step back (KIP-207). Followers see the log's end.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Generator

from moldau.broker.loop import Pace, run_to_end_if_short, yield_to_loop
from moldau.broker.network.context import Context
from moldau.broker.replicas.examinations import run_pauses
from moldau.broker.replicas.replica import Replica
from moldau.broker.services import BrokerServices
from moldau.model import Code
from moldau.model.named import NamedTuple
from moldau.storage import LogError
from moldau.storage.timestamps import TimedOffset, first_since, newest
from moldau.wire.compression import BatchError
from moldau.wire.messages.k02_list_offsets import ListOffsetsRequest, ListOffsetsResponse
from moldau.wire.schema import Message

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -1, -2, -3, -4, -5, -6
_SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING: 11}
DEBUGGING = -2
"""The replica id of tools that look at any replica."""
Slot = ListOffsetsResponse.ListOffsetsPartitionResponse
READ_COMMITTED = 1
_NOWHERE = (-1, -1, -1)
AT_ONCE = 500
"""Partitions that are looked up in one turn of the loop."""
SEARCHES_AT_ONCE = 10
"""Partitions that are looked through by time before the loop turns."""
warnings = logging.getLogger(__name__)


def handle(
    node: BrokerServices, request: ListOffsetsRequest, context: Context
) -> ListOffsetsResponse | Awaitable[Message] | Generator[None, None, ListOffsetsResponse | Awaitable[Message]]:
    """Look up; what has to be searched by time is looked for in parts, while others are served."""
    is_short = len(request.topics) <= AT_ONCE and _much(request) <= AT_ONCE
    return run_to_end_if_short(_steps(node, request, context), is_short)


def _much(request: ListOffsetsRequest) -> int:
    return sum([1 + len(topic.partitions) for topic in request.topics])


def _steps(
    node: BrokerServices, request: ListOffsetsRequest, context: Context
) -> Generator[None, None, ListOffsetsResponse | Awaitable[Message]]:
    """As ``handle``, with a pause after so many partitions."""
    response = ListOffsetsResponse()
    seen: set[tuple[str, int]] = set()
    twice: set[tuple[str, int]] = set()
    pace = Pace(10 * AT_ONCE)
    for topic in request.topics:
        for part in topic.partitions:
            if pace.spent(1):
                yield
            key = (topic.name, part.partition_index)
            (twice if key in seen else seen).add(key)
    searches: list[_Search] = []
    pace = Pace(AT_ONCE)
    for topic in request.topics:
        shown = ListOffsetsResponse.ListOffsetsTopicResponse(name=topic.name)
        response.topics.append(shown)
        if not topic.partitions and pace.spent(1):
            yield
        for part in topic.partitions:
            if pace.spent(1):
                yield
            slot = Slot(partition_index=part.partition_index)
            shown.partitions.append(slot)
            if (topic.name, part.partition_index) in twice:
                slot.error_code = Code.INVALID_REQUEST
                continue
            replica = _replica(node, topic.name, part, request.replica_id, context.api_version)
            if isinstance(replica, Code):
                slot.error_code = replica
            elif part.timestamp >= 0 or part.timestamp == MAX_TIMESTAMP:
                searches.append(_Search(slot, replica, part.timestamp))
            else:
                _fill(slot, _known(replica, part.timestamp, _Reader.of(request)), context.api_version)
    return _search(node, request, context.api_version, response, searches) if searches else response


class _Reader(NamedTuple):
    """Who asks: a follower sees the whole log, a consumer what is replicated or, with read_committed, decided."""

    follower: bool
    committed: bool

    @classmethod
    def of(cls, request: ListOffsetsRequest) -> _Reader:
        return cls(request.replica_id >= 0, request.isolation_level == READ_COMMITTED)

    def end(self, replica: Replica) -> int | None:
        """The end of what it may read; None: a new leader does not know yet."""
        if self.follower:
            return replica.log.log_end_offset
        return None if replica.machine.latest() is None else self.readable(replica)

    def readable(self, replica: Replica) -> int:
        """The end of what it may read, by the high watermark as it is known now, also to a new leader."""
        if self.follower:
            return replica.log.log_end_offset
        high: int = replica.machine.high_watermark
        return replica.log.producers.stable_offset(high) if self.committed else high


class _Search(NamedTuple):
    """A partition whose offset has to be looked for by time."""

    slot: Slot
    replica: Replica
    timestamp: int


async def _search(
    node: BrokerServices,
    request: ListOffsetsRequest,
    version: int,
    response: ListOffsetsResponse,
    searches: list[_Search],
) -> ListOffsetsResponse:
    """The response, complete; a log that cannot be read costs its own partition."""
    tasks = node.world.tasks
    for number, (slot, replica, timestamp) in enumerate(searches):
        log = replica.log
        try:
            work = newest(log) if timestamp == MAX_TIMESTAMP else first_since(log, timestamp)
            found = await run_pauses(tasks, work)
        except LogError as error:
            node.replicas.failed(error)
            slot.error_code = error.code
        except BatchError as error:
            warnings.warning("%s: a batch cannot be read for its timestamps: %s", replica.partition, error)
            slot.error_code = Code.CORRUPT_MESSAGE
        else:
            _fill(slot, _found(replica, found, _Reader.of(request)), version)
        if number % SEARCHES_AT_ONCE == SEARCHES_AT_ONCE - 1:
            await yield_to_loop(tasks)
    return response


def _replica(
    node: BrokerServices, topic: str, part: ListOffsetsRequest.ListOffsetsPartition, replica_id: int, version: int
) -> Replica | Code:
    replica: Replica | Code = node.replicas.find(topic, part.partition_index)
    if isinstance(replica, Code):
        return replica
    code = replica.machine.check_epoch(part.current_leader_epoch, leader_only=replica_id != DEBUGGING)
    if code is not Code.NONE:
        return code
    if part.timestamp < EARLIEST_PENDING or version < _SINCE.get(part.timestamp, 0):
        return Code.UNSUPPORTED_VERSION
    return replica


def _fill(slot: Slot, outcome: tuple[Code, tuple[int, int, int]], version: int) -> None:
    code, (slot.timestamp, slot.offset, slot.leader_epoch) = outcome
    if code is Code.OFFSET_NOT_AVAILABLE and version < 5:
        code = Code.LEADER_NOT_AVAILABLE
    slot.error_code = code


def _known(replica: Replica, timestamp: int, reader: _Reader) -> tuple[Code, tuple[int, int, int]]:
    """An offset that need not be looked for."""
    log, machine = replica.log, replica.machine
    if timestamp == LATEST:
        end = reader.end(replica)
        if end is None:
            return Code.OFFSET_NOT_AVAILABLE, _NOWHERE
        return Code.NONE, (-1, end, machine.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return Code.NONE, (-1, log.log_start_offset, log.epochs.epoch_at(log.log_start_offset))
    return Code.NONE, _NOWHERE


def _found(replica: Replica, found: TimedOffset | None, reader: _Reader) -> tuple[Code, tuple[int, int, int]]:
    """What is told of a record that was found by time: only what the asker may read."""
    end = reader.end(replica)
    readable = reader.readable(replica)
    if found is not None and found.offset < readable:
        return Code.NONE, (found.timestamp, found.offset, found.leader_epoch)
    if end is None:  # what is found, or would be, may be committed already: the watermark does not say yet
        return Code.OFFSET_NOT_AVAILABLE, _NOWHERE
    return Code.NONE, _NOWHERE
