"""Apache Kafka's rules in a broker of the simulator's: what it does not take, and Moldau's brokers would."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.broker.zookeeper import batch, translation
from moldau.broker.zookeeper.rules import Rules
from moldau.controller.requests import AlterPartitionReassignments, BrokerRefused, Move
from moldau.image import Image
from moldau.image.partition import Key
from moldau.model import Code
from moldau.simulator.kafka_rules import KafkaRules
from moldau.simulator.machines.controller_harness import ControllerHarness
from moldau.simulator.plan_zookeeper import with_kafka_brokers
from moldau.simulator.planes import plan_of
from moldau.simulator.scenes import MIXED, ZOOKEEPER
from moldau.wire.messages.k04_leader_and_isr import LeaderAndIsrRequest
from moldau.wire.messages.k05_stop_replica import StopReplicaRequest
from moldau.wire.records.metadata import PartitionRecord

SENDER = batch.SendingController(controller_id=99, controller_epoch=3, listener="PLAINTEXT")


class Told(ControllerHarness):
    """A controller whose commits are carried to broker ``me``, which goes by ``rules``."""

    def __init__(self, rules: Rules, me: int, **settings: Any) -> None:
        self.rules, self.me = rules, me
        self.there = Image()
        self.codes: list[Code] = []
        """Of the roles, in the order in which they were given."""
        self.shows: set[Key] = set()
        """Replicas that were given a part."""
        super().__init__(4, elr=False, zookeeper_mode=True, **settings)

    def commit(self, records: Any, request: Any = None) -> Any:
        ready = super().commit(records, request)
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
    harness = Told(KafkaRules(), 0, epoch_for_each_change=told)
    harness.create("t", (0, 1, 2))
    assert harness.codes == [Code.NONE]
    harness.submit(BrokerRefused(broker_id=2, broker_epoch=harness.broker(2).epoch))
    assert harness.partition("t").isr == (0, 1)
    assert harness.codes[1:] == [Code.NONE if told else Code.STALE_CONTROLLER_EPOCH]
    assert harness.agrees()


def test_the_rules_of_moldau_take_them() -> None:
    harness = Told(Rules(), 0)
    harness.create("t", (0, 1, 2))
    harness.submit(BrokerRefused(broker_id=2, broker_epoch=harness.broker(2).epoch))
    assert harness.codes == [Code.NONE, Code.NONE]


@pytest.mark.parametrize("rules", [Rules, KafkaRules])
def test_a_replica_comes_by_its_role_and_goes_by_the_word_to_delete_it(rules: type[Rules]) -> None:
    harness = Told(rules(), 3, epoch_for_each_change=True)
    harness.create("t", (0, 1, 2))
    key = harness.partition("t").key
    assert not harness.codes
    harness.submit(AlterPartitionReassignments(moves=(Move(topic="t", partition=0, replicas=(0, 1, 3)),)))
    assert harness.codes == [Code.NONE]
    assert harness.agrees()
    harness.set_isr("t", 0, 0, 1, 2, 3)
    assert harness.partition("t").replicas == (0, 1, 3)
    harness.submit(AlterPartitionReassignments(moves=(Move(topic="t", partition=0, replicas=(0, 1, 2)),)))
    harness.set_isr("t", 0, 0, 1, 2, 3)
    assert harness.partition("t").replicas == (0, 1, 2)
    assert harness.agrees(), "the word to delete it brings what had been told before"
    assert key in harness.shows


def test_what_the_metadata_says_of_a_replica_here_waits_for_the_request_that_is_for_it() -> None:
    harness = Told(KafkaRules(), 3, epoch_for_each_change=True)
    harness.create("t", (0, 1, 3))
    before = harness.there.topic("t")
    assert before is not None
    real, harness.hear = harness.hear, lambda message: None  # type: ignore[method-assign]
    harness.submit(AlterPartitionReassignments(moves=(Move(topic="t", partition=0, replicas=(0, 1, 2)),)))
    harness.set_isr("t", 0, 0, 1, 2)
    assert harness.partition("t").replicas == (0, 1, 2)
    shown, *_ = batch.full(harness.image, harness.broker(3), SENDER)
    real(shown)
    assert 3 in harness.there.topic("t").partitions[0].replicas, "nothing has told it to delete the replica"  # type: ignore[union-attr]
    real(batch.stop_replica(harness.broker(3), [("t", 0, harness.partition("t").leader_epoch)], SENDER, delete=False))
    assert 3 in harness.there.topic("t").partitions[0].replicas  # type: ignore[union-attr]
    real(batch.stop_replica(harness.broker(3), [("t", 0, harness.partition("t").leader_epoch)], SENDER, delete=True))
    assert harness.agrees()


def test_a_list_that_says_it_is_complete_tells_of_no_topic_that_is_gone() -> None:
    harness = Told(KafkaRules(), 0)
    harness.create("t", (0, 1, 2))
    metadata, _ = batch.full(Image(), harness.broker(0), SENDER)
    assert Rules().unnamed(harness.there, metadata) == ["t"]  # type: ignore[arg-type]
    assert KafkaRules().unnamed(harness.there, metadata) == []  # type: ignore[arg-type]


def test_brokers_of_both_kinds_are_in_a_third_of_the_plans_and_in_each_that_asks_for_them() -> None:
    drawn = [plan_of(seed, None, ZOOKEEPER) for seed in range(300)]
    assert 80 <= sum(bool(plan.kafka) for plan in drawn) <= 130
    for plan in [*drawn, *(plan_of(seed, MIXED, ZOOKEEPER, buggify=False) for seed in range(20))]:
        assert set(plan.kafka) < set(plan.brokers)
    assert all(plan_of(seed, MIXED, ZOOKEEPER, buggify=False).kafka for seed in range(20))
    assert not any(plan_of(seed, None, ZOOKEEPER, buggify=False).kafka for seed in range(50)), "old finds stay"
    assert with_kafka_brokers(drawn[0], always=True).kafka
