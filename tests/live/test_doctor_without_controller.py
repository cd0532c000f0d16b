"""A cluster without a controller: commands say so within seconds, and tell what can be told without one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from kafka_peer import wait_until
from znodes import in_zookeeper, znode

from moldau import Cluster
from moldau.admin.cli import cli
from moldau.client.client import ClientOptions, NoController
from moldau.client.sync import Cluster as Talk
from moldau.zookeeper.session import Session


def take_controller(cluster: Cluster) -> None:
    """Have nobody be controller, and nobody become one. Whoever was answers as such until it has heard of it."""
    if cluster.mode == "kraft":
        cluster.kill(101)
        return

    async def spoil(zk: Session) -> None:
        await zk.set("/controller_epoch", b"no number")
        await zk.delete("/controller")

    in_zookeeper(cluster.spec.zookeeper, spoil)
    wait_until(lambda: znode(cluster.spec.zookeeper, "/controller") is None, "nobody is controller")
    wait_until(lambda: not has_controller(cluster), "nobody answers as controller")


def has_controller(cluster: Cluster) -> bool:
    """Whether one answers within a second."""
    with Talk(cluster.bootstrap_servers, options=ClientOptions(controller_ms=1_000)) as talk:
        try:
            talk.run(talk.client.demand_controller())
        except NoController:
            return False
    return True


@pytest.mark.parametrize("plane", ["quorum", "zookeeper"])
def test_the_doctor_says_that_there_is_no_controller(tmp_path: Path, plane: str) -> None:
    """It took 90 s in KRaft mode, and in ZooKeeper mode it never said so."""
    controllers: int | str = 1 if plane == "quorum" else "combined"
    with Cluster(2, mode=plane, controllers=controllers, data=tmp_path) as cluster:
        cluster.create_topic("t", replication_factor=2, config={"min.insync.replicas": "1"})
        take_controller(cluster)
        run = CliRunner().invoke(cli, ["doctor", "-o", "json", "-b", cluster.bootstrap_servers])
        assert run.exit_code == 4, run.output
        found = {one["about"]: one["severity"] for one in json.loads(run.output)}
        assert found["controller"] == "error"
        assert not {"quorum", "throttles"} & set(found), "what only a controller could answer"

        run = CliRunner().invoke(cli, ["topic", "describe", "t", "-o", "json", "-b", cluster.bootstrap_servers])
        assert (run.exit_code, "no controller is active" in run.stderr) == (4, True), run.output
        assert json.loads(run.stdout)[0]["topic"] == "t"
        run = CliRunner().invoke(cli, ["reassign", "list", "-o", "json", "-b", cluster.bootstrap_servers])
        assert (run.exit_code, run.stdout) == (1, ""), run.output
        assert "no controller is active (none answers within 5 s)" in run.stderr
        run = CliRunner().invoke(cli, ["status", "--data", str(tmp_path), "-o", "json"])
        assert (run.exit_code, "no controller is active" in run.stderr) == (1, True), run.output
        shown = {row["node"]: (row["state"], row["controller"]) for row in json.loads(run.stdout)["nodes"]}
        assert shown[1] == shown[2] == ("serving", False)
        if plane == "quorum":
            run = CliRunner().invoke(cli, ["quorum", "status", "-b", cluster.bootstrap_servers])
            assert run.exit_code == 1
            assert "no controller is active" in run.stderr
            assert "Brokers that are shown: 1, 2" in run.stderr
            run = CliRunner().invoke(cli, ["broker", "list", "-o", "json", "-b", cluster.bootstrap_servers])
            assert (run.exit_code, "no controller is active" in run.stderr) == (4, True), run.output
            assert [(row["broker"], row["controller"]) for row in json.loads(run.stdout)] == [(1, False), (2, False)]
