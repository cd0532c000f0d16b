"""A client that deletes records of a topic that another client writes, while everything breaks, and when all is over.

When all is healed and nothing is written any more, retention has its time, and then the last of each partition is
deleted: that must be done soon, though followers have nothing to fetch (L13). Read next: laws/deletions.py, which says
what must hold of what was deleted.
"""

from __future__ import annotations

import asyncio

from moldau.client.admin import delete_records
from moldau.client.producer import Producer, ProducerOptions
from moldau.history.rows import OK, Send
from moldau.model import Code, TopicPartition
from moldau.simulator.cluster import SimCluster
from moldau.simulator.laws.deletions import DeletionLaws
from moldau.simulator.load import EXPECTED_ERRORS, Actor, SimulatedProducer
from moldau.simulator.plan import TopicPlan

TO_HIGH_WATERMARK = -1
TIMEOUT_MS = 5_000
LAST = 3
"""Records that are written to each partition between its last deletions."""
RETENTION_LOOKS = 2.5
DELETED_LIMIT_S = 30.0


class Deleter(Actor):
    """``writer`` writes what is deleted; ``laws`` hear of each answer."""

    def __init__(self, cluster: SimCluster, topic: TopicPlan, laws: DeletionLaws) -> None:
        super().__init__(cluster, "deleter")
        self.topic, self.laws = topic, laws
        self.writer = SimulatedProducer(cluster, f"{topic.name}.1", topic)
        self.answered = 0

    async def delete(self) -> None:
        """Delete what was written, partition by partition, until ``going`` is False."""
        while self.going:
            await asyncio.sleep(self.rng.choice((0.1, 0.5, 2.0)))
            where = TopicPartition(self.topic.name, self.rng.randrange(self.topic.partitions))
            written = max((one.offset for one in self._acknowledged(where)), default=-1) + 1
            before = TO_HIGH_WATERMARK if self.rng.random() < 0.4 else self.rng.randint(0, written)
            await self._ask(where, before)

    async def end(self) -> None:
        """L13: delete all there is, with nothing written meanwhile; then all but the last records of all."""
        partitions = [TopicPartition(self.topic.name, n) for n in range(self.topic.partitions)]
        plan = self.cluster.plan
        for before_last in (False, True):
            for where in partitions:
                await self._write(where)
            if plan.expires_ms:
                look_ms = int(plan.settings["log.retention.check.interval.ms"])
                await asyncio.sleep((plan.expires_ms + RETENTION_LOOKS * look_ms) / 1000)
            for where in partitions:
                written = max((one.offset for one in self._acknowledged(where)), default=0)
                await self._must_delete(where, written if before_last else TO_HIGH_WATERMARK)

    async def _must_delete(self, where: TopicPartition, before: int) -> None:
        now_s = self.cluster.loop.time
        until_s = now_s() + DELETED_LIMIT_S
        while (told := await self._ask(where, before)) is not Code.NONE:
            if now_s() >= until_s:
                said = "with no answer" if told is None else f"by {told.name}"
                self.cluster.violated(f"L13: {DELETED_LIMIT_S:.0f} s of deleting records of {where} end {said}")
                return
            await asyncio.sleep(0.2)
        if not await self.cluster.until(lambda: not self.laws.lagging(where), DELETED_LIMIT_S):
            self.cluster.violated(f"L13: {DELETED_LIMIT_S:.0f} s after records were deleted {self.laws.lagging(where)}")

    async def _ask(self, where: TopicPartition, before: int) -> Code | None:
        """Delete records once; None where no answer came."""
        self.cluster.record_event(f"records of {where} are deleted below {'all' if before < 0 else before}")
        self.laws.asked(where, before)
        try:
            code, low = (await delete_records(self.client, {where: before}, timeout_ms=TIMEOUT_MS))[where]
        except EXPECTED_ERRORS:
            self.laws.failed(where, before)
            return None
        if code is Code.NONE:
            self.answered += 1
            self.laws.answered(where, before, low)
        else:
            self.laws.failed(where, before)
        return code

    async def _write(self, where: TopicPartition) -> None:
        """A few records, by a producer of its own: all are acknowledged."""
        producer = Producer(self.client, ProducerOptions(acks=-1, idempotent=True))
        while not await self._knows(producer):  # noqa: ASYNC110  # virtual time: a look costs nothing
            await asyncio.sleep(0.1)
        for _ in range(LAST):
            number = len(self.writer.sends)
            text = f"{self.name}-{number}"
            send = Send(self.name, number, where.partition, text, self.now_ns)
            written = await producer.send(where.topic, text.encode(), partition=where.partition)
            if written.code is Code.NONE:
                send = send._replace(outcome=OK, offset=written.base_offset, complete_ns=self.now_ns)
            self.writer.sends.append(send)
        await producer.close()

    async def _knows(self, producer: Producer) -> bool:
        try:
            return await producer.prepare(self.topic.name) is Code.NONE
        except EXPECTED_ERRORS:
            return False

    def _acknowledged(self, where: TopicPartition) -> list[Send]:
        return [one for one in self.writer.sends if one.outcome == OK and one.partition == where.partition]
