"""TD-2: what brokers answer to StopReplica is looked at, and a replica that is not deleted is tried again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moldau.broker.replicas import folder_work
from moldau.broker.zookeeper import batch, channels
from moldau.broker.zookeeper.controller_requests import ControllerRequestHandler
from moldau.broker.zookeeper.directories import Directories
from moldau.broker.zookeeper.outcomes import StopOutcome
from moldau.broker.zookeeper.undeleted import Undeleted
from moldau.controller.replica_states import ReplicaStates
from moldau.controller.requests import AlterPartitionReassignments, AssignReplicasToDirs, BrokerRefused, Move
from moldau.controller.states import ReplicaState
from moldau.image.partition import LOST, UNASSIGNED
from moldau.model import Code
from moldau.model.value import replace
from moldau.simulator.machines.controller_harness import ControllerHarness
from moldau.wire.messages.k05_stop_replica import StopReplicaRequest, StopReplicaResponse
from tests.packages.broker.data_cluster import run, until
from tests.packages.broker.held_disk import HeldDisk
from tests.packages.broker.test_zookeeper_batch import SENDER, Sent
from tests.packages.broker.test_zookeeper_deletions import MARK, delete, folders
from tests.packages.broker.test_zookeeper_plane import topic
from tests.packages.broker.zookeeper_nodes import Nodes


def deleted_topic() -> tuple[Sent, Undeleted, StopReplicaRequest]:
    """A topic was deleted, and broker 1 was told so."""
    from moldau.controller.requests import DeleteTopics

    harness, undeleted = Sent(3, elr=False, zookeeper_mode=True), Undeleted(ReplicaStates(SENDER.controller_id))
    harness.create("t", (0, 1), (1, 2))
    harness.submit(DeleteTopics(topics=("t",)))
    undeleted.asked(harness.image, harness.delta, SENDER)
    assert len(undeleted) == 4
    return harness, undeleted, harness.told[1][-1]


def answer(*codes: Code) -> StopReplicaResponse:
    errors = [
        StopReplicaResponse.StopReplicaPartitionError(topic_name="t", partition_index=number, error_code=code)
        for number, code in enumerate(codes)
    ]
    return StopReplicaResponse(partition_errors=errors)


def told_again(harness: ControllerHarness, undeleted: Undeleted) -> list[tuple[int, int, bool]]:
    """(partition, leader epoch, delete) of what broker 1 is told when it registers anew."""
    messages: list[Any] = undeleted.again(harness.image, harness.broker(1), SENDER)[0]
    states = [state for m in messages for one in m.topic_states for state in one.partition_states]
    return [(s.partition_index, s.leader_epoch, s.delete_partition) for s in states]


def test_what_a_broker_deleted_is_deleted_and_what_it_could_not_is_named_and_told_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    harness, undeleted, message = deleted_topic()
    undeleted.stop_replica_answered(harness.image, 1, message, answer(Code.NONE, Code.KAFKA_STORAGE_ERROR))
    assert undeleted.refused == {(1, ("t", 1)): Code.KAFKA_STORAGE_ERROR}
    assert "broker 1 cannot delete its replica of t-1" in caplog.text
    assert told_again(harness, undeleted) == [(1, batch.DURING_DELETE, True)]
    undeleted.stop_replica_answered(harness.image, 1, message, answer(Code.NONE, Code.NONE))
    assert not undeleted.refused
    assert told_again(harness, undeleted) == []


def test_who_died_before_it_answered_is_told_again() -> None:
    harness, undeleted, _ = deleted_topic()
    assert told_again(harness, undeleted) == [(0, batch.DURING_DELETE, True), (1, batch.DURING_DELETE, True)]


def test_who_is_dead_when_its_replica_moves_away_is_told_to_delete_it_when_it_is_back() -> None:
    harness, undeleted = Sent(3, elr=False, zookeeper_mode=True), Undeleted(ReplicaStates(SENDER.controller_id))
    harness.create("t", (0, 1))
    harness.submit(BrokerRefused(broker_id=1, broker_epoch=harness.broker(1).epoch))
    harness.submit(AlterPartitionReassignments(moves=(Move(topic="t", partition=0, replicas=(0, 2)),)))
    harness.set_isr("t", 0, 0, 2)
    undeleted.asked(harness.image, harness.delta, SENDER)
    harness.register(1, 1)
    harness.heartbeat(1)
    assert told_again(harness, undeleted) == [(0, harness.partition("t", 0).leader_epoch, True)]


def test_a_replica_of_a_topic_that_was_made_again_under_its_name_is_not_deleted() -> None:
    harness, undeleted, _ = deleted_topic()
    harness.create("t", (1, 2))
    assert told_again(harness, undeleted) == []


def test_a_broker_that_could_not_delete_a_replica_is_told_again_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[int] = []
    failing: set[int] = set()
    real = ControllerRequestHandler.stop_replica

    async def stop_replica(
        handler: ControllerRequestHandler, request: StopReplicaRequest, id: int = 0
    ) -> tuple[Code, list[StopOutcome]]:
        me = handler._node.config.node_id
        if any(state.delete_partition for one in request.topic_states for state in one.partition_states):
            heard.append(me)
            if me in failing:
                return Code.NONE, [StopOutcome("t", 0, Code.KAFKA_STORAGE_ERROR)]
        return await real(handler, request, id)

    monkeypatch.setattr(ControllerRequestHandler, "stop_replica", stop_replica)

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t", partitions=1)
            id = min(id for id, node in nodes.nodes.items() if not node.is_active_controller)
            failing.add(id)
            assert (await delete(nodes, timeout_ms=200)).code is Code.REQUEST_TIMED_OUT
            undeleted = nodes.controller.plane.channels.undeleted
            await until(lambda: bool(undeleted.refused), "it has answered")
            assert undeleted.refused == {(id, ("t", 0)): Code.KAFKA_STORAGE_ERROR}
            assert MARK in nodes.server.znodes
            assert "t" in nodes.controller.metadata.image.names
            failing.clear()
            heard.clear()
            await nodes.nodes.pop(id).stop()
            await nodes.boot(id)
            await until(lambda: MARK not in nodes.server.znodes, "it is told again, and has deleted it")
            assert heard == [id]
            assert not undeleted.refused
            assert "t" not in nodes.controller.metadata.image.names

    run(scenario)


def test_a_topic_is_kept_while_a_disk_is_too_slow_to_rename_a_replicas_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker said that it had deleted the replica, and had it until its disk went on (C8, seed 7406)."""
    monkeypatch.setattr(folder_work, "RENAME_WAIT_MS", 1)
    monkeypatch.setattr(channels, "AGAIN_MS", 1)

    async def scenario() -> None:
        disk = HeldDisk("rename")
        nodes = Nodes(tmp_path)
        nodes.world()
        nodes._world = replace(nodes.world(), disk=disk)
        async with nodes:
            await topic(nodes, "t", partitions=1)
            id = min(id for id, node in nodes.nodes.items() if not node.is_active_controller)
            await until(lambda: folders(tmp_path, id) == ["t-0"], "its folder is made")
            disk.hold(f"/node-{id}/t-0")
            assert (await delete(nodes, timeout_ms=200)).code is Code.REQUEST_TIMED_OUT
            undeleted = nodes.controller.plane.channels.undeleted
            late = {(id, ("t", 0)): Code.REQUEST_TIMED_OUT}  # the others may have been late as well, for a moment
            await until(lambda: undeleted.refused == late, "it has answered, and the others are done")
            assert MARK in nodes.server.znodes
            assert folders(tmp_path, id) == ["t-0"]
            disk.release()
            await until(lambda: MARK not in nodes.server.znodes, "it is told again, and has deleted it")
            assert not undeleted.refused
            assert folders(tmp_path, id) == []

    run(scenario)


def test_a_replica_whose_directory_is_back_is_deleted_with_its_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its broker had registered before it was known that the directory is back, so that nothing had it told (L3, seed
    7411)."""
    monkeypatch.setattr(Directories, "_note", lambda *said: None)  # the test says what can be had

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t", partitions=1)
            id = min(id for id, node in nodes.nodes.items() if not node.is_active_controller)
            active = nodes.controller
            image = active.metadata.image
            key, epoch = image.topic("t").partitions[0].key, image.brokers[id].epoch  # type: ignore[union-attr]

            def lies_in(directory: bytes) -> None:
                lying = {directory: (key,)}
                active.controller.submit_nowait(
                    AssignReplicasToDirs(broker_id=id, broker_epoch=epoch, directories=lying)
                )

            lies_in(LOST)
            await until(lambda: active.metadata.image.at(key).directory(id) == LOST, "it cannot be had")
            assert (await delete(nodes, timeout_ms=200)).code is Code.REQUEST_TIMED_OUT
            states = active.plane.channels.states
            await until(
                lambda: states.on_broker(id, ReplicaState.DELETION_INELIGIBLE) == [key], "it cannot be deleted either"
            )
            assert MARK in nodes.server.znodes
            lies_in(UNASSIGNED)
            await until(lambda: MARK not in nodes.server.znodes, "it is deleted, and the topic with it")
            assert folders(tmp_path, id) == []

    run(scenario)
