"""Znodes with foreign data in them, and ACLs that deny: each is told by its path, and mended is mended.

Nobody half registered, nobody dead who can live: a node ends only when it cannot register at all.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.lifecycle import RegistrationRefused
from moldau.broker.node import Node, StartRefused
from moldau.client.admin import AlterOp, NewTopic, Resource, ResourceType, alter_configs, create_topics, delete_topics
from moldau.model import Code
from moldau.ports.zookeeper import Create, Delete
from tests.packages.broker.data_cluster import run, until
from tests.packages.broker.test_zookeeper_plane import settled, topic
from tests.packages.broker.zookeeper_nodes import Nodes

NONSENSE = b"\xff not ours"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tried again every two seconds is tried again at once: nothing else depends on it."""
    monkeypatch.setattr("moldau.broker.zookeeper.plane.RETRY_MAX_MS", 20)
    monkeypatch.setattr("moldau.broker.zookeeper.plane.DENIED_REST_MS", 20)
    monkeypatch.setattr("moldau.broker.zookeeper.watching.REFUSED_AGAIN_MS", 20)


def depose(nodes: Nodes) -> None:
    """/controller is removed, so that somebody has to become active anew."""
    nodes.server.apply(0, [Delete(path="/controller")])


async def made(nodes: Nodes, name: str) -> Code:
    """The code of an attempt to make a topic, while not every node can know the same."""
    client = nodes.client()
    outcome = (await create_topics(client, [NewTopic(name=name, partitions=1, replication_factor=1)]))[name]
    client.close()
    return outcome.code


async def refused(nodes: Nodes, id: int) -> BaseException:
    """Start a node that cannot: why its plane ended."""
    failures: list[Any] = []
    nodes.failures = failures
    nodes._world = None
    starting = asyncio.ensure_future(nodes.boot(id))
    await until(lambda: failures, "it is refused")
    starting.cancel()
    await nodes.nodes.pop(id).stop()
    ((_, error),) = failures
    failures.clear()
    assert isinstance(error, BaseException)
    return error


@pytest.mark.parametrize("nonsense", [NONSENSE, b"2147483647", b"99999999999999999999"])
def test_a_controller_epoch_that_nobody_understands_is_named_until_it_is_mended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, nonsense: bytes
) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "mine")
            nodes.write("/controller_epoch", nonsense)
            depose(nodes)
            told = "nobody can be controller until this is mended: znode /controller_epoch"
            await until(lambda: caplog.text.count(told) > 2, "it is said again and again")
            assert not nodes.controllers
            nodes.write("/controller_epoch", b"7")
            await until(lambda: len(nodes.controllers) == 1 and settled(nodes), "somebody is controller")
            await topic(nodes, "another")

    run(scenario)


def test_a_foreign_topic_that_appears_under_a_controller_is_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            nodes.write("/brokers/topics/foreign", NONSENSE)
            await until(lambda: "/brokers/topics/foreign" in caplog.text, "it is named")
            await topic(nodes, "mine")
            assert nodes.server.znodes["/brokers/topics/foreign"].data == NONSENSE
            nodes.server.apply(0, [Delete(path="/brokers/topics/foreign")])

    run(scenario)


def test_a_copy_of_a_topics_znode_does_not_take_its_place_under_the_next_controller(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The name that sorts first had the id: the real topic was gone, and its followers' logs were cut to nothing."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t", partitions=1)
            nodes.write("/brokers/topics/a-copy", nodes.server.znodes["/brokers/topics/t"].data)
            await until(lambda: "/brokers/topics/a-copy" in nodes.server.znodes, "it is there")
            depose(nodes)
            told = "left out: znode /brokers/topics/a-copy: topic_id is that of topic t"
            await until(lambda: told in caplog.text, "the copy is named")
            await until(lambda: len(nodes.controllers) == 1 and settled(nodes), "somebody is controller")
            for node in nodes.nodes.values():
                known = node.metadata.image.topic("t")
                assert known is not None
                assert list(known.partitions) == [0]
                assert not any(one.topic == "a-copy" for one in node.replicas.logs.logs)
            nodes.server.apply(0, [Delete(path="/brokers/topics/a-copy")])

    run(scenario)


def of(id: int) -> bytes:
    """The data of /controller when broker ``id`` is it."""
    return b'{"version":2,"brokerid":%d,"timestamp":"1","kraftControllerEpoch":-1}' % id


@pytest.mark.parametrize(
    ("data", "what", "owned"),
    [
        (NONSENSE, "is no JSON", False), (NONSENSE, "is no JSON", True), (of(99), "names broker 99", False),
        (of(99), "names broker 99, which is not registered", True), (of(1), "names broker 1", False),
    ],
    ids=["nonsense", "nonsense of a session", "a broker that is not there", "one in a session", "a broker"],
)  # fmt: skip
def test_a_controllers_znode_that_no_broker_made_is_told_of_with_the_way_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, data: bytes, what: str, owned: bool
) -> None:
    """Nobody was controller for good: of nonsense there was one line, of a broker's name none."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            session = nodes.server.open()
            await session.start()
            nodes.server.apply(
                session.session_id if owned else 0,
                [Delete(path="/controller"), Create(path="/controller", data=data, ephemeral=owned)],
            )
            await until(lambda: not nodes.controllers and "nobody can be controller: " in caplog.text, "it is told")
            (told, *_) = (one.message for one in caplog.records if "nobody can be controller: " in one.message)
            assert what in told
            way_out = f"when session 0x{session.session_id:x} ends" if owned else "delete /controller"
            assert way_out in told
            if owned:
                await session.stop()
            else:
                depose(nodes)
            await until(lambda: len(nodes.controllers) == 1 and settled(nodes), "somebody is controller")
            if not owned:
                await session.stop()

    run(scenario)


def test_a_registration_that_is_nonsense_is_no_broker_and_its_owner_does_not_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path, 2) as nodes:
            nodes.write("/brokers/ids/3", NONSENSE)
            await until(
                lambda: "broker 3 does not count until this is mended: znode /brokers/ids/3" in caplog.text,
                "it is named",
            )
            await topic(nodes, "t", factor=2)
            error = await refused(nodes, 3)
            assert isinstance(error, RegistrationRefused)
            assert "remove that znode if no broker 3 runs" in str(error)
            nodes.server.apply(0, [Delete(path="/brokers/ids/3")])
            await nodes.boot(3)
            await until(lambda: settled(nodes), "it is taken in")

    run(scenario)


def test_a_registration_that_was_nonsense_for_a_while_counts_again_under_the_same_controller(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Only the next controller looked at it again: until then a broker that lived counted as dead, and what it had led
    was acknowledged by nobody to clients that went on asking it."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t")
            ill = next(id for id, node in nodes.nodes.items() if not node.is_active_controller)
            path = f"/brokers/ids/{ill}"
            stood = nodes.server.znodes[path].data
            nodes.write(path, NONSENSE)
            depose(nodes)
            await until(lambda: f"broker {ill} does not count until this is mended" in caplog.text, "it is named")
            await until(lambda: len(nodes.controllers) == 1, "somebody is controller")
            (epoch,) = nodes.controllers
            nodes.write(path, stood)
            await until(lambda: settled(nodes) and nodes.agree(), "it is taken in again")
            assert nodes.controllers == [epoch]

    run(scenario)


def test_addresses_that_a_broker_writes_anew_are_known_to_all_under_the_same_controller(tmp_path: Path) -> None:
    """As Kafka's do whose listeners are changed while they run: only the next controller read them."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t")
            epochs, moved = (
                nodes.controllers,
                next(id for id, node in nodes.nodes.items() if not node.is_active_controller),
            )
            registration = nodes.json(f"/brokers/ids/{moved}")
            states = {path: node.data for path, node in nodes.server.znodes.items() if path.endswith("/state")}
            (address,) = registration["endpoints"]
            registration["endpoints"] = [address, "OUTER://outer.example:9999"]
            registration["listener_security_protocol_map"]["OUTER"] = "PLAINTEXT"
            nodes.write(f"/brokers/ids/{moved}", json.dumps(registration).encode())

            def known(node: Node) -> bool:
                return "outer.example" in [each.host for each in node.metadata.image.brokers[moved].endpoints]

            await until(lambda: all(known(node) for node in nodes.nodes.values()), "all know its new address")
            assert nodes.controllers == epochs
            now = {path: nodes.server.znodes[path].data for path in states}
            assert now == states  # nothing moves

    run(scenario)


def test_settings_that_are_nonsense_are_told_of_and_the_others_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t", retention_ms="70000")
            await topic(nodes, "u", retention_ms="70000")
            good = nodes.server.znodes["/config/topics/t"].data
            nodes.write("/config/topics/t", NONSENSE)
            note = b'{"version":2,"entity_path":"topics/t"}'
            nodes.write("/config/changes/config_change_", note, sequential=True)
            await until(lambda: "settings stay as they are: znode /config/topics/t" in caplog.text, "it is named")
            depose(nodes)
            await until(lambda: nodes.controllers == [2], "somebody is controller")
            client = nodes.client()
            change = {Resource(ResourceType.TOPIC, "u"): [("retention.ms", AlterOp.SET, "80000")]}
            (outcome,) = (await alter_configs(client, change)).values()
            assert outcome.code is Code.NONE
            client.close()
            nodes.write("/config/topics/t", good)
            nodes.write("/config/changes/config_change_", note, sequential=True)
            await until(lambda: settled(nodes), "everybody has the same settings")
            assert nodes.controller.metadata.image.config(2, "t") == {"retention.ms": "70000"}

    run(scenario)


def files(at: Path, id: int) -> list[Path]:
    """What a broker has in its log directory."""
    return list((at / f"node-{id}").glob("*"))


def contents(folder: Path) -> dict[Path, bytes]:
    """All files but those that only say that a process is there."""
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file() and file.name != ".lock"}


async def not_started(nodes: Nodes, id: int, why: str) -> None:
    """Start a node that cannot, and is not even seen by ZooKeeper afterwards."""
    with pytest.raises(StartRefused, match=why):
        await nodes.boot(id)
    nodes.nodes.pop(id)
    assert not any(path.startswith("/brokers/ids/") for path in nodes.server.znodes)


def test_a_cluster_id_that_is_nonsense_or_another_s_stops_the_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path, 1) as nodes:
            cluster = nodes.json("/cluster/id")["id"]
            await nodes.nodes.pop(1).stop()
            good = nodes.server.znodes["/cluster/id"].data
            nodes.write("/cluster/id", NONSENSE)
            await not_started(nodes, 1, "znode /cluster/id")
            nodes.write("/cluster/id", b'{"version":"1","id":"another"}')  # a wrong chroot, or a wrong ensemble
            await not_started(nodes, 1, f"belongs to node 1 of cluster {cluster}, not to node 1 of cluster another")
            nodes.write("/cluster/id", good)
            await nodes.boot(1)

    run(scenario)


def test_a_broker_of_another_cluster_writes_nothing_before_it_is_refused(tmp_path: Path) -> None:
    """Not even a znode that every cluster has and this one lacks."""

    async def scenario() -> None:
        async with Nodes(tmp_path, 1) as nodes:
            cluster = nodes.json("/cluster/id")["id"]
            await nodes.nodes.pop(1).stop()
            nodes.write("/cluster/id", b'{"version":"1","id":"another"}')
            nodes.server.apply(0, [Delete(path="/admin/delete_topics")])
            before, held = dict(nodes.server.znodes), contents(tmp_path)
            await not_started(nodes, 1, f"belongs to node 1 of cluster {cluster}, not to node 1 of cluster another")
            assert nodes.server.znodes == before
            assert contents(tmp_path) == held

    run(scenario)


def test_a_broker_beside_a_controller_of_kafka_3_3_is_refused_and_writes_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path, 1) as nodes:
            await nodes.nodes.pop(1).stop()
            nodes.write("/controller", b'{"version":1,"brokerid":7,"timestamp":"1700000000000"}')
            before = set(nodes.server.znodes)
            await not_started(nodes, 2, "the controller is broker 7, of Kafka 3.3 or before")
            assert set(nodes.server.znodes) == before
            assert files(tmp_path, 2) == []
            nodes.write("/controller", b'{"version":2,"brokerid":7,"timestamp":"1","kraftControllerEpoch":-1}')

    run(scenario)


# ---- ACLs


def test_a_broker_that_may_not_register_does_not_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path, 2) as nodes:
            nodes.server.acls["/brokers/ids"] = "r"
            error = await refused(nodes, 3)
            assert isinstance(error, RegistrationRefused)
            assert "/brokers/ids/3: not allowed, by the ACL" in str(error)
            nodes.server.acls.clear()
            await nodes.boot(3)
            await until(lambda: settled(nodes), "it is taken in")

    run(scenario)


@pytest.mark.parametrize(("path", "left"), [("/", "r"), ("/controller_epoch", "r")])
def test_a_controller_znode_that_may_not_be_made_is_tried_again_and_brokers_live_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, path: str, left: str
) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "mine")
            nodes.server.acls[path] = left
            depose(nodes)
            told = "nobody can be controller until this is mended: "
            await until(lambda: caplog.text.count(told) > 2, "it is said again and again")
            assert f"{'/controller' if path == '/' else path}: not allowed, by the ACL" in caplog.text
            assert not nodes.controllers
            assert len(nodes.server.ensemble.sessions) == 3
            nodes.server.acls.clear()
            await until(lambda: len(nodes.controllers) == 1 and settled(nodes), "somebody is controller")

    run(scenario)


@pytest.mark.parametrize(
    "path",
    [
        "/brokers/topics/mine",
        "/brokers/topics/mine/partitions/0/state",
        "/config/topics/mine",
        "/config/brokers/1",
        "/latest_producer_id_block",
    ],
)
def test_a_znode_that_no_controller_may_read_costs_what_it_holds_and_is_read_when_it_may_be(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "mine", retention_ms="70000")
            nodes.write("/config/brokers/1", b'{"version":1,"config":{"num.io.threads":"9"}}')
            note = b'{"version":2,"entity_path":"brokers/1"}'
            nodes.write("/config/changes/config_change_", note, sequential=True)
            await until(lambda: all(_io_threads(node) == "9" for node in nodes.nodes.values()), "all know of it")
            if path not in nodes.server.znodes:
                nodes.write(path, b'{"version":1,"broker":1,"block_start":"0","block_end":"999"}')
            nodes.server.acls[path] = ""
            for epoch in (2, 3):
                depose(nodes)
                await until(lambda epoch=epoch: nodes.controllers == [epoch], "somebody is controller")
                assert await made(nodes, f"new{epoch}") is Code.NONE
            assert f"left out: znode {path}: not allowed, by the ACL" in caplog.text
            for node in nodes.nodes.values():
                assert (tmp_path / f"node-{node.config.node_id}" / "mine-0").is_dir()
            assert nodes.controller.metadata.image.config(2, "mine") == {"retention.ms": "70000"}
            nodes.server.acls.clear()
            await until(lambda: len(nodes.controllers) == 1 and nodes.controllers[0] > 3, "it is read anew")
            await until(lambda: settled(nodes), "everybody knows all of it")
            image = nodes.controller.metadata.image
            assert len(image.topics[image.names["mine"]].partitions) == 3

    run(scenario)


def test_a_topic_of_a_tool_that_cannot_be_read_does_not_keep_others_from_their_leaders(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            nodes.write("/brokers/topics/aaa", NONSENSE)
            nodes.server.acls["/brokers/topics/bbb"] = ""
            for name in ("bbb", "ccc"):
                nodes.write(f"/brokers/topics/{name}", b'{"version":1,"partitions":{"0":[1,2]}}')
            await until(lambda: "ccc" in nodes.controller.metadata.image.names, "it has a leader")
            assert "topic aaa is left as it is" in caplog.text
            nodes.server.acls.clear()
            await until(lambda: "bbb" in nodes.controller.metadata.image.names, "it may be read")
            nodes.server.apply(0, [Delete(path="/brokers/topics/aaa")])

    run(scenario)


def test_a_decision_that_may_not_be_written_deposes_the_controller_and_no_other_suffers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "locked")
            nodes.server.acls["/brokers/topics/locked/partitions/0"] = "r"  # its state cannot be deleted
            client = nodes.client()
            outcome = (await delete_topics(client, ["locked"]))["locked"]
            assert outcome.code is Code.CLUSTER_AUTHORIZATION_FAILED
            assert "/brokers/topics/locked/partitions/0/state: not allowed" in (outcome.message or "")
            assert "giving up the controller role: ZooKeeper refuses a write" in caplog.text
            client.close()
            await until(lambda: len(nodes.controllers) == 1 and settled(nodes), "somebody is controller")
            await topic(nodes, "open")
            mark = "/admin/delete_topics/locked"
            await until(lambda: mark not in nodes.server.znodes, "no controller gives up its role for it any more")
            assert "/brokers/topics/locked" in nodes.server.znodes
            nodes.server.acls.clear()

    run(scenario)


def test_settings_that_may_not_be_read_stay_as_they_are(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t", retention_ms="70000")
            nodes.server.acls["/config/topics/t"] = ""
            for entity in ("topics/t", "brokers/1"):
                note = b'{"version":2,"entity_path":"%s"}' % entity.encode()
                nodes.write("/config/changes/config_change_", note, sequential=True)
            nodes.write("/config/brokers/1", b'{"version":1,"config":{"num.io.threads":"9"}}')
            nodes.write("/config/changes/config_change_", note, sequential=True)
            await until(lambda: "settings stay as they are: /config/topics/t: not allowed" in caplog.text, "it is said")
            await until(lambda: all(_io_threads(node) == "9" for node in nodes.nodes.values()), "the other counts")
            nodes.server.acls.clear()

    run(scenario)


def _io_threads(node: Node) -> str | None:
    found: str | None = node.metadata.image.config(4, "1").get("num.io.threads")
    return found


def test_a_broker_of_a_cluster_makes_no_new_one_in_a_zookeeper_that_lost_its_data(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path, 1) as nodes:
            known = nodes.nodes[1].cluster_id
            await nodes.nodes.pop(1).stop()
            nodes.ended.clear()
            inner = sorted((path for path in nodes.server.znodes if path.count("/") > 1), reverse=True)
            nodes.server.apply(0, [Delete(path=path) for path in inner])
            with pytest.raises(StartRefused, match=f"no cluster stands in ZooKeeper at .*belongs to cluster {known}"):
                await nodes.boot(1)
            await nodes.nodes.pop(1).stop()
            nodes.ended.clear()
            assert "/cluster/id" not in nodes.server.znodes

    run(scenario)
