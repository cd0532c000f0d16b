"""WriteTxnMarkers, 1-2: a transaction coordinator ends transactions in partitions that this broker leads (KIP-98).

Each marker is a control batch of its own, answered when all of the ISR have it. Refused is a coordinator that was
deposed (TRANSACTION_COORDINATOR_FENCED) and an epoch that the log has passed (INVALID_PRODUCER_EPOCH; with
transaction.version 2 also the present one while a transaction is open, KIP-1228). `kafka-transactions.sh abort` asks
the same. Offsets that a transaction held for groups count once its marker is committed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from struct import Struct

from moldau.broker.controller.topic_creation import OFFSETS
from moldau.broker.loop import Pace
from moldau.broker.network.context import Context
from moldau.broker.purgatory import DelayedResponse
from moldau.broker.replicas.replica import Replica
from moldau.broker.services import BrokerServices
from moldau.model import Code
from moldau.storage import LogError
from moldau.wire.batch import ControlType, build, control_key
from moldau.wire.messages.k27_write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from moldau.wire.schema import Message

TIMEOUT_MS = 30_000
"""request.timeout.ms of a broker: the coordinator asks again."""
STRICT_SINCE = 2
"""The transaction.version in which each transaction has an epoch of its own."""
_VALUE = Struct(">hi")
Marker = WriteTxnMarkersRequest.WritableTxnMarker
Slot = WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult
Told = WriteTxnMarkersResponse.WritableTxnMarkerTopicResult


def handle(
    node: BrokerServices, request: WriteTxnMarkersRequest, context: Context
) -> Generator[None, None, Message | Awaitable[Message | None] | None]:
    """Write the markers, some in each turn of the loop, and wait for the followers."""
    response = WriteTxnMarkersResponse()
    delayed = DelayedResponse(node.replicas.purgatory, response)
    rest, pace = Slot(), Pace(node.world.step, node.world.clock)
    delayed.expect(rest)
    for marker in request.markers:
        result = WriteTxnMarkersResponse.WritableTxnMarkerResult(producer_id=marker.producer_id)
        response.markers.append(result)
        for topic in marker.topics:
            told = Told(name=topic.name)
            result.topics.append(told)
            for number in topic.partition_indexes:
                slot = Slot(partition_index=number)
                told.partitions.append(slot)
                replica = node.replicas.find(topic.name, number)
                slot.error_code = replica if isinstance(replica, Code) else _write(node, replica, marker, delayed, slot)
                if pace.spent(2):
                    yield
    node.replicas.purgatory.park(delayed, TIMEOUT_MS)
    delayed.complete(rest, Code.NONE)
    return delayed.answer


def _write(node: BrokerServices, replica: Replica, marker: Marker, delayed: DelayedResponse, slot: Slot) -> Code:
    """The code of a marker that was refused; NONE while followers have yet to take it."""
    replicas = node.replicas
    try:
        code = _refusal(replica, marker)
    except LogError as error:
        return error.code
    if code is not Code.NONE:
        return code
    kind = ControlType.COMMIT if marker.transaction_result else ControlType.ABORT
    now_ms = node.world.clock.wall_ms()
    value = _VALUE.pack(0, marker.coordinator_epoch)
    data = build(
        [(now_ms, control_key(kind), value, [])],
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        base_sequence=-1,
        transactional=True,
        control=True,
    )
    appended = replicas.append(replica, data, -1, internal=True)
    if appended.code is not Code.NONE:
        return appended.code
    replicas.transactions.marked(replica, marker.producer_id)
    after = appended.last_offset + 1
    if replica.partition.topic == OFFSETS:
        node.coordinator.transaction_ended(replica, marker.producer_id, after, commits=marker.transaction_result)
    settled = replica.machine.acknowledged(after)
    if settled is not None:
        return settled
    delayed.expect(slot)
    replica.when_committed(after, delayed, slot)
    return Code.NONE


def _refusal(replica: Replica, marker: Marker) -> Code:
    if marker.producer_id < 0 or marker.producer_epoch < 0:
        return Code.INVALID_REQUEST
    known = replica.log.producers.get(marker.producer_id)
    if known is None:
        return Code.NONE
    if marker.coordinator_epoch < known.coordinator_epoch:
        return Code.TRANSACTION_COORDINATOR_FENCED
    if marker.producer_epoch < known.epoch:
        return Code.INVALID_PRODUCER_EPOCH
    is_same = marker.producer_epoch == known.epoch and known.txn_first_offset >= 0
    return Code.INVALID_PRODUCER_EPOCH if is_same and marker.transaction_version >= STRICT_SINCE else Code.NONE
