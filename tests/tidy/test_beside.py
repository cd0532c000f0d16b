"""What `make test` runs side by side is heard one after the other, and fails when one of them fails."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.beside import beside

ROOT = Path(__file__).resolve().parents[2]


def test_they_run_at_once_and_are_heard_in_their_order(tmp_path: Path) -> None:
    """Each waits for what another does: one after the other they would never end."""
    first = f"until [ -e {tmp_path}/here ]; do sleep 0.01; done; echo first"
    last = f"echo last; touch {tmp_path}/here; echo words >&2"
    out = io.BytesIO()

    assert beside([first, last], out) == 0

    assert out.getvalue().decode().splitlines() == [first, "first", last, "last", "words"]


def test_one_that_fails_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    out = io.BytesIO()

    assert beside(["exit 3", f"touch {tmp_path}/went-on", "kill -9 $$"], out) == 3

    assert (tmp_path / "went-on").exists()
    assert out.getvalue().decode().splitlines()[-2:] == [
        "beside: status 3 of exit 3",
        "beside: status -9 of kill -9 $$",
    ]


def test_what_failed_is_said_again_at_the_end_though_others_spoke_after_it() -> None:
    said = "echo 'E   it is 1, not 2'; echo 'FAILED test_one'; echo 'src/a.py:1: error: no name'; echo well; exit 1"
    out = io.BytesIO()

    assert beside([said, "echo much; echo 'FAILED but nothing ended'"], out) == 1

    assert out.getvalue().decode().splitlines()[-4:] == [
        f"beside: status 1 of {said}",
        "E   it is 1, not 2",
        "FAILED test_one",
        "src/a.py:1: error: no name",
    ]


def test_whoever_stops_it_stops_them_all(tmp_path: Path) -> None:
    started = [tmp_path / "first", tmp_path / "second"]
    both = [f"touch {file}; sleep 1000; true" for file in started]
    process = subprocess.Popen([sys.executable, "-m", "tests.beside", *both], cwd=ROOT, stdout=subprocess.DEVNULL)
    while not all(file.exists() for file in started):  # a shell that has just started hears of the first signal late
        assert process.poll() is None
        time.sleep(0.01)

    process.send_signal(signal.SIGTERM)

    assert process.wait(60) == 130
