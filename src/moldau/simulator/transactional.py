"""Transactional producers, each with the coordinator of its transactions, and readers of what is committed.

The coordinator is not a broker: no simulated broker coordinates transactions. It does what Apache Kafka's does to those
that lead partitions: it decides once, then writes the markers until each is acknowledged, and does so again when
another coordinator takes over, under a higher coordinator epoch. A transaction of which a batch has no answer is
aborted under the next producer epoch, so that the batch is refused should it still come; with ``transaction.version`` 2
(half of the producers) every transaction ends under the next epoch. Sources: KIP-98, KIP-360, KIP-890. Read next:
laws/transactions.py.
"""

from __future__ import annotations

import asyncio
from typing import Any

from moldau.client.consumer import Chunk
from moldau.client.reading import LATEST, READ_COMMITTED, list_offsets
from moldau.client.writing import BatchOutcome, names_of, produce_request, producer_id, read_written
from moldau.history.rows import is_tombstone, key_of
from moldau.model import Code, TopicPartition
from moldau.simulator.cluster import SimCluster
from moldau.simulator.cluster_observer import ClusterObserver
from moldau.simulator.laws.reads import ReadLaws
from moldau.simulator.laws.transactions import CommittedView, SimulatedTransaction, TransactionLaws
from moldau.simulator.load import EXPECTED_ERRORS, TEXT, TOMBSTONES, Actor, SimulatedProducer, SimulatedReader
from moldau.simulator.plan import TopicPlan
from moldau.wire.batch import Builder
from moldau.wire.messages.k00_produce import ProduceRequest
from moldau.wire.messages.k27_write_txn_markers import WriteTxnMarkersRequest

UNTOLD = 11
"""The highest version of Produce whose leaders add no partitions by themselves."""
TIMEOUT_MS = 4_000
AGAIN_S = 0.1
MAX = 300
"""Transactions of one producer."""
WRITTEN = (Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER)
PASSING = (Code.INVALID_TXN_STATE, Code.INVALID_TIMESTAMP)
"""Refusals upon which a producer aborts: a marker came in between, or the leader's clock is far behind."""


class TransactionalProducer(Actor):
    """One transactional id, and its coordinator. It never gives up what it has decided."""

    def __init__(self, cluster: SimCluster, name: str, topic: TopicPlan, laws: TransactionLaws) -> None:
        super().__init__(cluster, name)
        self.topic, self.laws = topic, laws
        self.transactions: list[SimulatedTransaction] = []
        self._has_own_epochs = self.rng.random() < 0.5
        self._pace_s = self.rng.choice((0.05, 0.3, 1.0))
        self._identity = (-1, -1)
        self._coordinator_epoch = 0
        self._sequences: dict[int, int] = {}
        self._count = 0
        self._is_doubtful = False
        """Whether a marker of the present transaction may still be on its way."""

    async def write(self) -> None:
        """One transaction after the other until ``going`` is False; the last one is ended too."""
        while self._identity[0] < 0 or self.topic.name not in self.client.view.topics:
            try:
                await self.client.know([self.topic.name], grace=True)
                self._identity = await producer_id(self.client)
            except EXPECTED_ERRORS:
                await asyncio.sleep(AGAIN_S)
        while self.going:
            if len(self.transactions) < MAX:
                await self._transact()
            await asyncio.sleep(self._pace_s * (0.5 + self.rng.random()))

    async def _transact(self) -> None:
        one = SimulatedTransaction(f"{self.name}#{len(self.transactions)}")
        self.transactions.append(one)
        self.laws.began(one)
        whole = True
        for _ in range(self.rng.randint(1, 4)):
            whole = await self._append(one, self.rng.randrange(self.topic.partitions))
            if not whole:
                break
            await asyncio.sleep(self.rng.choice((0, 0, 0.1, 0.5)))
        if self.rng.random() < 0.1:
            await asyncio.sleep(self.rng.choice((1.0, 5.0)))
        decision = whole and self.rng.random() < 0.6
        one.committed = decision
        self.cluster.hash_event(f"{one.name} is {'committed' if decision else 'aborted'}")
        await self._end(one, bumps=self._has_own_epochs or not whole)

    # ---- the producer

    async def _append(self, one: SimulatedTransaction, number: int) -> bool:
        """Send a batch until it is acknowledged; False when that took too long, or it is refused."""
        texts = [self._text() for _ in range(self.rng.choice((1, 1, 3)))]
        self.laws.writes(one, texts)
        one.partitions.add(number)
        target, data = TopicPartition(self.topic.name, number), self._batch(number, texts)
        until_s = self.cluster.loop.time() + self.rng.choice((1, 6, 20))
        while True:
            written = await self._produce(target, data)
            if written.code in WRITTEN:
                self._sequences[number] = self._sequences.get(number, 0) + len(texts)
                if written.base_offset >= 0:
                    one.records |= {(number, written.base_offset + at): text for at, text in enumerate(texts)}
                return True
            if not written.code.retriable:
                if written.code not in PASSING:
                    self.cluster.violated(f"S16: {target}, {one.name} is told {written.code.name}")
                return False
            if self.cluster.loop.time() >= until_s:
                return False
            await self._pause()

    def _text(self) -> str:
        self._count += 1
        text = f"{self.name}-{self._count}"
        if not self.topic.keys:
            return text
        return f"k{self.rng.randrange(self.topic.keys)}{'~' if self.rng.random() < TOMBSTONES else '='}{text}"

    def _batch(self, number: int, texts: list[str]) -> bytes:
        builder, (id, epoch) = Builder(), self._identity
        for text in texts:
            key, data = key_of(text).encode() if self.topic.keys else None, text.encode()
            if self.topic.keys and is_tombstone(text):
                builder.append(self.world.clock.wall_ms(), key, None, [(TEXT, data)])
            else:
                builder.append(self.world.clock.wall_ms(), key, data)
        sequence = self._sequences.get(number, 0)
        return builder.finish(producer_id=id, producer_epoch=epoch, base_sequence=sequence, transactional=True)

    async def _produce(self, target: TopicPartition, data: bytes) -> BatchOutcome:
        try:
            await self.client.know_leaders([target])
            leader = self.client.view.leader(target)
            if leader is None:
                return BatchOutcome(Code.LEADER_NOT_AVAILABLE)
            line = await self.client.line(leader, "produce")
            request, _ = produce_request(self.client, [(target, data)], -1, TIMEOUT_MS)
            request.transactional_id = self.name
            version = line.version_for(ProduceRequest, UNTOLD)
            answer = await line.ask(request, version=version, timeout_ms=TIMEOUT_MS + 1_000)
            return read_written(answer, names_of(request)).get(target, BatchOutcome(Code.UNKNOWN_SERVER_ERROR))
        except EXPECTED_ERRORS:
            return BatchOutcome(Code.NETWORK_EXCEPTION)

    # ---- the coordinator

    async def _end(self, one: SimulatedTransaction, *, bumps: bool) -> None:
        """Write the markers of what is decided, until all are acknowledged."""
        id, epoch = self._identity
        self._is_doubtful = False
        await self._mark(one, epoch + bumps, bumps=bumps)
        if self.rng.random() < 0.1:  # another coordinator has the decision in its log, and not that it was carried out
            self._coordinator_epoch += 1
            self.laws.coverage.add("another coordinator wrote the markers again")
            await self._mark(one, epoch + bumps, bumps=bumps)
        one.ended = True
        # Under the same epoch a marker that is on its way yet would end the next transaction.
        following = epoch + (bumps or self._is_doubtful)
        if following != epoch:
            self._sequences.clear()
        self._identity = id, following

    async def _mark(self, one: SimulatedTransaction, epoch: int, *, bumps: bool) -> None:
        decision = bool(one.committed)
        await asyncio.gather(*(self._mark_one(number, epoch, decision, bumps) for number in sorted(one.partitions)))

    async def _mark_one(self, number: int, epoch: int, commits: bool, bumps: bool) -> None:
        kind = WriteTxnMarkersRequest
        target = TopicPartition(self.topic.name, number)
        while True:
            marker = kind.WritableTxnMarker(
                producer_id=self._identity[0],
                producer_epoch=epoch,
                transaction_result=commits,
                topics=[kind.WritableTxnMarkerTopic(name=target.topic, partition_indexes=[number])],
                coordinator_epoch=self._coordinator_epoch,
                transaction_version=2 if bumps else 0,
            )
            code = await self._tell(target, kind(markers=[marker]))
            if code is Code.NONE:
                return
            if code in (Code.INVALID_PRODUCER_EPOCH, Code.TRANSACTION_COORDINATOR_FENCED):
                self.cluster.violated(f"L10: {target}, a marker of {self.name} is refused: {code.name}")
                return
            self._is_doubtful = True
            await self._pause()

    async def _tell(self, target: TopicPartition, request: WriteTxnMarkersRequest) -> Code | None:
        """What the leader answers; None where it does not."""
        try:
            await self.client.know_leaders([target])
            leader = self.client.view.leader(target)
            if leader is None:
                return None
            line = await self.client.line(leader, "markers")
            answer = await line.ask(
                request, version=line.version_for(WriteTxnMarkersRequest, None), timeout_ms=TIMEOUT_MS + 1_000
            )
            return Code(answer.markers[0].topics[0].partitions[0].error_code)
        except EXPECTED_ERRORS:
            return None

    async def _pause(self) -> None:
        """Wait a moment, and ask who leads."""
        await asyncio.sleep(AGAIN_S * (0.5 + self.rng.random()))
        try:
            await self.client.refresh([self.topic.name])
        except EXPECTED_ERRORS:
            return


class CommittedReader(SimulatedReader):
    """Reads what is committed; each record is judged as it comes."""

    isolation = READ_COMMITTED

    def __init__(
        self, cluster: SimCluster, name: str, topic: TopicPlan, laws: tuple[ReadLaws, TransactionLaws], rack: str = ""
    ) -> None:
        of_reads, self._laws = laws
        super().__init__(cluster, name, topic, of_reads, rack=rack)

    def _take(self, chunk: Chunk) -> None:
        before = len(self.reads)
        super()._take(chunk)
        for one in self.reads[before:]:
            self._laws.read(one)

    def view(self) -> CommittedView:
        """What it was given up to now."""
        return CommittedView(self.name, self.reads, {n: self.position(n) for n in range(self.topic.partitions)})


class TransactionalLoad:
    """Two transactional producers, one that is idempotent only, and readers of what they commit: one, and one in each
    rack."""

    def __init__(self, cluster: SimCluster, observer: ClusterObserver, topic: TopicPlan, reads: ReadLaws) -> None:
        self._cluster, self._topic = cluster, topic
        self.laws = TransactionLaws(observer, topic)
        self.producers = [TransactionalProducer(cluster, f"{topic.name}.{n}", topic, self.laws) for n in (1, 2)]
        self.plain = SimulatedProducer(cluster, f"{topic.name}.plain", topic)
        self._reader_laws = reads, self.laws
        self.readers = [
            CommittedReader(cluster, f"{topic.name}.reader{f'.{rack}' if rack else ''}", topic, self._reader_laws, rack)
            for rack in ("", *cluster.plan.rack_names)
        ]

    def write(self) -> list[asyncio.Task[Any]]:  # Any: nobody takes their results
        """Begin to write."""
        return [*(one.begin(one.write()) for one in self.producers), self.plain.begin(self.plain.write())]

    def end(self) -> None:
        """Begin nothing more; what was begun is ended."""
        for one in (*self.producers, self.plain):
            one.going = False

    @property
    def decided(self) -> tuple[int, int]:
        """How many transactions were committed, and how many aborted, with records."""
        ended = [one for producer in self.producers for one in producer.transactions if one.ended and one.records]
        committed = sum(bool(one.committed) for one in ended)
        return committed, len(ended) - committed

    async def last_reader(self) -> CommittedReader:
        """A reader that has read all, from the first record to the last stable offset."""
        reader = CommittedReader(self._cluster, f"{self._topic.name}.final", self._topic, self._reader_laws)

        async def read() -> None:
            targets = {TopicPartition(self._topic.name, n): LATEST for n in range(self._topic.partitions)}
            answer = await list_offsets(reader.client, targets, isolation=READ_COMMITTED)
            await reader.read({partition.partition: offset.offset for partition, offset in answer.items()})

        await reader.begin(read())
        return reader
