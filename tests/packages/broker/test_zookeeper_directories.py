"""A log directory fails in ZooKeeper mode: its replicas go offline, the others serve, every controller knows."""

from __future__ import annotations

from pathlib import Path

from moldau.broker.lifecycle import Stage
from moldau.broker.node import Node
from moldau.client.admin import NewTopic, create_topics
from moldau.image.partition import LOST
from moldau.zookeeper.notes import LogDirEvent, log_dir_event_json
from tests.packages.broker.data_cluster import run, until
from tests.packages.broker.zookeeper_nodes import Nodes

PARTITIONS = 6
NOTES = "/log_dir_event_notification"


async def topic(nodes: Nodes) -> None:
    client = nodes.client()
    made = await create_topics(client, [NewTopic(name="t", partitions=PARTITIONS, replication_factor=3)])
    client.close()
    assert made["t"].code == 0, made
    await until(nodes.agree, "all brokers know the topic")
    await until(lambda: in_sync(nodes, range(PARTITIONS)), "all are in sync")


def state(nodes: Nodes, number: int) -> tuple[int, list[int]]:
    """Who leads a partition, and its ISR, as it stands in ZooKeeper."""
    found = nodes.json(f"/brokers/topics/t/partitions/{number}/state")
    return found["leader"], sorted(found["isr"])


def in_sync(nodes: Nodes, numbers: range | list[int]) -> bool:
    return all(state(nodes, number)[1] == [1, 2, 3] for number in numbers)


def fail_one(node: Node) -> tuple[list[int], list[int]]:
    """Have one of two directories of a node fail; the partitions in it, and the others."""
    assert node.data is not None
    dirs = node.data.log_dirs
    here = {tp.partition: one.dir for tp, one in dirs.logs.items() if tp.topic == "t"}
    victim = here[min(here)]
    lost = [number for number, dir in here.items() if dir is victim]
    victim.fail(OSError(5, "Input/output error"))
    assert lost
    assert len(lost) < PARTITIONS, "both directories hold something"
    return lost, [number for number in here if number not in lost]


def without(nodes: Nodes, id: int, lost: list[int]) -> bool:
    """Whether others lead what a broker cannot have."""
    return all(state(nodes, n)[0] not in (-1, id) and id not in state(nodes, n)[1] for n in lost)


def marked(nodes: Nodes, id: int) -> list[int]:
    """Partitions of which the controller knows that a broker cannot have them."""
    if len(nodes.controllers) != 1:
        return []
    found = nodes.controller.metadata.image.topic("t")
    assert found is not None
    return [number for number, partition in found.partitions.items() if partition.directory(id) == LOST]


def notes(nodes: Nodes) -> list[str]:
    return [path for path in nodes.server.znodes if path.startswith(NOTES + "/")]


def test_a_broker_that_loses_one_of_two_directories_serves_what_is_in_the_other(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path, dirs=2) as nodes:
            await topic(nodes)
            node = next(one for one in nodes.nodes.values() if one is not nodes.controller)
            id = node.config.node_id
            port = next(iter(node.bound.values())).port
            lost, kept = fail_one(node)
            await until(lambda: without(nodes, id, lost), "others lead what it cannot have")
            await until(lambda: not notes(nodes), "the note is gone")
            await until(lambda: sorted(marked(nodes, id)) == sorted(lost), "the controller knows why")
            await until(lambda: in_sync(nodes, kept), "what is in the other directory is in sync")
            assert node.lifecycle is not None
            assert node.lifecycle.stage is Stage.RUNNING

            nodes.server.expire(nodes.controller.plane.zk.session_id)  # type: ignore[union-attr]
            await until(lambda: nodes.controllers == [2], "another controller")
            await until(
                lambda: sorted(marked(nodes, id)) == sorted(lost), "which has heard of it by the broker's answer"
            )

            await node.stop()
            await nodes.boot(id, port)
            await until(lambda: in_sync(nodes, range(PARTITIONS)), "it has all of them again")
            await until(lambda: not marked(nodes, id), "the controller knows that too")

    run(scenario)


def test_a_controller_that_loses_a_directory_hears_of_it_too(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path, dirs=2) as nodes:
            await topic(nodes)
            node = nodes.controller
            lost, kept = fail_one(node)
            await until(lambda: without(nodes, node.config.node_id, lost), "others lead what it cannot have")
            await until(lambda: not notes(nodes), "the note is gone")
            await until(lambda: in_sync(nodes, kept), "what is in the other directory is in sync")
            assert nodes.controller is node

    run(scenario)


def test_notes_of_others_and_nonsense_are_handled_and_removed(tmp_path: Path) -> None:
    """A broker of Kafka 3.9 leaves the same note; what nobody understands must not stay for ever."""

    async def scenario() -> None:
        async with Nodes(tmp_path, 1) as nodes:
            nodes.write(f"{NOTES}/log_dir_event_", log_dir_event_json(LogDirEvent(9)), sequential=True)
            nodes.write(f"{NOTES}/log_dir_event_", b"nonsense", sequential=True)
            await until(lambda: not notes(nodes), "both are gone")

    run(scenario)
