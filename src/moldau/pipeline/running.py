"""Runs a pipeline: a Spark stream over its source, supervised, from its checkpoint; one process at a time.

A query that ended for a reason that may pass is begun again (``moldau.spark.run``). A batch with a record whose policy
is ``pause`` is tried again, after pauses that double up to a minute, with the file read anew when it was changed.
Read next: batches.py (what is done with a batch), folder.py (what is kept).
"""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import Enum
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, TypeVar

from moldau.client.addresses import addresses
from moldau.client.client import ClientOptions
from moldau.model.protocol import Protocol
from moldau.pipeline.absent import absent_topics
from moldau.pipeline.batches import ForeachBatch, RefusedBatch
from moldau.pipeline.beginning import begins_at
from moldau.pipeline.books import BookLine
from moldau.pipeline.checkpoints import damage
from moldau.pipeline.clusters import NoCluster, cluster_of
from moldau.pipeline.decode.plan import plan_decode
from moldau.pipeline.durations import seconds
from moldau.pipeline.folder import BrokenPipelineFile, PipelineFolder
from moldau.pipeline.lost import refuse_contradictions, refuse_lost_checkpoint
from moldau.pipeline.maintaining import Maintaining
from moldau.pipeline.reading import PipelineError, load
from moldau.pipeline.said import FAULTS, PartFailed, first_line, is_own, words
from moldau.pipeline.same_place import refuse_same_places
from moldau.pipeline.source_options import source_options
from moldau.pipeline.spec import Pipeline, Source, TopicSink
from moldau.spark.local import java_has_ended

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PAUSE_S = 1.0
PAUSE_MOST_S = 60.0
REACH_S = 30.0
"""How long one round waits for a broker to take a connection, and for leaders of what it reads; a run without end waits
as long as it takes."""
RESTARTS_ONCE = 1
"""How often one round is begun again by an error that may pass: what has called it calls it again."""


_LOOK_MS = 5_000
_LOOK_AT_STOP_S = 0.1
Found = TypeVar("Found")
Edition = tuple[int, int, int]
"""When a file was changed, its size, and its inode: two edits may be of one time, as a file system counts it."""


class Ended(Enum):
    """How a run ended."""

    DONE = "done"
    """All that was there when it began is written (``once``)."""
    STOPPED = "stopped"
    """Somebody asked it to."""
    PAUSED = "paused"
    """A record cannot be taken, and only one round was asked for."""


class JavaEnded(RuntimeError):
    """Spark's Java process has ended under a run, of which its own error says no more than that nobody answers."""

    def __init__(self) -> None:
        super().__init__(
            "Spark's Java process has ended: it was killed, or had no memory left (spark.driver.memory, by --conf)."
            " The next run takes the batch under way again"
        )


class Stoppable(Protocol):
    """What runs until it is stopped."""

    def stop(self) -> None: ...


class Runner:
    """A pipeline and the process that runs it.

    ``file`` is read again when it was changed while the pipeline is paused. ``say`` is called with a sentence for
    each batch and change of state, ``on_line`` with the books' line of each batch.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        file: Path | None = None,
        once: bool = False,
        say: Callable[[str], None] = lambda text: None,
        on_line: Callable[[BookLine], None] = lambda line: None,
        session: Callable[[Pipeline], SparkSession] | None = None,
    ) -> None:
        self._pipeline, self._file, self._once = pipeline, file, once
        self._edition = self._changed()  # not later: Spark's start takes long enough for an edit
        self._say, self._on_line = say, on_line
        self._session = session or session_of
        self._stop = threading.Event()
        self._why = ""
        """What the run waits for, or why it is paused."""
        self._maintaining: tuple[Pipeline, Maintaining] | None = None
        """The maintenance of the tables, with the pipeline it was made for: a file that is read again gives another."""
        self._publishes = False
        """Whether the Spark session has the listener that commits positions for group tools."""
        self.folder = PipelineFolder(pipeline)

    def stop(self) -> None:
        """End after the step that is under way; for a signal handler or another thread."""
        self._stop.set()

    def run(self) -> Ended:
        """Run until it is stopped; with ``once``, until all is written that was there at the beginning.

        IsRunning when another process has the pipeline; SamePlaceError, DecodeError, OptionError, RefusedBatch (a
        policy of ``fail``), StreamingQueryException and others when it cannot go on.
        """
        refuse_same_places(self._pipeline)
        with self.folder.locked():
            try:
                self._refuse_damage()
                refuse_lost_checkpoint(self._pipeline, self.folder)
                refuse_contradictions(self.folder)
                self.folder.say("running")
                with self._beside():
                    found = self._rounds()
            except KeyboardInterrupt:  # the second one: whoever stops us does not wait for the step under way
                self.folder.say_if_possible("stopped", "interrupted: the next run takes the batch under way again")
                raise
            except BaseException as error:
                told = JavaEnded() if isinstance(error, Exception) and java_has_ended() else error
                self.folder.say_if_possible("failed", words(told))
                if told is error:
                    raise
                raise told from error
            self.folder.say(found.value, "" if found is not Ended.PAUSED else self._why)
            return found

    def _refuse_damage(self) -> None:
        """BrokenPipelineFile where Spark could not read the checkpoint."""
        if (damaged := damage(self.folder.store)) is not None:
            raise BrokenPipelineFile(damaged)

    def _beside(self) -> AbstractContextManager[object]:
        """What goes on beside the batches: groups whose offsets are translated."""
        from moldau.pipeline.groups import Translating

        pipeline = self._pipeline
        if not any(isinstance(sink, TopicSink) and sink.groups for sink in pipeline.sinks):
            return nullcontext()
        every_s = seconds(pipeline.every)
        return Translating(pipeline, self.folder, cluster_of(pipeline), every_s=every_s, say=self._say)

    def _clusters(self) -> list[str]:
        """The clusters without which a run cannot begin."""
        return [cluster_of(self._pipeline)]

    def _await_cluster(self, cluster: str) -> None:
        """Wait until a broker takes a connection.

        Spark's query would try on for minutes, and nobody would hear of it.
        """
        said = f"no broker takes connections at {cluster}"
        self._await(lambda: None if any(map(_takes_connections, addresses(cluster))) else said)

    def _await_leaders(self) -> None:
        """Wait until each partition of the source has a leader: no batch can be planned before."""
        source = self._pipeline.source
        if source.topics or source.pattern is not None:
            cluster = cluster_of(self._pipeline)
            self._await(lambda: leaderless(cluster, source))

    def _await(self, lacking: Callable[[], str | None]) -> None:
        """Wait until nothing is lacking, and say what is; NoCluster when one round has waited long enough."""
        begun = time.monotonic()
        while not self._stop.is_set() and (what := lacking()) is not None:
            if self._once and time.monotonic() > begun + REACH_S:
                raise NoCluster(f"pipeline {self._pipeline.name}: {what}")
            if not self._why:
                self._why = f"{what}; it is waited for"
                self._say(self._why)
                self.folder.say("running", self._why)
            self._stop.wait(1.0)
        if self._why:
            self._why = ""
            self.folder.say("running")

    def _rounds(self) -> Ended:
        for cluster in self._clusters():
            self._await_cluster(cluster)
        self._await_leaders()
        if self._stop.is_set():
            return Ended.STOPPED
        for name, how in absent_topics(self._pipeline).items():
            self._say(f"topic {name} {how}")
        spark, turn = self._session(self._pipeline), 0
        while not self._stop.is_set():
            batches = self._batches()
            if batches is None:
                break
            finished = self._round(spark, batches)
            if finished is not None:
                if finished is Ended.DONE:  # perhaps without a batch
                    self._maintain()
                return finished
            refused = batches.refused
            assert refused is not None, "a round ends finished, refused, or by an error"
            self._why = str(refused)
            if self._once:
                return Ended.PAUSED
            pause, turn = min(PAUSE_MOST_S, PAUSE_S * 2**turn), turn + 1
            self.folder.say("paused", str(refused))
            again = f"It is tried again in {pause:g} s, with {self._file or 'the file'} as it is then."
            self._say(f"paused: {refused} {again}")
            self._stop.wait(pause)
            if self._changed() != self._edition:
                self._edition, turn = self._read_again(), 0
            self.folder.say("running")
        return Ended.STOPPED

    def _round(self, spark: SparkSession, batches: ForeachBatch) -> Ended | None:
        """Run the query until it ends; None when a batch was refused by a policy that pauses."""
        from moldau.spark.supervise import BEGINNINGS, run

        query: list[StreamingQuery] = []

        def begin() -> StreamingQuery:
            query[:] = [self._begin(spark, batches)]
            return query[0]

        try:
            run(begin, until=self._stop.is_set, restarts=RESTARTS_ONCE if self._once else BEGINNINGS)
        except Exception as error:
            if self._stop.is_set():  # whoever stopped us stopped Spark's processes too, as a service's stop does
                self._say(f"stopped; the next run takes the batch under way again ({first_line(error)})")
                return Ended.STOPPED
            if batches.refused is None:
                told = batches.failed
                if told is not None and (is_own(told) or type(told) in FAULTS) and str(told) in str(error):
                    raise told from None  # Spark's words around it help nobody
                if str(error).startswith("java.io."):  # outside of batches Spark writes nothing but its checkpoint
                    raise PartFailed(f"checkpoint {self.folder.checkpoint}: {first_line(error)}") from error
                raise
            if not batches.refused.pauses:
                raise batches.refused from None
            return None
        finally:
            self._end(query)
        return Ended.STOPPED if self._stop.is_set() else Ended.DONE

    def _end(self, query: Sequence[StreamingQuery]) -> None:
        """Stop a query that still runs; when it is to stop anyway, Spark may be gone already."""
        try:
            if query and query[0].isActive:
                query[0].stop()
        except Exception:  # of any class: py4j's, Spark's or a socket's, as whoever stopped us ended Spark
            if not self._stop.is_set():
                raise

    def _begin(self, spark: SparkSession, batches: ForeachBatch) -> StreamingQuery:
        pipeline = self._pipeline
        cluster = cluster_of(pipeline)
        options = source_options(pipeline, cluster, start=begins_at(pipeline, self.folder, cluster))
        rows = spark.readStream.format("moldau").options(**options).load()
        stream = rows.writeStream.queryName(pipeline.name).option("checkpointLocation", self.folder.checkpoint)
        stream = stream.foreachBatch(batches)
        if self._once:
            return stream.trigger(availableNow=True).start()
        return stream.trigger(processingTime=f"{round(seconds(pipeline.every) * 1000)} milliseconds").start()

    def _batches(self) -> ForeachBatch | None:
        """What writes batches; None when we are stopped while a registry is asked."""
        pipeline = self._pipeline
        self._publish(pipeline)
        decoding = unless_stopped(lambda: plan_decode(pipeline.decode, pipeline.source.topics), self._stop)
        if decoding is None:
            return None
        return ForeachBatch(
            pipeline,
            decoding,
            self.folder.books,
            cluster_of(pipeline),
            checkpoint=self.folder.checkpoint,
            modules=None if self._file is None else self._file.parent,
            on_line=self._took,
            store=self.folder.store,
        )

    def _took(self, line: BookLine) -> None:
        """A batch is in the books: tell of it, and maintain the tables that are due before the next one begins."""
        self._on_line(line)
        self._maintain()

    def _maintain(self) -> None:
        if self._maintaining is None or self._maintaining[0] is not self._pipeline:
            made = Maintaining(self._pipeline, self.folder, say=self._say, stopping=self._stop.is_set)
            self._maintaining = (self._pipeline, made)
        self._maintaining[1].look()

    def _publish(self, pipeline: Pipeline) -> None:
        """Show positions to group tools, once for the life of the session."""
        if pipeline.publish_group is None or self._publishes:
            return
        from moldau.spark.publish import PublishPositions

        spark, self._publishes = self._session(pipeline), True
        spark.streams.addListener(PublishPositions(cluster_of(pipeline), pipeline.publish_group, pipeline.name))

    def _changed(self) -> Edition | None:
        """Which edition of the file is there, None without a file, or where it is not there."""
        try:
            now = None if self._file is None else self._file.stat()
        except OSError:  # an editor that puts a new file in its place
            return None
        return None if now is None else (now.st_mtime_ns, now.st_size, now.st_ino)

    def _of_our_folder(self, found: Pipeline) -> Pipeline:
        """The pipeline; PipelineError when it has another folder: this run goes on with its own checkpoint."""
        ours = self._pipeline.folder
        if found.folder != ours:
            raise PipelineError(
                f"its folder is now {found.folder}, and this run is of {ours}: stop it, and run it again"
            )
        return found

    def _read_again(self) -> Edition | None:
        """Take the file as it is now, and say which edition it is. One with errors, as it may be half edited, is told
        once and waited for."""
        assert self._file is not None, "without a file nothing changes"
        told = ""
        while not self._stop.is_set():
            changed = self._changed()
            try:
                self._pipeline = self._of_our_folder(sound(self._file))
            except (PipelineError, OSError) as error:
                if str(error) != told:
                    told = str(error)
                    self._say(f"{self._file} has changed and cannot be taken; it is waited for:\n{told}")
                    self.folder.say("paused", f"{self._why} The file cannot be taken: {told}")
                self._stop.wait(PAUSE_S)
                continue
            self._say(f"{self._file} has changed and is read again")
            return changed
        return None


def sound(file: Path) -> Pipeline:
    """The pipeline of a file; PipelineError with every error that the linter finds, OSError where it is not there."""
    from moldau.pipeline.lint import lint_file

    if wrong := [one for one in lint_file(file) if one.error]:
        raise PipelineError("\n".join(one.to_text(str(file)) for one in wrong))
    return load(file)


def leaderless(cluster: str, source: Source) -> str | None:
    """Which partitions of the source have no leader, as a sentence; None where all have one, or nobody tells."""
    from moldau.client.sync import Cluster
    from moldau.spark.options import java_pattern

    try:
        with Cluster(cluster, options=ClientOptions(api_timeout_ms=_LOOK_MS)) as found:
            topics = found.topics(source.topics or None)
    except (OSError, RefusedBatch):
        return None
    if source.pattern is not None:
        matches = java_pattern(source.pattern).search
        topics = {name: one for name, one in topics.items() if matches(name)}
    all_of_them = [(name, number, part) for name, one in topics.items() for number, part in one.partitions.items()]
    parts = [(name, number) for name, number, part in all_of_them if part.leader < 0]
    if not parts:
        return None
    named = ", ".join(f"{name}-{number}" for name, number in sorted(parts)[:3])
    more = f" and {len(parts) - 3} more" if len(parts) > 3 else ""
    return f"{named}{more}: no leader, so no batch can be planned; `moldau topic describe {min(parts)[0]}` shows why"


def _takes_connections(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, 2.0).close()
    except OSError:
        return False
    return True


def session_of(pipeline: Pipeline, conf: Mapping[str, str] | None = None) -> SparkSession:
    """The session of the program, or a new one with ``conf`` besides, of which ``spark.master`` may be one."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    from moldau.spark.local import session, tell_once

    begun = session(pipeline.name, conf={"spark.sql.adaptive.enabled": "false", **(conf or {})})
    tell_once(begun)
    return begun


def unless_stopped(action: Callable[[], Found], stop: threading.Event) -> Found | None:
    """What the action gives or raises; None when it still goes on as we are stopped: its thread is left to end alone.

    Only for what changes nothing.
    """
    ended: Future[Found] = Future()

    def act() -> None:
        try:
            ended.set_result(action())
        except BaseException as error:  # whatever it is, it belongs to whoever asked
            ended.set_exception(error)

    threading.Thread(target=act, name="pipeline-planning", daemon=True).start()
    while not wait([ended], _LOOK_AT_STOP_S).done:
        if stop.is_set():
            return None
    return ended.result()


@contextmanager
def stopped_by_signals(runner: Stoppable) -> Iterator[None]:
    """SIGTERM and the first Ctrl-C end the runner in good order."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        runner.stop()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {one: signal.signal(one, stop) for one in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


__all__ = ["Ended", "NoCluster", "RefusedBatch", "Runner", "cluster_of", "stopped_by_signals"]
