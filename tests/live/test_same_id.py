"""A second process with a copy of a living broker's file: it is refused, and the living one is undisturbed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kafka_peer import free_port, wait_until

import moldau
from moldau.broker.config.node_config import load
from moldau.broker.config.storage_format import format_storage
from moldau.runtime.disk import RealDisk
from moldau.runtime.world import RealRandom

REGISTERED = "registered with broker epoch"


@pytest.mark.parametrize("plane", ["quorum", "zookeeper"])
def test_a_copied_file_never_takes_over_a_living_broker_whatever_it_advertises(tmp_path: Path, plane: str) -> None:
    quick = {  # and long enough for a busy machine: whose session is over is no living broker
        "broker.session.timeout.ms": "12000", "broker.heartbeat.interval.ms": "500",
        "zookeeper.session.timeout.ms": "12000",
    }  # fmt: skip
    controllers: dict[str, Any] = {"controllers": 1} if plane == "quorum" else {"plane": plane}
    with moldau.Cluster(2, **controllers, config=quick, data=tmp_path / "cluster") as cluster:
        cluster.create_topic("kept", partitions=4, replication_factor=1)
        first = cluster.node(1)
        log = first.logs / "server.log"
        wait_until(lambda: log.read_text().count(REGISTERED) > 0, "the first registration is in the log")
        registrations = log.read_text().count(REGISTERED)
        text = first.properties.read_text()
        told = f"PLAINTEXT://127.0.0.1:{first.port}"
        copied = text.replace(told, f"PLAINTEXT://127.0.0.1:{free_port()}")  # as on another machine
        copied = f"{copied}\nadvertised.listeners={told}\n".replace(str(first.folder), str(tmp_path / "copy"))
        file = tmp_path / "copied.properties"
        file.write_text(copied)
        if plane == "quorum":
            format_storage(load(copied), cluster.cluster_id, RealDisk(), RealRandom())

        second = subprocess.run(
            [sys.executable, "-m", "moldau", "node", str(file)],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

        said = second.stdout + second.stderr
        assert second.returncode == 1, said
        assert "another live broker is registered under" in said
        assert f"127.0.0.1:{first.port}" in said
        assert "is refused: stop the other" in said
        assert REGISTERED not in said
        assert log.read_text().count(REGISTERED) == registrations, "it had to register again"
