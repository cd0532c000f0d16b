"""Clocks are compared by lines of one decision or one request, and called apart only where those prove it."""

from __future__ import annotations

from moldau.clusterdata.state_changes.skew import Skew, skews
from tests.packages.clusterdata.state_lines import (
    SECOND,
    by_controller,
    by_follower,
    by_leader,
    events,
    line,
    shrunk,
)


def test_isr_changes_under_a_leader_epoch_are_no_decision_of_what_came_before_them() -> None:
    """A clock was called 16 s behind: what made the leader epoch is a line of another form, or another controller's."""
    lines = [
        shrunk(1, (1, 1), 1, "1", 3),
        by_follower(1.1, (1, 1), 3, 1),
        by_leader(1.1, (1, 1), 2, "1"),
        by_controller(17, (1, 2), 1, [1, 3]),
    ]
    assert skews(events(*lines)) == []
    lines += [by_controller(20, (2, 3), 2, [1, 3]), by_leader(20.004, (2, 3), 2, "1,3")]
    assert skews(events(*lines)) == [Skew(broker=2, controller=1, low_ms=None, high_ms=4, pairs=1)]


def test_a_replica_that_a_controller_takes_out_again_is_no_new_decision() -> None:
    """A new controller of Kafka 3.9 tells of it in the same words, although the replica had been out before."""
    lines = [by_follower(1, (2, 3), 2, 3), shrunk(3, (2, 3), 3, "3,2", 1)]
    assert skews(events(*lines)) == []


def test_lines_without_partition_epochs_are_no_pair() -> None:
    old = line(5, "[Controller id=1 epoch=3] Changed partition orders-0 from OnlinePartition to OnlinePartition with"
               " state LeaderAndIsr(leader=1, leaderEpoch=1, isr=List(1, 3))")  # fmt: skip
    assert skews(events(by_follower(1, (1, 1), 3, 1), old)) == []


def test_a_topic_that_was_made_anew_tells_no_clock() -> None:
    lines = [
        by_leader(1, (0, 0), 2, "2,4"),
        by_controller(10, (0, 0), 2, [2, 4], come="NewPartition"),
        by_leader(10.1, (0, 0), 2, "2,4", id=SECOND),
    ]
    assert skews(events(*lines)) == []
    assert [one.verdict for one in skews(events(*lines[1:]))] == ["no skew seen"]


def test_a_broker_that_started_again_is_late_enough_the_last_time() -> None:
    lines = [by_controller(2, (1, 1), 1, [1, 2]), by_leader(1, (1, 1), 2, "1,2"), by_leader(9, (1, 1), 2, "1,2")]
    (found,) = skews(events(*lines))
    assert found.high_ms == 7000


def cached(second: float, id: int) -> str:
    return line(
        second,
        "[Broker id=2] Add 1 partitions and deleted 0 partitions from metadata cache in response to UpdateMetadata"
        f" request sent by controller 1 epoch 3 with correlation id {id}",
    )


def answered(
    second: float, id: int, kind: str = "UPDATE_METADATA", to: str = "10.0.0.7:9092 (id: 2 rack: null)"
) -> str:
    return line(
        second,
        f"[Controller id=1 epoch=3] Received response UpdateMetadataResponseData(errorCode=0) for request {kind} with"
        f" correlation id {id} sent to broker {to}",
        "TRACE",
    )


PAIR = [by_controller(1, (1, 1), 1, [1, 2]), by_leader(1.5, (1, 1), 2, "1,2")]


def low(*lines: str) -> int | None:
    (found,) = skews(events(*PAIR, *lines))
    return found.low_ms


def test_an_answer_belongs_to_the_request_of_its_connection() -> None:
    assert low(cached(3, 7), answered(2.9, 7)) == 100
    assert low(cached(9, 7), answered(2, 7), answered(9.1, 7)) is None, "its number began again"
    assert low(cached(9, 7), answered(2, 7, "LEADER_AND_ISR")) is None, "an answer to something else"
    assert low(cached(9, 7), answered(2, 7, to="2.example:9092 (id: 5 rack: null)")) is None, "to another broker"


def test_bounds_that_contradict_each_other_prove_nothing() -> None:
    (found,) = skews(events(*PAIR, cached(9, 7), answered(8, 7)))
    assert (found.low_ms, found.high_ms) == (1000, 500)
    assert found.verdict == "not known: pairs of lines contradict each other, as when a clock was set"
    assert not found.is_proved
