"""Who is told to stop on the ZooKeeper plane: whom it waits for, and what of its partitions it leaves behind."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from moldau.client.admin import NewTopic, create_topics
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
    caplog.set_level("INFO", "moldau.lifecycle")

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


def test_where_another_broker_lives_a_replica_that_may_come_back_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As in Apache Kafka: the live broker has no replica, and the one that has is started again in time."""
    monkeypatch.setitem(zookeeper_nodes.SETTINGS, "controlled.shutdown.retry.backoff.ms", FOR_EVER_MS)
    caplog.set_level("INFO", "moldau.lifecycle")

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
