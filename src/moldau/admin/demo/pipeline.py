"""The consuming end: ``moldau pipeline run`` on a file of the demo's, in its own process, followed by its books."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from moldau.pipeline.books import BookLine
from moldau.pipeline.folder import PipelineFolder
from moldau.pipeline.reading import load

START_TIMEOUT_S = 300.0
"""A process that ends is noticed at once; this is for machines on which Spark takes its time."""
FINISH_TIMEOUT_S = 180.0
"""Without another batch: as long as they come, it reads on, on whatever machine."""
LOOK_S = 0.1
NAME = "flights"
FILE = """\
# The demo's pipeline. Its cluster is gone by the time you read this; its books are not:
#   moldau pipeline status {path}
pipeline: {name}
cluster: {cluster}
source:
  topics: [{topic}]
  start: earliest
  max_records: 50000
decode:
  format: json
  fields:
    id: long
    year: int
    month: int
    day: int
    dep_time: double
    sched_dep_time: int
    dep_delay: double
    arr_time: double
    sched_arr_time: int
    arr_delay: double
    carrier: string
    flight: int
    tailnum: string
    origin: string
    dest: string
    air_time: double
    distance: int
    hour: int
    minute: int
    time_hour: timestamp
  on_error: fail
sinks:
  - table: tables/{name}
every: 1s
"""


class DemoPipelineError(RuntimeError):
    """The pipeline ended on its own; the text has its last words."""


class DemoPipeline:
    """``moldau pipeline run`` on a topic of flights; its file, its books and its table are in ``folder``."""

    def __init__(self, bootstrap_servers: str, topic: str, folder: Path) -> None:
        self.table = folder / "tables" / NAME
        self.batches: list[BookLine] = []
        """The lines of its books that were seen so far."""
        self.log = folder / "pipeline.log"
        self.file = folder / f"{NAME}.yaml"
        folder.mkdir(parents=True, exist_ok=True)
        self.file.write_text(FILE.format(path=self.file, name=NAME, cluster=bootstrap_servers, topic=topic))
        self._folder = PipelineFolder(load(self.file))
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "moldau", "pipeline", "run", str(self.file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # so that Ctrl-C is the demo's alone, and what it started can be ended with it
            )

    @property
    def rows(self) -> int:
        """Rows committed to the table so far."""
        self._read_on()
        return sum(line.rows_out for line in self.batches)

    @property
    def read(self) -> int:
        """Records that the batches in the books have read."""
        self._read_on()
        return sum(line.read for line in self.batches)

    def wait_ready(self) -> None:
        """Wait until Spark's query is begun. DemoPipelineError when it does not come up."""
        self._wait(self._folder.has_query, START_TIMEOUT_S, "start")

    def finish(self, records: int) -> None:
        """Let it read so many records of the topic, and stop it. DemoPipelineError when it ends otherwise."""
        self._wait(lambda: self.read >= records, FINISH_TIMEOUT_S, "finish")
        self._process.terminate()
        self._wait(lambda: self._process.poll() is not None, FINISH_TIMEOUT_S, "stop")
        if self._process.returncode:
            raise DemoPipelineError(f"the pipeline did not stop in order:\n{self.last_words()}")

    def kill(self) -> None:
        """End it at once, if it still runs; its JVM ends when the pipe to it breaks."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(10)

    def last_words(self, lines: int = 20) -> str:
        """The end of what it and Spark had to say."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _read_on(self) -> None:
        """Take in the lines that its books have by now."""
        while (line := self._folder.books.line(len(self.batches))) is not None:
            self.batches.append(line)

    def _wait(self, condition: Callable[[], bool], timeout_s: float, verb: str) -> None:
        """Look again and again; batches that come are a reason to wait on."""
        seen, deadline = len(self.batches), time.monotonic() + timeout_s
        while not condition():
            if len(self.batches) > seen:
                seen, deadline = len(self.batches), time.monotonic() + timeout_s
            if self._process.poll() is not None and not condition():
                raise DemoPipelineError(f"the pipeline did not {verb}:\n{self.last_words()}")
            if time.monotonic() > deadline:
                raise DemoPipelineError(f"the pipeline did not {verb} within {timeout_s:g} s:\n{self.last_words()}")
            time.sleep(LOOK_S)
