"""One machine at a time: worked examples of leading, following, ISR changes, acknowledgement and truncation."""

from __future__ import annotations

import pytest

from moldau.model import Code
from moldau.replication.effects import (
    AdvanceLogStart,
    AlterIsr,
    AssignEpoch,
    Effects,
    Follow,
    HighWatermark,
    IsrChanged,
    Restart,
    StartedLeading,
    StopFollowing,
    StoppedLeading,
    Truncate,
)
from moldau.replication.epochs import EpochTable
from moldau.replication.facts import Assignment, FetchAnswer, FollowerFetch, IsrAnswer, Verdict
from moldau.replication.follower import Next, truncation_point
from moldau.replication.partition import Partition
from moldau.replication.roles import Limits, Role
from moldau.simulator.machines.replication_model import Brokers, ModelLog

LAG_MS = 100


class Bench:
    """Broker 0 with a log of ``records`` records of epoch 0, and time that the test moves."""

    def __init__(self, records: int = 0, *, min_isr: int = 1, checkpoint: int = 0) -> None:
        self.log = ModelLog()
        for value in range(records):
            self.log.append(0, value)
        self.brokers = Brokers()
        self.now_ms = 1000
        self.partition = Partition(0, self.log, self.brokers, Limits(min_isr, LAG_MS), checkpoint)

    def lead(self, epoch: int = 1, isr: tuple[int, ...] = (0, 1, 2), partition_epoch: int = 1) -> Effects:
        code, effects = self.partition.assign(Assignment(0, epoch, partition_epoch, isr, (0, 1, 2)), self.now_ms)
        assert code is Code.NONE
        self.log.epochs.assign(epoch, self.log.log_end_offset)
        return effects

    def follow(self, leader: int = 1, epoch: int = 1, partition_epoch: int = 1) -> Effects:
        assignment = Assignment(leader, epoch, partition_epoch, (0, 1, 2), (0, 1, 2))
        code, effects = self.partition.assign(assignment, self.now_ms)
        assert code is Code.NONE
        return effects

    def append(self, count: int) -> Effects:
        for value in range(count):
            self.log.append(self.partition.leader_epoch, value)
        return self.partition.appended(self.now_ms)

    def fetched(self, replica: int, offset: int, *, epoch: int | None = None, broker_epoch: int = 1) -> Verdict:
        last = self.log.epochs.epoch_at(offset - 1)
        current = self.partition.leader_epoch if epoch is None else epoch
        return self.partition.follower_fetched(
            FollowerFetch(replica, broker_epoch, offset, last, current, 0, self.now_ms)
        )

    def answer(self, **fields: object) -> FetchAnswer:
        partition = self.partition
        given = FetchAnswer(partition.leader_epoch, partition.position(), Code.NONE, None, 0, 0)
        return given._replace(**fields)  # type: ignore[arg-type]


def test_a_new_leader_marks_its_epoch_at_its_log_end_before_any_record() -> None:
    bench = Bench(5)
    assert bench.lead(epoch=3) == (AssignEpoch(3, 5), StartedLeading(3))
    assert bench.partition.role is Role.LEADER


def test_what_is_older_changes_nothing() -> None:
    bench = Bench()
    bench.lead(epoch=3, partition_epoch=7)
    older = Assignment(1, 2, 9, (1,), (0, 1, 2))
    assert bench.partition.assign(older, 0) == (Code.FENCED_LEADER_EPOCH, ())
    same_epoch = Assignment(0, 3, 6, (0,), (0, 1, 2))
    assert bench.partition.assign(same_epoch, 0) == (Code.FENCED_LEADER_EPOCH, ())
    assert (bench.partition.role, bench.partition.isr) == (Role.LEADER, (0, 1, 2))


def test_the_only_replica_in_the_isr_commits_as_it_appends() -> None:
    bench = Bench(3)
    assert bench.lead(isr=(0,))[-1] == HighWatermark(3)
    assert bench.append(2) == (HighWatermark(5),)


def test_the_watermark_is_the_lowest_end_of_the_isr_and_acks_follow_it() -> None:
    bench = Bench(min_isr=2)
    bench.lead()
    bench.append(10)
    assert bench.fetched(1, 10).effects == ()
    assert bench.partition.acknowledged(10) is None
    assert bench.fetched(2, 4).effects == (HighWatermark(4),)
    assert bench.fetched(2, 10).effects == (HighWatermark(10),)
    assert bench.partition.acknowledged(10) is Code.NONE


def test_latest_is_not_available_until_the_watermark_covers_the_epochs_start() -> None:
    bench = Bench(8, checkpoint=5)
    bench.lead()
    assert bench.partition.latest() is None
    bench.fetched(1, 8)
    bench.fetched(2, 7)
    assert bench.partition.latest() is None
    bench.fetched(2, 8)
    assert bench.partition.latest() == 8


def test_fetches_under_another_leader_epoch_are_told_who_is_stale() -> None:
    bench = Bench()
    bench.lead(epoch=4)
    assert bench.fetched(1, 0, epoch=3).code is Code.FENCED_LEADER_EPOCH
    assert bench.fetched(1, 0, epoch=5).code is Code.UNKNOWN_LEADER_EPOCH
    assert bench.fetched(9, 0).code is Code.UNKNOWN_LEADER_EPOCH
    bench.follow(epoch=5, partition_epoch=2)
    assert bench.fetched(1, 0).code is Code.NOT_LEADER_OR_FOLLOWER
    assert bench.partition.check_epoch(5, leader_only=False) is Code.NONE


def test_a_fetch_out_of_range_or_of_another_history_moves_nothing() -> None:
    bench = Bench(6)
    bench.lead(epoch=2)
    assert bench.fetched(1, 7).diverging == (2, 6)
    fetch = FollowerFetch(1, 1, 9, -1, 2, 0, 0)
    assert bench.partition.follower_fetched(fetch).code is Code.OFFSET_OUT_OF_RANGE
    assert bench.partition.follower_fetched(fetch._replace(fetch_offset=6, last_fetched_epoch=1)).diverging == (0, 6)
    assert bench.partition.followers[1].leo == -1


def test_a_follower_joins_only_at_the_epochs_start() -> None:
    """KAFKA-7128: between the watermark and the epoch's start lie records that may be committed already."""
    bench = Bench(8, checkpoint=3)
    bench.lead(isr=(0, 2))
    assert bench.fetched(1, 5).effects == ()
    (ask,) = bench.fetched(1, 8).effects
    assert ask == AlterIsr(1, 1, 1, ((0, 1), (2, -1), (1, 1)))
    assert bench.partition.maximal_isr == {0, 1, 2}
    assert bench.fetched(1, 8).effects == (), "one in flight"


def test_a_fenced_or_restarted_follower_does_not_join() -> None:
    bench = Bench()
    bench.lead(isr=(0,))
    bench.brokers.fenced = frozenset({1})
    assert bench.fetched(1, 0).effects == ()
    bench.brokers.fenced = frozenset()
    bench.brokers.registered[1] = 2
    assert bench.fetched(1, 0, broker_epoch=1).effects == (), "its registration is newer than its fetch"
    assert bench.fetched(2, 0, broker_epoch=0).code is Code.NOT_LEADER_OR_FOLLOWER
    assert isinstance(bench.fetched(1, 0, broker_epoch=2).effects[0], AlterIsr)


def test_a_joining_follower_bounds_the_watermark_before_the_controller_agrees() -> None:
    bench = Bench()
    bench.lead(isr=(0,))
    bench.fetched(1, 0)
    assert bench.append(5) == ()
    assert bench.partition.high_watermark == 0
    assert bench.fetched(1, 3).effects == (HighWatermark(3),)


def test_who_lags_too_long_is_dropped_and_the_watermark_moves_when_that_is_agreed() -> None:
    """KAFKA-13091."""
    bench = Bench()
    bench.lead()
    bench.append(5)
    bench.fetched(1, 5)
    bench.now_ms += LAG_MS
    assert bench.partition.sweep(bench.now_ms) == ()
    bench.now_ms += 1
    (ask,) = bench.partition.sweep(bench.now_ms)
    assert ask == AlterIsr(1, 1, 1, ((0, 1), (1, 1)))
    assert bench.partition.high_watermark == 0, "not before it is agreed"
    effects = bench.partition.isr_answered(IsrAnswer(1, Code.NONE, 1, 2, (0, 1)), bench.now_ms)
    assert effects == (IsrChanged((0, 1, 2), (0, 1)), HighWatermark(5))


def test_who_was_dropped_for_lag_does_not_come_back_without_a_fetch() -> None:
    bench = Bench()
    bench.lead()
    bench.fetched(2, 0)
    bench.append(5)
    bench.fetched(1, 5)
    bench.now_ms += LAG_MS + 1
    bench.fetched(1, 5)
    bench.partition.sweep(bench.now_ms)
    effects = bench.partition.isr_answered(IsrAnswer(1, Code.NONE, 1, 2, (0, 1)), bench.now_ms)
    assert effects == (IsrChanged((0, 1, 2), (0, 1)), HighWatermark(5))
    assert bench.partition.sweep(bench.now_ms) == ()
    assert isinstance(bench.fetched(2, 5).effects[0], AlterIsr)


def test_a_follower_in_a_steady_stream_of_appends_is_not_lagging() -> None:
    """It never reaches the end of that instant, but always the end of its previous fetch."""
    bench = Bench()
    bench.lead()
    for _ in range(20):
        end = bench.log.log_end_offset
        bench.append(10)
        bench.now_ms += LAG_MS // 4
        bench.fetched(1, end)
        bench.fetched(2, end)
        assert bench.partition.sweep(bench.now_ms) == ()


def test_the_watermark_does_not_move_under_too_small_an_isr() -> None:
    """KAFKA-15583, and acks=all are refused before the append."""
    bench = Bench(min_isr=2)
    bench.lead(isr=(0,))
    assert bench.partition.check_append(-1) is Code.NOT_ENOUGH_REPLICAS
    assert bench.partition.check_append(1) is Code.NONE
    assert bench.append(3) == ()
    assert bench.partition.high_watermark == 0


def test_an_isr_that_shrank_after_the_append_is_said_so() -> None:
    bench = Bench(min_isr=2)
    bench.lead()
    bench.append(1)
    bench.fetched(1, 1)
    bench.fetched(2, 1)
    bench.lead(isr=(0,), partition_epoch=2)
    assert bench.partition.acknowledged(1) is Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND


@pytest.mark.parametrize("code", [Code.NOT_CONTROLLER, Code.NETWORK_EXCEPTION, Code.REQUEST_TIMED_OUT])
def test_a_retriable_refusal_is_asked_again_and_the_earlier_answer_is_not_heard(code: Code) -> None:
    bench = Bench()
    bench.lead(isr=(0,))
    (first,) = bench.fetched(1, 0).effects
    (again,) = bench.partition.isr_answered(IsrAnswer(1, code), bench.now_ms)
    assert isinstance(first, AlterIsr)
    assert again == first._replace(serial=2)
    assert bench.partition.isr_answered(IsrAnswer(1, Code.INELIGIBLE_REPLICA), bench.now_ms) == ()
    assert bench.partition.proposal is not None


def test_an_ineligible_replica_is_forgotten_and_may_try_again() -> None:
    bench = Bench()
    bench.lead(isr=(0,))
    bench.append(4)
    bench.fetched(1, 4)
    assert bench.partition.isr_answered(IsrAnswer(1, Code.INELIGIBLE_REPLICA), bench.now_ms) == ()
    assert (bench.partition.maximal_isr, bench.partition.proposal) == ({0}, None)
    assert isinstance(bench.fetched(1, 4).effects[0], AlterIsr)


def test_a_replica_that_lost_its_directory_is_neither_waited_for_nor_brought_back() -> None:
    bench = Bench(min_isr=1)
    bench.lead()
    bench.append(10)
    bench.fetched(1, 10)
    bench.fetched(2, 10)
    bench.partition.lost_disk(2)
    shrunk = Assignment(0, 1, 2, (0, 1), (0, 1, 2))
    assert bench.partition.assign(shrunk, bench.now_ms) == (Code.NONE, (IsrChanged((0, 1, 2), (0, 1)),))
    bench.append(5)
    assert bench.fetched(1, 15).effects == (HighWatermark(15),)
    assert isinstance(bench.fetched(2, 15).effects[0], AlterIsr), "with a new disk it fetches, and may join"


def test_whom_the_controller_drops_is_neither_asked_back_nor_waited_for_until_it_fetches() -> None:
    """A broker that dies is taken out of partition after partition, and fenced last: to each it looks alive still."""
    bench = Bench(3)
    bench.lead()
    for follower in (1, 2):
        bench.fetched(follower, 3)
    effects = bench.lead(isr=(0, 1), partition_epoch=2)
    assert effects == (IsrChanged((0, 1, 2), (0, 1)),), "and no wish to have 2 back"
    bench.append(2)
    assert bench.fetched(1, 5).effects == (HighWatermark(5),), "without 2, who is at 3"
    assert bench.partition.brokers_changed(bench.now_ms) == ()

    asked = bench.fetched(2, 5).effects[0]
    assert isinstance(asked, AlterIsr), "it lives: it fetches, and is asked back"
    assert [broker for broker, _ in asked.isr] == [0, 1, 2]


def test_who_was_dropped_with_nothing_to_fetch_comes_back_when_brokers_change() -> None:
    bench = Bench(3)
    bench.lead()
    for follower in (1, 2):
        bench.fetched(follower, 3)
    bench.lead(isr=(0, 1), partition_epoch=2)
    (ask,) = bench.partition.brokers_changed(bench.now_ms)
    assert isinstance(ask, AlterIsr)
    assert [broker for broker, _ in ask.isr] == [0, 1, 2]


def test_a_lost_answer_is_resolved_by_the_image() -> None:
    bench = Bench()
    bench.lead(isr=(0,))
    bench.fetched(1, 0)
    bench.partition.isr_answered(IsrAnswer(1, Code.NETWORK_EXCEPTION), bench.now_ms)
    assert bench.partition.isr_answered(IsrAnswer(2, Code.INVALID_UPDATE_VERSION), bench.now_ms) == ()
    assert bench.partition.maximal_isr == {0, 1}, "the first ask may have been done"
    assert bench.lead(isr=(0, 1), partition_epoch=2) == (IsrChanged((0,), (0, 1)),)
    assert bench.partition.proposal is None


def test_a_proposal_that_nobody_resolves_is_asked_again_by_the_sweep() -> None:
    bench = Bench()
    bench.lead(isr=(0,))
    bench.fetched(1, 0)
    bench.partition.isr_answered(IsrAnswer(1, Code.INVALID_UPDATE_VERSION), bench.now_ms)
    assert bench.partition.sweep(bench.now_ms + LAG_MS) == ()
    (ask,) = bench.partition.sweep(bench.now_ms + LAG_MS + 1)
    assert isinstance(ask, AlterIsr)


def test_the_image_telling_late_what_an_answer_told_does_not_close_a_newer_proposal() -> None:
    bench = Bench()
    bench.lead(isr=(0,))
    bench.fetched(1, 0)
    bench.partition.isr_answered(IsrAnswer(1, Code.NONE, 1, 2, (0, 1)), bench.now_ms)
    bench.fetched(2, 0)
    bench.lead(isr=(0, 1), partition_epoch=2)
    assert bench.partition.maximal_isr == {0, 1, 2}
    assert bench.partition.proposal is not None


def test_an_epoch_bump_of_the_same_leader_forgets_what_followers_had_fetched() -> None:
    bench = Bench()
    bench.lead()
    bench.append(5)
    bench.fetched(1, 5)
    bench.lead(epoch=3, partition_epoch=3)
    assert bench.fetched(2, 5).effects == (), "broker 1 may have been cut back by a leader between"
    assert bench.partition.high_watermark == 0
    assert bench.fetched(1, 5).effects == (HighWatermark(5),)


def test_losing_leadership_answers_the_waiting_before_following() -> None:
    bench = Bench()
    bench.lead()
    assert bench.follow(leader=2, epoch=2, partition_epoch=2) == (StoppedLeading(), Follow(2, 2))
    assert bench.partition.acknowledged(0) is Code.NOT_LEADER_OR_FOLLOWER
    assert bench.follow(leader=-1, epoch=3, partition_epoch=3) == (StopFollowing(),)
    assert bench.lead(epoch=4, partition_epoch=4)[0] == StopFollowing()
    assert bench.partition.remove() == (StoppedLeading(),)
    assert bench.partition.assign(Assignment(0, 9, 9, (0,), (0,)), 0)[0] is Code.KAFKA_STORAGE_ERROR


def test_a_follower_cuts_where_histories_part_before_it_hears_the_watermark() -> None:
    """KAFKA-14704."""
    bench = Bench(6, checkpoint=2)
    bench.follow()
    then, effects = bench.partition.fetch_answered(bench.answer(diverging=(0, 4), high_watermark=6))
    assert (then, effects) == (Next.REFETCH, (Truncate(4),))
    assert bench.partition.high_watermark == 2


def test_a_follower_takes_the_leaders_watermark_as_far_as_its_log_goes() -> None:
    bench = Bench(6)
    bench.follow()
    assert bench.partition.fetch_answered(bench.answer(high_watermark=9)) == (Next.APPEND, ())
    assert bench.partition.appended_from_leader(9, 2) == (HighWatermark(6), AdvanceLogStart(2))
    assert bench.partition.appended_from_leader(5, 0) == ()
    assert bench.partition.high_watermark == 6


def test_answers_of_another_epoch_or_position_are_dropped() -> None:
    """KAFKA-7786; and a log that was cut and grew back to the same offset is another history."""
    bench = Bench(6)
    bench.follow(epoch=2)
    assert bench.partition.fetch_answered(bench.answer(sent_epoch=1)) == (Next.DROP, ())
    assert bench.partition.fetch_answered(bench.answer(sent_from=(5, 0))) == (Next.DROP, ())
    assert bench.partition.fetch_answered(bench.answer(sent_from=(6, 1))) == (Next.DROP, ())


@pytest.mark.parametrize(
    ("code", "then"),
    [
        (Code.FENCED_LEADER_EPOCH, Next.AWAIT_IMAGE), (Code.UNKNOWN_LEADER_EPOCH, Next.BACK_OFF),
        (Code.NOT_LEADER_OR_FOLLOWER, Next.BACK_OFF), (Code.OFFSET_OUT_OF_RANGE, Next.ASK_RANGE),
    ],
)  # fmt: skip
def test_errors_say_what_comes_next(code: Code, then: Next) -> None:
    bench = Bench()
    bench.follow()
    assert bench.partition.fetch_answered(bench.answer(code=code)) == (then, ())


def test_out_of_range_cuts_or_starts_over() -> None:
    bench = Bench(6, checkpoint=6)
    bench.follow()
    assert bench.partition.out_of_range(0, 4) == (Truncate(4),)
    assert bench.partition.high_watermark == 4
    assert bench.partition.out_of_range(20, 30) == (Restart(20),)
    assert bench.partition.high_watermark == 20
    assert bench.partition.out_of_range(3, 8) == ()


def test_a_log_of_which_nothing_is_the_leaders_starts_over_where_the_leader_begins() -> None:
    """At the leader's end it would count as in sync without one record, and lose them all once it leads."""
    for learns in ("its range", "where they part"):
        bench = Bench(9)
        bench.log.log_start_offset = 9
        bench.follow()
        if learns == "its range":
            effects = bench.partition.out_of_range(2, 7)
        else:
            _, effects = bench.partition.fetch_answered(bench.answer(diverging=(0, 7), log_start_offset=2))
        assert effects == (Restart(2),)
        assert bench.partition.high_watermark == 2


def test_the_truncation_point_minds_the_epoch_not_the_end_alone() -> None:
    """KIP-279: the leader knows epoch 1 up to 20; we have 0 up to 10, then 2. Nothing of 2 may stay."""
    own = EpochTable([(0, 0), (2, 10)])
    assert truncation_point(own, 15, 1, 20) == 10
    assert truncation_point(own, 15, 2, 12) == 12
    assert truncation_point(own, 15, 0, 7) == 7
    assert truncation_point(EpochTable(), 15, 0, 7) == 7


def test_a_checkpoint_outside_the_log_is_clipped_into_it() -> None:
    assert Bench(4, checkpoint=9).partition.high_watermark == 4


def test_the_low_watermark_waits_for_the_slowest_follower() -> None:
    bench = Bench(9)
    bench.lead()
    bench.fetched(1, 9)
    bench.partition.follower_fetched(FollowerFetch(2, 1, 9, 0, 1, 4, 0))
    bench.log.log_start_offset = 6
    assert bench.partition.low_watermark == 0


def test_the_end_of_an_epoch_is_answered_by_the_leader_only() -> None:
    bench = Bench(4)
    bench.lead(epoch=3)
    bench.append(2)
    assert bench.partition.epoch_end(3, 0) == (Code.NONE, 0, 4)
    assert bench.partition.epoch_end(3, 3) == (Code.NONE, 3, 6)
    assert bench.partition.epoch_end(2, 3) == (Code.FENCED_LEADER_EPOCH, -1, -1)


def test_a_reassignment_is_noted_without_a_new_election() -> None:
    bench = Bench()
    bench.lead(isr=(0, 1))
    moving = Assignment(0, 1, 2, (0, 1), (0, 1, 3), adding=(3,), removing=(1,))
    assert bench.partition.assign(moving, bench.now_ms) == (Code.NONE, ())
    assert (bench.partition.adding, bench.partition.removing, set(bench.partition.followers)) == ((3,), (1,), {1, 3})


def test_the_first_append_after_a_quiet_hour_is_not_an_hours_lag() -> None:
    bench = Bench(2)
    bench.lead()
    bench.fetched(1, 2)
    bench.fetched(2, 2)
    bench.now_ms += 3_600_000
    bench.append(1)
    bench.partition.heard_from(1, 2, bench.now_ms)
    (ask,) = bench.partition.sweep(bench.now_ms)
    assert isinstance(ask, AlterIsr)
    assert [broker for broker, _ in ask.isr] == [0, 1], "broker 2 was not heard of"


def test_a_session_that_its_follower_has_left_does_not_make_it_look_late() -> None:
    """It was heard of with the time of its last fetch, which may be long ago."""
    bench = Bench(2)
    bench.lead()
    bench.fetched(1, 2)
    bench.fetched(2, 2)
    left_ms = bench.now_ms
    bench.now_ms += 3_600_000
    bench.append(1)
    for broker in (1, 2):
        bench.partition.heard_from(broker, 2, bench.now_ms)
    bench.partition.heard_from(1, 2, left_ms)
    assert bench.partition.sweep(bench.now_ms) == ()


def test_an_unfenced_follower_with_nothing_to_fetch_joins_when_the_image_says_so() -> None:
    bench = Bench()
    bench.lead(isr=(0,))
    bench.brokers.fenced = frozenset({1, 2})
    bench.fetched(1, 0)
    bench.fetched(2, 0)
    bench.brokers.fenced = frozenset()
    (ask,) = bench.partition.brokers_changed(bench.now_ms)
    assert isinstance(ask, AlterIsr)
    assert [broker for broker, _ in ask.isr] == [0, 1, 2]


def test_nobody_waits_for_a_follower_that_died_on_its_way_into_the_isr() -> None:
    """Producers wait for the watermark: no append and no fetch comes that would move it."""
    bench = Bench()
    bench.lead(isr=(0, 1))
    bench.fetched(1, 0)
    bench.fetched(2, 0)  # is proposed, and refused: the controller knows better
    bench.partition.isr_answered(IsrAnswer(1, Code.INELIGIBLE_REPLICA), bench.now_ms)
    bench.append(3)
    bench.fetched(1, 3)
    assert bench.partition.high_watermark == 0, "broker 2 is caught up, as far as is known, and about to join"
    bench.brokers.fenced = frozenset({2})
    assert bench.partition.brokers_changed(bench.now_ms) == (HighWatermark(3),)


def test_who_caught_up_while_another_change_was_asked_joins_next() -> None:
    bench = Bench()
    bench.lead(isr=(0,))
    bench.fetched(1, 0)
    bench.fetched(2, 0)
    effects = bench.partition.isr_answered(IsrAnswer(1, Code.NONE, 1, 2, (0, 1)), bench.now_ms)
    assert [type(effect) for effect in effects] == [IsrChanged, AlterIsr]
