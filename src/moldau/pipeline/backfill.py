"""Reads a range of the source into the sinks of a pipeline, beside what its stream reads: what lay before it began.

A backfill is planned before it is carried out: ``backfills/N.json`` has its batches, so that one that was cut off is
finished first, with the same batches. It has a name of its own in the tables' ledgers, as a replay has, and lines in
the books. What the pipeline has read, or will read by itself, is refused unless it is wanted again.
Read next: ranges.py (the arithmetic), batches.py (what is done with a batch).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.model import NO_UUID, TopicPartition, uuid_text
from moldau.pipeline import books
from moldau.pipeline.batches import ForeachBatch
from moldau.pipeline.begun import BegunBatch, refuse_while_cut_off, told_of_abandon
from moldau.pipeline.books import BookLine
from moldau.pipeline.checkpoints import query_of
from moldau.pipeline.clusters import cluster_of
from moldau.pipeline.decode.plan import plan_decode
from moldau.pipeline.feed.open import refuse_feed
from moldau.pipeline.folder import PipelineFolder
from moldau.pipeline.plans import name_of, next_number, plans
from moldau.pipeline.ranges import (
    FOREVER,
    Span,
    beyond_the_end,
    ends,
    first_gap,
    overlap,
    partitions,
    pieces,
    starts,
    taken,
)
from moldau.pipeline.resetting import let_in
from moldau.pipeline.source_options import asked_once, source_options
from moldau.pipeline.spec import Pipeline
from moldau.spark.given import OptionError
from moldau.spark.offsets import Positions
from moldau.spark.pin import kept_at
from moldau.spark.start import EARLIEST, LATEST, AtTime, Explicit, OfGroup, Start
from moldau.spark.tables import BatchKey

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from moldau.spark.planner import Planner

_FOLDER = "backfills"
_BROKEN = (
    "a backfill ({error}); restore it, or remove it: what the books have of it stays, and the rest of its range is not "
    "read"
)
_BATCH_MOST = 100_000
_NOT_OF_A_RANGE = (
    "initialOffsetsLocation", "maxOffsetsPerTrigger", "maxBytesPerTrigger", "subscribe", "subscribePattern",
)  # fmt: skip


class BackfillError(Exception):
    """A range that cannot be read, or that would be read twice; the message says which."""


@dataclass(frozen=True, slots=True)
class BackfillSpans:
    """A range that may be read: the spans, what of them the pipeline has read or will read, where a pipeline that has
    not begun yet goes on after it, what of the range has expired, the topics that were asked for, if not all, the
    line of the books that came next when it was looked at, None where nobody looked, and the ids of the topics then."""

    spans: Sequence[Span]
    again: Sequence[Span]
    go_on: str | None
    expired: Sequence[Span] = ()
    topics: Sequence[str] = ()
    line: int | None = None
    topic_ids: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(one.size for one in self.spans)


@dataclass(frozen=True, slots=True)
class PlannedBackfill:
    """A backfill: its number, the number of its first batch, the batches, the line of the books that came next, and the
    ids of the topics whose offsets these are, as far as they were known."""

    number: int
    first: int
    batches: Sequence[Sequence[Span]]
    line: int
    done: bool = False
    abandoned: bool = False
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def waits(self) -> bool:
        return not self.done and not self.abandoned


@dataclass(frozen=True, slots=True)
class PlanFile:
    """The file of a plan; a batch is its spans, each (topic, partition, start, end)."""

    number: int
    first: int
    line: int
    batches: Sequence[Sequence[tuple[str, int, int, int]]]
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    """None in plans of before this was kept."""


class Backfills:
    """The backfills of one pipeline."""

    def __init__(self, pipeline: Pipeline, folder: PipelineFolder) -> None:
        refuse_feed(pipeline, "a backfill or replay of a range")
        self._pipeline, self._folder = pipeline, folder
        self._begun_here: int | None = None

    def wanted(self, start: str, end: str | None, topics: Sequence[str] = ()) -> BackfillSpans:
        """What lies between two positions (as in ``start`` of the file, or a time like 2026-11-23T12:00:00Z), of all
        topics or some; without ``end``, up to what the pipeline has read or will read. OptionError, BackfillError,
        Unreachable."""
        planner, line = self._planner(topics), self._folder.books.next()
        try:
            there = planner.existing()
            low, high = (planner.edge(which, there).offsets for which in (EARLIEST, LATEST))
            begin = self._position(start, planner, there, low, "from")
            # The end as it is now: records may have come since `high`, and of a time near now it is the end.
            if past := beyond_the_end(begin, planner.edge(LATEST, there).offsets):
                raise BackfillError(f"--from {start}: that is beyond the end: {past}")
            never_ran = self._never_ran() and not topics
            there_now = [] if never_ran else self._taken(planner, there, low)
            if end is not None:
                stop = self._position(end, planner, there, begin, "to")
            elif there_now:
                gaps = {source: first_gap(source, at, there_now) for source, at in begin.items()}
                begin, stop = (
                    {source: getattr(one, name) for source, one in gaps.items()} for name in ("start", "end")
                )
            else:
                raise BackfillError("the pipeline has read nothing yet: say how far, with --to")
        finally:
            planner.line.close()
        spans = [
            Span(source, max(low[source], begin[source]), min(high[source], stop[source])) for source in sorted(low)
        ]
        spans = [one if one.size else Span(one.source, one.start, one.start) for one in spans]
        gone = [Span(source, begin[source], min(low[source], stop[source])) for source in sorted(low)]
        go_on = ends(spans) if never_ran else None
        return BackfillSpans(
            spans, overlap(spans, there_now), go_on, [one for one in gone if one.size], tuple(topics), line,
            there.topic_ids,
        )  # fmt: skip

    def _refuse_read_meanwhile(self, wanted: BackfillSpans) -> None:
        """BackfillError where more of it was read, or will be, than when it was looked at: nobody kept others from the
        pipeline while somebody was asked."""
        more = wanted.go_on is not None and not self._never_ran()
        if wanted.go_on is None and wanted.line not in (None, self._folder.books.next()):
            planner = self._planner(wanted.topics)
            try:
                there = planner.existing()
                now = overlap(wanted.spans, self._taken(planner, there, planner.edge(EARLIEST, there).offsets))
            finally:
                planner.line.close()
            more = sum(one.size for one in now) > sum(one.size for one in wanted.again)
        if more:
            raise BackfillError("the pipeline has read more since this was looked at: nothing was done, look again")

    def carry_out(
        self, spark: SparkSession, wanted: BackfillSpans, *, modules: Path | None, on_line: Callable[[BookLine], None]
    ) -> None:
        """Finish a backfill that was cut off, if there is one, then read what is wanted; Refused as in a run,
        BackfillError where more of it was read since it was looked at."""
        self.finish(spark, modules=modules, on_line=on_line)
        if not wanted.size:
            return
        self._refuse_read_meanwhile(wanted)
        refuse_while_cut_off(self._pipeline, self._folder, "a backfill")
        if wanted.go_on is not None:
            self._folder.begin_at(wanted.go_on)
        before = self.planned()
        number = next_number(self._folder.store, _FOLDER)
        begun = BegunBatch(self._folder.store, books.BACKFILL).note()  # also of a plan that is gone
        last = begun.batch if begun is not None and begun.query == self.query() else -1
        first = max((one.first + len(one.batches) for one in before), default=0)
        found = pieces(wanted.spans, self._pipeline.source.max_records or _BATCH_MOST)
        content = {
            "number": number, "first": max(first, last + 1), "line": self._folder.books.next(),
            "batches": [[[one.source.topic, one.source.partition, one.start, one.end] for one in each]
                        for each in found],
            "topic_ids": {topic: uuid_text(id) for topic, id in wanted.topic_ids.items() if id != NO_UUID},
        }  # fmt: skip
        self._folder.store.put_if_absent(f"{_FOLDER}/{number:09d}.json", json.dumps(content).encode())
        self._begun_here = number
        self.finish(spark, modules=modules, on_line=on_line)

    def finish(self, spark: SparkSession, *, modules: Path | None, on_line: Callable[[BookLine], None]) -> None:
        """Carry out what is planned and not done."""
        known = self._begun_here
        for one in self.planned():
            if one.waits and one.number == known:
                self._finish(spark, one, modules, on_line)
            elif one.waits:
                with told_of_abandon(f"backfill {one.number}"):
                    self._finish(spark, one, modules, on_line)

    def planned(self) -> list[PlannedBackfill]:
        """Every backfill so far, in order."""
        found = [
            PlannedBackfill(
                plan.number,
                plan.first,
                [_spans(each) for each in plan.batches],
                plan.line,
                done,
                abandoned,
                plan.topic_ids,
            )
            for plan, done, abandoned in plans(self._folder.store, _FOLDER, PlanFile, _BROKEN)
        ]
        return sorted(found, key=lambda one: one.number)

    def _finish(
        self, spark: SparkSession, planned: PlannedBackfill, modules: Path | None, on_line: Callable[[BookLine], None]
    ) -> None:
        pipeline, folder = self._pipeline, self._folder
        query, written = self.query(), self._written(planned)
        as_backfill = replace(pipeline, name=f"{pipeline.name}.{books.BACKFILL}")
        let_in(as_backfill, folder, query)
        batches = ForeachBatch(
            as_backfill,
            plan_decode(pipeline.decode, pipeline.source.topics),
            folder.books,
            cluster_of(pipeline),
            checkpoint=folder.checkpoint,
            modules=modules,
            on_line=on_line,
            kind=books.BACKFILL,
            store=folder.store,
        )
        for number, spans in enumerate(planned.batches, planned.first):
            if number in written:
                batches.written_before(spark, BatchKey(query, number))
                continue
            self._refuse_made_anew(planned)
            options = source_options(pipeline, cluster_of(pipeline), start=starts(spans))
            options = {name: value for name, value in options.items() if name not in _NOT_OF_A_RANGE}
            # Partitions by name: what a topic has got since this was planned is none of it.
            options |= {"assign": partitions(spans), "endingOffsets": ends(spans)}
            records = spark.read.format("moldau").options(**options).load()
            covered = BatchKey(query, number, (starts(spans),), (ends(spans),))
            batches.take(records, BatchKey(query, number), f"backfill-{number}", covered=covered)
        folder.store.write(f"{_FOLDER}/{planned.number:09d}.done", b"")

    def _refuse_made_anew(self, planned: PlannedBackfill) -> None:
        """BackfillError where a topic is another one than when this was planned: its offsets name other records, which
        the stream has read, or will."""
        if not planned.topic_ids:
            return
        planner = self._planner(())
        try:
            now = planner.partitions().topic_ids
        finally:
            planner.line.close()
        told = {topic: uuid_text(id) for topic, id in now.items() if id != NO_UUID}
        anew = [topic for topic, id in planned.topic_ids.items() if told.get(topic, id) != id]
        if anew:
            raise BackfillError(
                f"backfill {planned.number}: topic {', '.join(sorted(anew))} was made anew since this was planned, and "
                "its offsets name other records now: `moldau pipeline abandon FILE` gives the rest of it up"
            )

    def next_of(self, planned: PlannedBackfill) -> int | None:
        """The batch of a plan that comes next, None when all are in the books."""
        written = self._written(planned)
        numbers = range(planned.first, planned.first + len(planned.batches))
        return next((number for number in numbers if number not in written), None)

    def _written(self, planned: PlannedBackfill) -> set[int]:
        """The batches that are in the books."""
        kept, query = self._folder.books, self.query()
        lines = [kept.line(number) for number in range(planned.line, kept.next())]
        return {line.batch for line in lines if line is not None and line.query == query}

    def query(self) -> str:
        """The name of this folder's backfills: numbers begin anew in another folder, and must not be taken for these
        by a table that both fill."""
        return name_of(self._folder.store, _FOLDER, "backfill")

    def _never_ran(self) -> bool:
        """Whether nothing says yet where the pipeline begins, so that a backfill of all topics may say it."""
        folder = self._folder
        return folder.books.last() is None and folder.start() is None and not folder.has_checkpoint()

    def _taken(self, planner: Planner, there: Positions, low: Mapping[TopicPartition, int]) -> list[Span]:
        """What the pipeline has read, and what it will read when it runs: from the first batch of its checkpoint on
        where the books have that, else from where it is to begin."""
        folder, last = self._folder, self._folder.books.last()
        lines = (
            []
            if last is None
            else [line for n in range(last.sequence + 1) if (line := folder.books.line(n)) is not None]
        )
        newest = None if last is None else last.totals.newest
        query = query_of(folder.store) if folder.has_checkpoint() else None
        if newest is not None and newest[0] == query:
            found = taken(lines, query, there.topic_ids)
            known = {one.source for one in found if one.end == FOREVER}
            return [*found, *(Span(source, 0, FOREVER) for source in low if source not in known)]
        found = taken(lines, None, there.topic_ids)
        if folder.has_lost_checkpoint():  # a run is refused until it is told where to begin
            return found
        begins = self._begins(planner, there, low)
        return [*found, *(Span(source, begins.get(source, 0), FOREVER) for source in low)]

    def _begins(
        self, planner: Planner, there: Positions, low: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int]:
        """Where a stream without a batch in the books begins: where it has begun, if it moves, else as it is told."""
        options = planner.options
        location = options.initial_offsets_location
        if location is not None and (kept := kept_at(location, options.location_settings)) is not None:
            return kept.offsets
        start = options.start
        if isinstance(start, Explicit):
            start = Explicit({**low, **{one: at for one, at in start.offsets.items() if one in low}})
        return planner.resolve(start, there, "endingOffsets").offsets

    def _position(
        self, text: str, planner: Planner, there: Positions, others: Mapping[TopicPartition, int], name: str
    ) -> dict[TopicPartition, int]:
        """The offsets that a text comes to; partitions that JSON leaves out are at ``others``."""
        start = _start(text, self._pipeline, name)
        if isinstance(start, Explicit):
            unknown = [str(one) for one in start.offsets if one not in others]
            if unknown:
                raise BackfillError(f"--{name}: the source has no {', '.join(unknown)}")
            start = Explicit({**others, **start.offsets})
        if isinstance(start, OfGroup) and not planner.committed(start.group_id, there):
            raise BackfillError(f"--{name} {text}: that group has committed nothing in what the pipeline reads")
        return dict(planner.resolve(start, there, "endingOffsets").offsets)

    def _planner(self, topics: Sequence[str]) -> Planner:
        from moldau.spark.client_feed import open_feed
        from moldau.spark.options import parse
        from moldau.spark.planner import Planner

        pipeline = self._pipeline
        unknown = [one for one in topics if pipeline.source.topics and one not in pipeline.source.topics]
        if unknown:
            raise BackfillError(f"the pipeline does not read {', '.join(unknown)}")
        source = replace(pipeline.source, topics=tuple(topics), pattern=None) if topics else pipeline.source
        options = source_options(replace(pipeline, source=source), cluster_of(pipeline), start=self._folder.start())
        return Planner(asked_once(parse(options, "stream")), open_feed)


def _start(text: str, pipeline: Pipeline, name: str) -> Start:
    """The position of a text: a time, or what ``start`` of the file takes."""
    from moldau.spark.options import parse

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        try:
            return parse(source_options(pipeline, cluster_of(pipeline), start=text), "stream").start
        except OptionError as error:
            raise BackfillError(f"--{name}: {error}, or a time like 2026-11-23T12:00:00Z") from None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return AtTime(round(moment.timestamp() * 1000))


def _spans(batch: Sequence[tuple[str, int, int, int]]) -> list[Span]:
    return [Span(TopicPartition(topic, partition), start, end) for topic, partition, start, end in batch]
