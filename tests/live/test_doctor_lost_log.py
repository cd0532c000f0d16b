"""What the doctor says of a voter whose metadata log was removed below it, by that node's own file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from click.testing import CliRunner
from kafka_peer import wait_until

from moldau import Cluster
from moldau.admin.cli import cli
from moldau.broker.config.storage_format import METADATA_FOLDER
from moldau.cluster.nodes import free_ports


def test_a_metadata_log_that_was_removed_below_a_running_voter_is_told_by_the_doctor(tmp_path: Path) -> None:
    """All was well by the doctor, while the node's own log said ERROR."""
    (port,) = free_ports(1)
    with Cluster(1, data=tmp_path / "cluster", config={"http.listener": f"127.0.0.1:{port}"}) as cluster:
        node = cluster.node(1)

        def told() -> str:
            run = CliRunner().invoke(cli, ["doctor", str(node.properties), "-o", "json"])
            return next((one["what"] for one in json.loads(run.stdout) if one["about"] == "metadata log"), "")

        assert told() == ""
        cluster.create_topic("t")  # what is committed is flushed
        shutil.rmtree(Path(node.folder) / "data" / METADATA_FOLDER)
        wait_until(lambda: told().startswith("the node runs, and its next start would not find"), "the doctor tells")
        assert cluster.leader("t", 0) == 1, "it serves"
        cluster.kill(1)  # it could not close what is not there
