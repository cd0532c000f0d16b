"""Whatever stands in ZooKeeper: every node lives, and what is bad costs itself, not the rest of the cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.api.forwarding import forward
from moldau.client.admin import AlterOp, Resource, ResourceType, alter_configs, delete_topics
from moldau.controller.facts import Settings
from moldau.controller.requests import AdoptConfigs
from moldau.controller.sizes import settings_too_large, topic_too_large
from moldau.image import Image, Partition
from moldau.model import Code, TopicPartition
from moldau.ports.zookeeper import Delete
from moldau.replication.roles import Role
from moldau.wire.messages.k05_stop_replica import StopReplicaRequest
from moldau.wire.messages.k20_delete_topics import DeleteTopicsRequest
from tests.packages.broker.context import ContextValue
from tests.packages.broker.data_cluster import run, until
from tests.packages.broker.test_zookeeper_bad_znodes import _impatient, depose, made
from tests.packages.broker.test_zookeeper_plane import settled, topic
from tests.packages.broker.zookeeper_nodes import Nodes

__all__ = ["_impatient"]

NOTE = b'{"version":2,"entity_path":"%s"}'


def wipe(nodes: Nodes, path: str, *, itself: bool = True) -> None:
    """As ``rmr`` of ZooKeeper's shell does."""
    inner = sorted((p for p in nodes.server.znodes if p.startswith(path + "/")), reverse=True)
    nodes.server.apply(0, [Delete(path=p) for p in (*inner, *([path] if itself else []))])


def leaders(nodes: Nodes, partition: TopicPartition) -> list[int]:
    """Brokers that serve a partition as its leader."""
    return [
        id
        for id, node in nodes.nodes.items()
        if (replica := node.replicas.by_partition.get(partition)) is not None and replica.machine.role is Role.LEADER
    ]


def folders(nodes: Nodes, id: int) -> list[str]:
    return sorted(path.name for path in (nodes.folder / f"node-{id}").iterdir() if path.is_dir())


def changed(state: dict[str, Any], **values: Any) -> bytes:
    return json.dumps({**state, **values}).encode()


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("/brokers/topics/mine", None),
        ("/brokers/topics/mine", {"partitions": {"0": [1 << 40]}}),
        ("/brokers/topics/mine/partitions/0/state", None),
        ("/brokers/topics/mine/partitions/0/state", {"leader": 1 << 40}),
        ("/brokers/topics/mine/partitions/0/state", {"leader_epoch": 2**31 - 1}),
        ("/brokers/topics/mine/partitions/0/state", {"isr": [1 << 33]}),
    ],
)
def test_a_partition_that_no_controller_can_read_is_served_on_and_the_others_are_led(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, path: str, values: dict[str, Any] | None
) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "mine", partitions=2)
            await topic(nodes, "other")
            (leader,) = await until(lambda: leaders(nodes, TopicPartition("mine", 0)), "it is led")
            await until(lambda: all("mine-0" in folders(nodes, id) for id in nodes.nodes), "its folders are made")
            good = nodes.server.znodes[path].data
            nodes.write(path, b"" if values is None else changed(nodes.json(path), **values))
            for epoch in (2, 3):
                depose(nodes)
                await until(lambda epoch=epoch: nodes.controllers == [epoch], "somebody is controller")
                assert await made(nodes, f"new{epoch}") is Code.NONE
            assert f"left out: znode {path}" in caplog.text
            assert leaders(nodes, TopicPartition("mine", 0)) == [leader]
            assert all("mine-0" in folders(nodes, id) for id in nodes.nodes)
            assert await made(nodes, "mine") is not Code.NONE, "nobody else may have its name"
            nodes.write(path, good)
            await until(lambda: len(nodes.controllers) == 1 and nodes.controllers[0] > 3, "it is read anew")
            await until(lambda: settled(nodes) and nodes.agree(), "everybody knows all of it")
            image = nodes.controller.metadata.image
            assert list(image.topics[image.names["mine"]].partitions) == [0, 1]
            assert all("mine-0" in folders(nodes, id) for id in nodes.nodes)

    run(scenario)


def test_a_topic_whose_znode_another_client_removes_keeps_its_logs_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "mine", partitions=1)
            wipe(nodes, "/brokers/topics/mine")

            def aside() -> bool:
                return all(any(f.startswith("mine-0.") for f in folders(nodes, id)) for id in nodes.nodes)

            await until(aside, "the logs are under another name")
            for id in nodes.nodes:
                (found,) = (name for name in folders(nodes, id) if name.startswith("mine-0"))
                assert found.endswith("-stray")
            await until(lambda: len(nodes.controllers) == 1 and settled(nodes), "somebody is controller")
            assert await made(nodes, "mine") is Code.NONE

    run(scenario)


@pytest.mark.parametrize(
    ("entity", "config"),
    [
        ("topics/t", {"segment.bytes": "100000", "retention.ms": "70000"}),
        ("topics/t", {"retention.ms": "abc", "segment.ms": "70000"}),
        ("topics/t", {"cleanup.policy": "foo", "min.insync.replicas": "x", "segment.ms": "70000"}),
        ("topics/t", {"leader.replication.throttled.replicas": "9" * 5000 + ":1", "segment.ms": "70000"}),
        ("topics/t", {"x": "\ud800", "segment.ms": "70000"}),
        ("brokers/<default>", {"message.max.bytes": "nan", "log.segment.bytes": "100000"}),
        ("brokers/1", {"num.io.threads": "-7", "log.roll.ms": "0", "log.cleaner.threads": "2"}),
        ("users/u", {"request_percentage": "nan", "SCRAM-SHA-256": "salt=,iterations=99999999999"}),
    ],
)
def test_a_setting_that_no_request_would_have_set_costs_itself(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, entity: str, config: dict[str, str]
) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t")
            nodes.write(f"/config/{entity}", json.dumps({"version": 1, "config": config}).encode())
            nodes.write("/config/changes/config_change_", NOTE % entity.encode(), sequential=True)
            kind, name = (2, "t") if entity == "topics/t" else (4, "" if "default" in entity else "1")
            good = "segment.bytes" if "segment.bytes" in config else next(reversed(config))
            if not entity.startswith("users/"):
                wanted = config.get("log.segment.bytes") or config[good]
                key = "log.segment.bytes" if "log.segment.bytes" in config else good

                def heard() -> bool:
                    return all(n.metadata.image.config(kind, name).get(key) == wanted for n in nodes.nodes.values())

                await until(heard, "the good one counts")
            depose(nodes)
            await until(lambda: nodes.controllers == [2] and settled(nodes), "somebody is controller")
            await topic(nodes, "another")
            await nodes.nodes.pop(3).stop()
            await nodes.boot(3)
            await until(lambda: settled(nodes), "a broker starts with it")
            client = nodes.client()
            change = {Resource(ResourceType.TOPIC, "t"): [("retention.ms", AlterOp.SET, "80000")]}
            (outcome,) = (await alter_configs(client, change)).values()
            assert outcome.code is Code.NONE
            client.close()

    run(scenario)


@pytest.mark.parametrize("path", ["/config/changes", "/config"])
def test_folders_of_settings_that_somebody_removes_are_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t", retention_ms="70000")
            wipe(nodes, path)
            await until(lambda: "/config/changes" in nodes.server.znodes, "it is there again")
            if path == "/config":
                await until(lambda: "/config/topics" in nodes.server.znodes, "so is what it held")
            nodes.write("/config/topics/t", b'{"version":1,"config":{"retention.ms":"60000"}}')
            nodes.write("/config/changes/config_change_", NOTE % b"topics/t", sequential=True)

            def heard() -> bool:
                return all(n.metadata.image.config(2, "t") == {"retention.ms": "60000"} for n in nodes.nodes.values())

            await until(heard, "notes are heard of again")
            assert not nodes.failures

    run(scenario)


def test_settings_that_were_taken_away_unheard_are_taken_away(tmp_path: Path) -> None:
    """A broker that could not hear of notes read what stood there later, and kept what stood there no more."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t", retention_ms="70000")
            await until(lambda: settings_of_t(nodes) == [{"retention.ms": "70000"}] * 3, "everybody knows it")
            nodes.server.acls["/config/changes"] = ""
            nodes.server.apply(0, [Delete(path="/config/topics/t")])
            nodes.write("/config/changes/config_change_", NOTE % b"topics/t", sequential=True)
            nodes.server.acls.clear()
            wipe(nodes, "/config/changes")
            await until(lambda: settings_of_t(nodes) == [{}] * 3, "everybody has let go of it")

    run(scenario)


def settings_of_t(nodes: Nodes) -> list[dict[str, str]]:
    """What each node knows of topic t's settings."""
    return [node.metadata.image.config(2, "t") for node in nodes.nodes.values()]


def test_what_a_controller_heard_and_did_not_live_to_decide_is_read_again(tmp_path: Path) -> None:
    """It had seen the note, asked itself to take the setting over, and was deposed: nobody told it again."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t", retention_ms="70000")
            old = nodes.controller
            heard: list[object] = []
            old.controller.submit_nowait = heard.append  # type: ignore[assignment]  # a method, whatever names its argument has
            nodes.write("/config/topics/t", b'{"version":1,"config":{"retention.ms":"60000"}}')
            nodes.write("/config/changes/config_change_", NOTE % b"topics/t", sequential=True)
            await until(lambda: any(isinstance(one, AdoptConfigs) for one in heard), "the controller hears of it")
            del old.controller.submit_nowait
            old.plane._retired = True  # it will not stand again
            depose(nodes)
            await until(
                lambda: len(nodes.controllers) == 1 and old.plane.claimed_epoch is None,
                "another has the controller role",
            )
            await until(lambda: settings_of_t(nodes) == [{"retention.ms": "60000"}] * 3, "and knows all the same")

    run(scenario)


@pytest.mark.parametrize("child", ["foreign", "partitions/5", "partitions/0/kid", "partitions/0/state/kid"])
def test_a_deleted_topic_goes_with_what_another_client_put_below_it(tmp_path: Path, child: str) -> None:
    """Every controller gave the controller role up over it, and the next was handed the same request: 25 elections in 5
    s.
    """

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t")
            for path in (child, f"{child}/below", f"{child}/below/that"):
                nodes.write(f"/brokers/topics/t/{path}", b"")
            client = nodes.client()
            (outcome,) = (await delete_topics(client, ["t"])).values()
            client.close()
            assert outcome.code is Code.NONE
            assert nodes.controllers == [1], "nobody else had to be elected"
            await until(lambda: "/brokers/topics/t" not in nodes.server.znodes, "it is gone")

    run(scenario)


def test_what_a_node_passed_on_is_passed_on_no_further(tmp_path: Path) -> None:
    """It went round among brokers that had just left the controller role, and outlived the client that had asked."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await until(lambda: settled(nodes), "somebody is controller")
            (other, *_) = (n for n in nodes.nodes.values() if n is not nodes.controller)
            request = DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name="t")])
            for name, code in (("node-7", Code.NOT_CONTROLLER), ("nodes", Code.UNKNOWN_TOPIC_OR_PARTITION)):
                context = ContextValue(client_id=name, peer_host="here", api_version=6)
                (answer,) = (await forward(other.broker_services(), request, context)).responses
                assert answer.error_code == code

    run(scenario)


def test_a_request_to_move_nothing_is_taken_away(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            path = "/admin/reassign_partitions"
            nodes.write(path, b'{"version":1,"partitions":[]}')
            await until(lambda: path not in nodes.server.znodes, "it has been handled")

    run(scenario)


def test_notes_of_settings_that_may_not_be_read_are_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t", retention_ms="70000")
            nodes.server.acls["/config/changes"] = ""
            nodes.write("/config/topics/t", b'{"version":1,"config":{"retention.ms":"60000"}}')
            nodes.write("/config/changes/config_change_", NOTE % b"topics/t", sequential=True)
            told = "changes of settings are not heard of until this is mended: /config/changes"
            await until(lambda: caplog.text.count(told) >= len(nodes.nodes), "each says it")
            assert caplog.text.count(told) == len(nodes.nodes), "once"
            await nodes.nodes.pop(3).stop()
            await nodes.boot(3)
            await until(lambda: nodes.nodes[3].lifecycle.running.is_set(), "a broker starts all the same")
            nodes.server.acls.clear()

            def heard() -> bool:
                return all(n.metadata.image.config(2, "t") == {"retention.ms": "60000"} for n in nodes.nodes.values())

            await until(heard, "notes are heard of again")

    run(scenario)


def test_names_that_no_topic_and_no_broker_can_have_cost_a_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            assigned = b'{"version":1,"partitions":{"0":[1,2,3]}}'
            for name in ("x" * 300, "a b", "__cluster_metadata"):
                nodes.write(f"/brokers/topics/{name}", assigned)
            for name in ("99999999999", "007", "x"):
                nodes.write(f"/brokers/ids/{name}", b'{"version":1,"host":"h","port":1}')
            for id in (7, 8):
                endpoints = ["PLAINTEXT://127.0.0.1:1"]
                nodes.write(
                    f"/brokers/ids/{id}", json.dumps({"version": 5, "endpoints": endpoints, "rack": "\ud800"}).encode()
                )
            await topic(nodes, "good")
            depose(nodes)
            await until(lambda: nodes.controllers == [2] and settled(nodes), "somebody is controller")
            assert "it is left alone: /brokers/topics/xxx" in caplog.text
            assert not nodes.controller.metadata.image.names.keys() - {"good"}
            wipe(nodes, "/brokers/topics/" + "x" * 300)

    run(scenario)


async def set_one(nodes: Nodes, name: str, key: str, value: str) -> Code:
    """The code of the change of one of a topic's settings."""
    client = nodes.client()
    change = {Resource(ResourceType.TOPIC, name): [(key, AlterOp.SET, value)]}
    (outcome,) = (await alter_configs(client, change)).values()
    client.close()
    return outcome.code


@pytest.mark.parametrize("value", [b"0", None])
def test_a_controller_epoch_that_is_set_back_is_passed_over(tmp_path: Path, value: bytes | None) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            for epoch in (2, 3, 4):
                depose(nodes)
                await until(
                    lambda epoch=epoch: nodes.controllers == [epoch] and settled(nodes), "somebody is controller"
                )
            # A broker that has not heard of the last one cannot know that there was one.
            await until(
                lambda: {n.plane.controller_requests.controller_epoch for n in nodes.nodes.values()} == {4}, "all know"
            )
            if value is None:
                nodes.server.apply(0, [Delete(path="/controller_epoch")])
            else:
                nodes.write("/controller_epoch", value)
            depose(nodes)
            await until(
                lambda: len(nodes.controllers) == 1 and nodes.controllers[0] >= 5 and settled(nodes), "it is accepted"
            )
            await topic(nodes, "t")

    run(scenario)


def test_a_controller_whom_a_broker_does_not_accept_stands_under_a_newer_epoch(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            (stranger, *_) = (n for n in nodes.nodes.values() if n is not nodes.controller)
            stranger.plane.controller_requests.controller_epoch = 500
            stranger.plane._retired = True  # it will not stand itself
            depose(nodes)
            await until(
                lambda: len(nodes.controllers) == 1 and nodes.controllers[0] > 500 and settled(nodes), "it is accepted"
            )
            stranger.plane._retired = False
            await topic(nodes, "t")

    run(scenario)


@pytest.mark.parametrize("itself", [True, False])
def test_brokers_whose_registrations_another_client_removes_register_again(tmp_path: Path, itself: bool) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t")
            before = {id: node.lifecycle.epoch for id, node in nodes.nodes.items()}
            wipe(nodes, "/brokers/ids", itself=itself)
            await until(
                lambda: all(node.lifecycle.epoch > before[id] for id, node in nodes.nodes.items()), "they register"
            )

            def known() -> bool:
                image = nodes.controller.metadata.image if len(nodes.controllers) == 1 else Image()
                return all(
                    (known := image.brokers.get(id)) is not None
                    and known.active
                    and known.epoch == node.lifecycle.epoch
                    for id, node in nodes.nodes.items()
                )

            await until(lambda: known() and settled(nodes), "and everybody knows it")
            await topic(nodes, "another")

    run(scenario)


def test_what_no_znode_can_hold_is_refused_before_it_is_decided() -> None:
    settings = Settings(znode_bytes=2_000)
    refused = settings_too_large(settings, {"a": "x" * 1_500, "b": "\n" * 300})
    assert refused is not None
    assert refused.code is Code.INVALID_CONFIG
    assert settings_too_large(settings, {"a": "x" * 1_500}) is None
    assert settings_too_large(Settings(), {"a": "x" * 10_000_000}) is None
    many = [Partition(bytes(16), n, (1001, 1002, 1003), (1001,), leader=1001) for n in range(200)]
    large = topic_too_large(settings, many)
    assert large is not None
    assert large.code is Code.POLICY_VIOLATION
    assert topic_too_large(settings, many[:10]) is None
    assert topic_too_large(Settings(), many) is None


def test_a_transaction_on_which_servers_hang_up_is_given_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t")
            nodes.server.largest = 5_000
            listed = ",".join(f"{n}:1" for n in range(2_000))
            key = "leader.replication.throttled.replicas"
            assert await set_one(nodes, "t", key, listed) is Code.REQUEST_TIMED_OUT
            assert "ZooKeeper hangs up on a write of" in caplog.text
            await until(lambda: len(nodes.controllers) == 1 and settled(nodes), "somebody is controller")
            assert await set_one(nodes, "t", "retention.ms", "70000") is Code.NONE

    run(scenario)


def test_a_message_that_no_request_can_carry_is_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            channels = nodes.controller.plane.channels
            channel = next(iter(channels._open.values()))
            channel.enqueue([StopReplicaRequest(controller_id=1 << 40)], channel.queued_offset)
            await until(lambda: "no StopReplicaRequest can carry it" in caplog.text, "it is named")
            await topic(nodes, "t")
            assert not nodes.failures

    run(scenario)


def test_a_node_whose_zookeeper_is_gone_stops_without_anybody_s_leave(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moldau.broker.zookeeper.plane.CUT_OFF_MS", 50)

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t")
            for session in nodes.server.opened:
                session.suspend()
            node = nodes.nodes.pop(2)
            await node.stop()
            assert "ZooKeeper does not answer: nobody can decide who leads" in caplog.text
            for session in nodes.server.opened:
                session.heal()
            await until(lambda: len(nodes.controllers) == 1, "the others go on")

    run(scenario)
