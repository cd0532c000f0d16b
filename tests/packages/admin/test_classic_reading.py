"""What a tool of Kafka's that reads as a member of a group commits when it ends: what it was given, and no more."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from moldau.admin.classic import console_consumer
from moldau.admin.classic.console_consumer_options import read_options
from moldau.admin.classic.console_formatters import Seen
from moldau.admin.classic.java import JavaError
from moldau.admin.classic.record_reader import Reader
from moldau.admin.classic.streams import OutputFailed
from moldau.admin.signals import Signals
from moldau.client.consumer import Chunk, ConsumerOptions
from moldau.client.reading import Fetched
from moldau.model import Code, TopicPartition
from moldau.wire.batch import build
from tests.packages.admin.doubles import LoopDriven

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
        self.interrupted_after: int | None = None
        """How many polls are left when one is interrupted whose records have come."""

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self.positions)

    async def poll(self, wait_ms: float, *, join_ms: int | None = None) -> list[Chunk]:
        chunks = list(self._polls.pop(0))
        self.positions |= {one.partition: one.fetched.next_offset for one in chunks}
        if self.interrupted_after == len(self._polls):
            raise KeyboardInterrupt
        return chunks

    def position(self, partition: TopicPartition) -> int:
        return self.positions[partition]

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.positions[partition] = offset

    async def stay(self) -> None:
        pass

    async def close(self) -> None:
        pass


def reader(member: Member) -> Reader:
    words = ["--bootstrap-server", "h:1", "--topic", "t", "--partition", "0", "--timeout-ms", "1000"]
    made = Reader(LoopDriven(client=None), member, read_options(words))  # type: ignore[arg-type]
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


def test_where_a_fetch_ends_by_a_marker_reading_goes_on_behind_it() -> None:
    """The group lagged by one record for ever, which nobody could read."""
    fetched = chunk(A, 0, 3).fetched._replace(next_offset=4)
    member = Member([Chunk(A, 0, fetched)])
    reading = reader(member)
    for seen in reading.receive() or ():
        reading.seen(seen)
    reading.close()
    assert member.positions == {A: 4}


def test_a_partition_that_went_and_came_back_is_not_set_to_where_it_was_before() -> None:
    """Another member had read on meanwhile: its records came again."""
    member = Member([chunk(A, 0, 3)], [chunk(B, 10, 1)])
    reading = reader(member)
    for seen in reading.receive() or ():
        reading.seen(seen)
        if seen.record.offset == 1:
            break
    member.positions[A] = 170
    for seen in reading.receive() or ():
        reading.seen(seen)
    reading.close()
    assert member.positions == {A: 170, B: 11}


def test_what_had_come_when_a_tool_was_interrupted_is_not_committed() -> None:
    member = Member([chunk(A, 0, 3)], [chunk(A, 3, 3), chunk(B, 10, 1)])
    member.interrupted_after = 0
    reading = reader(member)
    for seen in reading.receive() or ():
        reading.seen(seen)
    with pytest.raises(KeyboardInterrupt):
        reading.receive()
    reading.close()
    assert member.positions[A] == 3


def test_a_tool_that_takes_records_in_portions_commits_those_that_it_took() -> None:
    member = Member([chunk(A, 0, 3), chunk(B, 10, 3)])
    reading = reader(member)
    for seen in reading.some(0, 4):
        reading.seen(seen)
    reading.close()
    assert member.positions == {A: 3, B: 11}


def test_what_came_beside_an_error_is_not_committed(capsys: pytest.CaptureFixture[str]) -> None:
    refused = Chunk(B, 10, Fetched(Code.TOPIC_AUTHORIZATION_FAILED, memoryview(b""), 10))
    member = Member([chunk(A, 0, 5), refused])
    reading = reader(member)
    assert reading.receive() is None
    reading.close()
    assert member.positions == {A: 0, B: 10}


def test_what_could_not_be_written_is_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """`kafka-console-consumer.sh --group g | head -1` committed all that it had fetched."""

    def write_records(portion: object, signals: object, meanwhile: object) -> None:
        raise OutputFailed

    monkeypatch.setattr(console_consumer, "write_records", write_records)
    member = Member([chunk(A, 3, 5)])
    reading = reader(member)
    printer = console_consumer._Printer(lambda seen: b"v\n", Signals(), skip=False)
    with pytest.raises(OutputFailed):
        printer.print(reading, -1)
    reading.close()
    assert member.positions == {A: 3}


def test_what_was_printed_before_a_record_that_cannot_be_shown_is_counted_and_does_not_come_again_nor_does_that() -> (
    None
):
    def show(seen: Seen) -> bytes:
        if seen.record.offset == 5:
            raise ValueError("no number")
        return b"v\n"

    member = Member([chunk(A, 3, 5), chunk(B, 0, 1)])
    reading = reader(member)
    printer = console_consumer._Printer(show, Signals(), skip=False)
    with pytest.raises(JavaError, match="no number"):
        printer.print(reading, -1)
    reading.close()
    assert printer.count == 3
    assert member.positions == {A: 6, B: 0}
