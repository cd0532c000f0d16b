"""What is done with one batch of a pipeline: judged, then dead letters, sinks and books, each of which takes it once.

A crash between any two is mended by running the batch again: what has it already says so. A record whose stage says
``pause`` or ``fail`` ends the batch before anything of it is written. Read next: running.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.pipeline import books, lateness, stages
from moldau.pipeline import columns as names
from moldau.pipeline.begun import ABANDON, BegunBatch, digest, rows_of
from moldau.pipeline.books import BookLine, Books, BookTotals, Count, Drift, SinkRows
from moldau.pipeline.case_only import refuse_case_only
from moldau.pipeline.copied import CopyMarks, logs_of
from moldau.pipeline.dedup import SeenKeys
from moldau.pipeline.expired import log_starts, with_expired
from moldau.pipeline.one_cluster import refuse_one_cluster
from moldau.pipeline.ordering import as_in_the_log, steady
from moldau.pipeline.said import named, one_line
from moldau.pipeline.same_place import refuse_same_places
from moldau.pipeline.sinks import KEPT, Dead, IntoTable, IntoTables, Target, ToTopic, is_written, open_sink
from moldau.pipeline.spec import REPLACED, OnError, Pipeline, TopicSink
from moldau.spark.tables import BatchKey, Table, key_of
from moldau.spark.tables.ledger import same
from moldau.spark.tables.stores import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from moldau.pipeline.decode import Decoding


class RefusedBatch(Exception):
    """A batch with a record that its stage cannot take, by a policy that writes nothing of it."""

    def __init__(self, count: Count) -> None:
        super().__init__(
            f"{count.first}: stage {count.stage!r} cannot take this record: {one_line(count.reason or '')}. "
            f"{count.records} such in this batch, of which nothing was written."
        )
        self.count = count

    @property
    def pauses(self) -> bool:
        return self.count.outcome == OnError.PAUSE.value


class BatchEnded(RuntimeError):
    """Something in a batch asked the whole program to end."""


class ForeachBatch:
    """``foreachBatch`` of a pipeline. ``refused`` is why the last batch was not written, None when it was.

    Without a ``decoding`` batches are the rows of a table's feed.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        decoding: Decoding | None,
        kept: Books,
        cluster: str,
        *,
        checkpoint: str,
        modules: Path | None = None,
        on_line: Callable[[BookLine], None] = lambda line: None,
        kind: str = books.BATCH,
        store: Store | None = None,
    ) -> None:
        refuse_same_places(pipeline)
        self._pipeline, self._decoding, self._books, self._on_line = pipeline, decoding, kept, on_line
        self._checkpoint, self._modules, self._kind, self._cluster = checkpoint, modules, kind, cluster
        self._are_apart = False
        """Whether all clusters told that no topic is read or written under two addresses."""
        stream = kept.newest_of_stream() if kind == books.BATCH else None
        self._sinks: Sequence[Target] = [
            open_sink(
                sink,
                pipeline.name,
                cluster,
                begins_late=kind != books.BATCH or (stream is not None and sink.name not in stream.sinks),
                feed=pipeline.source.feed,
            )
            for sink in pipeline.sinks
        ]
        letters = pipeline.dead_letters
        self._to_topics = letters.topic is not None or any(isinstance(sink, TopicSink) for sink in pipeline.sinks)
        self._dead = None
        if letters.table is not None or letters.topic is not None:
            late = kind != books.BATCH or (stream is not None and stream.dead_in != letters.table)
            self._dead = Dead(letters, pipeline.name, cluster, begins_late=late)
        self._begun = None if store is None else BegunBatch(store, kind)
        self._seen: SeenKeys | None = None
        if pipeline.dedup is not None:
            assert store is not None, "what dedup remembers lies in the pipeline's folder"
            self._seen = SeenKeys(store, pipeline.dedup)
            self._seen.catch_up(kept)
        self._copied = None
        if kind == books.BATCH and any(isinstance(sink, TopicSink) and sink.groups for sink in pipeline.sinks):
            assert store is not None, "marks lie in the pipeline's folder"
            self._copied = CopyMarks(pipeline, store, logs_of)
        self.refused: RefusedBatch | None = None
        self.failed: Exception | None = None
        """What the last batch ended by, as it was raised: Spark passes on a text alone. None when it was written."""

    def __call__(self, records: DataFrame, batch_id: int) -> None:
        self.failed = None
        try:
            with named(f"batch {batch_id}"):
                self._take_next(records, batch_id)
        except Exception as error:
            self.failed = error
            raise
        except BaseException as error:  # it would end the thread that Spark calls us in, and Spark would wait for ever
            self.failed = BatchEnded(f"batch {batch_id} was ended by {type(error).__name__}: {error}")
            raise self.failed from error

    def _take_next(self, records: DataFrame, batch_id: int) -> None:
        key = key_of(records, batch_id, checkpoint=self._checkpoint)
        self._books.follows(key.query_id, key.batch_id)
        line = self._books.booked(key.query_id, key.batch_id)
        if self._copied is not None:
            self._copied.begins(key, self._books.newest_of_stream())
        if line is not None and (not key.end or not line.end or same(key.end, tuple(line.end))):
            self.written_before(records.sparkSession, key)  # every place has it, and Spark had not committed it
        else:
            line = self.take(records, key, str(self._books.next()))
        if self._copied is not None:
            self._copied.ended(line)

    def take(self, records: DataFrame, key: BatchKey, batch: str, *, covered: BatchKey | None = None) -> BookLine:
        """Write a batch, and its line in the books; ``batch`` is what its dead letters call it, as no other batch is
        called. ``covered`` has the offsets for the books where tables are not to compare them. RefusedBatch when a
        policy forbids it."""
        covered = key if covered is None else covered
        self.refused, began = None, time.time()
        pipeline = self._pipeline
        rows = self._judged(records, key).persist()
        try:
            with named("decode and checks"):
                counts, judged = self._counts(rows)
                drift, drift_more = self._drift(rows)
            with named("late"):
                last = self._books.last()
                before = BookTotals() if last is None else last.totals
                late = None if self._kind == books.BACKFILL else pipeline.late
                times = lateness.times(rows, late, before)
            out = self._transformed(rows).persist()
            try:
                with named("transform"):
                    rows_out = out.count()
                self._check_places(out, counts, rows_out)
                if self._begun is not None:
                    columns = out.schema.simpleString()
                    places = partial(self._places, key, counts)
                    sources = sorted({count.topic for count in counts})
                    with named("the folder's note of the batch"):
                        self._begun.begin(key, judged, rows_of(pipeline, columns, rows_out), places, sources)
                if self._seen is not None:
                    with named("dedup"):
                        self._seen.remember(rows, key)
                with named("dlq"):
                    dead = self._bury(rows, counts, key, batch)
                sinks = {sink.name: self._write(sink, out, key, rows_out) for sink in self._sinks}
            finally:
                out.unpersist()
        finally:
            rows.unpersist()
        line = BookLine(
            sequence=-1, kind=self._kind, batch=key.batch_id, query=key.query_id, at_ms=round(began * 1000),
            took_ms=round((time.time() - began) * 1000), start=covered.start, end=covered.end, counts=counts,
            drift=drift, drift_more=drift_more,
            rows_out=rows_out, late=times.late, late_first=times.first, sinks=sinks, dead=dead,
            dead_in=pipeline.dead_letters.table, totals=BookTotals(),
        )  # fmt: skip
        line = self._with_expired(line)
        try:
            books.check(line, [sink.name for sink in self._sinks if sink.exact])
        except books.NotBalanced as error:
            raise books.NotBalanced(f"{error}; {ABANDON}") from None
        with named("books"):
            forget = late is not None and not lateness.allowed(late, before)
            line = self._books.add(line, times.newest, forget=forget)
        if self._seen is not None:
            with named("dedup"):
                self._seen.booked(records.sparkSession, key)
        self._on_line(line)
        return line

    def _with_expired(self, line: BookLine) -> BookLine:
        source = self._pipeline.source
        if source.on_loss != "skip":
            return line  # a task that missed a record has failed
        cluster = source.options.get("kafka.bootstrap.servers") or self._cluster
        with named("what expired meanwhile"):
            return with_expired(line, partial(log_starts, cluster))

    def _judged(self, records: DataFrame, key: BatchKey) -> DataFrame:
        """The records with what becomes of each of them."""
        pipeline, checks = self._pipeline, lateness.checks_of(self._pipeline)
        with named("decode and checks"):
            if self._decoding is None:
                rows = stages.checked(records, REPLACED, OnError.SKIP, checks)
            else:
                rows = stages.judged(records, self._decoding, pipeline.decode.on_error, checks)
        if self._seen is None:
            return rows
        with named("dedup"):
            rows = self._seen.judged(rows, key)
        return as_in_the_log(rows) if self._to_topics else rows

    def written_before(self, spark: SparkSession, key: BatchKey) -> None:
        """The batch is in the books, and is not taken again: what follows its line may be missing."""
        if self._seen is not None:
            self._seen.booked(spark, key)

    def _counts(self, rows: DataFrame) -> tuple[list[Count], str]:
        """How many records of each topic had which outcome at which stage, and a text that tells which ones;
        RefusedBatch when one may not be left out."""
        from pyspark.sql import functions as fn

        place = fn.struct(names.PARTITION, names.OFFSET, names.REASON)
        grouped = rows.groupBy(names.TOPIC, names.OUTCOME, names.STAGE)
        which = fn.bit_xor(fn.xxhash64(names.PARTITION, names.OFFSET)).alias("which")
        there = grouped.agg(fn.count("*").alias("n"), fn.min(place).alias("first"), which).collect()
        found = [
            Count(row[0], row[1], row[2], row["n"], f"{row[0]}-{row['first'][0]}@{row['first'][1]}", row["first"][2])
            for row in there
        ]
        found.sort(key=lambda one: (one.topic, one.outcome, one.stage or ""))
        for policy in (OnError.FAIL, OnError.PAUSE):
            for count in found:
                if count.outcome == policy.value:
                    self.refused = RefusedBatch(count)
                    raise self.refused
        return found, digest(sorted((row[0], row[1], row[2] or "", row["n"], row["which"]) for row in there))

    def _drift(self, rows: DataFrame) -> tuple[list[Drift], int]:
        """The most frequent kinds of drift, and how many records drifted otherwise."""
        from pyspark.sql import functions as fn

        place = fn.struct(names.TOPIC, names.PARTITION, names.OFFSET)
        drifted = rows.where(fn.col(names.DRIFT).isNotNull())
        grouped = drifted.groupBy(names.DRIFT, names.SCHEMA_ID)
        most = grouped.agg(fn.count("*").alias("n"), fn.min(place).alias("first")).orderBy(fn.desc("n"), names.DRIFT)
        found = [
            Drift(row[0], row[1], f"{row['first'][0]}-{row['first'][1]}@{row['first'][2]}", row["n"])
            for row in most.limit(books.DRIFTS_MOST).collect()
        ]
        more = drifted.count() - sum(one.records for one in found) if len(found) == books.DRIFTS_MOST else 0
        return found, more

    def _transformed(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as fn

        ok = rows.where(fn.col(names.OUTCOME) == stages.OK).drop(*names.INNER)
        if self._pipeline.steps:
            out = stages.transformed(ok, self._pipeline.steps, self._modules)
            return steady(out) if self._to_topics else out
        return ok

    def _for(self, sink: Target, out: DataFrame) -> DataFrame:
        """The rows for a sink: a table, in a pipeline without steps, has neither key nor headers."""
        if self._pipeline.steps or isinstance(sink, ToTopic):
            return out
        return out.drop(*(name for name in names.PLACES if name not in KEPT))

    def _check_places(self, out: DataFrame, counts: Sequence[Count], rows_out: int) -> None:
        """TableError where a table would refuse the columns of the rows, TopicAbsent where a topic is not there, before
        anything of the batch is written: it would be half there, and the file as it was before an edit would be
        refused."""
        with named("transform"):
            refuse_case_only(self._pipeline, out.schema)
        self._are_apart = self._are_apart or refuse_one_cluster(self._pipeline, self._cluster)
        sources = sorted({count.topic for count in counts})
        for sink in self._sinks:
            with named(f"sink {sink.name}"):
                sink.check(self._for(sink, out), sources, rows_out)
        if self._dead is not None:
            self._dead.check(_dead(counts))

    def _bury(self, rows: DataFrame, counts: Sequence[Count], key: BatchKey, batch: str) -> int:
        from pyspark.sql import functions as fn

        if self._dead is None:
            return 0
        count = _dead(counts)
        marked = key
        if self._begun is not None:
            marked, topic = self._begun.marked(key), self._pipeline.dead_letters.topic
            if topic is not None and count:
                self._begun.to_topic(key, topic)
        tag = self._books.tag(self._has_dead_letters)
        batch = f"{tag}-{batch}" if tag else batch
        rows = rows.where(fn.col(names.OUTCOME) == OnError.DLQ.value)
        return self._dead.write(rows, key, count, batch, marked=marked)

    def _has_dead_letters(self) -> bool:
        """Whether the table has dead letters of this pipeline, from whatever folder."""
        place = self._pipeline.dead_letters.table
        if place is None:
            return False
        name = self._pipeline.name.removesuffix(f".{self._kind}")
        return is_written(lambda one: Table(place, pipeline=one), name)

    def _write(self, sink: Target, out: DataFrame, key: BatchKey, count: int) -> SinkRows:
        """Write the rows to a sink; what a topic may have from now on is noted before."""
        if self._begun is not None and isinstance(sink, ToTopic):
            if count:
                self._begun.to_topic(key, sink.name)
            key = self._begun.marked(key)
        with named(f"sink {sink.name}"):
            return sink.write(self._for(sink, out), key, count)

    def _places(self, key: BatchKey, counts: Sequence[Count]) -> list[str]:
        """The tables that have the batch. Dead letters alone are taken back: no sink has a record of it yet, so that
        those of this run may take their place."""
        tables = [] if self._dead is None or self._dead.table is None else [self._dead.table]
        for sink in self._sinks:
            if isinstance(sink, IntoTable):
                tables.append(sink.table)
            elif isinstance(sink, IntoTables):
                tables += [sink.tables.table(one) for one in sorted({count.topic for count in counts})]
        there = [one for one in tables if one.last_batch(key.query_id) == key.batch_id]
        alone = len(there) == 1 and self._dead is not None and there[0] is self._dead.table
        if alone and self._begun is not None and not self._begun.note_of(key).topics:
            entry = there[0].last(key.query_id)
            if entry is not None and there[0].take_back(entry):
                return []
        return [str(one.store) for one in there]


def _dead(counts: Sequence[Count]) -> int:
    return sum(one.records for one in counts if one.outcome == OnError.DLQ.value)
