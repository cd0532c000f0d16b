"""The state-change log: lines that Kafka's readers know, reasons that people want, and the tables behind the states."""

from __future__ import annotations

from itertools import product

import pytest

from moldau.broker.metrics.elections import Elections
from moldau.controller.requests import (
    AlterPartitionReassignments,
    BrokerRefused,
    DeleteTopics,
    ElectLeaders,
    Move,
    UnregisterBroker,
)
from moldau.controller.state_change import Author, StateChange, state_changes
from moldau.controller.states import PARTITION_MOVES, REPLICA_MOVES, PartitionState, ReplicaState, path
from moldau.image import Recovery
from moldau.simulator.machines.controller_harness import ControllerHarness

AUTHOR = Author(3, 7)
TIME = "2024-01-31 12:00:00,123"


def events(harness: ControllerHarness) -> list[StateChange]:
    return list(state_changes(harness.delta, harness.image, AUTHOR))


def lines(harness: ControllerHarness) -> list[str]:
    return [event.line(TIME) for event in events(harness)]


def whys(harness: ControllerHarness) -> list[str]:
    return [event.facts["why"] for event in events(harness) if event.facts["event"] == "partition"]


def test_the_life_of_a_partition_in_kafka_s_words() -> None:
    harness = ControllerHarness(2)
    harness.create("foo", (1, 0))
    head = f"[{TIME}] INFO [Controller id=3 epoch=7] Changed partition foo-0"
    tail = "(state.change.logger)"
    assert lines(harness) == [
        f"{head} state from NonExistentPartition to NewPartition with assigned replicas 1,0 {tail}",
        f"{head} from NewPartition to OnlinePartition with state LeaderAndIsr(leader=1, leaderEpoch=0, "
        f"isr=List(1, 0), leaderRecoveryState=RECOVERED, partitionEpoch=0) {tail}",
    ]
    harness.submit(BrokerRefused(broker_id=0, broker_epoch=harness.broker(0).epoch))
    assert lines(harness)[1] == (
        f"{head} from OnlinePartition to OnlinePartition with state LeaderAndIsr(leader=1, leaderEpoch=0, "
        f"isr=List(1), leaderRecoveryState=RECOVERED, partitionEpoch=1) {tail}"
    )
    harness.submit(BrokerRefused(broker_id=1, broker_epoch=harness.broker(1).epoch))
    assert lines(harness)[1] == f"{head} state from OnlinePartition to OfflinePartition {tail}"
    harness.submit(DeleteTopics(topics=("foo",)))
    assert lines(harness) == [f"{head} state from OfflinePartition to NonExistentPartition {tail}"]


def test_a_deletion_passes_through_offline() -> None:
    harness = ControllerHarness(1)
    harness.create("foo", (0,))
    harness.submit(DeleteTopics(topics=("foo",)))
    assert [event.facts["to"] for event in events(harness)] == ["OfflinePartition", "NonExistentPartition"]
    assert whys(harness) == ["topic deleted", "topic deleted"]


def test_reasons_are_told() -> None:
    harness = ControllerHarness(4)
    harness.create("t", (0, 1, 2), configs={"min.insync.replicas": "2"})
    assert whys(harness) == ["created", "created"]
    harness.submit(BrokerRefused(broker_id=0, broker_epoch=harness.broker(0).epoch))
    assert whys(harness) == ["broker 0 was fenced"]
    broker, partition = events(harness)
    assert (
        broker.text
        == f"[Controller id=3 epoch=7] Changed broker 0 with epoch {harness.broker(0).epoch} from active to fenced"
    )
    assert (partition.facts["previousLeader"], partition.facts["leader"]) == (0, 1)
    harness.heartbeat(0)
    assert whys(harness) == []
    assert [event.facts["to"] for event in events(harness)] == ["active"]
    harness.set_isr("t", 0, 1, 2, 0)
    assert whys(harness) == ["isr grew"]
    harness.submit(ElectLeaders(election_type=0))
    assert whys(harness) == ["preferred election"]
    harness.set_isr("t", 0, 0, 1)
    assert whys(harness) == ["isr shrank"]
    harness.submit(AlterPartitionReassignments(moves=(Move(topic="t", partition=0, replicas=(3, 1)),)))
    assert whys(harness) == ["reassignment began"]
    harness.submit(AlterPartitionReassignments(moves=(Move(topic="t", partition=0, replicas=None),)))
    assert whys(harness) == ["reassignment cancelled"]
    harness.submit(AlterPartitionReassignments(moves=(Move(topic="t", partition=0, replicas=(3, 1)),)))
    harness.set_isr("t", 0, 0, 1, 3)
    assert whys(harness) == ["reassignment completed"]
    harness.heartbeat(3, want_shut_down=True)
    assert whys(harness) == ["broker 3 is shutting down"]
    harness.submit(BrokerRefused(broker_id=1, broker_epoch=harness.broker(1).epoch))
    harness.register(1, 1)
    assert whys(harness) == ["broker 1 came back as a new process"]
    harness.heartbeat(1)
    assert whys(harness) == [], "broker 3, which stopped in good order, is waited for"
    harness.submit(BrokerRefused(broker_id=3, broker_epoch=harness.broker(3).epoch))
    harness.register(3, 1)
    assert whys(harness) == ["unclean election: broker 3 came back as a new process"]


def test_a_broker_that_neither_led_nor_was_in_sync_is_no_reason() -> None:
    """Two brokers go in one decision, of which one was out of sync before."""
    harness = ControllerHarness(3)
    harness.create("foo", (2, 1, 0))
    harness.submit(BrokerRefused(broker_id=0, broker_epoch=harness.broker(0).epoch))
    before = harness.image.brokers[0]
    harness.submit(BrokerRefused(broker_id=2, broker_epoch=harness.broker(2).epoch))
    harness.delta.brokers[0] = before._replace(fenced=False)  # as where a controller hears of both deaths at once
    assert whys(harness) == ["broker 2 was fenced"]


def test_an_unregistered_broker_and_a_recovered_leader_are_told() -> None:
    harness = ControllerHarness(2)
    harness.create("t", (0, 1))
    harness.submit(UnregisterBroker(broker_id=0))
    assert events(harness)[0].facts["to"] == "unregistered"
    assert whys(harness) == ["broker 0 was unregistered"]
    harness.submit(BrokerRefused(broker_id=1, broker_epoch=harness.broker(1).epoch))
    harness.register(1, 1)
    harness.heartbeat(1)
    harness.set_isr("t", 0, 1, recovery=0)
    assert whys(harness) == ["recovered"]


def test_a_leader_that_has_to_recover_still_is_elected_uncleanly_once() -> None:
    """That it went away and came back was told, and counted, as another unclean election."""
    harness = ControllerHarness(2)
    harness.create("t", (0, 1), configs={"unclean.leader.election.enable": "true"})
    harness.set_isr("t", 0, 0)
    counted = Elections()

    def told() -> list[str]:
        counted.decided(harness.image, harness.delta)
        return whys(harness)

    harness.submit(UnregisterBroker(broker_id=0))
    assert told() == ["unclean election: broker 0 was unregistered"]
    harness.submit(BrokerRefused(broker_id=1, broker_epoch=harness.broker(1).epoch))
    assert told() == ["broker 1 was fenced"]
    harness.heartbeat(1)
    assert told() == ["broker 1 was unfenced"]
    assert harness.partition("t").leader == 1
    assert harness.partition("t").recovery == Recovery.RECOVERING
    assert (counted.total, counted.unclean) == (2, 1)


def test_an_event_has_all_that_a_timeline_needs() -> None:
    harness = ControllerHarness(2)
    harness.create("foo", (1, 0))
    told = events(harness)[1].facts
    assert [told[key] for key in ("topic", "partition", "leader", "isr", "why")] == ["foo", 0, 1, [1, 0], "created"]
    assert (told["controller"], told["controllerEpoch"]) == (3, 7)


def test_every_path_between_seen_states_goes_by_the_table() -> None:
    seen = (PartitionState.NON_EXISTENT, PartitionState.ONLINE, PartitionState.OFFLINE)
    for before, after in product(seen, seen):
        at = before
        for to in path(before, after):
            assert to in PARTITION_MOVES[at]
            at = to
        assert at is after or before is after is PartitionState.NON_EXISTENT


def test_a_partitions_step_that_the_table_does_not_have_is_refused_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = ControllerHarness(2)
    harness.create("foo", (1, 0))
    monkeypatch.setitem(PARTITION_MOVES, PartitionState.NEW, frozenset({PartitionState.OFFLINE}))
    told = [event for event in state_changes(harness.delta, harness.image, Author(3, 7)) if event.is_refusal]
    assert [event.text for event in told] == [
        "[Controller id=3 epoch=7] Controller 3 epoch 7 failed to change state for partition foo-0 from NewPartition "
        "to OnlinePartition: Partition foo-0 should be in the OnlinePartition,OfflinePartition states before moving to "
        "OnlinePartition state. Instead it is in NewPartition state"
    ]


def test_the_tables_name_every_state_and_nothing_leaves_the_end_but_by_a_new_beginning() -> None:
    assert set(PARTITION_MOVES) == set(PartitionState)
    assert set(REPLICA_MOVES) == set(ReplicaState)
    assert PARTITION_MOVES[PartitionState.NON_EXISTENT] == {PartitionState.NEW}
    assert REPLICA_MOVES[ReplicaState.NON_EXISTENT] == {ReplicaState.NEW}
