"""What the doctor and the status say of a cluster on ZooKeeper whose brokers serve, though something is wrong there."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner
from kafka_peer import wait_until
from znodes import in_zookeeper, znode

from moldau import Cluster
from moldau.admin.cli import cli
from moldau.cluster.ensemble import LocalEnsemble
from moldau.zookeeper.session import Session

STATE = "/brokers/topics/t/partitions/1/state"


def findings(cluster: Cluster) -> dict[str, tuple[str, str]]:
    """What the doctor finds: severity and words, by what it is about."""
    run = CliRunner().invoke(cli, ["doctor", "-o", "json", "-b", cluster.bootstrap_servers])
    found = json.loads(run.stdout)
    assert (run.exit_code == 4) == any(one["severity"] in ("error", "warning") for one in found), run.output
    return {one["about"]: (one["severity"], one["what"]) for one in found}


def test_a_partition_whose_znode_is_garbage_is_named_and_so_is_a_zookeeper_that_is_gone(tmp_path: Path) -> None:
    """Brokers serve what they had, and all was well by the doctor."""
    with (
        LocalEnsemble(tmp_path / "ensemble") as ensemble,
        Cluster(2, plane="zookeeper", zookeeper=ensemble.connect, data=tmp_path / "cluster") as cluster,
    ):
        cluster.create_topic("t", partitions=2, replication_factor=2, config={"min.insync.replicas": "1"})

        async def spoil(zk: Session) -> None:
            await zk.set(STATE, b"garbage")
            await zk.delete("/controller")

        in_zookeeper(ensemble.connect, spoil)
        wait_until(lambda: znode(ensemble.connect, "/controller") is not None, "another rules")

        def is_told(about: str, words: str) -> bool:
            severity, what = findings(cluster).get(about, ("", ""))
            return severity == "error" and words in what

        wait_until(lambda: is_told("t-1", "the controller does not know"), "it is named")

        ensemble.kill(1)
        wait_until(lambda: is_told("controller", "no leader is elected"), "that nobody decides is said")

        def status_is_told() -> bool:
            """One broker after the other hears that ZooKeeper is gone."""
            run = CliRunner().invoke(cli, ["status", "--data", str(cluster.folder), "-o", "json"])
            return run.exit_code == 1 and "no controller is active" in run.stderr

        wait_until(status_is_told, "the status says it too")
