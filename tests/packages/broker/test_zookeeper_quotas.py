"""Quotas in ZooKeeper mode: in Kafka's znodes, and kept by every broker, whoever wrote them."""

from __future__ import annotations

import json
from pathlib import Path

from moldau.client import quotas
from moldau.model import Code
from moldau.model.quota_config import FETCH, MUTATION, PRODUCE
from tests.packages.broker.data_cluster import run, until
from tests.packages.broker.test_zookeeper_foreign_znodes import NOTE
from tests.packages.broker.zookeeper_nodes import Nodes


def bound(nodes: Nodes, key: str, client_id: str) -> set[float | None]:
    """The most that each broker lets a client have at once."""
    return {node.quotas.most_at_once(key, client_id) for node in nodes.nodes.values()}


def test_a_quota_that_a_client_sets_stands_in_its_znode_and_every_broker_keeps_to_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            client = nodes.client()
            outcome = await quotas.alter_quotas(client, {"user": "ANONYMOUS", "client-id": "a b"}, {PRODUCE: 1000})
            assert outcome.code == Code.NONE
            outcome = await quotas.alter_quotas(client, {"client-id": None}, {FETCH: 500, MUTATION: 2.5})
            assert outcome.code == Code.NONE
            stands = nodes.server.znodes["/config/users/ANONYMOUS/clients/a%20b"].data
            assert json.loads(stands)["config"] == {PRODUCE: "1000"}
            assert json.loads(nodes.server.znodes["/config/clients/<default>"].data)["config"] == {
                FETCH: "500", MUTATION: "2.5",
            }  # fmt: skip
            await until(lambda: bound(nodes, PRODUCE, "a b") == {10_000}, "every broker has heard of it")
            await until(lambda: bound(nodes, FETCH, "c") == {5_000}, "every broker has heard of it")
            await quotas.alter_quotas(client, {"client-id": None}, {FETCH: None, MUTATION: None})
            await until(lambda: bound(nodes, FETCH, "c") == {None}, "every broker has heard of it")

    run(scenario)


def test_quotas_that_a_tool_writes_count_and_those_it_takes_away_do_not(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            path = "/config/clients/slow"
            for value, most in (
                (b'{"version":1,"config":{"producer_byte_rate":"700"}}', 7_000),
                (b'{"version":1,"config":{}}', None),
            ):
                nodes.write(path, value)
                nodes.write("/config/changes/config_change_", NOTE % b"clients/slow", sequential=True)
                await until(lambda most=most: bound(nodes, PRODUCE, "slow") == {most}, "every broker has heard of it")
            nodes.write(path, b'{"version":1,"config":{"producer_byte_rate":"-5","consumer_byte_rate":"30"}}')
            nodes.write("/config/changes/config_change_", NOTE % b"clients/slow", sequential=True)
            await until(lambda: bound(nodes, FETCH, "slow") == {300}, "the good one counts")
            assert bound(nodes, PRODUCE, "slow") == {None}
            await nodes.nodes[1].stop()
            await nodes.boot(1)
            await until(lambda: bound(nodes, FETCH, "slow") == {300}, "a broker that starts reads it")

    run(scenario)
