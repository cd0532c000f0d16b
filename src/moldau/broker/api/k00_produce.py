"""Produce, 3-13: batches into the leader's log; acknowledged at once (acks=1), by the ISR (acks=all), or never (0).

The hot path makes no object of a record: a batch is checked by column, offsets are patched in the request's own bytes,
and one vectored write appends them. A request to many partitions, or of many bytes, is appended in turns of the loop.
What takes longer to look into is examined in parts (``replicas/examinations.py``), and its partition's next batches
wait for it. A retried batch of an idempotent producer gets its first offsets again, and one behind a batch that is
to be sent again is refused as that one was (``replicas/sequence_gaps.py``). Errors are per partition and name the
leader where they say "not here" (KIP-951), and bad records (KIP-467). Topic ids from 13. Transactional batches are
taken where a broker of Apache Kafka coordinates the transaction (``api/begun_transactions.py``), else refused.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from moldau.broker.api.begun_transactions import Permits
from moldau.broker.loop import InWorld, Pace, run_in_slices, run_to_end_if_short
from moldau.broker.metadata.leader_hint import leader_of
from moldau.broker.network.requests import Slices
from moldau.broker.purgatory import DelayedResponse
from moldau.broker.replicas.lost import check_append
from moldau.broker.replicas.replica import Replica
from moldau.broker.replicas.sequence_gaps import TRANSIENT_CODES, ProducedPartition
from moldau.broker.replicas.transactions import NO_COORDINATOR
from moldau.model import Code
from moldau.model.protocol import Protocol
from moldau.ports.buggify import REFUSED_PRODUCE
from moldau.storage import Appended, LogError
from moldau.storage.log_validator import InvalidAppend, ValidatedBatches
from moldau.wire.batch import HEADER_SIZE, LENGTH_OVERHEAD, BatchHeader, read_header
from moldau.wire.codec import Buffer
from moldau.wire.messages.k00_produce import ProduceRequest, ProduceResponse
from moldau.wire.schema import Message

if TYPE_CHECKING:
    from moldau.broker.network.context import Context
    from moldau.broker.replicas.manager import ReplicaManager

INTERNAL = frozenset({"__consumer_offsets", "__transaction_state"})
ADMIN_CLIENT = "__admin_client"
PARTITION_COST, BYTES_AT_COST = 2, 1 << 15
"""What a partition, and so many bytes, cost of the hundred that a step of the loop holds: fifty partitions, or three
megabytes."""
_ELSEWHERE = (Code.NOT_LEADER_OR_FOLLOWER, Code.FENCED_LEADER_EPOCH)
Slot = ProduceResponse.PartitionProduceResponse
Outcome = ValidatedBatches | InvalidAppend
BadRecord = ProduceResponse.BatchIndexAndErrorMessage


class WithReplicas(InWorld, Protocol):
    """A broker."""

    @property
    def replicas(self) -> ReplicaManager: ...


def handle(
    node: WithReplicas, request: ProduceRequest, context: Context
) -> Message | Awaitable[Message | None] | Slices | None:
    """Append, and answer now, later or not at all. What takes long is appended in turns of the loop."""
    produce = _Produce(node, request, context)
    if produce.permits is not None:
        work = _append_transactional(node, request, produce, produce.permits)
        return run_to_end_if_short(work, is_short=not _is_long(request, node.world.step))
    if _is_long(request, node.world.step):
        return produce.append_in_slices(request, node.world.step)
    return produce.append_at_once(request)


def _append_transactional(node: WithReplicas, request: ProduceRequest, produce: _Produce, permits: Permits) -> Slices:
    """Append, or return what appends once coordinators have answered."""
    if (yield from permits.has_to_wait_in_slices()) and (yield from permits.hold_in_slices()):
        return _append_when_permitted(node, request, produce, permits)
    return (yield from produce.append_in_slices(request, node.world.step))


async def _append_when_permitted(
    node: WithReplicas, request: ProduceRequest, produce: _Produce, permits: Permits
) -> Message | None:
    """Append what begins transactions, once their coordinator knows of it."""
    turn = await permits.verify()
    try:
        try:
            work = produce.append_in_slices(request, node.world.step)
            answer = await run_in_slices(node.world.tasks, work)
        finally:
            permits.appended(turn)
        return answer if answer is None or isinstance(answer, Message) else await answer
    finally:
        permits.over()


def _is_long(request: ProduceRequest, step: int) -> bool:
    """Whether this is more than one turn of the loop should append."""
    topics = request.topic_data
    if len(topics) == 1 and len(topics[0].partition_data) == 1:
        return False
    return sum([_cost(part) for data in topics for part in data.partition_data]) > step


def _cost(part: ProduceRequest.PartitionProduceData) -> int:
    """How much of a step it takes to append this. The first batch of a partition has its file made."""
    return PARTITION_COST + (len(part.records) // BYTES_AT_COST if part.records else 0)


class _Produce:
    """One request under way."""

    __slots__ = ("_acks", "_buggify", "_clock", "_context", "_delayed", "_is_through", "_must_close", "_replicas",
                 "_rest", "_timeout_ms", "permits", "response")  # fmt: skip

    def __init__(self, node: WithReplicas, request: ProduceRequest, context: Context) -> None:
        self.response = ProduceResponse()
        self.permits: Permits | None = None
        if request.transactional_id is not None:
            self.permits = Permits(node.replicas, request, context.api_version, self._find)
        self._replicas = node.replicas
        self._buggify, self._clock = node.world.buggify, node.world.clock
        self._acks, self._timeout_ms = request.acks, request.timeout_ms
        self._context = context
        self._delayed: DelayedResponse | None = None
        self._rest: Slot | None = None
        """Stands for what is still to be appended, so that nobody is answered before."""
        self._is_through = self._must_close = False

    def _find(self, data: ProduceRequest.TopicProduceData, index: int) -> Replica | Code:
        return _replica(self._replicas, data, index, self._context.api_version, self._context)

    def append_at_once(self, request: ProduceRequest) -> ProduceResponse | Awaitable[Message | None] | None:
        """Append everything; what ``answer`` returns."""
        for data in request.topic_data:
            shown = self._add_topic(data)
            for part in data.partition_data:
                self._append_part(data, shown, part)
        return self.answer()

    def append_in_slices(self, request: ProduceRequest, step: int) -> Slices:
        """Append everything, with pauses; what ``answer`` returns. Others append to the same partitions meanwhile."""
        self._rest, pace = Slot(), Pace(step, self._clock)
        for data in request.topic_data:
            shown = self._add_topic(data)
            for part in data.partition_data:
                self._append_part(data, shown, part)
                if pace.spent(_cost(part)):
                    yield
        return self.answer()

    def _add_topic(self, data: ProduceRequest.TopicProduceData) -> ProduceResponse.TopicProduceResponse:
        """The topic's place in the answer."""
        shown = ProduceResponse.TopicProduceResponse(name=data.name, topic_id=data.topic_id)
        self.response.responses.append(shown)
        return shown

    def _append_part(
        self,
        data: ProduceRequest.TopicProduceData,
        shown: ProduceResponse.TopicProduceResponse,
        part: ProduceRequest.PartitionProduceData,
    ) -> None:
        """Append one partition's batch, and fill its place in the answer."""
        slot = Slot(index=part.index, base_offset=-1)
        shown.partition_responses.append(slot)
        replica = self._find(data, part.index)
        if (buggify := self._buggify) is not None and buggify(REFUSED_PRODUCE):
            replica = Code.NOT_LEADER_OR_FOLLOWER
        self._append(data, slot, replica, part)

    def _append(
        self,
        data: ProduceRequest.TopicProduceData,
        slot: Slot,
        replica: Replica | Code,
        part: ProduceRequest.PartitionProduceData,
    ) -> None:
        """Append a batch, at once or when it is examined."""
        records = part.records
        header = _look_at(replica, records, self._acks)
        if isinstance(header, Appended):
            self._refuse(data, slot, header)
            if header.code in TRANSIENT_CODES and records and len(records) >= HEADER_SIZE:
                self._replicas.sequence_gaps.refused(_target(data, slot), read_header(records), header.code)
            return
        assert isinstance(replica, Replica)
        assert records is not None, "there is a header"
        if header.is_transactional and (refusal := self._transaction_refusal(replica, header)) is not None:
            self._refuse(data, slot, self._refusal_in_order(_target(data, slot), replica, header, refusal))
            return
        leads, examinations = replica, self._replicas.examinations
        outcome: Outcome | None = examinations.validate_quickly(leads, records, header, part.records_at)
        if outcome is None:
            outcome = examinations.examine(
                leads,
                records,
                lambda out: self._examined(data, slot, leads, header, out),
                self._context.connection,
                self._is_waited_for,
            )
        if outcome is None:
            self._expect(slot)
            return
        code = self._append_examined(data, slot, leads, header, outcome)
        if code is None:
            self._expect(slot)
        elif code is not Code.NONE:
            slot.error_code = code

    def _transaction_refusal(self, replica: Replica, header: BatchHeader) -> Appended | None:
        """Why a transaction's batch is not to be appended, None when it may be."""
        try:
            verdict = NO_COORDINATOR if self.permits is None else self.permits.verdict(replica, header)
        except LogError as error:
            return Appended(error.code, message=str(error))
        return None if verdict.code is Code.NONE else Appended(verdict.code, message=verdict.why)

    def answer(self) -> ProduceResponse | Awaitable[Message | None] | None:
        """What the handler returns."""
        self._is_through = True
        if self._acks == 0:
            if self._must_close:
                self._context.connection.close()
            return None
        delayed = self._delayed
        if delayed is None:
            return self.response
        self._replicas.purgatory.park(delayed, self._timeout_ms)
        self._context.connection.waiting.add(delayed)
        if self._rest is not None:
            delayed.complete(self._rest, Code.NONE)
        return delayed.answer

    def _expect(self, slot: Slot) -> None:
        if self._acks != 0:
            self._wait().expect(slot)

    def _wait(self) -> DelayedResponse:
        if self._delayed is None:
            self._delayed = DelayedResponse(self._replicas.purgatory, self.response)
            if self._rest is not None:
                self._delayed.expect(self._rest)
        return self._delayed

    def _is_waited_for(self) -> bool:
        """Whether a batch that is still to be appended is: not once its client is gone or was told that the time is up,
        who sends it again; one without acknowledgement is in any case."""
        return self._delayed is None or not self._delayed.done

    def _examined(
        self,
        data: ProduceRequest.TopicProduceData,
        slot: Slot,
        replica: Replica,
        header: BatchHeader,
        outcome: Outcome,
    ) -> None:
        """The batch was examined; who waits may have been told already that its time is up."""
        delayed = self._delayed
        if delayed is not None and delayed.done:
            slot = Slot(index=slot.index)
        code = self._append_examined(data, slot, replica, header, outcome)
        if delayed is not None and code is not None:
            delayed.complete(slot, code)

    def _append_examined(
        self,
        data: ProduceRequest.TopicProduceData,
        slot: Slot,
        replica: Replica,
        header: BatchHeader,
        outcome: Outcome,
    ) -> Code | None:
        """Append a batch that was examined and fill the slot; the partition's code, or None when followers will tell
        it."""
        appended: Appended | None = None
        if isinstance(outcome, InvalidAppend):
            appended = outcome.appended(replica.log.log_start_offset)
        elif outcome.headers[0].is_transactional:  # it may have been examined for long
            appended = self._transaction_refusal(replica, outcome.headers[0])
        if appended is None:
            assert isinstance(outcome, ValidatedBatches)
            appended = self._refusal_for_one_ahead(data, slot, replica, header)
            if appended is None:
                appended = self._replicas.append(replica, outcome, self._acks)
        code: Code | None = appended.code
        if code is not Code.NONE:
            appended = self._refusal_in_order(_target(data, slot), replica, header, appended)
            self._refuse(data, slot, appended)
            return appended.code
        if gaps := self._replicas.sequence_gaps:
            gaps.appended(_target(data, slot), header)
        slot.base_offset = appended.first_offset
        slot.log_append_time_ms = appended.append_time_ms
        slot.log_start_offset = appended.log_start_offset
        if self._acks == -1:
            code = replica.machine.acknowledged(appended.last_offset + 1)
            if code is None:
                replica.when_committed(appended.last_offset + 1, self._wait(), slot)
        elif self._acks and replica.log.settled_end <= appended.last_offset:  # also what was sent twice
            replica.unflushed.append((appended.last_offset + 1, self._wait(), slot))
            return None
        return code

    def _refusal_for_one_ahead(
        self, data: ProduceRequest.TopicProduceData, slot: Slot, replica: Replica, header: BatchHeader
    ) -> Appended | None:
        """The refusal of a batch of a producer that the log does not know, if one ahead was sent back, or may be on its
        way back from the leader before. The log would take any sequence of it, and librdkafka would call those ahead
        delivered with it.
        """
        gaps = self._replicas.sequence_gaps
        has_moved = header.base_sequence > 0 and replica.machine.leader_epoch > 0
        if header.producer_id < 0 or not (gaps or has_moved) or self._knows(replica, header.producer_id):
            return None
        target = _target(data, slot)
        code = gaps.code_behind_gap(target, header)
        if code is None and has_moved and gaps.refuse_once_on_new_leader(target, header):
            code = Code.NOT_LEADER_OR_FOLLOWER
        if code is None:
            return None
        return Appended(code, log_start_offset=replica.log.log_start_offset, message="the batch ahead is missing")

    def _knows(self, replica: Replica, producer_id: int) -> bool:
        """Whether the log knows the producer; True as well where the append is going to say why it does not. What is
        known is read here, if it was not since a cut, as the append would read it.
        """
        if replica.log.known_producers is None and check_append(replica, self._acks) is not Code.NONE:
            return True
        try:
            return replica.log.producers.get(producer_id) is not None
        except LogError:
            return True

    def _refusal_in_order(
        self, target: ProducedPartition, replica: Replica, header: BatchHeader, refused: Appended
    ) -> Appended:
        """The refusal of a batch; if it is out of order for want of the one ahead, which is to come again, that of the
        other."""
        gaps = self._replicas.sequence_gaps
        if refused.code in TRANSIENT_CODES:
            gaps.refused(target, header, refused.code)
        elif refused.code is Code.OUT_OF_ORDER_SEQUENCE_NUMBER:
            ahead = gaps.code_behind_gap(target, header)
            if (
                ahead is None
                and _is_new_to(replica, header.producer_id)
                and gaps.refuse_once_on_new_leader(target, header)
            ):
                ahead = Code.NOT_LEADER_OR_FOLLOWER
            if ahead is not None:
                return Appended(ahead, log_start_offset=refused.log_start_offset, message="the batch ahead is missing")
        self._replicas.refused_producers.note(replica, header, refused.code)
        return refused

    def _refuse(self, data: ProduceRequest.TopicProduceData, slot: Slot, appended: Appended) -> None:
        self._replicas.failed_produces += 1
        if self._acks == 0:  # the only way to tell a producer that does not listen
            self._must_close = True
            if self._is_through:
                self._context.connection.close()
            return
        slot.error_code = appended.code
        slot.log_start_offset = appended.log_start_offset
        slot.error_message = appended.message or None
        slot.record_errors = [
            BadRecord(batch_index=index, batch_index_error_message=text) for index, text in appended.bad_records
        ]
        if appended.code in _ELSEWHERE:
            topic_id, listener = bytes(data.topic_id), self._context.listener
            hint = leader_of(self._replicas.image, data.name, topic_id, slot.index, listener)
            if hint is not None:
                slot.current_leader = hint.put_into(
                    self.response.node_endpoints, ProduceResponse.NodeEndpoint, ProduceResponse.LeaderIdAndEpoch
                )


def _replica(
    replicas: ReplicaManager, data: ProduceRequest.TopicProduceData, index: int, version: int, context: Context
) -> Replica | Code:
    if version >= 13:
        found: Replica | Code = replicas.find_by_id(bytes(data.topic_id), index)
    else:
        found = replicas.find(data.name, index)
    if isinstance(found, Replica) and found.partition.topic in INTERNAL and context.client_id != ADMIN_CLIENT:
        return Code.INVALID_TOPIC_EXCEPTION
    return found


def _is_new_to(replica: Replica, producer_id: int) -> bool:
    """Whether the leader has taken no batch of the producer since it leads."""
    known = replica.log.producers.get(producer_id)
    start = replica.log.epochs.start_of(replica.machine.leader_epoch)
    return known is not None and (not known.batches or known.batches[-1].last_offset < start)


def _target(data: ProduceRequest.TopicProduceData, slot: Slot) -> ProducedPartition:
    return ProducedPartition(data.name, bytes(data.topic_id), slot.index)


def _look_at(replica: Replica | Code, records: Buffer | None, acks: int) -> BatchHeader | Appended:
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
    code = replica.machine.check_append(acks)
    return header if code is Code.NONE else Appended(code)
