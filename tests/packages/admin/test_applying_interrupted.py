"""Who is told to end while a plan is applied says what goes on, and how it ends; whatever the signal."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

APPLYING = """
import signal
import sys
from pathlib import Path
from moldau.admin import main
from moldau.admin.reassignment.apply_command import _words

def applying(arguments):
    with _words(Path(sys.argv[1])):
        signal.raise_signal(int(sys.argv[2]))
        signal.pause()

main._run = applying
main.main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_who_ends_the_command_is_told_that_the_moves_go_on_and_what_ends_them(number: int, tmp_path: Path) -> None:
    """SIGTERM, which systemd and `timeout` send, ended it without a word."""
    plan = str(tmp_path / "plan.json")
    ended = subprocess.run(
        [sys.executable, "-c", APPLYING, plan, str(number)], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 130, ended.stderr
    assert ended.stderr.splitlines() == [
        f"what is under way goes on; the same command, or `moldau reassign cancel --plan {plan}`, ends it.",
        "moldau: interrupted",
    ]
