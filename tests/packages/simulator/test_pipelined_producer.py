"""A producer with several requests under way: what it sends, what of the answers is wrong, and which seeds have one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from moldau.client.lines import Line
from moldau.client.writing import BatchOutcome
from moldau.history.rows import INFO, OK
from moldau.model import Code
from moldau.simulator.laws.sequences import AFTER_MAX_MS, Attempt, wrong_order, wrong_refusal
from moldau.simulator.pipelined_producer import (
    IN_FLIGHT_MAX,
    PartitionQueue,
    PipelinedProducer,
    ProducerConnection,
    SequencedBatch,
)
from moldau.simulator.planes import plan_of
from moldau.simulator.run import SimulatedRun, simulate
from moldau.simulator.scenes import PIPELINED, QUORUM, ZOOKEEPER

HERE, ELSEWHERE = object(), object()


def attempt(line: object, sent_ns: int, code: Code = Code.NONE, refused_ns: int = -1) -> Attempt:
    known: Line = line  # type: ignore[assignment]  # connections are only told apart
    return Attempt(known, sent_ns, code, refused_ns)


OUT = attempt(HERE, 2, Code.OUT_OF_ORDER_SEQUENCE_NUMBER, 6)


def test_the_oldest_without_an_answer_is_never_out_of_order() -> None:
    assert "acknowledged" in wrong_order(None, OUT)


def test_a_batch_goes_back_with_the_one_ahead_that_was_refused_on_its_connection() -> None:
    assert "NOT_LEADER_OR_FOLLOWER" in wrong_order(attempt(HERE, 1, Code.NOT_LEADER_OR_FOLLOWER, 5), OUT)


@pytest.mark.parametrize(
    "ahead",
    [
        attempt(HERE, 1),
        attempt(ELSEWHERE, 1, Code.NOT_LEADER_OR_FOLLOWER, 5),
        attempt(HERE, 1, Code.NETWORK_EXCEPTION, 5),
        attempt(HERE, 3, Code.NOT_LEADER_OR_FOLLOWER, 5),
        attempt(HERE, 0, Code.NOT_LEADER_OR_FOLLOWER, 1),
    ],
    ids=["under way", "refused elsewhere", "lost", "sent later", "refused before"],
)
def test_behind_another_batch_it_may_be_out_of_order(ahead: Attempt) -> None:
    assert not wrong_order(ahead, OUT)


def test_a_refusal_asks_for_another_try() -> None:
    assert not wrong_refusal(Code.NOT_ENOUGH_REPLICAS, 0)
    assert wrong_refusal(Code.INVALID_RECORD, AFTER_MAX_MS + 1)


def test_records_from_too_far_in_the_leaders_future_are_refused_for_good_and_no_others() -> None:
    assert AFTER_MAX_MS == 3_600_000
    assert not wrong_refusal(Code.INVALID_TIMESTAMP, AFTER_MAX_MS + 1)
    assert wrong_refusal(Code.INVALID_TIMESTAMP, AFTER_MAX_MS)


class TestOfAPartition:
    """Batches 0, 1 and 2 of a partition are under way, one record in each."""

    @pytest.fixture(autouse=True)
    def a_run(self) -> Iterator[None]:
        self.run = SimulatedRun(plan_of(1, PIPELINED, QUORUM))
        yield
        self.run.cluster.close()

    def begun(self, *, is_java: bool) -> tuple[PipelinedProducer, PartitionQueue, list[SequencedBatch]]:
        producer = next(one for one in self.run.writers["safe"] if isinstance(one, PipelinedProducer))
        producer.is_java, producer._records_max, producer._is_learning = is_java, 1, True
        queue, connection = producer._queues[0], ProducerConnection(attempt(HERE, 0).line, 1)
        for _ in range(3):
            producer._add(queue)
        return producer, queue, [producer._next(queue, connection) for _ in range(3)]

    def test_what_was_refused_goes_back_in_order(self) -> None:
        producer, queue, (first, second, third) = self.begun(is_java=False)
        for batch in (second, first, third):
            producer._take(queue, batch, BatchOutcome(Code.NOT_LEADER_OR_FOLLOWER))
        assert [batch.sequence for batch in queue.back] == [0, 1, 2]
        assert producer._next(queue, ProducerConnection(attempt(HERE, 0).line, 1)) is first
        assert not producer.cluster.broken

    def test_one_that_was_sent_before_leaves_again_only_as_the_oldest(self) -> None:
        producer, queue, (first, second, _) = self.begun(is_java=True)
        producer._take(queue, second, BatchOutcome(Code.OUT_OF_ORDER_SEQUENCE_NUMBER))
        assert not producer._may_leave(queue), "the first has no answer"
        producer._take(queue, first, BatchOutcome(Code.NONE, 7))
        assert producer._may_leave(queue)
        assert producer.sends[0].offset == 7

    def test_an_answer_counts_for_what_is_before_it(self) -> None:
        producer, queue, (_, _, third) = self.begun(is_java=False)
        producer._take(queue, third, BatchOutcome(Code.NONE, 9))
        assert [(send.outcome, send.offset) for send in producer.sends] == [(OK, -1), (OK, -1), (OK, 9)]
        assert not queue.unanswered

    def test_no_more_than_a_leader_remembers_are_without_an_answer(self) -> None:
        producer, queue, _ = self.begun(is_java=True)
        connection = ProducerConnection(attempt(HERE, 0).line, 1)
        for _ in range(IN_FLIGHT_MAX):
            producer._add(queue)
        while producer._may_leave(queue):
            producer._next(queue, connection)
        assert len(queue.unanswered) == IN_FLIGHT_MAX

    def test_the_oldest_out_of_order_ends_it(self) -> None:
        producer, queue, (first, *_) = self.begun(is_java=True)
        producer._take(queue, first, BatchOutcome(Code.OUT_OF_ORDER_SEQUENCE_NUMBER))
        assert [law.partition(":")[0] for law in producer.cluster.broken] == ["S16"]
        assert {send.outcome for send in producer.sends} == {INFO}

    def test_a_leader_whose_clock_is_behind_may_refuse_its_records_and_it_goes_on_under_another_id(self) -> None:
        producer, queue, (first, *_) = self.begun(is_java=True)
        clock = producer.cluster.hosts[1].clock
        clock.jump(-AFTER_MAX_MS - 1_000)
        clock.jump(AFTER_MAX_MS + 1_000)
        assert clock.earliest_wall_ms(0) == clock.wall_ms() - AFTER_MAX_MS - 1_000, "it was behind for a moment"
        producer._take(queue, first, BatchOutcome(Code.INVALID_TIMESTAMP))
        assert not producer.cluster.broken
        assert (producer._is_refused, producer._is_over, queue.unanswered) == (True, False, [])
        assert {send.outcome for send in producer.sends} == {INFO}

    def test_a_leader_whose_clock_is_right_may_not(self) -> None:
        producer, queue, (first, *_) = self.begun(is_java=True)
        producer._take(queue, first, BatchOutcome(Code.INVALID_TIMESTAMP))
        assert [law.partition(":")[0] for law in producer.cluster.broken] == ["S16"]
        assert producer._is_over

    def test_after_an_unclean_election_it_breaks_no_law(self) -> None:
        producer, queue, (first, *_) = self.begun(is_java=True)
        producer.cluster.unclean.add(queue.target)
        producer._take(queue, first, BatchOutcome(Code.UNKNOWN_PRODUCER_ID))
        assert not producer.cluster.broken


@pytest.mark.parametrize("plane", [QUORUM, ZOOKEEPER])
def test_a_part_of_the_seeds_has_one_and_nothing_else_of_their_plans_changes(plane: str) -> None:
    plans = [plan_of(seed, None, plane) for seed in range(100)]
    assert 25 < sum(plan.pipelined for plan in plans) < 55
    assert not any(plan_of(seed, None, plane, buggify=False).pipelined for seed in range(100))
    assert not any(plan_of(seed, "kill", plane).pipelined for seed in range(100)), "one kind of fault only"
    for seed in range(20):
        assert replace(plans[seed], pipelined=True) == plan_of(seed, PIPELINED, plane)


@pytest.mark.parametrize("plane", [QUORUM, ZOOKEEPER])
def test_it_breaks_no_law(plane: str) -> None:
    outcome = simulate(1, PIPELINED, plane)
    assert outcome.verdict == "passed", "\n".join([*outcome.trace, *outcome.broken, *outcome.doubts])
    assert "a pipelined producer" in outcome.plan
