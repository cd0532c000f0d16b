"""A `down` that is cut off says who still runs, and goes on when it is called again."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from moldau.cluster.nodes import ClusterSpec, NodeSpec

STUBBORN = """
import pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1])
signal.signal(signal.SIGTERM, lambda *_: (folder / "told").touch())
(folder / "up").touch()
while not (folder / "go").exists():
    time.sleep(0.01)
"""


def until(truth: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
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
        _, said = down.communicate(timeout=120)
        assert down.returncode == 3
        assert "nodes that still run: 7" in said
        assert f"moldau down --data {tmp_path}" in said
        assert node.poll() is None
        (tmp_path / "go").touch()
        node.wait(120)
        again = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert (again.returncode, again.stdout.splitlines()[-1]) == (0, "nothing runs.")
    finally:
        node.kill()
        node.wait()
