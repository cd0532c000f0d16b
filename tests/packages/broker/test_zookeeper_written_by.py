"""Each partition is told of with the epoch of the controller that wrote its state, as by Apache Kafka's controllers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.zookeeper import batch
from moldau.broker.zookeeper.controller_requests import ControllerRequestHandler
from moldau.controller.requests import DeleteTopics
from moldau.image.delta import PartitionDelta
from moldau.model.value import replace
from moldau.ports.zookeeper import Delete
from moldau.wire.messages.k06_update_metadata import UpdateMetadataRequest
from moldau.zookeeper import paths
from tests.packages.broker.data_cluster import run, until
from tests.packages.broker.test_zookeeper_batch import SENDER, Sent
from tests.packages.broker.test_zookeeper_plane import topic
from tests.packages.broker.zookeeper_nodes import Nodes


def epochs(message: Any) -> dict[tuple[str, int], int]:
    """Controller epoch by partition, as one request has them."""
    return {
        (one.topic_name, state.partition_index): state.controller_epoch
        for one in message.topic_states
        for state in one.partition_states
    }


def in_znodes(nodes: Nodes) -> dict[tuple[str, int], int]:
    """The same, as states in ZooKeeper have them."""
    states = {
        where: json.loads(znode.data)["controller_epoch"]
        for path, znode in nodes.server.znodes.items()
        if (where := paths.of_state(path)) is not None
    }
    return {where: epoch for where, epoch in states.items() if where[0] in ("old", "new")}


def test_brokers_hear_of_each_partition_which_controller_wrote_its_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All were sent under the sender's epoch, also those whose state its predecessor had written."""
    heard: dict[tuple[int, str], dict[tuple[str, int], int]] = {}
    for name in ("leader_and_isr", "update_metadata"):

        def listen(name: str, real: Any) -> Any:
            async def hear(handler: Any, request: Any, *more: Any) -> Any:
                heard.setdefault((handler._node.config.node_id, name), {}).update(epochs(request))
                return await real(handler, request, *more)

            return hear

        monkeypatch.setattr(ControllerRequestHandler, name, listen(name, getattr(ControllerRequestHandler, name)))

    def same(nodes: Nodes) -> bool:
        """Both others have heard, by both requests, what stands there."""
        stands = in_znodes(nodes)
        found = [
            {where: epoch for where, epoch in told.items() if where in stands}
            for (id, _), told in heard.items()
            if id != nodes.controller.config.node_id
        ]
        return len(found) == 4 and all(one == stands for one in found)

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "old")
            assert set(in_znodes(nodes).values()) == {1}
            path = paths.state("old", 0)
            state = nodes.json(path)
            state |= {"leader": -1, "leader_epoch": state["leader_epoch"] + 1}
            nodes.write(path, json.dumps(state).encode())
            heard.clear()
            nodes.server.apply(0, [Delete(path="/controller")])
            await until(lambda: nodes.controllers == [2], "another controller")
            await until(lambda: nodes.json(path)["leader"] >= 0, "which has elected a leader")
            await topic(nodes, "new", partitions=1)
            expected = {("old", 0): 2, ("old", 1): 1, ("old", 2): 1, ("new", 0): 2}
            assert in_znodes(nodes) == expected
            await until(lambda: same(nodes), "both others have heard of it")

    run(scenario)


def test_a_deleted_partition_is_told_of_with_the_epoch_of_whoever_wrote_its_state_last() -> None:
    harness = Sent(3, elr=False, zookeeper_mode=True)
    harness.create("t", (0, 1), (1, 2))
    key = harness.partition("t", 0).key
    harness.submit(DeleteTopics(topics=("t",)))
    told = batch.requests(harness.image, harness.delta, replace(SENDER, written_by={key: 1}))
    first = told[1][0]
    assert isinstance(first, UpdateMetadataRequest)
    assert epochs(first) == {("t", 0): 1, ("t", 1): SENDER.controller_epoch}


def test_only_what_changes_its_version_has_written_a_state() -> None:
    harness = Sent(3, elr=False, zookeeper_mode=True)
    harness.create("t", (0, 1))
    known = harness.partition("t", 0)
    assert batch.is_written(PartitionDelta("t", known.key, None, known))
    assert batch.is_written(PartitionDelta("t", known.key, known, known._replace(partition_epoch=1)))
    assert not batch.is_written(PartitionDelta("t", known.key, known, known._replace(directories=(bytes(16),) * 2)))
    assert not batch.is_written(PartitionDelta("t", known.key, known, None))
