"""Asks of a plane that keeps the cluster outside: registrations under its numbers, deaths, work of tools."""

from __future__ import annotations

from moldau.controller.requests import AdoptPartitions, BrokersGone, ReconcileOnFailover
from moldau.image import NO_LEADER
from moldau.simulator.machines.controller_harness import ControllerHarness
from moldau.wire.records.metadata import PartitionChangeRecord

ID = b"a topic's own id"


def harness(brokers: int = 3) -> ControllerHarness:
    return ControllerHarness(brokers, elr=False)


def test_a_registration_has_the_number_that_the_plane_gave_it() -> None:
    at = harness()
    assert at.register(7, broker_epoch=4711, previous_is_gone=True).broker_epoch == 4711
    assert at.broker(7).epoch == 4711


def test_a_bounce_that_nobody_saw_is_seen_by_its_number() -> None:
    """The session was lost and made again; the broker leaves every ISR, and may join them again."""
    at = harness()
    at.create("t", (0, 1, 2))
    epoch = at.broker(1).epoch
    at.register(1, 1, broker_epoch=epoch + 100, previous_is_gone=True)
    assert at.broker(1).epoch == epoch + 100
    assert at.broker(1).fenced
    assert at.partition("t").isr == (0, 2)
    at.heartbeat(1)
    at.register(1, 1, broker_epoch=epoch + 100, previous_is_gone=True)  # told twice
    assert at.broker(1).epoch == epoch + 100
    assert not at.broker(1).fenced


def test_brokers_that_go_together_are_not_elected_one_after_the_other() -> None:
    at = harness()
    at.create("t", (0, 1, 2))
    at.set_isr("t", 0, 0, 1)
    gone = tuple((id, at.broker(id).epoch) for id in (0, 1))
    assert at.submit(BrokersGone(brokers=gone)).count == 2
    assert at.partition("t").leader == NO_LEADER
    assert set(at.partition("t").isr) == {0, 1}  # either may lead when it is back
    assert len([r for r in at.records if isinstance(r, PartitionChangeRecord)]) == 1


def test_a_death_of_an_earlier_life_is_no_news() -> None:
    at = harness()
    assert at.submit(BrokersGone(brokers=((1, at.broker(1).epoch - 1), (9, 5)))).count == 0
    assert not at.records


def test_taking_stock_buries_the_dead_and_leads_whatever_can_be_led() -> None:
    at = harness()
    at.create("led-by-the-dead", (0, 1, 2))
    at.create("left-alone", (1, 2, 0))
    at.set_isr("left-alone", 0, 1)
    partition = at.partition("left-alone")
    at.commit([PartitionChangeRecord(topic_id=partition.topic_id, partition_id=0, leader=NO_LEADER)])
    at.controller.renounce()
    at.controller.claim(9, at.image, at.facts())  # as one that has just read all this
    at.submit(ReconcileOnFailover(dead=(0,)))
    assert at.broker(0).fenced
    assert at.partition("led-by-the-dead").leader == 1
    assert at.partition("left-alone").leader == 1
    assert not at.broker(1).fenced


def test_taking_stock_ends_a_move_whose_target_is_in_sync() -> None:
    """Another controller died after the last change of the ISR: no other change need ever come."""
    at = harness()
    for name in ("t", "behind"):
        at.create(name, (0,))
        id = at.partition(name).topic_id
        union = {"replicas": [1, 0], "adding_replicas": [1], "removing_replicas": [0]}
        at.commit([PartitionChangeRecord(topic_id=id, partition_id=0, **union)])
    at.commit([PartitionChangeRecord(topic_id=at.partition("t").topic_id, partition_id=0, isr=[0, 1])])
    at.controller.renounce()
    at.controller.claim(9, at.image, at.facts())
    at.submit(ReconcileOnFailover())
    assert (at.partition("t").replicas, at.partition("t").leader, at.partition("t").reassigning) == ((1,), 1, False)
    assert at.partition("behind").reassigning


def test_partitions_that_a_tool_put_down_get_leaders_once_a_replica_lives() -> None:
    at = harness()
    wish = AdoptPartitions(
        name="t", topic_id=ID, partitions=((0, (2, 1)), (1, (8, 9))), configs=(("retention.ms", "5000"),)
    )
    at.submit(wish)
    topic = at.image.topic("t")
    assert topic is not None
    assert topic.id == ID
    assert list(topic.partitions) == [0]  # nobody lives who could lead the other
    assert at.partition("t").leader == 2
    assert at.partition("t").isr == (2, 1)
    assert at.image.config(2, "t") == {"retention.ms": "5000"}
    at.submit(wish)
    assert not at.records
    at.add_broker(9)
    at.submit(wish)
    assert at.partition("t", 1).leader == 9
    assert at.partition("t", 1).isr == (9,)


def test_whoever_died_and_came_back_while_nobody_ruled_is_trusted_no_more() -> None:
    """S11: its last records may be gone, so it must not lead on in its old epoch; others who are whole go first."""
    at = harness()
    at.create("t", (1, 0, 2))
    at.create("all-back", (1, 0))
    at.create("dead-but-whole", (1, 2))
    before = at.partition("t")
    at.controller.renounce()
    at.controller.claim(9, at.image, at.facts())
    at.submit(ReconcileOnFailover(dead=(2,), back=(1,)))
    after = at.partition("t")
    assert (after.leader, after.isr) == (0, (0,))
    assert after.leader_epoch == before.leader_epoch + 1
    assert at.broker(1).fenced
    assert (at.partition("all-back").leader, at.partition("all-back").isr) == (0, (0,))
    assert (at.partition("dead-but-whole").leader, at.partition("dead-but-whole").isr) == (NO_LEADER, (2,))
