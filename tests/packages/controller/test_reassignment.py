"""Moving replicas: through the union to the target, cancelled or completed, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.controller.requests import (
    AlterPartitionReassignments,
    AssignReplicasToDirs,
    BrokerRefused,
    CreatePartitions,
    DeleteTopics,
    ListPartitionReassignments,
    MorePartitions,
    Move,
)
from moldau.model import Code
from moldau.simulator.machines.controller_harness import ControllerHarness


def move(harness: ControllerHarness, *replicas: int, topic: str = "t", partition: int = 0, **fields: Any) -> Code:
    wish = Move(topic=topic, partition=partition, replicas=replicas)
    ((_, _, problem),) = harness.submit(AlterPartitionReassignments(moves=(wish,), **fields)).partitions
    return Code(problem.code)


def cancel(harness: ControllerHarness) -> Code:
    wish = Move(topic="t", partition=0, replicas=None)
    ((_, _, problem),) = harness.submit(AlterPartitionReassignments(moves=(wish,))).partitions
    return Code(problem.code)


def look(harness: ControllerHarness) -> tuple[set[int], int, set[int]]:
    partition = harness.partition("t")
    return set(partition.replicas), partition.leader, set(partition.isr)


def harness() -> ControllerHarness:
    harness = ControllerHarness(7)
    harness.create("t", (1, 2, 3))
    return harness


def test_replicas_go_through_the_union_and_the_leader_with_them() -> None:
    """OAR {1,2,3}, RAR {4,5,6}. Election and the end of the move are one change here, not two."""
    d = harness()
    assert look(d) == ({1, 2, 3}, 1, {1, 2, 3})
    assert move(d, 4, 5, 6) == Code.NONE
    assert look(d) == ({1, 2, 3, 4, 5, 6}, 1, {1, 2, 3})
    partition = d.partition("t")
    assert partition.replicas == (4, 5, 6, 1, 2, 3), "the target leads the list"
    assert (partition.adding, partition.removing) == ((4, 5, 6), (1, 2, 3))
    assert partition.leader_epoch == 0, "nobody left: no new epoch"
    assert d.set_isr("t", 0, 1, 2, 3, 4) == Code.NONE
    assert d.set_isr("t", 0, 1, 2, 3, 4, 5) == Code.NONE
    assert look(d) == ({1, 2, 3, 4, 5, 6}, 1, {1, 2, 3, 4, 5})
    assert d.set_isr("t", 0, 1, 2, 3, 4, 5, 6) == Code.NEW_LEADER_ELECTED, "the old leader is no replica any more"
    assert look(d) == ({4, 5, 6}, 4, {4, 5, 6})
    assert not d.partition("t").reassigning
    assert d.partition("t").replicas == (4, 5, 6)
    assert d.partition("t").leader_epoch == 1


def test_a_move_within_the_isr_ends_at_once() -> None:
    d = harness()
    assert move(d, 3, 2, 1) == Code.NONE
    assert d.partition("t").replicas == (3, 2, 1)
    assert not d.partition("t").reassigning
    assert d.partition("t").leader == 1, "an order is not an election"
    assert move(d, 2, 3) == Code.NONE
    assert (d.partition("t").replicas, d.partition("t").isr, d.partition("t").leader) == ((2, 3), (2, 3), 2)


def test_a_move_does_not_end_before_all_that_stay_are_in_sync() -> None:
    """KAFKA-15665."""
    d = harness()
    d.submit(BrokerRefused(broker_id=3, broker_epoch=d.broker(3).epoch))
    assert move(d, 2, 3) == Code.NONE
    assert d.partition("t").removing == (1,)
    assert d.partition("t").isr == (1, 2)
    d.heartbeat(3)
    assert d.set_isr("t", 0, 1, 2, 3) == Code.NEW_LEADER_ELECTED
    assert d.partition("t").replicas == (2, 3)


def test_the_death_of_a_replica_that_leaves_may_end_a_move() -> None:
    d = harness()
    move(d, 4, 2)
    assert d.set_isr("t", 0, 1, 2, 3, 4) == Code.NEW_LEADER_ELECTED
    assert d.partition("t").replicas == (4, 2)
    move(d, 4, 5)
    d.submit(BrokerRefused(broker_id=2, broker_epoch=d.broker(2).epoch))
    assert d.partition("t").reassigning
    assert d.partition("t").isr == (4,)
    assert d.set_isr("t", 0, 4, 5) == Code.NONE
    assert d.partition("t").replicas == (4, 5)


def test_cancelling_restores_the_original_replicas() -> None:
    d = harness()
    move(d, 4, 5, 6)
    d.set_isr("t", 0, 1, 2, 3, 4)
    epoch = d.partition("t").leader_epoch
    assert cancel(d) == Code.NONE
    assert look(d) == ({1, 2, 3}, 1, {1, 2, 3})
    assert d.partition("t").leader_epoch == epoch + 1, "so that 4 can be told stray (KAFKA-13972)"
    assert cancel(d) == Code.NO_REASSIGNMENT_IN_PROGRESS


@pytest.mark.parametrize("zookeeper_mode", [True, False], ids=["zookeeper", "kraft"])
def test_who_comes_and_goes_keeps_its_order_in_zookeeper_mode_and_a_cancelled_move_restores_it(
    zookeeper_mode: bool,
) -> None:
    """Kafka's ZooKeeper controller appends the old replicas as they are; KRaft's sorts those that go."""
    d = ControllerHarness(6, elr=False, zookeeper_mode=zookeeper_mode)
    d.create("t", (3, 1, 2))
    move(d, 5, 4, 1)
    p = d.partition("t")
    there = (5, 4, 1, 3, 2) if zookeeper_mode else (5, 4, 1, 2, 3)
    assert (p.replicas, p.adding, p.removing) == (
        there, (5, 4) if zookeeper_mode else (4, 5), (3, 2) if zookeeper_mode else (2, 3)
    )  # fmt: skip
    cancel(d)
    assert d.partition("t").replicas == ((1, 3, 2) if zookeeper_mode else (1, 2, 3))


def test_cancelling_is_refused_when_only_newcomers_are_in_sync() -> None:
    d = harness()
    move(d, 4, 5, 6)
    d.set_isr("t", 0, 1, 2, 3, 4)
    for id in (1, 2, 3):
        d.submit(BrokerRefused(broker_id=id, broker_epoch=d.broker(id).epoch))
    assert d.partition("t").isr == (4,)
    assert cancel(d) == Code.INVALID_REPLICA_ASSIGNMENT


def test_a_newcomer_that_holds_nothing_is_not_elected_even_uncleanly() -> None:
    """Kafka would: it tries every replica of the new list. Better no leader for a while."""
    d = ControllerHarness(4)
    d.create("t", (1,), configs={"unclean.leader.election.enable": "true"})
    d.submit(BrokerRefused(broker_id=1, broker_epoch=d.broker(1).epoch))
    assert move(d, 2, 3) == Code.NONE
    assert d.partition("t").leader == -1
    d.heartbeat(1)
    assert d.partition("t").leader == 1


@pytest.mark.parametrize("clean", [True, False])
def test_a_new_target_does_not_drop_the_only_replica_that_has_what_is_committed(clean: bool) -> None:
    """It was added by the move before, took the lead, and is down: its log would be a stray when it is back."""
    d = ControllerHarness(7)
    d.create("t", (1, 2))
    d.set_isr("t", 0, 1)
    assert move(d, 4, 2) == Code.NONE
    assert d.set_isr("t", 0, 1, 4) == Code.NONE
    for id in (1, 4):
        d.submit(BrokerRefused(broker_id=id, broker_epoch=d.broker(id).epoch))
    assert (d.partition("t").isr, d.partition("t").elr) == ((), (4,)), "of min.insync.replicas=1"
    assert move(d, 5, 2) == Code.NONE
    assert set(d.partition("t").replicas) == {5, 2, 1, 4}
    assert d.partition("t").leader == -1
    if clean:
        d.heartbeat(4)
    else:
        d.register(4, 1, previous_is_gone=True)
        d.heartbeat(4)
    assert look(d) == ({5, 2, 1, 4}, 4, {4})
    assert d.set_isr("t", 0, 4, 2) == Code.NONE
    assert d.set_isr("t", 0, 4, 2, 5) == Code.NEW_LEADER_ELECTED
    assert look(d) == ({5, 2}, 5, {5, 2})


def test_a_new_target_replaces_the_old_one() -> None:
    d = harness()
    move(d, 4, 5, 6)
    assert move(d, 1, 2, 6) == Code.NONE
    partition = d.partition("t")
    assert set(partition.replicas) == {1, 2, 3, 6}, "4 and 5 had nothing yet, and just leave"
    assert (partition.adding, partition.removing) == ((6,), (3,))
    assert cancel(d) == Code.NONE
    assert set(d.partition("t").replicas) == {1, 2, 3}


@pytest.mark.parametrize(
    ("wish", "code"),
    [
        ({"topic": "x"}, Code.UNKNOWN_TOPIC_OR_PARTITION),
        ({"partition": 5}, Code.UNKNOWN_TOPIC_OR_PARTITION),
        ({"replicas": ()}, Code.INVALID_REPLICA_ASSIGNMENT),
        ({"replicas": (4, 4)}, Code.INVALID_REPLICA_ASSIGNMENT),
        ({"replicas": (4, 99)}, Code.INVALID_REPLICA_ASSIGNMENT),
        ({"replicas": (4, -1)}, Code.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_a_move_that_cannot_be_is_refused(wish: dict[str, Any], code: Code) -> None:
    d = harness()
    replicas = wish.pop("replicas", (4, 5, 6))
    assert move(d, *replicas, **wish) == code
    assert d.records == []


@pytest.mark.parametrize("zookeeper_mode", [True, False], ids=["zookeeper", "kraft"])
def test_a_move_to_the_replicas_that_there_are_begins_nothing_and_is_no_error(zookeeper_mode: bool) -> None:
    """As Apache Kafka 3.9's and 4's controllers answer: plans of its tools name partitions that stay, too."""
    d = ControllerHarness(7, zookeeper_mode=zookeeper_mode, epoch_for_each_change=zookeeper_mode)
    d.create("t", (1, 2, 3))
    before = d.partition("t")
    assert move(d, 1, 2, 3) == Code.NONE
    assert (d.records, d.partition("t")) == ([], before)
    assert move(d, 4, 5, 6) == Code.NONE
    under_way = d.partition("t")
    assert move(d, 4, 5, 6) == Code.NONE
    assert d.partition("t") == under_way, "the same move once more"


def test_a_broker_that_is_down_gets_no_replica_and_keeps_those_it_has() -> None:
    d = harness()
    for id in (3, 5):
        d.submit(BrokerRefused(broker_id=id, broker_epoch=d.broker(id).epoch))
    assert move(d, 1, 5) == Code.INVALID_REPLICA_ASSIGNMENT
    assert not d.partition("t").reassigning
    assert move(d, 3, 4) == Code.NONE
    assert d.partition("t").adding == (4,)
    d.submit(BrokerRefused(broker_id=4, broker_epoch=d.broker(4).epoch))
    assert move(d, 4, 3, 2) == Code.NONE, "one that the move has added already is no newcomer"


def test_a_change_of_the_replication_factor_can_be_forbidden() -> None:
    d = harness()
    assert move(d, 4, 5, allow_replication_factor_change=False) == Code.INVALID_REPLICATION_FACTOR
    assert move(d, 4, 5, 6, allow_replication_factor_change=False) == Code.NONE


def test_only_a_registered_broker_tells_where_its_own_replicas_lie() -> None:
    d = harness()
    key = d.partition("t").key
    request = AssignReplicasToDirs(
        broker_id=1, broker_epoch=d.broker(1).epoch, directories={b"n" * 16: (key, (key[0], 9))}
    )
    assert [code for _, _, code in d.submit(request).partitions] == [Code.NONE, Code.UNKNOWN_TOPIC_OR_PARTITION]
    assert d.partition("t").leader == 2, "on a directory that is not online nobody leads"
    foreign = AssignReplicasToDirs(broker_id=5, broker_epoch=d.broker(5).epoch, directories={b"n" * 16: (key,)})
    assert [code for _, _, code in d.submit(foreign).partitions] == [Code.NOT_LEADER_OR_FOLLOWER]
    assert d.submit(AssignReplicasToDirs(broker_id=1, broker_epoch=0)).code == Code.STALE_BROKER_EPOCH


def test_a_replica_is_told_to_lie_in_one_directory_only() -> None:
    d = harness()
    d.add_broker(8, log_dirs=(b"a" * 16, b"b" * 16))
    d.create("u", (8, 1))
    key = d.partition("u").key
    both = {b"a" * 16: (key,), b"b" * 16: (key,)}
    reply = d.submit(AssignReplicasToDirs(broker_id=8, broker_epoch=d.broker(8).epoch, directories=both))
    assert [code for _, _, code in reply.partitions] == [Code.NONE, Code.INVALID_REQUEST]
    assert d.partition("u").directory(8) == b"a" * 16


def test_moves_under_way_are_listed_and_a_partition_is_moved_once_in_an_ask() -> None:
    d = harness()
    d.create("u", (1, 2))
    twice = (Move(topic="t", partition=0, replicas=(4, 5, 6)), Move(topic="t", partition=0, replicas=(1,)))
    codes = [p.code for _, _, p in d.submit(AlterPartitionReassignments(moves=twice)).partitions]
    assert codes == [Code.NONE, Code.INVALID_REQUEST]
    ((topic, partition),) = d.submit(ListPartitionReassignments()).partitions
    assert (topic, partition) == ("t", d.partition("t"))
    assert d.submit(ListPartitionReassignments(partitions={("u", 0), ("z", 0)})).partitions == ()


def test_topics_on_the_move_grow_by_their_own_factor_and_can_be_deleted() -> None:
    d = harness()
    move(d, 4, 5, 6)
    d.submit(CreatePartitions(topics=(MorePartitions(name="t", count=2),)))
    assert len(d.partition("t", 1).replicas) == 3
    d.submit(DeleteTopics(topics=("t",)))
    assert not d.image.index.moving


@pytest.mark.parametrize(("told", "epochs"), [(True, [1, 2, 3]), (False, [0, 0, 1])], ids=["zookeeper", "kraft"])
def test_a_move_makes_a_new_leader_epoch_as_it_begins_and_ends_in_zookeeper_mode(told: bool, epochs: list[int]) -> None:
    """Apache Kafka 3.9's leader ignores a role of the epoch that it has: it would let no replica that is added in."""
    d = ControllerHarness(5, epoch_for_each_change=told)
    d.create("t", (0, 1, 2))
    seen = []
    assert move(d, 0, 1, 2, 3) == Code.NONE
    seen.append(d.partition("t").leader_epoch)
    assert d.set_isr("t", 0, 0, 1, 2, 3) == Code.NONE
    assert (d.partition("t").replicas, d.partition("t").reassigning) == ((0, 1, 2, 3), False)
    seen.append(d.partition("t").leader_epoch)
    assert move(d, 0, 1, 2) == Code.NONE
    seen.append(d.partition("t").leader_epoch)
    assert seen == epochs


def test_a_cancelled_move_makes_a_new_leader_epoch_and_an_isr_that_the_leader_asked_for_none_in_zookeeper_mode() -> (
    None
):
    d = ControllerHarness(5, epoch_for_each_change=True)
    d.create("t", (0, 1, 2))
    assert move(d, 0, 3, 4) == Code.NONE
    assert d.partition("t").leader_epoch == 1
    assert d.set_isr("t", 0, 0, 1, 2, 3) == Code.NONE
    assert d.partition("t").leader_epoch == 1
    assert cancel(d) == Code.NONE
    assert d.partition("t").leader_epoch == 2
