"""Record batches to partitions: Produce of one batch at a time, and producer ids.

Sends what it is given: building batches, sequence numbers and batching belong to producer.py or to the caller. A batch
with a producer id may be sent again after a lost connection, the broker drops the second copy (KIP-98); one without is
sent again only when the broker said that it did not take it.
Read next: producer.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping

from moldau.client.client import ANYONE, Client, CoordinatorKind, ForCoordinator, Refused
from moldau.model import NO_UUID, Code, TopicPartition
from moldau.model.named import NamedTuple
from moldau.wire import batch
from moldau.wire.codec import Buffer
from moldau.wire.messages.k00_produce import ProduceRequest, ProduceResponse
from moldau.wire.messages.k22_init_producer_id import InitProducerIdRequest

LAST_WITHOUT_IDS = 12
"""The last version of Produce that names topics: from 13 on topics are named by id only."""
UNTOUCHED = frozenset({
    Code.LEADER_NOT_AVAILABLE, Code.NOT_ENOUGH_REPLICAS, Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID,
})  # fmt: skip
"""The retriable codes after which the batch surely is not in the log. After any other it may be:
NOT_LEADER_OR_FOLLOWER, above all, is also what a leader says that appended, was deposed while it waited for its
followers, and whose successor has the batch."""


WRITTEN_PERHAPS = frozenset({Code.REQUEST_TIMED_OUT, Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND})
"""With these a leader says that it has written a batch itself, or may have."""


class BatchOutcome(NamedTuple):
    """What became of a batch: the offset of its first record (-1 when it is not known).

    ``doubtful``: it was not acknowledged, and this or an earlier try may have left it in the log.
    """

    code: Code
    base_offset: int = -1
    log_append_time_ms: int = -1
    message: str | None = None
    doubtful: bool = False


def produce_request(
    client: Client, parts: Iterable[tuple[TopicPartition, Buffer]], acks: int, timeout_ms: int
) -> tuple[ProduceRequest, int | None]:
    """A request for batches of different partitions, and the highest version it can be sent in."""
    topics: dict[str, list[ProduceRequest.PartitionProduceData]] = {}
    for target, records in parts:
        part = ProduceRequest.PartitionProduceData(index=target.partition, records=records)
        topics.setdefault(target.topic, []).append(part)
    ids = {name: client.view.topic_id(name) for name in topics}
    request = ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            ProduceRequest.TopicProduceData(name=name, topic_id=ids[name], partition_data=data)
            for name, data in topics.items()
        ],
    )
    return request, LAST_WITHOUT_IDS if NO_UUID in ids.values() else None


def names_of(request: ProduceRequest) -> dict[bytes, str]:
    """The topics of a request by their ids, as its answer may name them. What the client knows of ids may be another
    by then: a topic is made anew, and the answer of another leader has told so."""
    return {bytes(topic.topic_id): topic.name for topic in request.topic_data}


def read_written(response: ProduceResponse, names: Mapping[bytes, str]) -> dict[TopicPartition, BatchOutcome]:
    """What a response says of each partition; ``names`` are those of its request."""
    return {
        TopicPartition(topic.name or names.get(bytes(topic.topic_id), ""), p.index): BatchOutcome(
            Code(p.error_code), p.base_offset, p.log_append_time_ms, p.error_message
        )
        for topic in response.responses
        for p in topic.partition_responses
    }


async def produce(
    client: Client, target: TopicPartition, records: Buffer, *, acks: int = -1, timeout_ms: int = 30_000
) -> BatchOutcome:
    """Append one batch to a partition.

    With acks=0 nobody answers: the code is NONE once the bytes are on their way. A batch without a producer id that was
    on its way when the connection was lost is not sent again: NETWORK_EXCEPTION, it may or may not be in the log.
    """
    careful = batch.read_header(records).producer_id < 0
    patience, doubtful = client.patience(), False
    while True:
        sent = False
        written = BatchOutcome(Code.LEADER_NOT_AVAILABLE)
        try:
            await client.know_leaders([target])
            leader = client.view.leader(target)
            if leader is not None:
                line = await client.line(leader)
                request, highest = produce_request(client, [(target, records)], acks, timeout_ms)
                version = line.version_for(ProduceRequest, highest)
                sent = True
                if acks == 0:
                    line.tell(request, version=version)
                    return BatchOutcome(Code.NONE)
                answer = await line.ask(request, version=version, timeout_ms=timeout_ms + 5_000)
                written = read_written(answer, names_of(request)).get(target, BatchOutcome(Code.UNKNOWN_SERVER_ERROR))
        except OSError as error:
            doubtful |= sent
            written = BatchOutcome(Code.NETWORK_EXCEPTION, message=str(error))
            if sent and careful:
                return written._replace(doubtful=True)
        else:
            doubtful |= written.code.retriable and written.code not in UNTOUCHED
        if written.code is Code.NONE:
            return written
        written = written._replace(doubtful=doubtful)
        if not written.code.retriable or (careful and written.code in WRITTEN_PERHAPS):
            return written
        if not await patience.wait():
            return written
        try:
            troubles = await client.refresh([target.topic])
        except OSError:
            continue
        if troubles.get(target.topic) is Code.UNKNOWN_TOPIC_OR_PARTITION and patience.has_seen_enough:
            return BatchOutcome(Code.UNKNOWN_TOPIC_OR_PARTITION)


class Sent:
    """One Produce request that is under way; ``answer`` is None where none will come or nothing was sent."""

    __slots__ = ("_names", "_settled", "answer", "targets")

    def __init__(
        self,
        targets: Iterable[TopicPartition],
        answer: Awaitable[ProduceResponse] | None,
        settled: BatchOutcome | None = None,
        names: Mapping[bytes, str] | None = None,
    ) -> None:
        self._names, self.targets, self.answer, self._settled = names or {}, tuple(targets), answer, settled

    async def written(self) -> dict[TopicPartition, BatchOutcome]:
        """What became of each batch; NETWORK_EXCEPTION where nobody knows."""
        if self._settled is not None:
            return dict.fromkeys(self.targets, self._settled)
        try:
            assert self.answer is not None, "something was sent, or it is settled"
            found = read_written(await self.answer, self._names)
        except OSError as error:
            return dict.fromkeys(self.targets, BatchOutcome(Code.NETWORK_EXCEPTION, message=str(error)))
        return {target: found.get(target, BatchOutcome(Code.UNKNOWN_SERVER_ERROR)) for target in self.targets}


async def begin_produce(
    client: Client, parts: Mapping[TopicPartition, Buffer], *, acks: int = -1, timeout_ms: int = 30_000
) -> list[Sent]:
    """Send batches of different partitions, one request per leader, without waiting for answers and without retries."""
    try:
        await client.know_leaders(parts)
    except OSError as error:
        return [Sent(parts, None, BatchOutcome(Code.LEADER_NOT_AVAILABLE, message=str(error)))]
    by_leader: dict[int | None, list[TopicPartition]] = {}
    for target in parts:
        by_leader.setdefault(client.view.leader(target), []).append(target)
    found = []
    for leader, targets in by_leader.items():
        if leader is None:
            found.append(Sent(targets, None, BatchOutcome(Code.LEADER_NOT_AVAILABLE)))
            continue
        try:
            line = await client.line(leader)
        except OSError as error:
            found.append(Sent(targets, None, BatchOutcome(Code.LEADER_NOT_AVAILABLE, message=str(error))))
            continue
        request, highest = produce_request(client, [(target, parts[target]) for target in targets], acks, timeout_ms)
        version = line.version_for(ProduceRequest, highest)
        if acks == 0:
            line.tell(request, version=version)
            found.append(Sent(targets, None, BatchOutcome(Code.NONE)))
            continue
        answer = line.ask(request, version=version, timeout_ms=timeout_ms + 5_000)
        found.append(Sent(targets, answer, names=names_of(request)))
    return found


async def producer_id(
    client: Client, transactional_id: str | None = None, *, transaction_timeout_ms: int = 60_000
) -> tuple[int, int]:
    """(producer id, epoch). Refused when the broker gives none."""
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=transaction_timeout_ms,
        producer_id=-1,
        producer_epoch=-1,
    )
    to = ANYONE if transactional_id is None else ForCoordinator(CoordinatorKind.TRANSACTION, transactional_id)
    response = await client.ask(request, to)
    if response.error_code != Code.NONE:
        raise Refused(Code(response.error_code), "no producer id")
    return response.producer_id, response.producer_epoch
