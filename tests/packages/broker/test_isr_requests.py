"""ISR changes go to the controller a step at a time, with a turn of the loop in between, however fast it answers."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from moldau.broker.replicas.isr_updates import IsrUpdates
from moldau.model import Code, TopicPartition
from moldau.replication.effects import AlterIsr
from moldau.replication.facts import IsrAnswer
from moldau.wire.messages.k56_alter_partition import AlterPartitionRequest, AlterPartitionResponse

STEP, ASKS = 3, 10


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
        loop = asyncio.get_running_loop()

        async def ask_controller(request: AlterPartitionRequest) -> AlterPartitionResponse:
            return refuse(request)

        tasks = SimpleNamespace(
            spawn=lambda work, name: loop.create_task(work), call_soon=loop.call_soon, call_later=loop.call_later
        )
        clock = SimpleNamespace(monotonic_ms=lambda: 0)
        world = SimpleNamespace(buggify=None, step=STEP, tasks=tasks, clock=clock)
        deps: Any = SimpleNamespace(world=world, me=1, broker_epoch=lambda: 5, ask_controller=ask_controller)

        def answered(answer: IsrAnswer, now_ms: int) -> tuple[()]:
            heard.append(answer.code)
            return ()

        requests = IsrUpdates(deps, lambda replica, effects: None)
        for number in range(ASKS):
            replica: Any = SimpleNamespace(
                key=(bytes(16), number),
                partition=TopicPartition("t", number),
                machine=SimpleNamespace(isr_answered=answered),
            )
            requests.submit(replica, AlterIsr(1, 0, 0, ((1, 5),)))
        while len(heard) < ASKS:
            await asyncio.sleep(0)
            done.append(len(heard))

    asyncio.run(work())
    assert heard == [Code.INELIGIBLE_REPLICA] * ASKS
    assert all(after - before <= STEP for before, after in zip([0, *done], done, strict=False)), done
