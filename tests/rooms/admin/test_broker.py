"""What speaks against stopping a broker; and a `down` that is cut off says who still runs, and goes on afterwards."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from moldau.admin.broker import hindrances
from moldau.client.view import Partition, Topic
from moldau.cluster.nodes import ClusterSpec, NodeSpec

STUBBORN = """
import pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1])
signal.signal(signal.SIGTERM, lambda *_: (folder / "told").touch())
(folder / "up").touch()
while not (folder / "go").exists():
    time.sleep(0.01)
"""


def topic(name: str, *isrs: tuple[list[int], list[int]]) -> Topic:
    parts = {n: Partition(n, isr[0], 0, replicas, isr, []) for n, (replicas, isr) in enumerate(isrs)}
    return Topic(name=name, topic_id=bytes(16), internal=False, partitions=parts)


def test_a_broker_may_go_where_others_are_in_sync_and_enough_of_them() -> None:
    topics = {"t": topic("t", ([1, 2, 3], [1, 2, 3]), ([2, 3], [2, 3]))}
    assert hindrances(1, topics, lambda name: 2) == []
    assert hindrances(9, topics, lambda name: 3) == []


def test_each_reason_names_its_partitions_and_counts_the_rest() -> None:
    topics = {
        "alone": topic("alone", *[([1], [1])] * 7),
        "behind": topic("behind", ([1, 2], [1]), ([1, 2], [2])),
        "short": topic("short", ([1, 2, 3], [1, 2]), ([1, 2, 3], [2, 3])),
    }
    homeless, short = hindrances(1, topics, lambda name: 2)
    assert homeless.startswith("8 partition(s) would have no leader")
    assert homeless.endswith("alone-0, alone-1, alone-2, alone-3, alone-4 and 3 more")
    assert short == "1 partition(s) would refuse acks=all: min.insync.replicas: short-0"
    assert hindrances(1, {"short": topics["short"]}, lambda name: 1) == []


def until(truth: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not truth():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.01)


def test_a_down_that_is_cut_off_says_who_still_runs_and_the_next_goes_on(tmp_path: Path) -> None:
    node = subprocess.Popen([sys.executable, "-c", STUBBORN, str(tmp_path)])
    spec = ClusterSpec("c", [NodeSpec(7, "broker", str(tmp_path / "7"), port=1, pid=node.pid)])
    spec.save(tmp_path)
    command = [sys.executable, "-m", "moldau", "down", "--data", str(tmp_path)]
    try:
        until((tmp_path / "up").exists)
        down = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        until((tmp_path / "told").exists)
        down.send_signal(signal.SIGTERM)
        _, said = down.communicate(timeout=30)
        assert down.returncode == 3
        assert "nodes that still run: 7" in said
        assert f"moldau down --data {tmp_path}" in said
        assert node.poll() is None
        (tmp_path / "go").touch()
        node.wait(30)
        again = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (again.returncode, again.stdout.splitlines()[-1]) == (0, "nothing runs.")
    finally:
        node.kill()
        node.wait()
