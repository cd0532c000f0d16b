"""Partitions of which a controller can read nothing: clients count them all the same, on whichever broker they ask.

A client finds the partition of a key, and a broker that of a group, by the number of partitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.broker.metadata.undecided import Undecided
from moldau.broker.node import Node
from moldau.client.admin import create_partitions, delete_topics
from moldau.client.client import Client
from moldau.client.world_lines import WorldLines
from moldau.groups import partition_for
from moldau.image import Partition, Topic
from moldau.model import Code
from moldau.ports.zookeeper import Delete
from moldau.replication.roles import Role
from tests.packages.broker.data_cluster import run, until
from tests.packages.broker.test_zookeeper_plane import settled, topic
from tests.packages.broker.zookeeper_nodes import Nodes

NONSENSE = b"\xff not ours"
EMPTY, NOBODY = (
    b'{"controller_epoch":1,"leader":%d,"version":1,"leader_epoch":0,"isr":[]}' % leader for leader in (1, -1)
)
TOPIC, COUNT = "mine", 5
OF_TOPIC = f"/brokers/topics/{TOPIC}"


async def shown(nodes: Nodes, node: Node) -> tuple[bytes, list[int]]:
    """The topic's id and partitions, as one node tells its clients; asked by name, and by that id."""
    (address,) = node.bound.values()
    client = Client(WorldLines(nodes.world()), f"127.0.0.1:{address.port}")
    await client.refresh([TOPIC])
    found = client.view.topics[TOPIC]
    client.close()
    by_id = node.replicas.undecided.topic(node.metadata.image, found.topic_id)
    assert by_id is not None
    assert list(by_id.partitions) == sorted(found.partitions)
    return found.topic_id, sorted(found.partitions)


async def damaged(nodes: Nodes, path: str, data: bytes) -> None:
    """A znode is written by a hand, and another controller is elected, who cannot read it."""
    before = nodes.controllers
    nodes.write(path, data)
    nodes.server.apply(0, [Delete(path="/controller")])
    await until(lambda: len(nodes.controllers) == 1 and nodes.controllers != before, "another is controller")


def leads(nodes: Nodes) -> list[tuple[int, str, bool]]:
    """Which replicas lead, on each node."""
    return sorted(
        (id, f"{replica.partition}", replica.machine.role is Role.LEADER)
        for id, node in nodes.nodes.items()
        for replica in node.replicas.by_key.values()
    )


@pytest.mark.parametrize(
    ("path", "data"),
    [
        (f"{OF_TOPIC}/partitions/2/state", NONSENSE),
        (f"{OF_TOPIC}/partitions/{COUNT - 1}/state", NONSENSE),
        (f"{OF_TOPIC}/partitions/{COUNT - 1}/state", EMPTY),
        (f"{OF_TOPIC}/partitions/{COUNT - 1}/state", NOBODY),
        (OF_TOPIC, NONSENSE),
    ],
    ids=["in the middle", "the last", "an empty ISR", "nobody leads an empty ISR", "the topic"],
)
def test_all_partitions_of_a_topic_are_told_though_one_cannot_be_read(tmp_path: Path, path: str, data: bytes) -> None:
    """The controller's own broker told of one less: producers sent keys, and librdkafka everything, elsewhere."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, TOPIC, COUNT)
            good = nodes.server.znodes[path].data
            told, before = await shown(nodes, nodes.controller), leads(nodes)
            assert told[1] == list(range(COUNT))
            for _ in range(2):  # who knows it since before, and who has read no other
                await damaged(nodes, path, data)
                for node in nodes.nodes.values():
                    assert await shown(nodes, node) == told, node.config.node_id
                if path != OF_TOPIC:
                    assert leads(nodes) == before, "who leads it leads on"
            await damaged(nodes, path, good)
            await until(lambda: settled(nodes), "it is known again")
            assert await shown(nodes, nodes.controller) == told

    run(scenario)


@pytest.mark.parametrize("number", [2, COUNT - 1])
def test_a_partition_without_a_readable_state_is_told_by_a_broker_that_never_knew_it(
    tmp_path: Path, number: int
) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path, 2) as nodes:
            await topic(nodes, TOPIC, COUNT, 2)
            path = f"{OF_TOPIC}/partitions/{number}/state"
            good = nodes.server.znodes[path].data
            await damaged(nodes, path, NONSENSE)
            (id,) = (id for id, node in nodes.nodes.items() if not node.is_active_controller)
            await nodes.nodes.pop(id).stop()
            nodes.ended.pop(id, None)
            node = await nodes.boot(id)
            await until(lambda: node.lifecycle.running.is_set(), "it serves")
            assert (await shown(nodes, node))[1] == list(range(COUNT))
            await damaged(nodes, path, good)
            await until(lambda: settled(nodes), "it is known again")

    run(scenario)


def test_a_partition_without_a_readable_state_is_told_by_a_broker_that_has_no_replica_of_it(tmp_path: Path) -> None:
    """Only its own logs told a broker that started of such partitions: it counted one less, and so did its clients."""

    async def scenario() -> None:
        async with Nodes(tmp_path, 2) as nodes:
            await topic(nodes, TOPIC, COUNT, 1)
            last = COUNT - 1
            path = f"{OF_TOPIC}/partitions/{last}/state"
            good = nodes.server.znodes[path].data
            known = nodes.controller.metadata.image.topic(TOPIC)
            assert known is not None
            (host,) = known.partitions[last].replicas
            await damaged(nodes, path, NONSENSE)
            if nodes.controller.config.node_id != host:
                await damaged(nodes, path, NONSENSE)
            (id,) = nodes.nodes.keys() - {host}
            await nodes.nodes.pop(id).stop()
            nodes.ended.pop(id, None)
            node = await nodes.boot(id)
            await until(lambda: node.lifecycle.running.is_set(), "it serves")
            assert (await shown(nodes, node))[1] == list(range(COUNT))
            await damaged(nodes, path, good)
            await until(lambda: settled(nodes), "it is known again")

    run(scenario)


@pytest.mark.parametrize("number", [2, COUNT - 1])
def test_a_topic_with_a_partition_that_cannot_be_read_gets_no_more_and_costs_no_controller(
    tmp_path: Path, number: int
) -> None:
    """The next one was given the number of the last, whose state stands: each try deposed the controller, and clients
    try for a minute."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, TOPIC, COUNT)
            path = f"{OF_TOPIC}/partitions/{number}/state"
            good = nodes.server.znodes[path].data
            await damaged(nodes, path, NONSENSE)
            ruling = nodes.controller.plane.leader
            client = nodes.client()
            for count in (COUNT, COUNT + 1):
                outcome = (await create_partitions(client, {TOPIC: count}))[TOPIC]
                assert outcome.code is Code.INVALID_PARTITIONS
                assert "none that could be read: then the next controller reads it again" in (outcome.message or "")
            assert nodes.controller.plane.leader == ruling, "the same controller, of the same epoch"
            await damaged(nodes, path, good)
            await until(lambda: settled(nodes), "it is known again")
            assert (await create_partitions(client, {TOPIC: COUNT + 1}))[TOPIC].ok
            client.close()

    run(scenario)


def test_groups_stay_where_they_are_though_a_partition_of_the_offsets_topic_cannot_be_read(tmp_path: Path) -> None:
    """A group was sent to another coordinator, which knew none of its offsets."""
    offsets, count = "__consumer_offsets", 6

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, offsets, count)
            path = f"/brokers/topics/{offsets}/partitions/{count - 1}/state"
            good = nodes.server.znodes[path].data
            await damaged(nodes, path, NONSENSE)
            names = [f"group-{number}" for number in range(20)]
            wanted = [partition_for(name, count) for name in names]
            for node in nodes.nodes.values():
                assert [node.coordinator.partition_of(name) for name in names] == wanted, node.config.node_id
            await damaged(nodes, path, good)
            await until(lambda: settled(nodes), "it is known again")

    run(scenario)


def has(nodes: Nodes, folder: Path, id: int) -> list[str]:
    """The partitions of the topic that a broker has: replicas, and folders that do not wait for the end of a deletion;
    and that its clients are told."""
    node = nodes.nodes[id]
    replicas = [f"{one}" for one in node.replicas.by_partition if one.topic == TOPIC]
    folders = [f"{path.name}" for path in folder.glob(f"node-{id}*/**/{TOPIC}-*") if not path.name.endswith("-delete")]
    return [*replicas, *folders, *(name for name in node.metadata.image.names if name == TOPIC)]


@pytest.mark.parametrize("partitions", [1, COUNT])
@pytest.mark.parametrize("failovers", [1, 2, 3])
def test_a_partition_that_cannot_be_read_goes_with_its_topic(tmp_path: Path, partitions: int, failovers: int) -> None:
    """Nobody told its replicas to go: the deletion was answered, and who had no other replica of the topic led on and
    told clients of it until it started anew."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, TOPIC, partitions, 2)
            path = f"{OF_TOPIC}/partitions/{partitions - 1}/state"
            for _ in range(failovers):  # the controller is each time another: with a replica, or without
                await damaged(nodes, path, NONSENSE)
            client = nodes.client()
            assert (await delete_topics(client, [TOPIC]))[TOPIC].ok
            client.close()
            await until(lambda: not any(has(nodes, tmp_path, id) for id in nodes.nodes), "nobody has any of it")
            await until(lambda: not nodes.controller.plane.channels.states.deleting, "nothing of it is remembered")

    run(scenario)


def test_the_log_of_a_broker_that_was_never_told_of_its_part_goes_with_the_topic(tmp_path: Path) -> None:
    """It started while the state could not be read, and keeps a log without a replica."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, TOPIC, 1, 3)
            await damaged(nodes, f"{OF_TOPIC}/partitions/0/state", NONSENSE)
            id = min(id for id, node in nodes.nodes.items() if not node.is_active_controller)
            await nodes.nodes.pop(id).stop()
            nodes.ended.pop(id, None)
            node = await nodes.boot(id)
            await until(lambda: node.lifecycle.running.is_set(), "it serves")
            await until(lambda: nodes.controller.metadata.image.is_active(id), "it is seen to live")
            client = nodes.client()
            assert (await delete_topics(client, [TOPIC]))[TOPIC].ok
            client.close()
            await until(lambda: not any(has(nodes, tmp_path, id) for id in nodes.nodes), "nobody has any of it")

    run(scenario)


class Uncounted(dict[int, Partition]):
    """Partitions that nobody may go through."""

    def __iter__(self) -> Iterator[int]:
        raise AssertionError("each request of a client would take longer, the larger the topic")


def test_nothing_is_counted_in_kraft_mode_where_each_topic_is_whole() -> None:
    topic = Topic("large", bytes(16), None, Uncounted({0: Partition(bytes(16), 0, (1,), (1,))}))
    assert Undecided().whole(topic) is topic
