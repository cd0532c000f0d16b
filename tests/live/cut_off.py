"""Kills a command of `moldau` on its way, all that it has started, and a broker: for test_pipeline_tutorial.py.

    python cut_off.py pipeline run flights.yaml --once

The broker that was killed before is started again first. The moment of the kill is another one each time: when the
note of a batch is there, when a table has grown, when the books have. A command that ends before is not killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from processes import descendants

MOLDAU = [sys.executable, "-c", "from moldau.admin.main import main; main()"]
COUNT = Path("kills")
"""How many were killed, by lines that say what."""


def moments(name: str) -> list[Path]:
    """Places that are written on the way: the note of a batch, tables where there are any, the books."""
    begun = Path(name, "begun")
    return [begun, Path("tables") if name == "flights" else begun, Path(name, "books")]


def look(place: Path) -> dict[str, tuple[int, int]]:
    """Every file there, with its time and size."""
    found: dict[str, tuple[int, int]] = {}
    for file in place.rglob("*"):
        with contextlib.suppress(OSError):
            there = file.stat()
            found[str(file)] = (there.st_mtime_ns, there.st_size)
    return found


def kill_broker(number: int) -> None:
    shown = subprocess.run([*MOLDAU, "status", "-o", "json"], capture_output=True, text=True, check=False).stdout
    for node in json.loads(shown)["nodes"]:
        if node["node"] == number and node["pid"]:
            os.kill(node["pid"], signal.SIGKILL)


def main() -> None:
    words = sys.argv[1:]
    name = next(word for word in words if word.endswith(".yaml")).removesuffix(".yaml")
    subprocess.run([*MOLDAU, "up", "--brokers", "3", "--detach"], check=True)
    turn = len(COUNT.read_text().splitlines()) if COUNT.exists() else 0
    place = moments(name)[turn % 3]
    before = look(place)
    process = subprocess.Popen([*MOLDAU, *words], start_new_session=True)
    while process.poll() is None:
        if look(place) == before:
            time.sleep(0.02)
            continue
        for pid in descendants(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        kill_broker(turn % 3 + 1)
        with COUNT.open("a") as file:
            file.write(f"{' '.join(words)} as {place} was written, and broker {turn % 3 + 1}\n")
    process.wait()


if __name__ == "__main__":
    main()
