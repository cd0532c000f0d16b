"""A ZooKeeper that lost its data is named by `up` and `status`, nothing replaces it, and a copy brings all back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from moldau import Cluster
from moldau.admin.cli import cli
from moldau.cluster.cluster import ClusterError

LOST = "holds no cluster, and the directories of the nodes are of cluster"


def test_a_zookeeper_that_lost_its_data_is_named_and_a_copy_brings_the_topics_back(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    with Cluster(1, mode="zookeeper", data=folder) as cluster:
        cluster.create_topic("kept")
        assert cluster.ensemble is not None
        znodes = Path(cluster.ensemble.servers[0].folder) / "data" / "version-2"

        cluster.ensemble.kill(1)
        shutil.copytree(znodes, tmp_path / "copy")
        shutil.rmtree(znodes)
        cluster.ensemble.restart(1)
        shown = CliRunner().invoke(cli, ["status", "--data", str(folder)])
        assert shown.exit_code == 1
        assert LOST in shown.stderr
        with pytest.raises(ClusterError, match=LOST):
            cluster.start()

        cluster.stop()
        with pytest.raises(ClusterError, match=LOST):
            cluster.start()
        cluster.stop()
        shutil.rmtree(znodes)
        shutil.copytree(tmp_path / "copy", znodes)
        cluster.start()
        cluster.wait_until(lambda: cluster.leader("kept", 0) == 1, "the topic is back, and led")
