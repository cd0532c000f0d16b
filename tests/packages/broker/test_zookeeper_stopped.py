"""StopReplica that deletes nothing, and StopReplica that cannot be done, on brokers in ZooKeeper mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moldau.broker.node import Node
from moldau.broker.zookeeper import batch
from moldau.image import Delta
from moldau.model import Code, TopicPartition
from moldau.wire.messages.k04_leader_and_isr import LeaderAndIsrRequest
from moldau.wire.messages.k05_stop_replica import StopReplicaRequest
from tests.packages.broker.data_cluster import run, until
from tests.packages.broker.test_zookeeper_plane import topic
from tests.packages.broker.zookeeper_nodes import Nodes

T0 = TopicPartition("t", 0)


def stop(nodes: Nodes, leader_epoch: int, *, delete: bool) -> StopReplicaRequest:
    state = StopReplicaRequest.StopReplicaPartitionState(leader_epoch=leader_epoch, delete_partition=delete)
    return StopReplicaRequest(
        controller_id=nodes.controller.config.node_id,
        controller_epoch=nodes.controllers[0],
        topic_states=[StopReplicaRequest.StopReplicaTopicState(topic_name="t", partition_states=[state])],
    )


async def told(node: Node, request: StopReplicaRequest) -> list[tuple[str, int, Code]]:
    """A code for each partition of a request that is carried out."""
    plane: Any = node.plane
    request.broker_epoch = node.lifecycle.epoch  # as a controller names it
    code, codes = await plane.controller_requests.stop_replica(request)
    assert code is Code.NONE
    return list(codes)


def a_follower(nodes: Nodes) -> Node:
    leader = nodes.controller.metadata.image.topic("t").partitions[0].leader  # type: ignore[union-attr]
    return next(n for id, n in nodes.nodes.items() if id != leader and n is not nodes.controller)


def on_disk(nodes: Nodes, node: Node) -> bool:
    return (nodes.folder / f"node-{node.config.node_id}" / "t-0").exists()


@pytest.mark.parametrize("again", [True, False])
def test_a_replica_that_is_stopped_neither_leads_nor_follows_and_keeps_its_log(tmp_path: Path, again: bool) -> None:
    """As in Kafka 3.9 (ReplicaManager.stopReplicas): it is offline, and on disk."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t", partitions=1)
            node = a_follower(nodes)
            replicas, key = node.replicas, node.metadata.image.topic("t").partitions[0].key  # type: ignore[union-attr]
            assert key in replicas.by_key
            await until(lambda: on_disk(nodes, node), "its folder is made, beside the loop")
            assert await told(node, stop(nodes, 0, delete=False)) == [("t", 0, Code.NONE)]
            assert await told(node, stop(nodes, 0, delete=False)) == [("t", 0, Code.NONE)], "it may be repeated"
            assert replicas.find("t", 0) is Code.NOT_LEADER_OR_FOLLOWER
            assert key not in replicas.by_key
            assert on_disk(nodes, node)
            if again:
                channels: Any = nodes.controller.plane.channels  # type: ignore[union-attr]
                channels.send_roles_again(node.config.node_id)
                await until(lambda: key in replicas.by_key, "the part that it had is given to it again")
                assert replicas.by_key[key].log is replicas.logs.logs[T0]
                assert on_disk(nodes, node)
            else:
                assert await told(node, stop(nodes, batch.DURING_DELETE, delete=True)) == [("t", 0, Code.NONE)]
                await until(lambda: not on_disk(nodes, node), "its folder is renamed")
                assert T0 not in replicas.logs.logs

    run(scenario)


def test_a_leader_that_is_stopped_leads_no_more(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t", partitions=3)
            active = nodes.controller
            image = active.metadata.image
            number, leader = next(
                (p.id, p.leader)
                for p in image.topic("t").partitions.values()  # type: ignore[union-attr]
                if p.leader != active.config.node_id
            )
            node = nodes.nodes[leader]
            request = stop(nodes, 0, delete=False)
            request.topic_states[0].partition_states[0].partition_index = number
            assert await told(node, request) == [("t", number, Code.NONE)]
            assert node.replicas.find("t", number) is Code.NOT_LEADER_OR_FOLLOWER

    run(scenario)


@pytest.mark.parametrize("delete", [False, True])
def test_a_replica_in_a_directory_that_failed_is_answered_with_a_storage_error(tmp_path: Path, delete: bool) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t", partitions=1)
            node = a_follower(nodes)
            node.replicas.by_key.clear()
            key = node.metadata.image.topic("t").partitions[0].key  # type: ignore[union-attr]
            node.replicas.unreachable[key] = T0
            epoch = batch.DURING_DELETE if delete else 0
            assert await told(node, stop(nodes, epoch, delete=delete)) == [("t", 0, Code.KAFKA_STORAGE_ERROR)]

    run(scenario)


def test_a_replica_whose_directory_fails_while_it_is_deleted_is_answered_with_a_storage_error(tmp_path: Path) -> None:
    """The topic was removed, and its log came back with the directory (C8, seed 50002 of whole clusters)."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t", partitions=1)
            node = a_follower(nodes)
            log = node.replicas.logs.logs[T0]
            asked = told(node, stop(nodes, batch.DURING_DELETE, delete=True))
            given_up = node.replicas.folders.given_up

            async def failing(partitions: Any, wait_ms: int) -> list[TopicPartition]:
                slow = await given_up(partitions, wait_ms)
                log.dir.offline = "Input/output error"
                return slow

            node.replicas.folders.given_up = failing  # type: ignore[method-assign, assignment]  # a method with names of its own
            assert await asked == [("t", 0, Code.KAFKA_STORAGE_ERROR)]
            again = told(node, stop(nodes, batch.DURING_DELETE, delete=True))
            assert await again == [("t", 0, Code.KAFKA_STORAGE_ERROR)], "also when it is told again"
            log.dir.offline = None

    run(scenario)


def test_who_is_told_its_roles_again_is_not_told_of_what_it_is_deleting(tmp_path: Path) -> None:
    """It made these logs anew, behind the StopReplica that it had not answered yet (C8, seed 50002)."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t", partitions=1)
            node, active = a_follower(nodes), nodes.controller
            channels: Any = active.plane.channels  # type: ignore[union-attr]
            key = active.metadata.image.topic("t").partitions[0].key  # type: ignore[union-attr]
            said: list[Any] = []
            channel = channels._open[node.config.node_id]
            channel.enqueue = lambda messages, offset: said.extend(messages)
            channels.delete([key[0]])
            said.clear()
            channels.send_roles_again(node.config.node_id)
            (roles,) = said
            assert isinstance(roles, LeaderAndIsrRequest)
            assert "t" not in [one.topic_name for one in roles.topic_states]
            del channel.enqueue

    run(scenario)


def test_a_controller_that_rules_again_has_what_it_had_stopped_and_begins_it_anew(tmp_path: Path) -> None:
    """The image that it reads may have no news of it: it was neither led nor deleted with its topic (seed 184)."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t", partitions=1)
            node = a_follower(nodes)
            replicas, image = node.replicas, node.metadata.image
            key = image.topic("t").partitions[0].key  # type: ignore[union-attr]
            replicas.stopped.stop(key)
            assert key not in replicas.by_key
            replicas.stopped.clear()
            replicas.stopped.stop(key)
            assert key in replicas.stopped, "its topic is still marked for deletion"
            replicas.stopped.clear()
            replicas.apply(image, Delta())
            assert key in replicas.by_key, "it has the part that the image gives it"

    run(scenario)
