"""`moldau log` on the logs of a cluster whose leader was killed: who led, since when and why, in both modes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from moldau import Cluster


def told(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "moldau", "log", *arguments, "--logs", str(folder), "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("plane", ["quorum", "zookeeper"])
def test_a_killed_leader_is_in_the_timeline(tmp_path: Path, plane: str) -> None:
    folder = tmp_path / "cluster"
    with Cluster(3, data=folder, mode=plane) as cluster:
        cluster.create_topic("orders", partitions=1, replication_factor=3)
        cluster.wait_until_in_sync()
        first = cluster.leader("orders", 0)
        cluster.kill(first)
        leads = [first]

        def another_leads() -> bool:
            leads.append(cluster.leader("orders", 0))  # whoever is asked next may not have heard of it
            return leads[-1] != first

        cluster.wait_until(another_leads, "another leads")
        second = leads[-1]
        cluster.restart(first)
        cluster.wait_until_in_sync()
        rows: list[dict[str, Any]] = []

        def all_is_logged() -> bool:
            """A thread writes the log: the last change may be known before its line is there."""
            rows[:] = told(folder, "timeline", "orders-0")
            return sorted(rows[-1]["in_sync"]) == [1, 2, 3]

        cluster.wait_until(all_is_logged, "that all are in sync is in the log", 120)
    assert [(row["epoch"], row["leader"]) for row in rows[:2]] == [(0, first), (1, second)]
    assert [row["why"] for row in rows[:2]] == ["created", f"broker {first} was fenced"]
    assert first not in rows[1]["in_sync"]
    (now, *_) = told(folder, "why", "orders-0", "--at", rows[1]["time"])
    assert now["why"] == f"broker {first} was fenced"
    for row in told(folder, "skew"):
        assert row["verdict"] == "no skew seen", "one machine has one clock"
    merged = subprocess.run(
        [sys.executable, "-m", "moldau", "log", "merge", str(folder)], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    logged = [line for path in folder.rglob("state-change.log") for line in path.read_text().splitlines()]
    assert sorted(merged) == sorted(logged), "nothing is lost"
    times = [line[1:24] for line in merged]
    assert times == sorted(times)
