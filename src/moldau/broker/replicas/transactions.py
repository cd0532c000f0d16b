"""Transactions as the leader of their partitions sees them, whose coordinator is a broker of Apache Kafka (KIP-890).

Before the first batch of a transaction is in a log, its coordinator is asked whether it knows of the partition, or told
of it (producers of transaction.version 2 do not say so themselves): else no marker would ever come, and readers of
committed records would stop there for good. No broker of Moldau coordinates transactions. Markers are written by
``api/k27_write_txn_markers.py``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from moldau.broker.loop import sleep
from moldau.broker.metadata.undecided import Undecided
from moldau.broker.replicas.deps import ReplicaManagerDeps
from moldau.broker.replicas.replica import Key, Replica
from moldau.client.lines import Line, UnsupportedApi
from moldau.groups import partition_for
from moldau.image import Image, Partition
from moldau.model import Code, TopicPartition
from moldau.model.named import NamedTuple
from moldau.wire.batch import BatchHeader
from moldau.wire.codec import Malformed
from moldau.wire.messages.k24_add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

STATE = "__transaction_state"
TELLS_SINCE = 12
"""The first version of Produce whose client leaves it to the leader to add partitions (transaction.version 2)."""
ABORTABLE_SINCE = 11
"""The first whose client understands TRANSACTION_ABORTABLE."""
RETRY = "add.partitions.to.txn.retry.backoff.ms"
RETRY_MAX = "add.partitions.to.txn.retry.backoff.max.ms"
VERIFICATION = "transaction.partition.verification.enable"
WAITING_BYTES_MAX = 32 << 20
"""Bytes of requests that wait for coordinators, of the whole broker."""
REQUEST_BYTES = 4096
"""What a waiting request takes beside its records, generously."""
_UNKNOWN = frozenset({
    Code.CONCURRENT_TRANSACTIONS, Code.NETWORK_EXCEPTION, Code.COORDINATOR_LOAD_IN_PROGRESS,
    Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR, Code.REQUEST_TIMED_OUT,
})  # fmt: skip
"""What a producer is told as NOT_ENOUGH_REPLICAS, upon which every client tries again."""


class ReplicaContext(Protocol):
    """The broker's replicas, as this needs them."""

    @property
    def deps(self) -> ReplicaManagerDeps: ...

    @property
    def me(self) -> int: ...

    @property
    def image(self) -> Image: ...

    @property
    def undecided(self) -> Undecided: ...


def is_coordinated_elsewhere(replicas: ReplicaContext, transactional_id: str) -> bool:
    """Whether the partition of a transactional id is led by another broker, or by none now."""
    partition = _partition_of(replicas, transactional_id)
    return partition is not None and partition.leader != replicas.me


def _partition_of(replicas: ReplicaContext, transactional_id: str) -> Partition | None:
    """The partition that has the state of a transactional id; None while there is none."""
    topic = replicas.image.topic(STATE)
    if topic is None:
        return None
    partitions = replicas.undecided.whole(topic).partitions
    return partitions.get(partition_for(transactional_id, len(partitions)))


class Producing(NamedTuple):
    """Who produces, by its own words, and with which version of Produce."""

    transactional_id: str
    producer_id: int
    epoch: int
    version: int


class TransactionVerdict(NamedTuple):
    """Whether a batch may begin the producer's transaction in a partition, and why not."""

    code: Code
    why: str = ""


ALLOWED = TransactionVerdict(Code.NONE)
LED_ANEW = TransactionVerdict(Code.NOT_LEADER_OR_FOLLOWER, "another leader epoch began while the coordinator was asked")
NO_COORDINATOR = TransactionVerdict(Code.INVALID_TXN_STATE, "this cluster has no transaction coordinator")
MOVED_ON = TransactionVerdict(Code.INVALID_TXN_STATE, "the transaction has ended while its coordinator was asked")


class ExaminedPartition(NamedTuple):
    """A partition about which a coordinator is asked, as it was then."""

    leader_epoch: int
    markers: int


class Transactions:
    """The transactional producers that write to one broker. ``waiting_bytes`` counts batches whose coordinators are
    being asked."""

    def __init__(self, manager: ReplicaContext) -> None:
        self._manager = manager
        self._lines: dict[int, asyncio.Task[Line]] = {}
        self._turns: dict[str, asyncio.Future[None]] = {}
        self._asked: dict[tuple[Key, int], list[int]] = {}
        """How many markers of a producer a partition has got while its coordinator is asked, and how many ask."""
        self.waiting_bytes = 0

    def hold(self, size: int) -> bool:
        """Count a request of so many bytes that is to wait; False when there are too many already."""
        if self.waiting_bytes + size > WAITING_BYTES_MAX:
            return False
        self.waiting_bytes += size
        return True

    def release(self, size: int) -> None:
        """It waits no longer."""
        self.waiting_bytes -= size

    # ---- the order of a producer's requests

    def turn_of(self, transactional_id: str) -> asyncio.Future[None] | None:
        """What the producer's next batches have to wait for: an earlier request of its own."""
        return self._turns.get(transactional_id)

    def take_turn(self, transactional_id: str) -> asyncio.Future[None]:
        """Have later requests of the producer wait until ``end_turn`` of this."""
        turn = self._turns[transactional_id] = asyncio.get_running_loop().create_future()
        return turn

    def end_turn(self, transactional_id: str, turn: asyncio.Future[None]) -> None:
        """The request's batches are in the logs, or refused."""
        if self._turns.get(transactional_id) is turn:
            del self._turns[transactional_id]
        turn.set_result(None)

    # ---- whether a transaction is known

    @staticmethod
    def begins(replica: Replica, header: BatchHeader) -> bool:
        """Whether the batch would be the first of its transaction in the partition. LogError."""
        known = replica.log.producers.get(header.producer_id)
        return known is None or known.txn_first_offset < 0 or known.epoch != header.producer_epoch

    def begin(self, replica: Replica, producer_id: int) -> ExaminedPartition:
        """A coordinator is about to be asked; to be given to ``holds``, and to ``end``."""
        asked = self._asked.setdefault((replica.key, producer_id), [0, 0])
        asked[1] += 1
        return self.renewed(replica, producer_id)

    def renewed(self, replica: Replica, producer_id: int) -> ExaminedPartition:
        """A coordinator that was asked already is asked again: what has ended up to now was another transaction."""
        return ExaminedPartition(replica.machine.leader_epoch, self._asked[replica.key, producer_id][0])

    def holds(self, replica: Replica, producer_id: int, begun: ExaminedPartition) -> TransactionVerdict:
        """``ALLOWED`` if the partition is as it was then. Upon ``LED_ANEW`` clients try again, and the coordinator is
        asked again: another leader may have had a marker meanwhile. ``MOVED_ON`` ends a producer's life."""
        if replica.machine.leader_epoch != begun.leader_epoch:
            return LED_ANEW
        asked = self._asked.get((replica.key, producer_id), [begun.markers, 0])
        return ALLOWED if asked[0] == begun.markers else MOVED_ON

    def end(self, replica: Replica, producer_id: int) -> None:
        """The batch is in the log, or refused."""
        asked = self._asked[replica.key, producer_id]
        asked[1] -= 1
        if not asked[1]:
            del self._asked[replica.key, producer_id]

    def marked(self, replica: Replica, producer_id: int) -> None:
        """A marker of the producer is in the log."""
        asked = self._asked.get((replica.key, producer_id))
        if asked is not None:
            asked[0] += 1

    async def add_or_verify(
        self, who: Producing, partitions: Sequence[TopicPartition], again: Callable[[], object]
    ) -> dict[TopicPartition, TransactionVerdict]:
        """What the coordinator of the transaction says of each partition; ``again`` is called before it is asked once
        more."""
        deps, verdicts = self._manager.deps, dict[TopicPartition, TransactionVerdict]()
        if who.version < TELLS_SINCE and not deps.config[VERIFICATION]:
            return dict.fromkeys(partitions, TransactionVerdict(Code.NONE))
        clock = deps.world.clock
        until_ms, rest = clock.monotonic_ms() + deps.config[RETRY_MAX], list(partitions)
        while rest:
            found = await self._add_or_verify_once(who, rest)
            verdicts.update(found)
            ends = [one for one, verdict in found.items() if verdict.code is Code.CONCURRENT_TRANSACTIONS]
            if not ends or who.version < TELLS_SINCE or clock.monotonic_ms() >= until_ms:
                break
            rest = ends
            await sleep(deps.world.tasks, deps.config[RETRY])
            again()
        return {partition: _told(verdict) for partition, verdict in verdicts.items()}

    async def _add_or_verify_once(
        self, who: Producing, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, TransactionVerdict]:
        def all_of(code: Code, why: str = "") -> dict[TopicPartition, TransactionVerdict]:
            return dict.fromkeys(partitions, TransactionVerdict(code, why))

        leader = self._coordinator(who.transactional_id)
        if leader is None:
            return dict.fromkeys(partitions, NO_COORDINATOR)
        request = AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
                    transactional_id=who.transactional_id,
                    producer_id=who.producer_id,
                    producer_epoch=who.epoch,
                    verify_only=who.version < TELLS_SINCE,
                    topics=_by_topic(partitions),
                )
            ]
        )
        highest = 5 if who.version >= ABORTABLE_SINCE else 4
        try:
            line = await self._line(leader)
            version = line.version_for(AddPartitionsToTxnRequest, highest)
            if version < 4:
                return dict.fromkeys(partitions, NO_COORDINATOR)
            answer: AddPartitionsToTxnResponse = await line.ask(request, version=version)
        except (UnsupportedApi, Malformed):
            return dict.fromkeys(partitions, NO_COORDINATOR)
        except OSError as error:
            return all_of(Code.COORDINATOR_NOT_AVAILABLE, str(error))
        if answer.error_code != Code.NONE:
            return all_of(Code(answer.error_code))
        found = all_of(Code.COORDINATOR_NOT_AVAILABLE, "the coordinator did not say")
        for transaction in answer.results_by_transaction:
            for topic in transaction.topic_results:
                for part in topic.results_by_partition:
                    partition = TopicPartition(topic.name, part.partition_index)
                    if partition in found:
                        found[partition] = TransactionVerdict(Code(part.partition_error_code))
        return found

    def _coordinator(self, transactional_id: str) -> int | None:
        """The broker that coordinates the producer's transactions, -1 while there is none; None: no broker can."""
        if self._manager.image.topic(STATE) is None:
            return None
        partition = _partition_of(self._manager, transactional_id)
        leader = -1 if partition is None else partition.leader
        return None if leader == self._manager.me else leader

    async def _line(self, broker_id: int) -> Line:
        """The connection to a coordinator; one attempt to make it serves everybody who waits for it."""
        made = self._lines.get(broker_id)
        if made is None or (made.done() and (made.cancelled() or made.exception() or made.result().closed)):
            made = self._lines[broker_id] = asyncio.ensure_future(self._connect(broker_id))
        return await asyncio.shield(made)

    async def _connect(self, broker_id: int) -> Line:
        deps = self._manager.deps
        broker = self._manager.image.brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoint(deps.config.inter_broker_listener)
        if endpoint is None:
            raise ConnectionError(f"broker {broker_id}, which coordinates the transaction, is not there")
        return await deps.connect(endpoint.host, endpoint.port)

    def stop(self) -> None:
        """Hang up."""
        for made in self._lines.values():
            if not made.done():
                made.cancel()
            elif not made.cancelled() and made.exception() is None:
                made.result().close()
        self._lines.clear()


def _told(verdict: TransactionVerdict) -> TransactionVerdict:
    """The verdict in a form that producers know what to do about."""
    if verdict.code not in _UNKNOWN:
        return verdict
    why = f"it could not be verified that the partition is in the transaction: {verdict.code.name} {verdict.why}"
    return TransactionVerdict(Code.NOT_ENOUGH_REPLICAS, why.rstrip())


def _by_topic(partitions: Iterable[TopicPartition]) -> list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic]:
    topics: dict[str, list[int]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition.partition)
    return [
        AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=name, partitions=numbers)
        for name, numbers in topics.items()
    ]
