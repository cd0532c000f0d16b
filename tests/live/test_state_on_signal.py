"""SIGUSR1: a running node writes its state to its log, and serves on."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from kafka_peer import ask_cluster, wait_until
from one_node import OneNode


def test_a_node_that_gets_sigusr1_logs_its_state_and_serves_on(tmp_path: Path) -> None:
    node = OneNode(tmp_path)
    try:
        node.format().start()
        for times in (1, 2):
            os.kill(node.pid, signal.SIGUSR1)
            wait_until(lambda: node.text.count("[replicas]") == times, "the state is in the log", 60)  # noqa: B023
        assert "the state of this node, as SIGUSR1 asks for" in node.text
        assert "Leader in epoch" in node.text.partition("[quorum]")[2]
        assert 1 in ask_cluster(node.port).brokers, "it serves on"
        assert node.stop() == 0
    finally:
        node.close()
