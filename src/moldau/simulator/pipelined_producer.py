"""A producer of the kind that others' clients are: idempotent, with up to five requests under way on each connection.

Decides which batch leaves when. Those of a partition leave in the order of their sequence numbers, which they keep;
one that was refused for the moment, or lost with its connection, goes back to its place in the queue, and none behind
it leaves before it. Two kinds, by seed. Java's (RecordAccumulator.shouldStopDrainBatchesForPartition): a request has a
batch of each partition, and one that was sent before leaves again only as the oldest without an answer. librdkafka's
(rd_kafka_toppar_producer_serve, rd_kafka_handle_Produce): a request has one partition, those sent before leave as any
others do, and an answer for a batch counts for those before it. Neither waits for what is under way to an old leader
before it sends newer batches to the next one; but of one partition no more than five are without an answer, since a
leader knows no more of them again. Read next: load.py, laws/sequences.py.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Iterable
from contextlib import suppress
from typing import NamedTuple

from moldau.client.lines import Line
from moldau.client.writing import BatchOutcome, names_of, produce_request, producer_id, read_written
from moldau.history.rows import INFO, OK, Send
from moldau.model import Code, TopicPartition
from moldau.simulator.cluster import SimCluster
from moldau.simulator.laws.sequences import OUT_OF_ORDER, Attempt, wrong_order, wrong_refusal
from moldau.simulator.load import EXPECTED_ERRORS, TopicWriter
from moldau.simulator.plan import TopicPlan
from moldau.wire.batch import Builder
from moldau.wire.messages.k00_produce import ProduceRequest, ProduceResponse

IN_FLIGHT_MAX = 5
SENDS_MAX = 1_000
WAITING_MAX = 40
"""Records of one partition that no batch has yet: more are not made."""
BACKOFF_MS, SPREAD_MS = 80, 40
DONE = (Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER)
NEWEST = 12
"""The version of Produce that is sent: later versions name topics by id."""


class SequencedBatch:
    """Records of one partition: the numbers of their sends, the newest timestamp, the last attempt to write them."""

    __slots__ = ("attempt", "data", "newest_ms", "numbers", "sequence")

    def __init__(self, numbers: list[int], sequence: int, data: bytes, newest_ms: int) -> None:
        self.numbers, self.sequence, self.data, self.newest_ms = numbers, sequence, data, newest_ms
        self.attempt: Attempt | None = None


class PartitionQueue:
    """One partition: ``waiting`` records, then batches without an answer, the oldest first; ``back`` are those of them
    that are to be sent again."""

    def __init__(self, target: TopicPartition) -> None:
        self.target = target
        self.waiting: deque[int] = deque()
        self.unanswered: list[SequencedBatch] = []
        self.back: list[SequencedBatch] = []
        self.next_sequence = 0
        self.held_until_s = 0.0


class SentRequest(NamedTuple):
    """A request under way: its batches, the names by which its answer is read, and the answer."""

    parts: dict[TopicPartition, SequencedBatch]
    names: dict[bytes, str]
    answer: Awaitable[ProduceResponse]


class ProducerConnection:
    """A connection to a leader, and the requests that are under way on it in their order."""

    def __init__(self, line: Line, leader: int) -> None:
        self.line, self.leader = line, leader
        self.is_heard = False
        self.requests: deque[SentRequest] = deque()


class PipelinedProducer(TopicWriter):
    """One such producer after the other, which never give up. ``pipelined`` counts batches sent behind another."""

    def __init__(self, cluster: SimCluster, name: str, topic: TopicPlan) -> None:
        super().__init__(cluster, name, topic)
        self.is_java = self.rng.random() < 0.5
        self.pipelined = 0
        self._records_max = self.rng.choice((1, 1, 3))
        self._timeout_ms = self.rng.choice((2_000, 8_000, 30_000))
        self._highest = self.rng.choice((None, NEWEST))
        self._queues = [PartitionQueue(TopicPartition(topic.name, number)) for number in range(topic.partitions)]
        self._connections: dict[int, ProducerConnection] = {}
        self._connecting: set[int] = set()
        self._identity = (-1, -1)
        self._is_learning = self._is_refused = self._is_over = False

    async def write(self) -> None:
        """Send in bursts until ``going`` is False, then wait for every answer; now and then do so under another id."""
        pace_s, session_s = self.rng.choice((0.1, 0.3, 0.6)), self.rng.choice((0.3, 1, 5, 1_000))
        while self.going and not self._is_over:
            await self._begin()
            until_s = self.cluster.loop.time() + session_s * (0.5 + self.rng.random())
            while self.going and not self._is_refused and self.cluster.loop.time() < until_s:
                for _ in range(self.rng.randint(1, 10)):
                    self._add(self.rng.choice(self._queues))
                self._send()
                await asyncio.sleep(pace_s * (0.5 + self.rng.random()))
            while any(queue.unanswered or queue.waiting for queue in self._queues):  # noqa: ASYNC110  # virtual time
                await asyncio.sleep(0.1)

    async def _begin(self) -> None:
        """Have a producer id that no log knows, and know the topic."""
        self._identity, self._is_refused = (-1, -1), False
        while self._identity[0] < 0 or self.topic.name not in self.client.view.topics:
            try:
                await self.client.know([self.topic.name], grace=True)
                self._identity = await producer_id(self.client)
            except EXPECTED_ERRORS:
                await asyncio.sleep(0.1)
        for queue in self._queues:
            queue.next_sequence = 0

    def _add(self, queue: PartitionQueue) -> None:
        if len(self.sends) >= SENDS_MAX or len(queue.waiting) >= WAITING_MAX:
            return
        number = len(self.sends)
        self.sends.append(Send(self.name, number, queue.target.partition, f"{self.name}-{number}", self.now_ns))
        queue.waiting.append(number)

    # -- what leaves

    def _send(self) -> None:
        """Send what may leave now."""
        now_s = self.cluster.loop.time()
        while ready := [queue for queue in self._queues if queue.held_until_s <= now_s and self._may_leave(queue)]:
            by_leader: dict[int, list[PartitionQueue]] = {}
            for queue in ready:
                leader = self.client.view.leader(queue.target)
                if leader is None:
                    self._hold(queue)
                else:
                    by_leader.setdefault(leader, []).append(queue)
            if not [leader for leader, queues in by_leader.items() if self._send_to(leader, queues)]:
                return

    def _may_leave(self, queue: PartitionQueue) -> bool:
        """Whether the partition has a batch that may be sent: one that was sent before comes before all new ones."""
        if queue.back:
            return not self.is_java or queue.back[0] is queue.unanswered[0]
        return bool(queue.waiting) and len(queue.unanswered) < IN_FLIGHT_MAX

    def _send_to(self, leader: int, queues: list[PartitionQueue]) -> bool:
        """Send a request with the next batch of each partition, or of one; whether there was a connection for it."""
        connection = self._connections.get(leader)
        if connection is None or connection.line.closed:
            if leader not in self._connecting:
                self._connecting.add(leader)
                self.world.tasks.spawn(self._connect(leader, queues), "connect")
            return False
        if len(connection.requests) >= IN_FLIGHT_MAX:
            return False
        parts = {queue.target: self._next(queue, connection) for queue in (queues if self.is_java else queues[:1])}
        request, highest = produce_request(
            self.client, [(target, batch.data) for target, batch in parts.items()], -1, self._timeout_ms
        )
        version = connection.line.version_for(ProduceRequest, self._highest if highest is None else highest)
        answer = connection.line.ask(request, version=version, timeout_ms=self._timeout_ms + 3_000)
        connection.requests.append(SentRequest(parts, names_of(request), answer))
        if not connection.is_heard:
            connection.is_heard = True
            self.world.tasks.spawn(self._hear(connection), "answers")
        return True

    def _next(self, queue: PartitionQueue, connection: ProducerConnection) -> SequencedBatch:
        if queue.back:
            batch = queue.back.pop(0)
        else:
            numbers = [queue.waiting.popleft() for _ in range(min(self._records_max, len(queue.waiting)))]
            builder = Builder()
            newest_ms = self.world.clock.wall_ms()
            for number in numbers:
                builder.append(newest_ms, None, self.sends[number].value.encode())
            id, epoch = self._identity
            data = builder.finish(producer_id=id, producer_epoch=epoch, base_sequence=queue.next_sequence)
            batch = SequencedBatch(numbers, queue.next_sequence, data, newest_ms)
            queue.next_sequence += len(numbers)
            self.pipelined += bool(queue.unanswered)
            queue.unanswered.append(batch)
        batch.attempt = Attempt(connection.line, self.now_ns, leader=connection.leader)
        return batch

    async def _connect(self, leader: int, queues: list[PartitionQueue]) -> None:
        try:
            self._connections[leader] = ProducerConnection(await self.client.line(leader, "produce"), leader)
        except EXPECTED_ERRORS:
            for queue in queues:
                self._hold(queue)
        finally:
            self._connecting.discard(leader)
        self._send()

    # -- what comes back

    async def _hear(self, connection: ProducerConnection) -> None:
        """Take the answers on a connection in their order, while requests are under way."""
        while connection.requests:
            parts, names, answer = connection.requests[0]
            told: dict[TopicPartition, BatchOutcome] = {}
            with suppress(OSError):
                told = read_written(await answer, names)
            connection.requests.popleft()
            for queue in self._queues:
                if queue.target in parts:
                    lost = BatchOutcome(Code.NETWORK_EXCEPTION)
                    self._take(queue, parts[queue.target], told.get(queue.target, lost))
            self._send()
        connection.is_heard = False

    def _take(self, queue: PartitionQueue, batch: SequencedBatch, written: BatchOutcome) -> None:
        if batch not in queue.unanswered or batch in queue.back:  # counted as written with one behind it
            return
        at = queue.unanswered.index(batch)
        if written.code in DONE:
            if not self.is_java:
                for one in queue.unanswered[:at]:
                    self._settle(queue, one, BatchOutcome(Code.NONE))
            self._settle(queue, batch, written)
            return
        assert batch.attempt is not None, "it was sent"
        batch.attempt = batch.attempt.refused(written.code, self.now_ns)
        if not self._may_go_back(queue, at, written.code):
            self._end_session()
            return
        queue.back.append(batch)
        queue.back.sort(key=lambda one: one.sequence)
        self._hold(queue)

    def _may_go_back(self, queue: PartitionQueue, at: int, code: Code) -> bool:
        """Whether such a client sends a refused batch again as it is. For a refusal that it must not be given it goes
        on under another epoch, and this one is over: what it has under way to other partitions it would write again."""
        batch = queue.unanswered[at]
        assert batch.attempt is not None, "it was sent"
        ahead = queue.unanswered[at - 1].attempt if at else None
        wrong = (
            wrong_order(ahead, batch.attempt) if code in OUT_OF_ORDER else wrong_refusal(code, self._ahead_ms(batch))
        )
        if wrong and queue.target not in self.cluster.unclean:
            self.cluster.violated(
                f"S16: {queue.target}, sequence {batch.sequence} of {self.name}, {code.name}: {wrong}"
            )
        self._is_over |= bool(wrong)
        return not wrong and (code in OUT_OF_ORDER or code.retriable)

    def _ahead_ms(self, batch: SequencedBatch) -> int:
        """How far a refused batch was ahead of its leader's clock, at most, while it was under way."""
        assert batch.attempt is not None, "it was sent"
        clock = self.cluster.hosts[batch.attempt.leader].clock
        return batch.newest_ms - clock.earliest_wall_ms(batch.attempt.sent_ns / 1e9)

    def _end_session(self) -> None:
        """Send nothing more under this producer id, and give up what has no answer."""
        self._is_refused = True
        for one in self._queues:
            self._give_up(number for unanswered in one.unanswered for number in unanswered.numbers)
            self._give_up(one.waiting)
            one.unanswered, one.back, one.waiting = [], [], deque()

    def _give_up(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.sends[number] = self.sends[number]._replace(complete_ns=self.now_ns, outcome=INFO, error="given up")

    def _settle(self, queue: PartitionQueue, batch: SequencedBatch, written: BatchOutcome) -> None:
        queue.unanswered.remove(batch)
        if batch in queue.back:
            queue.back.remove(batch)
        for index, number in enumerate(batch.numbers):
            offset = written.base_offset + index if written.base_offset >= 0 else -1
            self.sends[number] = self.sends[number]._replace(complete_ns=self.now_ns, outcome=OK, offset=offset)

    def _hold(self, queue: PartitionQueue) -> None:
        """Hold a partition back for a moment, and ask who leads it meanwhile."""
        pause_ms = BACKOFF_MS + self.rng.randrange(SPREAD_MS)
        queue.held_until_s = self.cluster.loop.time() + pause_ms / 1000
        self.world.tasks.call_later(pause_ms + 1, self._send)
        if not self._is_learning:
            self._is_learning = True
            self.world.tasks.spawn(self._learn(), "leaders")

    async def _learn(self) -> None:
        with suppress(*EXPECTED_ERRORS):
            await self.client.refresh([self.topic.name])
        self._is_learning = False
        self._send()
