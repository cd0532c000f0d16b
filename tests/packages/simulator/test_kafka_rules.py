"""Apache Kafka's rules in a broker of the simulator's: what it does not take, and Moldau's brokers would."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.broker.zookeeper import batch, translation
from moldau.broker.zookeeper.rules import Rules
from moldau.controller.asks import AlterPartitionReassignments, BrokerRefused, Move
from moldau.image import Image
from moldau.image.partition import Key
from moldau.model import Code
from moldau.simulator.kafka_rules import KafkaRules
from moldau.simulator.machines.controller_desk import Desk
from moldau.simulator.plan_zookeeper import with_kafka_brokers
from moldau.simulator.planes import plan_of
from moldau.simulator.scenes import MIXED, ZOOKEEPER
from moldau.wire.messages.k04_leader_and_isr import LeaderAndIsrRequest
from moldau.wire.messages.k05_stop_replica import StopReplicaRequest
from moldau.wire.records.metadata import PartitionRecord

SENDER = batch.Sender(controller_id=99, controller_epoch=3, listener="PLAINTEXT")


class Told(Desk):
    """A controller whose commits are carried to broker ``me``, which goes by ``rules``."""

    def __init__(self, rules: Rules, me: int, **settings: Any) -> None:
        self.rules, self.me = rules, me
        self.there = Image()
        self.codes: list[Code] = []
        """Of the roles, in the order in which they were given."""
        self.shows: set[Key] = set()
        """Replicas that were given a part."""
        super().__init__(4, elr=False, classic=True, **settings)

    def commit(self, records: Any, ask: Any = None) -> Any:
        ready = super().commit(records, ask)
        for message in batch.requests(self.image, self.delta, SENDER).get(self.me, []):
            self.hear(message)
        return ready

    def hear(self, message: Any) -> None:
        if isinstance(message, LeaderAndIsrRequest):
            found, roles = self.rules.leader_and_isr(self.there, self.me, message, ())
            self.codes += [code for _, _, _, code in roles]
        elif isinstance(message, StopReplicaRequest):
            found, _ = self.rules.stop_replica(self.there, self.me, message)
        else:
            epochs = {id: self.image.brokers[id].epoch for id in translation.newly_live(self.there, message)}
            found = self.rules.update_metadata(self.there, self.me, message, epochs, ())
        self.there.apply_all(found)
        self.shows |= {(one.topic_id, one.partition_id) for one in found if isinstance(one, PartitionRecord)}

    def agrees(self) -> bool:
        """Whether the broker knows of t what the controller does."""
        here, there = self.image.topic("t"), self.there.topic("t")
        assert here is not None
        return there is not None and [
            (p.leader, p.leader_epoch, p.partition_epoch, p.isr, p.replicas) for p in here.partitions.values()
        ] == [(p.leader, p.leader_epoch, p.partition_epoch, p.isr, p.replicas) for p in there.partitions.values()]


@pytest.mark.parametrize("told", [True, False], ids=["a new epoch", "the same epoch"])
def test_roles_under_the_leader_epoch_that_it_has_are_passed_over(told: bool) -> None:
    """Clients are told of the smaller ISR all the same: UpdateMetadata is not LeaderAndIsr."""
    desk = Told(KafkaRules(), 0, epoch_for_each_change=told)
    desk.create("t", (0, 1, 2))
    assert desk.codes == [Code.NONE]
    desk.ask(BrokerRefused(broker_id=2, broker_epoch=desk.broker(2).epoch))
    assert desk.partition("t").isr == (0, 1)
    assert desk.codes[1:] == [Code.NONE if told else Code.STALE_CONTROLLER_EPOCH]
    assert desk.agrees()


def test_the_rules_of_moldau_take_them() -> None:
    desk = Told(Rules(), 0)
    desk.create("t", (0, 1, 2))
    desk.ask(BrokerRefused(broker_id=2, broker_epoch=desk.broker(2).epoch))
    assert desk.codes == [Code.NONE, Code.NONE]


@pytest.mark.parametrize("rules", [Rules, KafkaRules])
def test_a_replica_comes_by_its_role_and_goes_by_the_word_to_delete_it(rules: type[Rules]) -> None:
    desk = Told(rules(), 3, epoch_for_each_change=True)
    desk.create("t", (0, 1, 2))
    key = desk.partition("t").key
    assert not desk.codes
    desk.ask(AlterPartitionReassignments(moves=(Move(topic="t", partition=0, replicas=(0, 1, 3)),)))
    assert desk.codes == [Code.NONE]
    assert desk.agrees()
    desk.set_isr("t", 0, 0, 1, 2, 3)
    assert desk.partition("t").replicas == (0, 1, 3)
    desk.ask(AlterPartitionReassignments(moves=(Move(topic="t", partition=0, replicas=(0, 1, 2)),)))
    desk.set_isr("t", 0, 0, 1, 2, 3)
    assert desk.partition("t").replicas == (0, 1, 2)
    assert desk.agrees(), "the word to delete it brings what had been told before"
    assert key in desk.shows


def test_what_the_metadata_says_of_a_replica_here_waits_for_the_request_that_is_for_it() -> None:
    desk = Told(KafkaRules(), 3, epoch_for_each_change=True)
    desk.create("t", (0, 1, 3))
    before = desk.there.topic("t")
    assert before is not None
    real, desk.hear = desk.hear, lambda message: None  # type: ignore[method-assign]
    desk.ask(AlterPartitionReassignments(moves=(Move(topic="t", partition=0, replicas=(0, 1, 2)),)))
    desk.set_isr("t", 0, 0, 1, 2)
    assert desk.partition("t").replicas == (0, 1, 2)
    shown, *_ = batch.full(desk.image, desk.broker(3), SENDER)
    real(shown)
    assert 3 in desk.there.topic("t").partitions[0].replicas, "nothing has told it to delete the replica"  # type: ignore[union-attr]
    real(batch.stop_replica(desk.broker(3), [("t", 0, desk.partition("t").leader_epoch)], SENDER, delete=False))
    assert 3 in desk.there.topic("t").partitions[0].replicas  # type: ignore[union-attr]
    real(batch.stop_replica(desk.broker(3), [("t", 0, desk.partition("t").leader_epoch)], SENDER, delete=True))
    assert desk.agrees()


def test_a_list_that_says_it_is_complete_tells_of_no_topic_that_is_gone() -> None:
    desk = Told(KafkaRules(), 0)
    desk.create("t", (0, 1, 2))
    metadata, _ = batch.full(Image(), desk.broker(0), SENDER)
    assert Rules().unnamed(desk.there, metadata) == ["t"]  # type: ignore[arg-type]
    assert KafkaRules().unnamed(desk.there, metadata) == []  # type: ignore[arg-type]


def test_brokers_of_both_kinds_are_in_a_third_of_the_plans_and_in_each_that_asks_for_them() -> None:
    drawn = [plan_of(seed, None, ZOOKEEPER) for seed in range(300)]
    assert 80 <= sum(bool(plan.kafka) for plan in drawn) <= 130
    for plan in [*drawn, *(plan_of(seed, MIXED, ZOOKEEPER, buggify=False) for seed in range(20))]:
        assert set(plan.kafka) < set(plan.brokers)
    assert all(plan_of(seed, MIXED, ZOOKEEPER, buggify=False).kafka for seed in range(20))
    assert not any(plan_of(seed, None, ZOOKEEPER, buggify=False).kafka for seed in range(50)), "old finds stay"
    assert with_kafka_brokers(drawn[0], always=True).kafka
