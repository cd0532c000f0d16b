"""What the quorum agreed on reaches listeners in order and once, a step's worth in each turn of the loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from moldau.broker.kraft.batches import Decided, proposal
from moldau.broker.kraft.delivery import CommitDelivery
from moldau.quorum import OffsetAndEpoch
from moldau.storage import Log
from moldau.wire.records.metadata import NoOpRecord
from tests.packages.doubles import ManualTasks, manual_world

STEP = 10


class RecordingListener:
    """Notes what it is told; pauses after each of ``parts`` parts of a batch, and fails at an offset."""

    def __init__(self, parts: int = 0, fails_at: int = -1) -> None:
        self.heard: list[Any] = []
        self.parts = parts
        self.fails_at = fails_at

    def committed(self, records: Sequence[Any], offset: int, epoch: int) -> Iterator[None] | None:
        if offset == self.fails_at:
            raise AssertionError("an impossible record")
        self.heard.append(offset)
        return self._rest(offset) if self.parts else None

    def _rest(self, offset: int) -> Iterator[None]:
        for part in range(self.parts):
            yield
            self.heard.append((offset, part))

    def became_active(self, epoch: int) -> None:
        self.heard.append(f"active in {epoch}")

    def lost_active(self) -> None:
        self.heard.append("lost")

    def load_snapshot(self, records: Sequence[Any], offset: int, epoch: int) -> None:
        self.heard.append(f"snapshot {offset}")


class BatchesOfLog(Log):
    """A metadata log of proposals."""

    log_start_offset = 0

    def __init__(self) -> None:
        self.batches: list[tuple[int, bytes]] = []

    def read(self, begin: int, most: int, *, up_to: int) -> bytes:
        return b"".join(data for base, data in self.batches if begin <= base < up_to)


class Bench:
    """A delivery with a loop that turns by hand."""

    def __init__(self, *listeners: RecordingListener) -> None:
        self.tasks = ManualTasks()
        self.failures: list[Exception] = []
        self.end = 0
        self.points: list[int] = []
        self.log = BatchesOfLog()
        world = manual_world(tasks=self.tasks, step=STEP)
        self.delivery = CommitDelivery(self.log, listeners, world, self.failures.append)
        self.delivery.delivered = lambda: self.points.append(self.delivery.end)

    def propose(self, *sizes: int) -> None:
        for size in sizes:
            records = [NoOpRecord()] * size
            self.log.batches.append((self.end, proposal(records, self.end, 1, 0)))
            self.end += size
            self.delivery.propose(Decided(records, self.end - 1, 1))

    def turn(self) -> bool:
        return self.tasks.turn()


def test_a_turn_delivers_a_steps_worth_and_what_was_told_later_comes_later() -> None:
    listener = RecordingListener()
    bench = Bench(listener)
    bench.propose(6, 6, 6, 6, 6)
    bench.delivery.committed(30)
    assert listener.heard == [5, 11]
    assert bench.points == []
    bench.delivery.became_active(7)
    bench.propose(1)
    bench.delivery.committed(31)
    bench.delivery.lost_active()
    assert listener.heard == [5, 11]
    while bench.turn():
        pass
    assert listener.heard == [5, 11, 17, 23, 29, "active in 7", 30, "lost"]
    assert bench.points == [30, 31], "a snapshot may be taken at these, no sooner"


def test_what_a_listener_leaves_for_later_is_done_before_anybody_hears_more() -> None:
    slow, quick = RecordingListener(parts=2), RecordingListener()
    bench = Bench(slow, quick)
    bench.propose(2, 2)
    bench.delivery.committed(4)
    assert (slow.heard, quick.heard) == ([1], []), "the others hear of a batch when it is carried out"
    turns = 0
    while bench.turn():
        turns += 1
    assert slow.heard == [1, (1, 0), (1, 1), 3, (3, 0), (3, 1)]
    assert quick.heard == [1, 3]
    assert turns >= 2, "each part has a turn"


def test_small_news_are_told_at_once() -> None:
    listener = RecordingListener()
    bench = Bench(listener)
    bench.propose(3)
    bench.delivery.committed(3)
    bench.delivery.became_active(2)
    assert (listener.heard, bench.tasks.soon) == ([2, "active in 2"], [])


def test_a_listener_that_fails_in_a_later_turn_is_heard_of_and_nothing_more_is_told() -> None:
    """Law X7: the loop alone would only log it."""
    listener = RecordingListener(fails_at=29)
    bench = Bench(listener)
    bench.propose(10, 10, 10, 10)
    bench.delivery.committed(40)
    while bench.turn():
        pass
    assert listener.heard == [9, 19]
    assert [str(error) for error in bench.failures] == ["an impossible record"]
    bench.delivery.committed(40)
    assert (listener.heard, bench.tasks.soon) == ([9, 19], [])


def test_a_listener_that_fails_at_once_raises() -> None:
    bench = Bench(RecordingListener(fails_at=0))
    bench.propose(1)
    with pytest.raises(AssertionError):
        bench.delivery.committed(1)


def test_a_snapshot_takes_the_place_of_what_was_still_to_come_and_ends_what_was_begun() -> None:
    listener = RecordingListener(parts=2)
    bench = Bench(listener)
    bench.propose(10, 10)
    bench.delivery.committed(20)
    bench.delivery.became_active(1)
    bench.delivery.lost_active()
    bench.delivery.snapshot(proposal([NoOpRecord()], 0, 1, 0), OffsetAndEpoch(100, 3))
    assert listener.heard == [9, (9, 0), (9, 1), "lost", "snapshot 99"]
    assert bench.delivery.point == OffsetAndEpoch(100, 3)
    while bench.turn():
        pass
    assert len(listener.heard) == 5


def test_after_its_end_nothing_is_told() -> None:
    listener = RecordingListener()
    bench = Bench(listener)
    bench.propose(10, 10)
    bench.delivery.committed(20)
    bench.delivery.close()
    while bench.turn():
        pass
    assert listener.heard == [9]


def test_a_large_batch_is_unpacked_some_records_in_each_turn_and_told_in_the_next() -> None:
    listener = RecordingListener()
    bench = Bench(listener)
    for size in (3, 7 * STEP + 1, 3):
        bench.log.batches.append((bench.end, proposal([NoOpRecord()] * size, bench.end, 1, 0)))
        bench.end += size
    bench.delivery.committed(bench.end)
    for _ in range(8):
        assert listener.heard == [2]
        assert bench.turn()
    assert listener.heard[1:2] == [7 * STEP + 3]
    while bench.turn():
        pass
    assert listener.heard == [2, 7 * STEP + 3, 7 * STEP + 6]
    assert bench.points == [bench.end], "all of it is told before anything is done with all of it"


def test_what_a_node_proposed_itself_is_told_at_once_however_large() -> None:
    listener = RecordingListener()
    bench = Bench(listener)
    bench.propose(5 * STEP)
    bench.delivery.committed(bench.end)
    assert listener.heard == [5 * STEP - 1]


def test_a_snapshot_lets_a_large_batch_be_told_that_was_only_unpacked() -> None:
    listener = RecordingListener()
    bench = Bench(listener)
    bench.log.batches.append((0, proposal([NoOpRecord()] * (STEP + 1), 0, 1, 0)))
    bench.delivery.committed(STEP + 1)
    assert bench.turn()
    assert not listener.heard
    bench.delivery.snapshot(b"", OffsetAndEpoch(100, 3))
    assert listener.heard == [STEP, "snapshot 99"]


def test_a_snapshot_takes_the_place_of_a_batch_that_is_not_all_unpacked() -> None:
    listener = RecordingListener()
    bench = Bench(listener)
    bench.log.batches.append((0, proposal([NoOpRecord()] * (STEP + 1), 0, 1, 0)))
    bench.delivery.committed(STEP + 1)
    bench.delivery.snapshot(b"", OffsetAndEpoch(100, 3))
    while bench.turn():
        pass
    assert listener.heard == ["snapshot 99"]
