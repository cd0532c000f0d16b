"""The state-change log: lines that Kafka's readers know, reasons that people want, and the tables behind the states."""

from __future__ import annotations

from itertools import product

import pytest

from moldau.broker.metrics.elections import Elections
from moldau.controller.asks import (
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
from moldau.simulator.machines.controller_desk import Desk

AUTHOR = Author(3, 7)
TIME = "2024-01-31 12:00:00,123"


def events(desk: Desk) -> list[StateChange]:
    return list(state_changes(desk.delta, desk.image, AUTHOR))


def lines(desk: Desk) -> list[str]:
    return [event.line(TIME) for event in events(desk)]


def whys(desk: Desk) -> list[str]:
    return [event.facts["why"] for event in events(desk) if event.facts["event"] == "partition"]


def test_the_life_of_a_partition_in_kafka_s_words() -> None:
    desk = Desk(2)
    desk.create("foo", (1, 0))
    head = f"[{TIME}] INFO [Controller id=3 epoch=7] Changed partition foo-0"
    tail = "(state.change.logger)"
    assert lines(desk) == [
        f"{head} state from NonExistentPartition to NewPartition with assigned replicas 1,0 {tail}",
        f"{head} from NewPartition to OnlinePartition with state LeaderAndIsr(leader=1, leaderEpoch=0, "
        f"isr=List(1, 0), leaderRecoveryState=RECOVERED, partitionEpoch=0) {tail}",
    ]
    desk.ask(BrokerRefused(broker_id=0, broker_epoch=desk.broker(0).epoch))
    assert lines(desk)[1] == (
        f"{head} from OnlinePartition to OnlinePartition with state LeaderAndIsr(leader=1, leaderEpoch=0, "
        f"isr=List(1), leaderRecoveryState=RECOVERED, partitionEpoch=1) {tail}"
    )
    desk.ask(BrokerRefused(broker_id=1, broker_epoch=desk.broker(1).epoch))
    assert lines(desk)[1] == f"{head} state from OnlinePartition to OfflinePartition {tail}"
    desk.ask(DeleteTopics(topics=("foo",)))
    assert lines(desk) == [f"{head} state from OfflinePartition to NonExistentPartition {tail}"]


def test_a_deletion_passes_through_offline() -> None:
    desk = Desk(1)
    desk.create("foo", (0,))
    desk.ask(DeleteTopics(topics=("foo",)))
    assert [event.facts["to"] for event in events(desk)] == ["OfflinePartition", "NonExistentPartition"]
    assert whys(desk) == ["topic deleted", "topic deleted"]


def test_reasons_are_told() -> None:
    desk = Desk(4)
    desk.create("t", (0, 1, 2), configs={"min.insync.replicas": "2"})
    assert whys(desk) == ["created", "created"]
    desk.ask(BrokerRefused(broker_id=0, broker_epoch=desk.broker(0).epoch))
    assert whys(desk) == ["broker 0 was fenced"]
    broker, partition = events(desk)
    assert (
        broker.text
        == f"[Controller id=3 epoch=7] Changed broker 0 with epoch {desk.broker(0).epoch} from active to fenced"
    )
    assert (partition.facts["previousLeader"], partition.facts["leader"]) == (0, 1)
    desk.beat(0)
    assert whys(desk) == []
    assert [event.facts["to"] for event in events(desk)] == ["active"]
    desk.set_isr("t", 0, 1, 2, 0)
    assert whys(desk) == ["isr grew"]
    desk.ask(ElectLeaders(election_type=0))
    assert whys(desk) == ["preferred election"]
    desk.set_isr("t", 0, 0, 1)
    assert whys(desk) == ["isr shrank"]
    desk.ask(AlterPartitionReassignments(moves=(Move(topic="t", partition=0, replicas=(3, 1)),)))
    assert whys(desk) == ["reassignment began"]
    desk.ask(AlterPartitionReassignments(moves=(Move(topic="t", partition=0, replicas=None),)))
    assert whys(desk) == ["reassignment cancelled"]
    desk.ask(AlterPartitionReassignments(moves=(Move(topic="t", partition=0, replicas=(3, 1)),)))
    desk.set_isr("t", 0, 0, 1, 3)
    assert whys(desk) == ["reassignment completed"]
    desk.beat(3, want_shut_down=True)
    assert whys(desk) == ["broker 3 is shutting down"]
    desk.ask(BrokerRefused(broker_id=1, broker_epoch=desk.broker(1).epoch))
    desk.register(1, 1)
    assert whys(desk) == ["broker 1 came back as a new process"]
    desk.beat(1)
    assert whys(desk) == [], "broker 3, which stopped in good order, is waited for"
    desk.ask(BrokerRefused(broker_id=3, broker_epoch=desk.broker(3).epoch))
    desk.register(3, 1)
    assert whys(desk) == ["unclean election: broker 3 came back as a new process"]


def test_a_broker_that_neither_led_nor_was_in_sync_is_no_reason() -> None:
    """Two brokers go in one decision, of which one was out of sync before."""
    desk = Desk(3)
    desk.create("foo", (2, 1, 0))
    desk.ask(BrokerRefused(broker_id=0, broker_epoch=desk.broker(0).epoch))
    before = desk.image.brokers[0]
    desk.ask(BrokerRefused(broker_id=2, broker_epoch=desk.broker(2).epoch))
    desk.delta.brokers[0] = before._replace(fenced=False)  # as where a controller hears of both deaths at once
    assert whys(desk) == ["broker 2 was fenced"]


def test_an_unregistered_broker_and_a_recovered_leader_are_told() -> None:
    desk = Desk(2)
    desk.create("t", (0, 1))
    desk.ask(UnregisterBroker(broker_id=0))
    assert events(desk)[0].facts["to"] == "unregistered"
    assert whys(desk) == ["broker 0 was unregistered"]
    desk.ask(BrokerRefused(broker_id=1, broker_epoch=desk.broker(1).epoch))
    desk.register(1, 1)
    desk.beat(1)
    desk.set_isr("t", 0, 1, recovery=0)
    assert whys(desk) == ["recovered"]


def test_a_leader_that_has_to_recover_still_is_elected_uncleanly_once() -> None:
    """That it went away and came back was told, and counted, as another unclean election."""
    desk = Desk(2)
    desk.create("t", (0, 1), configs={"unclean.leader.election.enable": "true"})
    desk.set_isr("t", 0, 0)
    counted = Elections()

    def told() -> list[str]:
        counted.decided(desk.image, desk.delta)
        return whys(desk)

    desk.ask(UnregisterBroker(broker_id=0))
    assert told() == ["unclean election: broker 0 was unregistered"]
    desk.ask(BrokerRefused(broker_id=1, broker_epoch=desk.broker(1).epoch))
    assert told() == ["broker 1 was fenced"]
    desk.beat(1)
    assert told() == ["broker 1 was unfenced"]
    assert desk.partition("t").leader == 1
    assert desk.partition("t").recovery == Recovery.RECOVERING
    assert (counted.total, counted.unclean) == (2, 1)


def test_an_event_has_all_that_a_timeline_needs() -> None:
    desk = Desk(2)
    desk.create("foo", (1, 0))
    told = events(desk)[1].facts
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
    desk = Desk(2)
    desk.create("foo", (1, 0))
    monkeypatch.setitem(PARTITION_MOVES, PartitionState.NEW, frozenset({PartitionState.OFFLINE}))
    told = [event for event in state_changes(desk.delta, desk.image, Author(3, 7)) if event.is_refusal]
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
