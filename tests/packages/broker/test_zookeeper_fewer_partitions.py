"""LI-2 in ZooKeeper mode: partitions that another client takes out of a topic's znode, or adds where it may not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from moldau.ports.zookeeper import Create, Delete, Op
from tests.packages.broker.data_cluster import run, until
from tests.packages.broker.test_zookeeper_deletions import MARK, delete, stop_one_that_is_not_active
from tests.packages.broker.test_zookeeper_plane import topic
from tests.packages.broker.zookeeper_nodes import Nodes

ZNODE = "/brokers/topics/t"


def numbers(nodes: Nodes) -> list[str]:
    return sorted(nodes.json(ZNODE)["partitions"])


def write(nodes: Nodes, change: Any) -> None:
    """Change the topic's znode by hand."""
    said = nodes.json(ZNODE)
    change(said["partitions"])
    nodes.write(ZNODE, json.dumps(said).encode())


def test_partitions_that_are_taken_out_of_a_topics_znode_are_put_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t")
            before = nodes.json(ZNODE)
            write(nodes, lambda partitions: partitions.pop("1"))
            await until(lambda: numbers(nodes) == ["0", "1", "2"], "it is put back")
            assert nodes.json(ZNODE) == before
            assert "partitions [1] were taken out of its znode" in caplog.text
            (epoch,) = nodes.controllers
            nodes.server.apply(0, [Delete(path="/controller")])
            await until(lambda: nodes.controllers == [epoch + 1], "another life of the role")
            await until(nodes.agree, "all brokers say the same")
            assert sorted(nodes.controller.metadata.image.topic("t").partitions) == [0, 1, 2]  # type: ignore[union-attr]

    run(scenario)


def test_what_is_added_while_something_is_taken_away_is_added(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t")

            def change(partitions: dict[str, list[int]]) -> None:
                partitions["3"] = partitions.pop("1")

            write(nodes, change)
            await until(lambda: numbers(nodes) == ["0", "1", "2", "3"], "both stand")
            await until(lambda: nodes.agree() and len(led(nodes)) == 4, "all know it")

    run(scenario)


def test_what_is_added_before_a_new_topic_is_watched_is_added(tmp_path: Path) -> None:
    """The controller is told of a topic that is new, and looks at its znode after a tool has written it once more."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            add = partial(write, nodes, lambda partitions: partitions.update({"3": partitions["0"]}))

            def made(session: int, ops: Sequence[Op], _: object) -> None:
                if any(isinstance(op, Create) and op.path == ZNODE for op in ops):
                    asyncio.get_running_loop().call_soon(add)

            nodes.server.ensemble.witnesses.append(made)
            await topic(nodes, "t")
            await until(lambda: numbers(nodes) == ["0", "1", "2", "3"], "it is written")
            await until(lambda: len(led(nodes)) == 4, "it is led")

    run(scenario)


def test_what_is_taken_away_while_a_controller_begins_is_put_back(tmp_path: Path) -> None:
    """After everything was read, and before the first watch is set."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t")
            await until(nodes.agree, "all brokers say the same")
            watching = nodes.controller.plane.watching
            await until(lambda: "t" in watching._watched, "the watch of before is set")
            watching.close()
            write(nodes, lambda partitions: partitions.pop("1"))
            await until(lambda: "t" not in watching._watched, "the watch of before is spent")
            watching.open()
            await until(lambda: numbers(nodes) == ["0", "1", "2"], "it is put back")

    run(scenario)


def test_no_partition_is_added_to_a_topic_whose_deletion_waits(tmp_path: Path) -> None:
    """As KafkaController.processPartitionModifications: the znode is what it was."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t")
            id = await stop_one_that_is_not_active(nodes)
            await delete(nodes, timeout_ms=200)
            await until(lambda: MARK in nodes.server.znodes, "it is marked")
            write(nodes, lambda partitions: partitions.update({"3": partitions["0"]}))
            await until(lambda: numbers(nodes) == ["0", "1", "2"], "it is taken away again")
            assert len(led(nodes)) == 3
            await nodes.boot(id)
            await until(lambda: MARK not in nodes.server.znodes, "the topic is deleted")
            assert "t" not in nodes.controller.metadata.image.names

    run(scenario)


def led(nodes: Nodes) -> list[int]:
    """Leaders as the controller knows them."""
    return [p.leader for p in nodes.controller.metadata.image.topic("t").partitions.values()]  # type: ignore[union-attr]
