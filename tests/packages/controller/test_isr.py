"""AlterPartition: every fence, in its order."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.controller.requests import AlterPartition, AssignReplicasToDirs, BrokerRefused, IsrChange
from moldau.image.partition import LOST, UNASSIGNED
from moldau.model import Code
from moldau.simulator.machines.controller_harness import ControllerHarness


def submit(harness: ControllerHarness, *changes: IsrChange, broker_id: int = 0, version: int = 3) -> Any:
    epoch = harness.broker(broker_id).epoch
    return harness.submit(AlterPartition(broker_id=broker_id, broker_epoch=epoch, changes=changes, version=version))


def change(harness: ControllerHarness, **fields: Any) -> IsrChange:
    partition = harness.partition("t")
    wish = {
        "key": partition.key,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "isr": ((0, -1),),
        **fields,
    }
    return IsrChange(**wish)


def harness() -> ControllerHarness:
    harness = ControllerHarness(4)
    harness.create("t", (0, 1, 2))
    return harness


def test_a_leader_shrinks_and_grows_its_isr() -> None:
    d = harness()
    assert d.set_isr("t", 0, 0, 1) == Code.NONE
    after = d.partition("t")
    assert (after.isr, after.leader_epoch, after.partition_epoch) == ((0, 1), 0, 1), "a shrink starts no epoch"
    assert d.set_isr("t", 0, 0, 1, 2) == Code.NONE
    assert d.partition("t").isr == (0, 1, 2)


def test_the_answer_tells_the_state_that_now_holds_also_when_nothing_changed() -> None:
    d = harness()
    (result,) = submit(d, change(d, isr=((0, -1), (1, -1)))).partitions
    assert result.partition == d.partition("t")
    (result,) = submit(d, change(d, isr=((0, -1), (1, -1)))).partitions
    assert result.partition == d.partition("t")
    assert d.records == []


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"leader_epoch": 1}, Code.NOT_CONTROLLER),  # it knows more than we: we are deposed (KAFKA-14154)
        ({"partition_epoch": 2}, Code.NOT_CONTROLLER),
        ({"leader_epoch": -1}, Code.FENCED_LEADER_EPOCH),
        ({"leader_epoch": -1, "partition_epoch": 9}, Code.NOT_CONTROLLER),
        ({"partition_epoch": 0}, Code.INVALID_UPDATE_VERSION),
        ({"isr": ()}, Code.INVALID_REQUEST),
        ({"isr": ((1, -1), (2, -1))}, Code.INVALID_REQUEST),
        ({"isr": ((0, -1), (0, -1))}, Code.INVALID_REQUEST),
        ({"isr": ((0, -1), (3, -1))}, Code.INVALID_REQUEST),
        ({"recovery": 1}, Code.INVALID_REQUEST),
        ({"recovery": 7}, Code.INVALID_REQUEST),
        ({"key": (b"?" * 16, 0)}, Code.UNKNOWN_TOPIC_ID),
        ({"isr": ((0, -1), (1, 12345))}, Code.INELIGIBLE_REPLICA),
    ],
)
def test_a_change_that_cannot_be_is_refused_and_leaves_the_partition_alone(fields: dict[str, Any], code: Code) -> None:
    d = harness()
    d.set_isr("t", 0, 0, 1)
    before = d.partition("t")
    (result,) = submit(d, change(d, **fields)).partitions
    assert result.code == code
    assert d.records == []
    assert d.partition("t") == before


def test_codes_of_old_versions_differ() -> None:
    d = harness()
    (result,) = submit(d, change(d, isr=((0, -1), (1, 12345))), version=1).partitions
    assert result.code == Code.OPERATION_NOT_ATTEMPTED
    (result,) = submit(d, change(d, key=(b"?" * 16, 0)), version=1).partitions
    assert result.code == Code.UNKNOWN_TOPIC_OR_PARTITION


def test_only_the_leader_may_ask_and_only_once_for_each_partition() -> None:
    d = harness()
    (result,) = submit(d, change(d), broker_id=1).partitions
    assert result.code == Code.INVALID_REQUEST
    results = submit(d, change(d), change(d, isr=((0, -1), (1, -1)))).partitions
    assert [r.code for r in results] == [Code.NONE, Code.INVALID_REQUEST]
    (result,) = submit(d, change(d, key=(d.partition("t").topic_id, 9))).partitions
    assert result.code == Code.UNKNOWN_TOPIC_OR_PARTITION


def test_a_leader_under_an_old_broker_epoch_is_refused_as_a_whole() -> None:
    d = harness()
    reply = d.submit(AlterPartition(broker_id=0, broker_epoch=0, changes=(change(d),)))
    assert reply.code == Code.STALE_BROKER_EPOCH


def test_fenced_leaving_and_earlier_incarnations_cannot_be_brought_back_in() -> None:
    """KIP-841, KIP-903: the leader may not know yet that the follower it saw is gone or has another disk."""
    d = harness()
    old = d.broker(1).epoch
    d.submit(BrokerRefused(broker_id=1, broker_epoch=old))
    assert d.set_isr("t", 0, 0, 1, 2) == Code.INELIGIBLE_REPLICA
    d.register(1, 1)
    assert d.set_isr("t", 0, 0, 1, 2) == Code.INELIGIBLE_REPLICA
    d.heartbeat(1)
    assert d.set_isr("t", 0, 0, 1, isr=((0, -1), (2, -1), (1, old))) == Code.INELIGIBLE_REPLICA
    assert d.set_isr("t", 0, 0, 2, 1) == Code.NONE
    d.create("led", (2, 0))
    d.heartbeat(2, want_shut_down=True)
    assert d.broker(2).in_controlled_shutdown
    assert d.set_isr("t", 0, 0, 1, 2) == Code.INELIGIBLE_REPLICA


def test_a_replica_whose_directory_failed_cannot_be_brought_back_in() -> None:
    """KIP-858: its leader may still remember a fetch of before the failure."""
    d = ControllerHarness(1)
    a, b = b"a" * 16, b"b" * 16
    d.add_broker(1, log_dirs=(a, b))
    d.create("t", (0, 1))
    key = d.partition("t").key
    d.submit(AssignReplicasToDirs(broker_id=1, broker_epoch=d.broker(1).epoch, directories={a: (key,)}))
    d.heartbeat(1, offline_log_dirs=(a,))
    assert d.partition("t").isr == (0,)
    assert d.set_isr("t", 0, 0, 1) == Code.INELIGIBLE_REPLICA
    d.submit(AssignReplicasToDirs(broker_id=1, broker_epoch=d.broker(1).epoch, directories={b: (key,)}))
    assert d.set_isr("t", 0, 0, 1) == Code.NONE


@pytest.mark.parametrize(("told", "bump"), [(True, 1), (False, 0)], ids=["zookeeper", "kraft"])
def test_a_replica_that_the_controller_takes_out_of_the_isr_makes_a_new_leader_epoch_in_zookeeper_mode(
    told: bool, bump: int
) -> None:
    """A Kafka 3.9 leader ignored LeaderAndIsr of the epoch that it had; acks=all waited for the dead for ever."""
    harness = ControllerHarness(3, epoch_for_each_change=told)
    harness.create("t", (0, 1, 2))
    before = harness.partition("t")
    harness.submit(BrokerRefused(broker_id=2, broker_epoch=harness.broker(2).epoch))
    after = harness.partition("t")
    assert (after.leader, after.isr) == (0, (0, 1))
    assert after.leader_epoch == before.leader_epoch + bump
    assert harness.set_isr("t", 0, 0) is Code.NONE
    assert harness.partition("t").isr == (0,)
    assert harness.partition("t").leader_epoch == after.leader_epoch, "a leader that asked for its ISR knows it"


@pytest.mark.parametrize("zookeeper_mode", [True, False], ids=["zookeeper", "kraft"])
def test_a_leader_that_did_not_hear_that_its_wish_was_granted_is_told_in_zookeeper_mode(zookeeper_mode: bool) -> None:
    """As by Kafka 3.9's controller. A leader of Kafka's that is told INVALID_UPDATE_VERSION waits for a new leader
    epoch, which nobody makes for a change that it asked for itself: its ISR never changed. KRaft's log tells it."""
    harness = ControllerHarness(4, zookeeper_mode=zookeeper_mode)
    harness.create("t", (0, 1, 2))
    first = change(harness, isr=((0, -1), (1, -1)))
    assert [one.code for one in submit(harness, first).partitions] == [Code.NONE]
    (again,) = submit(harness, first).partitions
    assert again.code is (Code.NONE if zookeeper_mode else Code.INVALID_UPDATE_VERSION)
    if zookeeper_mode:
        assert again.partition == harness.partition("t")
        assert harness.records == []
        assert harness.set_isr("t", 0, 0) is Code.NONE
        (other,) = submit(harness, first).partitions
        assert other.code is Code.INVALID_UPDATE_VERSION, "that was before"
        assert (
            submit(harness, change(harness, leader_epoch=-1), broker_id=0).partitions[0].code
            is Code.FENCED_LEADER_EPOCH
        )
        (strange,) = submit(harness, change(harness, partition_epoch=0), broker_id=1).partitions
        assert strange.code is Code.INVALID_REQUEST, "it does not lead"


@pytest.mark.parametrize(("zookeeper_mode", "bump"), [(True, 1), (False, 0)], ids=["zookeeper", "a migration"])
def test_where_a_replica_lies_makes_a_new_leader_epoch_in_zookeeper_mode(zookeeper_mode: bool, bump: int) -> None:
    """Mixed seed 51: the state is written, and a Kafka leader passed over it. Its partition epoch was outdated from
    then on, and its ISR could not change. In a migration Kafka's brokers believe the KRaft controller without."""
    harness = ControllerHarness(3, zookeeper_mode=zookeeper_mode, epoch_for_each_change=True)
    harness.create("t", (0, 1, 2))
    key, epoch = harness.partition("t").key, harness.broker(2).epoch
    assert harness.set_isr("t", 0, 0, 1) is Code.NONE
    for directory in (LOST, UNASSIGNED):
        before = harness.partition("t")
        harness.submit(AssignReplicasToDirs(broker_id=2, broker_epoch=epoch, directories={directory: (key,)}))
        after = harness.partition("t")
        assert (after.directory(2), after.isr, after.leader) == (directory, (0, 1), 0)
        assert after.partition_epoch == before.partition_epoch + 1
        assert after.leader_epoch == before.leader_epoch + bump
        harness.submit(AssignReplicasToDirs(broker_id=2, broker_epoch=epoch, directories={directory: (key,)}))
        assert harness.partition("t") == after, "said twice it changes nothing"
