"""Short chaos scenarios with real nodes; ``make chaos SCENARIO=all`` is the long version.

Links are cut in namespaces where those are permitted, else in the proxy, which slows and resets them everywhere.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def chaos(folder: Path, *arguments: str) -> tuple[int, str]:
    """The command's exit status and all that it said."""
    command = [sys.executable, "-m", "moldau.cluster.chaos", *arguments, "--keep", str(folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.timeout(400)
def test_a_leader_that_is_killed_takes_nothing_acknowledged_with_it(tmp_path: Path) -> None:
    status, said = chaos(tmp_path, "2", "--rounds", "1", "--seed", "11")

    assert status == 0, said
    assert "PASS; reproduce: python -m moldau.cluster.chaos 2 --seed 11" in said
    (folder,) = tmp_path.iterdir()
    assert {"history.jsonl", "timeline.jsonl", "shown.jsonl", "report.txt"} <= {path.name for path in folder.iterdir()}


@pytest.mark.timeout(400)
def test_a_leader_that_is_cut_off_from_its_controllers_takes_nothing_acknowledged_with_it(tmp_path: Path) -> None:
    status, said = chaos(tmp_path, "6", "--seed", "11")

    assert status == 0, said


@pytest.mark.timeout(400)
def test_what_clients_send_again_over_broken_connections_is_there_once(tmp_path: Path) -> None:
    status, said = chaos(tmp_path, "18", "--seed", "11")

    assert status == 0, said
    assert "they connect again after" in said


@pytest.mark.timeout(400)
def test_a_leader_that_is_killed_on_the_zookeeper_plane_takes_nothing_acknowledged_with_it(tmp_path: Path) -> None:
    status, said = chaos(tmp_path, "2", "--plane", "zookeeper", "--rounds", "1", "--seed", "11")

    assert status == 0, said
