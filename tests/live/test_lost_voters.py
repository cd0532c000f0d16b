"""Two of three controllers, processes of their own, whose metadata folders were removed while they were down."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from kafka_peer import wait_until

from moldau import Cluster
from moldau.admin.cli import cli
from moldau.broker.config.storage_format import METADATA_FOLDER
from moldau.broker.kraft.committed import NOTE
from moldau.cluster.cluster import ClusterError

pytestmark = pytest.mark.live


def test_two_of_three_controllers_that_lost_their_metadata_get_it_back(tmp_path: Path) -> None:
    """They elected each other with empty logs, the third cut its own, and every topic was gone."""
    with Cluster(2, mode="quorum", controllers=3, data=tmp_path) as cluster:
        controllers = [id for id in cluster.alive() if id > 100]
        assert len(controllers) == 3
        for number in range(20):
            cluster.create_topic(f"t{number}", replication_factor=2)
        for id in controllers:
            cluster.terminate(id)
        for id in controllers[:2]:
            folder = metadata_folder(tmp_path, id)
            assert (folder.parent / NOTE).exists()
            shutil.rmtree(folder)
            told = CliRunner().invoke(cli, ["doctor", str(next((tmp_path / f"node-{id}").glob("*.properties")))])
            assert "the metadata log is gone" in " ".join(told.output.split()), told.output
            cluster.restart(id, wait=False)
        cluster.restart(controllers[2], wait=False)

        def one_leads() -> bool:
            try:
                return cluster.controller() in controllers
            except ClusterError:  # nobody knows of one yet
                return False

        wait_until(one_leads, "one of them leads")  # a creation waits half a minute for one, and no longer
        cluster.create_topic("after", replication_factor=2)

        with cluster.client() as client:
            assert {f"t{number}" for number in range(20)} | {"after"} <= set(client.topics())
        cluster.wait_until_in_sync()


def metadata_folder(data: Path, id: int) -> Path:
    (found,) = (data / f"node-{id}").rglob(METADATA_FOLDER)
    return found
