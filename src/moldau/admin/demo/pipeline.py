"""The consuming end: the Spark stream in a process of its own, followed by the JSON lines it writes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

START_TIMEOUT_S = 300.0
"""A process that ends is noticed at once; this is for machines on which Spark takes its time."""
FINISH_TIMEOUT_S = 180.0
"""Without another batch: as long as they come, it reads on, on whatever machine."""


class PipelineError(RuntimeError):
    """The stream ended on its own; the text has its last words."""


class Pipeline:
    """``python -m moldau.spark.flights`` on a topic. ``batches`` are its events, each with the time it arrived."""

    def __init__(self, bootstrap_servers: str, topic: str, folder: Path) -> None:
        self.folder = folder
        self.batches: list[tuple[float, dict[str, Any]]] = []
        self.log = folder / "pipeline.log"
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "moldau.spark.flights"]
        command += ["--bootstrap-servers", bootstrap_servers, "--topic", topic, "--folder", str(folder)]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # with its JVM, so that both can be ended
            )
        self._ready, self._done = threading.Event(), threading.Event()
        assert self._process.stdout is not None
        threading.Thread(target=self._follow, args=(self._process.stdout,), daemon=True).start()

    @property
    def rows(self) -> int:
        """Rows committed to the table so far."""
        return sum(event["rows"] for _, event in self.batches)

    def wait_ready(self) -> None:
        """Wait until the stream runs. PipelineError when it does not come up."""
        self._wait(self._ready, START_TIMEOUT_S, "start")

    def finish(self) -> None:
        """Let it read to the end of the topic and stop. PipelineError when it ends otherwise."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("finish\n")
            self._process.stdin.close()
        except BrokenPipeError:
            raise PipelineError(f"the stream has ended:\n{self.last_words()}") from None
        self._wait(self._done, FINISH_TIMEOUT_S, "finish")
        self._process.wait(30)

    def kill(self) -> None:
        """End it at once, if it still runs, and its JVM: one that was just starting would stay."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(10)

    def last_words(self, lines: int = 20) -> str:
        """The end of what it and Spark had to say."""
        told = [
            path.read_text(errors="replace")
            for path in (self.log, self.folder / "spark" / "spark.log")
            if path.exists()
        ]
        return "\n".join("\n".join(told).splitlines()[-lines:])

    def _follow(self, output: IO[str]) -> None:
        for line in output:
            event = json.loads(line) if line.startswith("{") else {"event": "?"}
            match event["event"]:
                case "ready":
                    self._ready.set()
                case "batch":
                    self.batches.append((time.time(), event))
                case "done":
                    self._done.set()

    def _wait(self, for_what: threading.Event, timeout_s: float, verb: str) -> None:
        seen, deadline = len(self.batches), time.monotonic() + timeout_s
        while not for_what.wait(0.1):
            if len(self.batches) > seen:
                seen, deadline = len(self.batches), time.monotonic() + timeout_s
            if self._process.poll() is not None and not for_what.wait(1.0):
                raise PipelineError(f"the stream did not {verb}:\n{self.last_words()}")
            if time.monotonic() > deadline:
                raise PipelineError(f"the stream did not {verb} within {timeout_s:g} s:\n{self.last_words()}")
