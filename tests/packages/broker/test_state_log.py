"""The state-change log of a node: every event once and in order, however many a batch has, a few in each turn."""

from __future__ import annotations

import gzip
import json
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.controller.service import ControllerService
from moldau.broker.metadata import state_change_log as state_change_log
from moldau.broker.metadata.state_change_log import AT_ONCE, TEXT, TRACE, TWIN, StateChangeLog
from moldau.broker.replicas.manager import ReplicaManager
from moldau.client.admin import NewTopic, create_topics, delete_topics
from moldau.clusterdata.state_changes.eras import parse
from moldau.clusterdata.state_changes.lines import FIELDS, fields_of
from moldau.controller.replica_states import ReplicaStep
from moldau.controller.requests import BrokerRefused, DeleteTopics
from moldau.controller.state_change import Author, StateChange
from moldau.controller.states import ReplicaState
from moldau.image import Delta, Image
from moldau.model import uuid_text
from moldau.ports.zookeeper import Delete
from moldau.simulator.machines.controller_harness import ControllerHarness
from tests.packages.broker.data_cluster import run, until
from tests.packages.broker.doubles import NodeDouble, combined_config
from tests.packages.broker.zookeeper_nodes import Nodes
from tests.packages.doubles import UNUSED, ManualTasks, manual_world
from tests.packages.manual_clock import ManualClock

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
PARTITIONS = 2 * AT_ONCE + 50


class Lines(logging.Handler):
    """Keeps what is said: one entry for each write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[list[str]] = []
        self.levels: list[int] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.levels.append(record.levelno)
        self.writes.append(record.getMessage().split("\n"))

    @property
    def lines(self) -> list[str]:
        return [line for write in self.writes for line in write]


@pytest.fixture
def heard() -> Iterator[dict[str, Lines]]:
    """What goes to the log and to its twin."""
    logs = {"text": (TEXT, Lines()), "twin": (TWIN, Lines())}
    before = {name: (log.level, log.propagate) for name, (log, _) in logs.items()}
    for log, handler in logs.values():
        log.setLevel(logging.INFO)
        log.propagate = False
        log.addHandler(handler)
    yield {name: handler for name, (_, handler) in logs.items()}
    for name, (log, handler) in logs.items():
        log.removeHandler(handler)
        log.level, log.propagate = before[name]


@dataclass
class ActiveController(ControllerService):
    """A controller under an epoch."""

    active: bool = True
    epoch: int = 7


@dataclass(frozen=True)
class Offsets:
    """A log's end, and what replication knows of the replica."""

    log_end_offset: int
    epoch_start: int
    high_watermark: int


@dataclass(frozen=True)
class LoggedReplica:
    """A replica as its lines show it."""

    log: Offsets
    machine: Offsets


@dataclass
class LoggedReplicas(ReplicaManager):
    """The replicas of a broker."""

    by_key: Any  # Any: replicas, as far as their lines show them


def node(tasks: ManualTasks | None = None, *, id: int = 3, replicas: LoggedReplicas = UNUSED) -> NodeDouble:
    """A broker that is the active controller, too."""
    tasks = ManualTasks() if tasks is None else tasks
    return NodeDouble(
        config=combined_config(id),
        controller=ActiveController(),
        replicas=replicas,
        world=manual_world(clock=ManualClock(5), tasks=tasks),
    )


def test_a_large_batch_is_written_over_several_turns_and_what_follows_waits_for_it(heard: dict[str, Lines]) -> None:
    tasks = ManualTasks()
    log = StateChangeLog(node(tasks))
    harness = ControllerHarness(2, watch=False, partitions_at_once=PARTITIONS)
    harness.create("foo", *[(0, 1)] * PARTITIONS)
    harness.submit(BrokerRefused(broker_id=0, broker_epoch=harness.broker(0).epoch))
    log.decided(harness.image, harness.delta)
    assert len(heard["twin"].lines) == AT_ONCE
    harness.submit(DeleteTopics(topics=("foo",)))
    log.decided(harness.image, harness.delta)
    most = 0
    while tasks.soon:
        before = len(heard["twin"].lines)
        tasks.turn()
        most = max(most, len(heard["twin"].lines) - before)
    assert most == AT_ONCE
    events = [json.loads(line) for line in heard["twin"].lines]
    moved = [e["partition"] for e in events[1 : PARTITIONS + 1]]
    assert moved == list(range(PARTITIONS)), "each partition once, in order"
    assert {e["why"] for e in events[1 : PARTITIONS + 1]} == {"broker 0 was fenced"}
    assert {e["why"] for e in events[PARTITIONS + 1 :]} == {"topic deleted"}, "the later batch comes after it"
    assert len(heard["text"].lines) == len(events)


def test_a_small_batch_is_written_at_once_in_one_write(heard: dict[str, Lines]) -> None:
    tasks = ManualTasks()
    harness = ControllerHarness(2, watch=False, partitions_at_once=PARTITIONS)
    harness.create("foo", (0, 1), (1, 0))
    StateChangeLog(node(tasks)).decided(harness.image, harness.delta)
    assert not tasks.soon
    assert [len(write) for write in heard["text"].writes] == [4]


def test_the_table_of_state_changes_reads_what_a_node_writes_as_json(heard: dict[str, Lines]) -> None:
    """Each such line was called damaged: one wrote time_ms, and the other looked for time."""
    harness = ControllerHarness(2, watch=False, partitions_at_once=PARTITIONS)
    harness.create("foo", (0, 1), (1, 0))
    StateChangeLog(node()).decided(harness.image, harness.delta)
    assert heard["twin"].lines
    for line in heard["twin"].lines:
        reason, found = fields_of(line)
        row = dict(zip(FIELDS, found, strict=True))
        assert reason is None
        assert [row[name] for name in ("node", "role", "why")] == [3, "Controller", "created"]
        assert row["event"] == json.loads(line)["event"]
        assert str(row["time"]).endswith(",005")


def test_a_refused_step_is_an_error_in_the_log_whatever_else_is_kept(heard: dict[str, Lines]) -> None:
    author = Author(3, 7)
    log = StateChangeLog(node())
    steps = [
        ReplicaStep("t", (b"i" * 16, 0), 1, ReplicaState.ONLINE, (ReplicaState.OFFLINE,)),
        ReplicaStep("t", (b"i" * 16, 0), 2, ReplicaState.ONLINE, (), ReplicaState.DELETION_STARTED),
    ]
    log.stepped(iter(steps), author)
    told = (
        "[Controller id=3 epoch=7] Controller 3 epoch 7 initiated state change of replica 2 for partition t-0 from "
        "OnlineReplica to ReplicaDeletionStarted failed: Replica 2 for partition t-0 should be in the OfflineReplica "
        "states before moving to ReplicaDeletionStarted state. Instead it is in OnlineReplica state"
    )
    assert heard["text"].lines == [told], "without TRACE the step itself is not written"
    assert [json.loads(line)["event"] for line in heard["twin"].lines] == ["refused state change"]
    TEXT.setLevel(TRACE)
    log.stepped(iter(steps), author)
    assert heard["text"].levels == [logging.ERROR, TRACE, logging.ERROR]


def test_a_mistake_in_words_stops_the_node_in_whatever_turn_it_is_found(
    heard: dict[str, Lines], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law X7: the loop alone would only log it."""
    tasks = ManualTasks()
    here = node(tasks)

    def impossible(*_: Any, **__: Any) -> Iterator[StateChange]:
        yield from [StateChange("fine", {})] * (AT_ONCE + 1)
        raise AssertionError("from nowhere to nowhere")

    monkeypatch.setattr(state_change_log, "state_changes", impossible)
    StateChangeLog(here).decided(Image(), Delta())
    assert not here.failures
    while tasks.turn():
        pass
    assert [str(error) for error in here.failures] == ["from nowhere to nowhere"]
    assert here.failed_tasks == ["state-change log"]


def test_what_nobody_keeps_is_not_put_into_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> Iterator[StateChange]:
        raise AssertionError("worked for nothing")

    monkeypatch.setattr(state_change_log, "state_changes", never)
    for log in (TEXT, TWIN):
        monkeypatch.setattr(log, "level", logging.CRITICAL)
        log.manager._clear_cache()  # type: ignore[attr-defined]
    states = StateChangeLog(node())
    states.decided(Image(), Delta())
    assert not list(states.carried_out_in_slices(Image(), Delta()))
    for log_ in (TEXT, TWIN):
        log_.manager._clear_cache()  # type: ignore[attr-defined]


def shape(line: str, topic: str) -> str:
    """A line without its names, numbers and ids."""
    line = line.replace(topic, "T")
    line = re.sub(r"[\w-]{22}(?=[.)])", "ID", line)
    return re.sub(r"\[\d(,\d)*\]", "[N]", re.sub(r"-?\b\d+", "N", re.sub(r"\[\d(,\d)*\]", "[N]", line)))


def recorded_shapes() -> set[str]:
    """The shapes of what brokers of Kafka 4.3.1 wrote (tests/golden/record_state_changes.py)."""
    files = sorted((GOLDEN / "state_changes" / "kafka-4.3.1").rglob("*.gz"))
    lines = [line for file in files for line in gzip.decompress(file.read_bytes()).decode().splitlines()]
    texts = [line[31:].removesuffix(" (state.change.logger)") for line in lines]
    return {shape(text, topic) for text in texts for topic in ("orders", "two.words-2")}


def test_a_broker_tells_in_kafkas_words_what_it_leads_and_follows_and_says_the_same_in_json(
    heard: dict[str, Lines],
) -> None:
    """Golden lines: the texts of Apache Kafka 4.3.1, written here from what its classes hold."""
    harness = ControllerHarness(3)
    harness.create("foo", (1, 0), (0, 1), (2, 1))
    replicas = {
        harness.partition("foo", number).key: LoggedReplica(offsets, offsets)
        for number, offsets in enumerate((Offsets(50, 40, 30), Offsets(51, 41, 31)))
    }
    log = StateChangeLog(node(id=1, replicas=LoggedReplicas(replicas)))
    assert not list(log.carried_out_in_slices(harness.image, harness.delta)), "few need no turns"
    id = uuid_text(harness.image.topic("foo").id)
    assert heard["text"].lines == [
        "[Broker id=1] Transitioning 1 partition(s) to local leaders.",
        f"[Broker id=1] Creating new partition foo-0 with topic id {id}.",
        f"[Broker id=1] Leader foo-0 with topic id Some({id}) starts at leader epoch 0 from offset 40 with partition"
        " epoch 0, high watermark 30, ISR [1,0], adding replicas [] and removing replicas [] . Previous leader None and"
        " previous leader epoch was -1.",
        "[Broker id=1] Transitioning 2 partition(s) to local followers.",
        f"[Broker id=1] Creating new partition foo-1 with topic id {id}.",
        "[Broker id=1] Follower foo-1 starts at leader epoch 0 from offset 51 with partition epoch 0 and high watermark"
        " 31. Current leader is 0. Previous leader None and previous leader epoch was -1.",
        f"[Broker id=1] Creating new partition foo-2 with topic id {id}.",
        "[Broker id=1] Follower foo-2 starts at leader epoch 0 from offset -1 with partition epoch 0 and high watermark"
        " -1. Current leader is 2. Previous leader None and previous leader epoch was -1.",
        "[Broker id=1] Stopped fetchers as part of become-follower for 2 partitions",
        "[Broker id=1] Started fetchers as part of become-follower for 2 partitions",
    ]
    assert {shape(line, "foo") for line in heard["text"].lines} <= recorded_shapes()
    told = [json.loads(line) for line in heard["twin"].lines]
    assert [(each["event"], each["role"], each["partition"], each["offset"]) for each in told] == [
        ("replica", "leader", 0, 40),
        ("replica", "follower", 1, 51),
        ("replica", "follower", 2, -1),
    ]
    assert {(each["node"], each["time_ms"], each["topicId"]) for each in told} == {(1, 5, id)}
    harness.submit(BrokerRefused(broker_id=0, broker_epoch=harness.broker(0).epoch))
    assert not list(log.carried_out_in_slices(harness.image, harness.delta))
    assert heard["text"].lines[-1].endswith("Previous leader Some(0) and previous leader epoch was 0.")
    assert "Leader foo-1 with" in heard["text"].lines[-1]
    assert shape(heard["text"].lines[-1], "foo") in recorded_shapes()
    assert json.loads(heard["twin"].lines[-1])["previousLeader"] == 0


def test_on_the_zookeeper_plane_controller_and_brokers_write_the_same_lines(
    heard: dict[str, Lines], tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path, 2) as nodes:
            client = nodes.client()
            made = await create_topics(client, [NewTopic(name="t", partitions=1, replication_factor=2)])
            assert made["t"].code == 0
            await until(nodes.agree, "both brokers know the topic")
            leader = nodes.controller.metadata.image.at((nodes.controller.metadata.image.topic("t").id, 0)).leader
            follower = 3 - leader
            client.close()
            for begin in (
                f"[Broker id={leader}] Leader t-0 with topic id ",
                f"[Broker id={follower}] Follower t-0 starts at leader epoch 0",
            ):
                await until(lambda begin=begin: any(line.startswith(begin) for line in heard["text"].lines), begin)
            lines = [line for line in heard["text"].lines if " t-0 " in line]
            by = f"[Controller id={nodes.controller.config.node_id} epoch=1] Changed partition t-0"
            decided = [line for line in lines if line.startswith("[Controller")]
            assert decided[0].startswith(
                f"{by} state from NonExistentPartition to NewPartition with assigned replicas "
            )
            assert decided[1].startswith(f"{by} from NewPartition to OnlinePartition with state LeaderAndIsr(leader=")
            told = [json.loads(line) for line in heard["twin"].lines]
            of_replicas = {(one["node"], one["role"]) for one in told if one["event"] == "replica"}
            assert {(leader, "leader"), (follower, "follower")} <= of_replicas

    run(scenario)


def test_a_controller_on_zookeeper_traces_what_becomes_of_each_replica(heard: dict[str, Lines], tmp_path: Path) -> None:
    """RS-1: from the first state to the last, each step once, and before the requests that it makes."""
    TEXT.setLevel(TRACE)

    def told(replica: int) -> list[str]:
        said = f" Changed state of replica {replica} for partition t-0 from "
        return [line.partition(said)[2] for line in heard["text"].lines if said in line]

    async def scenario() -> None:
        async with Nodes(tmp_path, 2) as nodes:
            client = nodes.client()
            await create_topics(client, [NewTopic(name="t", partitions=1, replication_factor=2)])
            await until(nodes.agree, "both brokers know the topic")
            made = ["NonExistentReplica to NewReplica", "NewReplica to OnlineReplica"]
            await until(lambda: all(told(id) == made for id in nodes.nodes), "both replicas are online")
            lines = heard["text"].lines
            online = next(n for n, line in enumerate(lines) if "NewReplica to OnlineReplica" in line)
            assert "Changed partition t-0 from NewPartition" in "\n".join(lines[:online])
            assert "Sending LeaderAndIsr request" in "\n".join(lines[online:])
            await delete_topics(client, ["t"])
            client.close()
            gone = [
                "OnlineReplica to OfflineReplica",
                "OfflineReplica to ReplicaDeletionStarted",
                "ReplicaDeletionStarted to ReplicaDeletionSuccessful",
                "ReplicaDeletionSuccessful to NonExistentReplica",
            ]
            await until(lambda: all(told(id) == [*made, *gone] for id in nodes.nodes), "both replicas are deleted")
            twins = [json.loads(line) for line in heard["twin"].lines]
            last = [one for one in twins if one["event"] == "replica state" and one["to"] == "NonExistentReplica"]
            assert {(one["replica"], one["topic"], one["controllerEpoch"]) for one in last} == {
                (1, "t", 1),
                (2, "t", 1),
            }
            assert all(parse(f"[2026-01-01 00:00:00,000] TRACE {line}".encode()) for line in heard["text"].lines)

    run(scenario)


def test_a_broker_tells_what_it_is_asked_and_does_for_a_controller_on_zookeeper(
    heard: dict[str, Lines], tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path, 2) as nodes:
            client = nodes.client()
            await create_topics(client, [NewTopic(name="t", partitions=1, replication_factor=2)])
            await until(nodes.agree, "both brokers know the topic")
            client.close()
            controller = nodes.controller.config.node_id
            other = 3 - controller
            words = (
                f"[Controller id={controller} epoch=1] Sending LeaderAndIsr request to broker {other} with ",
                f"[Broker id={other}] Handling LeaderAndIsr request correlationId ",
                f"[Broker id={other}] Finished LeaderAndIsr request in ",
                f"[Broker id={other}] Add 1 partitions and deleted 0 partitions from metadata cache in response to ",
            )
            for begin in words:
                await until(lambda begin=begin: any(line.startswith(begin) for line in heard["text"].lines), begin)

    run(scenario)


def test_a_controller_that_takes_over_tells_no_death_that_another_saw(heard: dict[str, Lines], tmp_path: Path) -> None:
    """Each new controller said of every broker that was away that it was fenced now."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            client = nodes.client()
            await create_topics(client, [NewTopic(name="t", partitions=3, replication_factor=3)])
            await until(nodes.agree, "all brokers know the topic")
            client.close()
            away = next(node for node in nodes.nodes.values() if node is not nodes.controller)
            id = away.config.node_id
            await away.stop()
            del nodes.nodes[id]

            def isrs() -> list[list[int]]:
                return [nodes.json(f"/brokers/topics/t/partitions/{number}/state")["isr"] for number in range(3)]

            await until(lambda: all(id not in isr for isr in isrs()), "it is in no ISR")
            await until(lambda: nodes.controller.metadata.image.brokers[id].fenced, "it is fenced")
            for epoch in (2, 3):
                nodes.server.apply(0, [Delete(path="/controller")])
                await until(lambda epoch=epoch: nodes.controllers == [epoch], "another look")
                await until(lambda: id in nodes.controller.metadata.image.brokers, "it is known as a replica")
                assert nodes.controller.metadata.image.brokers[id].fenced
            told = [json.loads(line) for line in heard["twin"].lines]
            assert [one for one in told if one.get("broker") == id and one.get("controllerEpoch", 1) > 1] == []

    run(scenario)
