"""What a tool of Kafka's that reads as a member of a group commits when it ends: what it was given, and no more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from types import SimpleNamespace
from typing import Any, cast

from moldau.admin.classic.record_reader import Reader
from moldau.client.consumer import Chunk, ConsumerOptions
from moldau.client.reading import Fetched
from moldau.model import Code, TopicPartition
from moldau.wire.batch import build

A, B, C = (TopicPartition("t", number) for number in range(3))


def chunk(partition: TopicPartition, base: int, count: int) -> Chunk:
    data = build([(0, None, b"v", ()) for _ in range(count)], base_offset=base) if count else b""
    return Chunk(partition, base, Fetched(Code.NONE, memoryview(data), base + max(count, 1)))


class Member:
    """A consumer whose polls are written down, and the position that it commits for each partition."""

    def __init__(self, *polls: Sequence[Chunk]) -> None:
        self.options = ConsumerOptions()
        self.positions: dict[TopicPartition, int] = {}
        self._polls = list(polls)

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self.positions)

    async def poll(self, wait_ms: float, *, join_ms: int | None = None) -> list[Chunk]:
        chunks = list(self._polls.pop(0))
        self.positions |= {one.partition: one.fetched.next_offset for one in chunks}
        return chunks

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.positions[partition] = offset

    async def close(self) -> None:
        pass


def reader(member: Member) -> Reader:
    def run(work: Awaitable[Any]) -> Any:
        async def whole() -> Any:
            return await work

        return asyncio.run(whole())

    cluster: Any = SimpleNamespace(client=None, run=run)
    wish: Any = SimpleNamespace(topic="t", include=None, partition=0, timeout_ms=1_000)
    made = Reader(cluster, cast("Any", member), wish)
    made._ready = True
    return made


def test_what_is_not_reached_of_a_fetch_is_not_committed() -> None:
    """`kafka-console-consumer.sh --group g --max-messages 2` committed three whole partitions, and printed two records
    of the first: the others were lost to the group."""
    member = Member([chunk(A, 0, 5), chunk(B, 10, 5), chunk(C, 20, 0)])
    reading = reader(member)
    records = reading.receive()
    assert records is not None
    for _ in range(2):
        reading.seen(next(records))
    reading.close()
    assert member.positions == {A: 2, B: 10, C: 20}


def test_all_that_was_read_is_committed_and_what_holds_no_records_is_passed() -> None:
    member = Member([chunk(C, 20, 0), chunk(A, 0, 5)], [chunk(A, 5, 2), chunk(B, 10, 1)])
    reading = reader(member)
    for _ in range(2):
        for seen in reading.receive() or ():
            reading.seen(seen)
    reading.close()
    assert member.positions == {A: 7, B: 11, C: 21}


def test_a_tool_that_takes_records_in_portions_commits_those_that_it_took() -> None:
    member = Member([chunk(A, 0, 3), chunk(B, 10, 3)])
    reading = reader(member)
    for seen in reading.some(0, 4):
        reading.seen(seen)
    reading.close()
    assert member.positions == {A: 3, B: 11}
