"""A single combined node, for tests of how nodes start: its properties, its storage, its process, what it said.

Like a production node it is started by the command line and told everything by its file. Ends only what it started.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kafka_peer import ask_cluster, free_port, wait_until

START_S = 120
CLUSTER_ID = "bW9sZGF1LW5vZGUtdGVzdA"


class Said(NamedTuple):
    """How a process ended, and all that it printed."""

    code: int
    text: str


def moldau(*arguments: object, prefix: Sequence[str] = ()) -> Said:
    """Run a ``moldau`` command, behind another command if need be, to its end."""
    command = [*prefix, sys.executable, "-m", "moldau", *(str(one) for one in arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=START_S, check=False)
    return Said(done.returncode, done.stdout + done.stderr)


class OneNode:
    """Node 1, broker and controller in one, formatted on demand. ``more``: keys over ours."""

    def __init__(self, folder: Path, more: Mapping[str, object] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.port, self.controller_port = free_port(), free_port()
        self.data = folder / "data"
        self.file = folder / "server.properties"
        self._out = folder / "out.log"
        self._process: subprocess.Popen[bytes] | None = None
        settings: dict[str, object] = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": self.data,
            "offsets.topic.replication.factor": 1,
        }
        self.settings = settings | dict(more or {})
        self.file.write_text("".join(f"{key}={value}\n" for key, value in self.settings.items()))

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def format(self, cluster_id: str = CLUSTER_ID) -> OneNode:
        said = moldau("storage", "format", "-t", cluster_id, "-c", self.file)
        assert said.code == 0, said.text
        return self

    def fail(self, *prefix: str) -> Said:
        """Start it although it cannot: what it said. Fails the test when it starts after all."""
        said = moldau("node", self.file, prefix=prefix)
        assert said.code > 0, said
        assert "Traceback" not in said.text, said.text
        return said

    def start(self) -> OneNode:
        self.launch()
        wait_until(self._serves, f"node of {self.file} serves", START_S)
        return self

    def launch(self) -> None:
        """Start its process, and wait for nothing."""
        with self._out.open("ab") as out:
            command = [sys.executable, "-m", "moldau", "node", str(self.file)]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def _serves(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.text
        try:
            return 1 in ask_cluster(self.port).brokers
        except OSError:
            return False

    @property
    def text(self) -> str:
        """All that the running node printed so far."""
        return self._out.read_text(errors="replace")

    @property
    def pid(self) -> int:
        """The running process."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> int:
        """A controlled shutdown; the exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(START_S)

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
