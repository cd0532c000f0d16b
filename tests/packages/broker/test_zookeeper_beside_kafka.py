"""What Apache Kafka's brokers and controllers do otherwise on ZooKeeper, and a node of ours must live with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moldau.broker.zookeeper import batch
from moldau.broker.zookeeper.channels import Channel
from moldau.client.admin import NewTopic, create_topics
from moldau.cluster.nodes import free_ports
from moldau.model import Code
from moldau.ports.zookeeper import Delete
from moldau.wire.messages.k04_leader_and_isr import LeaderAndIsrRequest
from moldau.wire.messages.k06_update_metadata import UpdateMetadataRequest
from tests.packages.broker.data_cluster import run, until
from tests.packages.broker.zookeeper_nodes import Nodes


@pytest.mark.parametrize("replicas", [True, False])
def test_a_broker_knows_all_when_a_controller_that_says_no_types_has_told_it(tmp_path: Path, replicas: bool) -> None:
    """Kafka 3.9's controller never says FULL in ZooKeeper mode: a broker of ours waited for it and served nobody."""

    async def scenario() -> None:
        async with Nodes(tmp_path, 2) as nodes:
            if replicas:
                client = nodes.client()
                await create_topics(client, [NewTopic(name="t", partitions=2, replication_factor=2)])
                client.close()
                await until(nodes.agree, "both brokers know t")
            node = next(n for n in nodes.nodes.values() if n is not nodes.controller)
            assert node.plane is not None
            receiving, image = node.plane.receiving, nodes.controller.metadata.image
            sender = batch.Sender(
                controller_id=nodes.controller.config.node_id, controller_epoch=1, listener="PLAINTEXT"
            )
            metadata, roles = batch.full(image, image.brokers[node.config.node_id], sender)
            assert isinstance(metadata, UpdateMetadataRequest)
            assert isinstance(roles, LeaderAndIsrRequest)
            metadata.type = roles.type = batch.UNKNOWN
            receiving.forget()
            early = (await receiving.leader_and_isr(roles))[0]
            assert early is Code.NONE
            assert not receiving.complete, "the cluster has not been told yet"
            assert await receiving.update_metadata(metadata) is Code.NONE
            assert receiving.complete is not replicas, "who has no replicas is told no more"
            assert (await receiving.leader_and_isr(roles))[0] is Code.NONE
            assert receiving.complete

    run(scenario)


def test_a_broker_that_was_told_of_no_brokers_knows_them_again_with_the_next_change(tmp_path: Path) -> None:
    """Any client that names the present controller's epoch is believed; what it said must not stay for ever."""

    async def scenario() -> None:
        async with Nodes(tmp_path, 2) as nodes:
            node = next(n for n in nodes.nodes.values() if n is not nodes.controller)
            assert node.plane is not None
            forged = UpdateMetadataRequest(controller_id=nodes.controller.config.node_id, controller_epoch=1)
            assert await node.plane.receiving.update_metadata(forged) is Code.NONE
            assert not list(node.metadata.image.live_brokers())
            client = nodes.client()
            await create_topics(client, [NewTopic(name="t", partitions=1, replication_factor=2)])
            client.close()
            await until(nodes.agree, "both brokers know t and each other")
            await until(lambda: len(list(node.metadata.image.live_brokers())) == 2, "both live")

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
            assert not controller.controller.is_probing  # type: ignore[union-attr]
            assert not controller.metadata.image.brokers[9].fenced
            nodes.server.apply(0, [Delete(path="/brokers/ids/9")])
            await until(lambda: controller.metadata.image.brokers[9].fenced, "its registration has ended")

    run(scenario)
