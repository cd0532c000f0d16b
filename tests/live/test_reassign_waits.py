"""`moldau reassign apply` and `status` name the broker that holds a move up, in both modes and with Apache Kafka."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka_peer import KafkaPeer, wait_until
from test_moves_elsewhere import PATIENCE_S, Moldau, make, replicas, write_plan

from conftest import SYSTEMS
from moldau.client.sync import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaPeer]:
    system = SYSTEMS[os.environ.get("MOLDAU_LIVE_SYSTEM", "moldau")]
    with system(nodes=3, properties={"auto.leader.rebalance.enable": "false"}) as running:
        yield running


def waits(moldau: Moldau, plan: Path) -> list[dict[str, Any]]:
    return [wait for row in moldau.status(plan)["partitions"] for wait in row["waits_for"]]


@pytest.mark.timeout(900)
def test_a_dead_broker_that_only_keeps_its_replica_is_named_as_what_a_move_waits_for(
    cluster: KafkaPeer, tmp_path: Path
) -> None:
    """Nobody was told: only brokers that were to get a replica were looked at."""
    moldau = Moldau(cluster)
    make(cluster, "kept", batches=1)
    plan = write_plan(tmp_path / "plan.json", "kept", [3, 2])
    cluster.kill(2)
    with Cluster(cluster.bootstrap_servers) as client:
        wait_until(lambda: 2 not in client.brokers(), "it is known to be dead")
    running = moldau.start("reassign", "apply", "--plan", plan, "-b", cluster.bootstrap_servers)
    wait_until(lambda: {wait["broker"] for wait in waits(moldau, plan)} == {2}, "only the dead one is waited for")
    assert {wait["state"] for wait in waits(moldau, plan)} == {"down"}
    status = moldau.status(plan)
    assert (status["missing_brokers"], status["counts"]["moving"]) == ([2], 4)
    shown = moldau.run("reassign", "status", "--plan", plan)
    assert "broker 2 is down" in shown.stdout.splitlines()[1], shown.stdout
    assert "broker 2 is not alive, and moves wait for it" in shown.stdout
    cluster.restart(2)
    said, told = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 0, said + told
    assert "kept-0 waits: broker 2 is down" in told
    wait_until(lambda: replicas(cluster, "kept") == [[3, 2]] * 4, "all is as planned, whoever is asked")


@pytest.mark.timeout(900)
def test_how_far_a_replica_is_behind_that_a_move_waits_for_is_told(cluster: KafkaPeer, tmp_path: Path) -> None:
    moldau = Moldau(cluster)
    make(cluster, "slow", batches=16)  # so that a replica is behind for a minute, whoever looks
    plan = write_plan(tmp_path / "plan.json", "slow", [3, 1])
    late = moldau.run("reassign", "apply", "--plan", plan, "--throttle", "10kB", "--timeout", "5")
    assert late.returncode == 3, late.stderr
    found = waits(moldau, plan)
    assert {(wait["broker"], wait["state"]) for wait in found} == {(3, "catching up")}
    assert all(wait["bytes_behind"] > 0 for wait in found)
    shown = moldau.run("reassign", "status", "--plan", plan)
    assert "broker 3 is catching up, " in shown.stdout
    assert moldau.run("reassign", "rollback", "--plan", plan, "--yes").returncode == 0
