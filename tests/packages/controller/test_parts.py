"""Large decisions in parts: the end is the same, no batch is large, and whatever happens in between does no harm."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from moldau.controller.facts import Decision
from moldau.controller.requests import (
    AlterPartition,
    AssignReplicasToDirs,
    BrokerHeartbeat,
    BrokerRefused,
    BrokersGone,
    CreateTopics,
    ElectLeaders,
    ElectUncleanLeaders,
    IsrChange,
    NewTopic,
    RebalanceLeaders,
    RegisterBroker,
    RemainingPartitions,
    Tick,
    UnregisterBroker,
)
from moldau.image import Partition
from moldau.model import Code
from moldau.simulator.machines.controller_harness import CLUSTER_ID, ControllerHarness
from moldau.wire.records.metadata import ConfigRecord

WHOLE = 10_000
WHEELS: dict[str, list[tuple[int, ...]]] = {
    "a": [(0, 1, 2), (1, 2, 0), (2, 0, 1)], "b": [(1, 2), (0, 1), (1, 0)],
}  # fmt: skip


class Sizes(ControllerHarness):
    """Notes how many records each batch has."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        self.sizes: list[int] = []
        super().__init__(*args, **settings)

    def commit(self, records: Any, request: Any = None) -> list[tuple[int, Any]]:
        self.sizes.append(len(records))
        return super().commit(records, request)


def full(partitions: int, at_once: int, **settings: Any) -> Sizes:
    """Three brokers with partitions on all of them; batches are counted from here."""
    harness = Sizes(3, partitions_at_once=at_once, **settings)
    for name, wheel in WHEELS.items():
        harness.create(name, *[wheel[number % len(wheel)] for number in range(partitions // 2)])
    harness.sizes.clear()
    return harness


def by_name(harness: ControllerHarness) -> dict[tuple[str, int], Partition]:
    """All partitions, by topic and number."""
    topics = harness.image.topics.values()
    return {(topic.name, number): partition for topic in topics for number, partition in topic.partitions.items()}


def partitions_of(harness: ControllerHarness) -> dict[tuple[str, int], Partition]:
    """All partitions, without what was drawn by chance."""
    return {name: partition._replace(topic_id=b"") for name, partition in by_name(harness).items()}


def refused(harness: ControllerHarness) -> None:
    harness.submit(BrokerRefused(broker_id=1, broker_epoch=harness.broker(1).epoch))


def gone(harness: ControllerHarness) -> None:
    harness.submit(BrokersGone(brokers=((1, harness.broker(1).epoch),)))


def silent(harness: ControllerHarness) -> None:
    harness.now_ms += 8_000
    for id in (0, 2):
        harness.heartbeat(id)
    harness.now_ms += 1_500
    harness.submit(Tick())


def unregistered(harness: ControllerHarness) -> None:
    harness.submit(UnregisterBroker(broker_id=1))


def restarted(harness: ControllerHarness) -> None:
    """A new process, before anybody noticed that the old one is dead."""
    harness.register(1, 1, previous_is_gone=True)


def restarted_in_order(harness: ControllerHarness) -> None:
    harness.register(1, 1, previous_broker_epoch=harness.broker(1).epoch)


def leaves(harness: ControllerHarness) -> None:
    while not harness.heartbeat(1, want_shut_down=True).should_shut_down:
        for id in (0, 2):
            harness.heartbeat(id)


def comes_back_to_the_leaderless(harness: ControllerHarness) -> None:
    for id in (0, 1, 2):
        harness.submit(BrokerRefused(broker_id=id, broker_epoch=harness.broker(id).epoch))
    assert all(partition.leader < 0 for partition in partitions_of(harness).values())
    harness.register(1, previous_broker_epoch=harness.broker(1).epoch)
    harness.heartbeat(1)


@pytest.mark.parametrize("elr", [True, False])
@pytest.mark.parametrize(
    "action", [refused, silent, unregistered, restarted, restarted_in_order, leaves, comes_back_to_the_leaderless]
)
def test_what_becomes_of_partitions_in_parts_is_what_becomes_of_them_at_once(
    action: Callable[[ControllerHarness], None], elr: bool
) -> None:
    whole = full(40, WHOLE, elr=elr)
    action(whole)
    for at_once in (1, 7, 39):
        harness = full(40, at_once, elr=elr)
        action(harness)
        assert partitions_of(harness) == partitions_of(whole)
        fenced = {id: broker.fenced for id, broker in harness.image.brokers.items()}
        assert fenced == {id: broker.fenced for id, broker in whole.image.brokers.items()}
        assert max(harness.sizes) <= at_once + 1, "a part, or what is left and the registration"
        assert not harness.controller.soft_state.leaving, "nobody is going any more"


def begun(harness: ControllerHarness, request: Any) -> Any:
    """The first part of a request, committed; what is to be asked next."""
    answer = harness.controller.decide(request, harness.facts())
    harness.commit(answer.records, request)
    assert (answer.token, answer.reply) == (None, None)
    return answer.then


def test_who_is_going_is_given_nothing() -> None:
    harness = full(40, 4)
    harness.set_isr("a", 0, 0, 2)
    then = begun(harness, BrokerRefused(broker_id=1, broker_epoch=harness.broker(1).epoch))
    topic = NewTopic(name="new", partitions=12, replication_factor=1)
    assert harness.submit(CreateTopics(topics=(topic,))).topics[0].problem.code is Code.NONE
    assert {p.leader for (name, _), p in partitions_of(harness).items() if name == "new"} == {0, 2}
    partition = harness.partition("a")
    back = IsrChange(
        key=partition.key,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        isr=tuple((id, harness.broker(id).epoch) for id in (*partition.isr, 1)),
    )
    request = AlterPartition(broker_id=0, broker_epoch=harness.broker(0).epoch, changes=(back,), version=3)
    assert harness.submit(request).partitions[0].code is Code.INELIGIBLE_REPLICA
    harness.submit(then)
    assert harness.broker(1).fenced


def test_a_successor_finds_a_broker_that_is_still_to_be_fenced_and_ends_what_was_begun() -> None:
    harness = full(40, 4)
    begun(harness, BrokerRefused(broker_id=1, broker_epoch=harness.broker(1).epoch))
    harness.controller.renounce()
    harness.controller.claim(9, harness.image, harness.facts())
    assert not harness.broker(1).fenced, "so it probes its address"
    refused(harness)
    assert harness.broker(1).fenced
    assert not any(1 in p.isr or p.leader == 1 for p in partitions_of(harness).values() if p.isr != (1,))


def test_the_rest_is_dropped_when_the_broker_has_registered_anew() -> None:
    harness = full(40, 4)
    then = begun(harness, BrokerRefused(broker_id=1, broker_epoch=harness.broker(1).epoch))
    assert isinstance(then, RemainingPartitions)
    assert not then.is_through
    harness.register(1, 1, previous_is_gone=True)
    harness.heartbeat(1)
    harness.set_isr("a", 0, 0, 2, 1)
    harness.sizes.clear()
    harness.submit(then)
    assert harness.partition("a").isr == (0, 2, 1)
    assert not harness.broker(1).fenced
    assert not any(harness.sizes)


@pytest.mark.parametrize("action", [refused, gone, restarted, restarted_in_order])
def test_in_zookeeper_mode_a_broker_goes_in_one_decision(action: Callable[[ControllerHarness], None]) -> None:
    """LI-3, as KafkaController.onBrokerFailure: whoever goes is shown as dead with its first partition."""
    harness = full(40, 4, elr=False, zookeeper_mode=True, epoch_for_each_change=True)
    action(harness)
    assert harness.sizes == [harness.sizes[0]]
    assert harness.sizes[0] > 20
    whole = full(40, WHOLE, elr=False, zookeeper_mode=True, epoch_for_each_change=True)
    action(whole)
    assert partitions_of(harness) == partitions_of(whole)


def test_a_second_alarm_while_a_broker_is_going_begins_nothing_anew() -> None:
    harness = full(40, 4)
    request = BrokerRefused(broker_id=1, broker_epoch=harness.broker(1).epoch)
    begun(harness, request)
    answer = harness.controller.decide(request, harness.facts())
    assert (answer.then, list(answer.records)) == (None, [])


def calls(work: Callable[[], object]) -> int:
    """How many Python functions a piece of work enters: a measure of work that no other process can disturb."""
    count = 0

    def enter(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(enter)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def steps_of_a_death(partitions: int) -> list[int]:
    """The work in each step of the loop while a broker with so many partitions is fenced."""
    harness = full(partitions, 100, watch=False)
    request: Any = BrokerRefused(broker_id=1, broker_epoch=harness.broker(1).epoch)
    steps = []
    while request is not None:
        answers = []
        requested = request
        steps.append(calls(lambda: answers.append(harness.controller.decide(requested, harness.facts()))))  # noqa: B023
        harness.commit(answers[0].records)
        request = answers[0].then
    assert harness.broker(1).fenced
    return steps


def test_ten_times_the_partitions_cost_ten_times_the_work_in_steps_that_are_no_larger() -> None:
    small, large = steps_of_a_death(1_000), steps_of_a_death(10_000)
    assert sum(large) < 11 * sum(small)
    assert max(large) < 1.2 * max(small)
    assert len(large) > 9 * len(small)


def test_a_decision_has_a_reply_or_something_that_comes_after_it() -> None:
    harness = full(40, 4)
    first = harness.controller.decide(BrokerRefused(broker_id=1, broker_epoch=harness.broker(1).epoch), harness.facts())
    assert first.then is not None
    assert Decision([], None).then is None


def test_a_registration_that_takes_parts_is_answered_once_with_its_epoch() -> None:
    harness = full(40, 4)
    reply = harness.submit(
        RegisterBroker(broker_id=1, cluster_id=CLUSTER_ID, incarnation_id=bytes(15) + b"x", previous_is_gone=True)
    )
    assert reply.code is Code.NONE
    assert reply.broker_epoch == harness.broker(1).epoch == harness.next_offset - 1


def test_replicas_in_a_directory_that_failed_leave_in_parts_and_those_in_others_stay() -> None:
    whole, harness = (full(40, at_once, elr=False) for at_once in (WHOLE, 4))
    ends = []
    for each in (whole, harness):
        disks = (b"x" * 16, b"y" * 16)
        each.register(1, 1, previous_broker_epoch=each.broker(1).epoch, log_dirs=disks)
        each.heartbeat(1)
        keys = [p.key for p in by_name(each).values() if 1 in p.replicas]
        places = {disks[0]: tuple(keys[3:]), disks[1]: tuple(keys[:3])}
        each.submit(AssignReplicasToDirs(broker_id=1, broker_epoch=each.broker(1).epoch, directories=places))
        for (name, number), p in by_name(each).items():
            each.set_isr(name, number, *p.replicas)
        each.sizes.clear()
        each.heartbeat(1, offline_log_dirs=disks[:1])
        assert each.broker(1).log_dirs == disks[1:]
        assert not each.broker(1).fenced
        ends.append(partitions_of(each))
        in_lost = [p for p in ends[-1].values() if p.directory(1) == disks[0]]
        assert len(in_lost) > 20
        assert not any(1 in p.isr or p.leader == 1 for p in in_lost if p.isr != (1,))
        assert sum(1 in p.isr for p in ends[-1].values()) == 3
    assert ends[0] == ends[1]
    assert max(harness.sizes) <= 5 < max(whole.sizes)
    assert not harness.controller.soft_state.leaving


def back_in_sync(harness: Sizes) -> None:
    """Broker 1 was away, and is in every ISR again, leading nothing."""
    refused(harness)
    harness.heartbeat(1)
    for (name, number), p in by_name(harness).items():
        if 1 in p.replicas:
            harness.set_isr(name, number, *p.isr, *({1} - set(p.isr)))
    harness.sizes.clear()


@pytest.mark.parametrize(
    "wanted",
    [
        ElectLeaders(election_type=0),
        ElectLeaders(election_type=0, partitions=tuple((name, number) for name in "abc" for number in range(19))),
        RebalanceLeaders(),
    ],
)
def test_elections_for_many_in_parts_are_those_that_are_held_at_once(wanted: Any) -> None:
    whole, harness = full(40, WHOLE), full(40, 4)
    replies = []
    for each in (whole, harness):
        back_in_sync(each)
        replies.append(each.submit(wanted))
    assert replies[0] == replies[1]
    assert partitions_of(harness) == partitions_of(whole)
    assert len(harness.image.index.led[1]) > 8
    assert max(whole.sizes) > 8
    assert max(harness.sizes) <= 4


def test_partitions_that_nobody_can_lead_keep_no_others_from_an_unclean_election() -> None:
    harness = Sizes(3, partitions_at_once=4, elr=False)
    harness.create("a", *[(0, 1)] * 20)
    harness.create("b", *[(0, 2)] * 2)
    for id in (2, 1, 0):
        harness.submit(BrokerRefused(broker_id=id, broker_epoch=harness.broker(id).epoch))
    harness.register(2, 1, previous_is_gone=True)
    harness.heartbeat(2)
    assert len(harness.image.index.led[-1]) == 22
    harness.submit(ElectUncleanLeaders())
    assert len(harness.image.index.led[-1]) == 22
    for name in "ab":
        setting = ConfigRecord(resource_type=2, resource_name=name, name="unclean.leader.election.enable", value="true")
        harness.image.apply(setting)
    harness.controller.renounce()
    harness.controller.claim(9, harness.image, harness.facts())
    reply = harness.submit(ElectUncleanLeaders())
    assert (reply.count, getattr(reply, "more", False)) == (2, False)
    assert sorted(harness.image.index.led[2]) == [
        p.key for (name, _), p in sorted(by_name(harness).items()) if name == "b"
    ]


def with_two_disks(harness: Sizes) -> BrokerHeartbeat:
    """Broker 1 has two directories; its heartbeat that the one with most of its partitions has failed."""
    disks = (b"x" * 16, b"y" * 16)
    harness.register(1, 1, previous_broker_epoch=harness.broker(1).epoch, log_dirs=disks)
    harness.heartbeat(1)
    epoch = harness.broker(1).epoch
    keys = tuple(p.key for p in by_name(harness).values() if 1 in p.replicas)
    harness.submit(AssignReplicasToDirs(broker_id=1, broker_epoch=epoch, directories={disks[0]: keys}))
    for (name, number), p in by_name(harness).items():
        harness.set_isr(name, number, *p.replicas)
    return BrokerHeartbeat(
        broker_id=1, broker_epoch=epoch, metadata_offset=harness.next_offset - 1, offline_log_dirs=disks[:1]
    )


def begun_behind_the_answer(harness: Sizes, request: BrokerHeartbeat, parts: int) -> Any:
    """A heartbeat that is answered at once, and so many parts of what comes after it; what is left."""
    then: Any = request
    for _ in range(parts + 1):
        answer = harness.controller.decide(then, harness.facts())
        harness.commit(answer.records, then)
        then = answer.then
    assert isinstance(then, RemainingPartitions)
    return then


@pytest.mark.parametrize("parts", range(0, 9, 2))
def test_a_broker_that_dies_while_its_failed_directory_is_emptied_is_fenced_and_stays_so(parts: int) -> None:
    """The heartbeat that told of the directory is decided on again after its parts: it is no sign of life then."""
    harness = full(40, 4)
    then = begun_behind_the_answer(harness, with_two_disks(harness), parts)
    refused(harness)
    assert harness.broker(1).fenced, "at once: the parts under way are no death"
    assert not any(1 in p.isr or p.leader == 1 for p in partitions_of(harness).values() if p.isr != (1,))
    harness.submit(then)
    assert harness.broker(1).fenced
    assert 1 not in harness.controller.soft_state.sessions, "its next process need not wait for it"
    assert not harness.controller.soft_state.leaving
    assert not harness.controller.soft_state.ending


def test_a_heartbeat_that_is_decided_on_after_its_parts_renews_no_session() -> None:
    harness = full(40, 4)
    then = begun_behind_the_answer(harness, with_two_disks(harness), 2)
    before = harness.controller.soft_state.sessions[1]
    harness.now_ms += 5_000
    harness.submit(then)
    assert harness.broker(1).log_dirs == (b"y" * 16,)
    assert harness.controller.soft_state.sessions[1] == before


@pytest.mark.parametrize("at_once", [WHOLE, 39, 4])
def test_a_broker_with_many_partitions_goes_only_when_the_others_have_read_who_leads_in_its_place(at_once: int) -> None:
    """KAFKA-14292's kind: who is emptied in parts leads nothing when its shutdown begins, and may not go for that."""
    harness = full(40, at_once)
    for id in (0, 2):
        harness.heartbeat(id)
    assert not harness.heartbeat(1, want_shut_down=True).should_shut_down
    assert harness.broker(1).in_controlled_shutdown
    assert not harness.broker(1).fenced
    ended = harness.next_offset - 1
    for read in (None, 0, 2):
        assert not harness.heartbeat(1, want_shut_down=True).should_shut_down
        if read is not None:
            harness.heartbeat(read, metadata_offset=ended)
    assert harness.heartbeat(1, want_shut_down=True).should_shut_down


def test_a_broker_that_asks_again_while_it_is_emptied_may_not_go_yet() -> None:
    harness = full(40, 4)
    request = BrokerHeartbeat(
        broker_id=1, broker_epoch=harness.broker(1).epoch, metadata_offset=harness.next_offset - 1, want_shut_down=True
    )
    then = begun_behind_the_answer(harness, request, 1)
    while not then.is_through:
        answer = harness.controller.decide(then, harness.facts())
        harness.commit(answer.records, then)
        then = answer.then
    assert not harness.image.index.led.get(1)
    assert not harness.heartbeat(1, want_shut_down=True).should_shut_down
    harness.submit(then)
    assert harness.broker(1).in_controlled_shutdown
