"""TD-1 in ZooKeeper mode: a deletion waits for dead brokers and for moves, outlives controllers, and resumes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from moldau.broker.zookeeper import restoring
from moldau.broker.zookeeper.parts import ZooKeeperNode
from moldau.client.admin import delete_topics
from moldau.client.view import Outcome
from moldau.model import Code
from moldau.ports.zookeeper import Delete, ZooKeeper
from tests.packages.broker.data_cluster import run, until
from tests.packages.broker.test_zookeeper_plane import topic
from tests.packages.broker.zookeeper_nodes import Nodes

MARK = "/admin/delete_topics/t"


async def delete(nodes: Nodes, *, timeout_ms: int) -> Outcome:
    """The outcome of deleting topic t."""
    client = nodes.client()
    outcomes = await delete_topics(client, ["t"], timeout_ms=timeout_ms)
    client.close()
    return outcomes["t"]


def folders(at: Path, id: int) -> list[str]:
    """The folders of topic t's replicas on a broker, but those that wait for the end of a deletion."""
    found = (path.name for path in (at / f"node-{id}").glob("t-*"))
    return sorted(name for name in found if not name.endswith(("-delete", "-stray")))


def strays(at: Path) -> list[Path]:
    """Folders of replicas that nobody told their brokers to delete."""
    return list(at.rglob("*-stray"))


async def stop_one_that_is_not_active(nodes: Nodes) -> int:
    """The id of a broker that was stopped and is not alive any more."""
    id = min(id for id, node in nodes.nodes.items() if not node.is_active_controller)
    await nodes.nodes.pop(id).stop()
    await until(lambda: not nodes.controller.metadata.image.is_active(id), "it is seen to be gone")
    return id


def test_a_deletion_waits_for_a_broker_that_is_down_and_is_done_when_it_is_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t")
            id = await stop_one_that_is_not_active(nodes)
            outcome = await delete(nodes, timeout_ms=200)
            assert outcome.code is Code.REQUEST_TIMED_OUT
            await until(lambda: MARK in nodes.server.znodes, "it is marked")
            me, (other,) = nodes.controller.config.node_id, nodes.nodes.keys() - {nodes.controller.config.node_id}
            await until(lambda: not folders(tmp_path, other), "who is alive has deleted its replicas")
            assert folders(tmp_path, id) == folders(tmp_path, me) != []
            assert "t" not in nodes.nodes[other].metadata.image.names, "it shows the topic to nobody"
            assert "t" in nodes.controller.metadata.image.names
            await nodes.boot(id)
            await until(lambda: MARK not in nodes.server.znodes, "the mark is gone")
            assert "t" not in nodes.controller.metadata.image.names
            await until(nodes.agree, "all brokers forgot it")
            await until(lambda: not any(folders(tmp_path, one) for one in nodes.nodes), "all replicas are deleted")
            assert not strays(tmp_path), "who was away was told to delete it"

    run(scenario)


def test_replicas_that_are_deleted_as_their_broker_is_about_to_serve_leave_no_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had answered that they were deleted, and their logs stayed: it began after that, and took them for strays."""

    async def last_assigned(node: ZooKeeperNode, zk: ZooKeeper) -> dict[tuple[str, bytes], int]:
        await until(lambda: "t" not in node.metadata.image.names, "it is told to delete them before it serves")
        return await restoring.last_assigned(node, zk)

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "other")
            await topic(nodes, "t")
            id = await stop_one_that_is_not_active(nodes)
            assert (await delete(nodes, timeout_ms=200)).code is Code.REQUEST_TIMED_OUT
            assert folders(tmp_path, id)
            monkeypatch.setattr("moldau.broker.zookeeper.lifecycle.last_assigned", last_assigned)
            await nodes.boot(id)
            await until(lambda: not any(folders(tmp_path, one) for one in nodes.nodes), "all replicas are deleted")
            await until(nodes.agree, "all brokers forgot it")
            assert not strays(tmp_path)

    run(scenario)


def test_a_client_that_waits_long_enough_hears_that_the_topic_is_deleted(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t")
            id = await stop_one_that_is_not_active(nodes)
            asked = asyncio.ensure_future(delete(nodes, timeout_ms=30_000))
            await until(lambda: MARK in nodes.server.znodes, "it is marked")
            await nodes.boot(id)
            assert (await asked).code is Code.NONE
            await until(lambda: MARK not in nodes.server.znodes, "the mark is gone")

    run(scenario)


def test_a_tool_s_deletion_that_waits_is_done_by_the_next_controller(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t")
            id = await stop_one_that_is_not_active(nodes)
            nodes.write(MARK, b"")
            (epoch,) = nodes.controllers
            nodes.server.apply(0, [Delete(path="/controller")])
            await until(lambda: nodes.controllers == [epoch + 1], "another life of the role")
            assert MARK in nodes.server.znodes
            assert "t" in nodes.controller.metadata.image.names
            await nodes.boot(id)
            await until(lambda: MARK not in nodes.server.znodes, "the mark is gone")
            assert "t" not in nodes.controller.metadata.image.names

    run(scenario)


def test_a_deletion_that_a_controller_began_is_ended_by_the_next_for_all_replicas(tmp_path: Path) -> None:
    """TD-2: the topic's znodes go last, so that the next controller knows what is left to be deleted."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t")
            id = await stop_one_that_is_not_active(nodes)
            me = nodes.controller.config.node_id
            (other,) = nodes.nodes.keys() - {me}
            nodes.write(MARK, b"")
            await until(lambda: not folders(tmp_path, other), "who is alive has deleted its replicas")
            (epoch,) = nodes.controllers
            nodes.server.apply(0, [Delete(path="/controller")])
            await until(lambda: nodes.controllers == [epoch + 1], "another life of the role")
            assert "/brokers/topics/t" in nodes.server.znodes
            await nodes.boot(id)
            await until(lambda: MARK not in nodes.server.znodes, "the mark is gone")
            assert "/brokers/topics/t" not in nodes.server.znodes
            await until(lambda: not any(folders(tmp_path, one) for one in nodes.nodes), "all replicas are deleted")
            assert not strays(tmp_path), "who was away was told to delete it"

    run(scenario)


def test_a_topic_made_again_is_not_deleted_by_the_mark_of_the_one_before(tmp_path: Path) -> None:
    """Its znode is kept until all brokers have deleted their replicas, and its name is free before that."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t")
            channels = nodes.controller.plane.channels
            deleting, channels.is_deleting = channels.is_deleting, lambda topic: True
            nodes.write(MARK, b"")
            await until(lambda: "t" not in nodes.controller.metadata.image.names, "it is deleted")
            await topic(nodes, "t")
            made = nodes.controller.metadata.image.names["t"]
            admin = nodes.controller.plane.watching.admin
            await admin.looks["deletions"]()
            channels.is_deleting = deleting
            await admin.looks["deletions"]()
            assert MARK not in nodes.server.znodes
            assert nodes.controller.metadata.image.names.get("t") == made
            nodes.write(MARK, b"")
            await until(lambda: "t" not in nodes.controller.metadata.image.names, "a mark of its own deletes it")

    run(scenario)
