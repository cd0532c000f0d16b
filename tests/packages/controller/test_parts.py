"""Large decisions in parts: the end is the same, no batch is large, and whatever happens in between does no harm."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from moldau.controller.asks import (
    AlterPartition,
    AssignReplicasToDirs,
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
from moldau.controller.facts import Decision
from moldau.image import Partition
from moldau.model import Code
from moldau.simulator.machines.controller_desk import CLUSTER_ID, Desk
from moldau.wire.records.metadata import ConfigRecord

WHOLE = 10_000
WHEELS = {"a": [(0, 1, 2), (1, 2, 0), (2, 0, 1)], "b": [(1, 2), (0, 1), (1, 0)]}


class Sizes(Desk):
    """Notes how many records each batch has."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        self.sizes: list[int] = []
        super().__init__(*args, **settings)

    def commit(self, records: Any, ask: Any = None) -> list[tuple[int, Any]]:
        self.sizes.append(len(records))
        return super().commit(records, ask)


def full(partitions: int, at_once: int, **settings: Any) -> Sizes:
    """Three brokers with partitions on all of them; batches are counted from here."""
    desk = Sizes(3, partitions_at_once=at_once, **settings)
    for name, wheel in WHEELS.items():
        desk.create(name, *[wheel[number % len(wheel)] for number in range(partitions // 2)])
    desk.sizes.clear()
    return desk


def by_name(desk: Desk) -> dict[tuple[str, int], Partition]:
    """All partitions, by topic and number."""
    topics = desk.image.topics.values()
    return {(topic.name, number): partition for topic in topics for number, partition in topic.partitions.items()}


def standing(desk: Desk) -> dict[tuple[str, int], Partition]:
    """All partitions, without what was drawn by chance."""
    return {name: partition._replace(topic_id=b"") for name, partition in by_name(desk).items()}


def refused(desk: Desk) -> None:
    desk.ask(BrokerRefused(broker_id=1, broker_epoch=desk.broker(1).epoch))


def gone(desk: Desk) -> None:
    desk.ask(BrokersGone(brokers=((1, desk.broker(1).epoch),)))


def silent(desk: Desk) -> None:
    desk.now_ms += 8_000
    for id in (0, 2):
        desk.beat(id)
    desk.now_ms += 1_500
    desk.ask(Tick())


def unregistered(desk: Desk) -> None:
    desk.ask(UnregisterBroker(broker_id=1))


def restarted(desk: Desk) -> None:
    """A new process, before anybody noticed that the old one is dead."""
    desk.register(1, 1, previous_is_gone=True)


def restarted_in_order(desk: Desk) -> None:
    desk.register(1, 1, previous_broker_epoch=desk.broker(1).epoch)


def leaves(desk: Desk) -> None:
    while not desk.beat(1, want_shut_down=True).should_shut_down:
        for id in (0, 2):
            desk.beat(id)


def comes_back_to_the_leaderless(desk: Desk) -> None:
    for id in (0, 1, 2):
        desk.ask(BrokerRefused(broker_id=id, broker_epoch=desk.broker(id).epoch))
    assert all(partition.leader < 0 for partition in standing(desk).values())
    desk.register(1, previous_broker_epoch=desk.broker(1).epoch)
    desk.beat(1)


@pytest.mark.parametrize("elr", [True, False])
@pytest.mark.parametrize(
    "action", [refused, silent, unregistered, restarted, restarted_in_order, leaves, comes_back_to_the_leaderless]
)
def test_what_becomes_of_partitions_in_parts_is_what_becomes_of_them_at_once(
    action: Callable[[Desk], None], elr: bool
) -> None:
    whole = full(40, WHOLE, elr=elr)
    action(whole)
    for at_once in (1, 7, 39):
        desk = full(40, at_once, elr=elr)
        action(desk)
        assert standing(desk) == standing(whole)
        fenced = {id: broker.fenced for id, broker in desk.image.brokers.items()}
        assert fenced == {id: broker.fenced for id, broker in whole.image.brokers.items()}
        assert max(desk.sizes) <= at_once + 1, "a part, or what is left and the registration"
        assert not desk.controller.soft.going, "nobody is going any more"


def begun(desk: Desk, ask: Any) -> Any:
    """The first part of an ask, committed; what is to be asked next."""
    answer = desk.controller.ask(ask, desk.facts())
    desk.commit(answer.records, ask)
    assert (answer.token, answer.reply) == (None, None)
    return answer.then


def test_who_is_going_is_given_nothing() -> None:
    desk = full(40, 4)
    desk.set_isr("a", 0, 0, 2)
    then = begun(desk, BrokerRefused(broker_id=1, broker_epoch=desk.broker(1).epoch))
    topic = NewTopic(name="new", partitions=12, replication_factor=1)
    assert desk.ask(CreateTopics(topics=(topic,))).topics[0].problem.code is Code.NONE
    assert {p.leader for (name, _), p in standing(desk).items() if name == "new"} == {0, 2}
    partition = desk.partition("a")
    back = IsrChange(
        key=partition.key,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        isr=tuple((id, desk.broker(id).epoch) for id in (*partition.isr, 1)),
    )
    ask = AlterPartition(broker_id=0, broker_epoch=desk.broker(0).epoch, changes=(back,), version=3)
    assert desk.ask(ask).partitions[0].code is Code.INELIGIBLE_REPLICA
    desk.ask(then)
    assert desk.broker(1).fenced


def test_a_successor_finds_a_broker_that_is_still_to_be_fenced_and_ends_what_was_begun() -> None:
    desk = full(40, 4)
    begun(desk, BrokerRefused(broker_id=1, broker_epoch=desk.broker(1).epoch))
    desk.controller.renounce()
    desk.controller.claim(9, desk.image, desk.facts())
    assert not desk.broker(1).fenced, "so it probes its address"
    refused(desk)
    assert desk.broker(1).fenced
    assert not any(1 in p.isr or p.leader == 1 for p in standing(desk).values() if p.isr != (1,))


def test_the_rest_is_dropped_when_the_broker_has_registered_anew() -> None:
    desk = full(40, 4)
    then = begun(desk, BrokerRefused(broker_id=1, broker_epoch=desk.broker(1).epoch))
    assert isinstance(then, RemainingPartitions)
    assert not then.is_through
    desk.register(1, 1, previous_is_gone=True)
    desk.beat(1)
    desk.set_isr("a", 0, 0, 2, 1)
    desk.sizes.clear()
    desk.ask(then)
    assert desk.partition("a").isr == (0, 2, 1)
    assert not desk.broker(1).fenced
    assert not any(desk.sizes)


@pytest.mark.parametrize("action", [refused, gone, restarted, restarted_in_order])
def test_in_zookeeper_mode_a_broker_goes_in_one_decision(action: Callable[[Desk], None]) -> None:
    """LI-3, as KafkaController.onBrokerFailure: whoever goes is shown as dead with its first partition."""
    desk = full(40, 4, elr=False, classic=True, epoch_for_each_change=True)
    action(desk)
    assert desk.sizes == [desk.sizes[0]]
    assert desk.sizes[0] > 20
    whole = full(40, WHOLE, elr=False, classic=True, epoch_for_each_change=True)
    action(whole)
    assert standing(desk) == standing(whole)


def test_a_second_alarm_while_a_broker_is_going_begins_nothing_anew() -> None:
    desk = full(40, 4)
    ask = BrokerRefused(broker_id=1, broker_epoch=desk.broker(1).epoch)
    begun(desk, ask)
    answer = desk.controller.ask(ask, desk.facts())
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
    desk = full(partitions, 100, watch=False)
    ask: Any = BrokerRefused(broker_id=1, broker_epoch=desk.broker(1).epoch)
    steps = []
    while ask is not None:
        answers = []
        asked = ask
        steps.append(calls(lambda: answers.append(desk.controller.ask(asked, desk.facts()))))  # noqa: B023
        desk.commit(answers[0].records)
        ask = answers[0].then
    assert desk.broker(1).fenced
    return steps


def test_ten_times_the_partitions_cost_ten_times_the_work_in_steps_that_are_no_larger() -> None:
    small, large = steps_of_a_death(1_000), steps_of_a_death(10_000)
    assert sum(large) < 11 * sum(small)
    assert max(large) < 1.2 * max(small)
    assert len(large) > 9 * len(small)


def test_a_decision_has_a_reply_or_something_that_comes_after_it() -> None:
    desk = full(40, 4)
    first = desk.controller.ask(BrokerRefused(broker_id=1, broker_epoch=desk.broker(1).epoch), desk.facts())
    assert first.then is not None
    assert Decision([], None).then is None


def test_a_registration_that_takes_parts_is_answered_once_with_its_epoch() -> None:
    desk = full(40, 4)
    reply = desk.ask(
        RegisterBroker(broker_id=1, cluster_id=CLUSTER_ID, incarnation_id=bytes(15) + b"x", previous_is_gone=True)
    )
    assert reply.code is Code.NONE
    assert reply.broker_epoch == desk.broker(1).epoch == desk.next_offset - 1


def test_replicas_in_a_directory_that_failed_leave_in_parts_and_those_in_others_stay() -> None:
    whole, desk = (full(40, at_once, elr=False) for at_once in (WHOLE, 4))
    ends = []
    for each in (whole, desk):
        disks = (b"x" * 16, b"y" * 16)
        each.register(1, 1, previous_broker_epoch=each.broker(1).epoch, log_dirs=disks)
        each.beat(1)
        keys = [p.key for p in by_name(each).values() if 1 in p.replicas]
        places = {disks[0]: tuple(keys[3:]), disks[1]: tuple(keys[:3])}
        each.ask(AssignReplicasToDirs(broker_id=1, broker_epoch=each.broker(1).epoch, directories=places))
        for (name, number), p in by_name(each).items():
            each.set_isr(name, number, *p.replicas)
        each.sizes.clear()
        each.beat(1, offline_log_dirs=disks[:1])
        assert each.broker(1).log_dirs == disks[1:]
        assert not each.broker(1).fenced
        ends.append(standing(each))
        in_lost = [p for p in ends[-1].values() if p.directory(1) == disks[0]]
        assert len(in_lost) > 20
        assert not any(1 in p.isr or p.leader == 1 for p in in_lost if p.isr != (1,))
        assert sum(1 in p.isr for p in ends[-1].values()) == 3
    assert ends[0] == ends[1]
    assert max(desk.sizes) <= 5 < max(whole.sizes)
    assert not desk.controller.soft.going


def back_in_sync(desk: Sizes) -> None:
    """Broker 1 was away, and is in every ISR again, leading nothing."""
    refused(desk)
    desk.beat(1)
    for (name, number), p in by_name(desk).items():
        if 1 in p.replicas:
            desk.set_isr(name, number, *p.isr, *({1} - set(p.isr)))
    desk.sizes.clear()


@pytest.mark.parametrize(
    "ask",
    [
        ElectLeaders(election_type=0),
        ElectLeaders(election_type=0, partitions=tuple((name, number) for name in "abc" for number in range(19))),
        RebalanceLeaders(),
    ],
)
def test_elections_for_many_in_parts_are_those_that_are_held_at_once(ask: Any) -> None:
    whole, desk = full(40, WHOLE), full(40, 4)
    replies = []
    for each in (whole, desk):
        back_in_sync(each)
        replies.append(each.ask(ask))
    assert replies[0] == replies[1]
    assert standing(desk) == standing(whole)
    assert len(desk.image.index.led[1]) > 8
    assert max(whole.sizes) > 8
    assert max(desk.sizes) <= 4


def test_partitions_that_nobody_can_lead_keep_no_others_from_an_unclean_election() -> None:
    desk = Sizes(3, partitions_at_once=4, elr=False)
    desk.create("a", *[(0, 1)] * 20)
    desk.create("b", *[(0, 2)] * 2)
    for id in (2, 1, 0):
        desk.ask(BrokerRefused(broker_id=id, broker_epoch=desk.broker(id).epoch))
    desk.register(2, 1, previous_is_gone=True)
    desk.beat(2)
    assert len(desk.image.index.led[-1]) == 22
    desk.ask(ElectUncleanLeaders())
    assert len(desk.image.index.led[-1]) == 22
    for name in "ab":
        setting = ConfigRecord(resource_type=2, resource_name=name, name="unclean.leader.election.enable", value="true")
        desk.image.apply(setting)
    desk.controller.renounce()
    desk.controller.claim(9, desk.image, desk.facts())
    reply = desk.ask(ElectUncleanLeaders())
    assert (reply.count, getattr(reply, "more", False)) == (2, False)
    assert sorted(desk.image.index.led[2]) == [p.key for (name, _), p in sorted(by_name(desk).items()) if name == "b"]
