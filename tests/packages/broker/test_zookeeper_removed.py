"""What another client removes from ZooKeeper, and the cluster still knows: it is written again, and no record is
lost."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.zookeeper.restoring import BYTES_AT_ONCE, in_transactions
from moldau.client.admin import NewTopic, create_topics, delete_topics
from moldau.client.producer import Producer
from moldau.model import Code
from moldau.ports.zookeeper import Create, Op, Set
from tests.packages.broker.data_cluster import run, until
from tests.packages.broker.test_zookeeper_bad_znodes import _impatient, depose, made
from tests.packages.broker.test_zookeeper_foreign_znodes import folders, wipe
from tests.packages.broker.test_zookeeper_plane import settled, topic
from tests.packages.broker.zookeeper_nodes import Nodes

__all__ = ["_impatient"]

TOPICS = "/brokers/topics"
TOPIC = "/brokers/topics/mine"
STATES = [f"{TOPIC}/partitions/{number}/state" for number in range(3)]


async def written(nodes: Nodes) -> None:
    """A topic of three partitions, with ten records in each."""
    await topic(nodes, "mine", partitions=3)
    client = nodes.client()
    producer = Producer(client)
    await producer.prepare("mine")
    for number in range(30):
        producer.send("mine", b"%d" % number, partition=number % 3)
    await producer.close()
    client.close()


async def every_record_is_there(nodes: Nodes) -> None:
    await until(lambda: len(nodes.controllers) == 1, "somebody is controller")
    await until(lambda: settled(nodes) and nodes.agree(), "everybody knows all of it")

    def ends() -> list[int]:
        replicas = (r for node in nodes.nodes.values() for r in node.replicas.by_key.values())
        return [r.log.log_end_offset for r in replicas if r.partition.partition < 3]

    await until(lambda: ends() == [10] * 9, "every replica has every record")
    assert not any(mark in name for id in nodes.nodes for name in folders(nodes, id) for mark in ("-stray", "-delete"))


async def restarted(nodes: Nodes, change: Any) -> None:
    """Every node stops, the change is made, and every node starts."""
    for id in list(nodes.nodes):
        await nodes.nodes.pop(id).stop()
    nodes.ended.clear()
    change()
    await asyncio.gather(*(nodes.boot(id) for id in (1, 2, 3)))


async def changed_often(nodes: Nodes) -> None:
    """Brokers that are not the controller lose their sessions: ISRs shrink and grow, and versions of states go up."""
    for id in [id for id, node in nodes.nodes.items() if not node.is_active_controller]:
        zk = nodes.nodes[id].plane.zk
        before = zk.session_id
        nodes.server.expire(before)
        await until(lambda zk=zk, before=before: zk.session_id not in (0, before) and settled(nodes), "it is back")
        await until(lambda: all(len(nodes.json(state)["isr"]) == 3 for state in STATES), "all are in sync")
    assert all(nodes.server.znodes[state].stat.version for state in STATES)


def test_brokers_apply_a_state_that_was_written_again_and_elections_after_it(tmp_path: Path) -> None:
    """A new znode's version was below what brokers knew as the partition epoch: nothing of it had any effect."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await written(nodes)
            await changed_often(nodes)
            wipe(nodes, f"{TOPIC}/partitions")
            depose(nodes)
            await until(lambda: nodes.controllers == [2], "somebody is controller")

            def is_applied() -> bool:
                states = {number: nodes.json(path) for number, path in enumerate(STATES)}
                replicas = [r for node in nodes.nodes.values() for r in node.replicas.by_key.values()]
                return all(r.machine.leader_epoch == states[r.partition.partition]["leader_epoch"] for r in replicas)

            await until(is_applied, "every replica is told")
            gone = next(id for id, node in nodes.nodes.items() if not node.is_active_controller)
            await nodes.nodes.pop(gone).stop()
            nodes.ended.clear()
            await until(lambda: all(nodes.json(path)["leader"] not in (gone, -1) for path in STATES), "others lead")
            await until(is_applied, "every replica that is left is told")
            client = nodes.client()
            producer = Producer(client)
            await producer.prepare("mine")
            sent = [producer.send("mine", b"more", partition=number) for number in range(3)]
            await producer.close()
            assert [(await one).base_offset for one in sent] == [10, 10, 10]
            client.close()

    run(scenario)


@pytest.mark.parametrize("path", [f"{TOPIC}/partitions", STATES[0]])
def test_states_are_written_again_as_the_next_controller_knew_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    """Taken for new ones, they were led by an empty log, which the others cut theirs to."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await written(nodes)
            before = list(map(nodes.json, STATES))
            wipe(nodes, path)
            depose(nodes)
            await until(lambda: nodes.controllers == [2], "somebody is controller")
            await every_record_is_there(nodes)
            for was, now in zip(before, map(nodes.json, STATES), strict=True):
                assert (now["leader"], sorted(now["isr"])) == (was["leader"], [1, 2, 3])
            assert "removed by another client" in caplog.text

    run(scenario)


def test_a_cluster_that_starts_without_the_states_of_a_topic_keeps_its_logs(tmp_path: Path) -> None:
    """Nobody knows who led; whoever is elected has its own log, and not an empty one."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await written(nodes)
            await restarted(nodes, lambda: wipe(nodes, f"{TOPIC}/partitions"))
            await every_record_is_there(nodes)

    run(scenario)


@pytest.mark.parametrize("starts", [False, True], ids=["another controller", "a start of all"])
def test_a_topic_whose_id_an_old_tool_left_out_is_the_same_topic(tmp_path: Path, starts: bool) -> None:
    """Kafka's tools before 2.8 add partitions so. It got another id, and brokers deleted what they had."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await written(nodes)
            before = nodes.json(TOPIC)
            without = {"version": 1, "partitions": {**before["partitions"], "3": [1, 2, 3]}}

            def change() -> None:
                nodes.write(TOPIC, json.dumps(without).encode())
                if "/controller" in nodes.server.znodes:
                    depose(nodes)

            if starts:
                await restarted(nodes, change)
            else:
                change()
                await until(lambda: nodes.controllers == [2], "somebody is controller")
            await every_record_is_there(nodes)
            await until(lambda: nodes.json(TOPIC).get("topic_id") == before["topic_id"], "it has its id")
            await until(lambda: f"{TOPIC}/partitions/3/state" in nodes.server.znodes, "the new partition is led")
            await every_record_is_there(nodes)

    run(scenario)


def test_another_id_that_a_hand_writes_leaves_the_logs_to_an_operator(tmp_path: Path) -> None:
    """Brokers took the topic for one that was deleted and made again, and deleted what they had."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await written(nodes)
            nodes.write(TOPIC, json.dumps({**nodes.json(TOPIC), "topic_id": "Zm9yZWlnbi1pZC0xMjM0NQ"}).encode())
            depose(nodes)

            def strays(id: int) -> int:
                return sum("-stray" in name for name in folders(nodes, id))

            await until(lambda: all(strays(id) == 3 for id in nodes.nodes), "the logs are under another name")
            assert not any("-delete" in name for id in nodes.nodes for name in folders(nodes, id))

    run(scenario)


@pytest.mark.parametrize("starts", [False, True], ids=["another controller", "a start of all"])
def test_partitions_that_are_missing_in_a_topics_znode_for_a_while_lose_nothing(tmp_path: Path, starts: bool) -> None:
    """The next controller set its logs aside, led them empty when the znode was mended, and the others cut theirs."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await written(nodes)
            good = nodes.server.znodes[TOPIC].data

            def change() -> None:
                nodes.write(TOPIC, json.dumps({**nodes.json(TOPIC), "partitions": {}}).encode())
                if "/controller" in nodes.server.znodes:
                    depose(nodes)

            if starts:
                await restarted(nodes, change)
            else:
                change()
            await until(lambda: len(nodes.controllers) == 1 and nodes.controllers[0] > 1, "somebody is controller")
            await until(lambda: settled(nodes) and nodes.agree(), "everybody runs")
            assert await made(nodes, "other") is Code.NONE
            nodes.write(TOPIC, good)

            def is_known() -> bool:
                found = [node.metadata.image.topic("mine") for node in nodes.nodes.values()]
                return all(one is not None and len(one.partitions) == 3 for one in found)

            await until(is_known, "they are known")
            for id in nodes.nodes:
                assert not any("mine" in name and "-stray" in name for name in folders(nodes, id))
            await until(
                lambda: (
                    [
                        r.log.log_end_offset
                        for node in nodes.nodes.values()
                        for r in node.replicas.by_key.values()
                        if r.partition.topic == "mine"
                    ]
                    == [10] * 9
                ),
                "every replica has every record",
            )

    run(scenario)


def test_what_is_written_again_goes_in_transactions_that_a_server_takes() -> None:
    lost: list[list[Op]] = [
        [Create(path=f"/{number}"), Set(path=f"/{number}", data=b"x" * 100_000)] for number in range(10)
    ]
    parts = list(in_transactions(lost))
    assert [op for part in parts for op in part] == [op for ops in lost for op in ops]
    assert all(
        len(part) % 2 == 0 and sum(len(getattr(op, "data", b"")) for op in part) <= BYTES_AT_ONCE for part in parts
    )
    assert list(in_transactions([])) == []


def test_a_topic_that_went_unheard_leaves_no_word_that_the_next_one_of_its_name_is_kept(tmp_path: Path) -> None:
    """A broker without a replica of it remembered that nobody had decided it: a later topic of the name was deleted,
    and its folder stayed as a stray for ever."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            away = next(id for id, node in nodes.nodes.items() if not node.is_active_controller)
            await placed(nodes, "mine", sorted(nodes.nodes.keys() - {away}))
            zk = nodes.nodes[away].plane.zk
            zk.suspend()
            nodes.server.ensemble.expire(zk.session_id)
            await until(
                lambda: away not in {b.id for b in nodes.controller.metadata.image.live_brokers()}, "it counts as dead"
            )
            cut_off = nodes.nodes.pop(away)
            await deleted(nodes, "mine")
            nodes.nodes[away] = cut_off
            assert "mine" in cut_off.metadata.image.names
            zk.heal()
            await until(lambda: settled(nodes) and nodes.agree(), "it is back")
            await placed(nodes, "mine", [away])
            await deleted(nodes, "mine")
            await until(lambda: not any(name == "mine-0" for name in folders(nodes, away)), "its folder is renamed")
            assert not any(name.endswith("-stray") for name in folders(nodes, away))

    run(scenario)


@pytest.mark.parametrize("folder", ["/config/topics", "/config", "/admin"])
def test_a_folder_that_was_removed_costs_no_decision_and_no_controller(tmp_path: Path, folder: str) -> None:
    """Without /config/topics whoever was controller gave the role up at each new topic, and so did the next one."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "before")
            epoch = nodes.controllers
            wipe(nodes, folder)
            for name in ("one", "two"):
                await topic(nodes, name, retention_ms="60000")
                await deleted(nodes, name)
            assert nodes.controllers == epoch

    run(scenario)


def test_a_folder_that_was_removed_while_nobody_was_controller_is_there_for_the_next(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            wipe(nodes, "/config/topics")
            depose(nodes)
            await until(lambda: "/config/topics" in nodes.server.znodes, "it is made again")
            await until(lambda: len(nodes.controllers) == 1, "somebody is controller")

    run(scenario)


@pytest.mark.parametrize("folder", ["/brokers", "/brokers/topics"])
def test_a_cluster_whose_folder_of_topics_was_removed_sets_no_log_aside(
    tmp_path: Path, folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The next controller took it for a cluster without topics, and every broker renamed every log."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "mine")
            stood = {
                path: node.data for path, node in nodes.server.znodes.items() if path.startswith("/brokers/topics")
            }
            wipe(nodes, folder)
            depose(nodes)
            await until(lambda: "until this is mended: /brokers/topics: NoNode" in caplog.text, "it is named")
            assert "/brokers/topics" not in nodes.server.znodes
            for path in sorted(stood):
                nodes.write(path, stood[path])
            await until(lambda: len(nodes.controllers) == 1, "somebody is controller")
            await until(lambda: settled(nodes) and nodes.agree(), "everybody knows all of it")
            assert not any("-stray" in name for id in nodes.nodes for name in folders(nodes, id))

    run(scenario)


async def placed(nodes: Nodes, name: str, replicas: list[int]) -> None:
    client = nodes.client()
    made = await create_topics(client, [NewTopic(name=name, assignment={0: replicas})])
    client.close()
    assert made[name].code == 0, made
    await until(nodes.agree, f"all know {name}")


async def deleted(nodes: Nodes, name: str) -> None:
    client = nodes.client()
    gone = await delete_topics(client, [name])
    client.close()
    assert gone[name].code == 0, gone
    await until(lambda: nodes.agree() and name not in nodes.controller.metadata.image.names, f"{name} is gone")
