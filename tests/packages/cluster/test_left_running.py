"""Processes of nodes that a cluster started: waited for when they have ended, left to themselves when it leaves."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau import Cluster
from moldau.cluster import nodes
from moldau.cluster.nodes import NodeSpec, is_alive

SLEEPER = (sys.executable, "-c", "import time; time.sleep(600)")


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Its nodes are processes that do nothing."""
    launch, started = nodes.launch, []

    def sleeper(spec: NodeSpec) -> subprocess.Popen[bytes]:
        process = launch(spec, SLEEPER)
        started.append(process.pid)
        return process

    monkeypatch.setattr(nodes, "launch", sleeper)
    yield Cluster(1, data=tmp_path)
    for pid in started:
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)


def test_a_node_that_ended_by_itself_is_waited_for_before_it_is_started_again(cluster: Cluster) -> None:
    cluster.restart(1, wait=False)
    first = cluster.processes[1]
    os.kill(first.pid, signal.SIGKILL)
    os.waitid(os.P_PID, first.pid, os.WEXITED | os.WNOWAIT)

    cluster.restart(1, wait=False)

    assert first.returncode == -signal.SIGKILL
    assert cluster.alive() == [1]
    cluster.close()


def test_nodes_run_on_when_a_cluster_leaves_and_nobody_is_warned_of_them(cluster: Cluster) -> None:
    cluster.restart(1, wait=False)
    pid = cluster.pid(1)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        cluster.leave()
        gc.collect()
    assert [one for one in told if "still running" in str(one.message)] == []
    assert is_alive(pid)
