"""What Apache Kafka's brokers and controllers do otherwise on ZooKeeper, and a node of ours must live with."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from moldau.broker import loop
from moldau.broker.zookeeper import batch
from moldau.broker.zookeeper.channels import Channel
from moldau.client.admin import NewTopic, create_topics
from moldau.cluster.nodes import free_ports
from moldau.image import image_hash
from moldau.model import Code
from moldau.ports.zookeeper import Delete
from moldau.wire.messages.k04_leader_and_isr import LeaderAndIsrRequest
from moldau.wire.messages.k05_stop_replica import StopReplicaRequest
from moldau.wire.messages.k06_update_metadata import UpdateMetadataRequest
from tests.packages.broker.data_cluster import run, until
from tests.packages.broker.test_zookeeper_plane import settled
from tests.packages.broker.zookeeper_nodes import Nodes


@pytest.mark.parametrize("replicas", [True, False])
def test_a_broker_knows_all_when_a_controller_that_says_no_types_has_told_it(tmp_path: Path, replicas: bool) -> None:
    """Kafka 3.9's controller never says FULL in ZooKeeper mode: a broker of ours waited for it and served nobody."""

    async def scenario() -> None:
        async with Nodes(tmp_path, 2) as nodes:
            await until(lambda: settled(nodes), "nobody is told anything any more")
            if replicas:
                client = nodes.client()
                await create_topics(client, [NewTopic(name="t", partitions=2, replication_factor=2)])
                client.close()
                await until(nodes.agree, "both brokers know t")
            node = next(n for n in nodes.nodes.values() if n is not nodes.controller)
            assert node.plane is not None
            handler, image = node.plane.controller_requests, nodes.controller.metadata.image
            sender = batch.SendingController(
                controller_id=nodes.controller.config.node_id, controller_epoch=1, listener="PLAINTEXT"
            )
            metadata, roles = batch.full(image, image.brokers[node.config.node_id], sender)
            assert isinstance(metadata, UpdateMetadataRequest)
            assert isinstance(roles, LeaderAndIsrRequest)
            metadata.type = roles.type = batch.UNKNOWN
            handler.forget()
            early = (await handler.leader_and_isr(roles))[0]
            assert early is Code.NONE
            assert not handler.complete, "the cluster has not been told yet"
            assert await handler.update_metadata(metadata) is Code.NONE
            assert handler.complete is not replicas, "who has no replicas is told no more"
            assert (await handler.leader_and_isr(roles))[0] is Code.NONE
            assert handler.complete

    run(scenario)


def test_what_names_a_registration_waits_until_its_broker_has_heard_that_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka 3.9's controller may hear of it first, and says what it has to say once: the broker answered
    STALE_BROKER_EPOCH, and served nobody for as long as its session lived."""
    looks: list[float] = []

    async def sleep(tasks: Any, ms: float) -> None:
        looks.append(ms)
        await loop.sleep(tasks, ms)

    monkeypatch.setattr("moldau.broker.zookeeper.controller_requests.sleep", sleep)

    async def scenario() -> None:
        async with Nodes(tmp_path, 2) as nodes:
            await until(lambda: settled(nodes), "nobody is told anything any more")
            node = next(n for n in nodes.nodes.values() if n is not nodes.controller)
            assert node.plane is not None
            handler, own, image = node.plane.controller_requests, node.lifecycle, nodes.controller.metadata.image
            sender = batch.SendingController(
                controller_id=nodes.controller.config.node_id,
                controller_epoch=1,
                listener="PLAINTEXT",
                sends_type=False,
            )
            metadata, roles = batch.full(image, image.brokers[node.config.node_id], sender)
            assert isinstance(metadata, UpdateMetadataRequest)
            assert isinstance(roles, LeaderAndIsrRequest)
            epoch = own.epoch
            own.registered, own.epoch = False, epoch - 1
            told = [asyncio.ensure_future(handler.update_metadata(metadata))]
            told.append(asyncio.ensure_future(handler.leader_and_isr(roles)))
            await until(lambda: len(looks) > 1 or any(one.done() for one in told), "it waits")
            assert not any(one.done() for one in told)
            own.registered, own.epoch = True, epoch
            assert await asyncio.gather(*told) == [Code.NONE, (Code.NONE, [])]

    run(scenario)


def test_topics_without_ids_are_refused_by_name_and_nothing_is_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Under inter.broker.protocol.version below 2.8 a broker of ours made up an id, by which Kafka's leaders do not
    know the topic: its replicas stayed empty, and out of the ISR."""

    async def scenario() -> None:
        async with Nodes(tmp_path, 2) as nodes:
            await until(lambda: settled(nodes), "nobody is told anything any more")
            node = next(n for n in nodes.nodes.values() if n is not nodes.controller)
            assert node.plane is not None
            handler, image = node.plane.controller_requests, nodes.controller.metadata.image
            told = {"controller_id": nodes.controller.config.node_id, "controller_epoch": 1}
            live = batch.live_brokers(image)
            partition: dict[str, Any] = {
                "topic_name": "old", "leader": node.config.node_id, "leader_epoch": 0,
                "replicas": [node.config.node_id], "isr": [node.config.node_id],
            }  # fmt: skip
            shown = UpdateMetadataRequest.UpdateMetadataPartitionState(**partition, zk_version=0)
            role = LeaderAndIsrRequest.LeaderAndIsrPartitionState(**partition, partition_epoch=0)
            told["broker_epoch"] = node.lifecycle.epoch  # type: ignore[union-attr]
            metadata = UpdateMetadataRequest(**told, live_brokers=live, ungrouped_partition_states=[shown])
            roles = LeaderAndIsrRequest(**told, ungrouped_partition_states=[role])
            assert await handler.update_metadata(metadata) is Code.UNSUPPORTED_VERSION
            assert await handler.leader_and_isr(roles) == (Code.UNSUPPORTED_VERSION, [])
            assert node.metadata.image.topic("old") is None
            assert not node.replicas.logs.logs
        assert "names topic old without a topic id" in caplog.text
        assert "inter.broker.protocol.version 2.8" in caplog.text

    run(scenario)


def test_what_no_controller_says_is_not_believed(tmp_path: Path) -> None:
    """Any client may name the present controller's epoch: one UpdateMetadata without brokers took them all away, until
    the controller spoke again."""

    async def scenario() -> None:
        async with Nodes(tmp_path, 3) as nodes:
            client = nodes.client()
            await create_topics(client, [NewTopic(name="t", partitions=1, replication_factor=3)])
            client.close()
            await until(nodes.agree, "all brokers know t")
            node = next(n for n in nodes.nodes.values() if n is not nodes.controller)
            assert node.plane is not None
            handler, own, image = node.plane.controller_requests, node.lifecycle.epoch, node.metadata.image  # type: ignore[union-attr]
            known = image_hash(image)
            epoch = handler.controller_epoch
            everybody = batch.live_brokers(image)
            others = [shown for shown in everybody if shown.id != node.config.node_id]
            elsewhere = UpdateMetadataRequest.UpdateMetadataBroker(
                id=node.config.node_id,
                endpoints=[
                    UpdateMetadataRequest.UpdateMetadataEndpoint(host="elsewhere", port=1, listener="PLAINTEXT")
                ],
            )
            for live, named, quorum, expected in (
                ([], own, False, Code.INVALID_REQUEST),
                (others, own, False, Code.INVALID_REQUEST),
                ([*others, elsewhere], own, False, Code.INVALID_REQUEST),
                (everybody[:1], -1, False, Code.STALE_BROKER_EPOCH),
                (everybody[:1], own + 1, False, Code.STALE_BROKER_EPOCH),
                (everybody[:1], 2**63 - 1, False, Code.STALE_BROKER_EPOCH),
                (everybody[:1], own, True, Code.STALE_BROKER_EPOCH),
            ):
                for newer in (0, 1):  # what is refused deposes nobody either
                    code = expected
                    forged = {
                        "controller_id": nodes.controller.config.node_id,
                        "controller_epoch": epoch + newer,
                        "broker_epoch": named,
                        "is_k_raft_controller": quorum,
                    }
                    if newer and named == -1:
                        code = Code.STALE_CONTROLLER_EPOCH  # one who never names it, as Kafka's before 2.2: looked up
                    request = UpdateMetadataRequest(live_brokers=live, **forged)
                    assert await handler.update_metadata(request) is code
                    if code is not Code.INVALID_REQUEST:
                        assert (await handler.leader_and_isr(LeaderAndIsrRequest(**forged)))[0] is code
                        stop = StopReplicaRequest(**forged, topic_states=[])
                        assert (await handler.stop_replica(stop))[0] is code
            assert handler.controller_epoch == epoch
            assert image_hash(image) == known
            await until(nodes.agree, "both brokers know each other")

    run(scenario)


def test_a_controller_that_heard_of_a_registration_first_is_believed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path, 2) as nodes:
            await until(lambda: settled(nodes), "nobody is told anything any more")
            node = next(n for n in nodes.nodes.values() if n is not nodes.controller)
            assert node.plane is not None
            znode = nodes.server.znodes[f"/brokers/ids/{node.config.node_id}"]
            assert node.lifecycle is not None
            node.lifecycle.epoch -= 1  # its answer is on the way
            told = UpdateMetadataRequest(
                controller_id=nodes.controller.config.node_id,
                controller_epoch=node.plane.controller_requests.controller_epoch,
                broker_epoch=znode.born,
                live_brokers=batch.live_brokers(node.metadata.image),
            )
            assert await node.plane.controller_requests.update_metadata(told) is Code.NONE
            node.lifecycle.epoch += 1

    run(scenario)


def test_a_broker_that_registers_before_it_listens_is_not_taken_for_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka 3.9's brokers register first: each was fenced as it started, and found alive a moment later."""
    tries: list[int] = []
    real = Channel._once

    async def once(channel: Channel, message: object) -> object:
        answer = await real(channel, message)  # type: ignore[arg-type]  # it is handed on as it came
        if answer is None:
            tries.append(channel.broker.id)
        return answer

    monkeypatch.setattr(Channel, "_once", once)
    (port,) = free_ports(1)
    registration = {
        "version": 5, "host": "127.0.0.1", "port": port, "endpoints": [f"PLAINTEXT://127.0.0.1:{port}"], "rack": None,
        "jmx_port": -1, "timestamp": "1", "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"}, "features": {},
    }  # fmt: skip

    async def scenario() -> None:
        async with Nodes(tmp_path, 1) as nodes:
            controller = nodes.controller
            nodes.write("/brokers/ids/9", json.dumps(registration).encode())
            await until(lambda: tries.count(9) >= 3, "broker 9 has refused three connections")
            assert not controller.controller.failure_detector.is_probing  # type: ignore[union-attr]
            assert not controller.metadata.image.brokers[9].fenced
            nodes.server.apply(0, [Delete(path="/brokers/ids/9")])
            await until(lambda: controller.metadata.image.brokers[9].fenced, "its registration has ended")

    run(scenario)


def test_a_broker_that_registered_again_is_known_by_its_new_epoch_under_a_controller_that_says_no_types(
    tmp_path: Path,
) -> None:
    """Kafka's controller names it as live before and after: with its old epoch it joined no ISR that ours led."""

    async def scenario() -> None:
        async with Nodes(tmp_path, 3) as nodes:
            await until(lambda: settled(nodes), "nobody is told anything any more")
            node, other = [n for n in nodes.nodes.values() if n is not nodes.controller]
            assert node.plane is not None
            handler, id = node.plane.controller_requests, other.config.node_id
            real, looked_up = node.plane.zk.exists, []

            async def exists(path: str, *more: Any) -> Any:
                looked_up.append(path)
                return await real(path, *more)

            async def unheard(request: object, correlation_id: int = 0) -> Code:
                return Code.NONE

            hear = handler.update_metadata
            handler.update_metadata = unheard  # type: ignore[assignment]  # of the real controller, which says types
            node.plane.zk.exists = exists  # type: ignore[method-assign]
            told = UpdateMetadataRequest(
                controller_id=nodes.controller.config.node_id,
                controller_epoch=handler.controller_epoch,
                broker_epoch=node.lifecycle.epoch,  # type: ignore[union-attr]
                live_brokers=batch.live_brokers(node.metadata.image),
            )
            assert await hear(told) is Code.NONE
            first = node.metadata.image.brokers[id].epoch
            looked_up.clear()
            assert await hear(told) is Code.NONE
            assert looked_up == ["/brokers/ids"], "nobody came or went: one look is enough"
            path = f"/brokers/ids/{id}"
            nodes.server.apply(0, [Delete(path=path)])
            await until(lambda: path in nodes.server.znodes, "the other broker has registered again")
            born = nodes.server.znodes[path].born
            assert born > first
            assert await hear(told) is Code.NONE
            assert node.metadata.image.brokers[id].epoch == born

    run(scenario)
