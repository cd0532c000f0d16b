"""ISR changes go to the controller a step at a time, with a turn of the loop in between, however fast it answers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from moldau.broker.replicas.deps import ReplicaManagerDeps
from moldau.broker.replicas.isr_updates import IsrUpdates
from moldau.broker.replicas.replica import Replica
from moldau.model import Code, TopicPartition
from moldau.replication.effects import AlterIsr
from moldau.replication.facts import IsrAnswer
from moldau.replication.partition import Partition
from moldau.wire.messages.k56_alter_partition import AlterPartitionRequest, AlterPartitionResponse
from tests.packages.broker.doubles import node_config
from tests.packages.doubles import UNUSED, LoopTasks, manual_world

STEP, ASKS = 3, 10


class ShrinkingMachine(Partition):
    """What hears the controller's answer to a proposal of an ISR."""

    def __init__(self, heard: list[Code]) -> None:
        self.heard = heard

    def isr_answered(self, answer: IsrAnswer, now_ms: int) -> tuple[()]:
        self.heard.append(answer.code)
        return ()


@dataclass
class ShrinkingReplica(Replica):
    """A leader's replica, as far as its proposals need it."""

    key: tuple[bytes, int]
    partition: TopicPartition
    machine: ShrinkingMachine


def refuse(request: AlterPartitionRequest) -> AlterPartitionResponse:
    answer = AlterPartitionResponse
    return answer(
        topics=[
            answer.TopicData(
                topic_id=topic.topic_id,
                partitions=[
                    answer.PartitionData(partition_index=part.partition_index, error_code=Code.INELIGIBLE_REPLICA)
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def test_a_controller_that_answers_at_once_does_not_make_one_step_of_all() -> None:
    heard: list[Code] = []
    done: list[int] = []

    async def work() -> None:
        async def send_to_controller(request: Any) -> Any:
            return refuse(request)

        deps = ReplicaManagerDeps(
            me=1,
            world=manual_world(tasks=LoopTasks(), step=STEP),
            config=node_config(),
            logs=UNUSED,
            send_to_controller=send_to_controller,
            connect=UNUSED,
            broker_epoch=lambda: 5,
        )

        requests = IsrUpdates(deps, lambda replica, effects: None)
        for number in range(ASKS):
            replica = ShrinkingReplica((bytes(16), number), TopicPartition("t", number), ShrinkingMachine(heard))
            requests.submit(replica, AlterIsr(1, 0, 0, ((1, 5),)))
        while len(heard) < ASKS:
            await asyncio.sleep(0)
            done.append(len(heard))

    asyncio.run(work())
    assert heard == [Code.INELIGIBLE_REPLICA] * ASKS
    assert all(after - before <= STEP for before, after in zip([0, *done], done, strict=False)), done
