"""AlterPartition as a broker sends it: the ISR changes of a turn of the loop in one request, one request at a time.

Decides how often to ask again. What an answer means is ``moldau.replication``'s; a request without an answer is told to
it as NETWORK_EXCEPTION, and it asks again. Source: KIP-497, KIP-841, KIP-903.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

from moldau.broker.loop import yield_to_loop
from moldau.broker.replicas.deps import ReplicaManagerDeps
from moldau.model import Code
from moldau.model.backoff import longer_ms
from moldau.ports.buggify import LATE_ISR, UNHEARD_ISR
from moldau.replication.effects import AlterIsr, Effects
from moldau.replication.facts import IsrAnswer

if TYPE_CHECKING:
    from moldau.broker.replicas.replica import Replica
    from moldau.wire.messages.k56_alter_partition import AlterPartitionRequest

RETRY_MS = 10
RETRY_MAX_MS = 500
_AGAIN = frozenset({Code.NOT_CONTROLLER, Code.NETWORK_EXCEPTION, Code.REQUEST_TIMED_OUT, Code.UNKNOWN_SERVER_ERROR})

PendingUpdates = dict[tuple[bytes, int], tuple["Replica", AlterIsr]]


class IsrUpdates:
    """The conversation about ISRs with the controller."""

    def __init__(self, deps: ReplicaManagerDeps, act: Callable[[Replica, Effects], None]) -> None:
        self._deps = deps
        self._act = act
        self._pending: PendingUpdates = {}
        self._talking = False
        self._closed = False

    def submit(self, replica: Replica, effect: AlterIsr) -> None:
        """Send with whatever else this turn of the loop brings."""
        self._pending[replica.key] = (replica, effect)
        if not self._talking and not self._closed:
            self._talking = True
            self._deps.world.tasks.spawn(self._talk(), "alter-partition")

    def close(self) -> None:
        self._closed = True
        self._pending.clear()

    async def _talk(self) -> None:
        wait_ms, buggify = 0, self._deps.world.buggify
        while self._pending and not self._closed:
            if buggify is not None and buggify(LATE_ISR):
                wait_ms = RETRY_MAX_MS
            if wait_ms:
                await self._pause(wait_ms)
            pending = dict(islice(self._pending.items(), self._deps.world.step))
            for key in pending:
                del self._pending[key]
            answers = await self._send(pending)
            again = False
            now_ms = self._deps.world.clock.monotonic_ms()
            for key, (replica, effect) in pending.items():
                answer = answers.get(key) or IsrAnswer(effect.serial, Code.NETWORK_EXCEPTION)
                again |= answer.code in _AGAIN
                self._act(replica, replica.machine.isr_answered(answer, now_ms))
            wait_ms = longer_ms(wait_ms, RETRY_MS, RETRY_MAX_MS) if again else 0
            if self._pending and not wait_ms:  # a controller in this very process may have answered without a pause
                await yield_to_loop(self._deps.world.tasks)
        self._talking = False

    async def _pause(self, wait_ms: int) -> None:
        over = asyncio.Event()
        self._deps.world.tasks.call_later(wait_ms, over.set)
        await over.wait()

    async def _send(self, pending: PendingUpdates) -> dict[tuple[bytes, int], IsrAnswer]:
        try:
            response = await self._deps.send_to_controller(self._request(pending))
            if (buggify := self._deps.world.buggify) is not None and buggify(UNHEARD_ISR):
                raise ConnectionError("the answer is lost")
        except OSError:
            return {}
        if response.error_code != Code.NONE:
            code = Code(response.error_code)
            # Whatever is wrong with the request as a whole (a broker epoch that is just changing, no authority yet), no
            # ISR was changed by it: it is asked again.
            code = code if code in _AGAIN else Code.NOT_CONTROLLER
            return {key: IsrAnswer(effect.serial, code) for key, (_, effect) in pending.items()}
        answers = {}
        for topic in response.topics:
            for part in topic.partitions:
                key = (bytes(topic.topic_id), part.partition_index)
                if key in pending:
                    answers[key] = IsrAnswer(
                        pending[key][1].serial,
                        Code(part.error_code),
                        part.leader_epoch,
                        part.partition_epoch,
                        tuple(part.isr),
                    )
        return answers

    def _request(self, pending: PendingUpdates) -> AlterPartitionRequest:
        from moldau.wire.messages.k56_alter_partition import AlterPartitionRequest  # here: a start sends none

        topics: dict[bytes, AlterPartitionRequest.TopicData] = {}
        for replica, effect in pending.values():
            topic_id, number = replica.key
            topic = topics.get(topic_id)
            if topic is None:
                name = replica.partition.topic
                topic = topics[topic_id] = AlterPartitionRequest.TopicData(topic_id=topic_id, topic_name=name)
            topic.partitions.append(
                AlterPartitionRequest.PartitionData(
                    partition_index=number,
                    leader_epoch=effect.leader_epoch,
                    partition_epoch=effect.partition_epoch,
                    new_isr=[broker for broker, _ in effect.isr],
                    new_isr_with_epochs=[
                        AlterPartitionRequest.BrokerState(broker_id=broker, broker_epoch=epoch)
                        for broker, epoch in effect.isr
                    ],
                )
            )
        return AlterPartitionRequest(
            broker_id=self._deps.me, broker_epoch=self._deps.broker_epoch(), topics=list(topics.values())
        )
