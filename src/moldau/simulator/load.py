"""The load: clients and what they saw, namely producers, a reader, members of a group. All on one host, by seed.

They use moldau.client and nothing else of the cluster, and never give up on their own. Read next: pipelined_producer.py
(a producer of another kind), administrator.py (what an administrator does meanwhile), laws/rest.py (what is checked).
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from typing import Any

from moldau.client.client import Client, Refused
from moldau.client.consumer import NO_RESET, Chunk, Consumer, ConsumerOptions
from moldau.client.groups import committed
from moldau.client.membership import GroupOptions
from moldau.client.producer import Producer, ProducerOptions
from moldau.client.reading import EARLIEST, READ_UNCOMMITTED
from moldau.client.world_lines import WorldLines
from moldau.history.rows import INFO, OK, Read, Send, is_tombstone, key_of
from moldau.model import Code, TopicPartition
from moldau.simulator.cluster import CLIENTS, SimCluster
from moldau.simulator.disk import SimDisk
from moldau.simulator.laws.reads import ReadLaws
from moldau.simulator.loop import Owner
from moldau.simulator.plan import TopicPlan
from moldau.simulator.ports import SimClock

GROUP = "readers"
SENDS_MAX = 1_500
TOMBSTONES = 0.15
"""The share of a compacted topic's records that have no value."""
KEYED_PACE_S = 0.2
"""Between two records of a compacted topic, in runs where all else is drawn too: more would only cost time."""
TEXT = "text"
"""The header with what a tombstone's value would be, for the checkers."""
EXPECTED_ERRORS = (OSError, Refused)
"""What a client may meet while things break: it tries again."""


class Actor:
    """A client process of its own."""

    def __init__(self, cluster: SimCluster, name: str) -> None:
        self.cluster, self.name = cluster, name
        self.owner = Owner(name)
        self.rng = cluster.stream(name)
        clock = SimClock(cluster.loop)
        self.world = cluster.world(self.owner, CLIENTS, SimDisk(clock.wall_ms), clock)
        self.client = Client(WorldLines(self.world), cluster.bootstrap)
        self.going = True

    def begin(self, work: Any) -> asyncio.Task[Any]:
        """Let it do something, in a life of its own."""
        return self.cluster.loop.create_task(work, context=self.owner.context)

    @property
    def now_ns(self) -> int:
        return int(self.cluster.loop.time() * 1e9)


class TopicWriter(Actor, ABC):
    """One producer session on one topic. Each send is noted as it is answered."""

    def __init__(self, cluster: SimCluster, name: str, topic: TopicPlan) -> None:
        super().__init__(cluster, name)
        self.topic = topic
        self.sends: list[Send] = []

    @abstractmethod
    async def write(self) -> None:
        """Send until ``going`` is False, then wait for every answer."""


class SimulatedProducer(TopicWriter):
    """Writes with moldau.client's producer."""

    async def write(self) -> None:
        """Send until ``going`` is False, then wait for every answer."""
        plan = self.cluster.plan
        options = ProducerOptions(
            acks=self.topic.acks,
            idempotent=self.topic.idempotent,
            linger_ms=self.rng.choice((0, 5, 50)),
            batch_bytes=self.rng.choice((200, 256 << 10)),
            delivery_timeout_ms=plan.delivery_timeout_ms,
        )
        producer = Producer(self.client, options)
        while not await self._knows(producer):  # noqa: ASYNC110  # virtual time: a look costs nothing
            await asyncio.sleep(0.1)
        lanes: list[deque[tuple[int, Any]]] = [deque() for _ in range(self.topic.partitions)]
        tasks = [asyncio.create_task(self._note(lane)) for lane in lanes]
        slow = self.topic.keys and plan.scene is None
        pace_s = KEYED_PACE_S if slow else self.rng.choice((0.02, 0.05, 0.2))
        while self.going:
            if len(self.sends) >= SENDS_MAX:
                await asyncio.sleep(0.2)
                continue
            number = len(self.sends)
            target = self.rng.randrange(self.topic.partitions)
            text = f"{self.name}-{number}"
            if self.topic.keys:
                text = f"k{self.rng.randrange(self.topic.keys)}{'~' if self.rng.random() < TOMBSTONES else '='}{text}"
            self.sends.append(Send(self.name, number, target, text, self.now_ns))
            lanes[target].append((number, self._send(producer, target, text)))
            await asyncio.sleep(pace_s * (0.5 + self.rng.random()))
        for task in tasks:
            await task
        await producer.close()

    def _send(self, producer: Producer, target: int, text: str) -> Any:
        """A record with that text, which names its key where there are keys; a tombstone has it in a header."""
        if not self.topic.keys:
            return producer.send(self.topic.name, text.encode(), partition=target)
        key, data = key_of(text).encode(), text.encode()
        if is_tombstone(text):
            return producer.send(self.topic.name, None, key, partition=target, headers=[(TEXT, data)])
        return producer.send(self.topic.name, data, key, partition=target)

    async def _knows(self, producer: Producer) -> bool:
        try:
            return await producer.prepare(self.topic.name) is Code.NONE
        except EXPECTED_ERRORS:
            return False

    async def _note(self, lane: deque[tuple[int, Any]]) -> None:
        """Answers of one partition come in the order of the sends."""
        while self.going or lane:
            if not lane:
                await asyncio.sleep(0.02)
                continue
            number, delivery = lane[0]
            written = await delivery
            lane.popleft()
            if written.code is Code.NONE:
                change = {"outcome": OK, "offset": written.base_offset}
            else:
                change = {"outcome": INFO, "error": written.code.name}
            self.sends[number] = self.sends[number]._replace(complete_ns=self.now_ns, **change)


class SimulatedReader(Actor):
    """Reads all partitions of a topic from the start, and goes on through everything; in a ``rack``, where leaders send
    it to followers (KIP-392)."""

    isolation = READ_UNCOMMITTED

    def __init__(self, cluster: SimCluster, name: str, topic: TopicPlan, laws: ReadLaws, *, rack: str = "") -> None:
        super().__init__(cluster, name)
        self.topic, self._read_laws = topic, laws
        self.reads: list[Read] = []
        partition_max_bytes = self.rng.choice((500, 1 << 20))
        options = ConsumerOptions(
            reset=NO_RESET, isolation=self.isolation, partition_max_bytes=partition_max_bytes, rack=rack
        )
        self._consumer = Consumer(self.client, options)

    async def read(self, ends: dict[int, int] | None = None) -> None:
        """Read until ``going`` is False; with ``ends``, until they are reached."""
        self._consumer.assign({TopicPartition(self.topic.name, n): 0 for n in range(self.topic.partitions)})
        while self.going and not (ends is not None and self._is_at(ends)):
            try:
                chunks = await self._consumer.poll(500)
            except EXPECTED_ERRORS:
                await asyncio.sleep(0.1)
                continue
            for chunk in chunks:
                self._take(chunk)

    def _take(self, chunk: Chunk) -> None:
        if chunk.fetched.code is Code.OFFSET_OUT_OF_RANGE and chunk.partition in self.cluster.unclean:
            self._consumer.seek(chunk.partition, 0)
        elif chunk.fetched.code is Code.OFFSET_OUT_OF_RANGE:
            self.cluster.violated(f"S7: {self.name} is told that {chunk.partition}@{chunk.offset} is out of range")
        elif chunk.fetched.code is Code.NONE:
            self._read_laws.given(self.name, chunk, self.isolation)
            for record in chunk.records(self.isolation):
                value = dict(record.headers)[TEXT] if record.value is None else record.value
                self.reads.append(
                    Read(self.name, chunk.partition.partition, record.offset, bytes(value or b"").decode())
                )

    def _is_at(self, ends: dict[int, int]) -> bool:
        return all(self.position(number) >= end for number, end in ends.items())

    def position(self, number: int) -> int:
        """The next offset of a partition."""
        return self._consumer.position(TopicPartition(self.topic.name, number))


class Auditor(Actor):
    """Fetches the group's offsets, again and again; ``told`` has (asked ns, partition -> offset)."""

    def __init__(self, cluster: SimCluster, name: str) -> None:
        super().__init__(cluster, name)
        self.told: list[tuple[int, dict[int, int]]] = []

    async def audit(self) -> None:
        """Fetch offsets until ``going`` is False."""
        while self.going:
            await asyncio.sleep(self.rng.choice((0.2, 1.0, 2.0)))
            asked_ns = self.now_ns
            try:
                code, found = await committed(self.client, GROUP)
            except EXPECTED_ERRORS:
                continue
            if code is Code.NONE:
                self.told.append((asked_ns, {at.partition: one.offset for at, one in found.items()}))


class SimulatedMember(Actor):
    """A member of the group: reads its share and commits its positions. ``commits``: (asked ns, answered ns,
    generation, partition, offset) of those that were acknowledged; ``given`` has every offset it was given.
    """

    def __init__(self, cluster: SimCluster, name: str, topic: TopicPlan) -> None:
        super().__init__(cluster, name)
        self.topic = topic
        self.commits: list[tuple[int, int, int, int, int]] = []
        self.given: dict[int, set[int]] = {}
        self.generations: set[int] = set()

    async def consume(self) -> None:
        """Poll and commit until ``going`` is False; now and then leave, and rejoin as another member."""
        while self.going:
            group = GroupOptions(
                group_id=GROUP,
                session_timeout_ms=6_000,
                heartbeat_interval_ms=500,
                rebalance_timeout_ms=10_000,
                assignors=self.cluster.stream("assignor").choice((("range",), ("cooperative-sticky",))),
            )
            options = ConsumerOptions(group=group, reset=EARLIEST, auto_commit_interval_ms=None)
            consumer = Consumer(self.client, options)
            await self._live(consumer, self.cluster.loop.time() + self.rng.choice((5, 20, 1_000)))

    async def _live(self, consumer: Consumer, until_s: float) -> None:
        subscribed = False
        while self.going and self.cluster.loop.time() < until_s:
            try:
                if not subscribed:
                    await consumer.subscribe([self.topic.name])
                    subscribed = True
                for chunk in await consumer.poll(300):
                    if chunk.fetched.code is Code.NONE:
                        found = self.given.setdefault(chunk.partition.partition, set())
                        found.update(record.offset for record in chunk.records())
                await self._commit(consumer)
            except EXPECTED_ERRORS:
                await asyncio.sleep(0.2)
        if self.rng.random() < 0.5 or not self.going:
            try:
                await consumer.close()
            except EXPECTED_ERRORS:
                return

    async def _commit(self, consumer: Consumer) -> None:
        if consumer.member is None:
            return
        generation = consumer.member.identity.generation
        positions = {p: at for p in sorted(consumer.assignment) if (at := consumer.position(p)) >= 0}
        if not positions:
            return
        self.generations.add(generation)
        asked_ns = self.now_ns
        for partition, code in (await consumer.commit(positions)).items():
            if code is Code.NONE:
                self.commits.append((asked_ns, self.now_ns, generation, partition.partition, positions[partition]))
