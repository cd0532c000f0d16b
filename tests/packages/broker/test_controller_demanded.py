"""A command asks first whether there is a controller; a broker that says nothing is not the end of it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from moldau.client.admin import NewTopic, create_topics
from moldau.client.client import Client, ClientOptions, NoController
from moldau.client.view import Broker
from moldau.client.world_lines import WorldLines
from tests.packages.broker.data_cluster import run
from tests.packages.broker.zookeeper_nodes import Nodes


@pytest.mark.parametrize("others", [True, False], ids=["another is asked then", "there is no other"])
def test_a_controller_that_takes_connections_and_says_nothing_is_asked_for_a_part_of_the_time(
    tmp_path: Path, others: bool
) -> None:
    """KRaft brokers name any broker as the controller: one that is held (SIGSTOP) took all the time there was."""

    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            async with Nodes(tmp_path, 1) as nodes:
                port = next(iter(nodes.nodes[1].bound.values())).port
                options = ClientOptions(api_timeout_ms=30_000, controller_ms=4_000)
                client = Client(WorldLines(nodes.world()), f"127.0.0.1:{port}", options)
                await client.refresh([])
                client.view.brokers[99] = Broker(99, "127.0.0.1", silent.getsockname()[1], None)
                client.view.controller_id = 99
                new = [NewTopic(name="mine", partitions=1, replication_factor=1)]
                if others:
                    assert (await create_topics(client, new))["mine"].code == 0
                else:
                    await nodes.nodes[1].stop()
                    nodes.ended[1] = 0
                    with pytest.raises((NoController, OSError)):
                        await create_topics(client, new)
                    nodes.ended.clear()
                    nodes.nodes.clear()
                client.close()

    run(scenario)
