"""The ZooKeeper plane with real nodes in one process: election, registration, fences, what tools leave in znodes."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.lifecycle import RegistrationRefused, Stage
from moldau.broker.node import Node
from moldau.broker.zookeeper import batch
from moldau.broker.zookeeper.channels import Channel
from moldau.client.admin import NewTopic, create_topics, delete_topics
from moldau.model import Code
from moldau.ports.zookeeper import CheckVersion, ConnectionLoss, Create, Delete, Op, Set
from moldau.wire.messages.k04_leader_and_isr import LeaderAndIsrRequest
from moldau.wire.messages.k05_stop_replica import StopReplicaRequest
from moldau.wire.messages.k06_update_metadata import UpdateMetadataRequest
from tests.packages.broker.data_cluster import run, until
from tests.packages.broker.zookeeper_nodes import Nodes


async def topic(nodes: Nodes, name: str, partitions: int = 3, factor: int = 3, **configs: str) -> None:
    client = nodes.client()
    new = NewTopic(
        name=name,
        partitions=partitions,
        replication_factor=factor,
        configs={key.replace("_", "."): value for key, value in configs.items()},
    )
    made = await create_topics(client, [new])
    client.close()
    assert made[name].code == 0, made
    await until(nodes.agree, f"all brokers know {name}")


def settled(nodes: Nodes) -> bool:
    """Everybody runs, and says the same."""
    live = [node.lifecycle for node in nodes.nodes.values()]
    return all(one is not None and one.stage is Stage.RUNNING for one in live) and nodes.agree()


def test_three_brokers_register_elect_one_controller_and_serve_a_topic(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "moldau.broker.zookeeper")

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            active = nodes.controller
            assert nodes.json("/controller")["brokerid"] == active.config.node_id
            assert nodes.server.znodes["/controller_epoch"].data == b"1"
            client = nodes.client()
            made = await create_topics(client, [NewTopic(name="t", partitions=3, replication_factor=3)])
            assert made["t"].code == 0
            await until(nodes.agree, "all brokers know the topic")
            state = nodes.json("/brokers/topics/t/partitions/0/state")
            assert sorted(state["isr"]) == [1, 2, 3]
            gone = await delete_topics(client, ["t"])
            assert gone["t"].code == 0
            await until(lambda: nodes.agree() and "t" not in active.metadata.image.names, "the topic is gone")
            assert not any(path.startswith("/brokers/topics/t") for path in nodes.server.znodes)
            client.close()
            births = [line for line in caplog.messages if line.startswith("this is a new cluster")]
            assert births == [f"this is a new cluster, {nodes.json('/cluster/id')['id']}"]
        assert not any(znode.stat.ephemeral_owner for znode in nodes.server.znodes.values())

    run(scenario)


def test_a_topic_that_was_made_is_known_to_every_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers are told one by one: who made a topic and asks another broker for it must find it, with its leader."""
    monkeypatch.setattr("moldau.broker.metadata.applied.TELL_MS", 60_000)

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            client = nodes.client()
            for number in range(10):
                name = f"t{number}"
                made = await create_topics(client, [NewTopic(name=name, partitions=3, replication_factor=3)])
                assert made[name].code == 0
                assert nodes.agree(), f"somebody does not know {name}"
            client.close()

    run(scenario)


def test_every_write_of_a_controller_checks_its_epoch(tmp_path: Path) -> None:
    """Law Z1: after the election, nothing below /brokers/topics or /config is written without the check."""

    async def scenario() -> None:
        async with Nodes(tmp_path, 1) as nodes:
            client = nodes.client()
            await create_topics(client, [NewTopic(name="t", partitions=1, replication_factor=1)])
            client.close()
            guarded = [
                ops
                for _, ops in nodes.server.log
                if any(op.path.startswith(("/brokers/topics/", "/config/t")) for op in ops)
            ]
            writes = [ops for ops in guarded if ops[0].path not in ("/config/topics",)]
            assert writes
            for ops in writes:
                assert isinstance(ops[0], CheckVersion), ops
                assert ops[0].path == "/controller_epoch"
            elections = [
                ops
                for _, ops in nodes.server.log
                if any(isinstance(op, Set) and op.path == "/controller_epoch" for op in ops)
            ]
            assert [[op.path for op in ops] for ops in elections] == [["/controller", "/controller_epoch"]]

    run(scenario)


def test_old_notes_of_settings_are_removed_under_the_controllers_epoch_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moldau.broker.zookeeper.settings.KEPT_MS", 1)

    async def scenario() -> None:
        async with Nodes(tmp_path, 1) as nodes:
            note = json.dumps({"version": 2, "entity_path": "topics/t"}).encode()
            nodes.write("/config/changes/config_change_", note, sequential=True)

            def removals() -> list[list[Op]]:
                return [ops for _, ops in nodes.server.log if any("/config_change_" in op.path for op in ops)][1:]

            await until(removals, "the note is removed")
            for ops in removals():
                assert isinstance(ops[0], CheckVersion), ops
                assert ops[0].path == "/controller_epoch"

    run(scenario)


# ---- sessions and elections


def test_a_controller_whose_session_expires_is_replaced_and_comes_back_as_a_broker(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t")
            old = nodes.controller
            epoch = old.lifecycle.epoch  # type: ignore[union-attr]
            nodes.server.expire(old.plane.zk.session_id)  # type: ignore[union-attr]
            await until(lambda: nodes.controllers == [2], "somebody is controller, and only one")
            await until(lambda: settled(nodes) and old.lifecycle.epoch != epoch, "the broker is back")  # type: ignore[union-attr]
            assert nodes.server.znodes["/controller_epoch"].data == b"2"
            await until(lambda: len(nodes.json("/brokers/topics/t/partitions/0/state")["isr"]) == 3, "all in sync")

    run(scenario)


def test_a_follower_whose_session_expires_registers_again_before_anything_else(tmp_path: Path) -> None:
    """Law Z6: the first thing that a new session does is the registration."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t")
            node = next(n for n in nodes.nodes.values() if n is not nodes.controller)
            over = node.plane.zk.session_id  # type: ignore[union-attr]
            nodes.server.expire(over)
            before = len(nodes.server.log)
            await until(lambda: node.plane.zk.session_id not in (0, over) and settled(nodes), "the broker is back")  # type: ignore[union-attr]
            new = [ops for session, ops in nodes.server.log[before:] if session == node.plane.zk.session_id]  # type: ignore[union-attr]
            assert new[0][0].path == f"/brokers/ids/{node.config.node_id}"
            # Nothing is written, and the process that fetches is the same: leaders must still hear of its new epoch.
            states = [f"/brokers/topics/t/partitions/{number}/state" for number in range(3)]
            await until(lambda: all(len(nodes.json(path)["isr"]) == 3 for path in states), "in sync with all leaders")

    run(scenario)


def test_an_election_whose_answer_is_lost_is_still_an_election(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path, 1) as nodes:
            (node,) = nodes.nodes.values()
            zk: Any = node.plane.zk  # type: ignore[union-attr]
            zk.lose_answer = True
            nodes.server.apply(0, [Delete(path="/controller")])
            await until(lambda: node.controller.epoch == 2 and node.controller.active, "it is controller again")  # type: ignore[union-attr]
            assert nodes.json("/controller")["brokerid"] == 1

    run(scenario)


def test_a_broken_connection_only_makes_a_controller_wait(tmp_path: Path) -> None:
    """SUSPENDED is not LOST: nothing is stopped, and what was asked meanwhile is done afterwards."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            active = nodes.controller
            zk: Any = active.plane.zk  # type: ignore[union-attr]
            zk.suspend()
            making = asyncio.ensure_future(topic(nodes, "t"))
            await asyncio.sleep(0.1)
            assert active.controller.active  # type: ignore[union-attr]
            assert not making.done()
            zk.heal()
            await making
            assert nodes.controller is active
            assert nodes.server.znodes["/controller_epoch"].data == b"1"

    run(scenario)


def test_a_write_whose_answer_is_lost_is_done_once_and_deposes_no_controller(tmp_path: Path) -> None:
    """An ensemble that lost its majority commits what it had taken when the majority is back: after the break."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            active = nodes.controller
            zk: Any = active.plane.zk  # type: ignore[union-attr]
            zk.lose_answer = True
            client = nodes.client()
            made = await create_topics(client, [NewTopic(name="t", partitions=1, replication_factor=3)])
            client.close()
            assert made["t"].code is Code.NONE
            await until(lambda: nodes.agree() and "t" in active.metadata.image.names, "it is there, once")
            assert nodes.controller is active
            assert nodes.server.znodes["/controller_epoch"].data == b"1"

    run(scenario)


def test_a_write_that_somebody_else_overtook_while_its_answer_was_lost_deposes_the_controller(tmp_path: Path) -> None:
    """The same refusal, another cause: then nobody knows what stands, and it is read anew."""

    async def scenario() -> None:
        async with Nodes(tmp_path, 1) as nodes:
            node = nodes.controller
            await topic(nodes, "t", 1, 1)
            await until(lambda: settled(nodes), "the topic is led")
            zk: Any = node.plane.zk  # type: ignore[union-attr]
            multi = zk.multi

            async def overtaken(ops: Sequence[Op]) -> Any:
                zk.multi = multi
                by_a_tool = {"version": 1, "partitions": {"0": [1]}}
                nodes.server.apply(0, [Create(path="/brokers/topics/u", data=json.dumps(by_a_tool).encode())])
                raise ConnectionLoss(ops[0].path)

            zk.multi = overtaken
            client = nodes.client()
            made = await create_topics(client, [NewTopic(name="u", partitions=1, replication_factor=1)])
            client.close()
            assert made["u"].code in (Code.NONE, Code.TOPIC_ALREADY_EXISTS)
            assert nodes.server.znodes["/controller_epoch"].data == b"2"
            await until(lambda: settled(nodes) and len(node.metadata.image.names) == 2, "the tool's topic is led")

    run(scenario)


def test_a_controller_that_was_deposed_writes_nothing(tmp_path: Path) -> None:
    """Laws Z1 and C5: another's election between decision and write makes the write fail, whole."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            active = nodes.controller
            nodes.server.apply(0, [Set(path="/controller_epoch", data=b"7")])
            before = len(nodes.server.log)
            client = nodes.client()
            made = await create_topics(client, [NewTopic(name="t", partitions=1, replication_factor=3)])
            client.close()
            assert made["t"].code == 0  # the next controller did it
            writes = [ops for _, ops in nodes.server.log[before:] if any("/topics/t" in op.path for op in ops)]
            assert writes
            assert nodes.controller.controller.epoch >= 8  # type: ignore[union-attr]
            assert all(isinstance(ops[0], CheckVersion) for ops in writes)
            assert active.controller.epoch != 1  # type: ignore[union-attr]

    run(scenario)


def test_deleting_the_controller_znode_by_hand_makes_it_resign_first(tmp_path: Path) -> None:
    """The usual way of operators to move the controller."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t")
            nodes.server.apply(0, [Delete(path="/controller")])
            await until(lambda: nodes.controllers == [2], "one controller, of the next epoch")
            await topic(nodes, "u")

    run(scenario)


# ---- registration


def test_a_second_process_with_a_live_id_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path, 1) as nodes:
            twin = Nodes(tmp_path / "twin", 1)
            twin.server = nodes.server
            starting = asyncio.ensure_future(twin.boot(1))
            await until(lambda: twin.failures, "it is refused")
            starting.cancel()
            ((task, error),) = twin.failures
            assert isinstance(error, RegistrationRefused), (task, error)
            assert "another live broker is registered under broker.id 1" in str(error)
            await twin.nodes[1].stop()
            assert nodes.controller.config.node_id == 1

    run(scenario)


def test_a_process_on_its_predecessor_s_address_does_not_wait_for_the_old_session(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t")
            node = next(n for n in nodes.nodes.values() if n is not nodes.controller)
            id, port = node.config.node_id, node.bound["PLAINTEXT"].port
            epoch = node.lifecycle.epoch  # type: ignore[union-attr]
            _kill(nodes, node)
            again = await nodes.boot(id, port)
            assert again.lifecycle.epoch > epoch  # type: ignore[union-attr]
            await until(lambda: settled(nodes), "everybody agrees")
            await until(lambda: len(nodes.json("/brokers/topics/t/partitions/0/state")["isr"]) == 3, "all in sync")

    run(scenario)


def _kill(nodes: Nodes, node: Node) -> None:
    """The process is gone; its session lives on."""
    for listener in node.bound.values():
        listener.close()
    for socket_listener in node.listeners:
        socket_listener.close()
    node.plane._task.cancel()  # type: ignore[union-attr]
    node.plane.settings.close()  # type: ignore[union-attr]
    node.plane.zk._listeners.clear()  # type: ignore[union-attr]
    node.data._stopped = True  # type: ignore[union-attr]
    node.replicas.stop()
    node.coordinator.stop()
    node.data.log_dirs.close(-1)  # type: ignore[union-attr]
    node.peers.close()
    del nodes.nodes[node.config.node_id]


def test_a_broker_whose_process_is_gone_is_fenced_before_its_session_ends(tmp_path: Path) -> None:
    """Its connection broke, its address refuses; its znode stays until ZooKeeper says so."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t")
            node = next(n for n in nodes.nodes.values() if n is not nodes.controller)
            id = node.config.node_id
            _kill(nodes, node)
            image = nodes.controller.metadata.image
            await until(lambda: image.brokers[id].fenced, "the dead broker is fenced")
            assert f"/brokers/ids/{id}" in nodes.server.znodes
            await until(lambda: nodes.agree() and not list(image.partitions_led_by(id)), "others lead")

    run(scenario)


def test_a_death_reaches_each_broker_in_one_request_of_each_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LI-3: all partitions at once, and the dead broker is live in none of them, however many there are."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t", partitions=120)
            dead = next(n for n in nodes.nodes.values() if n is not nodes.controller).config.node_id
            told: list[Any] = []
            enqueue = Channel.enqueue
            monkeypatch.setattr(Channel, "enqueue", lambda to, said, at: (told.extend(said), enqueue(to, said, at)))
            _kill(nodes, nodes.nodes[dead])
            image = nodes.controller.metadata.image
            await until(lambda: image.brokers[dead].fenced, "the dead broker is fenced")
            metadata, roles, *later = told  # of the one broker that there is to tell
            assert isinstance(metadata, UpdateMetadataRequest)
            assert isinstance(roles, LeaderAndIsrRequest)
            for request in (metadata, roles):
                assert sum(len(t.partition_states) for t in request.topic_states) == 120
            assert dead not in {broker.id for broker in metadata.live_brokers}
            assert not [
                one for one in later if any(s.leader == dead for t in one.topic_states for s in t.partition_states)
            ]

    run(scenario)


# ---- fences of a broker (law Z3)


def test_requests_of_an_old_controller_or_for_an_old_life_are_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await until(nodes.agree, "everybody has been told all of it")
            node = next(n for n in nodes.nodes.values() if n is not nodes.controller)
            handler, epoch = node.plane.controller_requests, node.lifecycle.epoch  # type: ignore[union-attr]
            old = UpdateMetadataRequest(controller_id=9, controller_epoch=0, broker_epoch=epoch)
            assert await handler.update_metadata(old) is Code.STALE_CONTROLLER_EPOCH
            past = LeaderAndIsrRequest(controller_id=9, controller_epoch=1, broker_epoch=epoch - 1)
            assert (await handler.leader_and_isr(past))[0] is Code.STALE_BROKER_EPOCH
            assert nodes.agree()

    run(scenario)


def test_a_newer_controller_s_request_deposes_a_controller(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path, 1) as nodes:
            (node,) = nodes.nodes.values()
            newer = LeaderAndIsrRequest(
                controller_id=9,
                controller_epoch=5,
                broker_epoch=node.lifecycle.epoch,  # type: ignore[union-attr]
            )
            assert (await node.plane.controller_requests.leader_and_isr(newer))[0] is Code.NONE  # type: ignore[union-attr]
            assert not node.controller.active  # type: ignore[union-attr]

    run(scenario)


@pytest.mark.parametrize("epoch", [2**17, 2**31 - 1])
def test_an_epoch_to_which_nobody_was_elected_deposes_no_controller(tmp_path: Path, epoch: int) -> None:
    """The next candidacy passes over every epoch that its node has heard of: it would stand for one that no request and
    no znode can hold, and nobody could be controller any more."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            active = nodes.controller
            for node in nodes.nodes.values():
                own = node.lifecycle.epoch  # type: ignore[union-attr]
                named = {"controller_id": 9, "controller_epoch": epoch, "broker_epoch": own}
                handler = node.plane.controller_requests  # type: ignore[union-attr]
                assert await handler.update_metadata(UpdateMetadataRequest(**named)) is Code.STALE_CONTROLLER_EPOCH
                assert (await handler.leader_and_isr(LeaderAndIsrRequest(**named)))[0] is Code.STALE_CONTROLLER_EPOCH
                assert (await handler.stop_replica(StopReplicaRequest(**named)))[0] is Code.STALE_CONTROLLER_EPOCH
            assert nodes.controller is active
            assert active.controller.active  # type: ignore[union-attr]
            await topic(nodes, "made-afterwards")

    run(scenario)


def test_an_epoch_far_ahead_is_accepted_when_zookeeper_knows_of_the_election(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            node = next(n for n in nodes.nodes.values() if n is not nodes.controller)
            nodes.server.apply(0, [Set(path="/controller_epoch", data=b"200000")])
            newer = UpdateMetadataRequest(
                controller_id=9,
                controller_epoch=200_000,
                broker_epoch=node.lifecycle.epoch,  # type: ignore[union-attr]
                live_brokers=batch.live_brokers(node.metadata.image),
            )
            assert await node.plane.controller_requests.update_metadata(newer) is Code.NONE  # type: ignore[union-attr]

    run(scenario)


def test_nobody_speaks_to_a_controller_in_its_own_name(tmp_path: Path) -> None:
    """Its image is what it decided: a request that claims its epoch, with nobody alive in it, changes nothing."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t")
            active = nodes.controller
            epoch = active.lifecycle.epoch  # type: ignore[union-attr]
            forged = UpdateMetadataRequest(
                controller_id=active.config.node_id, controller_epoch=active.plane.claimed_epoch, broker_epoch=epoch
            )
            assert await active.plane.controller_requests.update_metadata(forged) is Code.STALE_CONTROLLER_EPOCH
            assert nodes.agree()
            assert active.controller.active  # type: ignore[union-attr]

    run(scenario)


# ---- what tools write


def test_a_tool_s_deletion_znode_deletes_the_topic_and_goes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t")
            nodes.write("/admin/delete_topics/t", b"")
            await until(lambda: "/admin/delete_topics/t" not in nodes.server.znodes, "the wish is gone")
            assert "t" not in nodes.controller.metadata.image.names
            await until(nodes.agree, "all brokers forgot it")

    run(scenario)


def test_a_tool_s_plan_moves_replicas_and_goes_when_they_are_there(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t", partitions=1, factor=1)
            (here,) = nodes.json("/brokers/topics/t")["partitions"]["0"]
            there = [id for id in (1, 2, 3) if id != here]
            plan = {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": there}]}
            nodes.write("/admin/reassign_partitions", json.dumps(plan).encode())
            await until(lambda: "/admin/reassign_partitions" not in nodes.server.znodes, "the plan is done")
            assert nodes.json("/brokers/topics/t")["partitions"]["0"] == there
            assert nodes.json("/brokers/topics/t/partitions/0/state")["leader"] in there
            await until(nodes.agree, "everybody knows")

    run(scenario)


def test_a_tool_s_plan_that_changes_nothing_is_taken_away_with_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t", partitions=1)
            states = [nodes.server.znodes[f"/brokers/topics/t{of}"] for of in ("", "/partitions/0/state")]
            here = nodes.json("/brokers/topics/t")["partitions"]["0"]
            plan = {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": here}]}
            with caplog.at_level(logging.INFO, "moldau.broker.zookeeper.admin_znodes"):
                nodes.write("/admin/reassign_partitions", json.dumps(plan).encode())
                await until(lambda: "/admin/reassign_partitions" not in nodes.server.znodes, "the plan is taken away")
            assert f"t-0 is not moved: {here} are its replicas already" in caplog.text
            assert [nodes.server.znodes[f"/brokers/topics/t{of}"] for of in ("", "/partitions/0/state")] == states

    run(scenario)


def test_a_tool_s_election_gives_the_lead_to_the_preferred_replica(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            wish = {"version": 1, "partitions": [{"topic": "t", "partition": 0}]}
            await topic(nodes, "t", partitions=1)
            turned = nodes.json("/brokers/topics/t")["partitions"]["0"][::-1]
            plan = {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": turned}]}
            nodes.write("/admin/reassign_partitions", json.dumps(plan).encode())
            await until(lambda: "/admin/reassign_partitions" not in nodes.server.znodes, "another one is preferred")
            assert nodes.json("/brokers/topics/t/partitions/0/state")["leader"] == turned[-1]
            nodes.write("/admin/preferred_replica_election", json.dumps(wish).encode())
            await until(lambda: "/admin/preferred_replica_election" not in nodes.server.znodes, "it is done")
            assert nodes.json("/brokers/topics/t/partitions/0/state")["leader"] == turned[0]

    run(scenario)


def test_a_topic_that_a_tool_wrote_gets_leaders_an_id_and_its_settings(tmp_path: Path) -> None:
    """And partitions are added later."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            nodes.write("/config/topics/t", b'{"version":1,"config":{"retention.ms":"5000"}}')
            nodes.write("/brokers/topics/t", b'{"version":1,"partitions":{"0":[1,2,3],"1":[2,3,1]}}')
            await until(lambda: "/brokers/topics/t/partitions/1/state" in nodes.server.znodes, "it has leaders")
            await until(lambda: nodes.agree() and "t" in nodes.controller.metadata.image.names, "all know it")
            assert nodes.json("/brokers/topics/t/partitions/1/state")["leader"] == 2
            assert nodes.json("/brokers/topics/t")["topic_id"]
            assert nodes.controller.metadata.image.config(2, "t") == {"retention.ms": "5000"}
            more = nodes.json("/brokers/topics/t")
            more["partitions"]["2"] = [3, 1, 2]
            nodes.write("/brokers/topics/t", json.dumps(more).encode())
            await until(lambda: "/brokers/topics/t/partitions/2/state" in nodes.server.znodes, "more of them")
            await until(nodes.agree, "all know it")

    run(scenario)


def test_settings_that_a_tool_changes_reach_every_broker(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t", retention_ms="9000")
            assert nodes.json("/config/topics/t")["config"] == {"retention.ms": "9000"}
            nodes.write("/config/topics/t", b'{"version":1,"config":{"segment.ms":"7000"}}')
            nodes.write("/config/changes/config_change_", b'{"version":2,"entity_path":"topics/t"}', sequential=True)
            images = [node.metadata.image for node in nodes.nodes.values()]
            await until(lambda: all(i.config(2, "t") == {"segment.ms": "7000"} for i in images), "all know")
            assert nodes.controller.controller._controller.working.config(2, "t") == {"segment.ms": "7000"}  # type: ignore[union-attr]

    run(scenario)


def test_a_state_that_a_leader_wrote_itself_is_read_anew(tmp_path: Path) -> None:
    """For brokers that know no AlterPartition."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t", partitions=1)
            path = "/brokers/topics/t/partitions/0/state"
            state = nodes.json(path)
            state["isr"] = [state["leader"]]
            nodes.write(path, json.dumps(state).encode())
            note = {"version": 1, "partitions": [{"topic": "t", "partition": 0}]}
            nodes.write("/isr_change_notification/isr_change_", json.dumps(note).encode(), sequential=True)
            await until(lambda: nodes.server.znodes["/controller_epoch"].data == b"2", "a new look")
            await until(lambda: len(nodes.json(path)["isr"]) == 3 and nodes.agree(), "and the ISR grows again")

    run(scenario)


def test_a_controller_that_becomes_active_leads_whatever_can_be_led(tmp_path: Path) -> None:
    """All were told to stop at once, so partitions were left to the last one, who was leaving as well."""

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t")
            old = nodes.controller
            path = "/brokers/topics/t/partitions/0/state"
            state = nodes.json(path)
            state |= {"leader": -1, "leader_epoch": state["leader_epoch"] + 1, "isr": [old.config.node_id]}
            nodes.write(path, json.dumps(state).encode())
            nodes.server.apply(0, [Delete(path="/controller")])
            await until(lambda: nodes.controllers == [2], "another look")
            await until(lambda: nodes.json(path)["leader"] == old.config.node_id, "it is led")
            await until(lambda: len(nodes.json(path)["isr"]) == 3 and nodes.agree(), "in sync")

    run(scenario)


@pytest.mark.parametrize("name", ["state", "partitions", "topics", "changes", "clients", "ids", "users", "brokers"])
def test_a_topic_may_be_called_as_a_part_of_a_path_is(tmp_path: Path, name: str) -> None:
    """One called ``state`` could not be made: the znode of its settings was taken for a partition's state."""

    async def scenario() -> None:
        async with Nodes(tmp_path, 1) as nodes:
            await topic(nodes, name, partitions=2, factor=1, retention_ms="70000")
            client = nodes.client()
            gone = await delete_topics(client, [name])
            client.close()
            assert gone[name].code == 0
            await until(lambda: name not in nodes.controller.metadata.image.names, "the topic is gone")

    run(scenario)
