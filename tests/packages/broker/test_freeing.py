"""Long messages are given back a piece at a time: no turn of the loop frees all of a hundred thousand partitions."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.network.freeing import AT_ONCE, let_go, long_arrays
from moldau.broker.replicas.fetch import reader as readings
from moldau.broker.replicas.fetch.partition import FetchPartition
from moldau.wire.frames import request_frame
from moldau.wire.messages.k01_fetch import FetchRequest, FetchResponse
from tests.packages.broker.data_cluster import run, until
from tests.packages.broker.whole_node import feed, whole_node

MANY = 30_000


def fetch_of(topics: int, partitions: int) -> FetchRequest:
    asked = [
        FetchRequest.FetchTopic(
            topic=f"nobody-{name}",
            partitions=[FetchRequest.FetchPartition(partition=number) for number in range(partitions)],
        )
        for name in range(topics)
    ]
    return FetchRequest(max_wait_ms=0, topics=asked)


def test_arrays_are_held_that_are_long_themselves_or_lie_in_short_ones() -> None:
    assert long_arrays(fetch_of(2, 10)) == []
    assert [len(one) for one in long_arrays(fetch_of(2, AT_ONCE + 1))] == [AT_ONCE + 1] * 2
    assert [len(one) for one in long_arrays(fetch_of(AT_ONCE + 1, 1))] == [AT_ONCE + 1]


def test_what_is_held_is_let_go_in_turns() -> None:
    class Tasks:
        def __init__(self) -> None:
            self.due: list[Any] = []

        def call_soon(self, call: Any) -> None:
            self.due.append(call)

    tasks: Any = Tasks()
    held: list[list[object]] = [[object()] * (AT_ONCE + 1), [object()] * 3]
    let_go(tasks, held)
    sizes = []
    while tasks.due:
        tasks.due.pop(0)()
        sizes.append([len(one) for one in held])
    assert sizes == [[AT_ONCE + 1], [1], []]
    let_go(tasks, [])
    assert not tasks.due


@pytest.mark.parametrize("shape", [(1, MANY), (3, MANY // 3), (MANY, 1)], ids=["one topic", "three", "many"])
def test_no_turn_frees_very_many_partitions_of_a_fetch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int]
) -> None:
    freed = most = total = 0

    def gone(_: object) -> None:
        nonlocal freed, total
        freed, total = freed + 1, total + 1

    async def work() -> None:
        nonlocal most

        def tick() -> None:
            nonlocal freed, most
            most, freed = max(most, freed), 0
            loop.call_soon(tick)

        async with whole_node(tmp_path) as one:
            connection, wire = one.connection("broker")
            frame = b"".join(bytes(part) for part in request_frame(fetch_of(*shape), 12, 1, "test"))
            loop = asyncio.get_running_loop()
            gc.collect()  # what other tests left in cycles, long fetches of theirs too, is none of this one's
            for cls in (FetchRequest.FetchPartition, FetchResponse.PartitionData, FetchPartition):
                monkeypatch.setattr(cls, "__del__", gone, raising=False)
            tick()
            feed(connection, frame)
            await until(lambda: len(wire.out) > 4 * MANY, "an answer")
            await until(lambda: total >= 3 * MANY, "what was asked, read and told to be freed")
            wire.close()

    run(work)
    assert 0 < most <= 2 * AT_ONCE + readings.PARTITIONS_AT_ONCE, "a request, its answer, and what was read for it"
