"""Transactions that a broker of Apache Kafka coordinates, in partitions and groups that brokers of Moldau lead."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest
from billing import SINK, billing_runs, order, prepare, read
from kafka_peer import java_tool, wait_until
from mixed import KAFKA, MOLDAU, MixedPeer, bootstrap_of, segments

ONE = {"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1}
PEER = {f"transaction.state.log.{key}": 1 for key in ("replication.factor", "min.isr")} | ONE
QUIET = {"broker.session.timeout.ms": 30_000}
"""Nobody stops leading because a machine is slow."""
LONG = "MOLDAU_INTERCHANGE" in os.environ


def _is_replicated(peer: MixedPeer, folder: str) -> bool:
    return len(set(segments(peer, folder).values())) == 1


def test_each_order_is_billed_once_though_transactions_abort(tmp_path: Path) -> None:
    with MixedPeer({1: KAFKA, 2: MOLDAU}, PEER | QUIET, tmp_path) as peer:
        prepare(peer, [2])
        where = peer.bootstrap_servers
        orders = order(where, range(400))
        with billing_runs(bootstrap_of(peer, [2])) as billing:
            wait_until(lambda: len(read(where)) >= len(orders), "all orders are billed")
        assert billing.aborted > 2
        assert billing.renewed == 0
        assert sorted(read(where), key=int) == orders
        for folder in (f"{SINK}-0", f"{SINK}-1", "__consumer_offsets-0"):
            wait_until(partial(_is_replicated, peer, folder), f"{folder} is replicated")


@pytest.mark.skipif(not LONG, reason="takes a minute: make interchange runs it")
def test_each_order_is_billed_once_though_the_leaders_of_everything_are_killed(tmp_path: Path) -> None:
    with MixedPeer({1: KAFKA, 2: MOLDAU, 3: MOLDAU}, PEER, tmp_path) as peer:
        prepare(peer, [2, 3])
        where = peer.bootstrap_servers
        orders: list[bytes] = []
        with billing_runs(where):
            for turn in range(4):
                orders += order(where, range(len(orders), len(orders) + 300))
                victim = 2 + turn % 2
                peer.kill(victim)
                orders += order(where, range(len(orders), len(orders) + 300))
                peer.restart(victim)
            wait_until(lambda: len(read(where)) >= len(orders), "all orders are billed", 240)
        assert sorted(read(where), key=int) == orders


@pytest.mark.skipif(not LONG, reason="starts the Java client: make interchange runs it")
@pytest.mark.parametrize("level", [0, 2], ids=["partitions added by the client", "partitions added by the leader"])
def test_the_java_client_s_transactions_are_all_committed(tmp_path: Path, level: int) -> None:
    with MixedPeer({1: KAFKA, 2: MOLDAU}, PEER, tmp_path) as peer:
        where = peer.bootstrap_servers
        if not level:  # the format tool begins with 2
            java_tool("kafka-features", "--bootstrap-server", where, "downgrade", "--feature", "transaction.version=0")
        prepare(peer, [2])
        java_tool(
            "kafka-producer-perf-test", "--bootstrap-server", where, "--topic", SINK, "--num-records", "3000",
            "--record-size", "100", "--throughput", "2000", "--transactional-id", "x",
            "--transaction-duration-ms", "100",
        )  # fmt: skip
        assert len(read(where)) == 3000
        for number in (0, 1):
            open_ = java_tool(
                "kafka-transactions", "--bootstrap-server", where, "describe-producers", "--topic", SINK,
                "--partition", number,
            ).stdout.splitlines()[1:]  # fmt: skip
            assert all("None" in line for line in open_ if line.strip()), open_
