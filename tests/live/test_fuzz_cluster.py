"""``make fuzz``, briefly: no node ends, nothing acknowledged is lost. How long answers take is not judged here."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kinds", ["frames,batches,configs", "files"])
def test_no_node_ends_and_nothing_is_lost_under_random_input(kinds: str) -> None:
    command = [sys.executable, "-m", "tests.fuzz", "--minutes", "0.25", "--seed", "11", "--stall-ms", "0"]
    done = subprocess.run([*command, "--kinds", kinds], capture_output=True, text=True, timeout=560, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-3000:]
