"""Keeps a streaming query running: begins it again from its checkpoint when a restart is what it needs.

Spark gives the Python process of a source ten seconds to come up, which no setting changes and a busy machine may
need; a query whose cluster, or whose tables' catalog, is away for longer than its time-outs ends, and one whose Python
process was killed. All are mended by starting it again: the checkpoint says where. What a restart does not mend
(refused options, lost records, a fault of the program) is raised.

    import moldau.spark
    moldau.spark.run(lambda: stream.writeStream.option("checkpointLocation", path).foreachBatch(each).start())
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from moldau.model.protocol import Protocol
from moldau.spark.losses import warn_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

BEGINNINGS = 5
PAUSE_S = 1.0
PAUSE_MOST_S = 60.0

TOO_SLOW = "Timed out while waiting for the Python worker to connect back"
_TOO_SLOW = (TOO_SLOW, "Python worker failed to connect back")
"""How Spark says it: the second stands around the first, which PySpark then does not show."""

DEAD_IDLE = "Stream closed"
"""How Spark fails a task to which it would hand out a worker that it kept for later and that has died: it tells the
process that forks workers to end it, and where that one has died as well, Java has a stream in its place that takes
nothing (``PythonWorkerFactory.stopWorker``). The worker is given up with the task: each beginning has one less."""
IDLE_PAUSE_S = 0.1
"""Before it is begun again: other streams are closed as well, and may be so at once every time."""
IDLE_MOST = 32
"""How many such workers are thought possible: one for each step in Python of each task that Spark runs at a time."""

_GONE = (
    "Python worker exited unexpectedly",
    DEAD_IDLE,
    "EOFException occurred while reading the port number from pyspark.daemon",
    "Connection reset",
    "Broken pipe",
    "terminated with exception:  SQLSTATE",
    "terminated with exception: null",
)
"""How Spark says that a Python process of its own is gone: a task's, the one that forks those (see above, or at its
start), and the source's, as the JVM was between two questions, asked one, or waited for the answer, which is an
``EOFException`` without a message."""

_PASSES = (
    *_TOO_SLOW,
    *_GONE,
    "moldau.client.client.Unreachable",
    "moldau.client.lines.RequestTimedOut",
    "moldau.spark.feed.Unreachable",
    "moldau.spark.tables.catalogs.NoAnswer",
    "ConnectionRefusedError",
    "ConnectionResetError",
)
"""What the errors say that a restart mends."""


class Query(Protocol):
    """What is asked of a ``StreamingQuery``."""

    @property
    def isActive(self) -> bool:
        """Whether the query runs."""

    @property
    def name(self) -> str:
        """The name that it was given."""

    @property
    def status(self) -> dict[str, object]:
        """What it does just now, as PySpark says."""

    @property
    def recentProgress(self) -> list[StreamingQueryProgress]:
        """What its last batches read and wrote."""

    def exception(self) -> Exception | None:
        """What ended it; None while it runs, or after it was stopped."""

    def awaitTermination(self, timeout: int) -> bool | None:
        """Wait for its end, or for so many seconds; whether it has ended by then."""


def until_it_stands(begin: Callable[[], StreamingQuery], beginnings: int = BEGINNINGS) -> StreamingQuery:
    """The query that ``begin`` starts, once its source stands: begun again when Python was too slow to come up.

    Nothing is read before, so nothing is done twice.
    """
    turn = 0
    while True:
        turn += 1
        try:
            query = begin()
        except Exception as raised:  # Spark Connect tells of it here, a classic session by the query
            error = raised
        else:
            while query.isActive and query.status["message"].startswith("Initializing"):
                time.sleep(0.1)
            ended = query.exception()
            if ended is None:
                return query
            error = ended
        if not any(word in str(error) for word in _TOO_SLOW) or turn == beginnings:
            raise error
        _tell(f"begun again, as Python took too long to start: {TOO_SLOW}")


def run(
    begin: Callable[[], Query],
    *,
    restarts: int = BEGINNINGS,
    pause_s: float = PAUSE_S,
    until: Callable[[], bool] = lambda: False,
) -> Query:
    """Start a query by ``begin`` and keep it running until it ends by itself, is stopped, or ``until`` says so.

    A query that ended for a reason that may pass is begun again, after a pause that doubles up to a minute, at most
    ``restarts`` times in a row without a finished batch in between; one that met an idle worker which had died at once,
    and not counted. Any other error is raised, and every one once ``until`` says so. What a batch left out
    (``onDataLoss=skip``) is a warning in this process. Returns the query, which still runs when ``until`` ended it.
    """
    failures = idle = 0
    while True:
        name = "(not begun)"
        try:
            query = begin()
        except Exception as raised:  # Spark Connect tells here of what a classic session tells by the query
            error = raised
        else:
            name = query.name or "(no name)"
            watched = _Watched(query)
            while not _has_ended(query):
                watched.read_progress()
                if until():
                    return query
            ended = query.exception()
            watched.read_progress()
            if ended is None:
                return query
            error = ended
            failures, idle = (0, 0) if watched.batches else (failures, idle)
        is_idle = bool(restarts) and DEAD_IDLE in str(error) and idle < IDLE_MOST
        failures, idle = failures + (not is_idle), idle + is_idle
        if until() or failures > restarts or not may_pass(error):
            raise error
        pause = IDLE_PAUSE_S if is_idle else min(PAUSE_MOST_S, pause_s * 2 ** (failures - 1))
        _tell(f"query {name} is begun again in {pause:g} s: {_last_line(error)}")
        time.sleep(pause)


def may_pass(error: BaseException) -> bool:
    """Whether what ended by this error may go well when it is begun again."""
    if any(word in str(error) for word in _PASSES):
        return True
    return error.__cause__ is not None and may_pass(error.__cause__)


def _has_ended(query: Query) -> bool:
    """Whether it has, after at most a second; PySpark raises where a query ends by an error."""
    try:
        return bool(query.awaitTermination(1))
    except Exception:
        if query.exception() is None:
            raise
        return True


class _Watched:
    """A query's progress: how many batches it finished here, and a warning for each that left records out."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._seen = -1
        self.batches = 0

    def read_progress(self) -> None:
        for progress in self._query.recentProgress:
            batch = int(progress["batchId"])
            if batch > self._seen:
                self._seen = batch
                self.batches += _rows_read(progress) > 0
                warn_of(self._query.name, batch, progress)


def _rows_read(progress: StreamingQueryProgress) -> int:
    """How many rows a batch had; Spark Connect says so source by source alone."""
    total = progress["numInputRows"]
    return sum(int(each["numInputRows"]) for each in progress["sources"]) if total is None else int(total)


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if any(word in line for word in _PASSES)]
    return (named or lines or [type(error).__name__])[-1]


def _tell(text: str) -> None:
    print(f"moldau.spark: {text}", file=sys.stderr, flush=True)
