"""Produce, 3-13: batches into the leader's log; acknowledged at once (acks=1), by the ISR (acks=all), or never (0).

The hot path makes no object of a record: a batch is checked by column, offsets are patched in the request's own bytes,
and one vectored write appends them. What takes longer to look into is examined in parts (``examinations.py``), and its
partition's next batches wait for it. A retried batch of an idempotent producer gets its first offsets again. Errors are
per partition and name the leader where they say "not here" (KIP-951), and bad records (KIP-467). Topic ids from 13.
Transactional batches are refused: there is no transaction coordinator yet.
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
from moldau.storage.admission import Admitted, Refused
from moldau.terms import Code
from moldau.wire.batch import HEADER_SIZE, LENGTH_OVERHEAD, BatchHeader, read_header
from moldau.wire.messages.k00_produce import ProduceRequest, ProduceResponse

INTERNAL = frozenset({"__consumer_offsets", "__transaction_state"})
ADMIN_CLIENT = "__admin_client"
_ELSEWHERE = (Code.NOT_LEADER_OR_FOLLOWER, Code.FENCED_LEADER_EPOCH)
Slot = ProduceResponse.PartitionProduceResponse
Outcome = Admitted | Refused
BadRecord = ProduceResponse.BatchIndexAndErrorMessage


def handle(node: Any, request: ProduceRequest, context: Any) -> ProduceResponse | Awaitable[Any] | None:
    """Append, and answer now, later or not at all."""
    produce = _Produce(node.replicas, request, context)
    rare = node.world.rare
    for data in request.topic_data:
        shown = ProduceResponse.TopicProduceResponse(name=data.name, topic_id=data.topic_id)
        produce.response.responses.append(shown)
        for part in data.partition_data:
            slot = Slot(index=part.index, base_offset=-1)
            shown.partition_responses.append(slot)
            replica = _replica(node.replicas, data, part.index, context.api_version, context)
            if rare is not None and rare(REFUSED_PRODUCE):
                replica = Code.NOT_LEADER_OR_FOLLOWER
            produce.append(data, slot, replica, part)
    return produce.answer()


class _Produce:
    """One request under way."""

    def __init__(self, replicas: Any, request: ProduceRequest, context: Any) -> None:
        self.response = ProduceResponse()
        self._replicas = replicas
        self._acks, self._timeout_ms = request.acks, request.timeout_ms
        self._context = context
        self._promise: Promise | None = None

    def append(
        self,
        data: ProduceRequest.TopicProduceData,
        slot: Slot,
        replica: Replica | Code,
        part: ProduceRequest.PartitionProduceData,
    ) -> None:
        """Append one partition's batch, at once or when it is examined."""
        records = part.records
        header = _look_at(replica, records, self._acks)
        if isinstance(header, Appended):
            self._refuse(data, slot, header)
            return
        assert isinstance(replica, Replica)
        assert records is not None, "there is a header"
        leads, examinations = replica, self._replicas.examinations
        outcome = examinations.at_a_glance(leads, records, header, part.records_at)
        if outcome is None:
            outcome = examinations.examine(leads, records, lambda out: self._later(data, slot, leads, out))
        if outcome is None:
            self._expect(slot)
            return
        code = self._done(data, slot, leads, outcome)
        if code is None:
            self._expect(slot)
        elif code is not Code.NONE:
            slot.error_code = code

    def answer(self) -> ProduceResponse | Awaitable[Any] | None:
        """What the handler returns."""
        if self._acks == 0:
            return None
        if self._promise is None:
            return self.response
        self._replicas.room.park(self._promise, self._timeout_ms)
        self._context.connection.waiting.add(self._promise)
        return self._promise.answer

    def _expect(self, slot: Slot) -> None:
        if self._acks != 0:
            self._wait().expect(slot)

    def _wait(self) -> Promise:
        if self._promise is None:
            self._promise = Promise(self._replicas.room, self.response)
        return self._promise

    def _later(self, data: ProduceRequest.TopicProduceData, slot: Slot, replica: Replica, outcome: Outcome) -> None:
        """The batch was examined; who waits may have been told already that its time is up."""
        promise = self._promise
        if promise is not None and promise.done:
            slot = Slot(index=slot.index)
        code = self._done(data, slot, replica, outcome)
        if promise is not None and code is not None:
            promise.settle(slot, code)

    def _done(
        self, data: ProduceRequest.TopicProduceData, slot: Slot, replica: Replica, outcome: Outcome
    ) -> Code | None:
        """Append what was admitted and fill the slot; the partition's code, or None when followers will tell it."""
        appended = (
            outcome.appended(replica.log.log_start_offset)
            if isinstance(outcome, Refused)
            else self._replicas.append(replica, outcome, self._acks)
        )
        code: Code | None = appended.code
        if code is not Code.NONE:
            self._refuse(data, slot, appended)
            return code
        slot.base_offset = appended.first_offset
        slot.log_append_time_ms = appended.append_time_ms
        slot.log_start_offset = appended.log_start_offset
        if self._acks == -1:
            code = replica.machine.acknowledged(appended.last_offset + 1)
            if code is None:
                replica.promises.append((appended.last_offset + 1, self._wait(), slot))
        return code

    def _refuse(self, data: ProduceRequest.TopicProduceData, slot: Slot, appended: Appended) -> None:
        self._replicas.failed_produces += 1
        if self._acks == 0:
            self._context.connection.close()  # the only way to tell a producer that does not listen
            return
        slot.error_code = appended.code
        slot.log_start_offset = appended.log_start_offset
        slot.error_message = appended.message or None
        slot.record_errors = [
            BadRecord(batch_index=index, batch_index_error_message=text) for index, text in appended.bad_records
        ]
        if appended.code in _ELSEWHERE:
            _point(self._replicas.image, self.response, data, slot, self._context.listener)


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


def _look_at(replica: Replica | Code, records: Any, acks: int) -> BatchHeader | Appended:
    """The batch's header, or why no batch is even looked at."""
    if acks not in (-1, 0, 1):
        return Appended(Code.INVALID_REQUIRED_ACKS)
    if isinstance(replica, Code):
        return Appended(replica)
    if not records or len(records) < HEADER_SIZE:
        return Appended(Code.INVALID_RECORD, message="a produce request has one record batch for each partition")
    header = read_header(records)
    if header.magic == 2 and HEADER_SIZE <= header.length + LENGTH_OVERHEAD < len(records):
        return Appended(Code.INVALID_RECORD, message="a produce request has only one record batch for each partition")
    if header.is_transactional and not header.is_control:
        return Appended(Code.INVALID_TXN_STATE, message="this cluster has no transaction coordinator")
    code = replica.machine.admit(acks)
    return header if code is Code.NONE else Appended(code)


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
