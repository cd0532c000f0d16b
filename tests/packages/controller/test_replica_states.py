"""RS-1: replicas in ZooKeeper mode, step by step as Apache Kafka's controller logged them for the same events."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from moldau.controller.replica_states import ReplicaStates, replica_changes
from moldau.controller.requests import (
    AlterPartitionReassignments,
    BrokerRefused,
    DeleteTopics,
    ElectLeaders,
    Move,
)
from moldau.controller.state_change import Author, state_changes
from moldau.controller.states import REPLICA_MOVES, ReplicaState
from moldau.image import Partition
from moldau.simulator.machines.controller_harness import ControllerHarness

RECORDED = Path(__file__).resolve().parents[2] / "golden" / "state_changes" / "kafka-3.9.1-zookeeper"
AUTHOR = Author(1, 1)
ME = 1
REPLICA = re.compile(r"\[.*?\] (Changed state of replica \d+ for partition \S+) from (\w+) to (\w+)$")
PARTITION = re.compile(r"\[.*?\] (Changed partition \S+) (?:state )?from (\w+) to (\w+)(?: with .*)?$")

MOVED = f"{AUTHOR} Changed state of replica 2 for partition two.words-2-0 "

_S = ReplicaState


class Followed(ControllerHarness):
    """A harness of ZooKeeper mode that keeps the lines of all its decisions."""

    def __init__(self, *brokers: int) -> None:
        self.states = ReplicaStates(ME)
        self.lines: list[str] = []
        super().__init__(0, elr=False, zookeeper_mode=True, deletions_wait=True, epoch_for_each_change=True)
        for id in brokers:
            self.add_broker(id)

    def commit(self, records: Any, request: Any = None) -> Any:
        ready = super().commit(records, request)
        self.lines += [change.text for change in state_changes(self.delta, self.image, AUTHOR, zookeeper_mode=True)]
        self.say(self.states.follow(self.image, self.delta, also_healthy=True))
        return ready

    def say(self, steps: Iterable[Any]) -> None:
        self.lines += [change.text for change in replica_changes(steps, AUTHOR)]

    def dies(self, id: int) -> None:
        self.submit(BrokerRefused(broker_id=id, broker_epoch=self.broker(id).epoch))

    def move(self, topic: str, number: int, *replicas: int) -> None:
        self.submit(
            AlterPartitionReassignments(moves=(Move(topic=topic, partition=number, replicas=replicas or None),))
        )

    def partitions(self, *topics: str) -> list[tuple[str, Partition]]:
        return [(name, p) for name in topics for p in self.image.topic(name).partitions.values()]

    def in_sync(self, *topics: str) -> None:
        """All live replicas join their partitions' ISRs."""
        for name, p in self.partitions(*topics):
            self.set_isr(name, p.id, *(r for r in p.replicas if self.image.is_active(r)))

    def delete(self, topic: str) -> bytes:
        """Its replicas are told to go; the topic's id."""
        id = self.image.topic(topic).id
        self.say(self.states.delete(self.image, self.image.topics[id]))
        return id

    def answer(self, *brokers: int, deleted: bool = True) -> None:
        """Brokers answer that they deleted what they were told to, partition by partition; then the topics go."""
        for id in brokers:
            for key in self.states.on_broker(id, _S.DELETION_STARTED):
                self.say(self.states.answered(self.image, id, key, deleted=deleted))
        for id_ in [id for id in self.states.deleting if id in self.image.topics and self.states.are_deleted(id)]:
            self.submit(DeleteTopics(topics=(id_,), deleted=frozenset({id_})))


def steps(lines: Iterable[str], what: re.Pattern[str]) -> dict[str, list[str]]:
    """Of each partition or replica its states in order, without steps from a state to itself."""
    found: dict[str, list[str]] = {}
    for line in lines:
        if told := what.match(line):
            name, was, to = told.groups()
            states = found.setdefault(name, [was])
            assert states[-1] == was, line
            states.append(to)
    return {name: [state for state, _ in groupby(states)] for name, states in found.items()}


def recorded(node: int) -> list[str]:
    """What the controller role of a broker of Kafka logged (tests/golden/record_state_changes.py)."""
    text = gzip.decompress((RECORDED / f"node-{node}" / "state-change.log.gz").read_bytes()).decode()
    said = (re.sub(r"^\[.*?\] \w+ (.*) \(state\.change\.logger\)$", r"\1", line) for line in text.splitlines())
    return [line for line in said if line.startswith("[Controller ")]


def what_the_recorded_cluster_lived_through() -> Followed:
    """The events of tests/golden/record_state_changes.py, as the log says that they came."""
    harness = Followed(1, 2, 3)
    harness.create("orders", (2, 1, 3), (3, 2, 1), (1, 3, 2), (2, 3, 1))
    harness.create("two.words-2", (3, 1), (1, 2))
    harness.dies(2)
    harness.register(2, 1)
    harness.heartbeat(2)
    harness.in_sync("orders", "two.words-2")
    harness.submit(ElectLeaders(election_type=0))
    harness.move("two.words-2", 0, 3, 2)
    harness.move("two.words-2", 1, 1, 3)
    harness.in_sync("two.words-2")
    harness.delete("two.words-2")
    harness.answer(2, 3)
    return harness


def test_replicas_take_the_steps_that_apache_kafka_s_controller_logged() -> None:
    ours, kafkas = what_the_recorded_cluster_lived_through().lines, recorded(1)
    assert len(steps(kafkas, REPLICA)) == 18
    assert steps(ours, REPLICA) == steps(kafkas, REPLICA)


def test_partitions_take_the_steps_that_apache_kafka_s_controller_logged() -> None:
    """But for what it does not log: that a leader changed the ISR, and that an assignment changed."""
    ours, kafkas = what_the_recorded_cluster_lived_through().lines, recorded(1)
    assert len(steps(kafkas, PARTITION)) == 6
    assert steps(ours, PARTITION) == steps(kafkas, PARTITION)


def test_a_step_s_words_are_apache_kafka_s() -> None:
    """Leader epochs and versions too, until the move: there Kafka's controller takes more of them."""
    ours, kafkas = what_the_recorded_cluster_lived_through().lines, set(recorded(1))
    assert {line for line in ours if "Changed state of replica" in line} <= kafkas
    begin = next(number for number, line in enumerate(ours) if "to NewReplica" in line and line.startswith(MOVED))
    told = [
        line for line in ours[:begin] if "artition " in line and "from OnlinePartition to OnlinePartition" not in line
    ]
    assert any("after removing replica 2 from the ISR" in line for line in told)
    assert set(told) <= kafkas


def states(harness: Followed, topic: str = "t") -> dict[tuple[int, int], ReplicaState]:
    return {
        (p.id, r): harness.states.of(harness.image, p.key, r) for _, p in harness.partitions(topic) for r in p.replicas
    }


def test_a_new_controller_takes_replicas_for_online_or_ineligible_and_drives_them_on() -> None:
    harness = Followed(1, 2, 3)
    harness.create("t", (1, 2, 3))
    harness.dies(2)
    harness.lines.clear()
    harness.say(ReplicaStates(ME).start(harness.image))
    named = f"{AUTHOR} Changed state of replica"
    assert sorted(harness.lines) == [
        f"{named} 1 for partition t-0 from OnlineReplica to OnlineReplica",
        f"{named} 2 for partition t-0 from ReplicaDeletionIneligible to OfflineReplica",
        f"{named} 3 for partition t-0 from OnlineReplica to OnlineReplica",
    ]
    kafkas = recorded(3)
    for was, to in (("OnlineReplica", "OnlineReplica"), ("ReplicaDeletionIneligible", "OfflineReplica")):
        assert any(line.endswith(f"from {was} to {to}") for line in kafkas)


def test_a_replica_on_the_way_is_new_until_its_move_ends_or_its_broker_goes() -> None:
    harness = Followed(1, 2, 3, 4)
    harness.create("t", (1, 2))
    harness.move("t", 0, 3, 4)
    assert states(harness)[0, 3] is states(harness)[0, 4] is _S.NEW
    harness.dies(4)
    assert states(harness)[0, 4] is _S.OFFLINE
    harness.register(4, 1)
    harness.heartbeat(4)
    assert states(harness)[0, 4] is _S.ONLINE
    harness.heartbeat(3, want_shut_down=True)
    assert states(harness)[0, 3] is _S.OFFLINE, "StopReplica has stopped it"
    harness.move("t", 0)
    assert steps(harness.lines, REPLICA)["Changed state of replica 4 for partition t-0"][-4:] == [
        "OfflineReplica", "ReplicaDeletionStarted", "ReplicaDeletionSuccessful", "NonExistentReplica",
    ]  # fmt: skip


def test_who_is_back_before_it_was_missed_was_offline() -> None:
    harness = Followed(1, 2)
    harness.create("t", (1, 2))
    harness.submit(BrokerRefused(broker_id=2, broker_epoch=harness.broker(2).epoch))
    harness.lines.clear()
    harness.register(2, 1)
    harness.heartbeat(2)
    assert steps(harness.lines, REPLICA) == {
        "Changed state of replica 2 for partition t-0": ["OfflineReplica", "OnlineReplica"]
    }


def test_a_deletion_that_fails_is_ineligible_until_its_broker_is_told_again() -> None:
    harness = Followed(1, 2, 3)
    harness.create("t", (1, 2), (2, 3))
    key = harness.partition("t", 0).key
    harness.delete("t")
    harness.answer(3, deleted=False)
    harness.dies(2)
    assert harness.states.of(harness.image, key, 1) is _S.DELETION_STARTED, "its own go with the topic"
    assert harness.states.of(harness.image, key, 2) is _S.DELETION_INELIGIBLE
    for id, number in ((2, 0), (2, 1), (3, 1)):
        harness.say(harness.states.again(id, (key[0], number)))
        assert harness.states.of(harness.image, (key[0], number), id) is _S.DELETION_STARTED
    harness.answer(2)
    assert "t" in harness.image.names
    harness.answer(3)
    assert "t" not in harness.image.names
    assert {of[-1] for of in steps(harness.lines, REPLICA).values()} == {"NonExistentReplica"}
    assert harness.states.of(harness.image, key, 1) is _S.NON_EXISTENT


def test_the_replicas_that_are_online_go_while_a_broker_is_down() -> None:
    """TD-1, as a controller of Kafka 3.9.2 does it: the other is ineligible, and deleted when its broker is back."""
    harness = Followed(1, 2, 3)
    harness.create("t", (1, 2, 3))
    harness.dies(3)
    harness.delete("t")
    harness.answer(2, 3)
    assert states(harness) == {
        (0, 1): _S.DELETION_STARTED, (0, 2): _S.DELETION_SUCCESSFUL, (0, 3): _S.DELETION_INELIGIBLE
    }  # fmt: skip
    harness.register(3, 1)
    harness.heartbeat(3)
    assert states(harness)[0, 3] is _S.DELETION_INELIGIBLE, "it is not told yet"
    harness.say(harness.states.again(3, harness.partition("t", 0).key))
    harness.answer(3)
    assert "t" not in harness.image.names


def test_what_a_broker_deleted_it_has_deleted_when_it_comes_back() -> None:
    harness = Followed(1, 2, 3)
    harness.create("t", (1, 2, 3))
    harness.delete("t")
    harness.answer(2)
    harness.dies(2)
    harness.register(2, 1)
    harness.heartbeat(2)
    assert states(harness)[0, 2] is _S.DELETION_SUCCESSFUL


def test_a_replica_that_is_left_to_an_operator_keeps_the_others_from_nothing() -> None:
    """Where a topic goes first, as while brokers migrate."""
    harness = Followed(1, 2, 3)
    key = harness.create("t", (1, 2, 3)), 0
    harness.submit(DeleteTopics(topics=("t",), deleted=frozenset({key[0]})))
    harness.answer(3)
    assert harness.states.of(harness.image, key, 3) is _S.DELETION_SUCCESSFUL
    harness.say(harness.states.forget(2, key))
    assert harness.states.of(harness.image, key, 3) is _S.NON_EXISTENT


def test_a_step_that_the_table_does_not_have_is_refused_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Followed(1, 2)
    harness.create("t", (1, 2))
    monkeypatch.setitem(REPLICA_MOVES, _S.OFFLINE, frozenset({_S.ONLINE, _S.OFFLINE, _S.DELETION_INELIGIBLE}))
    harness.lines.clear()
    harness.delete("t")
    assert states(harness) == {(0, 1): _S.OFFLINE, (0, 2): _S.OFFLINE}, "as far as the table goes"
    what = "from OfflineReplica to ReplicaDeletionStarted failed"
    why = (
        "should be in the  states before moving to ReplicaDeletionStarted state. Instead it is in OfflineReplica state"
    )
    replicas = [f"eplica {id} for partition t-0" for id in (1, 2)]
    assert [line for line in harness.lines if "failed" in line] == [
        f"{AUTHOR} Controller {ME} epoch 1 initiated state change of r{replica} {what}: R{replica} {why}"
        for replica in replicas
    ]
    harness.answer(2)
    assert states(harness)[0, 2] is _S.OFFLINE, "who was not told has nothing to answer"
