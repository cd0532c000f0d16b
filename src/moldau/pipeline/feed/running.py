"""Runs a pipeline whose source is a table: batch after batch of its feed, from the checkpoint, at least once.

A batch is noted in the checkpoint, read, judged, written, and put into the books; cut off anywhere, it is run again as
it was noted, and its records carry the same marks. Read next: planning.py, ../batches.py, ../running.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.pipeline.batches import ForeachBatch
from moldau.pipeline.books import AnotherRun, BookLine
from moldau.pipeline.clusters import cluster_of
from moldau.pipeline.durations import seconds
from moldau.pipeline.feed.changes import ChangeFeed, FeedError, PlannedBatch, VersionSlice
from moldau.pipeline.feed.checkpoint import CheckpointedBatch, FeedCheckpoint
from moldau.pipeline.feed.open import open_feed
from moldau.pipeline.feed.planning import BATCH_MOST, check_table, plan
from moldau.pipeline.feed.positions import first_position
from moldau.pipeline.feed.rows import rows_of
from moldau.pipeline.folder import PipelineFolder
from moldau.pipeline.running import Ended, Runner
from moldau.pipeline.spec import Pipeline, TopicSink
from moldau.spark.supervise import may_pass
from moldau.spark.tables import BatchKey

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TRIES = 5
_PAUSE_S = 1.0
_PAUSE_MOST_S = 60.0


class FeedRunner(Runner):
    """A pipeline over a table's feed, and the process that runs it."""

    def _refuse_damage(self) -> None:
        """The checkpoint is ours, and read by ``FeedCheckpoint``, which says itself what is wrong."""

    def _clusters(self) -> list[str]:
        pipeline = self._pipeline
        others = [sink.cluster for sink in pipeline.sinks if isinstance(sink, TopicSink) and sink.cluster is not None]
        ours = [cluster_of(pipeline)] if self._needs_ours() else []
        return list(dict.fromkeys([*ours, *others]))

    def _needs_ours(self) -> bool:
        pipeline = self._pipeline
        topics = [sink.cluster for sink in pipeline.sinks if isinstance(sink, TopicSink)]
        return None in topics or pipeline.dead_letters.topic is not None

    def _batches(self) -> ForeachBatch:
        pipeline = self._pipeline
        return ForeachBatch(
            pipeline,
            None,
            self.folder.books,
            cluster_of(pipeline) if self._needs_ours() else "",
            checkpoint=self.folder.checkpoint,
            modules=None if self._file is None else self._file.parent,
            on_line=self._took,
            store=self.folder.store,
        )

    def _round(self, spark: SparkSession, batches: ForeachBatch) -> Ended | None:
        source = self._pipeline.source.feed
        assert source is not None, "a pipeline over a table"
        feeding = Feeding(self._pipeline, self.folder, open_feed(source), spark, batches)
        until = feeding.newest() if self._once else None
        failures = 0
        while not self._stop.is_set():
            try:
                took = feeding.step(until)
            except Exception as error:
                if batches.refused is not None:
                    if not batches.refused.pauses:
                        raise
                    return None
                failures += 1
                if failures > _TRIES or not may_pass(error):
                    raise
                pause = min(_PAUSE_MOST_S, _PAUSE_S * 2 ** (failures - 1))
                self._say(f"the batch is run again in {pause:g} s: {type(error).__name__}")
                self._stop.wait(pause)
                continue
            failures = 0
            if not took:
                if self._once:
                    return Ended.DONE
                self._stop.wait(seconds(self._pipeline.every))
        return Ended.STOPPED


class Feeding:
    """The batches of a feed, one after the other."""

    def __init__(
        self, pipeline: Pipeline, folder: PipelineFolder, feed: ChangeFeed, spark: SparkSession, batches: ForeachBatch
    ) -> None:
        source = pipeline.source.feed
        assert source is not None, "a pipeline over a table"
        self._pipeline, self._source, self._folder, self._feed = pipeline, source, folder, feed
        self._spark, self._batches = spark, batches
        self._checkpoint = FeedCheckpoint(folder)

    def newest(self) -> int:
        return self._feed.newest()

    def step(self, until: int | None = None) -> bool:
        """Take one batch, of versions up to ``until``; False when there is none."""
        query, noted = self._checkpoint.query(), self._checkpoint.newest()
        if noted is not None and not is_booked(self._folder, query, noted.number):
            self._take(query, noted, again(self._feed, self._pipeline, noted))
            return True
        planned = next_batch(self._pipeline, self._folder, self._feed, noted, until)
        if planned is None:
            return False
        noted = CheckpointedBatch(0 if noted is None else noted.number + 1, planned.start, planned.end, planned.schema)
        if not self._checkpoint.add(noted):
            raise AnotherRun(f"batch {noted.number} was noted in the checkpoint by another run of this pipeline")
        self._take(query, noted, planned)
        return True

    def _take(self, query: str, noted: CheckpointedBatch, planned: PlannedBatch) -> BookLine:
        key = BatchKey(query, noted.number, (noted.start.to_json(),), (noted.end.to_json(),))
        self._folder.books.follows(query, noted.number)
        rows = rows_of(self._spark, planned, self._source.name, self._source.keys)
        return self._batches.take(rows, key, str(self._folder.books.next()))


def is_booked(folder: PipelineFolder, query: str, number: int) -> bool:
    """Whether the books have a batch of this checkpoint."""
    line = folder.books.newest_of_stream()
    return line is not None and line.query == query and line.batch >= number


def next_batch(
    pipeline: Pipeline,
    folder: PipelineFolder,
    feed: ChangeFeed,
    noted: CheckpointedBatch | None,
    until: int | None = None,
) -> PlannedBatch | None:
    """What follows the batch that was noted last; of a new checkpoint, what follows the pipeline's start."""
    source = pipeline.source.feed
    assert source is not None, "a pipeline over a table"
    at = first_position(pipeline, folder, feed) if noted is None else noted.end
    if noted is None and (folder.start() or pipeline.source.start) == "latest":
        FeedCheckpoint(folder).keep_latest(at)
    most = pipeline.source.max_records or BATCH_MOST
    return plan(feed, source, at, None if noted is None else noted.schema, most, until=until)


def again(feed: ChangeFeed, pipeline: Pipeline, noted: CheckpointedBatch) -> PlannedBatch:
    """A batch as it was noted: versions do not change, so the same number of rows from the same place is the same."""
    source = pipeline.source.feed
    assert source is not None, "a pipeline over a table"
    check_table(feed, noted.start)
    slices: list[VersionSlice] = []
    at = noted.start
    while at != noted.end:
        until = noted.end.done if noted.end.at is None else noted.end.at
        planned = plan(feed, source, at, noted.schema, noted.end.rows - at.rows, until=until)
        if planned is None or (planned.rows == 0 and planned.end.done == at.done):
            raise FeedError(f"{feed.name}: what was planned for batch {noted.number} is there no more")
        slices, at = [*slices, *planned.slices], planned.end
    return PlannedBatch(noted.start, noted.end, noted.schema, slices)


def runner(
    pipeline: Pipeline,
    *,
    file: Path | None = None,
    once: bool = False,
    say: Callable[[str], None] = lambda text: None,
    on_line: Callable[[BookLine], None] = lambda line: None,
    session: Callable[[Pipeline], SparkSession] | None = None,
) -> Runner:
    """What runs the pipeline, be its source topics or a table."""
    kind = Runner if pipeline.source.feed is None else FeedRunner
    return kind(pipeline, file=file, once=once, say=say, on_line=on_line, session=session)
