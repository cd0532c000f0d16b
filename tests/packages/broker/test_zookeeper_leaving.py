"""Who is told to stop in ZooKeeper mode: whom it waits for, and what of its partitions it leaves behind."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from moldau.client.admin import NewTopic, create_topics
from moldau.controller.requests import BrokerHeartbeat
from moldau.ports.zookeeper import Delete
from tests.packages.broker import zookeeper_nodes
from tests.packages.broker.data_cluster import PATIENCE_S, run, until
from tests.packages.broker.zookeeper_nodes import Nodes

FOR_EVER_MS = "600000"
STATE = "/brokers/topics/t/partitions/0/state"


async def placed(nodes: Nodes, replicas: list[int]) -> Any:
    """A partition on these brokers, the first of which leads it; its state."""
    client = nodes.client()
    made = await create_topics(client, [NewTopic(name="t", assignment={0: replicas})])
    client.close()
    assert made["t"].code == 0, made
    await until(nodes.agree, "all brokers know it")
    return nodes.json(STATE)


async def stopped(nodes: Nodes, id: int) -> None:
    await asyncio.wait_for(nodes.nodes.pop(id).stop(), PATIENCE_S)


def test_the_last_broker_waits_for_nobody_and_what_it_leads_keeps_its_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It asked for leave as long as the settings say, though nobody lived who could take anything over."""
    monkeypatch.setitem(zookeeper_nodes.SETTINGS, "controlled.shutdown.retry.backoff.ms", FOR_EVER_MS)
    caplog.set_level("INFO", "moldau.broker")

    async def scenario() -> None:
        async with Nodes(tmp_path, 2) as nodes:
            await placed(nodes, [1, 2])
            await stopped(nodes, 1)
            await until(lambda: nodes.json(STATE)["leader"] == 2, "the other leads")
            before = nodes.json(STATE)
            await stopped(nodes, 2)
            after = nodes.json(STATE)
            assert (after["leader"], after["isr"]) == (before["leader"], before["isr"]) == (2, [2])

    run(scenario)
    (line,) = [line for line in caplog.messages if line.startswith("no other broker lives")]
    assert "1 partition(s) that are led here keep their leader" in line
    assert not any("unclean shutdown" in line for line in caplog.messages)
    for id in (1, 2):
        assert (tmp_path / f"node-{id}" / ".kafka_cleanshutdown").exists()


def test_a_broker_that_is_registered_and_fenced_may_come_back_and_is_waited_for_as_long_as_it_is_registered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its address refuses connections: it is being started again, or its process died, and then its session ends."""
    monkeypatch.setitem(zookeeper_nodes.SETTINGS, "controlled.shutdown.retry.backoff.ms", FOR_EVER_MS)
    caplog.set_level("INFO", "moldau.broker")
    caplog.set_level("INFO", "state.change.logger")
    active = re.compile(r"Changed broker 2 with epoch \d+ from fenced to active")

    def said(part: str) -> bool:
        return any(part in line for line in caplog.messages)

    async def scenario() -> None:
        async with Nodes(tmp_path, 2) as nodes:
            await placed(nodes, [1, 2])
            registered = nodes.server.znodes["/brokers/ids/2"].data
            await stopped(nodes, 2)
            await until(lambda: nodes.json(STATE)["leader"] == 1, "the other leads")
            await until(lambda: nodes.nodes[1].is_active_controller, "and rules")
            caplog.clear()
            nodes.write("/brokers/ids/2", registered)
            await until(lambda: any(active.search(line) for line in caplog.messages), "it is known again")
            metadata = nodes.nodes[1].metadata
            epoch = metadata.image.brokers[2].epoch
            # As when a connection to it is refused that was there before.
            fence = BrokerHeartbeat(broker_id=2, broker_epoch=epoch, metadata_offset=0, want_fence=True)
            await nodes.nodes[1].controller.submit(fence)
            await until(lambda: metadata.image.brokers[2].fenced, "it is fenced")
            going = asyncio.ensure_future(stopped(nodes, 1))
            await until(lambda: going.done() or said("goes on: 1 partition(s)"), "it asks")
            assert metadata.image.brokers[2].fenced
            assert not going.done()
            nodes.server.apply(0, [Delete(path="/brokers/ids/2", version=-1)])
            await going
            assert nodes.json(STATE)["leader"] == 1

    run(scenario)
    assert said("no other broker lives")


def test_where_another_broker_lives_a_replica_that_may_come_back_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As in Apache Kafka: the live broker has no replica, and the one that has is started again in time."""
    monkeypatch.setitem(zookeeper_nodes.SETTINGS, "controlled.shutdown.retry.backoff.ms", FOR_EVER_MS)
    caplog.set_level("INFO", "moldau.broker")

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await placed(nodes, [1, 2])
            await stopped(nodes, 2)
            going = asyncio.ensure_future(stopped(nodes, 1))
            await until(lambda: any("goes on: 1 partition(s)" in line for line in caplog.messages), "it asks")
            assert not going.done()
            await nodes.boot(2)
            await going
            assert sum("request returned successfully" in line for line in caplog.messages) == 2
            await until(lambda: nodes.json(STATE)["leader"] == 2, "who came back leads")

    run(scenario)
