"""Produce, 3-13: batches into the leader's log; acknowledged at once (acks=1), by the ISR (acks=all), or never (0).

The hot path looks at headers and checksums, never at records: offsets are patched in the request's own bytes, and
one vectored write appends them. A retried batch of an idempotent producer gets its first offsets again. Errors are per
partition and name the leader where they say "not here" (KIP-951). Topic ids from 13. Transactional batches are refused:
there is no transaction coordinator yet.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from moldau.broker.leaders import leader_of
from moldau.broker.replica import Replica
from moldau.broker.waiting_room import Promise
from moldau.image import Image
from moldau.ports.rare import REFUSED_PRODUCE
from moldau.storage import Appended
from moldau.terms import Code
from moldau.wire.batch import HEADER_SIZE, LENGTH_OVERHEAD, read_header
from moldau.wire.messages.k00_produce import ProduceRequest, ProduceResponse

INTERNAL = frozenset({"__consumer_offsets", "__transaction_state"})
ADMIN_CLIENT = "__admin_client"
_ELSEWHERE = (Code.NOT_LEADER_OR_FOLLOWER, Code.FENCED_LEADER_EPOCH)
Slot = ProduceResponse.PartitionProduceResponse
BadRecord = ProduceResponse.BatchIndexAndErrorMessage


def handle(node: Any, request: ProduceRequest, context: Any) -> ProduceResponse | Awaitable[Any] | None:
    """Append, and answer now, later or not at all."""
    acks, version = request.acks, context.api_version
    replicas, rare = node.replicas, node.world.rare
    response = ProduceResponse()
    promise: Promise | None = None
    failed = False
    for data in request.topic_data:
        shown = ProduceResponse.TopicProduceResponse(name=data.name, topic_id=data.topic_id)
        response.responses.append(shown)
        for part in data.partition_data:
            slot = Slot(index=part.index, base_offset=-1)
            shown.partition_responses.append(slot)
            replica = _replica(replicas, data, part.index, version, context)
            if rare is not None and rare(REFUSED_PRODUCE):
                replica = Code.NOT_LEADER_OR_FOLLOWER
            appended = _append(replicas, replica, part.records, acks)
            if appended.code is not Code.NONE:
                failed = True
                replicas.failed_produces += 1
                _refuse(slot, appended)
                if appended.code in _ELSEWHERE:
                    _point(replicas.image, response, data, slot, context.listener)
                continue
            assert isinstance(replica, Replica)
            slot.base_offset = appended.first_offset
            slot.log_append_time_ms = appended.append_time_ms
            slot.log_start_offset = appended.log_start_offset
            if acks != -1:
                continue
            code = replica.machine.acknowledged(appended.last_offset + 1)
            if code is None:
                if promise is None:
                    promise = Promise(replicas.room, response)
                promise.expect(slot)
                replica.promises.append((appended.last_offset + 1, promise, slot))
            elif code is not Code.NONE:
                slot.error_code = code
    if acks == 0:
        if failed:
            context.connection.close()  # the only way to tell a producer that does not listen
        return None
    if promise is None:
        return response
    replicas.room.park(promise, request.timeout_ms)
    context.connection.waiting.add(promise)
    return promise.answer


def _replica(
    replicas: Any, data: ProduceRequest.TopicProduceData, index: int, version: int, context: Any
) -> Replica | Code:
    if version >= 13:
        found: Replica | Code = replicas.find_by_id(bytes(data.topic_id), index)
    else:
        found = replicas.find(data.name, index)
    if isinstance(found, Replica) and found.partition.topic in INTERNAL and context.client_id != ADMIN_CLIENT:
        return Code.INVALID_TOPIC_EXCEPTION
    return found


def _append(replicas: Any, replica: Replica | Code, records: Any, acks: int) -> Appended:
    if acks not in (-1, 0, 1):
        return Appended(Code.INVALID_REQUIRED_ACKS)
    if isinstance(replica, Code):
        return Appended(replica)
    if not records or len(records) < HEADER_SIZE:
        return Appended(Code.INVALID_RECORD, message="a produce request has one record batch for each partition")
    header = read_header(records)
    if header.magic == 2 and header.length + LENGTH_OVERHEAD < len(records):
        return Appended(Code.INVALID_RECORD, message="a produce request has only one record batch for each partition")
    if header.is_transactional and not header.is_control:
        return Appended(Code.INVALID_TXN_STATE, message="this cluster has no transaction coordinator")
    return replicas.append(replica, records, acks)  # type: ignore[no-any-return]


def _refuse(slot: Slot, appended: Appended) -> None:
    slot.error_code = appended.code
    slot.log_start_offset = appended.log_start_offset
    slot.error_message = appended.message or None
    slot.record_errors = [
        BadRecord(batch_index=index, batch_index_error_message=text) for index, text in appended.bad_records
    ]


def _point(
    image: Image, response: ProduceResponse, data: ProduceRequest.TopicProduceData, slot: Slot, listener: str
) -> None:
    """Say where the leader is."""
    hint = leader_of(image, data.name, bytes(data.topic_id), slot.index, listener)
    if hint is None:
        return
    slot.current_leader = ProduceResponse.LeaderIdAndEpoch(leader_id=hint.id, leader_epoch=hint.epoch)
    if hint.host and all(known.node_id != hint.id for known in response.node_endpoints):
        response.node_endpoints.append(
            ProduceResponse.NodeEndpoint(node_id=hint.id, host=hint.host, port=hint.port, rack=hint.rack)
        )
