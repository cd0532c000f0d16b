"""Publishes until it is ended: the streams of all nodes in turn, and in a thread beside them their metrics.

It goes on whatever happens to the cluster: what went wrong is told once, and tried again after a pause that grows.
Ending it anywhere loses nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from moldau.model.backoff import backoff_ms
from moldau.publishing.figures import Intervals
from moldau.publishing.following import NAME
from moldau.publishing.nodes import NodeFolder, NoNodes
from moldau.publishing.stream import Away, NotTaken, StepResult
from moldau.wire.compression import BatchError

LOOK_S = 0.25
"""How often files are looked at for new lines."""
RESCAN_S = 10.0
"""How often folders are looked through for new nodes."""
PAUSE_MS, PAUSE_MS_MAX = 250, 10_000
TRIES_UNTOLD = 2
"""An election, or a publisher before this one, is over by then, and need not be told of."""
ONCE_S = 30.0
"""How long a cluster that is away is waited for by who publishes once."""
TROUBLES = (Away, NotTaken, BatchError, OSError)


class Publishable(Protocol):
    """What is published of a node."""

    def step(self) -> StepResult: ...

    def close(self) -> None: ...


class ProblemReporter:
    """Says what is wrong once it lasts, each reason once, and that it is over."""

    def __init__(self, what: str, say: Callable[[str], object], clock: Callable[[], float] = time.monotonic) -> None:
        self._what, self._say, self._clock = what, say, clock
        self._last = ""
        self._since_s = 0.0
        self._tries = 0

    def wrong(self, error: Exception) -> float:
        """It went wrong; how many seconds to wait."""
        text = str(error) or type(error).__name__
        if isinstance(error, OSError) and error.filename and error.strerror:
            text = f"{error.filename}: {error.strerror}"
        if not self._tries:
            self._since_s = self._clock()
        self._tries += 1
        if text != self._last and (self._tries > TRIES_UNTOLD or not isinstance(error, Away)):
            self._last = text
            self._say(f"{self._what}: {text}; it is tried again")
        return backoff_ms(self._tries - 1, PAUSE_MS, PAUSE_MS_MAX) / 1000

    def well(self) -> None:
        """It went well."""
        if self._last:
            self._say(f"{self._what}: goes on after {self.lasted_s:.0f} s")
        self._last, self._tries = "", 0

    @property
    def lasted_s(self) -> float:
        """How long it has been wrong."""
        return self._clock() - self._since_s if self._tries else 0.0


class NodeStreams:
    """The streams of all nodes; new nodes are taken in as their folders come."""

    def __init__(
        self,
        nodes: Callable[[], Sequence[NodeFolder]],
        stream: Callable[[NodeFolder], Publishable],
        say: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.streams: dict[int, Publishable] = {}
        self._folders: dict[int, NodeFolder] = {}
        self._nodes, self._stream, self._say, self._clock = nodes, stream, say, clock
        self._told: dict[int, ProblemReporter] = {}
        self._due_s: dict[int, float] = {}
        self._scanned_s = clock()
        self._scan()

    def run(self, *, once: bool, pause: Callable[[float], object] = time.sleep) -> None:
        """For ever, or (``once``) until all that is in the files is published; then what goes wrong, and lasts for
        ``ONCE_S`` where it may pass, is raised."""
        while True:
            steps = [self._step(node, once) for node in list(self.streams)]
            if once and all(step is StepResult.IDLE for step in steps):
                return
            if StepResult.BUSY not in steps:
                pause(LOOK_S)
            if not once and self._clock() - self._scanned_s >= RESCAN_S:
                self._scanned_s = self._clock()
                self._scan()

    def _step(self, node: int, once: bool) -> StepResult | None:
        """A step of a node's stream; None while it waits for its next try."""
        if self._due_s.get(node, 0.0) > self._clock():
            return None
        told = self._told[node]
        try:
            step = self.streams[node].step()
            told.well()
            return step
        except TROUBLES as error:
            wait_s = told.wrong(error)
            if once and (not isinstance(error, Away) or told.lasted_s > ONCE_S):
                raise
            self._due_s[node] = self._clock() + wait_s
            return None

    def _scan(self) -> None:
        try:
            nodes = self._nodes()
        except (NoNodes, OSError):
            if not self.streams:
                raise
            return  # they come back, or they do not: lines are read from files that are open
        for one in nodes:
            if self._folders.get(one.node, one).folder != one.folder:
                self._say(f"node {one.node}: its {NAME} is in {one.folder} now")
                self.streams.pop(one.node).close()
            if one.node not in self.streams:
                self.streams[one.node] = self._stream(one)
                self._told.setdefault(
                    one.node, ProblemReporter(f"state changes of node {one.node}", self._say, self._clock)
                )
            self._folders[one.node] = one


class Looked(Protocol):
    """Metrics, as their thread needs them."""

    def look(self, pages: Mapping[int, str], due_ms: int | None = None) -> None: ...

    def write(self) -> bool: ...


class MetricsThread:
    """Looks at all pages at once, and then in every interval, and writes what they said, until the process ends.
    ``now_ms`` is the machine's clock."""

    def __init__(
        self,
        figures: Looked,
        pages: Callable[[], Mapping[int, str]],
        every_ms: int,
        say: Callable[[str], object],
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._figures, self._pages, self._now_ms = figures, pages, now_ms
        self._intervals = Intervals(every_ms, now_ms())
        self._told = ProblemReporter("metrics", say)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether it goes on; not after ``end``, nor after an error of its own."""
        return self._thread.is_alive()

    def end(self) -> None:
        """Have it end; what is under way is not waited for."""
        self._ended.set()

    def _run(self) -> None:
        self._look(None)
        while not self._ended.is_set():
            self._write_until_due()
            due_ms = self._intervals.take(self._now_ms())
            if due_ms is not None and not self._ended.is_set():
                self._look(due_ms)

    def _look(self, due_ms: int | None) -> None:
        try:
            self._figures.look(self._pages(), due_ms)
        except (NoNodes, OSError) as error:
            self._told.wrong(error)

    def _write_until_due(self) -> None:
        """Write all that waits, and wait for the next interval. What goes wrong is tried again until then; when looks
        take as long as their interval, once."""
        more = True
        while not self._ended.is_set():
            pause_s = None
            if more:
                try:
                    more = self._figures.write()
                    self._told.well()
                except TROUBLES as error:
                    pause_s = self._told.wrong(error)
            left = self._intervals.left_ms(self._now_ms()) / 1000
            if left <= 0 and (pause_s is not None or not more):
                return
            if pause_s is not None or not more:
                self._ended.wait(left if pause_s is None else min(pause_s, left))
