"""Produce requests that begin a transaction in a partition: the coordinator is asked before anything is appended.

Requests of one producer stay in order meanwhile, and what a marker has ended while the coordinator was asked is not
begun again. Read next: ``broker/replicas/transactions.py``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator

from moldau.broker.loop import Pace, run_in_slices
from moldau.broker.replicas.manager import ReplicaManager
from moldau.broker.replicas.replica import Key, Replica
from moldau.broker.replicas.transactions import (
    ALLOWED,
    MOVED_ON,
    REQUEST_BYTES,
    ExaminedPartition,
    Producing,
    TransactionVerdict,
)
from moldau.model import Code, TopicPartition
from moldau.model.named import NamedTuple
from moldau.storage import LogError
from moldau.wire.batch import HEADER_SIZE, BatchHeader, read_header
from moldau.wire.messages.k00_produce import ProduceRequest

BUSY = TransactionVerdict(Code.NOT_ENOUGH_REPLICAS, "too many batches wait for transaction coordinators")
ANOTHER = TransactionVerdict(Code.INVALID_PRODUCER_ID_MAPPING, "a transactional request has one producer id and epoch")
BYTES_AT_COST = 1 << 15
"""So many bytes that are copied count as one partition of a step."""
Find = Callable[[ProduceRequest.TopicProduceData, int], Replica | Code]


class Beginning(NamedTuple):
    """A partition in which a batch begins a transaction."""

    replica: Replica
    header: BatchHeader
    part: ProduceRequest.PartitionProduceData


class Permits:
    """What may be appended of one transactional request."""

    def __init__(self, replicas: ReplicaManager, request: ProduceRequest, version: int, find: Find) -> None:
        self._transactions, self._world = replicas.transactions, replicas.deps.world
        self._request = request
        self._version = version
        self._find = find
        self._verdicts: dict[Key, TransactionVerdict] = {}
        self._begun: dict[Key, tuple[Replica, int, ExaminedPartition]] = {}
        self._size = 0
        self._is_refused = False

    def has_to_wait_in_slices(self) -> Generator[None, None, bool]:
        """Whether a coordinator has to be asked, or an earlier request of the producer waits for one. With pauses, if
        the request is long."""
        id = self._request.transactional_id
        return (id is not None and self._transactions.turn_of(id) is not None) or bool((yield from self._beginnings()))

    def _beginnings(self) -> Generator[None, None, list[Beginning]]:
        found, pace = [], Pace(self._world.step)
        for data in self._request.topic_data:
            for part in data.partition_data:
                if pace.spent(1):
                    yield
                replica = self._find(data, part.index)
                if isinstance(replica, Code) or not part.records or len(part.records) < HEADER_SIZE:
                    continue
                header = read_header(part.records)
                try:
                    if _is_of_transaction(header) and self._transactions.begins(replica, header):
                        found.append(Beginning(replica, header, part))
                except LogError:
                    continue  # the append tells
        return found

    def hold_in_slices(self) -> Generator[None, None, bool]:
        """Have the request's records stay as they are while it waits; False when there is no room for more of those,
        and nothing of it may be appended. To be done before the handler has returned, for the records are the
        connection's; with pauses, if the request is long."""
        parts = [part for data in self._request.topic_data for part in data.partition_data]
        size = REQUEST_BYTES + sum(len(part.records) for part in parts if part.records is not None)
        self._is_refused = not self._transactions.hold(size)
        if self._is_refused:
            return False
        self._size, pace = size, Pace(self._world.step)
        try:
            for part in parts:
                if part.records is not None:
                    part.records, part.records_at = memoryview(bytearray(part.records)), 0
                if pace.spent(1 + len(part.records or b"") // BYTES_AT_COST):
                    yield
        except GeneratorExit:  # the client is gone
            self.over()
            raise
        return True

    async def verify(self) -> asyncio.Future[None]:
        """Have the coordinator add or verify the partitions, after the producer's earlier requests. Return the turn to
        be given to ``appended``."""
        transactions, id = self._transactions, self._request.transactional_id
        assert id is not None, "a transactional request"
        earlier, turn = transactions.turn_of(id), transactions.take_turn(id)
        try:
            if earlier is not None:
                await asyncio.wait([earlier])
            await self._verify(id)
        except BaseException:
            self.over()
            transactions.end_turn(id, turn)
            raise
        return turn

    async def _verify(self, id: str) -> None:
        found = await run_in_slices(self._world.tasks, self._beginnings())
        if not found:
            return
        first = found[0].header
        who = Producing(id, first.producer_id, first.producer_epoch, self._version)
        asked: dict[TopicPartition, Replica] = {}
        for replica, header, _ in found:
            if (header.producer_id, header.producer_epoch) != (who.producer_id, who.epoch):
                self._verdicts[replica.key] = ANOTHER
            elif replica.key not in self._begun:  # also of a partition that is named twice: each is ended once
                asked[replica.partition] = replica
                begun = self._transactions.begin(replica, who.producer_id)
                self._begun[replica.key] = replica, who.producer_id, begun
        for partition, verdict in (await self._transactions.add_or_verify(who, list(asked), self._renew)).items():
            self._verdicts[asked[partition].key] = verdict

    def _renew(self) -> None:
        for key, (replica, producer_id, _) in self._begun.items():
            self._begun[key] = replica, producer_id, self._transactions.renewed(replica, producer_id)

    def appended(self, turn: asyncio.Future[None]) -> None:
        """All that could be appended at once is: the producer's next request may be."""
        assert self._request.transactional_id is not None, "a transactional request"
        self._transactions.end_turn(self._request.transactional_id, turn)

    def over(self) -> None:
        """Nothing more of it will be appended."""
        self._transactions.release(self._size)
        self._size = 0
        for replica, producer_id, _ in self._begun.values():
            self._transactions.end(replica, producer_id)
        self._begun.clear()

    def verdict(self, replica: Replica, header: BatchHeader) -> TransactionVerdict:
        """``ALLOWED`` when a batch may be appended now, else what its producer is told. LogError."""
        if not _is_of_transaction(header):
            return ALLOWED
        if self._is_refused:
            return BUSY
        verdict = self._verdicts.get(replica.key)
        if verdict is not None and verdict.code is not Code.NONE:
            return verdict
        if not self._transactions.begins(replica, header):
            return ALLOWED
        begun = self._begun.get(replica.key)
        if verdict is None or begun is None:
            return MOVED_ON
        return self._transactions.holds(replica, begun[1], begun[2])


def _is_of_transaction(header: BatchHeader) -> bool:
    return header.is_transactional and not header.is_control
